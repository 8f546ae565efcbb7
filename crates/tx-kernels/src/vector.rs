//! Loops over slices that the compiler turns into the widest vector instructions of the CPU.
//!
//! [`vectors`] selects the vectors. A loop vectorizes if it has no branches and no calls, and if sums are kept in [`LANES`]
//! independent parts. Every function of this module is inlined into [`vectorized`], which is
//! compiled once for each instruction set (AVX-512, AVX2, NEON, …).

use std::sync::OnceLock;

use pulp::{Arch, Simd, WithSimd};

use crate::instruction_set::InstructionLimit;

/// Lanes of the widest vectors.
pub const LANES: usize = 16;

/// Independent partial sums: four of the widest vectors.
const PARTS: usize = 4 * LANES;

/// Returns the widest vectors of the CPU, up to the limit of the environment. (An unknown limit has no effect
/// here: opening a model and `train` report it.)
pub fn vectors() -> Arch {
    static VECTORS: OnceLock<Arch> = OnceLock::new();
    *VECTORS.get_or_init(|| match InstructionLimit::of_environment() {
        Ok(Some(limit)) => limited(limit),
        Ok(None) | Err(_) => Arch::new(),
    })
}

#[cfg(target_arch = "x86_64")]
fn limited(limit: InstructionLimit) -> Arch {
    use crate::instruction_set::Instructions;

    if limit.includes(Instructions::Avx512) {
        return Arch::new();
    }
    let avx2 = limit.includes(Instructions::Avx2).then(pulp::x86::V3::try_new).flatten();
    avx2.map_or(Arch::Scalar, Arch::V3)
}

/// Vectors of ARM and WebAssembly have one width.
#[cfg(not(target_arch = "x86_64"))]
fn limited(_: InstructionLimit) -> Arch {
    Arch::new()
}

/// Runs `work`, compiled for [`vectors`].
///
/// `work` must be inlined for that: a closure of more than a few instructions needs
/// `vectorized(#[inline(always)] || …)`, and one that is not inlined runs without vectors. The
/// bound is `FnMut`, although `work` is called once, because the compiler wraps an `FnOnce` in a
/// function that does not inherit the attribute.
#[inline(always)]
pub fn vectorized<R>(work: impl FnMut() -> R) -> R {
    struct Work<F>(F);
    impl<R, F: FnMut() -> R> WithSimd for Work<F> {
        type Output = R;

        #[inline(always)]
        fn with_simd<S: Simd>(mut self, _simd: S) -> R {
            (self.0)()
        }
    }
    vectors().dispatch(Work(work))
}

/// `x y + z`, rounded once. WebAssembly has no such instruction; there it is computed in double
/// precision, in which the product is exact, so that the second rounding hardly ever changes the result.
#[inline(always)]
pub fn mul_add(x: f32, y: f32, z: f32) -> f32 {
    if cfg!(target_family = "wasm") {
        (f64::from(x) * f64::from(y) + f64::from(z)) as f32
    } else {
        x.mul_add(y, z)
    }
}

/// Smallest argument for which [`exp`] is not 0. Results below [`f32::MIN_POSITIVE`] never occur,
/// because CPUs compute slowly with subnormal numbers.
const LOWEST: f32 = -86.6;

