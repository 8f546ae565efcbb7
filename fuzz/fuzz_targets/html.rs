//! Web page, XML, and text with markup, divided into sentences.

#![no_main]

use std::{sync::LazyLock, time::Duration};

use libfuzzer_sys::fuzz_target;
use tx_infer::{Deadline, Device, Translator};
use tx_markup::{Format, MarkupError, Plan, PlanOptions};

static TRANSLATOR: LazyLock<Translator> = LazyLock::new(|| {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures/bundle-v2");
    Translator::open(folder, &Device::Cpu).unwrap()
});

fuzz_target!(|text: &str| {
    // Longer than the time limit of an input.
    let deadline = Deadline::after(Duration::from_secs(60));
    for format in [Format::Html, Format::Xml, Format::Text] {
        let options = PlanOptions { format, ..PlanOptions::default() };
        match Plan::new(text, &TRANSLATOR, &options, &deadline) {
            Ok(plan) => drop(plan),
            // Of a request, not of the server.
            Err(MarkupError::Invalid(_)) if format == Format::Xml => {}
            Err(error) => panic!("{error}"),
        }
    }
});
