//! Backward passes of the kernels: for each, the state saved in forward and the gradients from it.

use std::array::from_fn;

use burn::backend::{
    Autodiff, Cube,
    autodiff::{checkpoint::strategy::CheckpointStrategy, ops::NodeGuard},
    tensor::{FloatTensor, IntTensor},
};
use burn_cubecl::{kernel::into_contiguous, tensor::CubeTensor};

use super::{
    activation, attention, cross_entropy, divergence,
    dropout::KeyedMask,
    embedding,
    extension::{CubeKernels, Layer, NormWeights},
    layer_norm::{self, Norm},
    linear::{self, Collected, Stack, part},
    residual::{self, Branch},
    rotation::rotate,
    rows,
    sums::column_sums,
    teachers,
};
use crate::{
    config::Activation,
    kernels::{
        CrossEntropyConfig,
        optional::{OptionalMask, OptionalTensor},
        saved_state::{KernelBackend, SavedState, record},
    },
    product_precision::ProductPrecision,
};

type Tracked<C> = FloatTensor<Autodiff<Cube, C>>;

impl KernelBackend for Cube {
    fn contiguous(tensor: CubeTensor) -> CubeTensor {
        into_contiguous(tensor)
    }
}

/// Tensor without autodiff, and its node.
type Parts = (CubeTensor, NodeGuard);

impl<C: CheckpointStrategy> OptionalTensor<Autodiff<Cube, C>> {
    fn into_parts(self) -> Option<Parts> {
        self.into_option().map(Tracked::<C>::into_parts)
    }
}

/// Linear layer; with 3 tensors it has a bias.
#[derive(Debug, Clone)]
struct Linear {
    x: CubeTensor,
    w: CubeTensor,
    precision: ProductPrecision,
}

impl<const N: usize> SavedState<Cube, N> for Linear {
    fn gradients(self, dy: CubeTensor, needed: [bool; N]) -> [Option<CubeTensor>; N] {
        let Self { x, w, precision } = self;
        from_fn(|index| {
            needed[index].then(|| match index {
                0 => linear::gradient_of_x(dy.clone(), w.clone(), precision),
                1 => linear::gradient_of_w(x.clone(), dy.clone(), precision),
                _ => {
                    let [sum] = column_sums(dy.clone());
                    sum
                }
            })
        })
    }
}

/// Several linear layers, with the gradients of their outputs one after the other. The tensors are the
/// input, all weights, and all biases.
#[derive(Debug, Clone)]
struct Linears {
    x: CubeTensor,
    stack: Stack,
}

impl<const N: usize> SavedState<Cube, N> for Linears {
    fn gradients(self, dy: CubeTensor, needed: [bool; N]) -> [Option<CubeTensor>; N] {
        let (dx, dw, db) = self.stack.backward(self.x, dy, needed[0]);
        let mut of_weights = dw.into_iter().chain(db);
        from_fn(|index| if index == 0 { dx.clone() } else { of_weights.next() })
    }
}

/// Output of one of several linear layers.
#[derive(Debug, Clone)]
struct Output {
    collected: Collected,
    index: usize,
}

impl SavedState<Cube, 1> for Output {
    fn gradients(self, dy: CubeTensor, _: [bool; 1]) -> [Option<CubeTensor>; 1] {
        [self.collected.add(self.index, dy)]
    }
}

