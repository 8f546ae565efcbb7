//! Subtitles: texts are found, and replaced.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tx_markup::{SubtitleFormat, Subtitles};

fuzz_target!(|file: &str| {
    for format in [SubtitleFormat::Srt, SubtitleFormat::Vtt] {
        let subtitles = Subtitles::parse(file, format);
        let texts = subtitles.texts();
        let replaced = subtitles.with_texts(&texts);
        // As many cues as before.
        assert_eq!(Subtitles::parse(&replaced, format).texts().len(), texts.len());
    }
});
