use super::*;

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod emulator;

/// The unit, or its emulation by a signal handler on a CPU that has none.
pub(crate) fn amx() -> Option<Amx> {
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    return Amx::new().or_else(|| {
        emulator::install();
        Some(Amx(()))
    });
    #[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
    return None;
}

/// Bytes that depend only on `seed`.
fn noise(seed: u32, count: usize) -> Vec<u8> {
    let value = |i: u32| ((seed + i).wrapping_mul(2_654_435_761) >> 21) as u8;
    (0..count as u32).map(value).collect()
}

/// Small integers as bf16 numbers, whose sums of products are exact in any order.
fn integers(seed: u32, count: usize) -> Vec<u16> {
    let bits = |byte: u8| (f32::from(byte % 17) - 8.0).to_bits() >> 16;
    noise(seed, count).into_iter().map(|byte| bits(byte) as u16).collect()
}

/// All heights of a block, several numbers of steps, and strides larger than a row.
#[test]
fn blocks_of_bytes_equal_the_reference() {
    let Some(amx) = amx() else { return };
    for rows in 1..=MAX_ROWS {
        for (steps, gap) in [(0, 0), (1, 0), (2, 3), (5, 64)] {
            let inputs = steps * I8_STEP;
            let x = noise(1, rows * (inputs + gap));
            let x = Rows::new(&x[..x.len() - gap], inputs + gap);
            let panel = noise(7, inputs * COLUMNS);
            for start in [Start::Zero, Start::Content] {
                let stride = COLUMNS + gap;
                let mut expected: Vec<i32> = (0..(rows * stride) as i32).collect();
                let mut found = expected.clone();
                let y = RowsMut { values: &mut expected, stride };
                reference_i8(rows, x, &panel, y, start);
                let y = RowsMut { values: &mut found, stride };
                amx.with_tiles(rows, |tiles| tiles.multiply_i8(x, &panel, y, start));
                assert_eq!(found, expected, "{rows} rows, {steps} steps, {start:?}");
            }
        }
    }
}

/// 255 · 127 and 255 · −128 in every place.
#[test]
fn extreme_bytes_do_not_saturate() {
    let Some(amx) = amx() else { return };
    let inputs = 4 * I8_STEP;
    let x = vec![255; MAX_ROWS * inputs];
    let x = Rows::new(&x, inputs);
    for weight in [127_i8, -128] {
        let panel = vec![weight as u8; inputs * COLUMNS];
        let mut y = vec![0; MAX_ROWS * COLUMNS];
        amx.with_tiles(MAX_ROWS, |tiles| {
            let y = RowsMut { values: &mut y, stride: COLUMNS };
            tiles.multiply_i8(x, &panel, y, Start::Zero);
        });
        assert_eq!(y, vec![255 * i32::from(weight) * inputs as i32; MAX_ROWS * COLUMNS]);
    }
}

#[test]
#[allow(unsafe_code)]
fn blocks_of_bf16_numbers_equal_the_reference() {
    let Some(amx) = amx() else { return };
    let bias: Vec<f32> = (0..COLUMNS).map(|i| i as f32 / 2.0).collect();
    let block: Vec<f32> = (0..MAX_ROWS * COLUMNS).map(|i| i as f32 / 4.0).collect();
    for rows in 1..=MAX_ROWS {
        for (steps, gap) in [(0, 0), (1, 0), (2, 3), (5, 64)] {
            let inputs = steps * BF16_STEP;
            let x = integers(1, rows * (inputs + gap));
            // Rows one after the other, and parts of rows one after the other.
            let by_rows = Rows::new(&x[..x.len() - gap], inputs + gap);
            let by_parts = Rows { values: &x, stride: BF16_STEP, step: rows * BF16_STEP };
            let panels = [7, 8].map(|seed| integers(seed, inputs * COLUMNS));
            for start in [Start::Zero, Start::Content, Start::Row(&bias), Start::Block(&block)] {
                let stride = COLUMNS + gap;
                let mut expected: Vec<f32> = (0..rows * stride).map(|i| i as f32).collect();
                let mut found = expected.clone();
                let factors = [(by_rows, &panels[0][..]), (by_parts, &panels[1][..])];
                for ((x, panel), start) in factors.into_iter().zip([start, Start::Content]) {
                    let y = RowsMut { values: &mut expected, stride };
                    reference_bf16(rows, x, panel, y, start);
                }
                let y = RowsPointer { first: found.as_mut_ptr(), stride };
                // SAFETY: `found` has all rows.
                amx.with_tiles(rows, |tiles| unsafe {
                    tiles.multiply_bf16(factors.into_iter(), y, start);
                });
                assert_eq!(found, expected, "{rows} rows, {steps} steps, {start:?}");
            }
        }
    }
}

/// Tiles of two heights, one inside the other, on several threads.
#[test]
fn nested_tiles_are_configured_again() {
    let Some(amx) = amx() else { return };
    let x = noise(3, MAX_ROWS * I8_STEP);
    let x = Rows::new(&x, I8_STEP);
    let panel = vec![1; I8_STEP * COLUMNS];
    let multiply = |tiles: &Tiles| {
        let mut y = vec![0; tiles.rows() * COLUMNS];
        let rows = RowsMut { values: &mut y, stride: COLUMNS };
        tiles.multiply_i8(x, &panel, rows, Start::Zero);
        let mut expected = vec![0; tiles.rows() * COLUMNS];
        let rows = RowsMut { values: &mut expected, stride: COLUMNS };
        reference_i8(tiles.rows(), x, &panel, rows, Start::Zero);
        assert_eq!(y, expected);
    };
    std::thread::scope(|scope| {
        for rows in [5, 20, 32] {
            scope.spawn(move || {
                amx.with_tiles(rows, |outer| {
                    multiply(outer);
                    amx.with_tiles(17, multiply);
                    multiply(outer);
                });
            });
        }
    });
}

#[test]
fn slices_that_are_too_short_are_refused() {
    let Some(amx) = amx() else { return };
    let refused = |x_len: usize, panel_len: usize, y_len: usize| {
        let (x, panel, mut y) = (vec![0; x_len], vec![0; panel_len], vec![0; y_len]);
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            amx.with_tiles(2, |tiles| {
                let x = Rows::new(&x, I8_STEP);
                let y = RowsMut { values: &mut y, stride: COLUMNS };
                tiles.multiply_i8(x, &panel, y, Start::Zero);
            });
        }));
        result.is_err()
    };
    let (x, panel, y) = (2 * I8_STEP, I8_STEP * COLUMNS, 2 * COLUMNS);
    assert!(!refused(x, panel, y));
    assert!(refused(x - 1, panel, y));
    assert!(refused(x, panel + COLUMNS, y));
    assert!(refused(x, panel, y - 1));
    for rows in [0, MAX_ROWS + 1] {
        assert!(std::panic::catch_unwind(|| amx.with_tiles(rows, |_| ())).is_err());
    }
}
