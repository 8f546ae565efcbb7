//! The interfaces, without a network.

use std::sync::{Arc, OnceLock};

use axum::{
    body::{Body, to_bytes},
    http::{Request, StatusCode, header},
};
use serde_json::{Value, json};
use tower::ServiceExt;

use super::router;
use crate::{
    fixture,
    model::ModelSpec,
    options::{Limits, ServerOptions},
    service::Service,
};

/// A server with the test bundle as `en-it` and, for routes with two models, as `it-fr`.
fn service(change: impl FnOnce(&mut ServerOptions)) -> Arc<Service> {
    let spec = |name: &str| ModelSpec { name: name.into(), folder: fixture::folder() };
    let mut options = ServerOptions::new(vec![spec("en-it"), spec("it-fr")]);
    options.execution.threads = 1;
    options.limits = Limits { characters: 2_000, texts: 20, ..Limits::default() };
    change(&mut options);
    Arc::new(Service::new(options).unwrap())
}

fn shared() -> Arc<Service> {
    static SERVICE: OnceLock<Arc<Service>> = OnceLock::new();
    SERVICE.get_or_init(|| service(|_| {})).clone()
}

/// Status, headers as text, and body.
struct Answer {
    status: StatusCode,
    headers: String,
    body: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }
}

async fn send(service: &Arc<Service>, request: Request<Body>) -> Answer {
    let response = router(service.clone()).oneshot(request).await.unwrap();
    let (parts, body) = response.into_parts();
    let body = to_bytes(body, 10 << 20).await.unwrap();
    Answer {
        status: parts.status,
        headers: format!("{:?}", parts.headers),
        body: String::from_utf8(body.into()).unwrap(),
    }
}

fn request(method: &str, path: &str, content_type: &str, body: impl Into<Body>) -> Request<Body> {
    let request = Request::builder().method(method).uri(path);
    request.header(header::CONTENT_TYPE, content_type).body(body.into()).unwrap()
}

async fn post(service: &Arc<Service>, path: &str, body: Value) -> Answer {
    send(service, request("POST", path, "application/json", body.to_string())).await
}

async fn get(service: &Arc<Service>, path: &str) -> Answer {
    send(service, Request::builder().uri(path).body(Body::empty()).unwrap()).await
}

/// Translation by the library.
fn expected(text: &str) -> String {
    fixture::route().translator.translate_text(text).unwrap().text
}

#[tokio::test]
async fn texts_are_translated_as_by_the_library() {
    let service = shared();
    let text = " the cat sleeps .\n\nThe cat eats.  ";
    let body = json!({ "q": text, "source": "en", "target": "it" });
    let answer = post(&service, "/translate", body).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert_eq!(answer.json(), json!({ "translatedText": expected(text) }));

    let body = json!({ "q": ["the cat", "", "the dog"], "source": "en", "target": "it", "alternatives": 2 });
    let answer = post(&service, "/translate", body).await.json();
    assert_eq!(answer["translatedText"], json!([expected("the cat"), "", expected("the dog")]));
    assert_eq!(answer["alternatives"].as_array().unwrap().len(), 3);
    let form = "q=the+cat&source=en&target=it&format=text&api_key=";
    let form = request("POST", "/translate", "application/x-www-form-urlencoded", form);
    assert_eq!(send(&service, form).await.json()["translatedText"], expected("the cat"));
}

#[tokio::test]
async fn errors_have_the_form_of_libretranslate() {
    let service = shared();
    for (body, status, message) in [
        (json!({}), 400, "Invalid request: missing q parameter"),
        (json!({ "q": "a" }), 400, "missing source parameter"),
        (json!({ "q": "a", "source": "en" }), 400, "missing target parameter"),
        (json!({ "q": 1, "source": "en", "target": "it" }), 400, "q must be a string"),
        (json!({ "q": "a", "source": "xx", "target": "it" }), 400, "xx is not supported"),
        (json!({ "q": "a", "source": "en", "target": "xx" }), 400, "xx is not supported"),
        (json!({ "q": "a", "source": "en", "target": "fr" }), 400, "no model translates"),
        (json!({ "q": "a", "source": "en", "target": "it", "format": "pdf" }), 400, "pdf format"),
        (json!({ "q": "a", "source": "en", "target": "it", "alternatives": 99 }), 400, "at most 5"),
        (json!({ "q": "a", "source": "en", "target": "it", "alternatives": -1 }), 400, "from 0"),
        (json!({ "q": "a".repeat(2001), "source": "en", "target": "it" }), 400, "2001 characters"),
        (json!({ "q": vec!["a"; 21], "source": "en", "target": "it" }), 400, "21 texts"),
        (json!({ "q": "a", "source": "en", "target": "it", "model": "no" }), 404, "no model `no`"),
        (json!([]), 400, "JSON object"),
    ] {
        let answer = post(&service, "/translate", body.clone()).await;
        assert_eq!(answer.status, status, "{body}");
        let found = answer.json()["error"].as_str().unwrap().to_owned();
        assert!(found.contains(message), "{body}: {found}");
    }
    let answer = send(&service, request("POST", "/translate", "text/plain", "a")).await;
    assert_eq!(answer.status, 415);
    assert_eq!(get(&service, "/translate").await.status, 405);
    assert_eq!(get(&service, "/no/such").await.status, 404);
    let large = "a".repeat((2 << 20) + 1);
    let answer = send(&service, request("POST", "/translate", "application/json", large)).await;
    assert_eq!(answer.status, 413);
}

