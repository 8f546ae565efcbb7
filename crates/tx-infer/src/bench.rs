//! Benchmarks: timing of repeated work, and the speed of search.

use std::{
    collections::BTreeMap,
    fmt, fs,
    sync::{
        OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use rayon::{ThreadPool, ThreadPoolBuilder};
use serde::Serialize;
use tx_kernels::packed_matrix::without_helpers;
#[cfg(feature = "burn")]
use tx_model::kernels::launches::{LaunchCounter, Launches, Phase};
use tx_text::special;

use crate::{
    cancellation::Cancellation,
    classifier::Classifier,
    device::Device,
    error::InferError,
    fill_mask::FillMask,
    search::{Engine, Request, SearchOptions},
};

/// Times of repetitions of the same work.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Timing {
    /// Number of target tokens of a repetition.
    pub tokens: usize,
    /// Seconds of the first repetition, which does not count because it allocates memory and
    /// compiles kernels.
    pub first: f64,
    /// Seconds of each repetition that counts; at least one.
    pub seconds: Vec<f64>,
}

impl Timing {
    /// Measures `repetitions` calls of `work`, each for `tokens` target tokens. They follow
    /// `warm_up` calls and one more that do not count. The time does not include `prepare`, which
    /// gets the number of the repetition and returns the input of `work`. `work` must not return
    /// before the device has finished.
    pub fn of<T>(
        tokens: usize,
        warm_up: usize,
        repetitions: usize,
        mut prepare: impl FnMut(usize) -> T,
        mut work: impl FnMut(T),
    ) -> Self {
        let mut seconds = Vec::with_capacity(1 + warm_up + repetitions);
        for repetition in 0..=warm_up + repetitions.max(1) {
            let prepared = prepare(repetition);
            let start = Instant::now();
            work(prepared);
            seconds.push(start.elapsed().as_secs_f64());
        }
        let first = seconds[0];
        seconds.drain(..=warm_up);
        Self { tokens, first, seconds }
    }

    /// Returns the quantile of the times, with linear interpolation: 0.5 is the median.
    pub fn quantile(&self, fraction: f64) -> f64 {
        let mut sorted = self.seconds.clone();
        sorted.sort_by(f64::total_cmp);
        let position = fraction.clamp(0.0, 1.0) * (sorted.len() - 1) as f64;
        let (below, above) = (sorted[position.floor() as usize], sorted[position.ceil() as usize]);
        below + (above - below) * position.fract()
    }

    /// Returns the number of target tokens per second, from the median time.
    pub fn tokens_per_second(&self) -> f64 {
        self.tokens as f64 / self.quantile(0.5)
    }
}

/// Threads of a benchmark, which it keeps for all repetitions, as a program does: a new thread allocates its memory
/// again. A single one is that of the caller, because the tensor operations in a pool use its threads only.
struct Workers(Option<ThreadPool>);

impl Workers {
    /// Starts `threads` threads, if they are several and the system can.
    fn new(threads: usize) -> Self {
        let start = || ThreadPoolBuilder::new().num_threads(threads).build().ok();
        Self((threads > 1).then(start).flatten())
    }

    /// Calls `work` on each thread, which shares its products with no other, and waits for all.
    fn run(&self, work: impl Fn() + Sync) {
        match &self.0 {
            Some(pool) => drop(pool.broadcast(|_| without_helpers(&work))),
            None => work(),
        }
    }
}

/// Result of a benchmark, as a row of a table.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Name of the model.
    pub model: String,
    /// The device, and its name if it has one.
    pub device: String,
    /// Description of the work of a repetition.
    pub work: String,
    /// Times of the repetitions.
    pub timing: Timing,
    /// Target tokens per second.
    pub tokens_per_second: f64,
    /// Peak memory of the process in units of 10⁶ bytes, where the system reports it.
    pub peak_megabytes: Option<f64>,
    /// Memory reserved on the device in units of 10⁶ bytes, where it reports it.
    pub device_megabytes: Option<f64>,
    /// Number of buffers in use on the device after the measurement, where it reports it.
    pub device_buffers: Option<u64>,
}

impl Report {
    /// Creates the report of a measurement that has just ended on the device `device`, called
    /// `name`.
    pub fn new(model: &str, name: &str, device: &Device, work: String, timing: Timing) -> Self {
        Self {
            model: model.into(),
            device: name.into(),
            work,
            tokens_per_second: timing.tokens_per_second(),
            timing,
            peak_megabytes: peak_megabytes(),
            device_megabytes: device_megabytes(device),
            device_buffers: device_buffers(device),
        }
    }

