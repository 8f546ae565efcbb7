//! Average of the weights of several checkpoints: section 6.1 of the paper.

use std::path::Path;

use burn::{
    module::{Module, ModuleMapper, ModuleVisitor, Param},
    tensor::{Tensor, TensorData},
};

use super::checkpoint::Checkpoints;
use crate::error::TrainError;

/// Checkpoints to average.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckpointSelection {
    /// Last N checkpoints.
    Last(usize),
    /// Checkpoints of the N best models, as `checkpoint.keep_best` keeps them.
    Best(usize),
}

impl CheckpointSelection {
    /// Updates of the selected checkpoints of the run in `run`, in ascending order.
    ///
    /// # Errors
    ///
    /// If there are fewer checkpoints, or the last one is damaged.
    pub fn steps(self, run: &Path) -> Result<Vec<usize>, TrainError> {
        let checkpoints = Checkpoints::of(run);
        let all = checkpoints.steps()?;
        let (count, mut steps) = match self {
            Self::Last(count) => (count, all),
            Self::Best(count) => {
                let state = all.last().map(|&last| checkpoints.state(last)).transpose()?;
                let kept = state.unwrap_or_default().kept;
                (count, kept.into_iter().rev().map(|best| best.step).collect())
            }
        };
        if count == 0 || steps.len() < count {
            return Err(TrainError::TooFewCheckpoints {
                path: run.into(),
                found: steps.len(),
                requested: count,
            });
        }
        let mut steps = steps.split_off(steps.len() - count);
        steps.sort_unstable();
        Ok(steps)
    }
}

/// Averages the weights of the checkpoints of the run in `run` after updates `steps`. `model`
/// provides the shapes. The matrices of LoRA are added to the weights first.
///
/// # Errors
///
/// If a checkpoint is damaged, or belongs to another model.
pub fn average_weights<M: Module>(run: &Path, steps: &[usize], model: M) -> Result<M, TrainError> {
    let checkpoints = Checkpoints::of(run);
    let mut sums = Sums::default();
    for &step in steps {
        checkpoints.state(step)?;
        checkpoints.model(step, model.clone())?.materialize().visit(&mut sums);
        sums.rewind();
    }
    Ok(model
        .materialize()
        .map(&mut Mean { sums: sums.values.into_iter(), count: steps.len() as f64 }))
}

/// Visitor that adds up the weights of models of the same shape, in double precision.
#[derive(Default)]
struct Sums {
    values: Vec<Vec<f64>>,
    next: usize,
}

impl Sums {
    fn rewind(&mut self) {
        self.next = 0;
    }
}

impl ModuleVisitor for Sums {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let weights = param.val().into_data();
        match self.values.get_mut(self.next) {
            Some(sums) => {
                sums.iter_mut().zip(weights.iter::<f64>()).for_each(|(sum, x)| *sum += x);
            }
            None => self.values.push(weights.iter::<f64>().collect()),
        }
        self.next += 1;
    }
}

/// Mapper that replaces weights by their mean.
struct Mean {
    sums: std::vec::IntoIter<Vec<f64>>,
    count: f64,
}

impl ModuleMapper for Mean {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        param.map(|old| match self.sums.next() {
            Some(sums) => {
                let mean: Vec<f32> = sums.iter().map(|sum| (sum / self.count) as f32).collect();
                Tensor::from_data(TensorData::new(mean, old.dims().to_vec()), &old.device())
            }
            None => old,
        })
    }
}
