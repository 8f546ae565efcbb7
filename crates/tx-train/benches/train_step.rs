//! Seconds a training step takes, whole: forward, smoothed loss, backward, Adam.
//!
//! `cargo bench --workspace --bench train_step -- [SHAPE ...] [--steps N] [--dropout everywhere]`
//!
//! Prints one line of JSON a shape, each measured in a process of its own, so that the peak of
//! memory is that shape's. `benches/compare/train_step.py` prints the same for PyTorch on the same
//! models and batches.
//!
//! A step is what `train` does for a batch: Burn's Learner, the loss read, the norm of the gradient
//! measured. No gradient is clipped. The ids are made before the clock starts.

use std::{
    env,
    error::Error,
    io::{Write, stderr, stdout},
    process::{Command, ExitCode},
};

use burn::tensor::Device;
use serde_json::{Value, json};
use tx_infer::bench::peak_megabytes;
use tx_model::{DropoutConfig, ModelConfig, NormPlacement, Tying, VocabSizes};
use tx_train::{bench::Updates, config::OptimizationConfig};

#[path = "../../../apps/train/src/allocator.rs"]
mod allocator;

/// A model and a batch of full rows.
struct Shape {
    name: &'static str,
    vocabulary: usize,
    d_model: usize,
    d_ff: usize,
    n_heads: usize,
    /// In the encoder, and again in the decoder.
    layers: usize,
    /// Sentence pairs a batch.
    batch: usize,
    /// Tokens of each side.
    len: usize,
    /// Steps measured, unless said otherwise.
    steps: usize,
}

const SHAPES: [Shape; 4] = [
    Shape {
        name: "reverse",
        vocabulary: 128,
        d_model: 128,
        d_ff: 128,
        n_heads: 4,
        layers: 1,
        batch: 256,
        len: 20,
        steps: 30,
    },
    Shape {
        name: "d2l",
        vocabulary: 200,
        d_model: 32,
        d_ff: 64,
        n_heads: 4,
        layers: 2,
        batch: 64,
        len: 10,
        steps: 100,
    },
    Shape {
        name: "small",
        vocabulary: 10_000,
        d_model: 256,
        d_ff: 1_024,
        n_heads: 4,
        layers: 3,
        batch: 128,
        len: 16,
        steps: 12,
    },
    Shape {
        name: "base",
        vocabulary: 20_000,
        d_model: 512,
        d_ff: 2_048,
        n_heads: 8,
        layers: 6,
        batch: 8,
        len: 350,
        steps: 5,
    },
];

/// What the command line asks for.
struct Arguments {
    shapes: Vec<&'static Shape>,
    steps: Option<usize>,
    dropout: String,
}

fn main() -> ExitCode {
    allocator::keep_freed_pages();
    let result = Arguments::read(env::args().skip(1)).and_then(|arguments| run(&arguments));
    if let Err(error) = result {
        drop(writeln!(stderr(), "error: {error}"));
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

impl Arguments {
    fn read(mut arguments: impl Iterator<Item = String>) -> Result<Self, Box<dyn Error>> {
        let (mut shapes, mut steps) = (Vec::new(), None);
        let mut dropout = "everywhere".to_owned();
        while let Some(argument) = arguments.next() {
            match &*argument {
                // Cargo says so itself.
                "--bench" => {}
                "--steps" => {
                    steps = Some(arguments.next().ok_or("--steps needs a number")?.parse()?)
                }
                "--dropout" => dropout = arguments.next().ok_or("--dropout needs a name")?,
                name => shapes.push(
                    SHAPES
                        .iter()
                        .find(|shape| shape.name == name)
                        .ok_or_else(|| format!("no shape `{name}`"))?,
                ),
            }
        }
        if shapes.is_empty() {
            shapes = SHAPES.iter().collect();
        }
        Ok(Self { shapes, steps, dropout })
    }
}

/// One shape here, several in a process each.
fn run(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let [shape] = arguments.shapes[..] else {
        for shape in &arguments.shapes {
            let mut child = Command::new(env::current_exe()?);
            child.args([shape.name, "--dropout", &arguments.dropout]);
            if let Some(steps) = arguments.steps {
                child.args(["--steps", &steps.to_string()]);
            }
            if !child.status()?.success() {
                return Err(format!("shape `{}` failed", shape.name).into());
            }
        }
        return Ok(());
    };
    let steps = arguments.steps.unwrap_or(shape.steps).max(1);
    let line = measure(shape, steps, &arguments.dropout)?;
    Ok(writeln!(stdout(), "{line}")?)
}

fn measure(shape: &Shape, steps: usize, dropout: &str) -> Result<Value, Box<dyn Error>> {
    let config = ModelConfig {
        d_model: shape.d_model,
        n_heads: shape.n_heads,
        d_ff: shape.d_ff,
        encoder_layers: shape.layers,
        decoder_layers: shape.layers,
        max_len: 512,
        norm: NormPlacement::Pre,
        tying: Tying::None,
        dropout: match dropout {
            "everywhere" => {
                DropoutConfig { attention: 0.1, activation: 0.1, ..DropoutConfig::paper(0.1) }
            }
            "paper" => DropoutConfig::paper(0.1),
            other => return Err(format!("no dropout `{other}`: everywhere or paper").into()),
        },
        ..ModelConfig::default()
    };
    let train = OptimizationConfig { clip_norm: 0.0, ..Default::default() };
    let vocab = VocabSizes { source: shape.vocabulary, target: shape.vocabulary };
    let updates = Updates { vocab, pairs: shape.batch, len: shape.len };
    let (timing, loss) = updates.measure(&config, &train, &[Device::flex()], steps)?;
    Ok(json!({
        "program": "tx",
        "name": shape.name,
        "dropout": dropout,
        "median_s": timing.quantile(0.5),
        "first_s": timing.first,
        "seconds": timing.seconds,
        "tokens_per_second": timing.tokens_per_second(),
        "rss_mb": peak_megabytes(),
        "loss": loss,
        "version": env!("CARGO_PKG_VERSION"),
    }))
}
