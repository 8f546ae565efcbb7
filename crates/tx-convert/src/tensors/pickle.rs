//! Interpreter of the pickles that `torch.save` writes. It executes nothing: a class or function is
//! a constant of a closed list, and the values are numbers, texts, containers and tensors.
//!
//! Values are kept in one table and refer to each other by index, so that neither depth nor
//! repetition in a pickle costs memory or stack. An opcode creates at most one value, and the number
//! of opcodes is limited.

use std::collections::HashMap;

use super::{ElementType, Scalar, elements};

/// Maximum number of opcodes. A tensor takes about 35, so that a checkpoint with 3,000 tensors and
/// the state of its optimizer has 300,000.
const MAX_OPCODES: usize = 1 << 19;
/// Maximum number of dimensions of a tensor.
const MAX_DIMENSIONS: usize = 8;
/// Maximum number of bytes of the key of a tensor or a storage.
const MAX_KEY: usize = 1 << 10;
/// Longest part of a name in a message, in bytes.
const SHOWN: usize = 256;

/// Class or function that `torch.save` names for tensors in dictionaries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
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
    fn named(module: &str, name: &str) -> Option<Self> {
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
pub(super) struct Storage<'a> {
    /// Name of the storage in the file.
    pub(super) key: &'a str,
    /// Type of its elements.
    pub(super) element: ElementType,
    /// Bytes of an element.
    pub(super) width: usize,
    /// Number of elements.
    pub(super) count: usize,
}

/// A view of a storage.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TensorView<'a> {
    pub(super) storage: Storage<'a>,
    /// First element.
    pub(super) offset: usize,
    /// Size of each dimension.
    pub(super) shape: Vec<usize>,
    /// Distance of neighbors in each dimension, in elements.
    pub(super) stride: Vec<usize>,
    /// Number of elements from the first to the last, both included; 0 without elements.
    pub(super) extent: usize,
}

impl<'a> TensorView<'a> {
    /// Checks that a view lies in its storage and does not have more elements than it.
    fn new(
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
pub(super) struct Id(u32);

/// Value of a pickle.
#[derive(Debug)]
enum Value<'a> {
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

/// A pickle that was read.
#[derive(Debug)]
pub(super) struct Pickle<'a> {
    values: Vec<Value<'a>>,
    /// The pickled object.
    pub(super) root: Id,
    /// Bytes of the pickle.
    pub(super) length: usize,
}

impl<'a> Pickle<'a> {
    /// Reads the pickle at the start of `bytes`.
    ///
    /// # Errors
    ///
    /// If it is damaged or too large, names a class or function that is not part of tensors, or has
    /// a tensor that is not in its storage.
    pub(super) fn read(bytes: &'a [u8]) -> Result<Self, String> {
        Machine::new(bytes).run()
    }

    fn value(&self, id: Id) -> &Value<'a> {
        self.values.get(id.0 as usize).unwrap_or(&Value::None)
    }

    /// Returns `true` if the object is the number with these little-endian bytes.
    pub(super) fn is_long(&self, bytes: &[u8]) -> bool {
        matches!(self.value(self.root), Value::Long(found) if *found == bytes)
    }

    /// Returns `true` if the object is this number.
    pub(super) fn is_int(&self, number: i64) -> bool {
        matches!(self.value(self.root), Value::Int(found) if *found == number)
    }

    /// Returns `true` if the object is a dictionary with this key and the value `False`.
    pub(super) fn denies(&self, key: &str) -> bool {
        let value = self.entry(self.root, key).map(|id| self.value(id));
        matches!(value, Some(Value::Bool(false)))
    }

