//! Values of pickles.

use super::super::{ElementType, elements};

/// Maximum number of dimensions of a tensor.
pub const MAX_DIMENSIONS: usize = 8;
/// Maximum number of bytes of the key of a tensor or a storage.
pub const MAX_KEY: usize = 1 << 10;

/// Class or function that `torch.save` names for tensors in dictionaries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    OrderedDict,
    RebuildTensor,
    RebuildParameter,
    Size,
    /// `argparse.Namespace`, the options of a program.
    Namespace,
    Storage(ElementType, usize),
}

impl Class {
    /// Returns the class of a name; `None` for any other name, which is not part of tensors.
    pub fn named(module: &str, name: &str) -> Option<Self> {
        use ElementType::{BF16, F16, F32, Other};
        Some(match (module, name) {
            ("collections", "OrderedDict") => Self::OrderedDict,
            ("torch._utils", "_rebuild_tensor" | "_rebuild_tensor_v2") => Self::RebuildTensor,
            ("torch._utils", "_rebuild_parameter") => Self::RebuildParameter,
            ("torch", "Size") => Self::Size,
            ("argparse", "Namespace") => Self::Namespace,
            ("torch", "FloatStorage") => Self::Storage(F32, 4),
            ("torch", "HalfStorage") => Self::Storage(F16, 2),
            ("torch", "BFloat16Storage") => Self::Storage(BF16, 2),
            ("torch", "DoubleStorage") => Self::Storage(Other("F64"), 8),
            ("torch", "LongStorage") => Self::Storage(Other("I64"), 8),
            ("torch", "IntStorage") => Self::Storage(Other("I32"), 4),
            ("torch", "ShortStorage") => Self::Storage(Other("I16"), 2),
            ("torch", "CharStorage") => Self::Storage(Other("I8"), 1),
            ("torch", "ByteStorage") => Self::Storage(Other("U8"), 1),
            ("torch", "BoolStorage") => Self::Storage(Other("BOOL"), 1),
            ("torch.storage", "UntypedStorage") => Self::Storage(Other("U8"), 1),
            _ => return None,
        })
    }
}

/// Values of a tensor or of several, which the file contains outside of the pickle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Storage<'a> {
    /// Name of the storage in the file.
    pub key: &'a str,
    /// Type of its elements.
    pub element: ElementType,
    /// Bytes of an element.
    pub width: usize,
    /// Number of elements.
    pub count: usize,
}

/// A view of a storage.
#[derive(Debug, PartialEq, Eq)]
pub struct TensorView<'a> {
    pub storage: Storage<'a>,
    /// First element.
    pub offset: usize,
    /// Size of each dimension.
    pub shape: Vec<usize>,
    /// Distance of neighbors in each dimension, in elements.
    pub stride: Vec<usize>,
    /// Number of elements from the first to the last, both included; 0 without elements.
    pub extent: usize,
}

impl<'a> TensorView<'a> {
    /// Checks that a view lies in its storage and does not have more elements than it.
    pub fn new(
        storage: Storage<'a>,
        offset: usize,
        shape: Vec<usize>,
        stride: Vec<usize>,
    ) -> Result<Self, String> {
        if shape.len() != stride.len() || shape.len() > MAX_DIMENSIONS {
            let (sizes, strides) = (shape.len(), stride.len());
            return Err(format!(
                "a tensor has {sizes} sizes and {strides} strides, expected as many, at most \
                 {MAX_DIMENSIONS}"
            ));
        }
        let last = || {
            shape.iter().zip(&stride).try_fold(0_usize, |last, (&size, &stride)| {
                last.checked_add(size.checked_sub(1)?.checked_mul(stride)?)
            })
        };
        let extent = match elements(&shape) {
            Some(0) => Some(0),
            // A view can repeat its elements.
            Some(count) if count <= storage.count => last().and_then(|last| last.checked_add(1)),
            _ => None,
        };
        let fits =
            |extent: &usize| offset.checked_add(*extent).is_some_and(|end| end <= storage.count);
        match extent.filter(fits) {
            Some(extent) => Ok(Self { storage, offset, shape, stride, extent }),
            None => Err(format!(
                "a tensor of shape {shape:?}, strides {stride:?} and offset {offset} is not in its \
                 storage of {} elements",
                storage.count
            )),
        }
    }
}

/// Position of a value in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Id(pub u32);

/// Value of a pickle.
#[derive(Debug)]
pub enum Value<'a> {
    None,
    Bool(bool),
    Int(i64),
    /// Integer of more than 8 bytes, in little-endian order.
    Long(&'a [u8]),
    Text(&'a str),
    /// Floating-point numbers, bytes and sets, which no tensor needs.
    Other,
    Tuple(Box<[Id]>),
    List(Vec<Id>),
    Dict(Vec<(Id, Id)>),
    /// Object with these attributes, a dictionary.
    Namespace(Id),
    Class(Class),
    Storage(Box<Storage<'a>>),
    Tensor(Box<TensorView<'a>>),
}