/// `e^x` within 1.5 units in the last place; 0 below -86.6, infinity above 88.7.
///
/// `x = n ln 2 + r` with `|r| ≤ ln 2 / 2`; `e^r` is a polynomial (Cephes, `expf`), and `2^n` is
/// assembled from its bits.
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    let vanishes = x < LOWEST;
    let x = if vanishes { LOWEST } else { x };
    // From 89 on, the result is infinite anyway.
    let x = if x > 89.0 { 89.0 } else { x };
    // At this magnitude the last bit has the value 1: the addition rounds to an integer, which the
    // bits contain. (A cast to `i32` does not vectorize, because it checks the range.)
    const ROUNDER: f32 = 12_582_912.0;
    let rounded = mul_add(x, std::f32::consts::LOG2_E, ROUNDER);
    let n = rounded - ROUNDER;
    // ln 2 in two parts, so that `r` keeps all its bits.
    let r = mul_add(n, -0.693_359_4, x);
    let r = mul_add(n, 2.121_944_4e-4, r);
    let p = 1.987_569_1e-4_f32;
    let p = mul_add(p, r, 1.398_199_9e-3);
    let p = mul_add(p, r, 8.333_452e-3);
    let p = mul_add(p, r, 4.166_579_6e-2);
    let p = mul_add(p, r, 1.666_666_5e-1);
    let p = mul_add(p, r, 0.5);
    let e = mul_add(p, r * r, r) + 1.0;
    // 2^(n - 1), because 2^128 is not representable; n is at least -125.
    let power = rounded.to_bits().wrapping_sub(ROUNDER.to_bits()).wrapping_add(126) << 23;
    let result = e * f32::from_bits(power) * 2.0;
    if vanishes { 0.0 } else { result }
}

/// The error function, within 2e-7 (Abramowitz and Stegun 1964, 7.1.26).
#[inline(always)]
pub fn erf(x: f32) -> f32 {
    let t = mul_add(0.327_591_1, x.abs(), 1.0).recip();
    let p = 1.061_405_4_f32;
    let p = mul_add(p, t, -1.453_152_1);
    let p = mul_add(p, t, 1.421_413_8);
    let p = mul_add(p, t, -0.284_496_72);
    let p = mul_add(p, t, 0.254_829_6);
    (1.0 - p * t * exp(-x * x)).copysign(x)
}

/// Returns the largest element, or minus infinity if `x` is empty. NaN is ignored.
#[inline(always)]
pub fn max(x: &[f32]) -> f32 {
    let larger = |a: f32, b: f32| if b > a { b } else { a };
    // An array for each vector of lanes. The compiler keeps larger ones in memory, and selects by masked stores.
    let [mut a, mut b, mut c, mut d] = [[f32::NEG_INFINITY; LANES]; 4];
    let (wide, rest) = x.as_chunks::<PARTS>();
    for x in wide {
        for (part, lanes) in [&mut a, &mut b, &mut c, &mut d].into_iter().enumerate() {
            for i in 0..LANES {
                lanes[i] = larger(lanes[i], x[part * LANES + i]);
            }
        }
    }
    for i in 0..LANES {
        a[i] = larger(larger(a[i], b[i]), larger(c[i], d[i]));
    }
    let (narrow, rest) = rest.as_chunks::<LANES>();
    for x in narrow {
        for i in 0..LANES {
            a[i] = larger(a[i], x[i]);
        }
    }
    let mut half = LANES;
    while half > 1 {
        half /= 2;
        for i in 0..half {
            a[i] = larger(a[i], a[i + half]);
        }
    }
    rest.iter().fold(a[0], |largest, &x| larger(largest, x))
}

/// `Σ f(x)`
#[inline(always)]
pub fn sum_of(x: &[f32], f: impl Fn(f32) -> f32) -> f32 {
    reduce(x, x, 0.0, |x, _| f(x), |a, b| a + b)
}

/// `Σ f(x, y)` over two slices of the same length.
#[inline(always)]
pub fn sum_of_two(x: &[f32], y: &[f32], f: impl Fn(f32, f32) -> f32) -> f32 {
    reduce(x, y, 0.0, f, |a, b| a + b)
}

