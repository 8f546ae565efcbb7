//! Products of quantized rows and quantized weights.
//!
//! A kernel sums products of bytes exactly in 32 bits, so all kernels find the same sums. The
//! epilogue scales them, adds the bias, and stores, adds or activates the result with the same
//! operations in each kernel, so results are bit-identical on all CPUs.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod matrix_unit;
mod reference;
#[cfg(target_arch = "x86_64")]
mod tile;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
mod wasm;
#[cfg(all(target_arch = "wasm32", target_feature = "relaxed-simd"))]
mod wasm_relaxed;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "x86_64")]
use crate::amx::Amx;
#[cfg(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    all(target_arch = "wasm32", target_feature = "simd128")
))]
use crate::instruction_set::Instructions;
use crate::{
    instruction_set::InstructionSet, layout::PANEL, quantized_rows::QuantizedRows, vector::mul_add,
};

/// Instructions that multiply quantized rows and weights.
#[derive(Debug, Clone, Copy)]
pub struct Int8Kernel(Kind);

#[derive(Debug, Clone, Copy)]
enum Kind {
    /// Tiles for many rows, and the vectors of [`Avx512Vnni`](Self::Avx512Vnni) for few.
    #[cfg(target_arch = "x86_64")]
    Amx(Amx, x86_64::Avx512Vnni),
    #[cfg(target_arch = "x86_64")]
    Avx512Vnni(x86_64::Avx512Vnni),
    #[cfg(target_arch = "x86_64")]
    AvxVnni(x86_64::AvxVnni),
    #[cfg(target_arch = "x86_64")]
    Avx2(x86_64::Avx2),
    #[cfg(target_arch = "aarch64")]
    NeonDot(aarch64::NeonDot),
    #[cfg(all(target_arch = "wasm32", target_feature = "relaxed-simd"))]
    RelaxedDot(wasm_relaxed::RelaxedDot),
    #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
    Simd128(wasm::Simd128),
    /// Plain loops, for tests.
    Reference,
}

impl Int8Kernel {
    /// Returns the fastest kernel for a CPU with these instructions; `None` if it has none of those
    /// that kernels use, so that single precision is faster.
    pub fn for_instructions(set: InstructionSet) -> Option<Self> {
        Self::available(set).into_iter().next()
    }

    /// All kernels for a CPU with these instructions, the fastest first.
    fn available(set: InstructionSet) -> Vec<Self> {
        // Detection again, because the set may have been made by hand.
        let detected = InstructionSet::detected();
        Self::of(set.iter().filter(|&one| detected.contains(one)).collect())
    }

    #[cfg(target_arch = "x86_64")]
    fn of(set: InstructionSet) -> Vec<Self> {
        let mut found = Vec::new();
        let has = |one: Instructions| set.contains(one);
        let vectors = has(Instructions::Avx512Vnni).then(x86_64::Avx512Vnni::new).flatten();
        if let Some(vectors) = vectors {
            let amx = has(Instructions::AmxInt8).then(Amx::new).flatten();
            found.extend(amx.map(|amx| Self(Kind::Amx(amx, vectors))));
            found.push(Self(Kind::Avx512Vnni(vectors)));
        }
        let vectors = has(Instructions::AvxVnni).then(x86_64::AvxVnni::new).flatten();
        found.extend(vectors.map(|vectors| Self(Kind::AvxVnni(vectors))));
        let vectors = has(Instructions::Avx2).then(x86_64::Avx2::new).flatten();
        found.extend(vectors.map(|vectors| Self(Kind::Avx2(vectors))));
        found
    }

    #[cfg(target_arch = "aarch64")]
    fn of(set: InstructionSet) -> Vec<Self> {
        let vectors = set.contains(Instructions::NeonDot).then(aarch64::NeonDot::new).flatten();
        vectors.map(|vectors| Self(Kind::NeonDot(vectors))).into_iter().collect()
    }

    #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
    fn of(set: InstructionSet) -> Vec<Self> {
        let mut found = Vec::new();
        #[cfg(target_feature = "relaxed-simd")]
        if set.contains(Instructions::WasmRelaxedDot) {
            let vectors = wasm_relaxed::RelaxedDot::new();
            found.extend(vectors.map(|vectors| Self(Kind::RelaxedDot(vectors))));
        }
        let vectors = set.contains(Instructions::WasmSimd128).then_some(wasm::Simd128);
        found.extend(vectors.map(|vectors| Self(Kind::Simd128(vectors))));
        found
    }

