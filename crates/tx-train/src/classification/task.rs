//! Classification task of the training loop.

use std::{
    sync::{Arc, atomic::AtomicBool},
    time::Instant,
};

use burn::{
    data::dataloader::DataLoader,
    tensor::{Device, activation::softmax},
};
use tx_data::{ClassificationBatch, EncodedPair};
use tx_text::SentencePair;

use super::{
    model::{TrainedClassifier, class_loss},
    report::{ClassificationReport, ClassifiedSample, macro_f1},
};
use crate::{
    bundle_parts::BundleParts,
    config::BestBy,
    error::TrainError,
    interrupt::check,
    task::{Batch, StepOutput, Task},
    training::gradients::read_loss,
};

/// Classification task of a run.
pub(crate) struct Classification {
    /// Batches of the validation texts.
    pub loader: Arc<dyn DataLoader<ClassificationBatch>>,
    /// Texts of the samples with their labels, and as ids.
    pub samples: Vec<(SentencePair, EncodedPair)>,
    pub device: Device,
    pub labels: Vec<String>,
    pub bundle: BundleParts,
    pub best_by: BestBy,
}

impl Task for Classification {
    type Model = TrainedClassifier;
    type Report = ClassificationReport;

    fn validate(
        &self,
        model: &TrainedClassifier,
        stop: &Arc<AtomicBool>,
    ) -> Result<(ClassificationReport, StepOutput), TrainError> {
        let start = Instant::now();
        let classes = self.labels.len();
        let mut confusion = vec![vec![0; classes]; classes];
        let mut total = StepOutput::default();
        for batch in self.loader.iter() {
            check(stop)?;
            let batch = batch.map_err(|error| TrainError::Learner(Arc::new(error.into())))?;
            let counts = batch.token_counts();
            let logits = model.model.forward(batch.ids, batch.blocked);
            let predicted: Vec<u32> = logits.clone().argmax(1).into_data().iter().collect();
            let expected: Vec<u32> = batch.classes.clone().into_data().iter().collect();
            for (expected, predicted) in expected.into_iter().zip(predicted) {
                confusion[expected as usize][predicted as usize] += 1;
            }
            let read = read_loss(class_loss(logits, batch.classes, 0.0, &[]));
            total.add(&read.with_counts(&counts));
        }
        let samples = self.samples.iter().map(|(pair, ids)| {
            let batch = ClassificationBatch::new(&[ids], &self.device);
            let logits = model.model.forward(batch.ids, batch.blocked);
            let probabilities: Vec<f64> = softmax(logits, 1).into_data().iter().collect();
            let (best, probability) = probabilities
                .iter()
                .copied()
                .enumerate()
                .max_by(|a, b| a.1.total_cmp(&b.1))
                .unwrap_or_default();
            ClassifiedSample {
                text: pair.source.clone(),
                label: pair.target.clone(),
                predicted: self.labels.get(best).cloned().unwrap_or_default(),
                probability,
            }
        });
        let samples = samples.collect();
        let report = ClassificationReport {
            loss: total.loss(),
            accuracy: total.accuracy(),
            macro_f1: macro_f1(&confusion),
            labels: self.labels.clone(),
            confusion,
            samples,
            seconds: start.elapsed().as_secs_f64(),
        };
        Ok((report, total))
    }

    fn rank(&self, report: &ClassificationReport) -> (f64, f64) {
        report.rank(self.best_by)
    }

    fn bundle(&self) -> &BundleParts {
        &self.bundle
    }
}
