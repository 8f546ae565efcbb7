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
    fs,
    io::{Write, stderr, stdout},
    process::{Command, ExitCode},
    time::Instant,
};

use burn::{tensor::Device, train::Learner};
use serde_json::{Value, json};
use tx_data::{EncodedPair, Seq2SeqBatch};
use tx_model::{DropoutConfig, ModelConfig, NormPlacement, Transformer, Tying, VocabSizes};
use tx_train::{
    adam::Adam,
    config::OptimizationConfig,
    schedule::{LearningRate, Schedule},
    step::Seq2Seq,
};

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

/// Steps before those measured: memory is asked for, threads are started.
const WARM_UP: usize = 2;

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
    let line =
        rayon::scope(|_| measure(shape, steps, &arguments.dropout).map_err(|e| e.to_string()))?;
    Ok(writeln!(stdout(), "{line}")?)
}

fn measure(shape: &Shape, steps: usize, dropout: &str) -> Result<Value, Box<dyn Error>> {
    let device = Device::flex().autodiff();
    device.seed(1);
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
    let vocab = VocabSizes { source: shape.vocabulary, target: shape.vocabulary };
    let model = Seq2Seq::new(Transformer::new(&config, vocab, &device)?, 0.1, 0.0);
    let rate = LearningRate {
        schedule: Schedule::Constant,
        peak: 1e-4,
        warmup_steps: 0,
        total_steps: WARM_UP + steps,
        d_model: shape.d_model,
        step: 0,
        reduction: 1.0,
    };
    let adam = Adam::new(&OptimizationConfig { beta2: 0.98, epsilon: 1e-9, ..Default::default() });
    let mut learner = Learner::new(model, adam.into(), rate);

    let mut seconds = Vec::with_capacity(WARM_UP + steps);
    let mut loss = 0.0;
    for step in 0..WARM_UP + steps {
        let batch = batch(shape, step, &device);
        device.seed(step as u64);
        let start = Instant::now();
        let model = learner.model();
        let mut output = model.gradients(vec![batch], &[]);
        model.clip(&mut output.grads);
        drop(model);
        learner.lr_step();
        learner.optimizer_step(output.grads);
        seconds.push(start.elapsed().as_secs_f64());
        loss = output.item.loss();
    }
    let first = seconds[0];
    let seconds = &seconds[WARM_UP..];
    let median = median(seconds);
    Ok(json!({
        "program": "tx",
        "name": shape.name,
        "dropout": dropout,
        "median_s": median,
        "first_s": first,
        "seconds": seconds,
        "tokens_per_second": (shape.batch * shape.len) as f64 / median,
        "rss_mb": peak_megabytes()?,
        "loss": loss,
        "version": env!("CARGO_PKG_VERSION"),
    }))
}

/// Ids that differ from step to step; none is padding, but the masks are made and used all the
/// same. `train_step.py` has the same rule.
fn batch(shape: &Shape, step: usize, device: &Device) -> Seq2SeqBatch {
    let side = |seed: usize, len: usize| {
        (0..shape.batch).map(move |row| {
            let id = |column| {
                1 + ((row * len + column) * 7_919 + seed * 104_729) % (shape.vocabulary - 1)
            };
            (0..len).map(|column| id(column) as u32).collect::<Vec<_>>()
        })
    };
    // The target is one longer: the decoder reads all but the last and says all but the first.
    let pairs: Vec<EncodedPair> = side(2 * step, shape.len)
        .zip(side(2 * step + 1, shape.len + 1))
        .map(|(source, target)| EncodedPair { source, target })
        .collect();
    Seq2SeqBatch::new(&pairs.iter().collect::<Vec<_>>(), device)
}

fn median(seconds: &[f64]) -> f64 {
    let mut sorted = seconds.to_vec();
    sorted.sort_by(f64::total_cmp);
    let half = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[half] } else { (sorted[half - 1] + sorted[half]) / 2.0 }
}

/// The most memory this process has held, in units of 10^6 bytes; null where the system does not
/// tell as Linux does.
fn peak_megabytes() -> Result<Option<f64>, Box<dyn Error>> {
    let Ok(status) = fs::read_to_string("/proc/self/status") else { return Ok(None) };
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kibibytes = peak.map(|rest| rest.trim().trim_end_matches(" kB").parse::<f64>());
    Ok(kibibytes.transpose()?.map(|kibibytes| kibibytes * 1024.0 / 1e6))
}
