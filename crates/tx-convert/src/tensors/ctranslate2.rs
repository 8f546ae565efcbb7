//! `model.bin` of CTranslate2, versions 2 to 6: variables, by name.
//!
//! | bytes | content |
//! |---|---|
//! | 4 | version |
//! | string, 4 | name and revision of the specification |
//! | 4 | number of variables; for each: |
//! | string, 1, 4 each | name, number of dimensions, dimensions |
//! | 1, 4 | type and bytes of the values; before version 4 bytes of a value and number of values |
//! | … | values |
//! | 4 | from version 3: number of aliases; for each two strings: alias and variable |
//!
//! Numbers are little-endian. A string has its length in 2 bytes, with the zero that ends it.
//! Quantized values are divided by a scale: one for each row of a matrix in int8, one for a matrix in
//! int16.

use std::{collections::BTreeMap, ops::Range, path::Path, sync::Arc};

use memmap2::Mmap;

use super::{ElementType, Tensor, Tensors, elements, four, two};
use crate::{error::ConvertError, source_files};

/// Versions that are read.
const VERSIONS: std::ops::RangeInclusive<u32> = 2..=6;
/// Maximum number of dimensions of a variable.
const MOST_DIMENSIONS: u8 = 8;
/// Scale of int16 in files that have none.
const INT16_SCALE: f32 = 1_000.0;
/// End of the name of the scales of a variable.
const SCALE: &str = "_scale";

/// Content of a file.
pub(crate) struct ModelBin {
    /// Name of the specification, such as `TransformerSpec`.
    pub(crate) specification: String,
    /// Revision of the specification.
    pub(crate) revision: u32,
    /// Matrices and vectors, quantized ones as single precision. An alias has the tensor of its
    /// variable.
    pub(crate) tensors: Tensors,
    /// Variables without dimensions: numbers of layers, options.
    pub(crate) numbers: BTreeMap<String, f64>,
    /// Texts of options in files before version 6.
    pub(crate) texts: BTreeMap<String, String>,
    /// Variable of each alias.
    pub(crate) aliases: BTreeMap<String, String>,
}

/// Type of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    F32,
    I8,
    I16,
    I32,
    F16,
    BF16,
}

impl Kind {
    fn of_id(id: u8) -> Option<Self> {
        [Self::F32, Self::I8, Self::I16, Self::I32, Self::F16, Self::BF16]
            .get(usize::from(id))
            .copied()
    }

    /// Type of values of this many bytes, in files before version 4.
    fn of_width(width: u8) -> Option<Self> {
        match width {
            1 => Some(Self::I8),
            2 => Some(Self::I16),
            4 => Some(Self::F32),
            _ => None,
        }
    }

    fn width(self) -> usize {
        match self {
            Self::F32 | Self::I32 => 4,
            Self::I16 | Self::F16 | Self::BF16 => 2,
            Self::I8 => 1,
        }
    }
}

/// A variable whose values are in the file.
#[derive(Clone)]
struct Variable {
    shape: Vec<usize>,
    kind: Kind,
    bytes: Range<usize>,
}

impl Variable {
    /// Value of a variable without dimensions.
    fn number(&self, map: &[u8]) -> Option<f64> {
        let bytes = map.get(self.bytes.clone())?;
        Some(match self.kind {
            Kind::F32 => f64::from(f32::from_le_bytes(*bytes.first_chunk()?)),
            Kind::I8 => f64::from(i8::from_le_bytes(*bytes.first_chunk()?)),
            Kind::I16 => f64::from(i16::from_le_bytes(*bytes.first_chunk()?)),
            Kind::I32 => f64::from(i32::from_le_bytes(*bytes.first_chunk()?)),
            Kind::F16 => half::f16::from_le_bytes(*bytes.first_chunk()?).to_f64(),
            Kind::BF16 => half::bf16::from_le_bytes(*bytes.first_chunk()?).to_f64(),
        })
    }
}

