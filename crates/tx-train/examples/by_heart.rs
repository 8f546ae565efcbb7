//! Learns one sentence by heart in a few seconds, from a recipe with smaller sizes laid over it.
//!
//! `cargo run -p tx-train --example by_heart`

use std::io::{self, Write};

use burn::tensor::Device;
use tx_train::{Layers, Trainer};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut layers = Layers::recipe("toy")?;
    for setting in [
        "model.d_model=32",
        "model.n_heads=4",
        "model.d_ff=64",
        "model.encoder_layers=1",
        "model.decoder_layers=1",
        "train.learning_rate=0.01",
        "train.epochs=30",
        "validation.every_epochs=10",
    ] {
        layers.set(setting)?;
    }

    let folder = tempfile::tempdir()?;
    let outcome = Trainer::new(layers.finish()?, folder.path(), Device::flex()).run()?;

    let validation = outcome.validation.ok_or("the last epoch is always validated")?;
    let mut out = io::stdout().lock();
    for sample in &validation.samples {
        writeln!(out, "{} -> {}", sample.source, sample.hypothesis)?;
    }
    assert_eq!(validation.exact_match, 100.0);
    // The folder of the run is a bundle: `tx-infer` opens it.
    assert!(outcome.run.join("model.safetensors").is_file());
    Ok(())
}