    /// Returns the texts of a list.
    ///
    /// # Errors
    ///
    /// If the object is not a list of texts.
    pub(super) fn texts(&self) -> Result<Vec<&'a str>, String> {
        let Value::List(items) = self.value(self.root) else {
            return Err("its list of storages is missing".to_owned());
        };
        let text = |id: &Id| match self.value(*id) {
            Value::Text(text) => Ok(*text),
            _ => Err("its list of storages has an item that is not a text".to_owned()),
        };
        items.iter().map(text).collect()
    }

    /// All storages, of which several can be the same.
    pub(super) fn storages(&self) -> impl Iterator<Item = &Storage<'a>> {
        self.values.iter().filter_map(|value| match value {
            Value::Storage(storage) => Some(&**storage),
            _ => None,
        })
    }

    /// Returns the tensors of the object, or of its dictionary `key`, by name.
    ///
    /// # Errors
    ///
    /// If there is no such dictionary, or one of its entries is not a tensor.
    pub(super) fn tensors(
        &self,
        key: Option<&str>,
    ) -> Result<Vec<(&'a str, &TensorView<'a>)>, String> {
        let root = match key {
            None => self.root,
            Some(key) => self
                .entry(self.root, key)
                .ok_or_else(|| format!("it is not a dictionary with the key `{key}`"))?,
        };
        let Value::Dict(entries) = self.value(root) else {
            return Err(match key {
                None => "it is not a dictionary of tensors".to_owned(),
                Some(key) => format!("its `{key}` is not a dictionary of tensors"),
            });
        };
        let tensor = |(name, value): &(Id, Id)| match (self.value(*name), self.value(*value)) {
            (Value::Text(name), _) if name.len() > MAX_KEY => {
                Err(format!("a key has {} bytes, expected at most {MAX_KEY}", name.len()))
            }
            (Value::Text(name), Value::Tensor(tensor)) => Ok((*name, &**tensor)),
            (Value::Text(name), _) => Err(format!("its `{name}` is not a tensor")),
            _ => Err("the key of a tensor is not a text".to_owned()),
        };
        entries.iter().map(tensor).collect()
    }

    /// Returns the truth value, number or text at the end of a path of keys and attributes.
    pub(super) fn scalar(&self, path: &[&str]) -> Option<Scalar> {
        let found = path.iter().try_fold(self.root, |at, key| self.entry(at, key))?;
        match self.value(found) {
            Value::Bool(value) => Some(Scalar::Bool(*value)),
            Value::Int(number) => Some(Scalar::Int(*number)),
            Value::Text(text) if text.len() <= MAX_KEY => Some(Scalar::Text((*text).to_owned())),
            _ => None,
        }
    }

    /// Value of a key in a dictionary, or of an attribute: the last one, as in Python.
    fn entry(&self, object: Id, key: &str) -> Option<Id> {
        let dictionary = match self.value(object) {
            Value::Namespace(attributes) => *attributes,
            _ => object,
        };
        let Value::Dict(entries) = self.value(dictionary) else { return None };
        let is_key = |id: Id| matches!(self.value(id), Value::Text(text) if *text == key);
        entries.iter().rev().find(|(name, _)| is_key(*name)).map(|(_, value)| *value)
    }
}

/// State of the interpreter.
struct Machine<'a> {
    bytes: &'a [u8],
    at: usize,
    values: Vec<Value<'a>>,
    stack: Vec<Id>,
    /// Heights of the stack that `MARK` stored.
    marks: Vec<usize>,
    memo: HashMap<u32, Id>,
}

/// Values that any number of opcodes share.
const NONE: Id = Id(0);
const TRUE: Id = Id(1);
const FALSE: Id = Id(2);
const OTHER: Id = Id(3);