impl ModelBin {
    /// Maps a file.
    ///
    /// # Errors
    ///
    /// If it cannot be read or is damaged, or has another version.
    pub(crate) fn open(path: &Path) -> Result<Self, ConvertError> {
        let problem = |problem: String| ConvertError::File { path: path.to_owned(), problem };
        let map = source_files::map(path)?;
        let Header { specification, revision, variables, aliases } =
            Header::read(&map).map_err(problem)?;
        let mut found = Self {
            specification,
            revision,
            tensors: Tensors::new(path),
            numbers: BTreeMap::new(),
            texts: BTreeMap::new(),
            aliases,
        };
        let file: Arc<Path> = path.into();
        for (name, variable) in &variables {
            let quantizes = name.strip_suffix(SCALE);
            if quantizes.is_some_and(|name| variables.contains_key(name)) {
                continue;
            }
            if let Some(number) = variable.number(&map).filter(|_| variable.shape.is_empty()) {
                found.numbers.insert(name.clone(), number);
            } else if let Some(text) = text(name, variable, &map) {
                found.texts.insert(name.clone(), text);
            } else {
                let scales = variables.get(&format!("{name}{SCALE}"));
                let tensor = tensor(&file, &map, variable, scales)
                    .map_err(|what| problem(format!("its variable `{name}` {what}")))?;
                found.tensors.insert(name.clone(), tensor)?;
            }
        }
        for (alias, name) in &found.aliases {
            let Some(variable) = variables.get(name) else {
                return Err(problem(format!("`{alias}` stands for `{name}`, which is missing")));
            };
            if variable.shape.is_empty() || variables.contains_key(alias) {
                continue;
            }
            if alias.ends_with(SCALE) {
                continue;
            }
            let tensor = tensor(&file, &map, variable, variables.get(&format!("{name}{SCALE}")))
                .map_err(|what| problem(format!("its variable `{name}` {what}")))?;
            found.tensors.insert(alias.clone(), tensor)?;
        }
        Ok(found)
    }
}

/// Options with text: characters as int8.
fn text(name: &str, variable: &Variable, map: &[u8]) -> Option<String> {
    let is_text = name.ends_with("_token") && variable.kind == Kind::I8;
    let bytes = map.get(variable.bytes.clone()).filter(|_| is_text)?;
    String::from_utf8(bytes.to_vec()).ok()
}

/// Tensor of a variable, with the scales of a quantized one.
fn tensor(
    file: &Arc<Path>,
    map: &Arc<Mmap>,
    variable: &Variable,
    scales: Option<&Variable>,
) -> Result<Tensor, String> {
    let element = match variable.kind {
        Kind::F16 => ElementType::F16,
        Kind::BF16 => ElementType::BF16,
        Kind::F32 | Kind::I8 | Kind::I16 => ElementType::F32,
        Kind::I32 => ElementType::Other("INT32"),
    };
    let (bytes, shape, map) = (variable.bytes.clone(), variable.shape.clone(), map.clone());
    let dequantize = match variable.kind {
        Kind::I8 => {
            let rows = shape.first().copied().unwrap_or_default();
            let scales = scales
                .filter(|scales| scales.kind == Kind::F32 && elements(&scales.shape) == Some(rows));
            let scales = scales.ok_or("in int8 has no scale for each row")?.clone();
            Some(scales.bytes)
        }
        Kind::I16 => match scales {
            None => None,
            Some(scales) if scales.kind == Kind::F32 && elements(&scales.shape) == Some(1) => {
                Some(scales.bytes.clone())
            }
            Some(_) => return Err("in int16 has more than one scale".into()),
        },
        Kind::F32 | Kind::F16 | Kind::BF16 | Kind::I32 => None,
    };
    let (kind, rows) = (variable.kind, shape.first().copied().unwrap_or(1));
    let read = move || {
        let at = |range: &Range<usize>| map.get(range.clone()).unwrap_or_default();
        let bytes = at(&bytes);
        let scales: Vec<f32> = match &dequantize {
            Some(scales) => four(at(scales)).map(f32::from_le_bytes).collect(),
            None => vec![INT16_SCALE],
        };
        let values: Vec<f32> = match kind {
            Kind::I8 => {
                let rows = bytes.chunks_exact((bytes.len() / rows.max(1)).max(1)).zip(&scales);
                rows.flat_map(|(row, scale)| {
                    row.iter().map(move |&byte| f32::from(i8::from_le_bytes([byte])) / scale)
                })
                .collect()
            }
            Kind::I16 => {
                let scale = scales.first().copied().unwrap_or(INT16_SCALE);
                two(bytes).map(|two| f32::from(i16::from_le_bytes(two)) / scale).collect()
            }
            Kind::F32 | Kind::F16 | Kind::BF16 | Kind::I32 => return Ok(bytes.to_vec()),
        };
        Ok(values.iter().flat_map(|value| value.to_le_bytes()).collect())
    };
    Ok(Tensor::new(file, shape, element, read))
}

