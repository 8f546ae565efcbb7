//! Teacher of word-level distillation.

use std::sync::Arc;

use burn::tensor::{Device, Tensor};
use tx_data::Seq2SeqBatch;
use tx_infer::{Bundle, ModelTask};
use tx_model::{Transformer, TransformerInput, VocabSizes};

use crate::{
    config::{DistillationConfig, TrainConfig},
    error::TrainError,
};

/// Model whose predictions another one learns. Clones share the weights.
#[derive(Debug, Clone)]
pub struct Teacher {
    /// Model without autodiff.
    model: Arc<Transformer>,
    device: Device,
    /// Weight of the divergence from the teacher.
    pub(super) weight: f64,
    /// Divisor of the logits of both models.
    pub(super) temperature: f64,
}

impl Teacher {
    /// Opens the teacher of a run on `device`.
    ///
    /// # Errors
    ///
    /// If the bundle cannot be opened, is for another task, or has fewer positions than the run.
    pub(super) fn open(
        distill: &DistillationConfig,
        config: &TrainConfig,
        device: &Device,
    ) -> Result<Self, TrainError> {
        let device = device.clone().inner();
        let folder = &distill.teacher;
        let bundle = Bundle::open(folder)?;
        let problem = |problem: String| {
            let path = folder.display();
            let problem = format!("[train] `distill.teacher`: `{path}` {problem}");
            TrainError::Problems { problems: vec![problem] }
        };
        if bundle.task != ModelTask::Translate {
            return Err(problem("is no model for translation".into()));
        }
        let (found, needed) = (bundle.config.max_len, config.max_len());
        if found < needed {
            return Err(problem(format!(
                "has {found} positions, and the run needs {needed}; reduce `data.max_len`"
            )));
        }
        let decoder_start = bundle.config.decoder_start;
        if decoder_start != config.model.decoder_start {
            return Err(problem(format!("has `decoder_start` = {decoder_start:?}")));
        }
        let tokenizers = &bundle.tokenizers;
        let (source, target) = (tokenizers.source.vocab_size(), tokenizers.target.vocab_size());
        let sizes = VocabSizes { source, target };
        let vocab = bundle.config.padded(sizes);
        let expected = config.model.padded(sizes).target;
        if vocab.target != expected {
            let found = vocab.target;
            return Err(problem(format!("has {found} logits for a token, expected {expected}")));
        }
        let model = Transformer::new(&bundle.config, vocab, &device)?;
        let (model, _) = bundle.initialize(model, &ModelTask::Translate)?;
        let model = Arc::new(model.with_product_precision(config.train.precision));
        let DistillationConfig { weight, temperature, .. } = *distill;
        Ok(Self { model, device, weight, temperature })
    }

    /// Returns the logits of a batch, `[B, T, V]`, without autodiff.
    pub(super) fn logits(&self, batch: &Seq2SeqBatch) -> Tensor<3> {
        let batch = batch.clone();
        let device = batch.source.device().inner();
        let logits = self.model.forward(TransformerInput {
            source: batch.source.inner().to_device(&self.device),
            source_blocked: batch.source_blocked.inner().to_device(&self.device),
            target: batch.target_in.inner().to_device(&self.device),
            target_blocked: batch.target_blocked.inner().to_device(&self.device),
        });
        logits.to_device(&device)
    }
}
