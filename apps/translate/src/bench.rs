//! `translate bench`: how fast a device searches.

use std::{io::Write, num::NonZero, path::PathBuf, thread};

use clap::{Args, ValueHint};
use tx_infer::{
    Bundle, Precision,
    bench::{Report, Searching},
    device::{Adapter, DeviceName},
};

use crate::{
    terminal::{stderr, stdout},
    usage::Usage,
};

/// Measure how fast a device searches with a model, for made-up sentences
///
/// Prints a row of a Markdown table for each size of beam, with target tokens a second by the median
/// repetition. All sources and all targets have the lengths asked for, so that every device does the
/// same work; text is neither read nor written.
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// Folder written by `train`: weights, configuration and tokenizers
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub model: PathBuf,

    /// Device to measure: auto, cpu, ndarray, wgpu, vulkan or cuda, with :N for the Nth
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    pub device: DeviceName,

    /// Hypotheses kept, 1 is greedy; several, separated by commas
    #[arg(long, value_name = "N", default_value = "1,5", value_delimiter = ',')]
    pub beam: Vec<NonZero<usize>>,

    /// Sentences of a repetition
    #[arg(long, value_name = "N", default_value = "64")]
    pub sentences: NonZero<usize>,

    /// Sentences searched together
    #[arg(long, value_name = "N", default_value = "32")]
    pub batch: NonZero<usize>,

    /// Tokens of a source
    #[arg(long, value_name = "N", default_value = "20")]
    pub source_len: NonZero<usize>,

    /// Tokens of a target
    #[arg(long, value_name = "N", default_value = "25")]
    pub target_len: NonZero<usize>,

    /// Repetitions that count
    #[arg(long, value_name = "N", default_value = "10")]
    pub rounds: NonZero<usize>,

    /// Threads on the device cpu, each with a batch at a time [default: all cores]
    #[arg(long, value_name = "N")]
    pub threads: Option<NonZero<usize>>,

    /// Numbers to compute in: f32, or f16 or bf16 where the device has them
    #[arg(long, value_name = "NUMBERS", default_value_t)]
    pub precision: Precision,

    /// Print a JSON object a line instead, with the time of every repetition
    #[arg(long)]
    pub json: bool,
}

/// Measures what is asked for.
pub fn bench(args: &BenchArgs) -> anyhow::Result<()> {
    let (kind, device) = args.device.open()?;
    let name = match Adapter::of(&device) {
        Some(adapter) => format!("{} ({})", kind.name(), adapter.name),
        None => kind.name().to_owned(),
    };
    let bundle = Bundle::open(&args.model)?;
    let engine = bundle.engine_in(args.precision, &device)?;
    let Bundle { config, tokenizers, .. } = bundle;
    let vocabulary = tokenizers.source.vocab_size();
    let (source_len, target_len) = (args.source_len.get(), args.target_len.get());
    if source_len.max(target_len) >= config.max_len {
        let problem = format!(
            "sentences of {source_len} to {target_len} tokens: this model knows fewer than {}",
            config.max_len
        );
        return Err(Usage::new(problem).into());
    }
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let threads = args.threads.map_or(cores, NonZero::get);
    writeln!(stderr(), "tx {}, {name}", env!("CARGO_PKG_VERSION"))?;
    if !args.json {
        write!(stdout(), "{}", Report::HEADING)?;
    }
    for beam in &args.beam {
        let searching = Searching {
            sentences: args.sentences.get(),
            batch: args.batch.get(),
            beam: beam.get(),
            source_len,
            target_len,
            // One at a time asks a GPU for work; it has cores of its own.
            threads: if engine.gains_from_threads() { threads } else { 1 },
            one_by_one: false,
        };
        let timing = searching.measure(&engine, vocabulary, args.rounds.get())?;
        let model = args.model.display().to_string();
        let work = format!("{searching}, {}", args.precision);
        let report = Report::new(&model, &name, &device, work, timing);
        if args.json {
            writeln!(stdout(), "{}", serde_json::to_string(&report)?)?;
        } else {
            writeln!(stdout(), "{report}")?;
        }
    }
    Ok(())
}
