//! Parameters of clients: what changes a result is done or refused.

use super::*;

#[tokio::test]
async fn unknown_parameters_are_refused_by_name() {
    let service = shared();
    let text = |more: Value| {
        let mut body = json!({ "q": "the cat", "source": "en", "target": "it" });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    for (path, body, message) in [
        ("/translate", text(json!({ "terms": "x" })), "`terms` is not a parameter"),
        ("/translate", text(json!({ "stream": true })), "`stream` is not a parameter"),
        ("/v1/translate", text(json!({ "sampling": 1 })), "`sampling` is not a parameter"),
        ("/v1/translate", text(json!({ "tokens": "maybe" })), "tokens must be true or false"),
        ("/v1/translate", text(json!({ "stream": true, "tokens": true })), "`stream` has no"),
        ("/attention", text(json!({ "layer": 1 })), "`layer` is not a parameter"),
        ("/detect", json!({ "q": "the cat", "target": "it" }), "`target` is not a parameter"),
    ] {
        let answer = post(&service, path, body.clone()).await;
        assert!(
            answer.status == 400 && answer.body.contains(message),
            "{path} {body}: {}",
            answer.body
        );
    }
    let ignored = text(
        json!({ "secret": "x", "apiKey": "", "api_key": "", "alternatives": 0, "format": "" }),
    );
    assert_eq!(post(&service, "/translate", ignored).await.status, 200);
}

#[tokio::test]
async fn parameters_of_deepl_are_done_or_refused() {
    let service = shared();
    let answer = async |more: Value| {
        let mut body = json!({ "text": ["the cat"], "source_lang": "EN", "target_lang": "IT" });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        post(&service, "/v2/translate", body).await
    };
    for (more, words) in [
        (json!({ "formality": "more" }), "Target language IT has no formality"),
        (json!({ "formality": "polite" }), "'formality'"),
        (json!({ "split_sentences": "invalid" }), "'split_sentences'"),
        (json!({ "tag_handling": "markdown" }), "'tag_handling'"),
        (json!({ "model_type": "large" }), "'model_type'"),
        (json!({ "custom_instructions": ["be brief"] }), "`custom_instructions`"),
        (json!({ "style_id": "x" }), "`style_id`"),
        (json!({ "target_lang": "" }), "missing target_lang"),
    ] {
        let found = answer(more.clone()).await;
        let message = found.json()["message"].as_str().unwrap().to_owned();
        assert!(found.status == 400 && message.contains(words), "{more}: {message}");
    }
    for more in [
        json!({ "formality": "prefer_less", "context": "a text", "preserve_formatting": true }),
        json!({ "split_sentences": "0" }),
        json!({ "split_sentences": 1, "show_billed_characters": true, "debug": "1" }),
        json!({ "split_sentences": "nonewlines", "tag_handling": "html", "tag_handling_version": "v2" }),
    ] {
        let found = answer(more.clone()).await;
        assert_eq!(found.status, 200, "{more}: {}", found.body);
        assert_eq!(found.json()["translations"][0].get("model_type_used"), None);
    }
    let found = answer(json!({ "model_type": "prefer_quality_optimized" })).await.json();
    assert_eq!(found["translations"][0]["model_type_used"], "quality_optimized");
    // Two lines are one sentence, as `line_breaks` joins them.
    let lines =
        answer(json!({ "text": "the cat\nsleeps .", "split_sentences": "nonewlines" })).await;
    assert_eq!(lines.json()["translations"][0]["text"], expected("the cat sleeps ."));
    let nonsense = get(&service, "/v2/languages?type=nonsense").await;
    assert!(
        nonsense.status == 400 && nonsense.body.contains("source or target"),
        "{}",
        nonsense.body
    );
}

#[tokio::test]
async fn models_have_versions_and_tensors_have_shapes() {
    let service = shared();
    let model = get(&service, "/v2/models/en-it").await.json();
    let version = model["versions"][0].as_str().unwrap();
    let path = |rest: &str| format!("/v2/models/en-it/versions/{version}{rest}");
    assert_eq!(get(&service, &path("")).await.json(), model);
    assert_eq!(get(&service, &path("/ready")).await.json()["ready"], true);
    for path in ["/v2/models/en-it/versions/0", "/v2/models/en-it/versions/0/ready"] {
        assert_eq!(get(&service, path).await.status, 404, "{path}");
    }
    assert_eq!(get(&service, "/v2/").await.json(), get(&service, "/v2").await.json());
    let input = json!({ "name": "text", "datatype": "BYTES", "shape": [1], "data": ["the cat"] });
    let output = json!({ "name": "translation", "parameters": { "binary_data": false } });
    let body = json!({ "inputs": [input], "outputs": [output], "parameters": { "priority": 1 } });
    let answer = post(&service, &path("/infer"), body.clone()).await.json();
    assert_eq!(answer["outputs"][0]["data"], json!([expected("the cat")]));
    assert_eq!(answer["model_version"], version);
    for (pointer, value, message) in [
        ("/inputs/0/shape", json!([2]), "`shape` is [2], but its `data` has 1"),
        ("/inputs/0/shape", json!([]), "`shape` is []"),
        ("/inputs/0/shape", json!([-1]), "`shape` is [-1]"),
        ("/inputs/0/shape", json!([4294967296_u64, 4294967296_u64]), "`shape`"),
        ("/inputs/0/shape", Value::Null, "no `shape`"),
        ("/inputs/0/name", json!("nope"), "another `name`"),
        ("/inputs/0/datatype", json!("INT64"), "another `datatype`"),
        ("/inputs/0/data", json!([1]), "not strings"),
        ("/outputs/0/name", json!("nope"), "one tensor `translation`"),
        ("/outputs/0/parameters", json!({ "binary_data": true }), "`binary_tensor_data`"),
        (
            "/outputs/0/parameters",
            json!({ "classification": 3 }),
            "`outputs[0].parameters.classification`",
        ),
        ("/parameters", json!({ "binary_data_output": true }), "`binary_tensor_data`"),
        ("/parameters", json!({ "temperature": 2 }), "`parameters.temperature`"),
        ("/parameters", json!({ "source": 1 }), "`parameters.source` must be a string"),
    ] {
        let mut wrong = body.clone();
        *wrong.pointer_mut(pointer).unwrap() = value.clone();
        let answer = post(&service, &path("/infer"), wrong).await;
        assert!(
            answer.status == 400 && answer.body.contains(message),
            "{pointer} {value}: {}",
            answer.body
        );
    }
    let mut binary = request("POST", &path("/infer"), "application/octet-stream", "{}");
    binary.headers_mut().insert("inference-header-content-length", "2".parse().unwrap());
    let answer = send(&service, binary).await;
    assert!(
        answer.status == 400 && answer.body.contains("`binary_tensor_data`"),
        "{}",
        answer.body
    );
}

#[tokio::test]
async fn bodies_of_any_encoding_are_read() {
    let service = shared();
    let json = "\u{feff}{\"q\":\"the cat\",\"source\":\"en\",\"target\":\"it\"}";
    let answer = send(&service, request("POST", "/translate", "application/json", json)).await;
    assert_eq!(answer.json()["translatedText"], expected("the cat"));
    let latin = "application/x-www-form-urlencoded;charset=iso-8859-1";
    let form = request("POST", "/translate", latin, "q=caf%E9&source=en&target=it");
    assert_eq!(send(&service, form).await.json()["translatedText"], expected("café"));
    let many = json!({ "q": vec![Value::Null; 2_000], "source": "en", "target": "it" });
    let answer = post(&service, "/translate", many).await;
    assert!(
        answer.status == 400 && answer.body.contains("more than 1104 JSON values"),
        "{}",
        answer.body
    );
}

/// The description has all routes of this module, their methods and the statuses of all requests.
#[tokio::test]
async fn the_description_is_complete() {
    let spec = get(&shared(), "/spec").await.json();
    let source = include_str!("../../http.rs");
    let routes = source.split(".route(\"").skip(1).map(|route| {
        let (path, rest) = route.split_once('"').unwrap();
        (path, &rest[..rest.find('\n').unwrap()])
    });
    let mut count = 0;
    for (path, handlers) in routes {
        for method in ["get", "post", "delete"] {
            let is_there = handlers.contains(&format!("{method}("));
            let operation = &spec["paths"][path][method];
            assert_eq!(operation.is_object(), is_there, "{method} {path}");
            if !is_there {
                continue;
            }
            count += 1;
            let responses = operation["responses"].as_object().unwrap();
            let succeeds = responses.keys().any(|status| status.starts_with('2'));
            assert!(succeeds || path == "/suggest", "{method} {path}");
            assert!(!path.contains('{') || responses.contains_key("404"), "{method} {path}");
            let has_body =
                *method == *"post" || path.starts_with("/admin") || handlers.contains("deepl::");
            if has_body && path != "/suggest" {
                for status in ["400", "403", "413", "415", "429", "503"] {
                    assert!(responses.contains_key(status), "{method} {path} {status}");
                }
            }
            for parameter in path.split('{').skip(1) {
                let name = parameter.split('}').next().unwrap();
                let parameters = operation["parameters"].as_array().unwrap();
                assert!(
                    parameters.iter().any(|entry| entry["name"] == name),
                    "{method} {path} {name}"
                );
            }
        }
    }
    assert_eq!(spec["paths"].as_object().unwrap().len(), source.matches(".route(\"").count());
    assert!(count >= 30, "{count}");
}
