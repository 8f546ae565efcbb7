//! Checking a model during training: loss, accuracy, and real translations scored as text.

use std::{
    sync::{Arc, atomic::AtomicBool},
    time::Instant,
};

use burn::{data::dataloader::DataLoader, tensor::Device, train::InferenceStep};
use serde::{Deserialize, Serialize};
use tx_data::Seq2SeqBatch;
use tx_eval::{Bleu, Chrf, Tokenizer, exact_match};
use tx_infer::{Cancellation, InferError, ModuleBundle, SearchOptions, Tokens, Translation};
use tx_text::SentencePair;

use crate::{
    config::{BestBy, BleuTokenizer, ValidationConfig},
    error::TrainError,
    interrupt::check,
    metrics::number,
    sample::{CrossAttention, Sample},
    step::{Seq2Seq, StepOutput},
};

/// What validation found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Validation {
    /// Nats per target token, without smoothing.
    #[serde(deserialize_with = "number")]
    pub loss: f64,
    /// Share of target tokens predicted right, given the right ones before them.
    pub accuracy: f64,
    /// BLEU of the translations, 0 to 100.
    pub bleu: f64,
    /// How BLEU was computed, as sacreBLEU writes it.
    pub bleu_signature: String,
    /// chrF of the translations, 0 to 100, with sacreBLEU's settings.
    pub chrf: f64,
    /// Translations equal to their reference, in percent.
    pub exact_match: f64,
    /// The first few translations.
    pub samples: Vec<Sample>,
    /// How many seconds all that took.
    #[serde(rename = "validation_seconds")]
    pub seconds: f64,
}

impl Validation {
    /// `e^loss`: among how many tokens the model is as unsure as if they were equally likely. 1 is
    /// certainty.
    pub fn perplexity(&self) -> f64 {
        self.loss.exp()
    }

    /// What models are compared by, higher is better: the chosen figure, then the loss.
    pub fn rank(&self, by: BestBy) -> (f64, f64) {
        let first = match by {
            BestBy::Loss => -self.loss,
            BestBy::Bleu => self.bleu,
            BestBy::Chrf => self.chrf,
            BestBy::ExactMatch => self.exact_match,
        };
        // What is no number is worse than every number.
        let ordered = |figure: f64| if figure.is_nan() { f64::NEG_INFINITY } else { figure };
        (ordered(first), ordered(-self.loss))
    }
}

/// Source tokens in a batch that is translated, where training's are larger.
const BATCH_TOKENS: usize = 4_096;

/// Checks models on the same pairs in the same way.
pub struct Validator {
    loader: Arc<dyn DataLoader<Seq2SeqBatch>>,
    sources: Vec<String>,
    references: Vec<String>,
    lowercase: bool,
    config: ValidationConfig,
    /// Source tokens in a batch that is translated, at most.
    batch_tokens: usize,
    device: Device,
}

impl Validator {
    /// Takes the loss over all of `loader`, and translates the sources of `pairs`. Text without
    /// case (`lowercase`) is compared without case.
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
            device: device.clone(),
        }
    }

    /// Translates in batches no larger than that: those of training, so that checking takes no more
    /// memory.
    pub fn with_batch_tokens(self, batch_tokens: usize) -> Self {
        Self { batch_tokens: batch_tokens.min(BATCH_TOKENS), ..self }
    }

    /// Checks `model`, which must be in validation form; `bundle` holds the same weights. Also gives
    /// what all batches gave together. `stop` ends it between two batches or
    /// decoding steps, with [`TrainError::Interrupted`].
    ///
    /// # Errors
    ///
    /// When text cannot be tokenized or scored.
    pub fn run(
        &self,
        model: &Seq2Seq,
        bundle: ModuleBundle,
        stop: &Arc<AtomicBool>,
    ) -> Result<(Validation, StepOutput), TrainError> {
        let start = Instant::now();
        let mut total = StepOutput::default();
        for batch in self.loader.iter() {
            check(stop)?;
            let batch = batch.map_err(|error| TrainError::Learner(Arc::new(error.into())))?;
            total.add(&InferenceStep::step(model, batch));
        }

        let search = SearchOptions { beam: self.config.beam, ..SearchOptions::default() };
        let (tokenizers, max_len) = (bundle.tokenizers.clone(), bundle.config.max_len);
        let translator = bundle
            .into_translator(&self.device.clone().into())
            .with_options(search)?
            .with_batch_tokens(self.batch_tokens);
        let cancellation = Cancellation::from(stop.clone());
        let options = translator.options();
        let translations =
            match translator.translate_batch_with(&self.sources, options, &cancellation) {
                // A diverged model has no translations. Its scores and its loss show that.
                Err(InferError::NotFinite { .. }) => {
                    vec![Translation::default(); self.sources.len()]
                }
                found => found?,
            };
        let mut samples = Vec::new();
        for (index, translation) in translations.iter().enumerate().take(self.config.samples) {
            let source = Tokens::of_source(&tokenizers.source, &self.sources[index], max_len)?;
            let best = translation.hypotheses.first();
            let target = best.map_or(&[][..], |best| &best.hypothesis.ids);
            let target = Tokens::of_hypothesis(&tokenizers.target, target, max_len)?;
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

        let found = Validation {
            loss: total.loss(),
            accuracy: total.accuracy(),
            bleu: bleu.score,
            bleu_signature: bleu.signature.to_string(),
            chrf: chrf.score,
            exact_match: exact.score,
            samples,
            seconds: start.elapsed().as_secs_f64(),
        };
        Ok((found, total))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two models: one with the better loss, the other with all else better.
    #[test]
    fn models_are_compared_by_the_chosen_figure_and_then_by_the_loss() {
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
        // A loss that is no number must not stay the best for ever.
        let lost = Validation { loss: f64::NAN, ..good.clone() };
        for by in [BestBy::Loss, BestBy::Bleu, BestBy::Chrf, BestBy::ExactMatch] {
            assert!(good.rank(by) > lost.rank(by), "{by:?}");
        }
    }
}
