//! Graphs of ONNX and their file, a message of protocol buffers.
//!
//! Numbers of fields, types and operators are those of `onnx.proto` and the operator set 17. A file
//! has this order: nodes, constants, inputs and outputs of the graph. Weights are read when they are
//! written.

use std::{
    collections::HashSet,
    io::{self, Write},
};

use tx_infer::Bundle;

/// Version of the operators.
const OPSET: u64 = 17;
/// Version of the file format that belongs to it.
const IR_VERSION: u64 = 8;
/// Largest file in bytes: a message has a length below 2 GiB.
const MAX_BYTES: usize = (1 << 31) - 1;

/// Fields of a message, which are written one after another.
#[derive(Debug, Default, Clone)]
struct Message(Vec<u8>);

impl Message {
    fn number(mut self, field: u32, number: u64) -> Self {
        varint(u64::from(field) << 3, &mut self.0);
        varint(number, &mut self.0);
        self
    }

    fn float(mut self, field: u32, number: f32) -> Self {
        varint(u64::from(field) << 3 | 5, &mut self.0);
        self.0.extend(number.to_le_bytes());
        self
    }

    fn bytes(mut self, field: u32, bytes: &[u8]) -> Self {
        self.0.extend(length_of(field, bytes.len()));
        self.0.extend(bytes);
        self
    }

    fn message(self, field: u32, message: Self) -> Self {
        self.bytes(field, &message.0)
    }
}

/// Number in groups of seven bits, the lowest first.
fn varint(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Start of a field with so many bytes.
fn length_of(field: u32, bytes: usize) -> Vec<u8> {
    let mut start = Vec::new();
    varint(u64::from(field) << 3 | 2, &mut start);
    varint(bytes as u64, &mut start);
    start
}

/// Name of a tensor of a graph.
pub(super) type Value = String;

/// Element type of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Element {
    F32,
    I64,
}

impl Element {
    /// Number of the type in `TensorProto.DataType`.
    pub(super) fn number(self) -> u64 {
        match self {
            Self::F32 => 1,
            Self::I64 => 7,
        }
    }
}

/// Attribute of a node.
#[derive(Debug, Clone, Copy)]
pub(super) enum Attribute<'a> {
    Int(i64),
    Ints(&'a [i64]),
    Float(f32),
}

/// Size of a dimension of an input or output.
#[derive(Debug, Clone, Copy)]
pub(super) enum Size {
    Known(usize),
    Named(&'static str),
}

/// Constant of a graph.
#[derive(Debug, Clone)]
struct Constant {
    name: String,
    element: Element,
    shape: Vec<usize>,
    content: Content,
}

/// Values of a constant.
#[derive(Debug, Clone)]
enum Content {
    /// Those of the weight of the bundle that has the constant's name.
    Weight,
    /// Little-endian bytes.
    Bytes(Vec<u8>),
}

impl Constant {
    /// Size of the values in bytes.
    fn size(&self) -> usize {
        match &self.content {
            Content::Weight => {
                self.shape.iter().fold(4, |product, &size| product.saturating_mul(size))
            }
            Content::Bytes(bytes) => bytes.len(),
        }
    }

    /// Message without its last field, the values.
    fn start(&self) -> Vec<u8> {
        let sizes = self.shape.iter();
        let start = sizes.fold(Message::default(), |start, &size| start.number(1, size as u64));
        let Message(mut start) =
            start.number(2, self.element.number()).bytes(8, self.name.as_bytes());
        start.extend(length_of(9, self.size()));
        start
    }
}

/// Graph under construction.
#[derive(Debug)]
pub(super) struct Graph<'a> {
    bundle: &'a Bundle,
    name: &'static str,
    /// Fields of the message that contain nodes.
    nodes: Message,
    constants: Vec<Constant>,
    /// Names of the constants.
    known: HashSet<String>,
    /// Fields of the message that contain inputs and outputs.
    ends: Message,
    /// Number of values without a name of their own.
    count: usize,
}

