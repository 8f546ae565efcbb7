use super::*;
use crate::{layout::STEP, quantized_weight::QuantizedWeight};

/// Random numbers (xorshift) that depend only on the seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Number from 1 to `most`.
    fn up_to(&mut self, most: usize) -> usize {
        1 + (self.next() >> 20) as usize % most
    }

    fn float(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1 << 23) as f32 - 1.0
    }

    fn floats(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.float()).collect()
    }
}

/// Kernels of this CPU, and the matrix unit or its emulation.
fn kernels() -> Vec<Int8Kernel> {
    #[allow(unused_mut)]
    let mut kernels = Int8Kernel::available(InstructionSet::detected());
    #[cfg(target_arch = "x86_64")]
    if let (Some(amx), Some(vectors)) = (crate::amx::tests::amx(), x86_64::Avx512Vnni::new()) {
        kernels.insert(0, Int8Kernel(Kind::Amx(amx, vectors)));
    }
    kernels
}

/// Kernels other than the matrix unit, whose emulation is slow.
fn vectors() -> Vec<Int8Kernel> {
    kernels().into_iter().filter(|kernel| kernel.name() != "amx-int8").collect()
}

/// A product with all its operands.
struct Case {
    x: QuantizedRows,
    weight: QuantizedWeight,
    scales: Vec<f32>,
    offsets: Vec<i32>,
    bias: Vec<f32>,
    y: Vec<f32>,
    /// Columns of `y` before and after those of the product.
    margin: usize,
}

impl Case {
    /// Bytes and scales of any value.
    fn random(random: &mut Random, rows: usize, inputs: usize, outputs: usize) -> Self {
        let padded = inputs.next_multiple_of(STEP);
        let mut bytes = vec![0; rows * padded];
        for row in bytes.chunks_exact_mut(padded) {
            row[..inputs].iter_mut().for_each(|byte| *byte = random.next() as u8);
        }
        let weight = random.floats(inputs * outputs);
        let margin = random.up_to(3) - 1;
        let y = random.floats(rows * (outputs + 2 * margin));
        let x = QuantizedRows { bytes, scales: random.floats(rows) };
        let weight = QuantizedWeight::quantize(inputs, &weight, false, false);
        Self::new(x, weight, random.floats(outputs), y, margin)
    }

    fn new(
        x: QuantizedRows,
        weight: QuantizedWeight,
        mut bias: Vec<f32>,
        y: Vec<f32>,
        margin: usize,
    ) -> Self {
        let padded = bias.len().next_multiple_of(PANEL);
        bias.resize(padded, 0.0);
        let mut scales = weight.scales.clone();
        scales.resize(padded, 0.0);
        let mut offsets: Vec<i32> = weight.sums.iter().map(|sum| -128 * sum).collect();
        offsets.resize(padded, 0);
        Self { x, weight, scales, offsets, bias, y, margin }
    }

    /// Bits of `y` after the product.
    fn run(&self, kernel: Int8Kernel, epilogue: Epilogue) -> Vec<u32> {
        let columns = self.weight.scales.len();
        let mut y = self.y.clone();
        kernel.run(Product {
            x: &self.x,
            panels: self.weight.panels.as_slice(),
            scales: &self.scales,
            offsets: &self.offsets,
            bias: &self.bias,
            y: &mut y,
            stride: columns + 2 * self.margin,
            first: self.margin,
            columns,
            epilogue,
        });
        y.into_iter().map(f32::to_bits).collect()
    }

    fn check(&self, kernels: &[Int8Kernel], what: &str) {
        for epilogue in [Epilogue::Replace, Epilogue::Add, Epilogue::Relu] {
            let expected = self.run(Int8Kernel::reference(), epilogue);
            for &kernel in kernels {
                let name = kernel.name();
                assert!(self.run(kernel, epilogue) == expected, "{name}, {what}, {epilogue:?}");
            }
        }
    }
}

/// x = (1, -2) · 0.5 with scale 0.5, W = ((3, 0), (1, -1)) with scales (2, 1), b = (10, 20):
/// (1 · 3 - 2 · 1) · 0.5 · 2 + 10 = 11, and (2 · 1) · 0.5 · 1 + 20 = 21.
#[test]
fn a_product_by_hand() {
    let mut bytes = vec![0; STEP];
    bytes[..2].copy_from_slice(&[129, 126]);
    let x = QuantizedRows { bytes, scales: vec![0.5] };
    let mut panels = vec![0; PANEL * STEP];
    panels[..8].copy_from_slice(&[3, 1, 0, 0, 0, 255, 0, 0]);
    let weight =
        QuantizedWeight { panels: panels.into(), scales: vec![2.0, 1.0], sums: vec![4, -1] };
    let case = Case::new(x, weight, vec![10.0, 20.0], vec![1.0, 2.0], 0);
    for kernel in kernels().into_iter().chain([Int8Kernel::reference()]) {
        let run = |epilogue| -> Vec<f32> {
            case.run(kernel, epilogue).into_iter().map(f32::from_bits).collect()
        };
        assert_eq!(run(Epilogue::Replace), [11.0, 21.0], "{}", kernel.name());
        assert_eq!(run(Epilogue::Add), [12.0, 23.0], "{}", kernel.name());
        assert_eq!(run(Epilogue::Relu), [11.0, 21.0], "{}", kernel.name());
    }
}

