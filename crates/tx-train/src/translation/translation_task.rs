//! Translation task of the training loop.

use std::{
    path::Path,
    sync::{Arc, atomic::AtomicBool},
};

use tx_infer::{ModelTask, ModuleBundle};
use tx_model::ModelConfig;
use tx_text::Tokenizers;

use super::{
    seq2seq::Seq2Seq,
    validation::{Validation, Validator},
};
use crate::{
    config::BestBy,
    error::TrainError,
    reporting::report,
    task::{Position, StepOutput, Task},
};

/// Translation task of a run.
pub(crate) struct Translation {
    pub validator: Validator,
    pub model: ModelConfig,
    pub tokenizers: Tokenizers,
    /// Origin of the bundle, without the scores of its validation.
    pub provenance: toml::Table,
    pub best_by: BestBy,
}

impl Translation {
    fn bundle(&self, model: &Seq2Seq) -> ModuleBundle {
        ModuleBundle {
            model: model.model.clone(),
            task: ModelTask::Translate,
            config: self.model.clone(),
            tokenizers: self.tokenizers.clone(),
            provenance: self.provenance.clone(),
        }
    }
}

impl Task for Translation {
    type Model = Seq2Seq;
    type Report = Validation;

    fn validate(
        &self,
        model: &Seq2Seq,
        stop: &Arc<AtomicBool>,
    ) -> Result<(Validation, StepOutput), TrainError> {
        self.validator.run(model, self.bundle(model), stop)
    }

    fn rank(&self, report: &Validation) -> (f64, f64) {
        report.rank(self.best_by)
    }

    fn save_best(
        &self,
        model: &Seq2Seq,
        report: &Validation,
        Position { epoch, step }: Position,
        run: &Path,
    ) -> Result<(), TrainError> {
        let mut scores = toml::Table::new();
        scores.insert("epoch".into(), (epoch as i64).into());
        scores.insert("step".into(), (step as i64).into());
        scores.insert("loss".into(), report.loss.into());
        scores.insert("accuracy".into(), report.accuracy.into());
        scores.insert("bleu".into(), report.bleu.into());
        scores.insert("bleu_signature".into(), report.bleu_signature.clone().into());
        scores.insert("chrf".into(), report.chrf.into());
        scores.insert("exact_match".into(), report.exact_match.into());
        let mut bundle = self.bundle(model);
        bundle.provenance.insert("validation".into(), scores.into());
        Ok(bundle.save(run)?)
    }

    fn write_page(&self, run: &Path) -> Result<(), TrainError> {
        report::write(run).map(drop)
    }
}
