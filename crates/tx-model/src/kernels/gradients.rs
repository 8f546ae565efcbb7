//! The kernels with gradients: for each, what is kept on the way forward and what it gives back.

use std::{fmt::Debug, marker::PhantomData};

use burn::backend::{
    Autodiff, Flex,
    autodiff::{
        checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
        grads::Gradients,
        ops::{Backward, NodeGuard, Ops, OpsKind},
    },
    flex::FlexTensor,
    tensor::{FloatTensor, IntTensor},
};

use super::{
    Function, activation, attention,
    cross_entropy::{self, Target},
    dropped::Dropped,
    embedding::{self, Manner},
    extension::{Kernels, Maybe, MaybeMask},
    flex::{contiguous, floats, forward, rows},
    layer_norm, linear, residual,
};

type Tracked = FloatTensor<Autodiff<Flex>>;

/// What one application of a kernel to `N` tensors keeps for its gradients.
trait Kept<const N: usize>: Clone + Debug + Send + 'static {
    /// From the gradient of the result, those of the tensors that need one.
    fn gradients(self, dy: FlexTensor, needed: [bool; N]) -> [Option<FlexTensor>; N];
}

/// An entry of Burn's record of operations.
struct Entry<K>(PhantomData<fn() -> K>);

impl<K> Debug for Entry<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(std::any::type_name::<K>())
    }
}

impl<K: Kept<N>, const N: usize> Backward<Flex, N> for Entry<K> {
    type State = K;

    fn backward(self, ops: Ops<Self::State, N>, gradients: &mut Gradients, _: &mut Checkpointer) {
        let dy = contiguous(gradients.consume::<Flex>(&ops.node));
        let needed = ops.parents.each_ref().map(Option::is_some);
        for (parent, gradient) in ops.parents.iter().zip(ops.state.gradients(dy, needed)) {
            if let (Some(parent), Some(gradient)) = (parent, gradient) {
                gradients.register::<Flex>(parent.id, gradient);
            }
        }
    }
}

/// Notes how `y` came about.
fn record<C: CheckpointStrategy, K: Kept<N>, const N: usize>(
    parents: [NodeGuard; N],
    kept: K,
    y: FlexTensor,
) -> Tracked {
    let entry = Entry::<K>(PhantomData);
    match entry.prepare::<C>(parents).compute_bound().stateful() {
        OpsKind::Tracked(prepared) => prepared.finish(kept, y),
        OpsKind::UnTracked(prepared) => prepared.finish(y),
    }
}

#[derive(Debug, Clone)]
struct Linear {
    x: FlexTensor,
    w: FlexTensor,
}

impl Linear {
    fn of_x_and_w(&self, dy: &FlexTensor, [x, w]: [bool; 2]) -> [Option<FlexTensor>; 2] {
        [
            x.then(|| linear::gradient_of_x(dy, &self.w)),
            w.then(|| linear::gradient_of_w(&self.x, dy, &self.w)),
        ]
    }
}

impl Kept<2> for Linear {
    fn gradients(self, dy: FlexTensor, needed: [bool; 2]) -> [Option<FlexTensor>; 2] {
        self.of_x_and_w(&dy, needed)
    }
}

impl Kept<3> for Linear {
    fn gradients(self, dy: FlexTensor, [x, w, b]: [bool; 3]) -> [Option<FlexTensor>; 3] {
        let [dx, dw] = self.of_x_and_w(&dy, [x, w]);
        [dx, dw, b.then(|| linear::gradient_of_b(&dy))]
    }
}

#[derive(Debug, Clone)]
struct Attention {
    heads: [FlexTensor; 3],
    blocked: Option<FlexTensor>,
    dropped: Option<Dropped>,
    log_sums: Vec<f32>,
}

impl Kept<3> for Attention {
    fn gradients(self, dy: FlexTensor, _: [bool; 3]) -> [Option<FlexTensor>; 3] {
        let Self { heads, blocked, dropped, log_sums } = self;
        attention::backward(heads.each_ref(), blocked.as_ref(), dropped, &log_sums, &dy).map(Some)
    }
}

#[derive(Debug, Clone)]
struct LayerNorm {
    x: FlexTensor,
    gamma: FlexTensor,
}

impl Kept<3> for LayerNorm {
    fn gradients(self, dy: FlexTensor, _: [bool; 3]) -> [Option<FlexTensor>; 3] {
        layer_norm::backward(&self.x, &self.gamma, &dy).map(Some)
    }
}

#[derive(Debug, Clone)]
struct Residual {
    dropped: Dropped,
}

impl Kept<2> for Residual {
    fn gradients(self, dy: FlexTensor, [x, y]: [bool; 2]) -> [Option<FlexTensor>; 2] {
        let dx = x.then(|| dy.clone());
        [dx, y.then(|| residual::dropout(&dy, self.dropped))]
    }
}

#[derive(Debug, Clone)]
struct Dropout {
    dropped: Dropped,
}

impl Kept<1> for Dropout {
    fn gradients(self, dy: FlexTensor, _: [bool; 1]) -> [Option<FlexTensor>; 1] {
        [Some(residual::dropout(&dy, self.dropped))]
    }
}

#[derive(Debug, Clone)]
struct Activation {
    x: FlexTensor,
    function: Function,
    dropped: Option<Dropped>,
}

impl Kept<1> for Activation {
    fn gradients(self, dy: FlexTensor, _: [bool; 1]) -> [Option<FlexTensor>; 1] {
        [Some(activation::backward(&self.x, dy, self.function, self.dropped))]
    }
}

#[derive(Debug, Clone)]
struct Embedding {
    tokens: FlexTensor,
    vocabulary: usize,
    manner: Manner,
}

