//! Text in, text out.

use std::{
    num::NonZero,
    path::Path,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use burn::tensor::Device;
use rayon::{ThreadPool, ThreadPoolBuilder};
use tx_data::{Tokenizers, encode::cut};
use tx_model::ModelConfig;

use crate::{
    bundle::Bundle,
    error::InferError,
    search::{Engine, Hypothesis, SearchOptions},
};

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
        let problems = options.problems();
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

    /// The shape of the model in use.
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
        let max_len = self.config.max_len;
        let texts: Vec<&str> = texts.iter().map(AsRef::as_ref).collect();
        let mut translations: Vec<Translation> = texts
            .iter()
            .map(|_| Translation { text: String::new(), hypotheses: Vec::new(), cut: false })
            .collect();

        let mut sources = self.tokenizers.source.encode_batch(texts.clone())?;
        let mut order: Vec<usize> =
            (0..texts.len()).filter(|&index| !texts[index].trim().is_empty()).collect();
        for &index in &order {
            translations[index].cut = sources[index].len() > max_len;
            cut(&mut sources[index], max_len);
        }
        // Longest first: the batch that takes most memory comes at once.
        order.sort_by_key(|&index| std::cmp::Reverse(sources[index].len()));

        let batches = self.batches(&order, |index| sources[index].len());
        for (batch, found) in batches.iter().zip(self.search_all(&batches, &sources)) {
            for (&index, hypotheses) in batch.iter().zip(found) {
                let hypotheses = hypotheses
                    .into_iter()
                    .map(|hypothesis| {
                        let text = self.tokenizers.target.decode(&hypothesis.ids)?;
                        Ok(Scored { text, hypothesis })
                    })
                    .collect::<Result<Vec<_>, InferError>>()?;
                let translation = &mut translations[index];
                translation.text =
                    hypotheses.first().map(|best| best.text.clone()).unwrap_or_default();
                translation.hypotheses = hypotheses;
            }
        }
        Ok(translations)
    }

    /// Cuts `order`, which is sorted by length, into batches: one or more for each thread.
    fn batches<'a>(&self, order: &'a [usize], len: impl Fn(usize) -> usize) -> Vec<&'a [usize]> {
        let share = order.len().div_ceil(self.searching_threads());
        let mut batches = Vec::new();
        let mut rest = order;
        while let Some(&longest) = rest.first() {
            let per_sentence = len(longest) * self.options.beam;
            let count = (self.batch_tokens / per_sentence).min(share).clamp(1, rest.len());
            let (batch, later) = rest.split_at(count);
            batches.push(batch);
            rest = later;
        }
        batches
    }

    /// Searches batch by batch, whichever thread is free; results are in the order of `batches`.
    fn search_all(&self, batches: &[&[usize]], sources: &[Vec<u32>]) -> Vec<Vec<Vec<Hypothesis>>> {
        let found: Vec<OnceLock<_>> = batches.iter().map(|_| OnceLock::new()).collect();
        let next = AtomicUsize::new(0);
        let work = || {
            while let Some((batch, found)) = {
                let index = next.fetch_add(1, Ordering::Relaxed);
                batches.get(index).zip(found.get(index))
            } {
                let ids: Vec<&[u32]> = batch.iter().map(|&index| &sources[index][..]).collect();
                found.get_or_init(|| self.engine.search(&ids, self.config.max_len, &self.options));
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
        found.into_iter().map(|found| found.into_inner().unwrap_or_default()).collect()
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
