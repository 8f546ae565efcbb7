//! Quantization: a bundle with matrices of signed bytes, a quarter of the size.

use std::{
    io::{self, BufWriter, Write},
    path::Path,
};

use safetensors::Dtype;
use serde_json::{Map, Value, json};
use tx_engine::QuantizedLayout;
use tx_kernels::{QuantizedTable, QuantizedWeight};
use tx_model::ConfigError;

use super::{
    Bundle, WEIGHTS,
    config::WeightDtype,
    files::NewFolder,
    weights::quantized::{StoredTensor, stored, too_many_inputs},
};
use crate::{
    error::InferError,
    file::{persist, temporary_beside},
};

/// Alignment of the first weight in the file: matrices are read in vectors of this size.
const ALIGNMENT: usize = 64;

/// Models with at least this many weights are quantized by all cores.
const PARALLEL: usize = 1 << 16;

impl Bundle {
    /// Writes the bundle with quantized weights into `folder`, which is created if necessary; a bundle
    /// there is replaced when all weights are written.
    ///
    /// # Errors
    ///
    /// [`InferError::QuantizedWeights`] if the weights are quantized already; [`InferError::Model`] if
    /// a matrix has too many inputs; [`InferError::Write`].
    pub fn quantize(&self, folder: impl AsRef<Path>) -> Result<(), InferError> {
        let folder = folder.as_ref();
        if self.weights.dtype() == WeightDtype::Int8 {
            return Err(InferError::QuantizedWeights { path: self.folder() });
        }
        let (architecture, vocab) = (self.task.architecture(), self.padded());
        if let Some(problem) = too_many_inputs(&self.config, architecture, vocab) {
            return Err(ConfigError { problems: vec![problem] }.into());
        }
        self.check_unread_values()?;
        let layouts = QuantizedLayout::of_weights(&self.config, architecture, vocab);
        let tensors: Vec<StoredTensor> =
            layouts.iter().flat_map(|(weight, layout)| stored(weight, *layout)).collect();
        let contents = self.parts().contents(folder, WeightDtype::Int8)?;

        let created = NewFolder::create(folder)?;
        let path = folder.join(WEIGHTS);
        let write_error = |source| InferError::Write { path: path.clone(), source };
        let temporary = temporary_beside(&path).map_err(write_error)?;
        let mut file = BufWriter::with_capacity(1 << 20, temporary.as_file());
        let mut write = || {
            let ordered = ordered(&layouts, &tensors);
            file.write_all(&header(&ordered)?)?;
            self.write_quantized(&layouts, &mut file)?;
            file.flush()
        };
        write().map_err(write_error)?;
        drop(file);
        self.weights.release();
        contents.write(folder)?;
        persist(temporary, &path).map_err(write_error)?;
        created.keep();
        Ok(())
    }

    /// Writes the tensors in the order of [`ordered`].
    fn write_quantized(
        &self,
        layouts: &[(tx_model::WeightShape, QuantizedLayout)],
        file: &mut impl Write,
    ) -> io::Result<()> {
        let values = |name: &str| match self.weights.weight(name) {
            Some((_, values)) => Ok(values),
            None => Err(io::Error::other(format!("weight `{name}` is missing"))),
        };
        // Lists of numbers are small, so they wait for their place in the file.
        let mut numbers: Vec<u8> = Vec::new();
        let mut tables: Vec<QuantizedTable> = Vec::new();
        for (weight, layout) in layouts {
            let values = values(&weight.name)?;
            let floats = |numbers: &mut Vec<u8>, list: &[f32]| {
                numbers.extend(list.iter().flat_map(|number| number.to_le_bytes()));
            };
            match *layout {
                QuantizedLayout::Panels { inputs, is_transposed, .. } => {
                    let parallel = values.len() >= PARALLEL;
                    let found = QuantizedWeight::quantize(inputs, &values, is_transposed, parallel);
                    file.write_all(found.panels.as_slice())?;
                    floats(&mut numbers, &found.scales);
                    numbers.extend(found.sums.iter().flat_map(|number| number.to_le_bytes()));
                }
                QuantizedLayout::Table { width, .. } => {
                    let table = QuantizedTable::quantize(width, &values);
                    floats(&mut numbers, &table.scales);
                    tables.push(table);
                }
                QuantizedLayout::F32 => floats(&mut numbers, &values),
            }
        }
        file.write_all(&numbers)?;
        tables.iter().try_for_each(|table| file.write_all(table.bytes.as_slice()))
    }
}

/// Tensors in the order of the file: matrices, whose sizes are multiples of [`ALIGNMENT`]; numbers of
/// 32 bits; tables.
fn ordered<'a>(
    layouts: &[(tx_model::WeightShape, QuantizedLayout)],
    tensors: &'a [StoredTensor],
) -> Vec<&'a StoredTensor> {
    let is_table = |tensor: &StoredTensor| {
        let is_table = |layout| matches!(layout, QuantizedLayout::Table { .. });
        layouts.iter().any(|(weight, layout)| weight.name == tensor.name && is_table(*layout))
    };
    let rank = |tensor: &&StoredTensor| match (tensor.dtype, is_table(tensor)) {
        (Dtype::I8, false) => 0,
        (Dtype::I8, true) => 2,
        _ => 1,
    };
    let mut ordered: Vec<&StoredTensor> = tensors.iter().collect();
    ordered.sort_by_key(rank);
    ordered
}

/// Length and text of the header of a safetensors file.
fn header(tensors: &[&StoredTensor]) -> io::Result<Vec<u8>> {
    let mut entries = Map::from_iter([("__metadata__".into(), json!({ "producer": "tx" }))]);
    let mut start = 0_usize;
    for StoredTensor { name, shape, dtype } in tensors {
        let size = if *dtype == Dtype::I8 { 1 } else { 4 };
        let end =
            shape.iter().fold(size, |bytes: usize, &count| bytes.saturating_mul(count)) + start;
        let entry =
            json!({ "dtype": format!("{dtype:?}"), "shape": shape, "data_offsets": [start, end] });
        entries.insert(name.clone(), entry);
        start = end;
    }
    let mut text = serde_json::to_vec(&Value::Object(entries))?;
    text.resize((text.len() + 8).next_multiple_of(ALIGNMENT) - 8, b' ');
    Ok([&(text.len() as u64).to_le_bytes()[..], &text].concat())
}

#[cfg(test)]
mod tests;
