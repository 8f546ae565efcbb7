//! The bundle of the tests.

use std::{path::Path, sync::LazyLock, time::Duration};

use tx_infer::{Deadline, Device, Translator};

/// Translator of a bundle with random weights, from `en` to `it`.
pub fn translator() -> &'static Translator {
    static TRANSLATOR: LazyLock<Translator> = LazyLock::new(|| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/bundle-v1");
        Translator::open(folder, &Device::Cpu).unwrap().with_text_language("en")
    });
    &TRANSLATOR
}

/// A time limit that no test reaches.
pub fn deadline() -> Deadline {
    Deadline::after(Duration::MAX)
}
