//! `translate bench`: speed of a model on a device.

use std::{
    fmt,
    io::{self, Write},
    num::NonZero,
    path::PathBuf,
    time::{Duration, Instant},
};

use clap::{Args, ValueHint};
use tx_cli::{
    allocator::SmallPages,
    terminal::{stderr, stdout},
};
use tx_infer::{
    Bundle, Classifier, Device, Engine, FillMask, Shortlist, TaskKind,
    bench::{Encoding, Report, Searching, StepCounts, Timing},
    device::Adapter,
};

use crate::{
    args::model::{DeviceArgs, LanguageArgs, ModelArgs, PrecisionArgs, ThreadArgs},
    usage::Usage,
};

/// Measure the speed of a model on synthetic sentences
///
/// Prints one row of a Markdown table per beam size, with the target tokens per second of the median
/// repetition. All sources have one length, and all targets have one length, so that every device
/// does the same work. No text is tokenized. A language model continues prompts of the source length
/// by the target length. A classifier or a model that fills masks has one row, with input tokens per
/// second.
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

    /// Languages of a multilingual model, whose tokens are the first of sources and targets
    #[command(flatten)]
    pub languages: LanguageArgs,

    /// Threads of the device `cpu`
    #[command(flatten)]
    pub threads: ThreadArgs,

    /// Precision of the computation
    #[command(flatten)]
    pub precision: PrecisionArgs,

    /// Vocabulary shortlist, written by `translate shortlist`
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub shortlist: Option<PathBuf>,

    /// Print one JSON object per beam size instead of the table, with the time of every repetition and
    /// of opening the model
    #[arg(long)]
    pub json: bool,
}

/// Measures the model and prints the rows.
pub fn bench(args: &BenchArgs) -> anyhow::Result<()> {
    let (device_kind, device) = args.device.open()?;
    let name = match Adapter::of(&device) {
        Some(adapter) => format!("{} ({})", device_kind.name(), adapter.name),
        None => device_kind.name().to_owned(),
    };
    let small_pages = SmallPages::new();
    let start = Instant::now();
    let bundle = Bundle::open_for_model(&args.model.model)?;
    let small_pages = small_pages.while_packing(bundle.weight_bytes());
    let first_tokens = first_tokens(&args.languages, &bundle)?;
    let precision = args.precision.of(&bundle);
    let described = precision.description()?;
    let kind = bundle.task.kind();
    if args.shortlist.is_some() && kind != TaskKind::Translate {
        let problem = format!("`--shortlist` conflicts with the task of the bundle, `{kind}`");
        return Err(Usage::new(problem).into());
    }
    let target = |opening| Target {
        args,
        name: &name,
        device: &device,
        precision: &described,
        first_tokens,
        opening,
    };
    match kind {
        TaskKind::Translate | TaskKind::Generate => {
            let mut engine = bundle.engine_in(precision, &device)?;
            if let Some(path) = &args.shortlist {
                let shortlist = Shortlist::open(path)?;
                shortlist.check(&bundle.tokenizers)?;
                engine = engine.with_shortlist(shortlist.into())?;
            }
            drop(small_pages);
            let target = target(start.elapsed());
            let Bundle { task, config, tokenizers, .. } = bundle;
            target.search(&engine, task.kind(), config.max_len, tokenizers.source.vocab_size())
        }
        TaskKind::Classify => {
            let model = Classifier::new_in(&bundle, precision, &device)?;
            drop((bundle, small_pages));
            target(start.elapsed()).encode(
                model.gains_from_threads(),
                model.config().max_len,
                |work| work.measure_classifier(&model, args.rounds.get()),
            )
        }
        TaskKind::FillMask => {
            let model = FillMask::new_in(&bundle, precision, &device)?;
            drop((bundle, small_pages));
            target(start.elapsed()).encode(
                model.gains_from_threads(),
                model.config().max_len,
                |work| work.measure_fill_mask(&model, args.rounds.get()),
            )
        }
    }
}

/// Returns the tokens of languages at the beginning of sources and targets.
fn first_tokens(languages: &LanguageArgs, bundle: &Bundle) -> anyhow::Result<[Option<u32>; 2]> {
    let kind = bundle.task.kind();
    match (languages.is_given(), kind) {
        (false, _) => Ok([None; 2]),
        (true, TaskKind::Translate) => Ok(languages.texts(bundle)?.language_ids()?),
        (true, TaskKind::Classify | TaskKind::Generate | TaskKind::FillMask) => {
            Err(LanguageArgs::conflict(kind).into())
        }
    }
}

