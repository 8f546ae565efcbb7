//! Interpreter of pickles. It executes nothing: a class or function is a constant of a closed list. An opcode creates at
//! most one value, and the number of opcodes is limited.

use std::collections::HashMap;

use super::value::{Class, Id, MAX_DIMENSIONS, MAX_KEY, Storage, TensorView, Value};

/// Maximum number of opcodes. A tensor takes about 35, so that a checkpoint with 3,000 tensors and
/// the state of its optimizer has 300,000.
pub(super) const MAX_OPCODES: usize = 1 << 19;
/// Longest part of a name in a message, in bytes.
const SHOWN: usize = 256;

/// State of the interpreter.
pub(super) struct Machine<'a> {
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
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            at: 0,
            values: vec![Value::None, Value::Bool(true), Value::Bool(false), Value::Other],
            stack: Vec::new(),
            marks: Vec::new(),
            memo: HashMap::new(),
        }
    }

    /// Returns the values, the pickled object and the length of the pickle in bytes.
    pub(super) fn run(mut self) -> Result<(Vec<Value<'a>>, Id, usize), String> {
        for _ in 0..MAX_OPCODES {
            let opcode = self.number(1)? as u8;
            if opcode == b'.' {
                let root = self.pop()?;
                return Ok((self.values, root, self.at));
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
