use super::*;

/// Numbers in -1..1 that depend only on `start`.
fn noise(start: u32, count: usize) -> Vec<f32> {
    let value = |i: u32| (start + i).wrapping_mul(2_654_435_761) >> 8;
    (0..count as u32).map(|i| value(i) as f32 / (1 << 23) as f32 - 1.0).collect()
}

/// `x W + b` in double precision.
fn expected(x: &[f32], weight: &[f32], bias: &[f32], inputs: usize) -> Vec<f64> {
    let outputs = bias.len();
    let mut y = Vec::new();
    for row in x.chunks_exact(inputs) {
        for (column, &bias) in bias.iter().enumerate() {
            let products = row
                .iter()
                .enumerate()
                .map(|(input, &x)| f64::from(x) * f64::from(weight[input * outputs + column]));
            y.push(products.sum::<f64>() + f64::from(bias));
        }
    }
    y
}

/// All heights of tiles, and sizes around the edges of tiles, panels and unrolled loops.
#[test]
fn products_equal_those_of_a_plain_loop() {
    for rows in (0..=12).chain([21, 22, 23, 33, 70]) {
        for (inputs, outputs) in
            [(1, 1), (3, 31), (4, 32), (5, 33), (12, 64), (17, 65), (64, 7), (129, 100)]
        {
            let x = noise(1, rows * inputs);
            let weight = noise(77, inputs * outputs);
            let bias = noise(999, outputs);
            let matrix = PackedMatrix::new(inputs, &[&weight], bias.clone(), 1.0, false);
            let expected = expected(&x, &weight, &bias, inputs);
            let assert_close = |found: &[f32], times: f64, what: &str| {
                for (found, expected) in found.iter().zip(&expected) {
                    let gap = (f64::from(*found) - times * expected).abs();
                    assert!(gap < 2e-5, "{rows}×{inputs}×{outputs} {what}: {gap:.1e}");
                }
            };
            let mut y = vec![f32::NAN; rows * outputs];
            matrix.product(&x, &mut y);
            assert_close(&y, 1.0, "product");
            matrix.add_product(&x, &mut y);
            assert_close(&y, 2.0, "sum");

            let turned: Vec<f32> = (0..outputs)
                .flat_map(|column| (0..inputs).map(move |input| input * outputs + column))
                .map(|at| weight[at])
                .collect();
            let turned = PackedMatrix::transposed(inputs, &turned, bias.clone(), false);
            assert_eq!((turned.inputs(), turned.outputs()), (inputs, outputs));
            turned.product(&x, &mut y);
            assert_close(&y, 1.0, "transposed");
        }
    }
}

/// Most sizes have a last panel that is not full. With 8,192 inputs, a single panel has enough
/// weights to be shared.
#[test]
fn a_shared_product_is_bit_identical() {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
    for (inputs, outputs) in
        [(300, 4 * PARALLEL_THRESHOLD / 300 + 5), (8_192, 32), (8_192, 33), (16_384, 65)]
    {
        let weight = noise(3, inputs * outputs);
        let bias = noise(4, outputs);
        let matrix = PackedMatrix::new(inputs, &[&weight], bias, 1.0, true);
        for rows in [1, 2, FEW, FEW + 1] {
            let what = format!("{rows} rows of {inputs} by {outputs}");
            let x = noise(5, rows * inputs);
            let (mut alone, mut shared) = (noise(6, rows * outputs), noise(6, rows * outputs));
            matrix.add_product(&x, &mut alone);
            pool.install(|| matrix.add_product(&x, &mut shared));
            assert_eq!(alone, shared, "{what}, added");
            matrix.product(&x, &mut alone);
            pool.install(|| matrix.product(&x, &mut shared));
            assert_eq!(alone, shared, "{what}");
        }
    }
}

#[test]
fn a_thread_without_helpers_has_them_again_afterwards() {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    let found = pool.install(|| {
        let panicked = std::panic::catch_unwind(|| without_helpers(|| panic!("inside")));
        let nested = without_helpers(|| (without_helpers(has_helpers), has_helpers()));
        (panicked.is_err(), nested, has_helpers())
    });
    assert_eq!(found, (true, (false, false), true));
    assert!(!has_helpers());
}

#[test]
fn blocks_of_columns_cover_the_matrix() {
    let (inputs, outputs, rows) = (6, 100, 3);
    let x = noise(5, rows * inputs);
    let weight = noise(6, inputs * outputs);
    let matrix = PackedMatrix::new(inputs, &[&weight], Vec::new(), 1.0, false);
    let mut whole = vec![0.0; rows * outputs];
    matrix.product(&x, &mut whole);
    let mut seen = 0;
    for block in matrix.blocks(40) {
        assert_eq!(block.first, seen);
        let mut y = vec![0.0; rows * block.count];
        block.product(&x, &mut y);
        for (y, whole) in y.chunks_exact(block.count).zip(whole.chunks_exact(outputs)) {
            assert_eq!(y, &whole[block.first..block.first + block.count]);
        }
        seen += block.count;
    }
    assert_eq!(seen, outputs);
}

/// Two matrices whose boundary lies within a panel, divided by 3, packed on one core and on
/// all.
#[test]
fn matrices_side_by_side_are_one_matrix() {
    let inputs = 5;
    for widths in [[8, 8], [20, 40], [32, 1], [33, 64]] {
        let parts = widths.map(|width| noise(width as u32, inputs * width));
        let outputs = widths[0] + widths[1];
        for parallel in [false, true] {
            let weights = [&parts[0][..], &parts[1]];
            let matrix = PackedMatrix::new(inputs, &weights, Vec::new(), 3.0, parallel);
            assert_eq!((matrix.inputs(), matrix.outputs()), (inputs, outputs));
            for column in 0..outputs {
                let (part, place) = match column.checked_sub(widths[0]) {
                    Some(place) => (1, place),
                    None => (0, column),
                };
                let expected: Vec<f32> = (0..inputs)
                    .map(|input| parts[part][input * widths[part] + place] / 3.0)
                    .collect();
                assert_eq!(matrix.column(column).collect::<Vec<_>>(), expected);
            }
        }
    }
}