#[tokio::test]
async fn languages_are_listed_and_detected() {
    let service = shared();
    let languages = get(&service, "/languages").await.json();
    assert_eq!(languages[0], json!({ "code": "en", "name": "English", "targets": ["it"] }));
    assert_eq!(languages[1], json!({ "code": "fr", "name": "French", "targets": [] }));
    assert_eq!(languages[2]["code"], "it");
    let text = "The weather is nice today and the cat sleeps.";
    let detected = post(&service, "/detect", json!({ "q": text })).await.json();
    assert_eq!(detected[0]["language"], "en");
    assert!(detected[0]["confidence"].as_f64().unwrap() > 1.0);
    let body = json!({ "q": text, "source": "auto", "target": "it" });
    let answer = post(&service, "/translate", body).await.json();
    assert_eq!(answer["detectedLanguage"]["language"], "en");
    let settings = get(&service, "/frontend/settings").await.json();
    assert_eq!((&settings["charLimit"], &settings["keyRequired"]), (&json!(2_000), &json!(false)));
}

#[tokio::test]
async fn a_pivot_is_used_on_request_and_stated() {
    let service = shared();
    let body = json!({ "q": "the cat", "source": "en", "target": "fr", "pivot": "it" });
    let answer = post(&service, "/translate", body).await.json();
    assert_eq!(answer["models"], json!(["en-it", "it-fr"]));
    assert_eq!(answer["translatedText"], expected(&expected("the cat")));
}

#[tokio::test]
async fn markup_is_kept_and_hostile_text_is_escaped() {
    let service = shared();
    let q = "<p>the <b>cat</b> &lt;script&gt;</p><script>alert(1)</script><!-- c -->";
    let body = json!({ "q": q, "source": "en", "target": "it", "format": "html" });
    let answer = post(&service, "/translate", body).await.json();
    let text = answer["translatedText"].as_str().unwrap();
    assert!(
        text.starts_with("<p>") && text.contains("</p><script>alert(1)</script><!-- c -->"),
        "{text}"
    );
    assert_eq!((text.matches("<b>").count(), text.matches("</b>").count()), (1, 1));
    assert_eq!(text.matches("<script>").count(), 1);
}

#[tokio::test]
async fn deepl_clients_are_answered() {
    let service = shared();
    let body = json!({ "text": ["the cat"], "target_lang": "IT", "source_lang": "EN" });
    let answer = post(&service, "/v2/translate", body).await.json();
    let translation = json!({ "detected_source_language": "EN", "text": expected("the cat"), "billed_characters": 7 });
    assert_eq!(answer, json!({ "translations": [translation] }));
    let targets = get(&service, "/v2/languages?type=target").await.json();
    assert_eq!(targets[0]["language"], "FR");
    let form = "application/x-www-form-urlencoded";
    let request = request("GET", "/v2/languages", form, "type=target");
    assert_eq!(send(&service, request).await.json(), targets);
    let answer = post(&service, "/v2/translate", json!({ "text": "a", "target_lang": "XX" })).await;
    assert!(answer.status == 400 && answer.json()["message"].is_string(), "{}", answer.body);
}

