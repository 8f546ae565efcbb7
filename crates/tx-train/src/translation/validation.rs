//! Validation of a translation model: loss, accuracy, and translations scored as text.

use std::{
    sync::{Arc, atomic::AtomicBool},
    time::Instant,
};

use burn::{data::dataloader::DataLoader, tensor::Device};
use serde::{Deserialize, Serialize};
use tx_data::Seq2SeqBatch;
use tx_eval::{Bleu, Chrf, Tokenizer, exact_match};
use tx_infer::{Cancellation, InferError, ModuleBundle, SearchOptions, Translation};
use tx_text::SentencePair;

use super::{
    sample::{CrossAttention, Sample},
    seq2seq::Seq2Seq,
};
use crate::{
    config::{BestBy, BleuTokenizer, ValidationConfig},
    data::language_tokens::LanguageCodes,
    error::TrainError,
    recording::metrics::null_as_nan,
    task::{StepOutput, evaluate},
    validation_report::{Figure, Format, SampleOutput, ValidationReport},
};

/// Result of a validation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Validation {
    /// Loss in nats per target token, without smoothing.
    #[serde(deserialize_with = "null_as_nan")]
    pub loss: f64,
    /// Fraction of target tokens predicted correctly, given the correct preceding tokens.
    pub accuracy: f64,
    /// BLEU of the translations, 0 to 100.
    pub bleu: f64,
    /// Signature of BLEU, in sacreBLEU's notation.
    pub bleu_signature: String,
    /// chrF of the translations, 0 to 100, with sacreBLEU's settings.
    pub chrf: f64,
    /// Translations equal to their reference, in percent.
    pub exact_match: f64,
    /// First translations.
    pub samples: Vec<Sample>,
    /// Seconds that the validation took.
    #[serde(rename = "validation_seconds")]
    pub seconds: f64,
}

impl Validation {
    /// Returns the perplexity `e^loss`: the number of equally likely tokens that would have the
    /// same loss. 1 means certainty.
    pub fn perplexity(&self) -> f64 {
        self.loss.exp()
    }

    /// Returns the sort key of the model, higher is better: the chosen metric, then the negated
    /// loss. Metrics of other tasks count as the loss.
    pub fn rank(&self, by: BestBy) -> (f64, f64) {
        let first = match by {
            BestBy::Loss | BestBy::Accuracy | BestBy::MacroF1 => -self.loss,
            BestBy::Bleu => self.bleu,
            BestBy::Chrf => self.chrf,
            BestBy::ExactMatch => self.exact_match,
        };
        rank(first, self.loss)
    }
}

/// Returns the sort key of a model, higher is better: the metric `first`, then the negated loss. NaN
/// ranks below every number.
pub(crate) fn rank(first: f64, loss: f64) -> (f64, f64) {
    let ordered = |figure: f64| if figure.is_nan() { f64::NEG_INFINITY } else { figure };
    (ordered(first), ordered(-loss))
}

impl ValidationReport for Validation {
    const FIGURE: &'static str = "BLEU";
    const UNIT: &'static str = "target token";

    fn figure(&self) -> f64 {
        self.bleu
    }

    fn figures(&self) -> Vec<Figure> {
        let (decimals, percent) = (Format::Decimals(2), Format::Percent);
        let mut figures =
            Figure::of_every_task(self.loss, self.perplexity(), self.accuracy).to_vec();
        figures.extend([
            Figure::new("bleu", "BLEU", "BLEU", self.bleu, decimals),
            Figure::new("chrf", "chrF", "chrF", self.chrf, decimals),
            Figure::new("exact_match", "exact", "Exact matches", self.exact_match, percent),
        ]);
        figures
    }

    fn perplexity(&self) -> f64 {
        self.perplexity()
    }

    fn seconds(&self) -> f64 {
        self.seconds
    }

    fn samples(&self) -> Vec<SampleOutput<'_>> {
        let outputs = self.samples.iter().map(|sample| SampleOutput {
            given: vec![("source", &*sample.source), ("reference", &*sample.reference)],
            output: ("hypothesis", (&*sample.hypothesis).into()),
            attention: Some(&sample.attention),
        });
        outputs.collect()
    }

    fn note(&self) -> Option<(&'static str, &str)> {
        Some(("bleu_signature", &self.bleu_signature))
    }
}

/// Maximum number of source tokens in a batch of translations.
const BATCH_TOKENS: usize = 4_096;

/// Validation set with the settings of its validation.
pub struct Validator {
    loader: Arc<dyn DataLoader<Seq2SeqBatch>>,
    sources: Vec<String>,
    references: Vec<String>,
    lowercase: bool,
    config: ValidationConfig,
    /// Maximum number of source tokens in a batch of translations.
    batch_tokens: usize,
    /// Languages of a multilingual model.
    languages: Option<LanguageCodes>,
    device: Device,
}

