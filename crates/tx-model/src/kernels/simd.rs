//! Loops that the compiler turns into vector instructions, for the widest vectors of the processor
//! that the program runs on.
//!
//! Written on plain slices in a way that vectorises: sums in [`LANES`] independent parts, no
//! branches, no calls. Everything here is inlined into [`vectorised`], which is compiled once for
//! each kind of vector (AVX-512, AVX2, NEON, …).

use pulp::{Arch, Simd, WithSimd};

/// Independent partial sums: as many as the widest vectors have places, times four vectors in
/// flight.
pub const LANES: usize = 64;

/// Runs `work`, and whatever is inlined into it, compiled for the widest vectors there are.
///
/// A closure of more than a few instructions is inlined only when told to:
/// `vectorised(#[inline(always)] || …)`; one that is not runs without vectors. `FnMut`, though it is
/// called once: as `FnOnce`, the compiler puts a function around the closure that is told nothing.
#[inline(always)]
pub fn vectorised<R>(work: impl FnMut() -> R) -> R {
    struct Work<F>(F);
    impl<R, F: FnMut() -> R> WithSimd for Work<F> {
        type Output = R;

        #[inline(always)]
        fn with_simd<S: Simd>(mut self, _simd: S) -> R {
            (self.0)()
        }
    }
    Arch::new().dispatch(Work(work))
}

/// `e^x` within 1.5 units in the last place; 0 far below, infinity far above.
///
/// `x = n ln 2 + r` with `|r| ≤ ln 2 / 2`; `e^r` is a polynomial (Cephes, `expf`), `2^n` is made of
/// bits.
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    // Beyond these, the result is 0 or infinite anyway.
    let x = x.clamp(-104.0, 89.0);
    // So large that adding it rounds to whole numbers, which are then the lowest bits: a conversion
    // would not vectorise everywhere.
    const SHIFT: f32 = 12_582_912.0;
    let shifted = x.mul_add(std::f32::consts::LOG2_E, SHIFT);
    let n = shifted - SHIFT;
    // ln 2 in two parts, so that `r` keeps all its bits.
    let r = n.mul_add(-0.693_359_4, x);
    let r = n.mul_add(2.121_944_4e-4, r);
    let p = 1.987_569_1e-4_f32;
    let p = p.mul_add(r, 1.398_199_9e-3);
    let p = p.mul_add(r, 8.333_452e-3);
    let p = p.mul_add(r, 4.166_579_6e-2);
    let p = p.mul_add(r, 1.666_666_5e-1);
    let p = p.mul_add(r, 0.5);
    let e = p.mul_add(r * r, r) + 1.0;
    // In two steps, for the smallest results and the largest.
    let n = (shifted.to_bits() as i32).wrapping_sub(SHIFT.to_bits() as i32);
    let half = n >> 1;
    e * power_of_two(half) * power_of_two(n - half)
}

/// `2^n` for `-126 ≤ n ≤ 127`.
#[inline(always)]
fn power_of_two(n: i32) -> f32 {
    f32::from_bits(((n + 127) << 23) as u32)
}

/// The error function, within 2e-7 (Abramowitz and Stegun 1964, 7.1.26).
#[inline(always)]
pub fn erf(x: f32) -> f32 {
    let t = 0.327_591_1_f32.mul_add(x.abs(), 1.0).recip();
    let p = 1.061_405_4_f32;
    let p = p.mul_add(t, -1.453_152_1);
    let p = p.mul_add(t, 1.421_413_8);
    let p = p.mul_add(t, -0.284_496_72);
    let p = p.mul_add(t, 0.254_829_6);
    (1.0 - p * t * exp(-x * x)).copysign(x)
}

/// All parts as one: first vector by vector, and only at last within one.
#[inline(always)]
fn together(parts: [f32; LANES], join: impl Fn(f32, f32) -> f32) -> f32 {
    const QUARTER: usize = LANES / 4;
    let [a, b, c, d] = [0, 1, 2, 3].map(|i| i * QUARTER);
    let mut vector = [0.0; QUARTER];
    for (i, x) in vector.iter_mut().enumerate() {
        *x = join(join(parts[a + i], parts[b + i]), join(parts[c + i], parts[d + i]));
    }
    let mut four = [0.0; 4];
    for (i, x) in four.iter_mut().enumerate() {
        *x = join(join(vector[i], vector[4 + i]), join(vector[8 + i], vector[12 + i]));
    }
    join(join(four[0], four[1]), join(four[2], four[3]))
}

