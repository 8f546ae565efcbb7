//! Translation task of the training loop.

use std::{
    path::Path,
    sync::{Arc, atomic::AtomicBool},
};

use super::{
    seq2seq::Seq2Seq,
    validation::{Validation, Validator},
};
use crate::{
    bundle_parts::BundleParts,
    config::BestBy,
    error::TrainError,
    task::{StepOutput, Task},
};

/// Translation task of a run.
pub(crate) struct Translation {
    pub validator: Validator,
    pub bundle: BundleParts,
    pub best_by: BestBy,
}

impl Task for Translation {
    type Model = Seq2Seq;
    type Report = Validation;

    fn validate(
        &self,
        model: &Seq2Seq,
        stop: &Arc<AtomicBool>,
    ) -> Result<(Validation, StepOutput), TrainError> {
        self.validator.run(model, self.bundle.bundle(model.model.clone()), stop)
    }

    fn rank(&self, report: &Validation) -> (f64, f64) {
        report.rank(self.best_by)
    }

    fn bundle(&self) -> &BundleParts {
        &self.bundle
    }

    fn complete(&self, run: &Path, stop: &Arc<AtomicBool>) -> Result<Vec<String>, TrainError> {
        self.validator.select_search(run, self.best_by, stop)
    }
}
