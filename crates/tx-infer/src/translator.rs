//! Text in, text out.

mod forced;
mod in_order;
mod unknown;

use std::{
    num::NonZero,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use burn::tensor::Device;
use rayon::{ThreadPool, ThreadPoolBuilder};
use tx_data::{
    Tokenizer, Tokenizers,
    encode::cut,
    special::{BOS, EOS, UNK},
};
use tx_model::ModelConfig;

use crate::{
    bundle::Bundle,
    error::InferError,
    search::{Engine, Hypothesis, Request, SearchOptions},
    tokens::readable,
};

pub use forced::Forced;
use in_order::InOrder;

/// Translates text with a bundle.
///
/// ```no_run
/// use burn::tensor::Device;
/// use tx_infer::Translator;
///
/// let translator = Translator::open("runs/de-en".as_ref(), &Device::default())?;
/// println!("{}", translator.translate("ein hund läuft .")?);
/// # Ok::<(), tx_infer::InferError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Translator {
    config: ModelConfig,
    tokenizers: Tokenizers,
    engine: Engine,
    options: SearchOptions,
    batch_tokens: usize,
    threads: usize,
    /// Those threads, once they are needed; none where the system has no more.
    pool: OnceLock<Option<Arc<ThreadPool>>>,
}

/// A text to translate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Line<'a> {
    /// The text.
    pub text: &'a str,
    /// What its translation begins with; the model goes on after its last token. An empty one asks
    /// for nothing.
    pub prefix: &'a str,
    /// Number of the text, from 0: what is drawn for it depends on this and on the seed.
    pub number: u64,
}

/// What became of one text.
#[derive(Debug, Clone, PartialEq)]
pub struct Translation {
    /// The best translation; empty for a text without words.
    pub text: String,
    /// All translations asked for, best first; none for a text without words.
    pub hypotheses: Vec<Scored>,
    /// Whether the text was cut because it is longer than the model can read.
    pub cut: bool,
}

/// A translation with its score.
#[derive(Debug, Clone, PartialEq)]
pub struct Scored {
    /// The translation.
    pub text: String,
    /// Its ids and scores.
    pub hypothesis: Hypothesis,
}

impl Translator {
    /// Opens the bundle in `folder`.
    ///
    /// # Errors
    ///
    /// As [`Bundle::open`].
    pub fn open(folder: &Path, device: &Device) -> Result<Self, InferError> {
        Ok(Self::new(Bundle::open(folder, device)?, device))
    }

    /// Opens several bundles that translate as one: a token is as likely as all models find it on
    /// the mean. They must have the same vocabularies.
    ///
    /// # Errors
    ///
    /// As [`Bundle::open`]; and when vocabularies differ, which is said with both names.
    pub fn open_ensemble(folders: &[PathBuf], device: &Device) -> Result<Self, InferError> {
        let Some((first, others)) = folders.split_first() else {
            return Err(InferError::Search { problems: vec!["no bundle to open".into()] });
        };
        let alone = Self::open(first, device)?;
        others
            .iter()
            .try_fold(alone, |all, path| all.joined_by(first, path, Self::open(path, device)?))
    }

    /// With `other` besides, as [`open_ensemble`](Self::open_ensemble); `first` is where this one
    /// comes from, `path` where the other does.
    ///
    /// # Errors
    ///
    /// As [`open_ensemble`](Self::open_ensemble).
    pub fn joined_by(mut self, first: &Path, path: &Path, other: Self) -> Result<Self, InferError> {
        let Self { config, tokenizers, engine, .. } = other;
        let (ours, theirs) = (&self.tokenizers, &tokenizers);
        for (side, ours, theirs) in
            [("source", &ours.source, &theirs.source), ("target", &ours.target, &theirs.target)]
        {
            if let Some(problem) = difference(ours, theirs) {
                return Err(InferError::OtherVocabulary {
                    first: first.into(),
                    other: path.into(),
                    side,
                    first_ids: ours.vocab_size(),
                    other_ids: theirs.vocab_size(),
                    problem,
                });
            }
        }
        self.config.max_len = self.config.max_len.min(config.max_len);
        self.engine = self.engine.and(engine);
        Ok(self)
    }

    /// Translates with a bundle whose weights are on `device`.
    pub fn new(bundle: Bundle, device: &Device) -> Self {
        let Bundle { model, config, tokenizers, .. } = bundle;
        Self {
            config,
            tokenizers,
            engine: Engine::new(model, device),
            options: SearchOptions::default(),
            batch_tokens: 4_096,
            threads: thread::available_parallelism().map_or(1, NonZero::get),
            pool: OnceLock::new(),
        }
    }

