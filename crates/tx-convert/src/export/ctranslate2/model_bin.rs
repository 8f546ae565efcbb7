//! `model.bin` of CTranslate2, binary version 6: named variables, then aliases of them.
//!
//! ```text
//! file      u32 version, string specification, u32 revision,
//!           u32 count of variables, variables, u32 count of aliases, aliases
//! variable  string name, u8 rank, u32 size of each dimension, u8 dtype, u32 bytes, values
//! alias     string name, string name of a variable
//! string    u16 length with the final zero byte, UTF-8, zero byte
//! ```
//!
//! All numbers are little-endian. The format is that of `specs/model_spec.py` in CTranslate2's Python
//! package.

use std::io::{self, Write};

use tx_infer::Bundle;

/// Version of the binary format.
const VERSION: u32 = 6;
/// Specification of an encoder-decoder Transformer.
const SPECIFICATION: &str = "TransformerSpec";
/// Revision of the specification.
const REVISION: u32 = 7;

/// Numbers of the dtypes.
const F32: u8 = 0;
const I8: u8 = 1;
const I16: u8 = 2;
const I32: u8 = 3;

/// A variable of the model.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Variable {
    pub(super) name: String,
    pub(super) value: Value,
}

/// Value of a variable. Weights of the bundle are read when they are written, so that they are never
/// in memory together.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    I8(i8),
    I16(i16),
    I32(i32),
    F32(f32),
    /// Values of the shape `[rows, columns]`.
    Table {
        values: Vec<f32>,
        columns: usize,
    },
    /// Zeros of this shape.
    Zeros([usize; 2]),
    /// A weight of the bundle.
    Weight(String),
    /// Vectors of the bundle, one after another.
    Vectors(Vec<String>),
    /// Matrices of the bundle, `[d_in, d_out]`, transposed and one below another: `[Σ d_out, d_in]`.
    Transposed(Vec<String>),
    /// Quantized weights of the bundle with a row for each output or token, one below another.
    QuantizedRows(Vec<String>),
    /// Scales of quantized weights, one after another. CTranslate2 divides by them.
    Scales(Vec<String>),
}

/// Second name of a variable.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Alias {
    pub(super) name: String,
    pub(super) variable: String,
}

impl Value {
    /// Shape of the variable; empty for a number. A weight that the bundle does not have counts as
    /// empty.
    pub(super) fn shape(&self, bundle: &Bundle) -> Vec<usize> {
        let sizes = |name: &String| bundle.weight_shape(name).map_or(vec![0], <[usize]>::to_vec);
        let rows = |name: &String| match sizes(name)[..] {
            [rows, _] if is_embedding(name) => rows,
            [_, outputs] => outputs,
            _ => 0,
        };
        match self {
            Self::I8(_) | Self::I16(_) | Self::I32(_) | Self::F32(_) => Vec::new(),
            Self::Table { values, columns } => vec![values.len() / columns.max(&1), *columns],
            Self::Zeros(shape) => shape.to_vec(),
            Self::Weight(name) => sizes(name),
            Self::Vectors(names) => vec![names.iter().flat_map(sizes).sum()],
            Self::QuantizedRows(names) => {
                let width = names.first().map_or(0, |name| match sizes(name)[..] {
                    [_, width] if is_embedding(name) => width,
                    [inputs, _] => inputs,
                    _ => 0,
                });
                vec![names.iter().map(rows).sum(), width]
            }
            Self::Scales(names) => vec![names.iter().map(rows).sum()],
            Self::Transposed(names) => {
                let shapes: Vec<_> = names.iter().map(sizes).collect();
                let d_out = shapes.iter().filter_map(|shape| shape.get(1)).sum();
                vec![d_out, shapes.first().and_then(|shape| shape.first()).copied().unwrap_or(0)]
            }
        }
    }

    fn dtype(&self) -> u8 {
        match self {
            Self::I8(_) | Self::QuantizedRows(_) => I8,
            Self::I16(_) => I16,
            Self::I32(_) => I32,
            Self::F32(_)
            | Self::Table { .. }
            | Self::Zeros(_)
            | Self::Weight(_)
            | Self::Vectors(_)
            | Self::Scales(_)
            | Self::Transposed(_) => F32,
        }
    }

    /// Size of the variable in bytes; saturates at `usize::MAX`.
    pub(super) fn bytes(&self, bundle: &Bundle) -> usize {
        let size = match self.dtype() {
            I8 => 1,
            I16 => 2,
            _ => 4,
        };
        self.shape(bundle).into_iter().fold(size, usize::saturating_mul)
    }

