//! Gradients of all trained weights as one tensor, which ranks add up in the memory of their devices.

use std::time::Instant;

use burn::{
    module::{Module, ModuleVisitor, Param},
    optim::GradientsParams,
    tensor::{Device, Tensor, TensorData, Transaction},
};
use tx_model::kernels::sum_of_squares;

use crate::{ranks::Ranks, task::StepOutput};

/// Sum of the gradients of all ranks, with loss and correct tokens.
pub(super) struct DeviceGradients {
    /// Gradients in the order of the model: `[len]`
    values: Tensor<1>,
    /// For each weight, the number of ranks that have a gradient of it; the loss; the negative
    /// log-likelihood; the number of correct tokens.
    numbers: Vec<f32>,
    /// Norm over all weights together.
    pub norm: f64,
    /// Seconds of adding up, including the wait for the other ranks.
    pub seconds: f64,
}

impl DeviceGradients {
    /// Adds up the gradients of all ranks on `device`, without autodiff. A trained weight without gradient, as on a rank without
    /// batches, gets zeros, and keeps none if no rank has one.
    ///
    /// Loss, counts and norm are read back together.
    pub fn sum<M: Module>(
        model: &M,
        gradients: GradientsParams,
        output: StepOutput,
        ranks: &dyn Ranks,
        device: &Device,
    ) -> Self {
        let mut collect = Collect { gradients: &gradients, parts: Vec::new(), exists: Vec::new() };
        model.visit(&mut collect);
        let Collect { mut parts, exists, .. } = collect;
        let exists = exists.into_iter().map(|exists| if exists { 1.0 } else { 0.0 });
        let mut numbers: Vec<f32> = exists.collect();
        let StepOutput { loss_sum, nll_sum, correct, .. } = output;
        numbers.extend([loss_sum as f32, nll_sum as f32, correct as f32]);
        let added = numbers.len();
        parts.push(Tensor::from_data(TensorData::new(numbers, [added]), device));
        let values = Tensor::cat(parts, 0);
        drop(gradients);

        let start = Instant::now();
        let values = ranks.sum_tensor(values);
        let seconds = start.elapsed().as_secs_f64();
        let [all] = values.dims();
        let len = all - added;
        let numbers = values.clone().slice(len..all);
        let values = values.slice(0..len);
        let squares = sum_of_squares(values.clone());
        let read = Transaction::default().register(numbers).register(squares).execute();
        let numbers = read.first().map(|data| data.iter().collect()).unwrap_or_default();
        let squares = read.get(1).and_then(|data| data.iter::<f64>().next()).unwrap_or_default();
        Self { values, numbers, norm: squares.sqrt(), seconds }
    }

    /// Returns the loss and the number of correct tokens, without numbers of tokens.
    pub fn output(&self) -> StepOutput {
        StepOutput::of_numbers(&self.numbers)
    }

    /// Returns the gradients, multiplied by `factor`, by weight.
    pub fn scaled<M: Module>(self, model: &M, factor: f64) -> GradientsParams {
        let Self { values, numbers, .. } = self;
        let values = values * factor;
        let gradients = GradientsParams::new();
        let mut divide = Divide { values, counts: &numbers, first: 0, gradients };
        model.visit(&mut divide);
        divide.gradients
    }
}

/// Visitor that collects the gradients of all trained weights.
struct Collect<'a> {
    gradients: &'a GradientsParams,
    /// Gradients as vectors.
    parts: Vec<Tensor<1>>,
    /// Whether each weight has a gradient.
    exists: Vec<bool>,
}

impl ModuleVisitor for Collect<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if !param.is_require_grad() {
            return;
        }
        let gradient = self.gradients.get::<D>(param.id);
        self.exists.push(gradient.is_some());
        self.parts.push(match gradient {
            Some(gradient) => gradient.flatten(0, D - 1),
            None => {
                let weight = param.val().inner();
                Tensor::zeros([weight.shape().num_elements()], &weight.device())
            }
        });
    }
}

/// Visitor that divides a vector among the trained weights.
struct Divide<'a> {
    /// Values of all weights: `[len]`
    values: Tensor<1>,
    /// Number of ranks with a gradient, of the weights that were not visited yet.
    counts: &'a [f32],
    /// Index of the first value of the next weight.
    first: usize,
    gradients: GradientsParams,
}

impl ModuleVisitor for Divide<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if !param.is_require_grad() {
            return;
        }
        let shape = param.val().shape();
        let first = self.first;
        self.first += shape.num_elements();
        let count = self.counts.split_off_first();
        if count.is_none_or(|&count| count == 0.0) {
            return;
        }
        let values = self.values.clone().slice(first..self.first);
        self.gradients.register::<D>(param.id, values.reshape(shape));
    }
}
