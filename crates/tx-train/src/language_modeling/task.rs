//! Language modeling task of the training loop.

use std::{
    sync::{Arc, atomic::AtomicBool},
    time::Instant,
};

use burn::{data::dataloader::DataLoader, tensor::Device};
use tx_data::LanguageModelBatch;
use tx_infer::{Cancellation, Generator, InferError, Sampling, SearchOptions, generator::Prompt};

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
    /// Samples a continuation of each prompt; none if the model has diverged. Samples are only shown, so
    /// an error of one is shown in place of it.
    fn samples(
        &self,
        model: &TrainedLanguageModel,
        stop: &Arc<AtomicBool>,
    ) -> Result<Vec<ContinuedSample>, TrainError> {
        if self.prompts.is_empty() {
            return Ok(Vec::new());
        }
        let bundle = self.bundle.bundle(model.model.clone());
        let generator = Generator::from_module(&bundle, &self.device.clone().into());
        let sampling = Sampling { seed: self.seed, ..Sampling::default() };
        let options =
            SearchOptions { beam: 1, sampling: Some(sampling), ..SearchOptions::default() };
        let prompts: Vec<Prompt<'_>> =
            self.prompts.iter().zip(0..).map(|(text, number)| Prompt { text, number }).collect();
        let mut continued = Vec::new();
        let result = generator.continue_lines(
            &prompts,
            &options,
            &Cancellation::from(stop.clone()),
            |ready| {
                continued.extend(ready);
                Ok::<_, InferError>(())
            },
        );
        match result {
            Ok(()) => {}
            Err(InferError::NotFinite { .. }) => continued.clear(),
            Err(InferError::Cancelled) => return Err(TrainError::Interrupted),
            Err(error) => {
                let text = format!("(no sample: {error})");
                let failed = |prompt: &String| ContinuedSample {
                    prompt: prompt.clone(),
                    text: text.clone(),
                };
                return Ok(self.prompts.iter().map(failed).collect());
            }
        }
        let samples = self.prompts.iter().zip(continued).map(|(prompt, continued)| {
            ContinuedSample { prompt: prompt.clone(), text: continued.text }
        });
        Ok(samples.collect())
    }
}
