//! Backward passes of the kernels: for each, the state saved in forward and the gradients from it.

use std::sync::Arc;

use burn::backend::{
    Autodiff, Flex,
    autodiff::checkpoint::strategy::CheckpointStrategy,
    flex::FlexTensor,
    tensor::{FloatTensor, IntTensor},
};

use super::{
    CrossEntropyConfig, HashedMask, activation, attention, cross_entropy, distillation,
    divergence::{self, Pair},
    embedding::{self, EmbeddingOptions},
    extension::Kernels,
    feed_forward::{self, FeedForwardGradients, Weights},
    flex::{contiguous, floats, forward, rows},
    layer_norm, linear,
    linear_cross_entropy::{self, Layer, LogitGradients},
    linear_r_drop,
    optional::{OptionalMask, OptionalTensor},
    recurrence, residual,
    saved_state::{KernelBackend, SavedState, record},
};
use crate::{config, product_precision::ProductPrecision};

type Tracked = FloatTensor<Autodiff<Flex>>;

impl KernelBackend for Flex {
    fn contiguous(tensor: FlexTensor) -> FlexTensor {
        contiguous(tensor)
    }
}

#[derive(Debug, Clone)]
struct Linear {
    x: FlexTensor,
    w: FlexTensor,
    precision: ProductPrecision,
}

impl Linear {
    fn of_x_and_w(&self, dy: &FlexTensor, [x, w]: [bool; 2]) -> [Option<FlexTensor>; 2] {
        [
            x.then(|| linear::gradient_of_x(dy, &self.w, self.precision)),
            w.then(|| linear::gradient_of_w(&self.x, dy, &self.w, self.precision)),
        ]
    }
}

impl SavedState<Flex, 2> for Linear {
    fn gradients(self, dy: FlexTensor, needed: [bool; 2]) -> [Option<FlexTensor>; 2] {
        self.of_x_and_w(&dy, needed)
    }
}

impl SavedState<Flex, 3> for Linear {
    fn gradients(self, dy: FlexTensor, [x, w, b]: [bool; 3]) -> [Option<FlexTensor>; 3] {
        let [dx, dw] = self.of_x_and_w(&dy, [x, w]);
        [dx, dw, b.then(|| linear::gradient_of_b(&dy))]
    }
}

#[derive(Debug, Clone)]
struct FeedForward {
    x: FlexTensor,
    weights: Weights,
    mask: Option<HashedMask>,
    /// Inner activations after dropout.
    hidden: Arc<Vec<u16>>,
}

impl FeedForward {
    fn all(&self, dy: &FlexTensor, of_matrices: [bool; 2]) -> FeedForwardGradients {
        let Self { x, weights, mask, hidden } = self;
        feed_forward::backward(x, weights, *mask, hidden, dy, of_matrices)
    }
}

impl SavedState<Flex, 3> for FeedForward {
    fn gradients(self, dy: FlexTensor, [_, inner, outer]: [bool; 3]) -> [Option<FlexTensor>; 3] {
        let FeedForwardGradients { x, inner, outer, .. } = self.all(&dy, [inner, outer]);
        [Some(x), inner, outer]
    }
}

impl SavedState<Flex, 5> for FeedForward {
    fn gradients(
        self,
        dy: FlexTensor,
        [_, inner, outer, ..]: [bool; 5],
    ) -> [Option<FlexTensor>; 5] {
        let FeedForwardGradients { x, inner, inner_bias, outer, outer_bias } =
            self.all(&dy, [inner, outer]);
        [Some(x), inner, outer, Some(inner_bias), Some(outer_bias)]
    }
}

#[derive(Debug, Clone)]
struct Attention {
    heads: [FlexTensor; 3],
    blocked: Option<FlexTensor>,
    mask: Option<HashedMask>,
    precision: ProductPrecision,
    log_sums: Vec<f32>,
}

impl SavedState<Flex, 3> for Attention {
    fn gradients(self, dy: FlexTensor, _: [bool; 3]) -> [Option<FlexTensor>; 3] {
        let Self { heads, blocked, mask, precision, log_sums } = self;
        let (heads, blocked) = (heads.each_ref(), blocked.as_ref());
        attention::backward(heads, blocked, mask, precision, &log_sums, &dy).map(Some)
    }
}

