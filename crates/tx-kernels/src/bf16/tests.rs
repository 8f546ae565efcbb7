//! Each unit of this CPU against plain sums in double precision.

use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{
    layout::{BLOCK_DEPTH, BLOCK_LINES, Group, Order},
    pack::{pack_block, round, value},
    *,
};
use crate::matrix::{Matrix, Output, Write};

/// The reference, and all units of this CPU.
fn units() -> Vec<Unit> {
    let units: Vec<Unit> =
        [Some(Unit::Reference), Unit::avx512(), Unit::amx()].into_iter().flatten().collect();
    println!("units: {units:?}");
    units
}

const SPLITS: [Split; 2] = [Split::High, Split::HighAndLow];

/// Matrix with strides of its own.
struct Stored {
    data: Vec<f32>,
    shape: [usize; 2],
    strides: [usize; 2],
}

impl Stored {
    /// Matrix of `shape` in one of four orders in memory: rows, columns, rows with gaps, both with
    /// gaps.
    fn new(shape: [usize; 2], order: usize, mut element: impl FnMut() -> f32) -> Self {
        let strides = match order {
            0 => [shape[1], 1],
            1 => [1, shape[0]],
            2 => [shape[1] + 3, 1],
            _ => [2 * shape[1] + 1, 2],
        };
        let len = (shape[0] - 1) * strides[0] + (shape[1] - 1) * strides[1] + 1;
        Self { data: (0..len).map(|_| element()).collect(), shape, strides }
    }

    fn view(&self) -> Matrix<'_> {
        Matrix::with_strides(&self.data, self.shape, self.strides)
    }
}

/// Calls `check` with each element of the product in double precision, the sum of the absolute
/// values of its terms, and its index in row-major order.
fn each_element(a: Matrix<'_>, b: Matrix<'_>, mut check: impl FnMut(f64, f64, usize)) {
    for i in 0..a.rows {
        for j in 0..b.columns {
            let terms = (0..a.columns).map(|k| f64::from(a.at(i, k)) * f64::from(b.at(k, j)));
            let (sum, total) =
                terms.fold((0.0, 0.0), |(sum, total), x| (sum + x, total + f64::abs(x)));
            check(sum, total, i * b.columns + j);
        }
    }
}

/// Integers up to 16 are bf16 numbers, and their sums are exact in single precision.
#[test]
fn products_of_integers_are_exact_at_every_edge_of_a_tile() {
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let sizes = (1..=50).chain([63, 64, 65, 97]);
    let shapes = sizes.clone().map(|rows| [rows, 17, 37]);
    let shapes = shapes.chain(sizes.clone().map(|inner| [9, inner, 49]));
    let shapes = shapes.chain(sizes.map(|columns| [33, 40, columns]));
    // Several parts of the inner positions.
    let shapes = shapes.chain([[64, 512, 64], [33, 800, 64], [70, 1_100, 97]]);
    for (number, [rows, inner, columns]) in shapes.enumerate() {
        let mut element = || random.random_range(-16..=16) as f32;
        let a = Stored::new([rows, inner], number % 4, &mut element);
        let b = Stored::new([inner, columns], number / 4 % 4, &mut element);
        let bias: Vec<f32> = (0..columns).map(|_| element()).collect();
        for unit in units() {
            for split in SPLITS {
                let y = product(unit, split, (a.view(), b.view()), Some(&bias));
                each_element(a.view(), b.view(), |sum, _, i| {
                    let expected = sum as f32 + bias[i % columns];
                    assert_eq!(y[i], expected, "{unit:?} {split:?} {rows} {inner} {columns}: {i}");
                });
            }
        }
    }
}

/// Largest rounding error of a sum of `inner` terms in single precision, relative to the sum of
/// their absolute values: one rounding of each product and one of each addition, by 2⁻²⁴ each. The
/// units add some terms in pairs, which have fewer roundings.
fn summation_error(inner: usize) -> f64 {
    (inner as f64 + 4.0) * 2.0_f64.powi(-24)
}

