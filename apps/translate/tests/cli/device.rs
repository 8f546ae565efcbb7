//! On the device that `TX_TEST_DEVICE` names: a GPU, or a graphics driver that stands in for one.

use std::{env, fs};

use serde_json::Value;

use crate::{BUNDLE, output_of};

const LINES: &str = "one two three\nseven\n\nsix five four three two one\n";

/// The device, if there is one, and the processor.
fn devices() -> Option<[String; 2]> {
    let device = env::var("TX_TEST_DEVICE").ok();
    if device.is_none() {
        eprintln!("SKIPPED: TX_TEST_DEVICE is not set, no GPU is tested");
    }
    Some([device?, "cpu".into()])
}

/// Standard output of `command` on `device`. What a graphics library says in standard error is its own
/// affair.
fn said(command: &[&str], device: &str) -> String {
    let model = BUNDLE.path().to_str().unwrap();
    let all = [command, &["--model", model, "--device", device]].concat();
    let output = output_of(&all, LINES);
    assert!(output.status.success(), "{all:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// # Panics
///
/// When two values differ in anything but numbers, or two numbers by more than 10⁻⁴.
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
fn every_search_finds_there_what_it_finds_on_the_processor() {
    let Some(devices) = devices() else { return };
    for search in
        [&["--beam", "1"][..], &["--beam", "3", "--n-best", "3"], &["--sample", "--seed", "5"]]
    {
        let command = [search, &["--json"]].concat();
        let [found, expected] = devices.each_ref().map(|device| said(&command, device));
        assert_eq!(found.lines().count(), LINES.lines().count());
        for (found, expected) in found.lines().zip(expected.lines()) {
            let [found, expected] =
                [found, expected].map(|line| serde_json::from_str(line).unwrap());
            assert_alike(&found, &expected);
        }
    }
}

#[test]
fn attention_there_is_attention_on_the_processor() {
    let Some(devices) = devices() else { return };
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("a.json");
    let command = ["attention", "--text", "one two three", "--out", out.to_str().unwrap()];
    let [found, expected] = devices.each_ref().map(|device| {
        said(&command, device);
        serde_json::from_slice(&fs::read(&out).unwrap()).unwrap()
    });
    assert_alike(&found, &expected);
}