impl Embedding {
    /// Of what stood before the dropout.
    fn before_dropout(&self, dy: FlexTensor) -> FlexTensor {
        match self.manner.dropped {
            Some(dropped) => residual::dropout(&dy, dropped),
            None => dy,
        }
    }

    fn of_table(&self, dy: &FlexTensor) -> FlexTensor {
        embedding::gradient_of_table(dy, &self.tokens, self.vocabulary, self.manner.scale)
    }
}

impl Kept<1> for Embedding {
    fn gradients(self, dy: FlexTensor, _: [bool; 1]) -> [Option<FlexTensor>; 1] {
        [Some(self.of_table(&self.before_dropout(dy)))]
    }
}

impl Kept<2> for Embedding {
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
    target: Target,
    log_sums: Vec<f32>,
}

impl Kept<1> for CrossEntropy {
    fn gradients(self, dy: FlexTensor, _: [bool; 1]) -> [Option<FlexTensor>; 1] {
        let Self { logits, targets, target, log_sums } = self;
        let dy = floats(&dy).iter().sum();
        [Some(cross_entropy::backward(logits, &targets, &log_sums, dy, target))]
    }
}

impl<C: CheckpointStrategy> Kernels for Autodiff<Flex, C> {
    fn linear_kernel(x: Tracked, w: Tracked, b: Maybe<Self>) -> Tracked {
        let ((x, x_node), (w, w_node)) = (x.into_parts(), w.into_parts());
        let (x, w) = (contiguous(x), forward(w));
        match b.given().map(Tracked::into_parts) {
            Some((b, b_node)) => {
                let y = linear::forward(&x, &w, Some(&contiguous(b)));
                record::<C, _, 3>([x_node, w_node, b_node], Linear { x, w }, y)
            }
            None => {
                let y = linear::forward(&x, &w, None);
                record::<C, _, 2>([x_node, w_node], Linear { x, w }, y)
            }
        }
    }

    fn attention_kernel(
        q: Tracked,
        k: Tracked,
        v: Tracked,
        blocked: MaybeMask<Self>,
        dropped: Option<Dropped>,
    ) -> Tracked {
        let blocked = blocked.given().map(forward);
        let [(q, q_node), (k, k_node), (v, v_node)] = [q, k, v].map(Tracked::into_parts);
        let [q, k, v] = [q, k, v].map(forward);
        let (y, log_sums) = attention::forward(&q, &k, &v, blocked.as_ref(), dropped);
        let kept = Attention { heads: [q, k, v], blocked, dropped, log_sums };
        record::<C, _, 3>([q_node, k_node, v_node], kept, y)
    }

    fn layer_norm_kernel(x: Tracked, gamma: Tracked, beta: Tracked) -> Tracked {
        let [(x, x_node), (gamma, gamma_node), (beta, beta_node)] =
            [x, gamma, beta].map(Tracked::into_parts);
        let [x, gamma, beta] = [x, gamma, beta].map(contiguous);
        let y = layer_norm::forward(&x, &gamma, &beta);
        record::<C, _, 3>([x_node, gamma_node, beta_node], LayerNorm { x, gamma }, y)
    }

    fn residual_kernel(x: Tracked, y: Tracked, dropped: Dropped) -> Tracked {
        let [(x, x_node), (y, y_node)] = [x, y].map(Tracked::into_parts);
        let sum = residual::forward(&contiguous(x), y, dropped);
        record::<C, _, 2>([x_node, y_node], Residual { dropped }, sum)
    }

    fn activation_kernel(x: Tracked, function: Function, dropped: Option<Dropped>) -> Tracked {
        let (x, node) = x.into_parts();
        // The rectifier needs its result alone to go back, and can write it over its input.
        let (x, y) = match function {
            Function::Relu => {
                let y = activation::forward(x, function, dropped);
                (y.clone(), y)
            }
            Function::Swish | Function::Gelu => {
                let x = contiguous(x);
                (x.clone(), activation::forward(x, function, dropped))
            }
        };
        record::<C, _, 1>([node], Activation { x, function, dropped }, y)
    }

    fn dropout_kernel(x: Tracked, dropped: Dropped) -> Tracked {
        let (x, node) = x.into_parts();
        let x = contiguous(x);
        record::<C, _, 1>([node], Dropout { dropped }, residual::dropout(&x, dropped))
    }

    fn embedding_kernel(
        table: Tracked,
        tokens: IntTensor<Flex>,
        positions: Maybe<Self>,
        manner: Manner,
    ) -> Tracked {
        let (table, table_node) = table.into_parts();
        let (table, tokens) = (contiguous(table), contiguous(tokens));
        let [vocabulary, _] = rows(&table);
        let kept = Embedding { tokens: tokens.clone(), vocabulary, manner };
        match positions.given().map(Tracked::into_parts) {
            Some((positions, positions_node)) => {
                let positions = contiguous(positions);
                let x = embedding::forward(&table, &tokens, Some(&positions), manner);
                record::<C, _, 2>([table_node, positions_node], kept, x)
            }
            None => {
                let x = embedding::forward(&table, &tokens, None, manner);
                record::<C, _, 1>([table_node], kept, x)
            }
        }
    }

    fn cross_entropy_kernel(
        logits: Tracked,
        targets: IntTensor<Flex>,
        target: Target,
    ) -> (Tracked, IntTensor<Flex>) {
        let (logits, node) = logits.into_parts();
        let (logits, targets) = (contiguous(logits), contiguous(targets));
        let costs = cross_entropy::forward(&logits, &targets, target);
        let kept = CrossEntropy { logits, targets, target, log_sums: costs.log_sums };
        (record::<C, _, 1>([node], kept, costs.loss), costs.correct)
    }
}
