//! Adam (Kingma and Ba 2015) and AdamW (Loshchilov and Hutter 2019), each update in a single pass.

use burn::{
    optim::{AdamState, AdaptiveMomentumState, Optimizer},
    tensor::{Device, Tensor},
};
use tx_model::kernels::{AdamBuffers, AdamUpdate, ParameterState};

use crate::config::{OptimizationConfig, OptimizerKind};

/// Optimizer of a configuration. Its state is that of Burn's `Adam`.
#[derive(Debug, Clone)]
pub struct Adam {
    beta_1: f32,
    beta_2: f32,
    epsilon: f32,
    weight_decay: f32,
    /// Whether weight decay applies to the weight itself instead of its gradient.
    is_decoupled: bool,
    buffers: AdamBuffers,
}

impl Adam {
    /// Creates the optimizer with the settings of `config`: Adam for [`OptimizerKind::Adam`], otherwise
    /// AdamW. Each step receives its learning rate.
    pub fn new(config: &OptimizationConfig) -> Self {
        Self {
            beta_1: config.beta1,
            beta_2: config.beta2,
            epsilon: config.epsilon,
            weight_decay: config.weight_decay,
            is_decoupled: config.optimizer != OptimizerKind::Adam,
            buffers: AdamBuffers::default(),
        }
    }

    /// Creates the optimizer of another group of weights of the same model.
    pub(crate) fn with_settings(&self, config: &OptimizationConfig) -> Self {
        Self { buffers: self.buffers.clone(), ..Self::new(config) }
    }

    /// Returns the coefficients of update number `time`, from 1.
    fn update(&self, learning_rate: f64, time: usize) -> AdamUpdate {
        let power = i32::try_from(time).unwrap_or(i32::MAX);
        let root = (1.0 - f64::from(self.beta_2).powi(power)).sqrt();
        let step = learning_rate * root / (1.0 - f64::from(self.beta_1).powi(power));
        let weight_decay = f64::from(self.weight_decay);
        let (l2, decay) = if self.is_decoupled {
            (0.0, (1.0 - learning_rate * weight_decay) as f32)
        } else {
            (self.weight_decay, 1.0)
        };
        AdamUpdate {
            beta_1: self.beta_1,
            beta_2: self.beta_2,
            step: step as f32,
            epsilon: (f64::from(self.epsilon) * root) as f32,
            l2,
            decay,
        }
    }
}

impl Optimizer for Adam {
    type State<const D: usize> = AdamState<D>;

    fn step<const D: usize>(
        &self,
        learning_rate: f64,
        parameter: Tensor<D>,
        gradient: Tensor<D>,
        state: Option<AdamState<D>>,
    ) -> (Tensor<D>, Option<AdamState<D>>) {
        let (time, exp_avg, exp_avg_sq) = match state {
            Some(AdamState { momentum }) => {
                (momentum.time + 1, momentum.moment_1, momentum.moment_2)
            }
            None => (1, parameter.zeros_like(), parameter.zeros_like()),
        };
        let state = ParameterState { parameter, exp_avg, exp_avg_sq };
        let next = self.buffers.adam(state, gradient, self.update(learning_rate, time));
        let momentum = AdaptiveMomentumState::new(time, next.exp_avg, next.exp_avg_sq);
        (next.parameter, Some(AdamState::new(momentum)))
    }

    fn to_device<const D: usize>(state: AdamState<D>, device: &Device) -> AdamState<D> {
        AdamState::new(state.momentum.to_device(device))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::{
        module::{Module, Param},
        optim::{
            AdamConfig, AdamWConfig, GradientsParams, ModuleOptimizer, decay::WeightDecayConfig,
        },
        tensor::{TensorData, Tolerance},
    };

    #[derive(Module, Debug)]
    struct Weights {
        w: Param<Tensor<1>>,
    }

    /// Weight 1, gradient 1, learning rate 0.1, no decay: both moments are corrected to 1, so the
    /// step is 0.1 / (1 + ε).
    #[test]
    fn the_first_step_follows_the_formula() {
        let config = OptimizationConfig { epsilon: 1e-8, ..config(OptimizerKind::Adam, 0.0) };
        let one = || Tensor::<1>::from_floats([1.0], &Device::flex());
        let (w, state) = Adam::new(&config).step(0.1, one(), one(), None);
        assert!((w.into_scalar::<f32>() - 0.9).abs() < 1e-6);
        assert_eq!(state.unwrap().momentum.time, 1);
    }

    /// 50 steps on `Σ (w - target)⁴`, compared with Burn's optimizers.
    #[test]
    fn updates_equal_those_of_burns_optimizers() {
        for kind in [OptimizerKind::Adam, OptimizerKind::AdamW] {
            for weight_decay in [0.0, 0.1] {
                let config = config(kind, weight_decay);
                let theirs = match kind {
                    OptimizerKind::Adam => AdamConfig::new()
                        .with_beta_1(config.beta1)
                        .with_beta_2(config.beta2)
                        .with_epsilon(config.epsilon)
                        .with_weight_decay(
                            (weight_decay > 0.0).then(|| WeightDecayConfig::new(weight_decay)),
                        )
                        .init(),
                    _ => AdamWConfig::new()
                        .with_beta_1(config.beta1)
                        .with_beta_2(config.beta2)
                        .with_epsilon(config.epsilon)
                        .with_weight_decay(weight_decay)
                        .init(),
                };
                let found = after(50, ModuleOptimizer::from(Adam::new(&config)));
                let expected = after(50, theirs);
                found.assert_approx_eq::<f32>(&expected, Tolerance::absolute(1e-5));
            }
        }
    }

    fn after(steps: usize, mut optimizer: ModuleOptimizer) -> TensorData {
        let device = Device::flex().autodiff();
        let target = Tensor::<1>::from_floats([1.0, -2.0, 0.5], &device);
        let mut weights = Weights { w: Param::from_data([0.0, 0.1, 3.0], &device) };
        for _ in 0..steps {
            let loss = (weights.w.val() - target.clone()).powi_scalar(4).sum();
            let gradients = GradientsParams::from_grads(loss.backward(), &weights);
            weights = optimizer.step(0.05, weights, gradients);
        }
        weights.w.val().into_data()
    }

    fn config(optimizer: OptimizerKind, weight_decay: f32) -> OptimizationConfig {
        OptimizationConfig {
            optimizer,
            weight_decay,
            beta1: 0.9,
            beta2: 0.98,
            epsilon: 1e-9,
            ..OptimizationConfig::default()
        }
    }
}
