//! The mean of several checkpoints, weight by weight: section 6.1 of the paper.

use std::path::Path;

use burn::{
    module::{Module, ModuleMapper, ModuleVisitor, Param},
    tensor::{Device, Tensor, TensorData},
};
use tx_infer::ModuleBundle;

use crate::{checkpoint::Checkpoints, error::TrainError, step::Seq2Seq};

/// Checkpoints to average.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// So many of the last.
    Last(usize),
    /// Those of so many of the best models, as `checkpoint.keep_best` keeps them.
    Best(usize),
}

/// The bundle of the run in `run` with the mean of some of its checkpoints as weights, and the
/// updates after which those were saved.
///
/// # Errors
///
/// When `run` holds no bundle or no checkpoint, or fewer checkpoints than asked for, or one of them
/// is damaged.
pub fn average(
    run: &Path,
    which: Which,
    device: &Device,
) -> Result<(ModuleBundle, Vec<usize>), TrainError> {
    let mut bundle = ModuleBundle::open(run, device)?;
    let checkpoints = Checkpoints::of(run);
    let all = checkpoints.steps()?;
    let (count, mut steps) = match which {
        Which::Last(count) => (count, all),
        Which::Best(count) => {
            let kept = all.last().map(|&last| checkpoints.state(last)).transpose()?;
            let kept = kept.unwrap_or_default().kept;
            (count, kept.into_iter().rev().map(|best| best.step).collect())
        }
    };
    if count == 0 || steps.len() < count {
        return Err(TrainError::TooFewCheckpoints {
            path: run.into(),
            found: steps.len(),
            asked: count,
        });
    }
    let mut steps = steps.split_off(steps.len() - count);
    steps.sort_unstable();
    let shape = Seq2Seq::new(bundle.model, 0.0, 0.0);
    let mut sums = Sums::default();
    for &step in &steps {
        checkpoints.state(step)?;
        checkpoints.model(step, shape.clone())?.visit(&mut sums);
        sums.rewind();
    }
    let mut mean = Mean { sums: sums.values.into_iter(), count: count as f64 };
    bundle.model = shape.map(&mut mean).model;
    let names: Vec<toml::Value> = steps.iter().map(|&step| (step as i64).into()).collect();
    bundle.provenance.insert("average_of_steps".into(), names.into());
    // They were those of other weights.
    bundle.provenance.remove("validation");
    Ok((bundle, steps))
}

/// Adds up the weights of models of one shape, in double precision.
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

/// Puts the sums back, divided.
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
