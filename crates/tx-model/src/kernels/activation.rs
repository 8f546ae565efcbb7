//! `dropout(relu(x))` and the like, and back.

use std::f32::consts::FRAC_1_SQRT_2;

use burn::backend::flex::FlexTensor;

use super::{
    Function,
    dropped::Dropped,
    flex::{floats, rows, writable},
    rows::each_piece,
};
use crate::vector::{erf, exp, vectorized};

impl Function {
    #[inline(always)]
    fn value(self, x: f32) -> f32 {
        match self {
            // Not `max`, which would turn NaN into 0.
            Self::Relu => {
                if x <= 0.0 {
                    0.0
                } else {
                    x
                }
            }
            Self::Swish => x / (1.0 + exp(-x)),
            Self::Gelu => x * normal(x),
        }
    }

    /// Of the rectifier, at the value as well as at its place.
    #[inline(always)]
    fn slope(self, x: f32) -> f32 {
        match self {
            Self::Relu => {
                if x <= 0.0 {
                    0.0
                } else {
                    1.0
                }
            }
            Self::Swish => {
                let sigmoid = 1.0 / (1.0 + exp(-x));
                sigmoid * (1.0 + x * (1.0 - sigmoid))
            }
            Self::Gelu => normal(x) + x * exp(-0.5 * x * x) * INVERSE_ROOT_OF_TWO_PI,
        }
    }
}

/// `1 / √(2π)`
const INVERSE_ROOT_OF_TWO_PI: f32 = 0.398_942_3;

/// `Φ(x)`, the normal distribution's share below `x`.
#[inline(always)]
fn normal(x: f32) -> f32 {
    0.5 * (1.0 + erf(x * FRAC_1_SQRT_2))
}

/// # Shapes
///
/// - `x`: `[.., width]`, and so is the result
pub fn forward(x: FlexTensor, function: Function, dropped: Option<Dropped>) -> FlexTensor {
    let [_, width] = rows(&x);
    let mut x = writable(x);
    each_piece(x.storage_mut(), width, |first, x| {
        vectorized(
            #[inline(always)]
            || {
                for (i, x) in x.chunks_exact_mut(width).enumerate() {
                    // The choice is made outside the inner loop, or it would not vectorise.
                    match function {
                        Function::Relu => each(x, |x| Function::Relu.value(x)),
                        Function::Swish => each(x, |x| Function::Swish.value(x)),
                        Function::Gelu => each(x, |x| Function::Gelu.value(x)),
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
    function: Function,
    dropped: Option<Dropped>,
) -> FlexTensor {
    let [_, width] = rows(x);
    let x = floats(x);
    let mut dy = writable(dy);
    each_piece(dy.storage_mut(), width, |first, dy| {
        let x = &x[first * width..first * width + dy.len()];
        vectorized(
            #[inline(always)]
            || {
                for (i, (dy, x)) in
                    dy.chunks_exact_mut(width).zip(x.chunks_exact(width)).enumerate()
                {
                    match function {
                        Function::Relu => each_two(dy, x, |x| Function::Relu.slope(x)),
                        Function::Swish => each_two(dy, x, |x| Function::Swish.slope(x)),
                        Function::Gelu => each_two(dy, x, |x| Function::Gelu.slope(x)),
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