#[derive(Debug, Clone)]
struct LayerNorm {
    x: FlexTensor,
    gamma: FlexTensor,
    epsilon: f32,
}

impl SavedState<Flex, 3> for LayerNorm {
    fn gradients(self, dy: FlexTensor, _: [bool; 3]) -> [Option<FlexTensor>; 3] {
        layer_norm::backward(&self.x, &self.gamma, true, &dy, self.epsilon).map(Some)
    }
}

/// Without a shift.
impl SavedState<Flex, 2> for LayerNorm {
    fn gradients(self, dy: FlexTensor, _: [bool; 2]) -> [Option<FlexTensor>; 2] {
        let [dx, dgamma, _] = layer_norm::backward(&self.x, &self.gamma, false, &dy, self.epsilon);
        [Some(dx), Some(dgamma)]
    }
}

#[derive(Debug, Clone)]
struct Recurrence {
    x: FlexTensor,
    gates: FlexTensor,
    states: FlexTensor,
}

impl SavedState<Flex, 2> for Recurrence {
    fn gradients(self, dy: FlexTensor, _: [bool; 2]) -> [Option<FlexTensor>; 2] {
        recurrence::backward(&self.x, &self.gates, &self.states, &dy).map(Some)
    }
}

#[derive(Debug, Clone)]
struct Residual {
    mask: HashedMask,
}

impl SavedState<Flex, 2> for Residual {
    fn gradients(self, dy: FlexTensor, [x, y]: [bool; 2]) -> [Option<FlexTensor>; 2] {
        let dx = x.then(|| dy.clone());
        [dx, y.then(|| residual::dropout(&dy, self.mask))]
    }
}

#[derive(Debug, Clone)]
struct Dropout {
    mask: HashedMask,
}

impl SavedState<Flex, 1> for Dropout {
    fn gradients(self, dy: FlexTensor, _: [bool; 1]) -> [Option<FlexTensor>; 1] {
        [Some(residual::dropout(&dy, self.mask))]
    }
}

#[derive(Debug, Clone)]
struct Activation {
    x: FlexTensor,
    activation: config::Activation,
    mask: Option<HashedMask>,
}

impl SavedState<Flex, 1> for Activation {
    fn gradients(self, dy: FlexTensor, _: [bool; 1]) -> [Option<FlexTensor>; 1] {
        [Some(activation::backward(&self.x, dy, self.activation, self.mask))]
    }
}

#[derive(Debug, Clone)]
struct Embedding {
    tokens: FlexTensor,
    vocabulary: usize,
    options: EmbeddingOptions,
}

impl Embedding {
    /// Gradient of the input of the dropout.
    fn before_dropout(&self, dy: FlexTensor) -> FlexTensor {
        match self.options.mask {
            Some(mask) => residual::dropout(&dy, mask),
            None => dy,
        }
    }

    fn of_table(&self, dy: &FlexTensor) -> FlexTensor {
        embedding::gradient_of_table(dy, &self.tokens, self.vocabulary, self.options)
    }
}

impl SavedState<Flex, 1> for Embedding {
    fn gradients(self, dy: FlexTensor, _: [bool; 1]) -> [Option<FlexTensor>; 1] {
        [Some(self.of_table(&self.before_dropout(dy)))]
    }
}

impl SavedState<Flex, 2> for Embedding {
    fn gradients(self, dy: FlexTensor, [table, positions]: [bool; 2]) -> [Option<FlexTensor>; 2] {
        let dy = self.before_dropout(dy);
        [
            table.then(|| self.of_table(&dy)),
            positions.then(|| embedding::gradient_of_positions(&dy)),
        ]
    }
}

#[derive(Debug, Clone)]
struct CrossEntropy {
    logits: FlexTensor,
    targets: FlexTensor,
    weights: Option<FlexTensor>,
    config: CrossEntropyConfig,
    log_sums: Vec<f32>,
}

impl SavedState<Flex, 1> for CrossEntropy {
    fn gradients(self, dy: FlexTensor, _: [bool; 1]) -> [Option<FlexTensor>; 1] {
        let Self { logits, targets, weights, config, log_sums } = self;
        let dy = floats(&dy).iter().sum();
        let weights = weights.as_ref();
        [Some(cross_entropy::backward(logits, &targets, weights, &log_sums, dy, config))]
    }
}