impl<'a> Graph<'a> {
    /// Starts a graph with weights of this bundle.
    pub(super) fn new(bundle: &'a Bundle, name: &'static str) -> Self {
        Self {
            bundle,
            name,
            nodes: Message::default(),
            constants: Vec::new(),
            known: HashSet::new(),
            ends: Message::default(),
            count: 0,
        }
    }

    /// Adds an input.
    pub(super) fn input(&mut self, name: &str, element: Element, shape: &[Size]) -> Value {
        self.end(11, name, element, shape);
        name.to_owned()
    }

    /// Adds an output in single precision.
    pub(super) fn output(&mut self, value: &Value, name: &str, shape: &[Size]) {
        self.add_node("Identity", &[value], &[name.to_owned()], &[]);
        self.end(12, name, Element::F32, shape);
    }

    fn end(&mut self, field: u32, name: &str, element: Element, shape: &[Size]) {
        let shape = shape.iter().fold(Message::default(), |shape, size| {
            let size = match size {
                Size::Known(size) => Message::default().number(1, *size as u64),
                Size::Named(name) => Message::default().bytes(2, name.as_bytes()),
            };
            shape.message(1, size)
        });
        let tensor = Message::default().number(1, element.number()).message(2, shape);
        let kind = Message::default().message(1, tensor);
        let info = Message::default().bytes(1, name.as_bytes()).message(2, kind);
        self.ends = std::mem::take(&mut self.ends).message(field, info);
    }

    /// Returns a weight of the bundle.
    pub(super) fn weight(&mut self, name: &str) -> Value {
        let shape = self.bundle.weight_shape(name).unwrap_or_default().to_vec();
        self.constant(name.to_owned(), Element::F32, shape, Content::Weight)
    }

    /// Returns `true` if the bundle has this weight.
    pub(super) fn has(&self, weight: &str) -> bool {
        self.bundle.weight_shape(weight).is_some()
    }

    /// Returns a constant tensor.
    pub(super) fn floats(&mut self, name: &str, shape: &[usize], values: &[f32]) -> Value {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.constant(name.to_owned(), Element::F32, shape.to_vec(), Content::Bytes(bytes))
    }

    /// Returns a number.
    pub(super) fn float(&mut self, value: f32) -> Value {
        self.floats(&format!("float {value:e}"), &[], &[value])
    }

    /// Returns a list of integers.
    pub(super) fn ints(&mut self, values: &[i64]) -> Value {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let (name, shape) = (format!("ints {values:?}"), vec![values.len()]);
        self.constant(name, Element::I64, shape, Content::Bytes(bytes))
    }

    /// Returns an integer.
    pub(super) fn int(&mut self, value: i64) -> Value {
        let content = Content::Bytes(value.to_le_bytes().to_vec());
        self.constant(format!("int {value}"), Element::I64, Vec::new(), content)
    }

    fn constant(
        &mut self,
        name: String,
        element: Element,
        shape: Vec<usize>,
        content: Content,
    ) -> Value {
        if self.known.insert(name.clone()) {
            self.constants.push(Constant { name: name.clone(), element, shape, content });
        }
        name
    }

    /// Adds a node, and returns its result.
    pub(super) fn node(&mut self, operator: &str, inputs: &[&Value]) -> Value {
        self.node_with(operator, inputs, &[])
    }