/// The largest element; minus infinity of none.
#[inline(always)]
pub fn max(x: &[f32]) -> f32 {
    let (whole, rest) = x.as_chunks::<LANES>();
    let mut parts = [f32::NEG_INFINITY; LANES];
    for chunk in whole {
        for (part, &x) in parts.iter_mut().zip(chunk) {
            *part = if x > *part { x } else { *part };
        }
    }
    let larger = |a, b| if b > a { b } else { a };
    rest.iter().fold(together(parts, larger), |max, &x| larger(max, x))
}

/// `Σ f(x)`
#[inline(always)]
pub fn sum_of(x: &[f32], f: impl Fn(f32) -> f32) -> f32 {
    let (whole, rest) = x.as_chunks::<LANES>();
    let mut parts = [0.0; LANES];
    for chunk in whole {
        for (part, &x) in parts.iter_mut().zip(chunk) {
            *part += f(x);
        }
    }
    together(parts, |a, b| a + b) + rest.iter().map(|&x| f(x)).sum::<f32>()
}

/// `Σ f(x, y)` over two slices of one length.
#[inline(always)]
pub fn sum_of_two(x: &[f32], y: &[f32], f: impl Fn(f32, f32) -> f32) -> f32 {
    let (whole_x, rest_x) = x.as_chunks::<LANES>();
    let (whole_y, rest_y) = y.as_chunks::<LANES>();
    let mut parts = [0.0; LANES];
    for (x, y) in whole_x.iter().zip(whole_y) {
        for ((part, &x), &y) in parts.iter_mut().zip(x).zip(y) {
            *part += f(x, y);
        }
    }
    let rest = rest_x.iter().zip(rest_y).map(|(&x, &y)| f(x, y));
    together(parts, |a, b| a + b) + rest.sum::<f32>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_right_everywhere() {
        let mut worst = 0.0_f64;
        for step in -104_000..88_700 {
            let x = step as f32 / 1_000.0;
            let expected = f64::from(x).exp();
            let found = f64::from(vectorised(|| exp(x)));
            if expected > f64::from(f32::MIN_POSITIVE) {
                worst = worst.max((found - expected).abs() / expected);
            } else {
                assert!((found - expected).abs() < 2e-45, "{x}: {found:e}, not {expected:e}");
            }
        }
        assert!(worst < 1.5 * f64::from(f32::EPSILON), "{worst:e}");
        assert_eq!(vectorised(|| exp(0.0)), 1.0);
        assert_eq!(vectorised(|| exp(f32::NEG_INFINITY)), 0.0);
        assert_eq!(vectorised(|| exp(f32::INFINITY)), f32::INFINITY);
        assert!(vectorised(|| exp(f32::NAN)).is_nan());
    }

    /// erf(0.5), erf(1), erf(2) from tables.
    #[test]
    fn erf_is_right_and_odd() {
        for (x, expected) in
            [(0.0, 0.0), (0.5, 0.520_499_9), (1.0, 0.842_700_8), (2.0, 0.995_322_3), (9.0, 1.0)]
        {
            assert!((erf(x) - expected).abs() < 3e-7, "erf({x}) = {}", erf(x));
            assert_eq!(erf(-x), -erf(x));
        }
    }

    #[test]
    fn sums_and_largest_of_any_length() {
        for len in [0, 1, 2, 63, 64, 65, 200] {
            let x: Vec<f32> = (0..len).map(|i| ((i * 37) % 101) as f32 - 50.0).collect();
            let y: Vec<f32> = (0..len).map(|i| ((i * 11) % 13) as f32).collect();
            // Whole numbers: exact in any order.
            let sum: f32 = x.iter().map(|x| x * x).sum();
            assert_eq!(vectorised(|| sum_of(&x, |x| x * x)), sum);
            let dot: f32 = x.iter().zip(&y).map(|(x, y)| x * y).sum();
            assert_eq!(vectorised(|| sum_of_two(&x, &y, |x, y| x * y)), dot);
            let largest = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            assert_eq!(vectorised(|| max(&x)), largest);
        }
    }
}