#[tokio::test]
async fn the_inference_protocol_is_answered() {
    let service = shared();
    let input = |data: Value| json!({ "id": "7", "inputs": [{ "name": "text", "datatype": "BYTES", "shape": [2], "data": data }] });
    let body = input(json!(["the cat", ["the dog"]]));
    let answer = post(&service, "/v2/models/en-it/infer", body).await.json();
    let output = &answer["outputs"][0];
    assert_eq!(output["data"], json!([expected("the cat"), expected("the dog")]));
    assert_eq!((&answer["id"], &output["shape"]), (&json!("7"), &json!([2])));
    for (path, status) in [
        ("/v2/health/live", 200),
        ("/v2/health/ready", 200),
        ("/v2/models/en-it/ready", 200),
        ("/v2/models/en-it", 200),
        ("/v2/models/none/ready", 404),
        ("/v2", 200),
    ] {
        assert_eq!(get(&service, path).await.status, status, "{path}");
    }
    for wrong in [json!({}), json!({ "inputs": [] }), input(json!([1])), input(json!("a"))] {
        assert_eq!(post(&service, "/v2/models/en-it/infer", wrong).await.status, 400);
    }
    assert_eq!(post(&service, "/v2/models/no/infer", input(json!([]))).await.status, 404);
}

#[tokio::test]
async fn the_native_answer_has_tokens_scores_and_alignments() {
    let service = shared();
    let body = json!({
        "q": "the cat sleeps . The dog eats.", "source": "en", "target": "it", "tokens": true,
        "alignment": true, "attention": true, "alternatives": 1,
    });
    let answer = post(&service, "/v1/translate", body).await.json();
    let translation = &answer["translations"][0];
    assert_eq!(translation["models"], json!(["en-it"]));
    let sentences = translation["sentences"].as_array().unwrap();
    assert_eq!(sentences.len(), 2);
    let hypotheses = sentences[0]["hypotheses"].as_array().unwrap();
    assert_eq!(hypotheses.len(), 2);
    assert!(hypotheses[0]["score"].as_f64() >= hypotheses[1]["score"].as_f64());
    assert!(!hypotheses[0]["tokens"].as_array().unwrap().is_empty());
    // The score of a text is the mean of its sentences.
    let mean = |rank: usize| {
        let score = |sentence: &Value| sentence["hypotheses"][rank]["score"].as_f64().unwrap();
        (score(&sentences[0]) + score(&sentences[1])) / 2.0
    };
    let scores = [(&translation["score"], 0), (&translation["alternative_scores"][0], 1)];
    for (found, rank) in scores {
        assert!((found.as_f64().unwrap() - mean(rank)).abs() < 1e-5, "{translation}");
    }
    assert_eq!(translation["alternatives"].as_array().unwrap().len(), 1);
    assert_eq!(sentences[0]["alignment"]["source"], json!(["the", "cat", "sleeps", "."]));
    assert_eq!(
        sentences[0]["attention"]["weights"].as_array().unwrap().len(),
        sentences[0]["alignment"]["target"].as_array().unwrap().len()
    );
}

#[tokio::test]
async fn a_stream_has_the_sentences_in_order_and_the_whole_text() {
    let service = shared();
    let text = "the cat sleeps .\nthe dog eats . 12";
    let body = json!({ "q": text, "source": "auto", "target": "it", "stream": true });
    let answer = post(&service, "/v1/translate", body).await;
    assert!(answer.headers.contains("text/event-stream"));
    let events: Vec<(&str, Value)> = answer
        .body
        .split_terminator("\n\n")
        .map(|event| {
            let (name, data) = event.split_once("\ndata: ").unwrap();
            (name.strip_prefix("event: ").unwrap(), serde_json::from_str(data).unwrap())
        })
        .collect();
    let (last, sentences) = events.split_last().unwrap();
    let joined: String = sentences
        .iter()
        .map(|(name, data)| {
            assert_eq!(*name, "sentence");
            format!("{}{}", data["before"].as_str().unwrap(), data["text"].as_str().unwrap())
        })
        .collect();
    assert_eq!((last.0, last.1["text"].as_str().unwrap()), ("done", &*joined));
    assert_eq!(joined, expected("the cat sleeps .\nthe dog eats .") + " 12");
}

#[tokio::test]
async fn the_attention_page_has_no_origin() {
    let service = shared();
    let body = json!({ "q": "the cat </script>", "source": "en", "target": "it" });
    let answer = post(&service, "/attention", body).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert!(answer.headers.contains("sandbox allow-scripts"));
    assert_eq!(answer.body.matches("</script>").count(), 2);
}

#[tokio::test]
async fn a_model_can_be_replaced_while_it_translates() {
    let service = service(|_| {});
    let spec = ModelSpec { name: "en-it".into(), folder: fixture::folder() };
    let body = json!({ "q": vec!["the cat sleeps . the dog"; 20], "source": "en", "target": "it" });
    let requests = (0..8).map(|_| post(&service, "/translate", body.clone()));
    let replaced = async {
        for _ in 0..4 {
            let (service, spec) = (service.clone(), spec.clone());
            crate::service::blocking(move || service.registry.put(&spec)).await.unwrap().unwrap();
        }
    };
    let (answers, ()) =
        futures_util::future::join(futures_util::future::join_all(requests), replaced).await;
    for answer in answers {
        assert_eq!(answer.status, 200);
        assert_eq!(answer.json()["translatedText"][7], expected("the cat sleeps . the dog"));
    }
}