    /// Adds a node with attributes, and returns its result.
    pub(super) fn node_with(
        &mut self,
        operator: &str,
        inputs: &[&Value],
        attributes: &[(&str, Attribute<'_>)],
    ) -> Value {
        let [result] = self.nodes_with(operator, inputs, attributes);
        result
    }

    /// Adds a node with several results.
    pub(super) fn nodes_with<const N: usize>(
        &mut self,
        operator: &str,
        inputs: &[&Value],
        attributes: &[(&str, Attribute<'_>)],
    ) -> [Value; N] {
        let results = std::array::from_fn(|_| {
            self.count += 1;
            format!("{operator} {}", self.count)
        });
        self.add_node(operator, inputs, &results, attributes);
        results
    }

    fn add_node(
        &mut self,
        operator: &str,
        inputs: &[&Value],
        outputs: &[Value],
        attributes: &[(&str, Attribute<'_>)],
    ) {
        let mut node = Message::default();
        for input in inputs {
            node = node.bytes(1, input.as_bytes());
        }
        for output in outputs {
            node = node.bytes(2, output.as_bytes());
        }
        let name = outputs.first().map_or("", String::as_str);
        node = node.bytes(3, name.as_bytes()).bytes(4, operator.as_bytes());
        for (name, attribute) in attributes {
            let start = Message::default().bytes(1, name.as_bytes());
            let attribute = match attribute {
                Attribute::Float(value) => start.float(2, *value).number(20, 1),
                Attribute::Int(value) => start.number(3, value.cast_unsigned()).number(20, 2),
                Attribute::Ints(values) => values
                    .iter()
                    .fold(start, |start, value| start.number(8, value.cast_unsigned()))
                    .number(20, 7),
            };
            node = node.message(5, attribute);
        }
        self.nodes = std::mem::take(&mut self.nodes).message(1, node);
    }

    /// Returns the size of the file in bytes, if it is one that ONNX allows.
    ///
    /// # Errors
    ///
    /// A problem otherwise.
    pub(super) fn check(&self) -> Result<usize, String> {
        let sizes = self.constants.iter().map(Constant::size);
        let values = sizes.fold(0_usize, usize::saturating_add);
        let rest = self.nodes.0.len() + self.ends.0.len() + 200 * self.constants.len() + 1_000;
        match values.saturating_add(rest) {
            size if size <= MAX_BYTES => Ok(size),
            size => Err(format!(
                "`{}` would have {size} bytes: files of ONNX have less than 2 GiB",
                self.name
            )),
        }
    }

    /// Writes the file.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub(super) fn write(&self, file: &mut dyn Write) -> io::Result<()> {
        let starts: Vec<(Vec<u8>, usize)> = self
            .constants
            .iter()
            .map(|constant| {
                let start = constant.start();
                let size = start.len() + constant.size();
                ([length_of(5, size), start].concat(), constant.size())
            })
            .collect();
        let name = Message::default().bytes(2, self.name.as_bytes());
        let constants = starts.iter().map(|(start, size)| start.len() + size).sum::<usize>();
        let size = self.nodes.0.len() + name.0.len() + constants + self.ends.0.len();
        let operators = Message::default().bytes(1, b"").number(2, OPSET);
        let model = Message::default()
            .number(1, IR_VERSION)
            .bytes(2, b"tx")
            .bytes(3, env!("CARGO_PKG_VERSION").as_bytes())
            .message(8, operators);
        file.write_all(&model.0)?;
        file.write_all(&length_of(7, size))?;
        file.write_all(&self.nodes.0)?;
        file.write_all(&name.0)?;
        for (constant, (start, _)) in self.constants.iter().zip(&starts) {
            file.write_all(start)?;
            match &constant.content {
                Content::Bytes(bytes) => file.write_all(bytes)?,
                Content::Weight => {
                    let missing = || io::Error::other(format!("no weight `{}`", constant.name));
                    let (_, values) = self.bundle.weight(&constant.name).ok_or_else(missing)?;
                    for values in values.chunks(1 << 14) {
                        let bytes: Vec<u8> =
                            values.iter().flat_map(|value| value.to_le_bytes()).collect();
                        file.write_all(&bytes)?;
                    }
                }
            }
        }
        file.write_all(&self.ends.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Examples of the documentation of protocol buffers: field 1 with 150, field 2 with "testing".
    #[test]
    fn fields_of_messages() {
        let message = Message::default().number(1, 150).bytes(2, b"testing");
        let expected = [&[0x08, 0x96, 0x01, 0x12, 0x07][..], b"testing"].concat();
        assert_eq!(message.0, expected);
        let nested = Message::default().message(3, Message::default().number(1, 150));
        assert_eq!(nested.0, [0x1a, 0x03, 0x08, 0x96, 0x01]);
        let mut negative = Vec::new();
        varint((-2_i64).cast_unsigned(), &mut negative);
        assert_eq!(negative, [&[0xfe][..], &[0xff; 8], &[0x01]].concat());
        assert_eq!(Message::default().float(2, 1.0).0, [0x15, 0, 0, 0x80, 0x3f]);
    }
}
