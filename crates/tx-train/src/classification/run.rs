//! Run of the classification task: labeled texts, encoder alone.

use burn::tensor::Device;
use tx_data::{ClassificationLoader, EncodedPair, make_batch::MakeClassificationBatch};
use tx_infer::ModelTask;
use tx_model::Classifier;

use super::{model::TrainedClassifier, task::Classification};
use crate::{
    config::TrainConfig,
    data::{DataAccess, DataSummary, Known, labeled::LabeledData, segmentation::segmentation},
    error::TrainError,
    task_run::{TaskParts, TaskRun},
};

impl TaskRun for LabeledData {
    type Task = Classification;
    type Make = MakeClassificationBatch;

    fn prepare(
        config: &TrainConfig,
        known: Known,
        access: &DataAccess<'_>,
    ) -> Result<Self, TrainError> {
        Self::new(config, known, access)
    }

    fn summary(&self) -> &DataSummary {
        &self.summary
    }

    fn model_task(&self, config: &TrainConfig) -> ModelTask {
        ModelTask::Classify {
            labels: self.summary.labels.clone(),
            pooling: config.classification.pooling,
        }
    }

    fn training_loader(
        &self,
        config: &TrainConfig,
        device: &Device,
    ) -> Result<ClassificationLoader, TrainError> {
        let train = &config.train;
        let texts = self.train.clone();
        let segmentation = segmentation(config, &self.summary.tokenizers)?;
        let make = MakeClassificationBatch { segmentation };
        let loader = ClassificationLoader::new(texts, make, train.batch, device.clone());
        Ok(loader.shuffled(train.seed).with_grouping(train.grouping))
    }

    fn validation_loader(
        &self,
        config: &TrainConfig,
        device: &Device,
    ) -> Result<ClassificationLoader, TrainError> {
        let texts = self.valid.clone();
        let (make, size) = (MakeClassificationBatch::default(), config.train.batch);
        Ok(ClassificationLoader::new(texts, make, size, device.clone()))
    }

    fn init(&self, config: &TrainConfig, device: &Device) -> Result<Classifier, TrainError> {
        let vocabulary = config.model.padded(self.summary.vocab()).source;
        let (classes, pooling) = (self.summary.labels.len(), config.classification.pooling);
        let model = Classifier::new(&config.model, vocabulary, classes, pooling, device)?;
        Ok(model.with_product_precision(config.train.precision))
    }

    fn with_loss(
        &self,
        model: Classifier,
        config: &TrainConfig,
        _device: &Device,
    ) -> Result<TrainedClassifier, TrainError> {
        let smoothing = config.train.label_smoothing;
        Ok(TrainedClassifier::new(model, smoothing, self.class_weights.clone()))
    }

    fn examples(&self, _config: &TrainConfig) -> Vec<String> {
        self.validation.iter().take(3).map(|text| text.source.clone()).collect()
    }

    fn into_task(
        self,
        config: &TrainConfig,
        parts: TaskParts<Self>,
    ) -> Result<Classification, TrainError> {
        let TaskParts { validation, bundle, device, .. } = parts;
        let mut samples = Vec::new();
        for text in self.validation.iter().take(config.validation.samples) {
            let tokenizer = &self.summary.tokenizers.source;
            let mut source = tokenizer.encode(&text.source)?;
            tokenizer.ends().truncate(&mut source, config.max_len());
            samples.push((text.clone(), EncodedPair::new(source, Vec::new())));
        }
        Ok(Classification {
            loader: validation,
            samples,
            device,
            labels: self.summary.labels,
            bundle,
            best_by: config.validation.best_by(config.task),
        })
    }
}
