//! Overfits one sentence pair in a few seconds, with a recipe whose model is made smaller.
//!
//! `cargo run -p tx-train --example overfit`

use std::io::{self, Write};

use burn::tensor::Device;
use tx_train::{ConfigBuilder, TaskValidation, Trainer};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut builder = ConfigBuilder::from_recipe("toy")?;
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
        builder.set(setting)?;
    }

    let folder = tempfile::tempdir()?;
    let outcome = Trainer::new(builder.build()?, folder.path(), Device::flex()).run()?;

    let validation = outcome.validation.as_ref().and_then(TaskValidation::translation);
    let validation = validation.ok_or("the last epoch is always validated")?;
    let mut out = io::stdout().lock();
    for sample in &validation.samples {
        writeln!(out, "{} -> {}", sample.source, sample.hypothesis)?;
    }
    assert_eq!(validation.exact_match, 100.0);
    // The run folder is a bundle that `tx-infer` opens.
    assert!(outcome.run.join("model.safetensors").is_file());
    Ok(())
}
