//! Weights files of quantized models.
//!
//! A matrix is stored in the order in which the kernels read it, so that it is used where it lies in
//! the mapped file, which all processes share. Beside it are a scale for each column, and the sum of
//! the bytes of each column.

use std::borrow::Cow;

use safetensors::{Dtype, tensor::TensorInfo};
use tx_engine::QuantizedLayout;
use tx_kernels::{MAX_INPUTS, QuantizedTable, QuantizedWeight, SharedBytes};
use tx_model::{Architecture, ModelConfig, VocabSizes, WeightShape};

use super::{WeightsFile, values};
use crate::error::InferError;

/// Columns of a panel.
const PANEL: usize = 32;

/// Inputs to whose multiple a panel is padded.
const STEP: usize = 64;

/// Name of the scales of a quantized weight.
pub(in crate::bundle) fn scale_name(weight: &str) -> String {
    format!("{weight}.scale")
}

/// Name of the sums of a quantized weight.
pub(in crate::bundle) fn sum_name(weight: &str) -> String {
    format!("{weight}.sum")
}

/// A tensor of a weights file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::bundle) struct StoredTensor {
    /// Name of the weight, or of its scales or sums.
    pub(in crate::bundle) name: String,
    pub(in crate::bundle) shape: Vec<usize>,
    pub(in crate::bundle) dtype: Dtype,
}

impl StoredTensor {
    pub(in crate::bundle) fn new(name: String, shape: &[usize], dtype: Dtype) -> Self {
        Self { name, shape: shape.to_vec(), dtype }
    }
}

/// Tensors in which a weight of a quantized model is stored.
pub(in crate::bundle) fn stored(
    weight: &WeightShape,
    layout: QuantizedLayout,
) -> Vec<StoredTensor> {
    let WeightShape { name, shape, .. } = weight;
    let scales = |count| StoredTensor::new(scale_name(name), &[count], Dtype::F32);
    match layout {
        QuantizedLayout::Panels { inputs, outputs, .. } => {
            let groups = inputs.next_multiple_of(STEP) / 4;
            let panels = [outputs.div_ceil(PANEL), groups, PANEL, 4];
            vec![
                StoredTensor::new(name.clone(), &panels, Dtype::I8),
                scales(outputs),
                StoredTensor::new(sum_name(name), &[outputs], Dtype::I32),
            ]
        }
        QuantizedLayout::Table { rows, width } => {
            vec![StoredTensor::new(name.clone(), &[rows, width], Dtype::I8), scales(rows)]
        }
        QuantizedLayout::F32 => vec![StoredTensor::new(name.clone(), shape, Dtype::F32)],
    }
}

/// Returns the problem of a model that cannot be quantized, because sums of products could exceed 32
/// bits.
pub(in crate::bundle) fn too_many_inputs(
    config: &ModelConfig,
    architecture: Architecture,
    vocab: VocabSizes,
) -> Option<String> {
    let layouts = QuantizedLayout::of_weights(config, architecture, vocab);
    let too_many = |(weight, layout): &(WeightShape, QuantizedLayout)| match layout {
        QuantizedLayout::Panels { inputs, .. } if *inputs > MAX_INPUTS => Some(format!(
            "weight `{}` has {inputs} inputs; int8 allows at most {MAX_INPUTS}",
            weight.name
        )),
        _ => None,
    };
    layouts.iter().find_map(too_many)
}

impl WeightsFile {
    /// Values of a weight of a quantized model in single precision; `None` if there is no such
    /// weight.
    pub(super) fn dequantized(
        &self,
        name: &str,
        layout: QuantizedLayout,
    ) -> Option<Cow<'_, [f32]>> {
        Some(match layout {
            QuantizedLayout::Panels { inputs, is_transposed, .. } => {
                Cow::Owned(self.quantized(name)?.dequantize(inputs, is_transposed))
            }
            QuantizedLayout::Table { width, .. } => {
                Cow::Owned(self.quantized_table(name)?.dequantize(width))
            }
            QuantizedLayout::F32 => values(self.bytes_of(name)?),
        })
    }

    /// A matrix, whose panels remain in the mapped file.
    pub(super) fn quantized(&self, name: &str) -> Option<QuantizedWeight> {
        let sums = self.bytes_of(&sum_name(name))?.as_chunks().0;
        Some(QuantizedWeight {
            panels: self.shared(name)?,
            scales: values(self.bytes_of(&scale_name(name))?).into_owned(),
            sums: sums.iter().map(|&bytes| i32::from_le_bytes(bytes)).collect(),
        })
    }

    /// A table, which remains in the mapped file.
    pub(super) fn quantized_table(&self, name: &str) -> Option<QuantizedTable> {
        Some(QuantizedTable {
            bytes: self.shared(name)?,
            scales: values(self.bytes_of(&scale_name(name))?).into_owned(),
        })
    }

    /// Bytes of a quantized weight with a row for each output or token, and the scales of the rows.
    pub(in crate::bundle) fn quantized_rows(&self, name: &str) -> Option<(Vec<i8>, Vec<f32>)> {
        let (_, layout) = self.layouts.iter().find(|(weight, _)| weight.name == name)?;
        match *layout {
            QuantizedLayout::Panels { inputs, .. } => {
                let weight = self.quantized(name)?;
                Some((weight.columns(inputs), weight.scales))
            }
            QuantizedLayout::Table { .. } => {
                let QuantizedTable { bytes, scales } = self.quantized_table(name)?;
                Some((bytes.as_slice().iter().map(|&byte| byte as i8).collect(), scales))
            }
            QuantizedLayout::F32 => None,
        }
    }

    /// Rejects scales, sums and padding that are not those of a quantized weight. See
    /// [`check_values`](Self::check_values).
    pub(super) fn check_quantized(&self, part: usize, parts: usize) -> Result<(), InferError> {
        let weights = self.layouts.iter().enumerate();
        for (_, (weight, layout)) in weights.filter(|(index, _)| index % parts == part) {
            let name = &weight.name;
            let problem = match *layout {
                QuantizedLayout::Panels { inputs, .. } => {
                    self.quantized(name).and_then(|weight| weight.problem(inputs))
                }
                QuantizedLayout::Table { width, .. } => {
                    self.quantized_table(name).and_then(|table| table.problem(width))
                }
                QuantizedLayout::F32 => None,
            };
            if let Some(problem) = problem {
                let problem = format!("weight `{name}` {problem}");
                return Err(InferError::Weights { path: self.path.clone(), problem });
            }
        }
        Ok(())
    }

    fn info(&self, name: &str) -> Option<&TensorInfo> {
        self.metadata.info(name)
    }

    fn bytes_of(&self, name: &str) -> Option<&[u8]> {
        self.bytes.get(self.range(self.info(name)?))
    }

    fn shared(&self, name: &str) -> Option<SharedBytes> {
        self.bytes.shared().part(self.range(self.info(name)?))
    }
}