impl Validator {
    /// Computes the loss over `loader`, and translates the sources of `pairs`. With `lowercase`,
    /// translations and references are compared without case.
    pub fn new(
        loader: Arc<dyn DataLoader<Seq2SeqBatch>>,
        pairs: &[SentencePair],
        config: &ValidationConfig,
        lowercase: bool,
        device: &Device,
    ) -> Self {
        Self {
            loader: loader.to_device(device),
            sources: pairs.iter().map(|pair| pair.source.clone()).collect(),
            references: pairs
                .iter()
                .map(
                    |pair| if lowercase { pair.target.to_lowercase() } else { pair.target.clone() },
                )
                .collect(),
            lowercase,
            config: config.clone(),
            batch_tokens: BATCH_TOKENS,
            languages: None,
            device: device.clone(),
        }
    }

    /// Limits batches of translations to `batch_tokens`, so that validation needs no more memory
    /// than training.
    pub fn with_batch_tokens(self, batch_tokens: usize) -> Self {
        Self { batch_tokens: batch_tokens.min(BATCH_TOKENS), ..self }
    }

    /// Selects the languages of a multilingual model.
    pub(crate) fn with_languages(self, languages: Option<LanguageCodes>) -> Self {
        Self { languages, ..self }
    }

    /// Validates `model`, which has no autodiff; `bundle` has the same weights. Also returns loss
    /// and counts of all batches.
    ///
    /// # Errors
    ///
    /// If text cannot be tokenized or scored; [`TrainError::Interrupted`] once `stop` is set, which
    /// is checked between batches and decoding steps.
    pub fn run(
        &self,
        model: &Seq2Seq,
        bundle: ModuleBundle,
        stop: &Arc<AtomicBool>,
    ) -> Result<(Validation, StepOutput), TrainError> {
        let start = Instant::now();
        let total = evaluate(model, &*self.loader, stop)?;
        let mut translator = bundle
            .into_translator(&self.device.clone().into())
            .with_batch_tokens(self.batch_tokens);
        // The other options are those of the bundle that the run continues.
        let search = translator.options().clone().with_beam(self.config.beam);
        let search = SearchOptions { n_best: 1, ..search };
        translator = translator.with_options(search)?;
        if let Some(LanguageCodes { source, target }) = &self.languages {
            translator = translator.with_languages(source.as_deref(), Some(target))?;
        }
        let cancellation = Cancellation::from(stop.clone());
        let options = translator.options();
        let translations =
            match translator.translate_batch_with(&self.sources, options, &cancellation) {
                // A model that has diverged gets empty translations; its scores and its loss report
                // the failure.
                Err(InferError::NotFinite { .. }) => {
                    vec![Translation::default(); self.sources.len()]
                }
                translations => translations?,
            };
        let mut samples = Vec::new();
        for (index, translation) in translations.iter().enumerate().take(self.config.samples) {
            let source = translator.texts().source(&self.sources[index])?;
            let best = translation.hypotheses.first();
            let target = best.map_or(&[][..], |best| &best.hypothesis.ids);
            let target = translator.texts().hypothesis(target)?;
            samples.push(Sample {
                source: self.sources[index].clone(),
                reference: self.references[index].clone(),
                hypothesis: translation.text.clone(),
                attention: CrossAttention::of(translator.engine(), source, target),
            });
        }
        let hypotheses: Vec<String> =
            translations.into_iter().map(|translation| translation.text).collect();
        let tokenizer = match self.config.tokenize {
            BleuTokenizer::V13a => Tokenizer::V13a,
            BleuTokenizer::None => Tokenizer::None,
        };
        let bleu = Bleu { tokenizer, lowercase: self.lowercase, ..Bleu::default() }
            .corpus_score(&hypotheses, &[&self.references])?;
        let chrf = Chrf { lowercase: self.lowercase, ..Chrf::default() }
            .corpus_score(&hypotheses, &[&self.references])?;
        let exact = exact_match(&hypotheses, &self.references)?;

        let validation = Validation {
            loss: total.loss(),
            accuracy: total.accuracy(),
            bleu: bleu.score,
            bleu_signature: bleu.signature.to_string(),
            chrf: chrf.score,
            exact_match: exact.score,
            samples,
            seconds: start.elapsed().as_secs_f64(),
        };
        Ok((validation, total))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two models: one with the better loss, the other better in all other metrics.
    #[test]
    fn models_are_ranked_by_the_chosen_metric_and_then_by_the_loss() {
        let sure = Validation {
            loss: 1.0,
            accuracy: 0.5,
            bleu: 20.0,
            bleu_signature: String::new(),
            chrf: 40.0,
            exact_match: 1.0,
            samples: Vec::new(),
            seconds: 0.0,
        };
        let good =
            Validation { loss: 1.1, bleu: 21.0, chrf: 41.0, exact_match: 2.0, ..sure.clone() };
        assert!(sure.rank(BestBy::Loss) > good.rank(BestBy::Loss));
        for by in [BestBy::Bleu, BestBy::Chrf, BestBy::ExactMatch] {
            assert!(good.rank(by) > sure.rank(by), "{by:?}");
            let surer = Validation { loss: 1.0, ..good.clone() };
            assert!(surer.rank(by) > good.rank(by), "{by:?}");
        }
        // A model whose loss is NaN must not stay the best.
        let lost = Validation { loss: f64::NAN, ..good.clone() };
        for by in [BestBy::Loss, BestBy::Bleu, BestBy::Chrf, BestBy::ExactMatch] {
            assert!(good.rank(by) > lost.rank(by), "{by:?}");
        }
    }
}
