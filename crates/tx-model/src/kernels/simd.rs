//! Loops that the compiler turns into vector instructions, for the widest vectors of the processor
//! that the program runs on.
//!
//! Written on plain slices in a way that vectorises: sums in [`LANES`] independent parts, no
//! branches, no calls. Everything here is inlined into [`vectorised`], which is compiled once for
//! each kind of vector (AVX-512, AVX2, NEON, …).

/// Independent partial sums: as many as the widest vectors have places, times four vectors in
/// flight.
pub const LANES: usize = 64;

/// Runs `work`, and whatever is inlined into it, compiled for the widest vectors there are.
///
/// A closure of more than a line needs `#[inline(always)]` for that, and whatever it calls: what is
/// not inlined is compiled for the oldest processor.
#[inline(always)]
pub fn vectorised<R>(work: impl FnOnce() -> R) -> R {
    pulp::Arch::new().dispatch(work)
}

/// `e^x` within 1.5 units in the last place; 0 far below, infinity far above.
///
/// `x = n ln 2 + r` with `|r| ≤ ln 2 / 2`; `e^r` is a polynomial (Cephes, `expf`), `2^n` is made of
/// bits.
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    // Beyond these, the result is 0 or infinite anyway.
    let x = x.clamp(-104.0, 89.0);
    let n = (x * std::f32::consts::LOG2_E).round_ties_even();
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
    let n = n as i32;
    let half = n >> 1;
    e * power_of_two(half) * power_of_two(n - half)
}

/// `2^n` for `-126 ≤ n ≤ 127`.
#[inline(always)]
fn power_of_two(n: i32) -> f32 {
    f32::from_bits(((n + 127) << 23) as u32)
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
    parts.iter().chain(rest).fold(f32::NEG_INFINITY, |max, &x| if x > max { x } else { max })
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
    parts.iter().sum::<f32>() + rest.iter().map(|&x| f(x)).sum::<f32>()
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
    parts.iter().sum::<f32>() + rest.sum::<f32>()
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