    /// Searches in another way than by default.
    ///
    /// # Errors
    ///
    /// When an option breaks a rule; all broken rules are named.
    pub fn with_options(self, options: SearchOptions) -> Result<Self, InferError> {
        let mut problems = options.problems();
        let layers = self.engine.decoder_layers();
        if let Some(layer) = options.attention_layer.filter(|layer| *layer > layers) {
            problems
                .push(format!("`attention_layer` = {layer}, but the decoder has {layers} layers"));
        }
        let ids = self.tokenizers.target.vocab_size();
        for id in options.suppress.iter().filter(|id| **id as usize >= ids) {
            problems.push(format!("`suppress` = {id}, but the vocabulary ends at {}", ids - 1));
        }
        if !problems.is_empty() {
            return Err(InferError::Search { problems });
        }
        Ok(Self { options, ..self })
    }

    /// At most so many source tokens in a batch, padding and hypotheses counted; a longer text is
    /// a batch of its own, and few texts are shared out among the threads. More is faster up to a
    /// point, and takes more memory.
    pub fn with_batch_tokens(self, batch_tokens: usize) -> Self {
        Self { batch_tokens, ..self }
    }

    /// Translates with at most so many threads, each a batch at a time; a single sentence's larger
    /// products are shared out among them. By default, with all cores. They count on the processor
    /// only (`Device::flex()`): other devices share out the work by themselves.
    pub fn with_threads(self, threads: usize) -> Self {
        Self { threads: threads.max(1), pool: OnceLock::new(), ..self }
    }

    /// The tokenizers in use.
    pub fn tokenizers(&self) -> &Tokenizers {
        &self.tokenizers
    }

    /// How this searches.
    pub fn options(&self) -> &SearchOptions {
        &self.options
    }

    /// The shape of the model in use; of several, the first one's, with the shortest `max_len`.
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// Translates one text.
    ///
    /// # Errors
    ///
    /// When the text cannot be tokenized.
    pub fn translate(&self, text: &str) -> Result<String, InferError> {
        let mut translations = self.translate_batch(&[text])?;
        Ok(translations.pop().map(|translation| translation.text).unwrap_or_default())
    }

    /// Translates many texts, those of like length together; results come in the order of `texts`.
    ///
    /// # Errors
    ///
    /// When a text cannot be tokenized.
    pub fn translate_batch(
        &self,
        texts: &[impl AsRef<str>],
    ) -> Result<Vec<Translation>, InferError> {
        let lines = texts.iter().zip(0..);
        let lines: Vec<Line<'_>> =
            lines.map(|(text, number)| Line { text: text.as_ref(), prefix: "", number }).collect();
        let mut translations = Vec::with_capacity(texts.len());
        self.translate_lines(&lines, |ready| {
            translations.extend(ready);
            Ok::<_, InferError>(())
        })?;
        Ok(translations)
    }

