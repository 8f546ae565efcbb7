//! Teachers of word-level distillation.

use std::{path::Path, sync::Arc};

use burn::tensor::{Device, Tensor};
use tx_data::Seq2SeqBatch;
use tx_infer::{Bundle, ModelTask, bundle::check_same_tokenizers};
use tx_model::{Transformer, TransformerInput, VocabSizes, kernels::Distillation};

use crate::{
    config::{DistillationConfig, TrainConfig},
    error::TrainError,
};

/// Models whose mean prediction another one learns. Clones share the weights.
#[derive(Debug, Clone)]
pub struct Teachers {
    /// Models without autodiff.
    models: Arc<[Transformer]>,
    device: Device,
    settings: Distillation,
}

impl Teachers {
    /// Opens the teachers of a run on `device`.
    ///
    /// # Errors
    ///
    /// If a bundle cannot be opened, is for another task, has fewer positions than the run, or has other
    /// tokenizers than the first.
    pub(super) fn open(
        distill: &DistillationConfig,
        config: &TrainConfig,
        device: &Device,
    ) -> Result<Self, TrainError> {
        let device = device.clone().inner();
        let mut models = Vec::new();
        let mut first: Option<(&Path, Bundle)> = None;
        for folder in distill.teacher.folders() {
            let bundle = Bundle::open(folder)?;
            models.push(model(folder, &bundle, config, &device)?);
            match &first {
                Some((path, first)) => {
                    let pair = [(*path, &first.tokenizers), (folder, &bundle.tokenizers)];
                    check_same_tokenizers(pair)?;
                }
                None => first = Some((folder, bundle)),
            }
        }
        let DistillationConfig { weight, temperature, .. } = *distill;
        let settings = Distillation { weight, temperature };
        Ok(Self { models: models.into(), device, settings })
    }

    /// Weight and temperature.
    pub(super) fn settings(&self) -> Distillation {
        self.settings
    }

    /// Returns the logits of `M` teachers for a batch, `[M, B · T, V]`, without autodiff.
    pub(super) fn logits(&self, batch: &Seq2SeqBatch) -> Tensor<3> {
        let device = batch.source.device().inner();
        let logits = self.models.iter().map(|model| {
            let batch = batch.clone();
            let logits = model.forward(TransformerInput {
                source: batch.source.inner().to_device(&self.device),
                source_blocked: batch.source_blocked.inner().to_device(&self.device),
                target: batch.target_in.inner().to_device(&self.device),
                target_blocked: batch.target_blocked.inner().to_device(&self.device),
            });
            logits.flatten::<2>(0, 1).unsqueeze_dim(0)
        });
        Tensor::cat(logits.collect(), 0).to_device(&device)
    }
}

/// Builds the model of a bundle after checking that it fits the run.
fn model(
    folder: &Path,
    bundle: &Bundle,
    config: &TrainConfig,
    device: &Device,
) -> Result<Transformer, TrainError> {
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
    let model = Transformer::new(&bundle.config, vocab, device)?;
    let (model, _) = bundle.initialize(model, &ModelTask::Translate)?;
    Ok(model.with_product_precision(config.train.precision))
}
