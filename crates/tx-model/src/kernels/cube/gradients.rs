//! Backward passes of the kernels: for each, the state saved in forward and the gradients from it.

use burn::backend::{
    Autodiff, Cube,
    autodiff::checkpoint::strategy::CheckpointStrategy,
    tensor::{FloatTensor, IntTensor},
};
use burn_cubecl::{kernel::into_contiguous, tensor::CubeTensor};

use super::{
    activation, attention, cross_entropy, dropout::KeyedMask, extension::CubeKernels, layer_norm,
    linear,
};
use crate::{
    config,
    kernels::{
        CrossEntropyConfig,
        optional::{OptionalMask, OptionalTensor},
        saved_state::{KernelBackend, SavedState, record},
    },
};

type Tracked = FloatTensor<Autodiff<Cube>>;

impl KernelBackend for Cube {
    fn contiguous(tensor: CubeTensor) -> CubeTensor {
        into_contiguous(tensor)
    }
}

#[derive(Debug, Clone)]
struct Linear {
    x: CubeTensor,
    w: CubeTensor,
}

impl Linear {
    fn of_x_and_w(self, dy: &CubeTensor, [x, w]: [bool; 2]) -> [Option<CubeTensor>; 2] {
        [
            x.then(|| linear::gradient_of_x(dy.clone(), self.w)),
            w.then(|| linear::gradient_of_w(self.x, dy.clone())),
        ]
    }
}

impl SavedState<Cube, 2> for Linear {
    fn gradients(self, dy: CubeTensor, needed: [bool; 2]) -> [Option<CubeTensor>; 2] {
        self.of_x_and_w(&dy, needed)
    }
}

impl SavedState<Cube, 3> for Linear {
    fn gradients(self, dy: CubeTensor, [x, w, b]: [bool; 3]) -> [Option<CubeTensor>; 3] {
        let [dx, dw] = self.of_x_and_w(&dy, [x, w]);
        [dx, dw, b.then(|| linear::gradient_of_b(dy))]
    }
}

impl SavedState<Cube, 3> for attention::Input {
    fn gradients(self, dy: CubeTensor, _: [bool; 3]) -> [Option<CubeTensor>; 3] {
        attention::backward(&self, dy).map(Some)
    }
}

#[derive(Debug, Clone)]
struct LayerNorm {
    x: CubeTensor,
    gamma: CubeTensor,
    epsilon: f32,
}

impl SavedState<Cube, 3> for LayerNorm {
    fn gradients(self, dy: CubeTensor, _: [bool; 3]) -> [Option<CubeTensor>; 3] {
        layer_norm::backward(self.x, self.gamma, true, dy, self.epsilon).map(Some)
    }
}

/// Without a shift.
impl SavedState<Cube, 2> for LayerNorm {
    fn gradients(self, dy: CubeTensor, _: [bool; 2]) -> [Option<CubeTensor>; 2] {
        let [dx, dgamma, _] = layer_norm::backward(self.x, self.gamma, false, dy, self.epsilon);
        [Some(dx), Some(dgamma)]
    }
}

#[derive(Debug, Clone)]
struct Dropout {
    mask: KeyedMask,
}

impl SavedState<Cube, 1> for Dropout {
    fn gradients(self, dy: CubeTensor, _: [bool; 1]) -> [Option<CubeTensor>; 1] {
        [Some(self.mask.apply(dy))]
    }
}

/// Sum of a tensor and another with dropout.
impl SavedState<Cube, 2> for Dropout {
    fn gradients(self, dy: CubeTensor, [x, y]: [bool; 2]) -> [Option<CubeTensor>; 2] {
        let dx = x.then(|| dy.clone());
        [dx, y.then(|| self.mask.apply(dy))]
    }
}

#[derive(Debug, Clone)]
struct Activation {
    x: CubeTensor,
    activation: config::Activation,
    mask: Option<KeyedMask>,
}

impl SavedState<Cube, 1> for Activation {
    fn gradients(self, dy: CubeTensor, _: [bool; 1]) -> [Option<CubeTensor>; 1] {
        [Some(activation::backward(self.x, dy, self.activation, self.mask.as_ref()))]
    }
}

#[derive(Debug, Clone)]
struct CrossEntropy {
    logits: CubeTensor,
    targets: CubeTensor,
    weights: Option<CubeTensor>,
    numbers: CubeTensor,
    config: CrossEntropyConfig,
}