/// Rounding changes a number by at most 2⁻⁸ of its value, half of the last of 8 bits, and with two
/// parts by 2⁻¹⁶: 2⁻⁸ of what the first rounding left. With two parts, the product of the second
/// parts is left out, which is 2⁻¹⁶ of the product.
#[test]
fn ten_thousand_random_products_differ_by_rounding_only() {
    let mut random = ChaCha8Rng::seed_from_u64(2);
    let units = units();
    let mut worst = [0.0_f64; 2];
    for number in 0..10_000 {
        let mut size = |exponent: f64| (random.random::<f64>() * exponent).exp2() as usize;
        let [rows, inner, columns] = [size(6.0), size(6.0), size(6.0)];
        let orders = [random.random_range(0..4), random.random_range(0..4)];
        let mut element = || random.random_range(-1.0..1.0_f32);
        let a = Stored::new([rows, inner], orders[0], &mut element);
        let b = Stored::new([inner, columns], orders[1], &mut element);
        let unit = units[number % units.len()];
        for (split, worst) in SPLITS.into_iter().zip(&mut worst) {
            let rounding = match split {
                Split::High => 2.0 * 2.0_f64.powi(-8) + 2.0_f64.powi(-16),
                Split::HighAndLow => 3.0 * 2.0_f64.powi(-16) + 2.0_f64.powi(-32),
            };
            let limit = rounding + summation_error(3 * inner);
            let y = product(unit, split, (a.view(), b.view()), None);
            each_element(a.view(), b.view(), |sum, total, i| {
                let error = (f64::from(y[i]) - sum).abs();
                *worst = worst.max(error / (limit * total + 1e-30));
                let shape = [rows, inner, columns];
                assert!(error <= limit * total, "{unit:?} {split:?} {shape:?} {i}: {}", y[i]);
            });
        }
    }
    println!("largest error, as a fraction of the limit: {worst:.2?}");
}

/// Several depths, more than one chunk, both factors as the larger one.
#[test]
fn products_larger_than_a_cache_do_not_depend_on_the_number_of_threads() {
    let mut random = ChaCha8Rng::seed_from_u64(3);
    for [rows, inner, columns] in [[601, 1_100, 67], [35, 513, 700], [130, 2_000, 130]] {
        let mut element = || random.random_range(-1.0..1.0_f32);
        let a = Stored::new([rows, inner], 0, &mut element);
        let b = Stored::new([inner, columns], 1, &mut element);
        let bias: Vec<f32> = (0..columns).map(|_| element()).collect();
        for unit in units().into_iter().rev().take(1) {
            for split in SPLITS {
                let run = |threads: usize| {
                    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
                    let factors = (a.view(), b.view());
                    pool.unwrap().install(|| product(unit, split, factors, Some(&bias)))
                };
                let one = run(1);
                for threads in [2, 3, 7] {
                    assert_eq!(run(threads), one, "{unit:?} {split:?}, {threads} threads");
                }
                let rounding = if split == Split::High { 7.9e-3 } else { 4.6e-5 };
                each_element(a.view(), b.view(), |sum, total, i| {
                    let error = (f64::from(one[i] - bias[i % columns]) - sum).abs();
                    let limit = rounding + summation_error(3 * inner);
                    assert!(error <= limit * total + 1e-6, "{unit:?} {split:?} {i}: {error}");
                });
            }
        }
    }
}

#[test]
fn products_on_one_thread_are_scaled_and_added_and_write_nothing_else() {
    let mut random = ChaCha8Rng::seed_from_u64(4);
    for [rows, inner, columns] in [[1, 1, 1], [20, 32, 20], [7, 600, 50], [33, 5, 31], [3, 0, 4]] {
        let mut element = || random.random_range(-8..=8) as f32;
        let a = Stored {
            data: (0..rows * inner).map(|_| element()).collect(),
            shape: [rows, inner],
            strides: [inner, 1],
        };
        let b = Stored {
            data: (0..inner * columns).map(|_| element()).collect(),
            shape: [inner, columns],
            strides: [columns, 1],
        };
        for unit in units() {
            for write in [Write::Replace, Write::Add] {
                let stride = columns + 5;
                let before: Vec<f32> = (0..rows * stride).map(|i| i as f32).collect();
                let mut y = before.clone();
                let out = Output::with_stride(&mut y, stride);
                multiply_here(unit, Split::High, [a.view(), b.view()], 0.5, out, write);
                let mut expected = before;
                each_element(a.view(), b.view(), |sum, _, i| {
                    let y = &mut expected[i / columns * stride + i % columns];
                    *y = sum as f32 / 2.0 + if write == Write::Add { *y } else { 0.0 };
                });
                assert_eq!(y, expected, "{unit:?} {write:?} {rows} {inner} {columns}");
            }
        }
    }
}

