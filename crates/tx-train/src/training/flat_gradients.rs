//! Gradients of all trained weights as one vector in the memory of the host, which ranks add up.

use std::{mem::take, time::Instant};

use burn::{
    module::{Module, ModuleVisitor, Param},
    optim::GradientsParams,
    tensor::{Tensor, TensorData, Transaction},
};
use rayon::prelude::*;

use crate::{ranks::Ranks, task::StepOutput};

/// Number of values whose squares are added up together. It is fixed, so the norm does not depend on
/// the number of threads and is the same on all ranks.
const CHUNK: usize = 1 << 16;

/// Gradients of the batches of a rank, or of all ranks, with loss and correct tokens.
pub(super) struct FlatGradients {
    /// Gradients in the order of the model; for each weight, the number of ranks that have a gradient
    /// of it; the loss; the negative log-likelihood; the number of correct tokens.
    values: Vec<f32>,
    /// Number of values of the gradients.
    len: usize,
}

impl FlatGradients {
    /// Reads `gradients` from the device. A trained weight without gradient, as on a rank without
    /// batches, gets zeros, and keeps none if no rank has one.
    pub fn read<M: Module>(model: &M, gradients: &GradientsParams, output: StepOutput) -> Self {
        let mut collect =
            Collect { gradients, lens: Vec::new(), transaction: Transaction::default() };
        model.visit(&mut collect);
        let Collect { lens, transaction, .. } = collect;
        let mut found = transaction.execute().into_iter();
        let len = lens.iter().map(|(len, _)| len).sum::<usize>();
        let mut values = Vec::with_capacity(len + lens.len() + 3);
        for &(len, exists) in &lens {
            let end = values.len() + len;
            if let Some(data) = exists.then(|| found.next()).flatten() {
                match data.as_slice::<f32>() {
                    Ok(gradient) => values.extend_from_slice(gradient),
                    Err(_) => values.extend(data.iter::<f32>()),
                }
            }
            values.resize(end, 0.0);
        }
        values.extend(lens.iter().map(|&(_, exists)| if exists { 1.0 } else { 0.0 }));
        let StepOutput { loss_sum, nll_sum, correct, .. } = output;
        values.extend([loss_sum as f32, nll_sum as f32, correct as f32]);
        Self { values, len }
    }

    /// Adds up the gradients of all ranks. Returns the seconds that this took.
    pub fn reduce(&mut self, ranks: &dyn Ranks) -> f64 {
        let start = Instant::now();
        self.values = ranks.sum(take(&mut self.values));
        start.elapsed().as_secs_f64()
    }

    /// Returns the loss and the number of correct tokens, without numbers of tokens.
    pub fn output(&self) -> StepOutput {
        StepOutput::of_numbers(&self.values)
    }

    /// Returns the norm over all weights together.
    pub fn norm(&self) -> f64 {
        let squares = |chunk: &[f32]| chunk.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>();
        let sums: Vec<f64> = self.gradients().par_chunks(CHUNK).map(squares).collect();
        sums.iter().sum::<f64>().sqrt()
    }

    /// Returns the gradients, multiplied by `factor`, on the device of each weight.
    pub fn scaled<M: Module>(&self, model: &M, factor: f64) -> GradientsParams {
        let (rest, counts) = self.values.split_at(self.len.min(self.values.len()));
        let gradients = GradientsParams::new();
        let mut divide = Divide { rest, counts, factor: factor as f32, gradients };
        model.visit(&mut divide);
        divide.gradients
    }

    fn gradients(&self) -> &[f32] {
        &self.values[..self.len.min(self.values.len())]
    }
}

/// Visitor that registers the gradients of all trained weights for reading.
struct Collect<'a> {
    gradients: &'a GradientsParams,
    /// Number of values of each weight, and whether it has a gradient.
    lens: Vec<(usize, bool)>,
    transaction: Transaction,
}

impl ModuleVisitor for Collect<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if !param.is_require_grad() {
            return;
        }
        let gradient = self.gradients.get::<D>(param.id);
        self.lens.push((param.val().shape().num_elements(), gradient.is_some()));
        if let Some(gradient) = gradient {
            self.transaction = take(&mut self.transaction).register(gradient);
        }
    }
}

/// Visitor that divides a vector among the trained weights.
struct Divide<'a> {
    /// Values of the weights that were not visited yet.
    rest: &'a [f32],
    /// Number of ranks with a gradient, of these weights.
    counts: &'a [f32],
    factor: f32,
    gradients: GradientsParams,
}

impl ModuleVisitor for Divide<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if !param.is_require_grad() {
            return;
        }
        let weight = param.val().inner();
        let len = weight.shape().num_elements().min(self.rest.len());
        let (values, rest) = self.rest.split_at(len);
        self.rest = rest;
        let count = self.counts.split_off_first();
        if count.is_none_or(|&count| count == 0.0) {
            return;
        }
        let values = values.iter().map(|value| value * self.factor).collect::<Vec<f32>>();
        let data = TensorData::new(values, weight.shape());
        self.gradients.register::<D>(param.id, Tensor::from_data(data, &weight.device()));
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;
    use crate::ranks::tests::Threads;

    #[derive(Module, Debug)]
    struct Weights {
        one: Param<Tensor<1>>,
        two: Param<Tensor<1>>,
        three: Param<Tensor<1>>,
    }

    /// Only rank 1 has a gradient of the second weight, and none has one of the third, as if LayerDrop
    /// skipped its layer. With a gradient of zero, Adam would change it.
    #[test]
    fn a_weight_without_gradient_on_any_rank_keeps_none() {
        let device = Device::flex();
        let autodiff = device.clone().autodiff();
        let weight = || Param::from_data([0.5, 0.25], &autodiff);
        let model = Weights { one: weight(), two: weight(), three: weight() };
        let found = Threads::run(2, |ranks| {
            let gradient = |value: f32| Tensor::<1>::from_floats([value, 2.0], &device);
            let mut gradients = GradientsParams::new();
            gradients.register::<1>(model.one.id, gradient(1.0));
            if ranks.rank() == 1 {
                gradients.register::<1>(model.two.id, gradient(3.0));
            }
            let output =
                StepOutput { loss_sum: 1.5, nll_sum: 1.25, correct: 4, ..StepOutput::default() };
            let values = |gradients: GradientsParams| {
                [&model.one, &model.two, &model.three].map(|param| {
                    let gradient = gradients.get::<1>(param.id);
                    gradient.map(|gradient| gradient.into_data().iter::<f32>().collect::<Vec<_>>())
                })
            };
            let mut flat = FlatGradients::read(&model, &gradients, output);
            flat.reduce(&ranks);
            (values(flat.scaled(&model, 0.5)), flat.norm(), flat.output())
        });
        let values = [Some(vec![1.0, 2.0]), Some(vec![1.5, 1.0]), None];
        let norm = f64::sqrt(4.0 + 16.0 + 9.0 + 4.0);
        let output =
            StepOutput { loss_sum: 3.0, nll_sum: 2.5, correct: 8, ..StepOutput::default() };
        let expected = (values, norm, output);
        assert_eq!(found, vec![expected; 2]);
    }
}
