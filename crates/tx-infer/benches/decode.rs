//! Speed of search, greedy and with a beam of 5, in batches of 1 and of 32 sentences.
//!
//! `cargo bench --workspace --bench decode -- [tiny|small|base ...]`
//!
//! Prints one row of a table per measurement, for models with random weights. `translate bench`
//! does so with the same code for any bundle and device, and `benches/compare` compares it with
//! CTranslate2. The column `process MB` is the peak memory of the process, earlier rows included.

use std::{
    env,
    error::Error,
    io::{Write, stdout},
    num::NonZero,
    thread,
};

use burn::tensor::Device as BurnDevice;
use tx_cli::allocator;
use tx_infer::{
    Device, Engine,
    bench::{Report, Searching},
};
use tx_model::{DropoutConfig, ModelConfig, Transformer, VocabSizes};

/// Models to measure by default.
const MODELS: [&str; 3] = ["tiny", "small", "base"];

/// Number of measured repetitions.
const ROUNDS: usize = 5;

fn main() -> Result<(), Box<dyn Error>> {
    // As in `translate`.
    allocator::set_purge_delay(Some(100));
    // Cargo passes `--bench`.
    let mut models: Vec<String> = env::args().skip(1).filter(|name| name != "--bench").collect();
    if models.is_empty() {
        models = MODELS.map(str::to_owned).into();
    }
    let device = Device::Cpu;
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    write!(stdout(), "{}", Report::HEADING)?;
    for name in models {
        let (model, config, vocabulary) = random(&name, &BurnDevice::flex())?;
        let engine = Engine::from_transformer(model, config.max_len, &device);
        for (batch, sentences) in [(1, 16), (32, 64)] {
            for beam in [1, 5] {
                let searching = Searching {
                    sentences,
                    batch,
                    beam,
                    source_len: 20,
                    target_len: 25,
                    threads,
                    first_tokens: [None; 2],
                };
                let (timing, _) = searching.measure(&engine, vocabulary, ROUNDS)?;
                let report = Report::new(&name, "cpu", &device, searching.to_string(), timing);
                writeln!(stdout(), "{report}")?;
            }
        }
    }
    Ok(())
}

/// Returns an untrained model with its configuration and the size of its vocabulary.
fn random(
    name: &str,
    device: &BurnDevice,
) -> Result<(Transformer, ModelConfig, usize), Box<dyn Error>> {
    let (vocabulary, d_model, d_ff, n_heads, layers) = match name {
        "tiny" => (10_000, 128, 256, 4, 4),
        "small" => (10_000, 256, 1_024, 4, 3),
        "base" => (32_000, 512, 2_048, 8, 6),
        other => return Err(format!("unknown model `{other}`: tiny, small or base").into()),
    };
    let config = ModelConfig {
        d_model,
        n_heads,
        d_ff,
        encoder_layers: layers,
        decoder_layers: layers,
        dropout: DropoutConfig::none(),
        ..ModelConfig::default()
    };
    device.seed(1);
    let vocab = VocabSizes { source: vocabulary, target: vocabulary };
    Ok((Transformer::new(&config, vocab, device)?, config, vocabulary))
}
