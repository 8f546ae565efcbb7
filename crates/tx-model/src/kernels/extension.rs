//! The kernels as operations of Burn: an extension of its backends.

use burn::{
    backend::{
        Backend, ExtensionType, Flex, backend_extension,
        flex::FlexTensor,
        tensor::{BoolTensor, FloatTensor, IntTensor},
    },
    tensor::{DType, Device, Tensor},
};

use super::{
    AdamUpdate, Function, activation, adam, attention,
    cross_entropy::{self, Target},
    dropped::Dropped,
    embedding::{self, Manner},
    flex::{contiguous, forward, tensor},
    layer_norm, linear, residual,
};

/// Whether the kernels can take this tensor.
pub fn serves<const D: usize>(x: &Tensor<D>) -> bool {
    // Devices are equal whether or not they keep gradients.
    x.dtype() == DType::F32 && x.device() == Device::flex()
}

/// A tensor that need not be there; Burn's macro takes no `Option`.
#[derive(ExtensionType)]
pub enum Maybe<B: Backend> {
    /// It is.
    Given(FloatTensor<B>),
    /// It is not.
    Absent,
}

/// A mask that need not be there.
#[derive(ExtensionType)]
pub enum MaybeMask<B: Backend> {
    /// It is.
    Given(BoolTensor<B>),
    /// It is not.
    Absent,
}

impl<B: Backend> Maybe<B> {
    pub(super) fn given(self) -> Option<FloatTensor<B>> {
        match self {
            Self::Given(tensor) => Some(tensor),
            Self::Absent => None,
        }
    }
}

impl<B: Backend> MaybeMask<B> {
    pub(super) fn given(self) -> Option<BoolTensor<B>> {
        match self {
            Self::Given(tensor) => Some(tensor),
            Self::Absent => None,
        }
    }
}

/// What the kernels compute; each file of this folder says what its own does.
#[backend_extension(Flex, Autodiff: cfg(feature = "autodiff"))]
pub trait Kernels: Backend {
    /// See [`mod@linear`].
    fn linear_kernel(
        x: FloatTensor<Self>,
        w: FloatTensor<Self>,
        #[extension_type] b: Maybe<Self>,
    ) -> FloatTensor<Self>;

    /// See [`mod@attention`].
    fn attention_kernel(
        q: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
        #[extension_type] blocked: MaybeMask<Self>,
        dropped: Option<Dropped>,
    ) -> FloatTensor<Self>;

    /// See [`mod@layer_norm`].
    fn layer_norm_kernel(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
    ) -> FloatTensor<Self>;

    /// See [`mod@residual`].
    fn residual_kernel(
        x: FloatTensor<Self>,
        y: FloatTensor<Self>,
        dropped: Dropped,
    ) -> FloatTensor<Self>;

    /// See [`mod@activation`].
    fn activation_kernel(
        x: FloatTensor<Self>,
        function: Function,
        dropped: Option<Dropped>,
    ) -> FloatTensor<Self>;

    /// See [`residual::dropout`].
    fn dropout_kernel(x: FloatTensor<Self>, dropped: Dropped) -> FloatTensor<Self>;

    /// See [`mod@embedding`].
    fn embedding_kernel(
        table: FloatTensor<Self>,
        tokens: IntTensor<Self>,
        #[extension_type] positions: Maybe<Self>,
        manner: Manner,
    ) -> FloatTensor<Self>;

    /// See [`mod@cross_entropy`]; gives the loss and the number of right tokens.
    fn cross_entropy_kernel(
        logits: FloatTensor<Self>,
        targets: IntTensor<Self>,
        target: Target,
    ) -> (FloatTensor<Self>, IntTensor<Self>);
}

/// What only plain tensors are given to.
#[backend_extension(Flex)]
pub trait UpdateKernel: Backend {
    /// See [`mod@adam`]; parameter, gradient, first and second moment.
    fn adam_kernel(
        parameter: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
        first: FloatTensor<Self>,
        second: FloatTensor<Self>,
        update: AdamUpdate,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>);

    /// See [`adam::sum_of_squares`].
    fn squares_kernel(x: FloatTensor<Self>) -> FloatTensor<Self>;
}

impl UpdateKernel for Flex {
    fn adam_kernel(
        parameter: FlexTensor,
        gradient: FlexTensor,
        first: FlexTensor,
        second: FlexTensor,
        update: AdamUpdate,
    ) -> (FlexTensor, FlexTensor, FlexTensor) {
        adam::update(parameter, gradient, first, second, update)
    }

    fn squares_kernel(x: FlexTensor) -> FlexTensor {
        tensor(vec![adam::sum_of_squares(x) as f32], [1])
    }
}

impl Kernels for Flex {
    fn linear_kernel(x: FlexTensor, w: FlexTensor, b: Maybe<Self>) -> FlexTensor {
        let b = b.given().map(contiguous);
        linear::forward(&contiguous(x), &forward(w), b.as_ref())
    }

    fn attention_kernel(
        q: FlexTensor,
        k: FlexTensor,
        v: FlexTensor,
        blocked: MaybeMask<Self>,
        dropped: Option<Dropped>,
    ) -> FlexTensor {
        let [q, k, v] = [q, k, v].map(forward);
        attention::forward(&q, &k, &v, blocked.given().map(forward).as_ref(), dropped).0
    }

    fn layer_norm_kernel(x: FlexTensor, gamma: FlexTensor, beta: FlexTensor) -> FlexTensor {
        layer_norm::forward(&contiguous(x), &contiguous(gamma), &contiguous(beta))
    }

    fn residual_kernel(x: FlexTensor, y: FlexTensor, dropped: Dropped) -> FlexTensor {
        residual::forward(&contiguous(x), y, dropped)
    }

    fn activation_kernel(
        x: FlexTensor,
        function: Function,
        dropped: Option<Dropped>,
    ) -> FlexTensor {
        activation::forward(x, function, dropped)
    }

    fn dropout_kernel(x: FlexTensor, dropped: Dropped) -> FlexTensor {
        residual::dropout(&contiguous(x), dropped)
    }

    fn embedding_kernel(
        table: FlexTensor,
        tokens: FlexTensor,
        positions: Maybe<Self>,
        manner: Manner,
    ) -> FlexTensor {
        let positions = positions.given().map(contiguous);
        embedding::forward(&contiguous(table), &contiguous(tokens), positions.as_ref(), manner)
    }

    fn cross_entropy_kernel(
        logits: FlexTensor,
        targets: FlexTensor,
        target: Target,
    ) -> (FlexTensor, FlexTensor) {
        let costs = cross_entropy::forward(&contiguous(logits), &contiguous(targets), target);
        (costs.loss, costs.correct)
    }
}