impl<'a> Machine<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            at: 0,
            values: vec![Value::None, Value::Bool(true), Value::Bool(false), Value::Other],
            stack: Vec::new(),
            marks: Vec::new(),
            memo: HashMap::new(),
        }
    }

    fn run(mut self) -> Result<Pickle<'a>, String> {
        for _ in 0..MAX_OPCODES {
            let opcode = self.number(1)? as u8;
            if opcode == b'.' {
                let root = self.pop()?;
                return Ok(Pickle { values: self.values, root, length: self.at });
            }
            self.step(opcode)?;
        }
        Err(format!("its pickle has more than {MAX_OPCODES} opcodes"))
    }

    fn step(&mut self, opcode: u8) -> Result<(), String> {
        match opcode {
            // Protocol and frame.
            0x80 => self.take(1).map(|_| ()),
            0x95 => self.take(8).map(|_| ()),
            // Stack and memo.
            b'(' => {
                self.marks.push(self.stack.len());
                Ok(())
            }
            b'0' => self.pop().map(|_| ()),
            b'1' => self.marked().map(|_| ()),
            b'2' => {
                let top = self.top()?;
                self.push_id(top)
            }
            b'q' => {
                let index = self.number(1)?;
                self.store(index)
            }
            b'r' => {
                let index = self.number(4)?;
                self.store(index)
            }
            0x94 => self.store(self.memo.len()),
            b'h' => {
                let index = self.number(1)?;
                self.load(index)
            }
            b'j' => {
                let index = self.number(4)?;
                self.load(index)
            }
            // Numbers.
            b'N' => self.push_id(NONE),
            0x88 => self.push_id(TRUE),
            0x89 => self.push_id(FALSE),
            b'J' => {
                let number = self.number(4)? as u32;
                self.push(Value::Int(number.cast_signed().into()))
            }
            b'K' => {
                let number = self.number(1)?;
                self.push(Value::Int(number as i64))
            }
            b'M' => {
                let number = self.number(2)?;
                self.push(Value::Int(number as i64))
            }
            0x8a => self.long(1),
            0x8b => self.long(4),
            b'G' => {
                self.take(8)?;
                self.push_id(OTHER)
            }
            // Texts and bytes.
            b'X' | b'T' => self.text(4),
            0x8c | b'U' => self.text(1),
            0x8d => self.text(8),
            b'C' => self.skip(1),
            b'B' => self.skip(4),
            0x8e | 0x96 => self.skip(8),
            // Containers.
            b')' => self.push(Value::Tuple(Box::default())),
            0x85..=0x87 => self.tuple(usize::from(opcode - 0x84)),
            b't' => {
                let items = self.marked()?;
                self.push(Value::Tuple(items.into()))
            }
            b']' => self.push(Value::List(Vec::new())),
            b'l' => {
                let items = self.marked()?;
                self.push(Value::List(items))
            }
            b'a' => {
                let item = self.pop()?;
                self.append(vec![item])
            }
            b'e' => {
                let items = self.marked()?;
                self.append(items)
            }
            b'}' => self.push(Value::Dict(Vec::new())),
            b'd' => {
                let items = self.marked()?;
                self.push(Value::Dict(Vec::new()))?;
                self.set(items)
            }
            b's' => {
                let value = self.pop()?;
                let key = self.pop()?;
                self.set(vec![key, value])
            }
            b'u' => {
                let items = self.marked()?;
                self.set(items)
            }
            0x8f => self.push_id(OTHER),
            0x90 => self.marked().map(|_| ()),
            0x91 => {
                self.marked()?;
                self.push_id(OTHER)
            }
            // Classes, calls and references to storages.
            b'c' => {
                let (module, name) = (self.line()?, self.line()?);
                self.class(module, name)
            }
            0x93 => {
                let (name, module) = (self.pop()?, self.pop()?);
                match (self.value(module), self.value(name)) {
                    (&Value::Text(module), &Value::Text(name)) => self.class(module, name),
                    _ => Err("the name of a class is not a text".to_owned()),
                }
            }
            b'R' | 0x81 => self.call(),
            b'b' => self.set_attributes(),
            b'Q' => self.reference(),
            _ => Err(format!("its pickle has the opcode {opcode:#04x}, which tensors do not need")),
        }
    }

    fn value(&self, id: Id) -> &Value<'a> {
        self.values.get(id.0 as usize).unwrap_or(&Value::None)
    }

    fn push(&mut self, value: Value<'a>) -> Result<(), String> {
        let id = u32::try_from(self.values.len()).map_err(|_| "the pickle is too large")?;
        self.values.push(value);
        self.push_id(Id(id))
    }

    fn push_id(&mut self, id: Id) -> Result<(), String> {
        self.stack.push(id);
        Ok(())
    }

    /// Height of the stack below which an opcode finds nothing.
    fn floor(&self) -> usize {
        self.marks.last().copied().unwrap_or(0)
    }

    fn top(&self) -> Result<Id, String> {
        let top = self.stack.last().filter(|_| self.stack.len() > self.floor());
        top.copied().ok_or_else(|| "an opcode of the pickle finds no value".to_owned())
    }

    fn pop(&mut self) -> Result<Id, String> {
        let top = self.top()?;
        self.stack.pop();
        Ok(top)
    }

    /// Values above the last mark.
    fn marked(&mut self) -> Result<Vec<Id>, String> {
        let mark = self.marks.pop().ok_or("an opcode of the pickle finds no mark")?;
        Ok(self.stack.split_off(mark.min(self.stack.len())))
    }

    fn store(&mut self, index: usize) -> Result<(), String> {
        let top = self.top()?;
        self.memo.insert(index as u32, top);
        Ok(())
    }

    fn load(&mut self, index: usize) -> Result<(), String> {
        let found = self.memo.get(&(index as u32)).copied();
        self.push_id(found.ok_or_else(|| format!("the pickle has no value {index} in its memo"))?)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], String> {
        let end = self.at.checked_add(length);
        let taken = end.and_then(|end| self.bytes.get(self.at..end));
        let taken = taken.ok_or_else(|| "the pickle ends early".to_owned())?;
        self.at += length;
        Ok(taken)
    }

    /// Reads a little-endian number.
    fn number(&mut self, size: usize) -> Result<usize, String> {
        let bytes = self.take(size)?.iter().rev();
        let number = bytes.fold(0_u64, |number, &byte| number << 8 | u64::from(byte));
        usize::try_from(number).map_err(|_| format!("the length {number} is too large"))
    }

    fn long(&mut self, size: usize) -> Result<(), String> {
        let length = self.number(size)?;
        let bytes = self.take(length)?;
        if length > 8 {
            return self.push(Value::Long(bytes));
        }
        // Two's complement: the sign is the highest bit.
        let sign = if bytes.last().is_some_and(|byte| byte & 0x80 != 0) { 0xff } else { 0 };
        let mut number = [sign; 8];
        number.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        self.push(Value::Int(i64::from_le_bytes(number)))
    }

    fn text(&mut self, size: usize) -> Result<(), String> {
        let length = self.number(size)?;
        let text = str::from_utf8(self.take(length)?);
        self.push(Value::Text(text.map_err(|_| "a text of the pickle is not UTF-8")?))
    }

    fn skip(&mut self, size: usize) -> Result<(), String> {
        let length = self.number(size)?;
        self.take(length)?;
        self.push_id(OTHER)
    }

    /// Reads up to the next line feed.
    fn line(&mut self) -> Result<&'a str, String> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let length = rest.iter().position(|&byte| byte == b'\n');
        let line = self.take(length.ok_or("the pickle ends early")?)?;
        self.take(1)?;
        str::from_utf8(line).map_err(|_| "the name of a class is not UTF-8".to_owned())
    }

    fn tuple(&mut self, size: usize) -> Result<(), String> {
        let start = self.stack.len().checked_sub(size).filter(|start| *start >= self.floor());
        let items = self.stack.split_off(start.ok_or("a tuple of the pickle has too few items")?);
        self.push(Value::Tuple(items.into()))
    }

    fn append(&mut self, items: Vec<Id>) -> Result<(), String> {
        let list = self.top()?;
        match self.values.get_mut(list.0 as usize) {
            Some(Value::List(list)) => {
                list.extend(items);
                Ok(())
            }
            _ => Err("the pickle appends to a value that is not a list".to_owned()),
        }
    }

    fn set(&mut self, items: Vec<Id>) -> Result<(), String> {
        let dictionary = self.top()?;
        let (pairs, rest) = items.as_chunks::<2>();
        match self.values.get_mut(dictionary.0 as usize) {
            Some(Value::Dict(entries)) if rest.is_empty() => {
                entries.extend(pairs.iter().map(|&[key, value]| (key, value)));
                Ok(())
            }
            _ => Err("the pickle sets an item of a value that is not a dictionary".to_owned()),
        }
    }

    /// Sets the attributes of a namespace. Those of other objects, such as the versions of a dictionary of
    /// weights, are not needed.
    fn set_attributes(&mut self) -> Result<(), String> {
        let attributes = self.pop()?;
        let object = self.top()?;
        if let Some(Value::Namespace(of_object)) = self.values.get_mut(object.0 as usize) {
            *of_object = attributes;
        }
        Ok(())
    }

    fn class(&mut self, module: &str, name: &str) -> Result<(), String> {
        match Class::named(module, name) {
            Some(class) => self.push(Value::Class(class)),
            None => Err(format!(
                "its pickle names `{}.{}`, which is not part of a model's weights",
                start(module),
                start(name)
            )),
        }
    }

    fn call(&mut self) -> Result<(), String> {
        let (arguments, class) = (self.pop()?, self.pop()?);
        let (Value::Class(class), Value::Tuple(arguments)) =
            (self.value(class), self.value(arguments))
        else {
            return Err("the pickle calls a value that is not a class".to_owned());
        };
        match (class, &**arguments) {
            (Class::OrderedDict, []) => self.push(Value::Dict(Vec::new())),
            (Class::Namespace, []) => self.push(Value::Namespace(NONE)),
            (Class::RebuildTensor, [storage, offset, shape, stride, ..]) => {
                let Value::Storage(storage) = self.value(*storage) else {
                    return Err("a tensor of the pickle has no storage".to_owned());
                };
                let storage = **storage;
                let offset = self.size(*offset)?;
                let (shape, stride) = (self.sizes(*shape)?, self.sizes(*stride)?);
                let tensor = TensorView::new(storage, offset, shape, stride)?;
                self.push(Value::Tensor(Box::new(tensor)))
            }
            (Class::RebuildParameter, &[tensor, ..]) | (Class::Size, &[tensor]) => {
                self.push_id(tensor)
            }
            (class, arguments) => {
                let count = arguments.len();
                Err(format!("the pickle calls {class:?} with {count} arguments"))
            }
        }
    }

    /// Storage of a tuple: `"storage"`, class, key, device, number of elements, and in old files the
    /// view of a larger storage, which is absent.
    fn reference(&mut self) -> Result<(), String> {
        let id = self.pop()?;
        let problem = || "the pickle refers to a value that is not a storage".to_owned();
        let Value::Tuple(items) = self.value(id) else { return Err(problem()) };
        let (&[kind, class, key, _, count], view) = match items.split_first_chunk::<5>() {
            Some((items, [])) => (items, NONE),
            Some((items, &[view])) => (items, view),
            _ => return Err(problem()),
        };
        let (
            Value::Text("storage"),
            &Value::Class(Class::Storage(element, width)),
            &Value::Text(key),
            Value::None,
        ) = (self.value(kind), self.value(class), self.value(key), self.value(view))
        else {
            return Err(problem());
        };
        if key.len() > MAX_KEY {
            let length = key.len();
            return Err(format!("a storage has a key of {length} bytes, at most {MAX_KEY}"));
        }
        let count = self.size(count)?;
        self.push(Value::Storage(Box::new(Storage { key, element, width, count })))
    }

    fn size(&self, id: Id) -> Result<usize, String> {
        match self.value(id) {
            Value::Int(number) => {
                usize::try_from(*number).map_err(|_| format!("{number} is no size"))
            }
            _ => Err("a size in the pickle is not a number".to_owned()),
        }
    }

    fn sizes(&self, id: Id) -> Result<Vec<usize>, String> {
        let Value::Tuple(items) = self.value(id) else {
            return Err("the sizes of a tensor are not a tuple".to_owned());
        };
        // One more than allowed, so that the message has a number.
        items.iter().take(MAX_DIMENSIONS + 1).map(|&id| self.size(id)).collect()
    }
}

/// Start of a text for a message.
fn start(text: &str) -> &str {
    text.get(..text.floor_char_boundary(SHOWN)).unwrap_or(text)
}

#[cfg(test)]
mod tests;
