//! `dropout(relu(x))` and the like, and back.

use burn::backend::flex::FlexTensor;

use super::{
    Function,
    dropped::Dropped,
    flex::{floats, rows, writable},
    rows::each_piece,
    simd::{exp, vectorised},
};

/// Functions that there is a kernel for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Simple {
    /// `max(x, 0)`
    Relu,
    /// `x / (1 + e^-x)`
    Swish,
}

impl Simple {
    /// The kernel for `function`, if there is one.
    pub fn of(function: Function) -> Option<Self> {
        match function {
            Function::Relu => Some(Self::Relu),
            Function::Swish => Some(Self::Swish),
            Function::Gelu => None,
        }
    }

    #[inline(always)]
    fn value(self, x: f32) -> f32 {
        match self {
            Self::Relu => x.max(0.0),
            Self::Swish => x / (1.0 + exp(-x)),
        }
    }

    /// Of the rectifier, at the value as well as at its place.
    #[inline(always)]
    fn slope(self, x: f32) -> f32 {
        match self {
            Self::Relu => f32::from(u8::from(x > 0.0)),
            Self::Swish => {
                let sigmoid = 1.0 / (1.0 + exp(-x));
                sigmoid * (1.0 + x * (1.0 - sigmoid))
            }
        }
    }
}

/// # Shapes
///
/// - `x`: `[.., width]`, and so is the result
pub fn forward(x: FlexTensor, function: Simple, dropped: Option<Dropped>) -> FlexTensor {
    let [_, width] = rows(&x);
    let mut x = writable(x);
    each_piece(x.storage_mut(), width, |first, x| {
        vectorised(
            #[inline(always)]
            || {
                for (i, x) in x.chunks_exact_mut(width).enumerate() {
                    // The choice is made outside the inner loop, or it would not vectorise.
                    match function {
                        Simple::Relu => each(x, |x| Simple::Relu.value(x)),
                        Simple::Swish => each(x, |x| Simple::Swish.value(x)),
                    }
                    if let Some(dropped) = dropped {
                        dropped.row(first + i).apply(x);
                    }
                }
            },
        );
    });
    x
}

/// What goes back to `x`; of the rectifier the result will do in its place.
pub fn backward(
    x: &FlexTensor,
    dy: FlexTensor,
    function: Simple,
    dropped: Option<Dropped>,
) -> FlexTensor {
    let [_, width] = rows(x);
    let x = floats(x);
    let mut dy = writable(dy);
    each_piece(dy.storage_mut(), width, |first, dy| {
        let x = &x[first * width..first * width + dy.len()];
        vectorised(
            #[inline(always)]
            || {
                for (i, (dy, x)) in
                    dy.chunks_exact_mut(width).zip(x.chunks_exact(width)).enumerate()
                {
                    match function {
                        Simple::Relu => each_two(dy, x, |x| Simple::Relu.slope(x)),
                        Simple::Swish => each_two(dy, x, |x| Simple::Swish.slope(x)),
                    }
                    if let Some(dropped) = dropped {
                        dropped.row(first + i).apply(dy);
                    }
                }
            },
        );
    });
    dy
}

#[inline(always)]
fn each(x: &mut [f32], f: impl Fn(f32) -> f32) {
    for x in x {
        *x = f(*x);
    }
}

#[inline(always)]
fn each_two(dy: &mut [f32], x: &[f32], slope: impl Fn(f32) -> f32) {
    for (dy, &x) in dy.iter_mut().zip(x) {
        *dy *= slope(x);
    }
}