#[derive(Debug, Clone)]
struct LinearCrossEntropy {
    x: FlexTensor,
    w: FlexTensor,
    gradients: Arc<LogitGradients>,
}

impl LinearCrossEntropy {
    fn of_layer(&self, dy: &FlexTensor, needed: [bool; 3]) -> [Option<FlexTensor>; 3] {
        let layer = Layer { x: &self.x, w: &self.w, b: None };
        linear_cross_entropy::backward(layer, &self.gradients, floats(dy).iter().sum(), needed)
    }
}

impl SavedState<Flex, 2> for LinearCrossEntropy {
    fn gradients(self, dy: FlexTensor, [x, w]: [bool; 2]) -> [Option<FlexTensor>; 2] {
        let [dx, dw, _] = self.of_layer(&dy, [x, w, false]);
        [dx, dw]
    }
}

impl SavedState<Flex, 3> for LinearCrossEntropy {
    fn gradients(self, dy: FlexTensor, needed: [bool; 3]) -> [Option<FlexTensor>; 3] {
        self.of_layer(&dy, needed)
    }
}

#[derive(Debug, Clone)]
struct Distillation {
    /// Gradient of the logits.
    gradient: FlexTensor,
}

impl SavedState<Flex, 1> for Distillation {
    fn gradients(self, dy: FlexTensor, _: [bool; 1]) -> [Option<FlexTensor>; 1] {
        [Some(distillation::backward(self.gradient, floats(&dy).iter().sum()))]
    }
}

#[derive(Debug, Clone)]
struct Divergence {
    logits: FlexTensor,
    targets: FlexTensor,
    weights: Option<FlexTensor>,
    ignore_index: u32,
    pairs: Vec<Pair>,
}

impl SavedState<Flex, 1> for Divergence {
    fn gradients(self, dy: FlexTensor, _: [bool; 1]) -> [Option<FlexTensor>; 1] {
        let Self { logits, targets, weights, ignore_index, pairs } = self;
        let dy = floats(&dy).iter().sum();
        let weights = weights.as_ref();
        [Some(divergence::backward(logits, &targets, weights, &pairs, dy, ignore_index))]
    }
}

/// Weights of rows, of which no gradient is computed.
fn without_gradient<C: CheckpointStrategy>(
    weights: OptionalTensor<Autodiff<Flex, C>>,
) -> Option<FlexTensor> {
    weights.into_option().map(|weights| contiguous(weights.into_parts().0))
}

impl<C: CheckpointStrategy> Kernels for Autodiff<Flex, C> {
    fn linear_kernel(
        x: Tracked,
        w: Tracked,
        b: OptionalTensor<Self>,
        precision: ProductPrecision,
    ) -> Tracked {
        let ((x, x_node), (w, w_node)) = (x.into_parts(), w.into_parts());
        let (x, w) = (contiguous(x), forward(w));
        match b.into_option().map(Tracked::into_parts) {
            Some((b, b_node)) => {
                let y = linear::forward(&x, &w, Some(&contiguous(b)), precision);
                record::<Flex, C, _, 3>([x_node, w_node, b_node], Linear { x, w, precision }, y)
            }
            None => {
                let y = linear::forward(&x, &w, None, precision);
                record::<Flex, C, _, 2>([x_node, w_node], Linear { x, w, precision }, y)
            }
        }
    }

    fn feed_forward_kernel(
        x: Tracked,
        inner: Tracked,
        inner_bias: OptionalTensor<Self>,
        outer: Tracked,
        outer_bias: OptionalTensor<Self>,
        mask: Option<HashedMask>,
    ) -> Tracked {
        let [(x, x_node), (inner, inner_node), (outer, outer_node)] =
            [x, inner, outer].map(Tracked::into_parts);
        let parents = [x_node, inner_node, outer_node];
        let [(inner_bias, inner_bias_node), (outer_bias, outer_bias_node)] =
            [inner_bias, outer_bias]
                .map(|bias| bias.into_option().map(Tracked::into_parts).unzip());
        let [inner_bias, outer_bias] = [inner_bias, outer_bias].map(|bias| bias.map(contiguous));
        let [inner, outer] = [inner, outer].map(forward);
        let (x, weights) = (contiguous(x), Weights { inner, inner_bias, outer, outer_bias });
        let (y, hidden) = feed_forward::forward(&x, &weights, mask);
        let state = FeedForward { x, weights, mask, hidden };
        match inner_bias_node.zip(outer_bias_node) {
            Some((inner_bias, outer_bias)) => {
                let [x, inner, outer] = parents;
                record::<Flex, C, _, 5>([x, inner, outer, inner_bias, outer_bias], state, y)
            }
            None => record::<Flex, C, _, 3>(parents, state, y),
        }
    }

