//! Run of the translation task: sentence pairs, encoder and decoder.

use burn::tensor::Device;
use tx_data::{PairLoader, make_batch::MakeSeq2SeqBatch};
use tx_infer::{ModelTask, search::start_id};
use tx_model::Transformer;
use tx_text::{BpeDropout, Lowercase};

use super::{seq2seq::Seq2Seq, translation_task::Translation, validation::Validator};
use crate::{
    config::TrainConfig,
    data::{DataAccess, DataSummary, Known, PairData, language_tokens::LanguageCodes},
    error::TrainError,
    task_run::{TaskParts, TaskRun},
};

impl TaskRun for PairData {
    type Task = Translation;
    type Make = MakeSeq2SeqBatch;

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

    fn model_task(&self, _config: &TrainConfig) -> ModelTask {
        ModelTask::Translate
    }

    fn training_loader(
        &self,
        config: &TrainConfig,
        device: &Device,
    ) -> Result<PairLoader, TrainError> {
        let train = &config.train;
        let pairs = self.train.clone();
        let loader = PairLoader::training(pairs, train.batch, train.seed, device.clone())
            .with_grouping(train.grouping)
            .with_decoder_start(start_id(config.model.decoder_start))
            .with_word_dropout(train.word_dropout);
        if train.bpe_dropout == 0.0 {
            return Ok(loader);
        }
        let tokenizers = &self.summary.tokenizers;
        let dropout = BpeDropout::new(tokenizers, train.bpe_dropout, config.max_len())?;
        Ok(loader.with_bpe_dropout(dropout))
    }

    fn validation_loader(
        &self,
        config: &TrainConfig,
        device: &Device,
    ) -> Result<PairLoader, TrainError> {
        let (pairs, batch) = (self.valid.clone(), config.train.batch);
        let loader = PairLoader::validation(pairs, batch, device.clone());
        Ok(loader.with_decoder_start(start_id(config.model.decoder_start)))
    }

    fn init(&self, config: &TrainConfig, device: &Device) -> Result<Transformer, TrainError> {
        let vocab = config.model.padded(self.summary.vocab());
        let model = Transformer::new(&config.model, vocab, device)?;
        Ok(model.with_product_precision(config.train.precision))
    }

    fn with_loss(&self, model: Transformer, config: &TrainConfig) -> Seq2Seq {
        Seq2Seq::new(model, config.train.label_smoothing).with_r_drop(config.train.r_drop)
    }

    fn examples(&self, _config: &TrainConfig) -> Vec<String> {
        self.validation.iter().take(3).map(|pair| pair.source.clone()).collect()
    }

    fn into_task(
        self,
        config: &TrainConfig,
        parts: TaskParts<Self>,
    ) -> Result<Translation, TrainError> {
        let TaskParts { validation, batch_tokens, bundle, device } = parts;
        let lowercase = config.tokenizer.lowercase == Lowercase::Both;
        let codes = bundle.languages.as_ref().map(|all| LanguageCodes::choose(all, &config.data));
        let codes = codes.transpose().map_err(|problems| TrainError::Problems { problems })?;
        let validator =
            Validator::new(validation, &self.validation, &config.validation, lowercase, &device)
                .with_batch_tokens(batch_tokens)
                .with_languages(codes);
        Ok(Translation { validator, bundle, best_by: config.validation.best_by(config.task) })
    }
}
