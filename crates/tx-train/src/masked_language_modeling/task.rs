//! Masked language modeling task of the training loop.

use std::{
    sync::{Arc, atomic::AtomicBool},
    time::Instant,
};

use burn::{data::dataloader::DataLoader, tensor::Device};
use tx_data::MaskedBatch;
use tx_infer::{FillMask, InferError};
use tx_text::special::MASK_TOKEN;

use super::{
    model::TrainedMaskedLanguageModel,
    report::{FilledSample, MaskedLanguageModelReport},
};
use crate::{
    bundle_parts::BundleParts,
    config::BestBy,
    error::TrainError,
    task::{StepOutput, Task, evaluate},
    translation::validation::rank,
};

/// Masked language modeling task of a run.
pub(crate) struct MaskedLanguageModeling {
    /// Batches of the validation texts.
    pub loader: Arc<dyn DataLoader<MaskedBatch>>,
    /// Texts with a masked word, and the texts before masking.
    pub samples: Vec<(String, String)>,
    pub bundle: BundleParts,
    pub best_by: BestBy,
    pub device: Device,
}

impl Task for MaskedLanguageModeling {
    type Model = TrainedMaskedLanguageModel;
    type Report = MaskedLanguageModelReport;

    fn validate(
        &self,
        model: &TrainedMaskedLanguageModel,
        stop: &Arc<AtomicBool>,
    ) -> Result<(MaskedLanguageModelReport, StepOutput), TrainError> {
        let start = Instant::now();
        let total = evaluate(model, &*self.loader, stop)?;
        let report = MaskedLanguageModelReport {
            loss: total.loss(),
            accuracy: total.accuracy(),
            samples: self.filled(model)?,
            seconds: start.elapsed().as_secs_f64(),
        };
        Ok((report, total))
    }

    fn rank(&self, report: &MaskedLanguageModelReport) -> (f64, f64) {
        let first = match self.best_by {
            BestBy::Accuracy => report.accuracy,
            BestBy::Loss | BestBy::Bleu | BestBy::Chrf | BestBy::ExactMatch | BestBy::MacroF1 => {
                -report.loss
            }
        };
        rank(first, report.loss)
    }

    fn bundle(&self) -> &BundleParts {
        &self.bundle
    }
}

impl MaskedLanguageModeling {
    /// Fills the masked words of the samples; none if the model has diverged. Samples are only shown, so
    /// an error of one is shown in place of it.
    fn filled(&self, model: &TrainedMaskedLanguageModel) -> Result<Vec<FilledSample>, TrainError> {
        if self.samples.is_empty() {
            return Ok(Vec::new());
        }
        let bundle = self.bundle.bundle(model.model.clone());
        let fill_mask = FillMask::from_module(&bundle, &self.device.clone().into());
        let masked: Vec<&str> = self.samples.iter().map(|(masked, _)| &**masked).collect();
        let filled = match fill_mask.fill_batch(&masked) {
            Err(InferError::NotFinite { .. }) => Vec::new(),
            Err(InferError::Cancelled) => return Err(TrainError::Interrupted),
            Err(error) => {
                let text = format!("(no sample: {error})");
                let failed = |(masked, original): &(String, String)| FilledSample {
                    masked: masked.clone(),
                    original: original.clone(),
                    filled: text.clone(),
                };
                return Ok(self.samples.iter().map(failed).collect());
            }
            Ok(filled) => filled,
        };
        let samples = self.samples.iter().zip(filled);
        let samples = samples.map(|((masked, original), filled)| FilledSample {
            masked: masked.clone(),
            original: original.clone(),
            filled: filled.text,
        });
        Ok(samples.collect())
    }
}

/// Masks the word of letters that is closest to the middle of `text`; `None` if there is no such
/// word.
pub(super) fn with_masked_word(text: &str) -> Option<String> {
    let middle = text.len() / 2;
    let mut words = Vec::new();
    let mut start = None;
    for (index, character) in text.char_indices().chain([(text.len(), ' ')]) {
        match (character.is_alphabetic(), start) {
            (true, None) => start = Some(index),
            (false, Some(first)) => {
                words.push(first..index);
                start = None;
            }
            _ => {}
        }
    }
    let word = words.into_iter().min_by_key(|word| (word.start + word.end).abs_diff(2 * middle))?;
    Some(format!("{}{MASK_TOKEN}{}", &text[..word.start], &text[word.end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_in_the_middle_is_masked() {
        for (text, masked) in [
            ("The cat is here.", Some("The cat <mask> here.")),
            ("Where?", Some("<mask>?")),
            ("12 + 3", None),
            ("", None),
            ("a é b", Some("a <mask> b")),
        ] {
            assert_eq!(with_masked_word(text).as_deref(), masked, "{text}");
        }
    }
}