    /// Translates many texts, those of like length together. `sink` gets the translations in the
    /// order of `lines`, some at a time, each as soon as it and all before it are there.
    ///
    /// # Errors
    ///
    /// When a text cannot be tokenized or a prefix is too long, before any is translated; and what
    /// `sink` gives, after which it is not called again.
    pub fn translate_lines<E: From<InferError> + Send>(
        &self,
        lines: &[Line<'_>],
        sink: impl FnMut(Vec<Translation>) -> Result<(), E> + Send,
    ) -> Result<(), E> {
        let texts: Vec<&str> = lines.iter().map(|line| line.text.trim()).collect();
        let (sources, was_cut) = self.read_sources(&texts)?;
        let prefixes =
            lines.iter().map(|line| self.read_prefix(line)).collect::<Result<Vec<_>, _>>()?;

        let (mut order, empty): (Vec<usize>, Vec<usize>) =
            (0..lines.len()).partition(|&index| !texts[index].is_empty());
        // Longest first: the batch that takes most memory comes at once.
        order.sort_by_key(|&index| std::cmp::Reverse(sources[index].len()));
        let batches = self.batches(&order, |index| sources[index].len() * self.options.rows());

        let output = Mutex::new(InOrder::new(lines.len(), sink));
        let put = |ready: Result<Vec<(usize, Translation)>, InferError>| {
            output.lock().unwrap_or_else(PoisonError::into_inner).put(ready)
        };
        let nothing = |cut| Translation { text: String::new(), hypotheses: Vec::new(), cut };
        put(Ok(empty.iter().map(|&index| (index, nothing(was_cut[index]))).collect()));
        self.share_out(&batches, |batch| {
            let requests: Vec<Request<'_>> = batch
                .iter()
                .map(|&index| Request {
                    source: &sources[index],
                    prefix: &prefixes[index],
                    number: lines[index].number,
                })
                .collect();
            let found = self.engine.search_requests(&requests, self.config.max_len, &self.options);
            let ready = batch.iter().zip(found).map(|(&index, hypotheses)| {
                let hypotheses = hypotheses
                    .into_iter()
                    .map(|hypothesis| self.written(hypothesis, texts[index]))
                    .collect::<Result<Vec<_>, InferError>>()?;
                let text = hypotheses.first().map(|best| best.text.clone()).unwrap_or_default();
                Ok((index, Translation { text, hypotheses, cut: was_cut[index] }))
            });
            put(ready.collect())
        });
        output.into_inner().unwrap_or_else(PoisonError::into_inner).finish()
    }

    /// Source ids of texts, none longer than the model can read; and which had to be cut.
    fn read_sources(&self, texts: &[&str]) -> Result<(Vec<Vec<u32>>, Vec<bool>), InferError> {
        let max_len = self.config.max_len;
        let readable: Vec<&str> = texts.iter().map(|text| self.readable(text)).collect();
        let mut sources = self.tokenizers.source.encode_batch(readable.clone())?;
        let was_cut = sources
            .iter_mut()
            .zip(texts.iter().zip(&readable))
            .map(|(ids, (text, readable))| {
                let too_long = ids.len() > max_len;
                cut(ids, max_len);
                too_long || readable.len() < text.len()
            })
            .collect();
        Ok((sources, was_cut))
    }

    /// As much of a text as is tokenized.
    fn readable<'a>(&self, text: &'a str) -> &'a str {
        readable(text, self.config.max_len)
    }

    /// Ids of what a translation begins with.
    fn read_prefix(&self, line: &Line<'_>) -> Result<Vec<u32>, InferError> {
        if line.prefix.trim().is_empty() {
            return Ok(Vec::new());
        }
        let mut ids = self.tokenizers.target.encode(line.prefix)?;
        ids.retain(|id| ![BOS, EOS].contains(id));
        let most = self.config.max_len - 1;
        if ids.len() > most {
            return Err(InferError::LongPrefix { line: line.number + 1, found: ids.len(), most });
        }
        Ok(ids)
    }

    /// A hypothesis as text.
    fn written(&self, hypothesis: Hypothesis, source: &str) -> Result<Scored, InferError> {
        let mut text = self.tokenizers.target.decode(&hypothesis.ids)?;
        if self.options.replace_unknown && hypothesis.ids.contains(&UNK) {
            let source = self.readable(source);
            text = unknown::replaced(text, &hypothesis, source, &self.tokenizers.source)?;
        }
        Ok(Scored { text, hypothesis })
    }

    /// Cuts `order`, which is sorted by length, into batches: one or more for each thread. `len` is
    /// what a sentence takes of a batch's tokens.
    fn batches<'a>(&self, order: &'a [usize], len: impl Fn(usize) -> usize) -> Vec<&'a [usize]> {
        let share = order.len().div_ceil(self.searching_threads());
        let mut batches = Vec::new();
        let mut rest = order;
        while let Some(&longest) = rest.first() {
            let count = (self.batch_tokens / len(longest).max(1)).min(share).clamp(1, rest.len());
            let (batch, later) = rest.split_at(count);
            batches.push(batch);
            rest = later;
        }
        batches
    }

    /// Does `work` batch by batch, whichever thread is free, as long as it says to go on.
    fn share_out(&self, batches: &[&[usize]], work: impl Fn(&[usize]) -> bool + Sync) {
        let next = AtomicUsize::new(0);
        let work = || {
            while let Some(batch) = batches.get(next.fetch_add(1, Ordering::Relaxed)) {
                if !work(batch) {
                    next.store(batches.len(), Ordering::Relaxed);
                }
            }
        };
        let threads = self.searching_threads();
        if batches.len() < threads
            && let Some(pool) = self.pool()
        {
            // Threads that have no batch of their own take parts of the larger products.
            pool.scope(|scope| batches.iter().for_each(|_| scope.spawn(|_| work())));
        } else {
            // Where each has one, a thread that takes parts would only be in the way.
            thread::scope(|scope| {
                for _ in 1..threads.min(batches.len()) {
                    scope.spawn(work);
                }
                work();
            });
        }
    }

    /// Where several threads search.
    fn pool(&self) -> Option<&ThreadPool> {
        let threads = self.searching_threads();
        if threads == 1 {
            return None;
        }
        let new = || ThreadPoolBuilder::new().num_threads(threads).build().ok().map(Arc::new);
        self.pool.get_or_init(new).as_deref()
    }

    fn searching_threads(&self) -> usize {
        if self.engine.gains_from_threads() { self.threads } else { 1 }
    }
}

/// How two vocabularies differ, if they do.
fn difference(ours: &Tokenizer, theirs: &Tokenizer) -> Option<String> {
    let ids = ours.vocab_size().max(theirs.vocab_size()) as u32;
    let id = (0..ids).find(|&id| ours.token(id) != theirs.token(id))?;
    let name = |token: Option<String>| token.map_or("nothing".into(), |token| format!("`{token}`"));
    Some(format!("id {id} is {} and {}", name(ours.token(id)), name(theirs.token(id))))
}