impl SavedState<Cube, 1> for CrossEntropy {
    fn gradients(self, dy: CubeTensor, _: [bool; 1]) -> [Option<CubeTensor>; 1] {
        let Self { logits, targets, weights, numbers, config } = self;
        [Some(cross_entropy::backward(logits, targets, weights, numbers, dy, config))]
    }
}

impl<C: CheckpointStrategy> CubeKernels for Autodiff<Cube, C> {
    fn linear_on_cube(x: Tracked, w: Tracked, b: OptionalTensor<Self>) -> Tracked {
        let ((x, x_node), (w, w_node)) = (x.into_parts(), w.into_parts());
        let state = Linear { x: x.clone(), w: w.clone() };
        match b.into_option().map(Tracked::into_parts) {
            Some((b, b_node)) => {
                let y = linear::forward(x, w, Some(b));
                record::<Cube, C, _, 3>([x_node, w_node, b_node], state, y)
            }
            None => record::<Cube, C, _, 2>([x_node, w_node], state, linear::forward(x, w, None)),
        }
    }

    fn attention_on_cube(
        q: Tracked,
        k: Tracked,
        v: Tracked,
        blocked: OptionalMask<Self>,
        rate: Option<f64>,
    ) -> Tracked {
        let [(q, q_node), (k, k_node), (v, v_node)] = [q, k, v].map(Tracked::into_parts);
        let input = attention::Input::new([q, k, v], blocked.into_option(), rate);
        let y = attention::forward(&input);
        record::<Cube, C, _, 3>([q_node, k_node, v_node], input, y)
    }

    fn layer_norm_on_cube(
        x: Tracked,
        gamma: Tracked,
        beta: OptionalTensor<Self>,
        epsilon: f32,
    ) -> Tracked {
        let [(x, x_node), (gamma, gamma_node)] = [x, gamma].map(Tracked::into_parts);
        let [x, gamma] = [x, gamma].map(into_contiguous);
        let (beta, beta_node) = beta.into_option().map(Tracked::into_parts).unzip();
        let beta = beta.map(into_contiguous);
        let y = layer_norm::forward(x.clone(), gamma.clone(), beta, epsilon);
        let saved = LayerNorm { x, gamma, epsilon };
        match beta_node {
            Some(beta_node) => record::<Cube, C, _, 3>([x_node, gamma_node, beta_node], saved, y),
            None => record::<Cube, C, _, 2>([x_node, gamma_node], saved, y),
        }
    }

    fn residual_on_cube(x: Tracked, y: Tracked, rate: f64) -> Tracked {
        let [(x, x_node), (y, y_node)] = [x, y].map(Tracked::into_parts);
        let mask = KeyedMask::sample(&x, rate);
        let sum = mask.add(x, y);
        record::<Cube, C, _, 2>([x_node, y_node], Dropout { mask }, sum)
    }

    fn activation_on_cube(
        x: Tracked,
        activation: config::Activation,
        rate: Option<f64>,
    ) -> Tracked {
        let (x, node) = x.into_parts();
        let mask = rate.map(|rate| KeyedMask::sample(&x, rate));
        let y = activation::forward(x.clone(), activation, mask.as_ref());
        record::<Cube, C, _, 1>([node], Activation { x, activation, mask }, y)
    }

    fn dropout_on_cube(x: Tracked, rate: f64) -> Tracked {
        let (x, node) = x.into_parts();
        let mask = KeyedMask::sample(&x, rate);
        let y = mask.apply(x);
        record::<Cube, C, _, 1>([node], Dropout { mask }, y)
    }

    fn cross_entropy_on_cube(
        logits: Tracked,
        targets: IntTensor<Cube>,
        weights: OptionalTensor<Self>,
        config: CrossEntropyConfig,
    ) -> (Tracked, Tracked, IntTensor<Cube>) {
        let (logits, node) = logits.into_parts();
        let [logits, targets] = [logits, targets].map(into_contiguous);
        let weights = weights.into_option().map(|weights| into_contiguous(weights.into_parts().0));
        let output =
            cross_entropy::forward(logits.clone(), targets.clone(), weights.clone(), config);
        let state = CrossEntropy { logits, targets, weights, numbers: output.numbers, config };
        let loss = record::<Cube, C, _, 1>([node], state, output.loss);
        (loss, Tracked::new(output.nll), output.correct)
    }
}
