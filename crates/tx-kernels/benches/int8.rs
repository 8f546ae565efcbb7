//! Speed of products in int8 with each kernel of this CPU, on one core.
//!
//! `cargo bench --workspace --bench int8`
//!
//! Prints 10⁹ multiplications and additions per second, medians of several rounds, for one row of input as in
//! greedy search of one sentence, five as in its beam search, and 32 and 160 of a batch.

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
    quantized_matrix::QuantizedMatrix,
    quantized_rows::QuantizedRows,
    quantized_weight::QuantizedWeight,
};

/// Number of timed rounds.
const ROUNDS: usize = 9;

/// Multiplications of a round.
const WORK: f64 = 2e9;

fn main() -> Result<(), Box<dyn Error>> {
    let detected = InstructionSet::detected();
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let mut floats =
        |count: usize| -> Vec<f32> { (0..count).map(|_| random.random_range(-1.0..1.0)).collect() };
    let mut out = stdout().lock();
    writeln!(out, "| kernel | inputs | outputs | 1 row | 5 rows | 32 rows | 160 rows |")?;
    writeln!(out, "|---|---:|---:|---:|---:|---:|---:|")?;
    for one in Instructions::ALL.into_iter().filter(|&one| detected.contains(one)) {
        let set = detected.limited_to(one.name().parse()?);
        let Some(kernel) = Int8Kernel::for_instructions(set).filter(|it| it.name() == one.name())
        else {
            continue;
        };
        for (inputs, outputs) in [(64, 256), (256, 1_024), (512, 2_048), (2_048, 512)] {
            let weight = QuantizedWeight::quantize(inputs, &floats(inputs * outputs), false, false);
            let matrix = QuantizedMatrix::new(inputs, vec![weight], &[], 1.0, kernel);
            write!(out, "| {} | {inputs} | {outputs} |", kernel.name())?;
            for rows in [1, 5, 32, 160] {
                let (x, mut y) = (floats(rows * inputs), vec![0.0; rows * outputs]);
                let work = (rows * inputs * outputs) as f64;
                let repetitions = (WORK / work).ceil();
                let mut speeds: Vec<f64> = (0..ROUNDS)
                    .map(|_| {
                        let start = Instant::now();
                        for _ in 0..repetitions as usize {
                            QuantizedRows::with(&x, inputs, |x| {
                                matrix.multiply(x, &mut y, Epilogue::Replace);
                            });
                        }
                        repetitions * work / start.elapsed().as_secs_f64() / 1e9
                    })
                    .collect();
                speeds.sort_by(f64::total_cmp);
                write!(out, " {:.1} |", speeds[ROUNDS / 2])?;
            }
            writeln!(out)?;
        }
    }
    Ok(())
}
