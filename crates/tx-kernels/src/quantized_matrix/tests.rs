use super::*;

/// Numbers in -1..1 that depend only on `start`.
fn noise(start: u32, count: usize) -> Vec<f32> {
    let value = |i: u32| (start + i).wrapping_mul(2_654_435_761) >> 8;
    (0..count as u32).map(|i| value(i) as f32 / (1 << 23) as f32 - 1.0).collect()
}

fn kernel() -> Int8Kernel {
    let set = crate::instruction_set::InstructionSet::detected();
    Int8Kernel::for_instructions(set).unwrap_or(Int8Kernel::reference())
}

fn matrix(inputs: usize, widths: &[usize], divisor: f32) -> (Vec<Vec<f32>>, QuantizedMatrix) {
    let weights: Vec<_> = widths.iter().map(|&width| noise(width as u32, inputs * width)).collect();
    let quantize = |weight: &Vec<f32>| QuantizedWeight::quantize(inputs, weight, false, false);
    let quantized = weights.iter().map(quantize).collect();
    let bias = noise(9, widths.iter().sum());
    let matrix = QuantizedMatrix::new(inputs, quantized, &bias, divisor, kernel());
    (weights, matrix)
}

fn product(matrix: &QuantizedMatrix, x: &[f32], epilogue: Epilogue) -> Vec<f32> {
    QuantizedRows::with(x, matrix.inputs(), |x| {
        let mut y = noise(5, x.scales.len() * matrix.outputs());
        matrix.multiply(x, &mut y, epilogue);
        y
    })
}

/// Each element of a product has an error of about half a step per factor.
#[test]
fn products_are_close_to_those_in_single_precision() {
    for widths in [&[40][..], &[20, 40], &[32, 1], &[33, 64]] {
        let (inputs, rows) = (100, 5);
        let (weights, matrix) = matrix(inputs, widths, 2.0);
        let x = noise(3, rows * inputs);
        let y = product(&matrix, &x, Epilogue::Replace);
        let bias = noise(9, matrix.outputs());
        for (row, y) in y.chunks_exact(matrix.outputs()).enumerate() {
            let mut column = 0;
            for (weight, &width) in weights.iter().zip(widths) {
                for of_part in 0..width {
                    let terms = (0..inputs)
                        .map(|input| x[row * inputs + input] * weight[input * width + of_part]);
                    let expected = terms.sum::<f32>() / 2.0 + bias[column];
                    assert!((y[column] - expected).abs() < 0.1, "{} {expected}", y[column]);
                    column += 1;
                }
            }
        }
    }
}

/// Columns of the weights that the projection of a tied model has.
#[test]
fn columns_are_those_of_the_parts() {
    let (weights, matrix) = matrix(7, &[33, 5], 1.0);
    for column in 0..38 {
        let (part, width, of_part) =
            if column < 33 { (0, 33, column) } else { (1, 5, column - 33) };
        let found: Vec<f32> = matrix.column(column).collect();
        assert_eq!(found.len(), 7);
        for (input, found) in found.iter().enumerate() {
            let expected = weights[part][input * width + of_part];
            // Half a step. The largest pair has a sum of up to 2.
            assert!((found - expected).abs() <= 1.01 / 127.0, "{found} {expected}");
        }
    }
}

#[test]
fn blocks_of_columns_cover_the_matrix() {
    let (_, matrix) = matrix(6, &[70, 100], 1.0);
    let x = noise(1, 3 * 6);
    let whole = product(&matrix, &x, Epilogue::Replace);
    QuantizedRows::with(&x, 6, |x| {
        let mut seen = 0;
        for block in matrix.blocks(40) {
            assert_eq!(block.first, seen);
            let mut y = vec![0.0; 3 * block.count];
            block.product(x, &mut y);
            for (y, whole) in y.chunks_exact(block.count).zip(whole.chunks_exact(170)) {
                assert_eq!(y, &whole[block.first..block.first + block.count]);
            }
            seen += block.count;
        }
        assert_eq!(seen, 170);
    });
}

/// Products that are shared by threads, and rows in batches of other sizes.
#[test]
fn threads_and_batches_change_no_bit() {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
    let inputs = 300;
    let (_, matrix) = matrix(inputs, &[2 * PARALLEL_THRESHOLD / inputs + 5, 40], 1.0);
    for rows in [1, 2, FEW, FEW + 1] {
        let x = noise(5, rows * inputs);
        for epilogue in [Epilogue::Replace, Epilogue::Relu] {
            let alone = product(&matrix, &x, epilogue);
            assert_eq!(alone, pool.install(|| product(&matrix, &x, epilogue)), "{rows} rows");
            for (x, alone) in x.chunks(inputs).zip(alone.chunks(matrix.outputs())) {
                assert_eq!(product(&matrix, x, epilogue), alone, "{rows} rows");
            }
        }
        let alone = product(&matrix, &x, Epilogue::Add);
        assert_eq!(alone, pool.install(|| product(&matrix, &x, Epilogue::Add)), "{rows} rows");
    }
}