    fn attention_kernel(
        q: Tracked,
        k: Tracked,
        v: Tracked,
        blocked: OptionalMask<Self>,
        mask: Option<HashedMask>,
        precision: ProductPrecision,
    ) -> Tracked {
        let blocked = blocked.into_option().map(forward);
        let [(q, q_node), (k, k_node), (v, v_node)] = [q, k, v].map(Tracked::into_parts);
        let [q, k, v] = [q, k, v].map(forward);
        let (y, log_sums) = attention::forward(&q, &k, &v, blocked.as_ref(), mask, precision);
        let state = Attention { heads: [q, k, v], blocked, mask, precision, log_sums };
        record::<Flex, C, _, 3>([q_node, k_node, v_node], state, y)
    }

    fn layer_norm_kernel(
        x: Tracked,
        gamma: Tracked,
        beta: OptionalTensor<Self>,
        epsilon: f32,
    ) -> Tracked {
        let [(x, x_node), (gamma, gamma_node)] = [x, gamma].map(Tracked::into_parts);
        let [x, gamma] = [x, gamma].map(contiguous);
        let (beta, beta_node) = beta.into_option().map(Tracked::into_parts).unzip();
        let y = layer_norm::forward(&x, &gamma, beta.map(contiguous).as_ref(), epsilon);
        let saved = LayerNorm { x, gamma, epsilon };
        match beta_node {
            Some(beta_node) => record::<Flex, C, _, 3>([x_node, gamma_node, beta_node], saved, y),
            None => record::<Flex, C, _, 2>([x_node, gamma_node], saved, y),
        }
    }

    fn recurrence_kernel(x: Tracked, gates: Tracked) -> Tracked {
        let [(x, x_node), (gates, gates_node)] = [x, gates].map(Tracked::into_parts);
        let [x, gates] = [x, gates].map(contiguous);
        let states = recurrence::forward(&x, &gates);
        let saved = Recurrence { x, gates, states: states.clone() };
        record::<Flex, C, _, 2>([x_node, gates_node], saved, states)
    }

    fn residual_kernel(x: Tracked, y: Tracked, mask: HashedMask) -> Tracked {
        let [(x, x_node), (y, y_node)] = [x, y].map(Tracked::into_parts);
        let sum = residual::forward(&contiguous(x), y, mask);
        record::<Flex, C, _, 2>([x_node, y_node], Residual { mask }, sum)
    }

    fn activation_kernel(
        x: Tracked,
        activation: config::Activation,
        mask: Option<HashedMask>,
    ) -> Tracked {
        let (x, node) = x.into_parts();
        // The backward pass of relu needs its result only, which can overwrite its input.
        let (x, y) = match activation {
            config::Activation::Relu => {
                let y = activation::forward(x, activation, mask);
                (y.clone(), y)
            }
            config::Activation::Gelu | config::Activation::Swish | config::Activation::Gated => {
                let x = contiguous(x);
                (x.clone(), activation::forward(x, activation, mask))
            }
        };
        record::<Flex, C, _, 1>([node], Activation { x, activation, mask }, y)
    }

    fn dropout_kernel(x: Tracked, mask: HashedMask) -> Tracked {
        let (x, node) = x.into_parts();
        let x = contiguous(x);
        record::<Flex, C, _, 1>([node], Dropout { mask }, residual::dropout(&x, mask))
    }