/// All numbers of inputs modulo 64, of outputs modulo 32, and 1 to 40 rows.
#[test]
fn kernels_are_bit_identical_at_every_edge() {
    let mut random = Random(1);
    let kernels = vectors();
    for inputs in 1..=2 * STEP {
        Case::random(&mut random, 1 + inputs % 5, inputs, 33).check(&kernels, "inputs");
    }
    for outputs in 1..=2 * PANEL + 1 {
        Case::random(&mut random, 1 + outputs % 5, 70, outputs).check(&kernels, "outputs");
    }
    for rows in 0..=40 {
        Case::random(&mut random, rows, 100, 50).check(&kernels, "rows");
    }
}

/// The same for the matrix unit, which needs at least eight rows.
#[test]
fn tiles_are_bit_identical_at_every_edge() {
    let mut random = Random(2);
    let kernels: Vec<_> =
        kernels().into_iter().filter(|kernel| kernel.name() == "amx-int8").collect();
    for rows in (0..=40).chain([64, 65]) {
        let (inputs, outputs) = (random.up_to(130), random.up_to(70));
        Case::random(&mut random, rows, inputs, outputs).check(&kernels, "rows");
    }
}

#[test]
fn ten_thousand_random_shapes_are_bit_identical() {
    let mut random = Random(3);
    let kernels = vectors();
    for number in 0..10_000 {
        let (rows, inputs) = (random.up_to(40), random.up_to(200));
        let outputs = random.up_to(70);
        let case = Case::random(&mut random, rows, inputs, outputs);
        case.check(&kernels, &format!("shape {number}: {rows}×{inputs}×{outputs}"));
    }
}

/// The largest and smallest bytes everywhere, beside others that make the sums of pairs as large as possible, with the
/// largest number of inputs of a common model.
#[test]
fn extreme_values_do_not_overflow() {
    let inputs = 8_192;
    for (byte, weights) in [
        (255_u8, [127_i8, 1]),
        (255, [64, 64]),
        (255, [-127, -1]),
        (255, [-64, -64]),
        (255, [-128, 0]),
        (255, [127, -128]),
        (1, [127, 1]),
        (1, [-64, -64]),
        (0, [-128, 0]),
    ] {
        let x = QuantizedRows { bytes: vec![byte; 9 * inputs], scales: vec![1.0; 9] };
        let pair = weights.map(|weight| weight as u8);
        let sum = i32::from(weights[0]) + i32::from(weights[1]);
        let weight = QuantizedWeight {
            panels: pair.repeat(PANEL * inputs / 2).into(),
            scales: vec![1.0; PANEL],
            sums: vec![sum * inputs as i32 / 2; PANEL],
        };
        let expected = (i32::from(byte) - 128) * weight.sums[0];
        let case = Case::new(x, weight, vec![0.0; PANEL], vec![0.0; 9 * PANEL], 0);
        for kernel in kernels().into_iter().chain([Int8Kernel::reference()]) {
            let found = case.run(kernel, Epilogue::Replace);
            assert!(
                found.iter().all(|&y| f32::from_bits(y) == expected as f32),
                "{}",
                kernel.name()
            );
        }
    }
}

/// Rows with the scale zero give the bias, and rows with the scale NaN give NaN.
#[test]
fn rows_without_a_usable_scale() {
    let mut case = Case::random(&mut Random(4), 9, 64, 33);
    case.x.scales.fill(0.0);
    case.x.scales[3] = f32::NAN;
    case.check(&kernels(), "scales");
    let columns = 33 + 2 * case.margin;
    for (row, y) in case.run(Int8Kernel::reference(), Epilogue::Relu).chunks(columns).enumerate() {
        for (y, bias) in y[case.margin..].iter().zip(&case.bias[..33]) {
            let y = f32::from_bits(*y);
            assert!(if row == 3 { y.is_nan() } else { y == bias.max(0.0) }, "{row} {y} {bias}");
        }
    }
}
