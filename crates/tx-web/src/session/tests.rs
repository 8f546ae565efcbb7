use std::{fs, path::PathBuf};

use serde_json::{Value, json};
use tx_infer::{Device, SearchOptions, Translator};

use super::*;

fn fixture() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/bundle-v1")
}

fn call(session: &mut Session, request: &Value) -> Value {
    let request = session.buffers.add(request.to_string().into_bytes());
    let response = session.answer(request, &mut |_| true);
    serde_json::from_slice(&session.buffers.take(response).unwrap()).unwrap()
}

/// A session with the model 0.
fn opened() -> Session {
    let mut session = Session::default();
    let mut files = serde_json::Map::new();
    for entry in fs::read_dir(fixture()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        files.insert(name, session.buffers.add(fs::read(&path).unwrap()).into());
    }
    let found = call(&mut session, &json!({ "call": "open", "files": files }));
    assert_eq!((&found["model"], &found["task"]), (&json!(0), &json!("translate")), "{found}");
    assert!(files.values().all(|it| session.buffers.get(it.as_u64().unwrap() as u32).is_none()));
    session
}

#[test]
fn translations_are_those_of_the_library() {
    let mut session = opened();
    let translator = Translator::open(fixture(), &Device::Cpu).unwrap();
    let texts = ["the cat sleeps .", "", "a dog", "unheard"];
    let request = |options: Value| json!({ "call": "translate", "model": 0, "texts": texts, "options": options });
    for (options, library) in [
        (json!({}), translator.options().clone()),
        (json!({ "beam": 1 }), translator.options().clone().with_beam(1)),
        (
            json!({ "beam": 4, "n_best": 3, "length_penalty": 0.5 }),
            SearchOptions {
                n_best: 3,
                length_penalty: 0.5,
                ..translator.options().clone().with_beam(4)
            },
        ),
    ] {
        let expected =
            translator.translate_batch_with(&texts, &library, &Default::default()).unwrap();
        let expected: Value = expected.iter().map(|it| translator.to_json(it)).collect();
        // Numbers are rounded when they are read from text.
        let expected: Value = serde_json::from_str(&expected.to_string()).unwrap();
        assert!(call(&mut session, &request(options)) == expected);
    }
    let pairs = [["the cat sleeps .", "il gatto dorme ."]];
    let scores = call(&mut session, &json!({ "call": "score", "model": 0, "pairs": pairs }));
    let expected = translator.score(&[("the cat sleeps .", "il gatto dorme .")], 0).unwrap();
    assert_eq!(scores[0]["log_probability"], json!(expected[0].log_probability()));
    let found = call(&mut session, &json!({ "call": "attention", "model": 0, "text": texts[0] }));
    let columns = found["cross"]["columns"].as_array().unwrap();
    assert_eq!(columns[..4], ["<bos>", "_the", "_cat", "_sleeps"]);
}

#[test]
fn invalid_requests_are_answered_by_errors() {
    let mut session = opened();
    let text = json!(["a"]);
    for (request, expected) in [
        (json!(7), "the request is invalid"),
        (json!({ "call": "sing" }), "unknown variant `sing`"),
        (json!({ "call": "translate", "model": 9, "texts": text }), "there is no model 9"),
        (
            json!({ "call": "classify", "model": 0, "texts": text }),
            "is `translate`, not `classify`",
        ),
        (json!({ "call": "open", "archive": 77 }), "there is no buffer 77"),
        (json!({ "call": "open", "archive": 1, "files": { "a": 2 } }), "exclude each other"),
        (json!({ "call": "open" }), "has no `model.safetensors`"),
        (
            json!({ "call": "translate", "model": 0, "texts": text, "options": { "beem": 2 } }),
            "unknown field `beem`",
        ),
        (
            json!({ "call": "translate", "model": 0, "texts": text, "options": { "beam": 0 } }),
            "beam",
        ),
        (
            json!({ "call": "translate", "model": 0, "texts": text, "languages": { "target": "xx" } }),
            "languages",
        ),
        (json!({ "call": "attention", "model": 0, "text": " " }), "no words"),
    ] {
        let found = call(&mut session, &request);
        assert!(found["error"].as_str().is_some_and(|it| it.contains(expected)), "{found}");
    }
    assert_eq!(call(&mut session, &json!({ "call": "close", "model": 0 })), Value::Null);
    assert!(call(&mut session, &json!({ "call": "close", "model": 0 }))["error"].is_string());
}