    fn embedding_kernel(
        table: Tracked,
        tokens: IntTensor<Flex>,
        positions: OptionalTensor<Self>,
        options: EmbeddingOptions,
    ) -> Tracked {
        let (table, table_node) = table.into_parts();
        let (table, tokens) = (contiguous(table), contiguous(tokens));
        let [vocabulary, _] = rows(&table);
        let state = Embedding { tokens: tokens.clone(), vocabulary, options };
        match positions.into_option().map(Tracked::into_parts) {
            Some((positions, positions_node)) => {
                let positions = contiguous(positions);
                let x = embedding::forward(&table, &tokens, Some(&positions), options);
                record::<Flex, C, _, 2>([table_node, positions_node], state, x)
            }
            None => {
                let x = embedding::forward(&table, &tokens, None, options);
                record::<Flex, C, _, 1>([table_node], state, x)
            }
        }
    }

    fn cross_entropy_kernel(
        logits: Tracked,
        targets: IntTensor<Flex>,
        weights: OptionalTensor<Self>,
        config: CrossEntropyConfig,
    ) -> (Tracked, Tracked, IntTensor<Flex>) {
        let (logits, node) = logits.into_parts();
        let (logits, targets) = (contiguous(logits), contiguous(targets));
        let weights = without_gradient(weights);
        let output = cross_entropy::forward(&logits, &targets, weights.as_ref(), config);
        let state = CrossEntropy { logits, targets, weights, config, log_sums: output.log_sums };
        let nll = Tracked::new(output.nll);
        (record::<Flex, C, _, 1>([node], state, output.loss), nll, output.correct)
    }

    fn linear_cross_entropy_kernel(
        x: Tracked,
        w: Tracked,
        b: OptionalTensor<Self>,
        targets: IntTensor<Flex>,
        weights: OptionalTensor<Self>,
        config: CrossEntropyConfig,
        r_drop: Option<f32>,
    ) -> (Tracked, Tracked, IntTensor<Flex>) {
        let ((x, x_node), (w, w_node)) = (x.into_parts(), w.into_parts());
        let (x, w, targets) = (contiguous(x), forward(w), contiguous(targets));
        let weights = without_gradient(weights);
        let (b, b_node) = b.into_option().map(Tracked::into_parts).unzip();
        let b = b.map(contiguous);
        let layer = Layer { x: &x, w: &w, b: b.as_ref() };
        let weights = weights.as_ref();
        let (output, gradients) = match r_drop {
            None => linear_cross_entropy::forward(layer, &targets, weights, config),
            Some(alpha) => linear_r_drop::forward(layer, &targets, weights, config, alpha),
        };
        let state = LinearCrossEntropy { x, w, gradients };
        let loss = match b_node {
            Some(b_node) => record::<Flex, C, _, 3>([x_node, w_node, b_node], state, output.loss),
            None => record::<Flex, C, _, 2>([x_node, w_node], state, output.loss),
        };
        (loss, Tracked::new(output.nll), output.correct)
    }

    fn distillation_kernel(
        logits: Tracked,
        teachers: Tracked,
        targets: IntTensor<Flex>,
        weights: OptionalTensor<Self>,
        config: CrossEntropyConfig,
        weight: f32,
    ) -> (Tracked, Tracked, IntTensor<Flex>) {
        let (logits, node) = logits.into_parts();
        let (teachers, _) = teachers.into_parts();
        let [logits, teachers, targets] = [logits, teachers, targets].map(contiguous);
        let weights = without_gradient(weights);
        let weights = weights.as_ref();
        let (output, gradient) =
            distillation::forward(logits, &teachers, &targets, weights, config, weight);
        let loss = record::<Flex, C, _, 1>([node], Distillation { gradient }, output.loss);
        (loss, Tracked::new(output.nll), output.correct)
    }

    fn divergence_kernel(
        logits: Tracked,
        targets: IntTensor<Flex>,
        weights: OptionalTensor<Self>,
        ignore_index: u32,
    ) -> Tracked {
        let (logits, node) = logits.into_parts();
        let (logits, targets) = (contiguous(logits), contiguous(targets));
        let weights = without_gradient(weights);
        let output = divergence::forward(&logits, &targets, weights.as_ref(), ignore_index);
        let pairs = output.pairs;
        let state = Divergence { logits, targets, weights, ignore_index, pairs };
        record::<Flex, C, _, 1>([node], state, output.sum)
    }
}