    /// The heading of the table whose rows `Display` writes.
    pub const HEADING: &'static str = "\
| model | device | work | tokens/s | median ms | 10 % | 90 % | first ms | process MB | device MB |
|---|---|---|---|---|---|---|---|---|---|
";
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { model, device, work, timing, tokens_per_second, .. } = self;
        let milliseconds = |fraction| 1e3 * timing.quantile(fraction);
        write!(f, "| {model} | {device} | {work} | {tokens_per_second:.0} |")?;
        write!(f, " {:.1} | {:.1} |", milliseconds(0.5), milliseconds(0.1))?;
        write!(f, " {:.1} | {:.0} |", milliseconds(0.9), 1e3 * timing.first)?;
        for megabytes in [self.peak_megabytes, self.device_megabytes] {
            match megabytes {
                Some(megabytes) => write!(f, " {megabytes:.0} |")?,
                None => write!(f, " – |")?,
            }
        }
        Ok(())
    }
}

/// Kernel launches of a search on a GPU.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct StepCounts {
    /// Launches of a step of the decoder.
    pub launches_per_step: f64,
    /// Tensors copied to the device, in a step; those of the encoder are divided among its steps.
    pub uploads_per_step: f64,
    /// Waits for results of the device, in a step.
    pub readbacks_per_step: f64,
    /// Launches of the encoder, and of the keys and values of its output, for a batch.
    pub encoder_launches: f64,
    /// Launches of a step, by name of the kernel.
    pub kernels: BTreeMap<String, f64>,
}

#[cfg(feature = "burn")]
impl StepCounts {
    /// Divides the launches of `batches` batches with `steps` steps each.
    fn of(launches: &Launches, batches: usize, steps: usize) -> Self {
        let per_step = |count: usize| count as f64 / (batches * steps).max(1) as f64;
        let kernels = launches.kernels(Phase::Step);
        Self {
            launches_per_step: per_step(launches.of(Phase::Step)),
            uploads_per_step: per_step(launches.uploads()),
            readbacks_per_step: per_step(launches.readbacks()),
            encoder_launches: launches.of(Phase::Forward) as f64 / batches.max(1) as f64,
            kernels: kernels.map(|(name, count)| (name.to_owned(), per_step(count))).collect(),
        }
    }
}

/// Benchmark of search: generated sources of one length, targets of one length. For a language model,
/// the sources are prompts, and the targets their continuations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Searching {
    /// Sentences of a repetition.
    pub sentences: usize,
    /// Sentences of a batch.
    pub batch: usize,
    /// Hypotheses kept; 1 is greedy.
    pub beam: usize,
    /// Tokens of a source, `<eos>` not counted.
    pub source_len: usize,
    /// Tokens of a target.
    pub target_len: usize,
    /// Number of threads, each of which searches its own batch.
    pub threads: usize,
    /// First tokens of sources and targets, such as those of languages. They count in the lengths.
    pub first_tokens: [Option<u32>; 2],
}