/// Returns the outputs of linear layers of the same input. All of them must affect the loss: their gradients
/// are computed together, from the gradients of all outputs.
fn apply_all<C: CheckpointStrategy, const N: usize>(
    x: Tracked<C>,
    layers: [Layer<Autodiff<Cube, C>>; N],
    precision: ProductPrecision,
) -> [Tracked<C>; N] {
    let layers = layers.map(|layer| (layer.w, layer.b.into_option()));
    let w = layers.each_ref().map(|(w, _)| w.primitive().clone());
    let b = layers.each_ref().map(|(_, b)| b.as_ref().map(|b| b.primitive().clone()));
    let Some(stack) = Stack::of(rows(x.primitive())[0], &w, &b, precision) else {
        return layers.map(|(w, b)| {
            let b = b.map_or(OptionalTensor::Absent, OptionalTensor::Present);
            Autodiff::<Cube, C>::linear_on_cube(x.clone(), Layer { w, b }, precision)
        });
    };
    let y = stack.forward(x.primitive().clone());
    let state = Linears { x: x.primitive().clone(), stack };
    let tensors = layers.iter().map(|(w, _)| w);
    let tensors = tensors.chain(layers.iter().filter_map(|(_, b)| b.as_ref()));
    let nodes: Vec<NodeGuard> = [&x].into_iter().chain(tensors).map(Tracked::<C>::node).collect();
    let y = record_all::<C, N>(nodes, state, y);
    let collected = Collected::new(N);
    from_fn(|index| {
        let (y, node) = y.clone().into_parts();
        let output = Output { collected: collected.clone(), index };
        record::<Cube, C, _, 1>([node], output, part(&y, index))
    })
}

/// Adds the output of `N` linear layers to the autodiff graph, with all biases or none.
fn record_all<C: CheckpointStrategy, const N: usize>(
    nodes: Vec<NodeGuard>,
    state: Linears,
    y: CubeTensor,
) -> Tracked<C> {
    let nodes = match <[NodeGuard; 3]>::try_from(nodes) {
        Ok(two) => return record::<Cube, C, _, 3>(two, state, y),
        Err(nodes) => nodes,
    };
    let nodes = match <[NodeGuard; 4]>::try_from(nodes) {
        Ok(three) => return record::<Cube, C, _, 4>(three, state, y),
        Err(nodes) => nodes,
    };
    let nodes = match <[NodeGuard; 5]>::try_from(nodes) {
        Ok(two_with_biases) => return record::<Cube, C, _, 5>(two_with_biases, state, y),
        Err(nodes) => nodes,
    };
    match <[NodeGuard; 7]>::try_from(nodes) {
        Ok(three_with_biases) => record::<Cube, C, _, 7>(three_with_biases, state, y),
        Err(nodes) => unreachable!("{} tensors of {N} layers", nodes.len()),
    }
}

/// The tensors are queries, keys and values, and the bias if there is one.
impl<const N: usize> SavedState<Cube, N> for attention::Input {
    fn gradients(self, dy: CubeTensor, needed: [bool; N]) -> [Option<CubeTensor>; N] {
        let needs_bias = needed.get(3).is_some_and(|&needed| needed);
        let found = attention::backward(&self, dy, needs_bias);
        let mut all = found.heads.into_iter().chain(found.bias);
        from_fn(|_| all.next())
    }
}

#[derive(Debug, Clone)]
struct Rotation {
    table: CubeTensor,
}

impl SavedState<Cube, 1> for Rotation {
    const NEEDS_CONTIGUOUS: bool = false;

    fn gradients(self, dy: CubeTensor, _: [bool; 1]) -> [Option<CubeTensor>; 1] {
        [Some(rotate(dy, self.table, true))]
    }
}

/// Norm of `x`; the tensors are `x`, γ, and β if there is one.
#[derive(Debug, Clone)]
struct LayerNorm {
    x: CubeTensor,
    norm: Norm,
}

impl<const N: usize> SavedState<Cube, N> for LayerNorm {
    fn gradients(self, dy: CubeTensor, _: [bool; N]) -> [Option<CubeTensor>; N] {
        let found = layer_norm::backward(self.x, self.norm, None, false, dy);
        let mut all = [found.x, found.gamma, found.beta].into_iter();
        from_fn(|_| all.next())
    }
}

/// Norm of a residual sum; the tensors are both summands, γ, β if there is one, and the bias if there is
/// one.
#[derive(Debug, Clone)]
struct ResidualNorm {
    sum: CubeTensor,
    norm: Norm,
    mask: Option<KeyedMask>,
    has_bias: bool,
}