/// Reduces `f(x, y)` over all positions in a fixed order: four vectors at a time, then one vector
/// at a time, then the rest.
#[inline(always)]
fn reduce(
    x: &[f32],
    y: &[f32],
    start: f32,
    f: impl Fn(f32, f32) -> f32,
    join: impl Fn(f32, f32) -> f32,
) -> f32 {
    let y = &y[..x.len()];
    let mut lanes = [start; LANES];
    let ((wide_x, x), (wide_y, y)) = (x.as_chunks::<PARTS>(), y.as_chunks::<PARTS>());
    if !wide_x.is_empty() {
        let mut parts = [start; PARTS];
        for (x, y) in wide_x.iter().zip(wide_y) {
            for i in 0..PARTS {
                parts[i] = join(parts[i], f(x[i], y[i]));
            }
        }
        let [a, b, c, d] = *parts.as_chunks::<LANES>().0 else { return start };
        for i in 0..LANES {
            lanes[i] = join(join(a[i], b[i]), join(c[i], d[i]));
        }
    }
    let ((narrow_x, x), (narrow_y, y)) = (x.as_chunks::<LANES>(), y.as_chunks::<LANES>());
    for (x, y) in narrow_x.iter().zip(narrow_y) {
        for i in 0..LANES {
            lanes[i] = join(lanes[i], f(x[i], y[i]));
        }
    }
    let mut half = LANES;
    while half > 1 {
        half /= 2;
        for i in 0..half {
            lanes[i] = join(lanes[i], lanes[i + half]);
        }
    }
    let mut result = lanes[0];
    for (&x, &y) in x.iter().zip(y) {
        result = join(result, f(x, y));
    }
    result
}

/// `x ← f(x)` for each element.
#[inline(always)]
pub fn map(x: &mut [f32], f: impl Fn(f32) -> f32) {
    for x in x {
        *x = f(*x);
    }
}

/// `x ← f(x, y)` for each element of two slices of the same length.
#[inline(always)]
pub fn map_two(x: &mut [f32], y: &[f32], f: impl Fn(f32, f32) -> f32) {
    for (x, &y) in x.iter_mut().zip(y) {
        *x = f(*x, y);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_accurate_over_its_range() {
        let mut worst = 0.0_f64;
        for step in -104_000..88_700 {
            let x = step as f32 / 1_000.0;
            let expected = f64::from(x).exp();
            let found = f64::from(vectorized(|| exp(x)));
            if x >= LOWEST {
                worst = worst.max((found - expected).abs() / expected);
            } else {
                assert_eq!(found, 0.0, "{x}");
            }
        }
        assert!(worst < 1.5 * f64::from(f32::EPSILON), "{worst:e}");
        assert_eq!(vectorized(|| exp(0.0)), 1.0);
        assert_eq!(vectorized(|| exp(f32::NEG_INFINITY)), 0.0);
        assert_eq!(vectorized(|| exp(f32::INFINITY)), f32::INFINITY);
        assert!(vectorized(|| exp(f32::NAN)).is_nan());
    }

    /// erf(0.5), erf(1) and erf(2) as tabulated.
    #[test]
    fn erf_is_accurate_and_odd() {
        for (x, expected) in
            [(0.0, 0.0), (0.5, 0.520_499_9), (1.0, 0.842_700_8), (2.0, 0.995_322_3), (9.0, 1.0)]
        {
            assert!((erf(x) - expected).abs() < 3e-7, "erf({x}) = {}", erf(x));
            assert_eq!(erf(-x), -erf(x));
        }
    }

    #[test]
    fn sums_and_largest_of_any_length() {
        for len in [0, 1, 2, 15, 16, 17, 63, 64, 65, 79, 80, 200] {
            let x: Vec<f32> = (0..len).map(|i| ((i * 37) % 101) as f32 - 50.0).collect();
            let y: Vec<f32> = (0..len).map(|i| ((i * 11) % 13) as f32).collect();
            // Integers: sums are exact in any order.
            let sum: f32 = x.iter().map(|x| x * x).sum();
            assert_eq!(vectorized(|| sum_of(&x, |x| x * x)), sum);
            let dot: f32 = x.iter().zip(&y).map(|(x, y)| x * y).sum();
            assert_eq!(vectorized(|| sum_of_two(&x, &y, |x, y| x * y)), dot);
            let largest = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            assert_eq!(vectorized(|| max(&x)), largest);
            let (mut squares, mut products) = (x.clone(), x.clone());
            vectorized(|| map(&mut squares, |x| x * x));
            vectorized(|| map_two(&mut products, &y, |x, y| x * y));
            for i in 0..len {
                assert_eq!((squares[i], products[i]), (x[i] * x[i], x[i] * y[i]));
            }
        }
    }
}
