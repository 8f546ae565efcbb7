//! Subtitles: texts are found, and replaced.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tx_serve::subtitles::Subtitles;

fuzz_target!(|file: &str| {
    let subtitles = Subtitles::parse(file);
    let texts = subtitles.texts();
    let replaced = subtitles.with_texts(&texts);
    // As many cues as before.
    assert_eq!(Subtitles::parse(&replaced).texts().len(), texts.len());
});
