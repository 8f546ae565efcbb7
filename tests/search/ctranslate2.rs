//! Results of CTranslate2 with the weights of `fixtures/bundle-v1`, recorded by
//! `fixtures/ctranslate2/generate.py`. For trained models and real sentences see
//! `benches/compare/same_translations.py`.

use std::{fs, path::Path};

use serde_json::Value;
use tx_infer::{Bundle, Device};

use super::*;

/// Maximum difference; the two programs sum in different orders.
const MAX_DIFFERENCE: f64 = 1e-4;

struct Fixture {
    record: Value,
    sources: Vec<Vec<u32>>,
}

impl Fixture {
    fn open() -> Self {
        let path = folder().join("ctranslate2/cases.json");
        let record: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
        let sources = list(&record["sources"]).iter().map(ids).collect();
        Self { record, sources }
    }
}

fn folder() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures"))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap()
}

fn ids(value: &Value) -> Vec<u32> {
    list(value).iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

/// Engines with the bundle on every device; on the CPU both engines.
fn engines() -> Vec<(String, Engine)> {
    let mut engines = Vec::new();
    for (name, device) in devices() {
        let bundle = Bundle::open(folder().join("bundle-v1")).unwrap();
        let engine = bundle.engine(&device.clone().into()).unwrap();
        if engine.gains_from_threads() {
            let tensors = bundle.engine(&Device::Burn(device)).unwrap();
            engines.push((format!("{name}, tensors"), tensors));
        }
        engines.push((name.to_owned(), engine));
    }
    engines
}

#[test]
fn search_results_equal_those_of_ctranslate2() {
    let Fixture { record, sources } = Fixture::open();
    let limit = record["limit"].as_u64().unwrap() as usize;
    let mut compared = 0;
    for (name, engine) in engines() {
        for search in list(&record["searches"]) {
            let mut options: SearchOptions =
                serde_json::from_value(search["options"].clone()).unwrap();
            options.max_len_ratio = 0.0;
            options.max_repeats = 0;
            options.max_len_extra = limit;
            // The layer of the exported model, of two.
            options.attention_layer.get_or_insert(1);
            if search["options"].get("beam").is_none() {
                options.beam = 5;
                options.n_best = 5;
            }
            assert_eq!(options.problems(), [""; 0]);
            for (source, expected) in sources.iter().zip(list(&search["found"])) {
                let Some(expected) = expected.as_array() else { continue };
                let found = engine.search(&[source], &options).unwrap().remove(0);
                let what = format!("{name}, {}, {source:?}", search["name"]);
                assert_eq!(found.len(), expected.len(), "{what}");
                for (found, expected) in found.iter().zip(expected) {
                    assert_eq!(found.ids, ids(&expected["ids"]), "{what}");
                    let gap = f64::from(found.score) - expected["score"].as_f64().unwrap();
                    assert!(gap.abs() <= MAX_DIFFERENCE, "{what}: {gap:.1e}");
                    compared += 1;
                }
            }
        }
    }
    assert!(compared > 300, "{compared}");
}

#[test]
fn scores_of_given_targets_equal_those_of_ctranslate2() {
    let Fixture { record, sources } = Fixture::open();
    for (name, engine) in engines() {
        for (source, forced) in sources.iter().zip(list(&record["forced"])) {
            let target = ids(&forced["ids"]);
            let found = engine
                .log_probabilities(&[(source, &target)], &Cancellation::new())
                .unwrap()
                .remove(0);
            let expected = list(&forced["log_probabilities"]);
            assert_eq!(found.len(), expected.len(), "{name}");
            for (found, expected) in found.iter().zip(expected) {
                let gap = f64::from(*found) - expected.as_f64().unwrap();
                assert!(gap.abs() <= MAX_DIFFERENCE, "{name}: {gap:.1e}");
            }
        }
    }
}
