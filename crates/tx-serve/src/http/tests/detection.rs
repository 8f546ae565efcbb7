//! Texts whose language is detected.

use super::*;

const ITALIAN: &str = "Il tempo è bello oggi e il gatto dorme sul divano in salotto.";

/// Words of user interfaces, of which detectors take every second one for another language.
const WORDS: &str = "Save|Cancel|Delete|Settings|Email|Password|Login|Log in|Sign up|Home|Search|Next|Previous|Back|Close|Open|File|Edit|View|Help|About|Name|Address|City|Country|Phone|Yes|No|OK|Error|Warning|Info|Hello!|Hello|Hi!|Hi there|Good evening|Bye|See you|Thanks!|Please|Sorry|Morning|Tomorrow|Today|Monday|Summer|Red|Blue|One|Two|I do|I see|Come here|Go home|No problem|Me too|So long|Ciao ragazzi|In time|A car|Is it on?|Do it|Data|Media|Area|Radio|Video|Audio|Online|Download|Upload|Menu|Profile|Logout|Account|Comment|Share|Like|Follow";

/// A server with several source languages for `it`.
fn several() -> Arc<Service> {
    let spec = |name: &str| ModelSpec { name: name.into(), folder: fixture::folder() };
    service(|options| {
        options.models = ["en-it", "de-it", "fr-it", "es-it"].map(spec).into();
        options.limits.texts = 100;
    })
}

#[tokio::test]
async fn words_of_interfaces_are_translated() {
    let words: Vec<&str> = WORDS.split('|').collect();
    let body = json!({ "q": words, "source": "auto", "target": "it" });
    // One model for the target: its source language is not guessed.
    let one = service(|options| options.limits.texts = 100);
    let answer = post(&one, "/translate", body.clone()).await.json();
    let expected = words.iter().map(|word| expected(word)).collect::<Vec<_>>();
    assert_eq!(answer["translatedText"], json!(expected));
    assert_eq!(answer.get("copied"), None);
    for detected in answer["detectedLanguage"].as_array().unwrap() {
        assert_eq!(*detected, json!({ "confidence": 100.0, "language": "en" }));
    }
    let answer = post(&several(), "/translate", body).await.json();
    assert_eq!((answer.get("copied"), &answer["translatedText"]), (None, &json!(expected)));
    // Also a sentence in the target language.
    let body = json!({ "q": ITALIAN, "source": "auto", "target": "it" });
    let answer = post(&one, "/translate", body).await.json();
    assert_eq!(answer["translatedText"], super::expected(ITALIAN));
}

#[tokio::test]
async fn copies_are_visible() {
    let service = several();
    let body = json!({ "q": [ITALIAN, "the cat"], "source": "auto", "target": "it" });
    let answer = post(&service, "/translate", body).await.json();
    assert_eq!(answer["translatedText"], json!([ITALIAN, expected("the cat")]));
    assert_eq!(answer["copied"], json!([true, false]));
    assert_eq!(answer["detectedLanguage"][0]["language"], "it");
    let html = format!("<div class=\"the cat\"><p>{ITALIAN}</p></div>");
    let body = json!({ "q": html, "source": "auto", "target": "it", "format": "html" });
    let answer = post(&service, "/translate", body).await.json();
    assert_eq!((&answer["translatedText"], &answer["copied"]), (&json!(html), &json!(true)));
    let body = json!({ "q": ITALIAN, "source": "auto", "target": "it" });
    let answer = post(&service, "/v1/translate", body.clone()).await.json();
    assert_eq!(answer["translations"][0]["copied"], true);
    let attention = post(&service, "/attention", body).await;
    assert!(attention.status == 400 && attention.body.contains("is in the target language"));
    let body = json!({ "text": ITALIAN, "target_lang": "IT" });
    let answer = post(&service, "/v2/translate", body).await.json();
    assert_eq!(answer["translations"][0]["detected_source_language"], "IT");
    let metrics = get(&service, "/metrics").await.body;
    assert!(metrics.contains("tx_copied_texts_total 5\n"), "{metrics}");
}

#[tokio::test]
async fn a_stream_of_a_copied_text_has_its_events() {
    let body = json!({ "q": ITALIAN, "source": "auto", "target": "it", "stream": true });
    let answer = post(&several(), "/v1/translate", body).await;
    assert_eq!(answer.status, 200);
    let events: Vec<&str> = answer.body.split_terminator("\n\n").collect();
    assert_eq!(events.len(), 2);
    assert!(events[0].starts_with("event: sentence\n") && events[0].contains(ITALIAN));
    assert!(events[1].starts_with("event: done\n") && events[1].contains("\"copied\":true"));
}

#[tokio::test]
async fn a_language_without_a_model_is_refused() {
    let service = service(|options| options.models.truncate(1));
    for (body, message) in [
        (
            json!({ "q": "Wo ist die Katze?", "source": "auto", "target": "de" }),
            "de is not supported",
        ),
        (json!({ "q": "the cat", "source": "auto", "target": "en" }), "en is not supported"),
        (
            json!({ "q": "the cat", "source": "en", "target": "en" }),
            "`en` and `en` are the same language",
        ),
        (
            json!({ "q": "the cat", "source": "en", "target": "en-US" }),
            "`en` and `en-US` are the same language",
        ),
    ] {
        let answer = post(&service, "/translate", body.clone()).await;
        assert_eq!(answer.status, 400, "{body}");
        assert!(answer.body.contains(message), "{}", answer.body);
    }
    let body = json!({ "text": ["Wo ist die Katze?"], "target_lang": "DE" });
    let answer = post(&service, "/v2/translate", body).await;
    assert_eq!(
        (answer.status.as_u16(), answer.json()["message"].as_str().unwrap()),
        (400, "Value for 'target_lang' not supported: de")
    );
    let body = json!({ "text": ["Wo ist die Katze?"], "target_lang": "IT", "source_lang": "DE" });
    let answer = post(&service, "/v2/translate", body).await;
    assert_eq!(
        (answer.status.as_u16(), answer.json()["message"].as_str().unwrap()),
        (400, "Value for 'source_lang' not supported: de")
    );
}

#[tokio::test]
async fn detection_has_the_limits_of_translation() {
    let service = shared();
    let long = post(&service, "/detect", json!({ "q": "a".repeat(2_001) })).await;
    assert!(long.status == 400 && long.body.contains("2001 characters"), "{}", long.body);
    let many = post(&service, "/detect", json!({ "q": vec!["a"; 21] })).await;
    assert!(many.status == 400 && many.body.contains("21 texts"), "{}", many.body);
    let slow =
        self::service(|options| options.limits.timeout = std::time::Duration::from_millis(1));
    let endless =
        Body::from_stream(futures_util::stream::pending::<Result<String, std::io::Error>>());
    let late = send(&slow, request("POST", "/detect", "application/json", endless)).await;
    assert!(late.status == 503 && late.body.contains("longer than 0.001 s"), "{}", late.body);
}
