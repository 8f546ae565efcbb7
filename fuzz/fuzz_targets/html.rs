//! Web page, and text with markup, divided into sentences.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use tx_infer::{Device, Translator};
use tx_serve::{
    markup::{Format, html},
    plan::{Plan, PlanOptions},
};

static TRANSLATOR: LazyLock<Translator> = LazyLock::new(|| {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures/bundle-v2");
    Translator::open(folder, &Device::Cpu).unwrap()
});

fuzz_target!(|text: &str| {
    drop(html::parts(text));
    for format in [Format::Html, Format::Text] {
        let options = PlanOptions { format, ..PlanOptions::default() };
        drop(Plan::new(text, &TRANSLATOR, options).unwrap());
    }
});
