//! Run of the masked language modeling task: texts with masked tokens, encoder alone.

use burn::tensor::Device;
use tx_data::{MaskedLoader, Masking, TextParts, make_batch::MakeMaskedBatch};
use tx_infer::ModelTask;
use tx_model::MaskedLanguageModel;
use tx_text::special::SpecialTokens;

use super::{
    model::TrainedMaskedLanguageModel,
    task::{MaskedLanguageModeling, with_masked_word},
};
use crate::{
    config::TrainConfig,
    data::{DataAccess, DataSummary, Known, documents::DocumentData},
    error::TrainError,
    task_run::{TaskParts, TaskRun},
};

/// Texts of a masked language model.
pub(crate) struct MaskedLanguageModelRun(DocumentData);

impl MaskedLanguageModelRun {
    /// Returns the first words of a document, as many as the model reads, with and without a mask;
    /// `None` if they have no word to mask.
    fn sample(&self, document: &str, config: &TrainConfig) -> Option<(String, String)> {
        let tokenizer = &self.0.summary.tokenizers.source;
        let most = config.model.max_len;
        let mut words: Vec<&str> = document.split_whitespace().take(most).collect();
        loop {
            let text = words.join(" ");
            let masked = with_masked_word(&text)?;
            if tokenizer.encode_with_masks(&masked).ok()?.len() <= most {
                return Some((masked, text));
            }
            words.truncate(words.len() - words.len().div_ceil(4));
        }
    }

    fn masking(&self, config: &TrainConfig) -> Result<Masking, TrainError> {
        let tokenizer = &self.0.summary.tokenizers.source;
        let masking = Masking::new(tokenizer)?;
        Ok(match config.masking.whole_words {
            true => masking.with_whole_words(tokenizer),
            false => masking,
        })
    }
}

impl TaskRun for MaskedLanguageModelRun {
    type Task = MaskedLanguageModeling;
    type Make = MakeMaskedBatch;

    fn prepare(
        config: &TrainConfig,
        known: Known,
        access: &DataAccess<'_>,
    ) -> Result<Self, TrainError> {
        let data = DocumentData::new(config, known, SpecialTokens::WithMask, access)?;
        for (what, documents) in
            [("the training data", &data.train), ("the validation data", &data.valid)]
        {
            let mut all = (0..documents.len()).map(|index| documents.document(index));
            if !all.any(|ids| ids.iter().any(|&id| id as usize >= SpecialTokens::WithMask.count()))
            {
                let problem = format!("[tokenizer] no word of {what} is in the vocabulary");
                return Err(TrainError::Problems { problems: vec![problem] });
            }
        }
        Ok(Self(data))
    }

    fn summary(&self) -> &DataSummary {
        &self.0.summary
    }

    fn model_task(&self, _config: &TrainConfig) -> ModelTask {
        ModelTask::FillMask
    }

    fn training_loader(
        &self,
        config: &TrainConfig,
        device: &Device,
    ) -> Result<MaskedLoader, TrainError> {
        let train = &config.train;
        let texts = TextParts::new(self.0.train.clone(), config.max_len());
        let make = MakeMaskedBatch { masking: self.masking(config)? };
        let loader = MaskedLoader::new(texts, make, train.batch, device.clone());
        Ok(loader.shuffled(train.seed).with_grouping(train.grouping))
    }

    fn validation_loader(
        &self,
        config: &TrainConfig,
        device: &Device,
    ) -> Result<MaskedLoader, TrainError> {
        let texts = TextParts::new(self.0.valid.clone(), config.max_len());
        let make = MakeMaskedBatch { masking: self.masking(config)? };
        Ok(MaskedLoader::new(texts, make, config.train.batch, device.clone()))
    }

    fn init(
        &self,
        config: &TrainConfig,
        device: &Device,
    ) -> Result<MaskedLanguageModel, TrainError> {
        let vocabulary = config.model.padded(self.0.summary.vocab()).source;
        let model = MaskedLanguageModel::new(&config.model, vocabulary, device)?;
        Ok(model.with_product_precision(config.train.precision))
    }

    fn with_loss(
        &self,
        model: MaskedLanguageModel,
        config: &TrainConfig,
        _device: &Device,
    ) -> Result<TrainedMaskedLanguageModel, TrainError> {
        Ok(TrainedMaskedLanguageModel::new(model, config.train.label_smoothing))
    }

    fn examples(&self, config: &TrainConfig) -> Vec<String> {
        let samples = self.0.validation.iter().filter_map(|text| self.sample(text, config));
        samples.take(3).map(|(masked, _)| masked).collect()
    }

    fn into_task(
        self,
        config: &TrainConfig,
        parts: TaskParts<Self>,
    ) -> Result<MaskedLanguageModeling, TrainError> {
        let TaskParts { validation, bundle, device, .. } = parts;
        let samples = self.0.validation.iter().filter_map(|text| self.sample(text, config));
        let samples = samples.take(config.validation.samples).collect();
        let best_by = config.validation.best_by(config.task);
        Ok(MaskedLanguageModeling { loader: validation, samples, bundle, best_by, device })
    }
}
