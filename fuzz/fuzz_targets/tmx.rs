//! Translation memory: pairs are read, up to the first error.

#![no_main]

use std::fs;

use libfuzzer_sys::fuzz_target;
use tx_data::source::{
    format::Format,
    read::{ReadOptions, pairs},
};

fuzz_target!(|data: &[u8]| {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("memory.tmx");
    fs::write(&path, data).unwrap();
    let options = ReadOptions { format: Some(Format::Tmx), ..ReadOptions::default() };
    if let Ok(pairs) = pairs(&path, &options) {
        pairs.take_while(Result::is_ok).for_each(drop);
    }
});
