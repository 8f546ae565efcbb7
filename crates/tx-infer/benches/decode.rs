//! How many target tokens a second searching gives, with targets of one length.
//!
//! `cargo bench --workspace --bench decode -- [MODEL ...] [--bundles DIR] [--tensors]
//! [--batches 1,32] [--beams 1,5] [--targets 25] [--threads 1,2] [--one-by-one] [--rounds 5]`
//!
//! Prints one line of JSON a figure, each measured in a process of its own, so that the peak of
//! memory is that figure's. `benches/compare/decode.py` prints the same for CTranslate2.
//!
//! Models are `tiny`, `small` and `base`: bundles of these names in DIR, as the example
//! `random_bundle` writes them, or else made on the spot with random weights. Sources have 20 tokens
//! and `<eos>`. Of several threads each searches batches of its own, as in `Translator`, unless there
//! is one batch at a time; a round is 64 sentences, or 16 in batches of one.

use std::{
    env,
    error::Error,
    io::{Write, stderr, stdout},
    num::NonZero,
    path::PathBuf,
    process::{Command, ExitCode},
    thread,
};

use burn::tensor::Device as BurnDevice;
use serde_json::{Value, json};
use tx_infer::{
    Bundle, Device, Engine,
    bench::{Searching, peak_megabytes},
};
use tx_model::{DropoutConfig, ModelConfig, Transformer, VocabSizes};

#[path = "../../../apps/translate/src/allocator.rs"]
mod allocator;

const MODELS: [&str; 3] = ["tiny", "small", "base"];
const SOURCE_TOKENS: usize = 20;
/// Of all three models.
const LEAST_VOCABULARY: usize = 10_000;

/// What the command line asks for: every combination is measured.
struct Arguments {
    models: Vec<String>,
    bundles: Option<PathBuf>,
    tensors: bool,
    batches: Vec<usize>,
    beams: Vec<usize>,
    targets: Vec<usize>,
    threads: Vec<usize>,
    /// One batch at a time, whatever the number of threads.
    one_by_one: bool,
    rounds: usize,
}

fn main() -> ExitCode {
    allocator::give_back_soon();
    let result = Arguments::read(env::args().skip(1)).and_then(|arguments| run(&arguments));
    if let Err(error) = result {
        drop(writeln!(stderr(), "error: {error}"));
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

impl Arguments {
    fn read(mut arguments: impl Iterator<Item = String>) -> Result<Self, Box<dyn Error>> {
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        let mut found = Self {
            models: Vec::new(),
            bundles: None,
            tensors: false,
            batches: vec![1, 32],
            beams: vec![1, 5],
            targets: vec![25],
            threads: if cores == 1 { vec![1] } else { vec![1, cores] },
            one_by_one: false,
            rounds: 5,
        };
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value"));
            match &*argument {
                // Cargo says so itself.
                "--bench" => {}
                "--bundles" => found.bundles = Some(value()?.into()),
                "--tensors" => found.tensors = true,
                "--one-by-one" => found.one_by_one = true,
                "--batches" => found.batches = numbers(&value()?)?,
                "--beams" => found.beams = numbers(&value()?)?,
                "--targets" => found.targets = numbers(&value()?)?,
                "--threads" => found.threads = numbers(&value()?)?,
                "--rounds" => found.rounds = value()?.parse::<NonZero<usize>>()?.get(),
                name if MODELS.contains(&name) => found.models.push(name.to_owned()),
                other => return Err(format!("no model or option `{other}`").into()),
            }
        }
        if found.models.is_empty() {
            found.models = MODELS.map(str::to_owned).into();
        }
        Ok(found)
    }

    /// The command line that asks for one figure of these.
    fn one(&self, model: &str, figure: [usize; 4]) -> Vec<String> {
        let mut one = vec![model.to_owned(), "--rounds".to_owned(), self.rounds.to_string()];
        for (name, value) in ["--batches", "--beams", "--targets", "--threads"].iter().zip(figure) {
            one.extend([(*name).to_owned(), value.to_string()]);
        }
        if let Some(bundles) = &self.bundles {
            one.extend(["--bundles".to_owned(), bundles.display().to_string()]);
        }
        for (name, asked) in [("--tensors", self.tensors), ("--one-by-one", self.one_by_one)] {
            one.extend(asked.then(|| name.to_owned()));
        }
        one
    }
}

fn numbers(text: &str) -> Result<Vec<usize>, Box<dyn Error>> {
    text.split(',').map(|number| Ok(number.parse::<NonZero<usize>>()?.get())).collect()
}

/// One figure here, several in a process each.
fn run(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let Arguments { models, batches, beams, targets, threads, .. } = arguments;
    if let ([model], [batch], [beam], [target], [threads]) =
        (&models[..], &batches[..], &beams[..], &targets[..], &threads[..])
    {
        let engine = engine(model, arguments)?;
        let figure = [*batch, *beam, *target, *threads];
        let line = measure(&engine, model, figure, arguments)?;
        return Ok(writeln!(stdout(), "{line}")?);
    }
    for model in models {
        for &batch in batches {
            for &beam in beams {
                for &target in targets {
                    for &threads in threads {
                        let one = arguments.one(model, [batch, beam, target, threads]);
                        if !Command::new(env::current_exe()?).args(&one).status()?.success() {
                            return Err(format!("failed: {}", one.join(" ")).into());
                        }
                    }
                }
            }
        }
    }
    Ok(())
}

fn engine(name: &str, arguments: &Arguments) -> Result<Engine, Box<dyn Error>> {
    let flex = BurnDevice::flex();
    let device = if arguments.tensors { Device::Burn(flex.clone()) } else { Device::Cpu };
    match &arguments.bundles {
        Some(bundles) => Ok(Bundle::open(bundles.join(name))?.engine(&device)?),
        None => {
            let (model, config) = random(name, &flex)?;
            Ok(Engine::from_transformer(model, config.max_len, &device))
        }
    }
}

/// An untrained model.
fn random(name: &str, device: &BurnDevice) -> Result<(Transformer, ModelConfig), Box<dyn Error>> {
    let (vocabulary, d_model, d_ff, n_heads, layers) = match name {
        "tiny" => (10_000, 128, 256, 4, 4),
        "small" => (10_000, 256, 1_024, 4, 3),
        _ => (32_000, 512, 2_048, 8, 6),
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
    Ok((Transformer::new(&config, vocab, device)?, config))
}

fn measure(
    engine: &Engine,
    model: &str,
    [batch, beam, target, threads]: [usize; 4],
    &Arguments { one_by_one, rounds, .. }: &Arguments,
) -> Result<Value, Box<dyn Error>> {
    let searching = Searching {
        sentences: if batch == 1 { 16 } else { (2 * batch).max(batch * threads) },
        batch,
        beam,
        source_len: SOURCE_TOKENS,
        target_len: target,
        threads,
        one_by_one,
    };
    let timing = searching.measure(engine, LEAST_VOCABULARY, rounds)?;
    Ok(json!({
        "program": "tx",
        "model": model,
        "batch": batch,
        "beam": beam,
        "target": target,
        "threads": threads,
        "one_by_one": one_by_one,
        "tokens_per_second": timing.tokens_per_second(),
        "seconds": timing.seconds,
        "rss_mb": peak_megabytes(),
        "version": env!("CARGO_PKG_VERSION"),
    }))
}
