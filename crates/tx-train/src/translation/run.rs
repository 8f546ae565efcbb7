//! Run of the translation task: sentence pairs, encoder and decoder.

use std::sync::Arc;

use burn::tensor::Device;
use tx_data::{EncodedPair, PairLoader, make_batch::MakeSeq2SeqBatch};
use tx_infer::{ModelTask, search::start_id};
use tx_model::Transformer;
use tx_text::Lowercase;

use super::{
    seq2seq::{GuidedAlignment, Seq2Seq},
    teachers::Teachers,
    translation_task::Translation,
    validation::{ValidatedSet, Validator},
};
use crate::{
    config::TrainConfig,
    data::{DataAccess, DataSummary, Known, PairData, ValidationSet, segmentation::segmentation},
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
        Ok(match segmentation(config, &self.summary.tokenizers)? {
            Some(segmentation) => loader.with_segmentation(segmentation),
            None => loader,
        })
    }

    fn validation_loader(
        &self,
        config: &TrainConfig,
        device: &Device,
    ) -> Result<PairLoader, TrainError> {
        let pairs: Vec<EncodedPair> =
            self.sets.iter().flat_map(|set| set.encoded.clone()).collect();
        Ok(validation_loader(pairs, config, device))
    }

    fn init(&self, config: &TrainConfig, device: &Device) -> Result<Transformer, TrainError> {
        let vocab = config.model.padded(self.summary.vocab());
        let model = Transformer::new(&config.model, vocab, device)?;
        Ok(model.with_product_precision(config.train.precision))
    }

    fn with_loss(
        &self,
        model: Transformer,
        config: &TrainConfig,
        device: &Device,
    ) -> Result<Seq2Seq, TrainError> {
        let train = &config.train;
        let teachers =
            train.distill.as_ref().map(|distill| Teachers::open(distill, config, device));
        let guided_alignment = train.guided_alignment.as_ref().map(|guided| GuidedAlignment {
            layer: guided.layer_of(config.model.decoder_layers).saturating_sub(1),
            weight: guided.weight,
        });
        Ok(Seq2Seq::new(model, train.label_smoothing)
            .with_r_drop(train.r_drop)
            .with_teachers(teachers.transpose()?)
            .with_guided_alignment(guided_alignment))
    }

    fn examples(&self, _config: &TrainConfig) -> Vec<String> {
        self.sets
            .iter()
            .flat_map(|set| &set.pairs)
            .take(3)
            .map(|pair| pair.source.clone())
            .collect()
    }

    fn into_task(
        self,
        config: &TrainConfig,
        parts: TaskParts<Self>,
    ) -> Result<Translation, TrainError> {
        let TaskParts { validation: _, batch_tokens, bundle, device } = parts;
        let lowercase = config.tokenizer.lowercase == Lowercase::Both;
        let set = |set: ValidationSet| {
            let ValidationSet { name, encoded, pairs, languages, tokenize } = set;
            let loader = validation_loader(encoded, config, &device);
            ValidatedSet::new(name, Arc::new(loader), &pairs, languages, tokenize)
        };
        let sets = self.sets.into_iter().map(set).collect();
        let validator = Validator::new(sets, &config.validation, lowercase, &device)
            .with_batch_tokens(batch_tokens);
        Ok(Translation { validator, bundle, best_by: config.validation.best_by(config.task) })
    }
}

/// Creates the loader of a validation set.
fn validation_loader(pairs: Vec<EncodedPair>, config: &TrainConfig, device: &Device) -> PairLoader {
    PairLoader::validation(pairs, config.train.batch, device.clone())
        .with_decoder_start(start_id(config.model.decoder_start))
}
