//! Kernels as nodes of Burn's autodiff graph.

use std::{any::type_name, fmt::Debug, marker::PhantomData};

use burn::backend::{
    Autodiff, Backend,
    autodiff::{
        checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
        grads::Gradients,
        ops::{Backward, NodeGuard, Ops, OpsKind},
    },
    tensor::FloatTensor,
};

/// Backend with kernels.
pub(super) trait KernelBackend: Backend {
    /// Returns the tensor in a contiguous layout.
    fn contiguous(tensor: FloatTensor<Self>) -> FloatTensor<Self>;
}

/// State that a kernel of `N` tensors saves in forward for its backward pass.
pub(super) trait SavedState<B: Backend, const N: usize>:
    Clone + Debug + Send + 'static
{
    /// Whether the gradient of the result must be contiguous.
    const NEEDS_CONTIGUOUS: bool = true;

    /// Returns the gradients of the tensors that need one, from the gradient of the result.
    fn gradients(self, dy: FloatTensor<B>, needed: [bool; N]) -> [Option<FloatTensor<B>>; N];
}

/// Node of Burn's autodiff graph.
struct AutodiffNode<K>(PhantomData<fn() -> K>);

impl<K> Debug for AutodiffNode<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(type_name::<K>())
    }
}

impl<B: KernelBackend, K: SavedState<B, N>, const N: usize> Backward<B, N> for AutodiffNode<K> {
    type State = K;

    fn backward(self, ops: Ops<Self::State, N>, gradients: &mut Gradients, _: &mut Checkpointer) {
        let dy = gradients.consume::<B>(&ops.node);
        let dy = if K::NEEDS_CONTIGUOUS { B::contiguous(dy) } else { dy };
        let needed = ops.parents.each_ref().map(Option::is_some);
        for (parent, gradient) in ops.parents.iter().zip(ops.state.gradients(dy, needed)) {
            if let (Some(parent), Some(gradient)) = (parent, gradient) {
                gradients.register::<B>(parent.id, gradient);
            }
        }
    }
}

/// Adds `y` to the autodiff graph.
pub(super) fn record<B: KernelBackend, C, K, const N: usize>(
    parents: [NodeGuard; N],
    state: K,
    y: FloatTensor<B>,
) -> FloatTensor<Autodiff<B>>
where
    C: CheckpointStrategy,
    K: SavedState<B, N>,
{
    let node = AutodiffNode::<K>(PhantomData);
    match Backward::<B, N>::prepare::<C>(node, parents).compute_bound().stateful() {
        OpsKind::Tracked(prepared) => prepared.finish(state, y),
        OpsKind::UnTracked(prepared) => prepared.finish(y),
    }
}
