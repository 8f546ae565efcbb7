//! Special tokens around a text.

use crate::special::{BOS, EOS};

/// Special tokens that a tokenizer adds to a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ends {
    /// Whether `<bos>` is added before a text.
    pub bos: bool,
    /// Whether `<eos>` is added after a text. Targets need it, because it ends a translation.
    pub eos: bool,
}

impl Ends {
    /// `<bos>` and `<eos>`, as targets have them.
    pub const BOTH: Self = Self { bos: true, eos: true };
    /// `<eos>`, as sources usually have it.
    pub const EOS: Self = Self { bos: false, eos: true };

    /// Adds the special tokens to `items`, which `of_id` makes.
    pub(super) fn around<T>(self, items: Vec<T>, of_id: impl Fn(u32) -> T) -> Vec<T> {
        let bos = self.bos.then(|| of_id(BOS));
        let eos = self.eos.then(|| of_id(EOS));
        bos.into_iter().chain(items).chain(eos).collect()
    }

    /// Truncates a sequence to `max_len` tokens. The last one is `<eos>` if the sequence has it.
    pub fn truncate(self, ids: &mut Vec<u32>, max_len: usize) {
        if ids.len() > max_len {
            ids.truncate(max_len);
            ids.last_mut().filter(|_| self.eos).into_iter().for_each(|last| *last = EOS);
        }
    }
}
