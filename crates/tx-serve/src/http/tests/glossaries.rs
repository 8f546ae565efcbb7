//! Glossaries of the operator and of clients.

use super::*;
use crate::glossaries::CLIENT_BYTES;

fn delete(path: &str) -> Request<Body> {
    Request::builder().method("DELETE").uri(path).body(Body::empty()).unwrap()
}

#[tokio::test]
async fn clients_of_deepl_upload_use_and_delete_glossaries() {
    let service = service(|_| {});
    let new = json!({
        "name": "pets",
        "source_lang": "EN",
        "target_lang": "it",
        "entries": "cat,gatto\n\"the dog\",\"il, gatto\"\n",
        "entries_format": "csv",
    });
    let created = post(&service, "/v2/glossaries", new).await;
    assert_eq!(created.status, 201, "{}", created.body);
    let created = created.json();
    let id = created["glossary_id"].as_str().unwrap();
    assert_eq!((&created["entry_count"], &created["ready"]), (&json!(2), &json!(true)));
    assert!(created["creation_time"].as_str().unwrap().starts_with("20"));
    let list = get(&service, "/v2/glossaries").await.json();
    assert_eq!(list, json!({ "glossaries": [created.clone()] }));
    let path = format!("/v2/glossaries/{id}");
    assert_eq!(get(&service, &path).await.json(), created);
    let entries = get(&service, &format!("{path}/entries")).await;
    assert_eq!(entries.body, "cat\tgatto\nthe dog\til, gatto");
    assert!(entries.headers.contains("text/tab-separated-values"));

    let translate = async |more: Value| {
        let mut body =
            json!({ "text": ["the cat sleeps ."], "source_lang": "EN", "target_lang": "IT" });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        post(&service, "/v2/translate", body).await
    };
    let with = translate(json!({ "glossary_id": id })).await.json();
    let text = with["translations"][0]["text"].as_str().unwrap().to_owned();
    assert!(text.split(' ').any(|word| word == "gatto"), "{text}");
    assert_ne!(text, expected("the cat sleeps ."));
    let without = translate(json!({})).await.json();
    assert_eq!(without["translations"][0]["text"], expected("the cat sleeps ."));
    let unknown = translate(json!({ "glossary_id": id, "source_lang": null })).await;
    assert!(
        unknown.status == 400 && unknown.body.contains("needs 'source_lang'"),
        "{}",
        unknown.body
    );

    let pairs = get(&service, "/v2/glossary-language-pairs").await.json();
    let pairs = pairs["supported_languages"].as_array().unwrap();
    assert!(pairs.contains(&json!({ "source_lang": "en", "target_lang": "it" })), "{pairs:?}");
    assert_eq!(send(&service, delete(&path)).await.status, 204);
    assert_eq!(send(&service, delete(&path)).await.status, 404);
    let gone = translate(json!({ "glossary_id": id })).await;
    assert_eq!(gone.status, 404);
    assert_eq!(gone.json()["message"], "the glossary does not exist");
}

#[tokio::test]
async fn invalid_glossaries_are_refused() {
    let service = service(|_| {});
    let new = |more: Value| {
        let mut body =
            json!({ "name": "x", "source_lang": "en", "target_lang": "it", "entries": "a\tb" });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let long = "a\tb\n".repeat(CLIENT_BYTES / 4 + 1);
    for (more, status, words) in [
        (json!({ "name": "" }), 400, "missing name"),
        (json!({ "entries": "a" }), 400, "line 1 has no tab"),
        (json!({ "entries": "\n" }), 400, "no entries"),
        (json!({ "entries_format": "tbx" }), 400, "'entries_format'"),
        (json!({ "dictionaries": [] }), 400, "`dictionaries`"),
        (json!({ "name": "x".repeat(1_025) }), 400, "too long"),
        (json!({ "entries": long }), 413, "at most"),
    ] {
        let answer = post(&service, "/v2/glossaries", new(more.clone())).await;
        let message = answer.json()["message"].as_str().unwrap().to_owned();
        assert!(answer.status == status && message.contains(words), "{words}: {message}");
    }
    assert_eq!(get(&service, "/v2/glossaries").await.json(), json!({ "glossaries": [] }));
}

#[tokio::test]
async fn glossaries_of_the_operator_have_names() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pets.tsv");
    std::fs::write(&file, "cat\tgatto\n").unwrap();
    let spec = format!("pets={}", file.display());
    let service = service(|options| options.glossaries = vec![spec.parse().unwrap()]);
    let text = |more: Value| {
        let mut body =
            json!({ "q": "the cat sleeps .", "source": "en", "target": "it", "glossary": "pets" });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let answer = post(&service, "/translate", text(json!({}))).await.json();
    let found = answer["translatedText"].as_str().unwrap().to_owned();
    assert!(found.contains("gatto"), "{found}");
    let answer =
        post(&service, "/v1/translate", text(json!({ "q": ["the cat sleeps ."] }))).await.json();
    let sentence = &answer["translations"][0]["sentences"][0];
    let term = json!([{ "source": "cat", "target": "gatto", "used": true }]);
    assert_eq!((&sentence["terms"], &sentence["text"]), (&term, &json!(found)));
    for (more, status, words) in [
        (json!({ "glossary": "birds" }), 404, "the glossary does not exist"),
        (json!({ "beam": 1 }), 400, "`beam` of at least 2"),
        (json!({ "target": "fr", "pivot": "it" }), 400, "without an intermediate language"),
    ] {
        let answer = post(&service, "/translate", text(more.clone())).await;
        assert!(answer.status == status && answer.body.contains(words), "{more}: {}", answer.body);
    }
    std::fs::write(&file, "cat\tdorme\n").unwrap();
    assert!(service.reload().is_empty());
    let answer = post(&service, "/translate", text(json!({}))).await.json();
    assert!(answer["translatedText"].as_str().unwrap().contains("dorme"), "{answer}");
    std::fs::write(&file, "cat").unwrap();
    assert_eq!(service.reload().len(), 1);
}