    #[cfg(not(any(
        target_arch = "x86_64",
        target_arch = "aarch64",
        all(target_arch = "wasm32", target_feature = "simd128")
    )))]
    fn of(_set: InstructionSet) -> Vec<Self> {
        Vec::new()
    }

    /// Kernel of plain loops, which is slower than products in single precision.
    pub fn reference() -> Self {
        Self(Kind::Reference)
    }

    /// Returns the name of the instructions.
    pub fn name(self) -> &'static str {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Kind::Amx(..) => Instructions::AmxInt8.name(),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512Vnni(_) => Instructions::Avx512Vnni.name(),
            #[cfg(target_arch = "x86_64")]
            Kind::AvxVnni(_) => Instructions::AvxVnni.name(),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2(_) => Instructions::Avx2.name(),
            #[cfg(target_arch = "aarch64")]
            Kind::NeonDot(_) => Instructions::NeonDot.name(),
            #[cfg(all(target_arch = "wasm32", target_feature = "relaxed-simd"))]
            Kind::RelaxedDot(_) => Instructions::WasmRelaxedDot.name(),
            #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
            Kind::Simd128(_) => Instructions::WasmSimd128.name(),
            Kind::Reference => "reference",
        }
    }

    /// Computes the product.
    ///
    /// # Panics
    ///
    /// If slices of `product` do not have their documented lengths.
    pub(crate) fn run(self, mut product: Product<'_>) {
        product.check();
        if product.rows() == 0 {
            return;
        }
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Kind::Amx(amx, vectors) if product.rows() >= matrix_unit::FEW_ROWS => {
                matrix_unit::multiply(amx, vectors, &mut product);
            }
            #[cfg(target_arch = "x86_64")]
            Kind::Amx(_, vectors) | Kind::Avx512Vnni(vectors) => vectors.multiply(&mut product),
            #[cfg(target_arch = "x86_64")]
            Kind::AvxVnni(vectors) => vectors.multiply(&mut product),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2(vectors) => vectors.multiply(&mut product),
            #[cfg(target_arch = "aarch64")]
            Kind::NeonDot(vectors) => vectors.multiply(&mut product),
            #[cfg(all(target_arch = "wasm32", target_feature = "relaxed-simd"))]
            Kind::RelaxedDot(vectors) => vectors.multiply(&mut product),
            #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
            Kind::Simd128(vectors) => vectors.multiply(&mut product),
            Kind::Reference => reference::multiply(&mut product),
        }
    }
}

/// Use of the result of a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Epilogue {
    /// Replaces the content of `y`.
    Replace,
    /// Is added to the content of `y`: the residual.
    Add,
    /// Replaces the content of `y` by its positive part.
    Relu,
}

/// Product of quantized rows with columns of quantized weights, `y = x W + b`.
#[derive(Debug)]
pub(crate) struct Product<'a> {
    /// `[rows, padded inputs]`
    pub(crate) x: &'a QuantizedRows,
    /// Panels of `[padded inputs / 4, PANEL, 4]` signed bytes.
    pub(crate) panels: &'a [u8],
    /// Scale of each column, `[panels · PANEL]`.
    pub(crate) scales: &'a [f32],
    /// Sums of each column of weights times the negative of the byte that stands for zero,
    /// `[panels · PANEL]`.
    pub(crate) offsets: &'a [i32],
    /// `[panels · PANEL]`
    pub(crate) bias: &'a [f32],
    /// Rows of which this product computes `columns` columns from `first` on.
    pub(crate) y: &'a mut [f32],
    /// Elements from one row of `y` to the next.
    pub(crate) stride: usize,
    pub(crate) first: usize,
    pub(crate) columns: usize,
    pub(crate) epilogue: Epilogue,
}

impl Product<'_> {
    fn rows(&self) -> usize {
        self.x.scales.len()
    }

    /// Inputs with padding.
    fn inputs(&self) -> usize {
        self.x.bytes.len() / self.rows().max(1)
    }

    /// Checks all lengths.
    fn check(&self) {
        let (rows, inputs, width) = (self.rows(), self.inputs(), self.bias.len());
        assert!(inputs.is_multiple_of(crate::layout::STEP), "inputs");
        assert_eq!(self.x.bytes.len(), rows * inputs, "x");
        assert!(rows == 0 || self.panels.len() == width * inputs, "panels");
        assert_eq!((self.scales.len(), self.offsets.len()), (width, width), "columns of weights");
        assert_eq!(width, self.columns.next_multiple_of(PANEL), "columns");
        assert!(self.first + self.columns <= self.stride, "columns of y");
        assert_eq!(self.y.len(), rows * self.stride, "y");
    }

    /// Columns of panel `index` that exist.
    fn width(&self, index: usize) -> usize {
        PANEL.min(self.columns - index * PANEL)
    }

    /// Applies the epilogue to the sums of one row in panel `index`, which include the offsets.
    #[inline(always)]
    fn finish(&mut self, row: usize, index: usize, sums: &[i32; PANEL]) {
        let (start, width) = (index * PANEL, self.width(index));
        let x_scale = self.x.scales[row];
        let scales = &self.scales[start..start + PANEL];
        let bias = &self.bias[start..start + PANEL];
        let mut result = [0.0; PANEL];
        for column in 0..PANEL {
            let scale = x_scale * scales[column];
            result[column] = mul_add(sums[column] as f32, scale, bias[column]);
        }
        let y = &mut self.y[row * self.stride + self.first + start..][..width];
        match self.epilogue {
            Epilogue::Replace => y.copy_from_slice(&result[..width]),
            Epilogue::Add => y.iter_mut().zip(result).for_each(|(y, result)| *y += result),
            // Not `max`, which would turn NaN into 0.
            Epilogue::Relu => y.iter_mut().zip(result).for_each(|(y, result)| {
                *y = if result <= 0.0 { 0.0 } else { result };
            }),
        }
    }
}

#[cfg(test)]
mod tests;