impl Searching {
    /// Measures the search with `engine`, whose source vocabulary has `vocabulary` ids. Returns the launches,
    /// too, if there are any.
    ///
    /// # Errors
    ///
    /// Same as [`Engine::search`].
    ///
    /// # Panics
    ///
    /// If a target has another length, which would be a bug of the search.
    pub fn measure(
        &self,
        engine: &Engine,
        vocabulary: usize,
        repetitions: usize,
    ) -> Result<(Timing, Option<StepCounts>), InferError> {
        let options = self.options(engine);
        let has_source = engine.has_source();
        let [first_source, forced_first] = self.first_tokens;
        let mut sources = generated(self.sentences, self.source_len, vocabulary);
        if let Some(id) = first_source {
            sources
                .iter_mut()
                .filter_map(|source| source.first_mut())
                .for_each(|first| *first = id);
        }
        let request = |(source, number): (&'_ Vec<u32>, u64)| match has_source {
            true => OwnedRequest {
                source: [source, &[special::EOS][..]].concat(),
                forced_first,
                prefix: Vec::new(),
                number,
            },
            false => {
                OwnedRequest { source: Vec::new(), forced_first, prefix: source.clone(), number }
            }
        };
        let requests: Vec<OwnedRequest> = sources.iter().zip(0..).map(request).collect();
        let requests: Vec<Request<'_>> = requests.iter().map(OwnedRequest::borrowed).collect();
        let batches: Vec<&[Request<'_>]> = requests.chunks(self.batch.max(1)).collect();
        let never = Cancellation::new();
        let failed = OnceLock::new();
        let expected = self.sentences * self.target_len;
        let workers = Workers::new(self.threads);
        #[cfg(feature = "burn")]
        let (counter, mut launches) = (LaunchCounter::start(), None);
        let round = |()| {
            #[cfg(feature = "burn")]
            let _ = counter.as_ref().map(LaunchCounter::take);
            let (next, tokens) = (AtomicUsize::new(0), AtomicUsize::new(0));
            let work = || {
                while let Some(batch) = batches.get(next.fetch_add(1, Ordering::Relaxed)) {
                    match engine.search_requests(batch, &options, &never) {
                        Ok(found) => {
                            let found: usize = found.iter().map(|found| found[0].ids.len()).sum();
                            let given: usize = batch.iter().map(|it| it.prefix.len()).sum();
                            tokens.fetch_add(found - given, Ordering::Relaxed);
                        }
                        // Only the first error is returned.
                        Err(error) => drop(failed.set(error)),
                    }
                }
            };
            workers.run(work);
            #[cfg(feature = "burn")]
            {
                launches = counter.as_ref().map(LaunchCounter::take);
            }
            if failed.get().is_none() {
                assert_eq!(tokens.into_inner(), expected, "all targets have the length asked for");
            }
        };
        let timing = Timing::of(expected, 0, repetitions, |_| (), round);
        #[cfg(feature = "burn")]
        let counts = launches
            .filter(|launches| launches.total() > 0)
            .map(|launches| StepCounts::of(&launches, batches.len(), self.target_len));
        #[cfg(not(feature = "burn"))]
        let counts = None;
        failed.into_inner().map_or(Ok((timing, counts)), Err)
    }

    /// Options with which all targets have the length asked for.
    fn options(&self, engine: &Engine) -> SearchOptions {
        let options = SearchOptions {
            beam: self.beam,
            // Models with random weights repeat tokens.
            max_repeats: 0,
            ..SearchOptions::default()
        };
        if engine.has_source() {
            SearchOptions {
                max_len_ratio: 0.0,
                max_len_extra: self.target_len,
                min_len: self.target_len,
                ..options
            }
        } else {
            // The prompt counts.
            let len = self.source_len + self.target_len;
            SearchOptions { max_len: Some(len), min_len: len, ..options }
        }
    }
}

/// A request with its ids.
struct OwnedRequest {
    source: Vec<u32>,
    forced_first: Option<u32>,
    prefix: Vec<u32>,
    number: u64,
}

impl OwnedRequest {
    fn borrowed(&self) -> Request<'_> {
        let Self { source, forced_first, prefix, number } = self;
        Request { forced_first: *forced_first, prefix, ..Request::new(source, *number) }
    }
}

/// Returns `count` texts of `len` ids, the same as those of `benches/compare/decode.py` if the
/// vocabulary is large enough.
fn generated(count: usize, len: usize, vocabulary: usize) -> Vec<Vec<u32>> {
    let words = vocabulary.saturating_sub(4).clamp(1, 9_000);
    let id =
        |sentence: usize, position: usize| 4 + ((sentence * 37 + position * 11) % words) as u32;
    (0..count).map(|sentence| (0..len).map(|position| id(sentence, position)).collect()).collect()
}

/// Benchmark of a model without a decoder: generated texts of one length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Encoding {
    /// Texts of a repetition.
    pub texts: usize,
    /// Texts of a batch.
    pub batch: usize,
    /// Tokens of a text.
    pub len: usize,
    /// Number of threads, each of which computes its own batch.
    pub threads: usize,
}

impl Encoding {
    /// Measures the classification of the texts.
    pub fn measure_classifier(&self, model: &Classifier, repetitions: usize) -> Timing {
        let vocabulary = model.tokenizer().vocab_size();
        self.measure(vocabulary, repetitions, &|texts| drop(model.logits(texts)))
    }