#[tokio::test]
async fn answers_of_many_clients_are_not_mixed_up() {
    let service = shared();
    let words = ["the", "cat", "dog", "sleeps", "eats", "house", "red"];
    let text = |n: usize| (0..=n % 5).map(|i| words[(n + i * i) % 7]).collect::<Vec<_>>().join(" ");
    let requests = (0..60).map(|n| {
        let body = json!({ "q": text(n), "source": "en", "target": "it", "beam": 1 + n % 3 });
        post(&service, "/translate", body)
    });
    let answers = futures_util::future::join_all(requests).await;
    for (n, answer) in answers.iter().enumerate() {
        let alone = json!({ "q": text(n), "source": "en", "target": "it", "beam": 1 + n % 3 });
        assert_eq!(answer.json(), post(&service, "/translate", alone).await.json(), "{n}");
    }
}

#[tokio::test]
async fn a_stopping_server_is_alive_and_not_ready() {
    let service = service(|_| {});
    service.stop();
    for (path, status) in [("/health", 200), ("/health/live", 200), ("/health/ready", 503)] {
        assert_eq!(get(&service, path).await.status, status);
    }
    let answer =
        post(&service, "/translate", json!({ "q": "a", "source": "en", "target": "it" })).await;
    assert!(answer.status == 503 && answer.headers.contains("retry-after"), "{}", answer.headers);
}

#[tokio::test]
async fn a_leaving_server_answers_and_closes_connections() {
    let service = service(|_| {});
    let body = || json!({ "q": "the cat", "source": "en", "target": "it" });
    let before = post(&service, "/translate", body()).await;
    assert!(before.status == 200 && !before.headers.contains(r#""connection": "close""#));
    service.leave();
    assert_eq!(get(&service, "/health/ready").await.status, 503);
    let after = post(&service, "/translate", body()).await;
    assert!(after.status == 200 && after.json() == before.json());
    assert!(after.headers.contains(r#""connection": "close""#), "{}", after.headers);
}

#[tokio::test]
async fn a_full_queue_refuses_at_once() {
    let service = service(|options| options.queue = 1);
    let slow =
        json!({ "q": vec!["the cat sleeps . The dog eats ."; 20], "source": "en", "target": "it" });
    let many =
        futures_util::future::join_all((0..6).map(|_| post(&service, "/translate", slow.clone())));
    let answers = many.await;
    let refused: Vec<&Answer> = answers.iter().filter(|answer| answer.status == 429).collect();
    assert!(!refused.is_empty() && refused[0].headers.contains("retry-after"));
    assert!(answers.iter().any(|answer| answer.status == 200));
    let body = json!({ "q": "the cat", "source": "en", "target": "it" });
    assert_eq!(post(&service, "/translate", body).await.status, 200, "the queue recovers");
}

#[tokio::test]
async fn security_headers_and_metrics_are_present() {
    let service = service(|_| {});
    let page = get(&service, "/").await;
    assert!(page.body.starts_with("<!DOCTYPE html>"));
    for header in [
        "nosniff",
        "default-src 'none'; script-src 'self'",
        "no-referrer",
        "frame-ancestors 'none'",
    ] {
        assert!(page.headers.contains(header), "{header}: {}", page.headers);
    }
    for path in [
        "/page/app.js",
        "/page/api.js",
        "/page/output.js",
        "/page/style.css",
        "/favicon.ico",
        "/spec",
    ] {
        let file = get(&service, path).await;
        assert!(file.status == 200 && !file.body.is_empty(), "{path}");
        for word in ["innerHTML", "eval(", "document.write", "http:"] {
            let allowed = path == "/favicon.ico" && word == "http:";
            assert!(allowed || !file.body.contains(word), "{path}: {word}");
        }
    }
    let spec = get(&service, "/spec").await.json();
    assert!(spec["paths"]["/translate"]["post"].is_object());
    post(&service, "/translate", json!({ "q": "the cat", "source": "en", "target": "it" })).await;
    let metrics = get(&service, "/metrics").await.body;
    for line in [
        "tx_requests_total{route=\"/translate\",status=\"200\"} 1",
        "tx_batch_sentences_count 1",
        "tx_models 2",
    ] {
        assert!(metrics.contains(line), "{line}:\n{metrics}");
    }
}

mod access;
mod conformance;
mod detection;
mod files;
mod glossaries;
mod mutated;
mod offline;