#[test]
fn infinities_and_nan_reach_the_output() {
    for unit in units() {
        for split in SPLITS {
            for (x, infinite) in
                [(f32::INFINITY, true), (f32::NEG_INFINITY, true), (f32::NAN, false)]
            {
                let mut a = vec![1.0; 40 * 40];
                a[3 * 40 + 5] = x;
                let (a, b) = (Matrix::new(&a, 40, 40), vec![1.0; 40 * 40]);
                let y = product(unit, split, (a, Matrix::new(&b, 40, 40)), None);
                for (i, y) in y.into_iter().enumerate() {
                    // What an infinite number leaves after rounding is not a number.
                    let same = if infinite && split == Split::High { y == x } else { y.is_nan() };
                    assert!(if i / 40 == 3 { same } else { y == 40.0 }, "{unit:?} {split:?}: {y}");
                }
            }
        }
    }
}

/// A factor of bf16 numbers gives the product of the same numbers in single precision, bit for bit, on
/// either side and in any order in memory; so does a right factor that is packed once.
#[test]
fn bf16_factors_equal_factors_that_are_rounded() {
    let mut random = ChaCha8Rng::seed_from_u64(6);
    for (number, [rows, inner, columns]) in
        [[1, 1, 1], [33, 70, 31], [20, 600, 129], [200, 33, 64]].into_iter().enumerate()
    {
        for order in 0..4 {
            let mut element = || random.random_range(-1.0..1.0_f32);
            let a = Stored::new([rows, inner], order, &mut element);
            let b = Stored::new([inner, columns], (order + number) % 4, &mut element);
            let [a16, b16] = [&a, &b].map(|x| x.data.iter().map(|&x| round(x)).collect::<Vec<_>>());
            let a16 = Matrix::with_strides(&a16, a.shape, a.strides);
            let b16 = Matrix::with_strides(&b16, b.shape, b.strides);
            for unit in units() {
                let expected = product(unit, Split::High, (a.view(), b.view()), None);
                let found = [
                    product(unit, Split::High, (a16, b.view()), None),
                    product(unit, Split::High, (a.view(), b16), None),
                    product(unit, Split::High, (a16, b16), None),
                ];
                assert!(found.iter().all(|found| found == &expected), "{unit:?} {order}");
                let mut out = vec![std::mem::MaybeUninit::uninit(); rows * columns];
                let found = RightFactor::new(unit, b.view()).multiply(a16, None, &mut out);
                assert_eq!(found, &expected[..], "{unit:?} {order}");
            }
        }
    }
}

/// 1 + 2⁻⁸ is halfway between 1 and 1 + 2⁻⁷, whose significands are even and odd.
#[test]
fn numbers_are_rounded_to_the_nearest_even() {
    let half = 2.0_f32.powi(-8);
    for (x, expected) in [
        (1.0 + half, 1.0),
        (1.0 + half + f32::EPSILON, 1.0 + 2.0 * half),
        (1.0 + 3.0 * half, 1.0 + 4.0 * half),
        (-1.0 - half, -1.0),
        (f32::MAX, f32::INFINITY),
        (f32::MIN_POSITIVE, f32::MIN_POSITIVE),
        (f32::MIN_POSITIVE / 2.0, 0.0),
    ] {
        assert_eq!(value(round(x)), expected, "{x:e}");
    }
    assert!(value(round(f32::NAN)).is_nan());
}

/// Packing by vector instructions, against plain loops, bit for bit, on arbitrary bits.
#[test]
fn units_pack_as_the_reference_does() {
    let mut random = ChaCha8Rng::seed_from_u64(5);
    for number in 0..2_000 {
        let shape = [random.random_range(1..=16), random.random_range(1..=32)];
        let lines = Stored::new(shape, number % 4, || f32::from_bits(random.next_u32()));
        for order in [Order::Pairs, Order::Lines] {
            let packed = |unit| {
                let mut room = [[Group([7; BLOCK_DEPTH]); 2 * BLOCK_LINES]; 2];
                let [high, low] = room.each_mut().map(|room| room.map(std::mem::MaybeUninit::new));
                let (mut high, mut low) = (high, low);
                pack_block(unit, lines.view(), order, &mut high, Some(&mut low), 2);
                // SAFETY: all have been initialized.
                #[allow(unsafe_code)]
                [high, low].map(|part| part.map(|group| unsafe { group.assume_init() }.0))
            };
            let expected = packed(Unit::Reference);
            for unit in units() {
                for (found, expected) in
                    packed(unit).iter().flatten().zip(expected.iter().flatten())
                {
                    for (&found, &expected) in found.iter().zip(expected) {
                        let both_nan = value(found).is_nan() && value(expected).is_nan();
                        assert!(both_nan || found == expected, "{unit:?} {order:?} {shape:?}");
                    }
                }
            }
        }
    }
}
