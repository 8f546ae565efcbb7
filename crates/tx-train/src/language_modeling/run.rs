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
/// Maximum number of characters of these words, and the number that a sample continues if they have
/// more, as in scripts without spaces between words.
const PROMPT_CHARACTERS: usize = 40;
const UNSPACED_CHARACTERS: usize = 8;

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
        let make = MakeLanguageModelBatch;
        let loader = LanguageModelLoader::new(rows, make, train.batch, device.clone());
        Ok(loader.shuffled(train.seed).with_grouping(train.grouping))
    }

    fn validation_loader(
        &self,
        config: &TrainConfig,
        device: &Device,
    ) -> Result<LanguageModelLoader, TrainError> {
        let rows = PackedDocuments::new(self.0.valid.clone(), config.max_len());
        let (make, size) = (MakeLanguageModelBatch, config.train.batch);
        Ok(LanguageModelLoader::new(rows, make, size, device.clone()))
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

    fn examples(&self, config: &TrainConfig) -> Vec<String> {
        let documents = self.0.validation.iter().take(3);
        let most = config.model.max_len.saturating_sub(1);
        documents.filter_map(|document| self.prompt(document, most).ok()).collect()
    }

    fn into_task(
        self,
        config: &TrainConfig,
        parts: TaskParts<Self>,
    ) -> Result<LanguageModeling, TrainError> {
        let TaskParts { validation, bundle, device, .. } = parts;
        let documents = self.0.validation.iter().take(config.validation.samples);
        let prompts = documents
            .map(|document| self.prompt(document, config.model.max_len / 2))
            .collect::<Result<_, _>>()?;
        let Self(DocumentData { report, .. }) = self;
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

impl LanguageModelRun {
    /// Returns the first words of a document, shortened to at most `most` tokens; possibly nothing.
    fn prompt(&self, document: &str, most: usize) -> Result<String, TrainError> {
        let tokenizer = &self.0.summary.tokenizers.target;
        let mut prompt = beginning(document);
        while !prompt.is_empty() && tokenizer.encode(&prompt)?.len() > most {
            prompt = first_characters(&prompt, prompt.chars().count() / 2);
        }
        Ok(prompt)
    }
}

/// First words of a document, or the first characters of long ones.
fn beginning(document: &str) -> String {
    let words: Vec<&str> = document.split_whitespace().take(PROMPT_WORDS).collect();
    let words = words.join(" ");
    match words.chars().count() > PROMPT_CHARACTERS {
        true => first_characters(&words, UNSPACED_CHARACTERS),
        false => words,
    }
}

/// First characters of a text, without white space at the end.
fn first_characters(text: &str, count: usize) -> String {
    text.chars().take(count).collect::<String>().trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_is_short_in_every_script() {
        assert_eq!(beginning("The  cat sleeps."), "The cat");
        assert_eq!(beginning("我喜欢猫"), "我喜欢猫");
        assert_eq!(beginning(&"河流需要新的花园".repeat(50)), "河流需要新的花园");
        assert_eq!(beginning(&"x".repeat(70_000)), "xxxxxxxx");
        assert_eq!(beginning(""), "");
    }
}
