//! Speed of training updates: forward, loss, backward, Adam.
//!
//! `cargo bench --workspace --bench train_step -- [RECIPE ...]`
//!
//! Prints one row of a table per recipe. `train bench` does so with the same code for any
//! configuration and device, and `benches/compare` compares it with PyTorch. The column
//! `process MB` is the peak memory of the process, so specify one recipe to measure its memory.

use std::{
    env,
    error::Error,
    io::{Write, stdout},
};

use burn::tensor::Device;
use tx_cli::allocator;
use tx_infer::bench::Report;
use tx_train::{ConfigBuilder, bench::Updates};

/// Recipes to measure by default.
const RECIPES: [&str; 3] = ["reverse", "fra-eng", "small"];

/// Length of each side of a sentence pair in tokens.
const LEN: usize = 20;

/// Number of measured updates.
const UPDATES: usize = 20;

fn main() -> Result<(), Box<dyn Error>> {
    // As in `train`.
    allocator::set_purge_delay(None);
    // Cargo passes `--bench`.
    let mut recipes: Vec<String> = env::args().skip(1).filter(|name| name != "--bench").collect();
    if recipes.is_empty() {
        recipes = RECIPES.map(str::to_owned).into();
    }
    let device = Device::flex();
    write!(stdout(), "{}", Report::HEADING)?;
    for name in recipes {
        let mut builder = ConfigBuilder::from_recipe(&name)?;
        // The sentences are synthetic, so no corpus is needed.
        builder.set_value("data.source", "toy");
        builder.set_value("train.accumulate", 1);
        let config = builder.build()?;
        let updates = Updates::of(&config, LEN);
        let devices = [device.clone()];
        let timing = updates.measure(&config, &devices, UPDATES)?;
        let work = format!("update of {} × {} tokens", updates.pairs, updates.len);
        writeln!(stdout(), "{}", Report::new(&name, "cpu", &device.clone().into(), work, timing))?;
    }
    Ok(())
}