    /// Measures the scores of the tokens at one position of each text.
    pub fn measure_fill_mask(&self, model: &FillMask, repetitions: usize) -> Timing {
        let vocabulary = model.tokenizer().vocab_size();
        self.measure(vocabulary, repetitions, &|texts| {
            let texts: Vec<(&[u32], &[usize])> =
                texts.iter().map(|text| (*text, &[0_usize][..])).collect();
            drop(model.logits(&texts));
        })
    }

    fn measure(
        &self,
        vocabulary: usize,
        repetitions: usize,
        run: &(dyn Fn(&[&[u32]]) + Sync),
    ) -> Timing {
        let texts = generated(self.texts, self.len, vocabulary);
        let texts: Vec<&[u32]> = texts.iter().map(Vec::as_slice).collect();
        let batches: Vec<&[&[u32]]> = texts.chunks(self.batch.max(1)).collect();
        let workers = Workers::new(self.threads);
        let round = |()| {
            let next = AtomicUsize::new(0);
            let work = || {
                while let Some(batch) = batches.get(next.fetch_add(1, Ordering::Relaxed)) {
                    run(batch);
                }
            };
            workers.run(work);
        };
        Timing::of(self.texts * self.len, 0, repetitions, |_| (), round)
    }
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { texts, batch, len, threads } = self;
        write!(f, "{texts} texts of {len} tokens, {batch} together, {threads} thread")?;
        if *threads == 1 { Ok(()) } else { write!(f, "s") }
    }
}

impl fmt::Display for Searching {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sentences, batch, beam, source_len, target_len, threads, .. } = self;
        write!(f, "{sentences} sentences of {source_len} to {target_len} tokens, ")?;
        write!(f, "{batch} together, beam {beam}, {threads} thread")?;
        if *threads == 1 { Ok(()) } else { write!(f, "s") }
    }
}

/// Returns the memory reserved on `device` in units of 10⁶ bytes; `None` if it does not report it.
pub fn device_megabytes(device: &Device) -> Option<f64> {
    match device {
        Device::Cpu => None,
        #[cfg(feature = "burn")]
        Device::Burn(device) => {
            device.memory_pool_usage().map(|usage| usage.bytes_reserved as f64 / 1e6)
        }
    }
}

/// Returns the number of buffers in use on `device`; `None` if it does not report it.
fn device_buffers(device: &Device) -> Option<u64> {
    match device {
        Device::Cpu => None,
        #[cfg(feature = "burn")]
        Device::Burn(device) => device.memory_pool_usage().map(|usage| usage.number_allocs),
    }
}

/// Returns the peak memory of this process in units of 10⁶ bytes; `None` on systems other than
/// Linux.
pub fn peak_megabytes() -> Option<f64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: f64 = peak.trim().trim_end_matches(" kB").parse().ok()?;
    Some(kibibytes * 1024.0 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_lie_between_repetitions() {
        let timing = Timing { tokens: 30, first: 9.0, seconds: vec![4.0, 1.0, 3.0, 2.0] };
        assert_eq!([0.0, 0.5, 1.0].map(|share| timing.quantile(share)), [1.0, 2.5, 4.0]);
        assert!((timing.quantile(0.9) - 3.7).abs() < 1e-12);
        assert_eq!(timing.tokens_per_second(), 12.0);
        let one = Timing { seconds: vec![2.0], ..timing };
        assert_eq!([0.1, 0.9].map(|share| one.quantile(share)), [2.0, 2.0]);
    }

    #[test]
    fn the_first_repetitions_do_not_count() {
        let mut seen = Vec::new();
        let timing =
            Timing::of(1, 2, 3, |repetition| repetition, |repetition| seen.push(repetition));
        assert_eq!(timing.seconds.len(), 3);
        assert_eq!(seen, [0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn a_report_is_a_row_of_its_table() {
        let timing = Timing { tokens: 100, first: 1.0, seconds: vec![0.5] };
        let report = Report::new("runs/a", "cpu", &Device::Cpu, "an update".into(), timing);
        let report = Report { peak_megabytes: Some(12.4), ..report };
        let row = "| runs/a | cpu | an update | 200 | 500.0 | 500.0 | 500.0 | 1000 | 12 | – |";
        assert_eq!(report.to_string(), row);
        let bars = |line: &str| line.matches('|').count();
        assert!(Report::HEADING.lines().all(|line| bars(line) == bars(row)));
    }
}