/// Content of a file, without values.
struct Header {
    specification: String,
    revision: u32,
    variables: BTreeMap<String, Variable>,
    aliases: BTreeMap<String, String>,
}

impl Header {
    fn read(bytes: &[u8]) -> Result<Self, String> {
        let mut reader = Reader { bytes, at: 0 };
        let version = reader.number()?;
        if !VERSIONS.contains(&version) {
            return Err(format!("it has version {version}, supported are 2 to 6"));
        }
        let (specification, revision) = (reader.text()?, reader.number()?);
        let mut variables = BTreeMap::new();
        // The number is not trusted: each variable is read from the file.
        for _ in 0..reader.number()? {
            let (name, variable) = reader.variable(version)?;
            if variables.contains_key(&name) {
                return Err(format!("it has the variable `{name}` twice"));
            }
            variables.insert(name, variable);
        }
        let mut aliases = BTreeMap::new();
        if version >= 3 {
            for _ in 0..reader.number()? {
                let (alias, name) = (reader.text()?, reader.text()?);
                aliases.insert(alias, name);
            }
        }
        Ok(Self { specification, revision, variables, aliases })
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], String> {
        let end = self.at.checked_add(count);
        let taken = end.and_then(|end| self.bytes.get(self.at..end));
        let taken = taken.ok_or("it ends within a variable")?;
        self.at += count;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, String> {
        Ok(self.take(1)?.first().copied().unwrap_or_default())
    }

    fn number(&mut self) -> Result<u32, String> {
        let bytes = self.take(4)?;
        Ok(bytes.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes)))
    }

    fn text(&mut self) -> Result<String, String> {
        let length = self.take(2)?.first_chunk().map_or(0, |bytes| u16::from_le_bytes(*bytes));
        let bytes = self.take(usize::from(length))?;
        let bytes = bytes.strip_suffix(&[0]).unwrap_or(bytes);
        String::from_utf8(bytes.to_vec()).map_err(|_| "a name in it is not UTF-8".into())
    }

    fn variable(&mut self, version: u32) -> Result<(String, Variable), String> {
        let name = self.text()?;
        let problem = |problem: &str| format!("its variable `{name}` {problem}");
        let rank = self.byte()?;
        if rank > MOST_DIMENSIONS {
            return Err(problem("has more than 8 dimensions"));
        }
        let shape = (0..rank).map(|_| Ok(self.number()? as usize));
        let shape = shape.collect::<Result<Vec<usize>, String>>()?;
        let (kind, length) = match version {
            ..4 => {
                let width = self.byte()?;
                let length = (self.number()? as usize).checked_mul(usize::from(width));
                (Kind::of_width(width), length)
            }
            _ => (Kind::of_id(self.byte()?), Some(self.number()? as usize)),
        };
        let kind = kind.ok_or_else(|| problem("has an unknown type"))?;
        let expected = elements(&shape).and_then(|count| count.checked_mul(kind.width()));
        let length = length.filter(|length| expected == Some(*length));
        let length = length.ok_or_else(|| problem("has values that do not fill its shape"))?;
        let start = self.at;
        self.take(length)?;
        Ok((name, Variable { shape, kind, bytes: start..start + length }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Vec<u8> {
        let length = (text.len() as u16 + 1).to_le_bytes();
        [&length[..], text.as_bytes(), &[0]].concat()
    }

    /// A file of version 6 with these variables: name, dimensions, type, values.
    fn file(variables: &[(&str, &[u32], u8, &[u8])], aliases: &[(&str, &str)]) -> Vec<u8> {
        let number = |number: usize| (number as u32).to_le_bytes().to_vec();
        let mut bytes = [number(6), text("TransformerSpec"), number(7)].concat();
        bytes.extend(number(variables.len()));
        for (name, shape, kind, values) in variables {
            bytes.extend(text(name));
            bytes.push(shape.len() as u8);
            bytes.extend(shape.iter().flat_map(|size| size.to_le_bytes()));
            bytes.push(*kind);
            bytes.extend(number(values.len()));
            bytes.extend(*values);
        }
        bytes.extend(number(aliases.len()));
        bytes.extend(aliases.iter().flat_map(|(alias, name)| [text(alias), text(name)].concat()));
        bytes
    }

    fn open(bytes: &[u8]) -> Result<ModelBin, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.bin");
        std::fs::write(&path, bytes).unwrap();
        ModelBin::open(&path).map_err(|error| error.to_string())
    }

    fn floats(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    /// By hand: 100 / 50, -127 / 50, and 1 / 4, 2 / 4; 1.5 is 0x3e00 in half precision.
    #[test]
    fn values_of_all_types_and_aliases() {
        let scales = floats(&[50.0, 4.0]);
        let int16 = [2_500_i16, -1].iter().flat_map(|it| it.to_le_bytes()).collect::<Vec<_>>();
        let bytes = file(
            &[
                ("a", &[2, 2], 1, &[100, 129, 1, 2]),
                ("a_scale", &[2], 0, &scales),
                ("b", &[2], 2, &int16),
                ("b_scale", &[], 0, &floats(&[500.0])),
                ("c", &[2], 2, &int16),
                ("d", &[1], 4, &[0x00, 0x3e]),
                ("heads", &[], 2, &[8, 0]),
            ],
            &[("e", "a")],
        );
        let found = open(&bytes).unwrap();
        let values = |name: &str| found.tensors.get(name).unwrap().values().unwrap();
        assert_eq!(values("a"), [2.0, -2.54, 0.25, 0.5]);
        assert_eq!(values("e"), values("a"));
        assert_eq!(values("b"), [5.0, -0.002]);
        assert_eq!(values("c"), [2.5, -0.001]);
        assert_eq!(values("d"), [1.5]);
        assert_eq!(found.numbers, BTreeMap::from([("heads".into(), 8.0)]));
        assert_eq!(found.tensors.names().collect::<Vec<_>>(), ["a", "b", "c", "d", "e"]);
    }

    #[test]
    fn damaged_files_are_refused() {
        let good = file(&[("a", &[2], 0, &floats(&[1.0, 2.0]))], &[("b", "a")]);
        assert!(open(&good).is_ok());
        for end in 0..good.len() {
            assert!(open(&good[..end]).is_err(), "{end}");
        }
        for (bytes, message) in [
            (file(&[("a", &[3], 0, &[0; 8])], &[]), "do not fill its shape"),
            (file(&[("a", &[u32::MAX; 4], 0, &[0; 8])], &[]), "do not fill its shape"),
            (file(&[("a", &[1; 9], 0, &[0; 4])], &[]), "more than 8 dimensions"),
            (file(&[("a", &[8], 9, &[0; 8])], &[]), "unknown type"),
            (file(&[("a", &[2, 1], 1, &[0; 2])], &[]), "no scale for each row"),
            (file(&[("a", &[1], 0, &[0; 4]), ("a", &[1], 0, &[0; 4])], &[]), "twice"),
            (file(&[], &[("b", "a")]), "which is missing"),
            ([&7_u32.to_le_bytes()[..], &[0; 40]].concat(), "version 7"),
        ] {
            let error = open(&bytes).err().unwrap();
            assert!(error.contains(message), "{error}");
        }
        let empty = open(&[]).err().unwrap();
        assert!(empty.contains("model.bin"), "{empty}");
    }
}
