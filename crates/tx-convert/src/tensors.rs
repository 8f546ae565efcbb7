//! Tensors of a model to be imported, read one at a time.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use half::{bf16, f16};

use crate::error::ConvertError;
pub(crate) use ctranslate2::ModelBin;

mod ctranslate2;
mod pickle;
mod pytorch;
mod safetensors;

/// Element type of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ElementType {
    /// Single precision.
    F32,
    /// Half precision.
    F16,
    /// Brain floating point, 16 bits.
    BF16,
    /// Any other type, which cannot be read as weights.
    Other(&'static str),
}

impl ElementType {
    fn name(self) -> &'static str {
        match self {
            Self::F32 => "F32",
            Self::F16 => "F16",
            Self::BF16 => "BF16",
            Self::Other(name) => name,
        }
    }

    /// Largest difference of two values that are equal to `value` in exact arithmetic.
    pub(crate) fn tolerance(self, value: f32) -> f32 {
        match self {
            Self::F32 | Self::Other(_) => 1e-6,
            Self::F16 => value.abs().max(1e-3) * 1e-3,
            Self::BF16 => value.abs().max(1e-3) * 8e-3,
        }
    }
}

/// Value of an option that a file has beside its tensors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Scalar {
    Bool(bool),
    Int(i64),
    Text(String),
}

/// Reader of the little-endian bytes of a tensor.
type ReadBytes = Box<dyn Fn() -> io::Result<Vec<u8>> + Send + Sync>;

/// A tensor whose values are read on request.
pub(crate) struct Tensor {
    /// Size of each dimension.
    pub(crate) shape: Vec<usize>,
    /// Element type in the file.
    pub(crate) element: ElementType,
    /// File that contains the values.
    pub(crate) file: Arc<Path>,
    read: ReadBytes,
}

impl Tensor {
    /// Creates a tensor of a file. `read` returns its values in row-major order.
    pub(crate) fn new(
        file: &Arc<Path>,
        shape: Vec<usize>,
        element: ElementType,
        read: impl Fn() -> io::Result<Vec<u8>> + Send + Sync + 'static,
    ) -> Self {
        Self { shape, element, file: file.clone(), read: Box::new(read) }
    }

    /// Reads all values, in row-major order, as single precision.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or the tensor is not of a floating-point type.
    pub(crate) fn values(&self) -> Result<Vec<f32>, String> {
        if let ElementType::Other(name) = self.element {
            return Err(format!("has type {name}, expected F32, F16 or BF16"));
        }
        let bytes = (self.read)().map_err(|error| error.to_string())?;
        let values: Vec<f32> = match self.element {
            ElementType::F32 => four(&bytes).map(f32::from_le_bytes).collect(),
            ElementType::F16 => two(&bytes).map(|two| f16::from_le_bytes(two).to_f32()).collect(),
            ElementType::BF16 => two(&bytes).map(|two| bf16::from_le_bytes(two).to_f32()).collect(),
            ElementType::Other(_) => Vec::new(),
        };
        let expected = self.shape.iter().product::<usize>();
        match values.len() == expected {
            true => Ok(values),
            false => Err(format!("has {} values, expected {expected}", values.len())),
        }
    }
}

fn four(bytes: &[u8]) -> impl Iterator<Item = [u8; 4]> {
    bytes.as_chunks::<4>().0.iter().copied()
}

fn two(bytes: &[u8]) -> impl Iterator<Item = [u8; 2]> {
    bytes.as_chunks::<2>().0.iter().copied()
}

/// Tensors of a file or of several files, by name.
pub(crate) struct Tensors {
    path: PathBuf,
    tensors: BTreeMap<String, Tensor>,
}

impl Tensors {
    /// Creates an empty set. `path` names it in messages.
    pub(crate) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), tensors: BTreeMap::new() }
    }

    /// Adds a tensor.
    ///
    /// # Errors
    ///
    /// If there is one with this name.
    pub(crate) fn insert(&mut self, name: String, tensor: Tensor) -> Result<(), ConvertError> {
        match self.tensors.entry(name) {
            std::collections::btree_map::Entry::Vacant(entry) => {
                entry.insert(tensor);
                Ok(())
            }
            std::collections::btree_map::Entry::Occupied(entry) => Err(ConvertError::File {
                path: self.path.clone(),
                problem: format!("it has the tensor `{}` twice", entry.key()),
            }),
        }
    }

    /// Returns a tensor.
    pub(crate) fn get(&self, name: &str) -> Option<&Tensor> {
        self.tensors.get(name)
    }

    /// Reads all values of a tensor.
    ///
    /// # Errors
    ///
    /// [`ConvertError::File`] if it cannot be read; [`ConvertError::NotFinite`].
    pub(crate) fn finite_values(&self, name: &str) -> Result<Vec<f32>, ConvertError> {
        let problem = |path: &Path, problem: String| ConvertError::File {
            path: path.to_owned(),
            problem: format!("its tensor `{name}` {problem}"),
        };
        let tensor = self.get(name).ok_or_else(|| problem(&self.path, "is missing".to_owned()))?;
        let values = tensor.values().map_err(|what| problem(&tensor.file, what))?;
        match values.iter().position(|value| !value.is_finite()) {
            None => Ok(values),
            Some(index) => Err(ConvertError::NotFinite {
                path: tensor.file.to_path_buf(),
                tensor: name.to_owned(),
                value: values.get(index).copied().unwrap_or(f32::NAN),
                index,
            }),
        }
    }

    /// Names of all tensors, sorted.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// File that messages name.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl std::fmt::Debug for Tensors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shapes = self
            .tensors
            .iter()
            .map(|(name, tensor)| (name, format!("{} {:?}", tensor.element.name(), tensor.shape)));
        f.debug_map().entries(shapes).finish()
    }
}

/// Number of elements of a shape; `None` if it is too large to count.
fn elements(shape: &[usize]) -> Option<usize> {
    shape.iter().try_fold(1_usize, |product, &size| product.checked_mul(size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_all_types() {
        let file = Path::new("model").into();
        let read = |element, bytes: Vec<u8>| {
            Tensor::new(&file, vec![2], element, move || Ok(bytes.clone())).values().unwrap()
        };
        let bytes = [1.5_f32, -2.0].iter().flat_map(|value| value.to_le_bytes()).collect();
        assert_eq!(read(ElementType::F32, bytes), [1.5, -2.0]);
        // Sign, five bits of exponent with bias 15, ten bits: 1.5 = 0x3e00, -2 = 0xc000.
        assert_eq!(read(ElementType::F16, vec![0x00, 0x3e, 0x00, 0xc0]), [1.5, -2.0]);
        // The upper half of single precision: 1.5 = 0x3fc0, -2 = 0xc000.
        assert_eq!(read(ElementType::BF16, vec![0xc0, 0x3f, 0x00, 0xc0]), [1.5, -2.0]);
    }

    #[test]
    fn values_must_fill_the_shape_and_be_floats() {
        let short =
            Tensor::new(&Path::new("model").into(), vec![3], ElementType::F32, || Ok(vec![0; 8]));
        assert_eq!(short.values().unwrap_err(), "has 2 values, expected 3");
        let integer =
            Tensor::new(&short.file, vec![1], ElementType::Other("I64"), || Ok(vec![0; 8]));
        assert_eq!(integer.values().unwrap_err(), "has type I64, expected F32, F16 or BF16");
    }
}