    fn write(&self, bundle: &Bundle, file: &mut dyn Write) -> io::Result<()> {
        let weight = |name: &String| {
            bundle.weight(name).ok_or_else(|| io::Error::other(format!("no weight `{name}`")))
        };
        let quantized = |name: &String| {
            let missing = || io::Error::other(format!("no quantized weight `{name}`"));
            bundle.quantized_rows(name).ok_or_else(missing)
        };
        match self {
            Self::I8(value) => file.write_all(&value.to_le_bytes()),
            Self::I16(value) => file.write_all(&value.to_le_bytes()),
            Self::I32(value) => file.write_all(&value.to_le_bytes()),
            Self::F32(value) => file.write_all(&value.to_le_bytes()),
            Self::Table { values, .. } => write_values(values, file),
            Self::Zeros([rows, columns]) => {
                let row = vec![0.0; *columns];
                (0..*rows).try_for_each(|_| write_values(&row, file))
            }
            Self::Weight(name) => write_values(&weight(name)?.1, file),
            Self::Vectors(names) => {
                names.iter().try_for_each(|name| write_values(&weight(name)?.1, file))
            }
            Self::QuantizedRows(names) => names.iter().try_for_each(|name| {
                let (bytes, _) = quantized(name)?;
                file.write_all(bytemuck::cast_slice(&bytes))
            }),
            Self::Scales(names) => names.iter().try_for_each(|name| {
                let (_, mut scales) = quantized(name)?;
                // A row of zeros has the scale 1, because CTranslate2 divides by it.
                scales.iter_mut().for_each(|scale| {
                    *scale = if *scale > 0.0 { scale.recip() } else { 1.0 };
                });
                write_values(&scales, file)
            }),
            Self::Transposed(names) => names.iter().try_for_each(|name| {
                let (shape, values) = weight(name)?;
                let &[d_in, d_out] = shape else {
                    return Err(io::Error::other(format!("`{name}` is not a matrix")));
                };
                let mut row = vec![0.0; d_in];
                (0..d_out).try_for_each(|output| {
                    for (input, value) in row.iter_mut().enumerate() {
                        *value = values[input * d_out + output];
                    }
                    write_values(&row, file)
                })
            }),
        }
    }
}

/// Returns `true` if a weight has a row for each token. Other matrices have one for each input.
fn is_embedding(name: &str) -> bool {
    name.ends_with("embedding.weight")
}

/// Writes a model.
///
/// # Errors
///
/// If the file cannot be written, a name is longer than 65,534 bytes, or a size does not fit into 32
/// bits.
pub(super) fn write(
    bundle: &Bundle,
    variables: &[Variable],
    aliases: &[Alias],
    file: &mut dyn Write,
) -> io::Result<()> {
    write_number(VERSION as usize, file)?;
    write_string(SPECIFICATION, file)?;
    write_number(REVISION as usize, file)?;
    write_number(variables.len(), file)?;
    for Variable { name, value } in variables {
        write_string(name, file)?;
        let shape = value.shape(bundle);
        file.write_all(&[shape.len() as u8])?;
        shape.iter().try_for_each(|&size| write_number(size, file))?;
        file.write_all(&[value.dtype()])?;
        write_number(value.bytes(bundle), file)?;
        value.write(bundle, file)?;
    }
    write_number(aliases.len(), file)?;
    for Alias { name, variable } in aliases {
        write_string(name, file)?;
        write_string(variable, file)?;
    }
    Ok(())
}

fn write_number(number: usize, file: &mut dyn Write) -> io::Result<()> {
    let number = u32::try_from(number).map_err(io::Error::other)?;
    file.write_all(&number.to_le_bytes())
}

fn write_string(text: &str, file: &mut dyn Write) -> io::Result<()> {
    let length = u16::try_from(text.len() + 1).map_err(io::Error::other)?;
    file.write_all(&length.to_le_bytes())?;
    file.write_all(text.as_bytes())?;
    file.write_all(&[0])
}

fn write_values(values: &[f32], file: &mut dyn Write) -> io::Result<()> {
    if cfg!(target_endian = "little") {
        return file.write_all(bytemuck::cast_slice(values));
    }
    values.iter().try_for_each(|value| file.write_all(&value.to_le_bytes()))
}
