//! Run of the language modeling task: documents, decoder alone.

use burn::tensor::Device;
use tx_data::{LanguageModelLoader, PackedDocuments, make_batch::MakeLanguageModelBatch};
use tx_infer::ModelTask;
use tx_model::LanguageModel;
use tx_text::special::SpecialTokens;

use super::{model::TrainedLanguageModel, task::LanguageModeling};
use crate::{
    config::TrainConfig,
    data::{DataAccess, DataSummary, Known, documents::DocumentData},
    error::TrainError,
    task_run::{TaskParts, TaskRun},
};

/// Number of words of a document that a sample continues.
const PROMPT_WORDS: usize = 2;

/// Documents of a language model.
pub(crate) struct LanguageModelRun(DocumentData);

impl TaskRun for LanguageModelRun {
    type Task = LanguageModeling;
    type Make = MakeLanguageModelBatch;

    fn prepare(
        config: &TrainConfig,
        known: Known,
        access: &DataAccess<'_>,
    ) -> Result<Self, TrainError> {
        DocumentData::new(config, known, SpecialTokens::Standard, access).map(Self)
    }

    fn summary(&self) -> &DataSummary {
        &self.0.summary
    }

    fn model_task(&self, _config: &TrainConfig) -> ModelTask {
        ModelTask::Generate
    }

    fn training_loader(
        &self,
        config: &TrainConfig,
        device: &Device,
    ) -> Result<LanguageModelLoader, TrainError> {
        let train = &config.train;
        let rows = PackedDocuments::new(self.0.train.clone(), config.max_len());
        let loader = LanguageModelLoader::training(rows, train.batch, train.seed, device.clone());
        Ok(loader.with_grouping(train.grouping))
    }

    fn validation_loader(
        &self,
        config: &TrainConfig,
        device: &Device,
    ) -> Result<LanguageModelLoader, TrainError> {
        let rows = PackedDocuments::new(self.0.valid.clone(), config.max_len());
        Ok(LanguageModelLoader::validation(rows, config.train.batch, device.clone()))
    }

    fn init(&self, config: &TrainConfig, device: &Device) -> Result<LanguageModel, TrainError> {
        let vocabulary = config.model.padded(self.0.summary.vocab()).target;
        let model = LanguageModel::new(&config.model, vocabulary, device)?;
        Ok(model.with_product_precision(config.train.precision))
    }

    fn with_loss(
        &self,
        model: LanguageModel,
        config: &TrainConfig,
        _device: &Device,
    ) -> Result<TrainedLanguageModel, TrainError> {
        Ok(TrainedLanguageModel::new(model, config.train.label_smoothing))
    }

    fn examples(&self, _config: &TrainConfig) -> Vec<String> {
        self.0.validation.iter().take(3).map(|document| beginning(document)).collect()
    }

    fn into_task(
        self,
        config: &TrainConfig,
        parts: TaskParts<Self>,
    ) -> Result<LanguageModeling, TrainError> {
        let TaskParts { validation, bundle, device, .. } = parts;
        let Self(DocumentData { report, validation: documents, summary, .. }) = self;
        let tokenizer = &summary.tokenizers.target;
        let mut prompts = Vec::new();
        for document in documents.iter().take(config.validation.samples) {
            let prompt = beginning(document);
            // A continuation needs room. Without a prompt, the sample is a whole document.
            let is_short = tokenizer.encode(&prompt)?.len() <= config.model.max_len / 2;
            prompts.push(if is_short { prompt } else { String::new() });
        }
        Ok(LanguageModeling {
            loader: validation,
            words: report.words,
            characters: report.characters,
            prompts,
            seed: config.train.seed,
            bundle,
            device,
        })
    }
}

/// First words of a document.
fn beginning(document: &str) -> String {
    let words: Vec<&str> = document.split_whitespace().take(PROMPT_WORDS).collect();
    words.join(" ")
}
