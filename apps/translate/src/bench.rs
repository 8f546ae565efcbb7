//! `translate bench`: speed of search on a device.

use std::{io::Write, num::NonZero, thread};

use clap::Args;
use tx_cli::{
    allocator::SmallPages,
    terminal::{stderr, stdout},
};
use tx_infer::{
    Bundle,
    bench::{Report, Searching},
    device::Adapter,
};

use crate::{
    args::model::{DeviceArgs, ModelArgs, PrecisionArgs, ThreadArgs},
    usage::Usage,
};

/// Measure the speed of search with a model, on synthetic sentences
///
/// Prints one row of a Markdown table per beam size, with the target tokens per second of the median
/// repetition. All sources have one length, and all targets have one length, so that every device
/// does the same work. No text is tokenized.
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// Bundle to open
    #[command(flatten)]
    pub model: ModelArgs,

    /// Device to run on
    #[command(flatten)]
    pub device: DeviceArgs,

    /// Hypotheses kept per sentence; 1 is greedy search; several values are separated by commas
    #[arg(long, value_name = "N", default_value = "1,5", value_delimiter = ',')]
    pub beam: Vec<NonZero<usize>>,

    /// Sentences per repetition
    #[arg(long, value_name = "N", default_value = "64")]
    pub sentences: NonZero<usize>,

    /// Sentences per batch
    #[arg(long, value_name = "N", default_value = "32")]
    pub batch: NonZero<usize>,

    /// Source length in tokens
    #[arg(long, value_name = "N", default_value = "20")]
    pub source_len: NonZero<usize>,

    /// Target length in tokens
    #[arg(long, value_name = "N", default_value = "25")]
    pub target_len: NonZero<usize>,

    /// Measured repetitions, after one warm-up repetition
    #[arg(long, value_name = "N", default_value = "10")]
    pub rounds: NonZero<usize>,

    /// Threads of the device `cpu`
    #[command(flatten)]
    pub threads: ThreadArgs,

    /// Precision of the computation
    #[command(flatten)]
    pub precision: PrecisionArgs,

    /// Print one JSON object per beam size instead of the table, with the time of every repetition
    #[arg(long)]
    pub json: bool,
}

/// Measures and prints one row per beam size.
pub fn bench(args: &BenchArgs) -> anyhow::Result<()> {
    let (kind, device) = args.device.open()?;
    let name = match Adapter::of(&device) {
        Some(adapter) => format!("{} ({})", kind.name(), adapter.name),
        None => kind.name().to_owned(),
    };
    let precision = args.precision.precision;
    let small_pages = SmallPages::new();
    let bundle = Bundle::open(&args.model.model)?;
    let engine = bundle.engine_in(precision, &device)?;
    drop(small_pages);
    let Bundle { config, tokenizers, .. } = bundle;
    let vocabulary = tokenizers.source.vocab_size();
    let (source_len, target_len) = (args.source_len.get(), args.target_len.get());
    if source_len.max(target_len) >= config.max_len {
        let problem = format!(
            "{source_len} source tokens or {target_len} target tokens are too many: this model \
             accepts fewer than {}",
            config.max_len
        );
        return Err(Usage::new(problem).into());
    }
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let threads = args.threads.threads.map_or(cores, NonZero::get);
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
            // A GPU decodes one batch at a time on all of its cores.
            threads: if engine.gains_from_threads() { threads } else { 1 },
        };
        let timing = searching.measure(&engine, vocabulary, args.rounds.get())?;
        let model = args.model.model.display().to_string();
        let work = format!("{searching}, {precision}");
        let report = Report::new(&model, &name, &device, work, timing);
        if args.json {
            writeln!(stdout(), "{}", serde_json::to_string(&report)?)?;
        } else {
            writeln!(stdout(), "{report}")?;
        }
    }
    Ok(())
}