impl<const N: usize> SavedState<Cube, N> for ResidualNorm {
    fn gradients(self, dy: CubeTensor, _: [bool; N]) -> [Option<CubeTensor>; N] {
        let Self { sum, norm, mask, has_bias } = self;
        let beta = norm.has_shift();
        let found = layer_norm::backward(sum, norm, mask, has_bias, dy);
        let mut all = [found.x, found.branch, found.gamma]
            .into_iter()
            .chain(beta.then_some(found.beta))
            .chain(has_bias.then_some(found.bias));
        from_fn(|_| all.next())
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

/// Residual sum; the tensors are both summands, and the bias if there is one.
#[derive(Debug, Clone)]
struct Residual {
    mask: Option<KeyedMask>,
}

impl<const N: usize> SavedState<Cube, N> for Residual {
    fn gradients(self, dy: CubeTensor, _: [bool; N]) -> [Option<CubeTensor>; N] {
        let (branch, bias) = residual::backward(dy.clone(), self.mask, N == 3);
        let mut all = [dy, branch].into_iter().chain(bias);
        from_fn(|_| all.next())
    }
}

/// The tensors are the input, and the bias if there is one.
impl<const N: usize> SavedState<Cube, N> for activation::Input {
    fn gradients(self, dy: CubeTensor, _: [bool; N]) -> [Option<CubeTensor>; N] {
        let (dx, dbias) = activation::backward(&self, dy);
        let mut all = [dx].into_iter().chain(dbias);
        from_fn(|_| all.next())
    }
}

/// The tensors are the table, and the positions if there are any.
#[derive(Debug, Clone)]
struct Embedding {
    ids: CubeTensor,
    vocabulary: usize,
    options: embedding::Options,
}

impl<const N: usize> SavedState<Cube, N> for Embedding {
    fn gradients(self, dy: CubeTensor, needed: [bool; N]) -> [Option<CubeTensor>; N] {
        let Self { ids, vocabulary, options } = self;
        from_fn(|index| {
            needed[index].then(|| match index {
                0 => embedding::gradient_of_table(dy.clone(), ids.clone(), vocabulary, options),
                _ => embedding::gradient_of_positions(dy.clone(), options),
            })
        })
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

#[derive(Debug, Clone)]
struct Divergence {
    logits: CubeTensor,
    targets: CubeTensor,
    weights: Option<CubeTensor>,
    numbers: CubeTensor,
    ignore_index: u32,
}

impl SavedState<Cube, 1> for Divergence {
    fn gradients(self, dy: CubeTensor, _: [bool; 1]) -> [Option<CubeTensor>; 1] {
        let Self { logits, targets, weights, numbers, ignore_index } = self;
        [Some(divergence::backward(logits, targets, weights, numbers, dy, ignore_index))]
    }
}

#[derive(Debug, Clone)]
struct Teachers {
    input: teachers::Input,
    log_sums: CubeTensor,
}

impl SavedState<Cube, 1> for Teachers {
    fn gradients(self, dy: CubeTensor, _: [bool; 1]) -> [Option<CubeTensor>; 1] {
        [Some(teachers::backward(self.input, self.log_sums, dy))]
    }
}

/// Returns tensors without autodiff in a contiguous layout.
fn untracked<C: CheckpointStrategy>(
    tensor: OptionalTensor<Autodiff<Cube, C>>,
) -> Option<CubeTensor> {
    tensor.into_option().map(|tensor| into_contiguous(tensor.into_parts().0))
}

/// Norm without autodiff, and the nodes of its weights.
fn norm_parts<C: CheckpointStrategy>(
    norm: NormWeights<Autodiff<Cube, C>>,
) -> (Norm, NodeGuard, Option<NodeGuard>) {
    let (gamma, of_gamma) = norm.gamma.into_parts();
    let (beta, of_beta) = norm.beta.into_parts().unzip();
    (Norm::new(gamma, beta, norm.epsilon), of_gamma, of_beta)
}

impl<C: CheckpointStrategy> CubeKernels for Autodiff<Cube, C> {
    fn linear_on_cube(
        x: Tracked<C>,
        layer: Layer<Self>,
        precision: ProductPrecision,
    ) -> Tracked<C> {
        let ((x, of_x), (w, of_w)) = (x.into_parts(), layer.w.into_parts());
        let state = Linear { x: x.clone(), w: w.clone(), precision };
        match layer.b.into_parts() {
            Some((b, of_b)) => {
                let y = linear::forward(x, w, Some(b), precision);
                record::<Cube, C, _, 3>([of_x, of_w, of_b], state, y)
            }
            None => {
                record::<Cube, C, _, 2>([of_x, of_w], state, linear::forward(x, w, None, precision))
            }
        }
    }

    fn two_linear_on_cube(
        x: Tracked<C>,
        first: Layer<Self>,
        second: Layer<Self>,
        precision: ProductPrecision,
    ) -> (Tracked<C>, Tracked<C>) {
        apply_all(x, [first, second], precision).into()
    }

    fn three_linear_on_cube(
        x: Tracked<C>,
        first: Layer<Self>,
        second: Layer<Self>,
        third: Layer<Self>,
        precision: ProductPrecision,
    ) -> (Tracked<C>, Tracked<C>, Tracked<C>) {
        apply_all(x, [first, second, third], precision).into()
    }

    fn attention_on_cube(
        q: Tracked<C>,
        k: Tracked<C>,
        v: Tracked<C>,
        bias: OptionalTensor<Self>,
        blocked: OptionalMask<Self>,
        mask: Option<KeyedMask>,
    ) -> Tracked<C> {
        let [(q, of_q), (k, of_k), (v, of_v)] = [q, k, v].map(Tracked::<C>::into_parts);
        let (bias, of_bias) = bias.into_parts().unzip();
        let input = attention::Input::new([q, k, v], bias, blocked.into_option(), mask);
        let y = attention::forward(&input);
        match of_bias {
            Some(of_bias) => record::<Cube, C, _, 4>([of_q, of_k, of_v, of_bias], input, y),
            None => record::<Cube, C, _, 3>([of_q, of_k, of_v], input, y),
        }
    }

    fn rotate_on_cube(x: Tracked<C>, table: Tracked<C>) -> Tracked<C> {
        let ((x, node), (table, _)) = (x.into_parts(), table.into_parts());
        let y = rotate(x, table.clone(), false);
        record::<Cube, C, _, 1>([node], Rotation { table }, y)
    }

    fn layer_norm_on_cube(x: Tracked<C>, norm: NormWeights<Self>) -> Tracked<C> {
        let ((x, of_x), (norm, of_gamma, of_beta)) = (x.into_parts(), norm_parts(norm));
        let state = LayerNorm { x: into_contiguous(x), norm };
        let y = layer_norm::forward(state.x.clone(), state.norm.clone());
        match of_beta {
            Some(of_beta) => record::<Cube, C, _, 3>([of_x, of_gamma, of_beta], state, y),
            None => record::<Cube, C, _, 2>([of_x, of_gamma], state, y),
        }
    }

    fn residual_on_cube(
        x: Tracked<C>,
        y: Tracked<C>,
        bias: OptionalTensor<Self>,
        mask: Option<KeyedMask>,
    ) -> Tracked<C> {
        let [(x, of_x), (y, of_y)] = [x, y].map(Tracked::<C>::into_parts);
        let (bias, of_bias) = bias.into_parts().unzip();
        let sum = Branch::new(y, bias, mask).add_to(x);
        match of_bias {
            Some(of_bias) => record::<Cube, C, _, 3>([of_x, of_y, of_bias], Residual { mask }, sum),
            None => record::<Cube, C, _, 2>([of_x, of_y], Residual { mask }, sum),
        }
    }

    fn residual_norm_on_cube(
        x: Tracked<C>,
        y: Tracked<C>,
        bias: OptionalTensor<Self>,
        mask: Option<KeyedMask>,
        norm: NormWeights<Self>,
    ) -> Tracked<C> {
        let [(x, of_x), (y, of_y)] = [x, y].map(Tracked::<C>::into_parts);
        let (bias, of_bias) = bias.into_parts().unzip();
        let (norm, of_gamma, of_beta) = norm_parts(norm);
        let has_bias = bias.is_some();
        let branch = Branch::new(y, bias, mask);
        let [sum, y] = layer_norm::forward_of_sum(x, branch, norm.clone());
        let state = ResidualNorm { sum, norm, mask, has_bias };
        match (of_beta, of_bias) {
            (None, None) => record::<Cube, C, _, 3>([of_x, of_y, of_gamma], state, y),
            (Some(last), None) | (None, Some(last)) => {
                record::<Cube, C, _, 4>([of_x, of_y, of_gamma, last], state, y)
            }
            (Some(of_beta), Some(of_bias)) => {
                record::<Cube, C, _, 5>([of_x, of_y, of_gamma, of_beta, of_bias], state, y)
            }
        }
    }

    fn activation_on_cube(
        x: Tracked<C>,
        bias: OptionalTensor<Self>,
        activation: Activation,
        mask: Option<KeyedMask>,
    ) -> Tracked<C> {
        let (x, of_x) = x.into_parts();
        let (bias, of_bias) = bias.into_parts().unzip();
        let input = activation::Input::new(x, bias, activation, mask);
        let y = activation::forward(&input);
        match of_bias {
            Some(of_bias) => record::<Cube, C, _, 2>([of_x, of_bias], input, y),
            None => record::<Cube, C, _, 1>([of_x], input, y),
        }
    }

    fn dropout_on_cube(x: Tracked<C>, mask: KeyedMask) -> Tracked<C> {
        let (x, node) = x.into_parts();
        let y = mask.apply(x);
        record::<Cube, C, _, 1>([node], Dropout { mask }, y)
    }

    fn embedding_on_cube(
        table: Tracked<C>,
        ids: IntTensor<Cube>,
        positions: OptionalTensor<Self>,
        options: embedding::Options,
    ) -> Tracked<C> {
        let (table, of_table) = table.into_parts();
        let [table, ids] = [table, ids].map(into_contiguous);
        let (positions, of_positions) = positions.into_parts().unzip();
        let positions = positions.map(into_contiguous);
        let state = Embedding { ids: ids.clone(), vocabulary: rows(&table)[0], options };
        let y = embedding::forward(table, ids, positions, 0, options);
        match of_positions {
            Some(of_positions) => record::<Cube, C, _, 2>([of_table, of_positions], state, y),
            None => record::<Cube, C, _, 1>([of_table], state, y),
        }
    }

    fn cross_entropy_on_cube(
        logits: Tracked<C>,
        targets: IntTensor<Cube>,
        weights: OptionalTensor<Self>,
        config: CrossEntropyConfig,
    ) -> (Tracked<C>, Tracked<C>, IntTensor<Cube>) {
        let (logits, node) = logits.into_parts();
        let [logits, targets] = [logits, targets].map(into_contiguous);
        let weights = untracked(weights);
        let output =
            cross_entropy::forward(logits.clone(), targets.clone(), weights.clone(), config);
        let state = CrossEntropy { logits, targets, weights, numbers: output.numbers, config };
        let loss = record::<Cube, C, _, 1>([node], state, output.loss);
        (loss, Tracked::<C>::new(output.nll), output.correct)
    }

    fn divergence_on_cube(
        logits: Tracked<C>,
        targets: IntTensor<Cube>,
        weights: OptionalTensor<Self>,
        ignore_index: u32,
    ) -> Tracked<C> {
        let (logits, node) = logits.into_parts();
        let [logits, targets] = [logits, targets].map(into_contiguous);
        let weights = untracked(weights);
        let output =
            divergence::forward(logits.clone(), targets.clone(), weights.clone(), ignore_index);
        let state = Divergence { logits, targets, weights, numbers: output.numbers, ignore_index };
        record::<Cube, C, _, 1>([node], state, output.sum)
    }

    fn teachers_on_cube(
        logits: Tracked<C>,
        teachers: Tracked<C>,
        targets: IntTensor<Cube>,
        weights: OptionalTensor<Self>,
        ignore_index: u32,
    ) -> Tracked<C> {
        let ((logits, node), (teachers, _)) = (logits.into_parts(), teachers.into_parts());
        let [logits, teachers, targets] = [logits, teachers, targets].map(into_contiguous);
        let weights = untracked(weights);
        let input = teachers::Input { logits, teachers, targets, weights, ignore_index };
        let output = teachers::forward(input.clone());
        record::<Cube, C, _, 1>([node], Teachers { input, log_sums: output.log_sums }, output.loss)
    }
}
