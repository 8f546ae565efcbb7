//! Tests on the device that `TX_TEST_DEVICE` names: a GPU, or a software GPU (SwiftShader).

use std::{env, fs};

use serde_json::Value;

use crate::{model, output_of};

const LINES: &str = "one two three\nseven\n\nsix five four three two one\n";

/// Returns the device to test and `cpu`; none without a device to test.
fn devices() -> Option<[String; 2]> {
    let device = env::var("TX_TEST_DEVICE").ok();
    if device.is_none() {
        eprintln!("SKIPPED: TX_TEST_DEVICE is not set, so no GPU is tested");
    }
    Some([device?, "cpu".into()])
}

/// Returns standard output of `command` on `device`. Graphics libraries may write to standard error.
fn printed(command: &[&str], device: &str) -> String {
    let all = [command, &["--model", model(), "--device", device]].concat();
    let output = output_of(&all, LINES);
    assert!(output.status.success(), "{all:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// # Panics
///
/// If two numbers differ by more than 10⁻⁴, or two other values at all.
fn assert_alike(found: &Value, expected: &Value) {
    match (found, expected) {
        (Value::Array(found), Value::Array(expected)) => {
            assert_eq!(found.len(), expected.len());
            found.iter().zip(expected).for_each(|(found, expected)| assert_alike(found, expected));
        }
        (Value::Object(found), Value::Object(expected)) => {
            assert!(found.keys().eq(expected.keys()));
            found.iter().for_each(|(key, found)| assert_alike(found, &expected[key]));
        }
        (Value::Number(found), Value::Number(expected)) => {
            let gap = found.as_f64().unwrap() - expected.as_f64().unwrap();
            assert!(gap.abs() <= 1e-4, "{found} {expected}");
        }
        _ => assert_eq!(found, expected),
    }
}

#[test]
fn every_search_gives_the_results_of_the_cpu() {
    let Some(devices) = devices() else { return };
    for search in
        [&["--beam", "1"][..], &["--beam", "3", "--n-best", "3"], &["--sample", "--seed", "5"]]
    {
        let command = [search, &["--json"]].concat();
        let [found, expected] = devices.each_ref().map(|device| printed(&command, device));
        assert_eq!(found.lines().count(), LINES.lines().count());
        for (found, expected) in found.lines().zip(expected.lines()) {
            let [found, expected] =
                [found, expected].map(|line| serde_json::from_str(line).unwrap());
            assert_alike(&found, &expected);
        }
    }
}

#[test]
fn attention_equals_that_of_the_cpu() {
    let Some(devices) = devices() else { return };
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("a.json");
    let command = ["attention", "--text", "one two three", "--out", out.to_str().unwrap()];
    let [found, expected] = devices.each_ref().map(|device| {
        printed(&command, device);
        serde_json::from_slice(&fs::read(&out).unwrap()).unwrap()
    });
    assert_alike(&found, &expected);
}
