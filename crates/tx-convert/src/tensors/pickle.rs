//! Pickles that `torch.save` writes: numbers, texts, containers and tensors.
//!
//! Values are kept in one table and refer to each other by index, so that neither depth nor
//! repetition in a pickle costs memory or stack.

mod machine;
mod value;

use super::Scalar;
use machine::Machine;
use value::{Id, MAX_KEY, Value};
pub(super) use value::{Storage, TensorView};

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
        let (values, root, length) = Machine::new(bytes).run()?;
        Ok(Self { values, root, length })
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

#[cfg(test)]
mod tests;
