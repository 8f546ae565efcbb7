//! Speed of products in f32 and, with each kernel of this CPU, in int8, on one core.
//!
//! `cargo bench --workspace --bench products`
//!
//! Prints 10⁹ multiplications and additions per second, medians of several rounds, for one row of input as in
//! greedy search of one sentence, five as in its beam search, and 32 and 160 of a batch. The environment variable
//! `TX_MAX_INSTRUCTIONS` limits the vectors in f32.

use std::{
    error::Error,
    io::{Write, stdout},
    time::Instant,
};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tx_kernels::{
    instruction_set::{InstructionSet, Instructions},
    int8_kernel::{Epilogue, Int8Kernel},
    packed_matrix::PackedMatrix,
    quantized_matrix::QuantizedMatrix,
    quantized_rows::QuantizedRows,
    quantized_weight::QuantizedWeight,
};

/// Number of timed rounds.
const ROUNDS: usize = 9;

/// Multiplications of a round.
const WORK: f64 = 2e9;

/// Inputs and outputs of the matrices.
const SHAPES: [[usize; 2]; 4] = [[64, 256], [256, 1_024], [512, 2_048], [2_048, 512]];

/// Rows of input.
const ROWS: [usize; 4] = [1, 5, 32, 160];

fn main() -> Result<(), Box<dyn Error>> {
    let detected = InstructionSet::detected();
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let mut floats =
        |count: usize| -> Vec<f32> { (0..count).map(|_| random.random_range(-1.0..1.0)).collect() };
    let mut out = stdout().lock();
    writeln!(out, "| kernel | inputs | outputs | 1 row | 5 rows | 32 rows | 160 rows |")?;
    writeln!(out, "|---|---:|---:|---:|---:|---:|---:|")?;
    for [inputs, outputs] in SHAPES {
        let weights = floats(inputs * outputs);
        let matrix = PackedMatrix::new(inputs, &[&weights], Vec::new(), 1.0, false);
        write!(out, "| f32 | {inputs} | {outputs} |")?;
        for rows in ROWS {
            let (x, mut y) = (floats(rows * inputs), vec![0.0; rows * outputs]);
            let speed = speed((rows * inputs * outputs) as f64, || matrix.product(&x, &mut y));
            write!(out, " {speed:.1} |")?;
        }
        writeln!(out)?;
    }
    for one in Instructions::ALL.into_iter().filter(|&one| detected.contains(one)) {
        let set = detected.limited_to(one.name().parse()?);
        let Some(kernel) = Int8Kernel::for_instructions(set).filter(|it| it.name() == one.name())
        else {
            continue;
        };
        for [inputs, outputs] in SHAPES {
            let weight = QuantizedWeight::quantize(inputs, &floats(inputs * outputs), false, false);
            let matrix = QuantizedMatrix::new(inputs, vec![weight], &[], 1.0, kernel);
            write!(out, "| {} | {inputs} | {outputs} |", kernel.name())?;
            for rows in ROWS {
                let (x, mut y) = (floats(rows * inputs), vec![0.0; rows * outputs]);
                let speed = speed((rows * inputs * outputs) as f64, || {
                    QuantizedRows::with(&x, inputs, |x| {
                        matrix.multiply(x, &mut y, Epilogue::Replace);
                    });
                });
                write!(out, " {speed:.1} |")?;
            }
            writeln!(out)?;
        }
    }
    Ok(())
}

/// 10⁹ multiplications per second of `product`, which has `work` of them.
fn speed(work: f64, mut product: impl FnMut()) -> f64 {
    let repetitions = (WORK / work).ceil();
    let mut speeds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            (0..repetitions as usize).for_each(|_| product());
            repetitions * work / start.elapsed().as_secs_f64() / 1e9
        })
        .collect();
    speeds.sort_by(f64::total_cmp);
    speeds[ROUNDS / 2]
}