/// Device that is measured, with the arguments.
struct Target<'a> {
    args: &'a BenchArgs,
    /// Name of the device.
    name: &'a str,
    device: &'a Device,
    /// Precision, with the instructions of a quantized model.
    precision: &'a str,
    /// First tokens of sources and targets.
    first_tokens: [Option<u32>; 2],
    /// Time of opening the model.
    opening: Duration,
}

impl Target<'_> {
    /// Measures search, and prints one row per beam size.
    fn search(
        &self,
        engine: &Engine,
        kind: TaskKind,
        max_len: usize,
        vocabulary: usize,
    ) -> anyhow::Result<()> {
        let args = self.args;
        let (source_len, target_len) = (args.source_len.get(), args.target_len.get());
        let longest = match kind {
            TaskKind::Generate => source_len.saturating_add(target_len),
            TaskKind::Translate | TaskKind::Classify | TaskKind::FillMask => {
                source_len.max(target_len)
            }
        };
        if longest >= max_len {
            let problem = match kind {
                TaskKind::Generate => format!(
                    "{source_len} prompt tokens and {target_len} more tokens are too many: this model \
                     accepts fewer than {max_len} together"
                ),
                TaskKind::Translate | TaskKind::Classify | TaskKind::FillMask => format!(
                    "{source_len} source tokens or {target_len} target tokens are too many: this \
                     model accepts fewer than {max_len}"
                ),
            };
            return Err(Usage::new(problem).into());
        }
        self.print_heading()?;
        for beam in &args.beam {
            let searching = Searching {
                sentences: args.sentences.get(),
                batch: args.batch.get(),
                beam: beam.get(),
                source_len,
                target_len,
                threads: self.threads(engine.gains_from_threads()),
                first_tokens: self.first_tokens,
            };
            let (timing, counts) = searching.measure(engine, vocabulary, args.rounds.get())?;
            self.print(&searching, timing, counts.as_ref())?;
        }
        Ok(())
    }

    /// Measures a model without a decoder, and prints one row.
    fn encode(
        &self,
        gains_from_threads: bool,
        max_len: usize,
        measure: impl FnOnce(&Encoding) -> Timing,
    ) -> anyhow::Result<()> {
        let len = self.args.source_len.get();
        if len > max_len {
            let problem =
                format!("{len} tokens are too many: this model accepts at most {max_len}");
            return Err(Usage::new(problem).into());
        }
        self.print_heading()?;
        let encoding = Encoding {
            texts: self.args.sentences.get(),
            batch: self.args.batch.get(),
            len,
            threads: self.threads(gains_from_threads),
        };
        let timing = measure(&encoding);
        self.print(&encoding, timing, None)
    }

    /// Number of threads. A GPU computes one batch at a time on all of its cores.
    fn threads(&self, gains_from_threads: bool) -> usize {
        if gains_from_threads { self.args.threads.count() } else { 1 }
    }

    fn print_heading(&self) -> io::Result<()> {
        writeln!(stderr(), "tx {}, {}", env!("CARGO_PKG_VERSION"), self.name)?;
        if self.args.json { Ok(()) } else { write!(stdout(), "{}", Report::HEADING) }
    }

    fn print(
        &self,
        work: &impl fmt::Display,
        timing: Timing,
        counts: Option<&StepCounts>,
    ) -> anyhow::Result<()> {
        let model = self.args.model.model.display().to_string();
        let work = format!("{work}, {}", self.precision);
        let work = match counts {
            Some(StepCounts { launches_per_step, readbacks_per_step, .. }) => format!(
                "{work}, {launches_per_step:.1} launches and {readbacks_per_step:.2} readbacks a step"
            ),
            None => work,
        };
        let report = Report::new(&model, self.name, self.device, work, timing);
        if self.args.json {
            let mut json = serde_json::to_value(&report)?;
            json["open_seconds"] = self.opening.as_secs_f64().into();
            if let Some(counts) = counts {
                json["counts"] = serde_json::to_value(counts)?;
            }
            writeln!(stdout(), "{json}")?;
        } else {
            writeln!(stdout(), "{report}")?;
        }
        Ok(())
    }
}
