//! The lengths of the texts of a call, and its demands on the queue.

use std::{
    cmp::Reverse,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use super::{Placement, Priority};
use crate::cancellation::Cancellation;

/// Lengths of the texts of a call, and its demands on the queue.
#[derive(Debug)]
pub(super) struct Load {
    /// Bytes of the texts, longest first, so that the batch that takes the most memory runs first.
    pub(super) bytes: Vec<usize>,
    pub(super) limits: Limits,
    pub(super) placement: Placement,
    /// Whether a batch is faster when threads without a batch take parts of it.
    pub(super) is_shared: bool,
    pub(super) priority: Priority,
    /// Is set when nobody waits for the results.
    pub(super) cancellation: Cancellation,
    /// Time when the call was made, if it is observed.
    pub(super) created: Option<Instant>,
    pub(super) learned: Mutex<Learned>,
}

/// Bounds of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limits {
    /// Maximum number of tokens of all rows, padding included.
    pub(super) tokens: usize,
    /// Rows of one text.
    pub(super) rows: usize,
}

/// Bytes and tokens of texts tokenized so far, from which the tokens of the others are estimated.
#[derive(Debug)]
pub(super) struct Learned {
    bytes: usize,
    tokens: usize,
}

impl Default for Learned {
    /// Four bytes per token are typical of subwords; used until the first batch is tokenized.
    fn default() -> Self {
        Self { bytes: 4, tokens: 1 }
    }
}

impl Load {
    fn learned(&self) -> MutexGuard<'_, Learned> {
        self.learned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Estimates the tokens of the text at a position.
    pub(super) fn tokens(&self, position: usize) -> usize {
        self.learned().estimate(self.bytes[position])
    }

    /// Records the number of tokens of a text, for the estimates of the others.
    pub(super) fn learn(&self, position: usize, tokens: usize) {
        let mut learned = self.learned();
        learned.bytes = learned.bytes.saturating_add(self.bytes[position]);
        learned.tokens = learned.tokens.saturating_add(tokens);
    }

    /// Estimates the work for all texts: tokens times rows.
    pub(super) fn size(&self) -> usize {
        let learned = self.learned();
        let tokens = self.bytes.iter().map(|bytes| learned.estimate(*bytes));
        self.limits.size(tokens.fold(0, usize::saturating_add))
    }
}

impl Learned {
    fn estimate(&self, bytes: usize) -> usize {
        bytes.saturating_mul(self.tokens) / self.bytes + 1
    }
}

impl Limits {
    /// Work for texts of so many tokens.
    pub(super) fn size(self, tokens: usize) -> usize {
        tokens.saturating_mul(self.rows.max(1))
    }

    /// Returns the number of texts of `tokens` tokens that a batch can have; at least one.
    pub(super) fn count(self, tokens: usize) -> usize {
        (self.tokens / self.size(tokens).max(1)).max(1)
    }

    /// Splits items, longest first, into parts that keep the limits by their number of tokens.
    pub(super) fn split<T>(
        self,
        items: &mut [T],
        tokens: impl Fn(&T) -> usize,
    ) -> impl Iterator<Item = &[T]> {
        items.sort_by_key(|item| Reverse(tokens(item)));
        let mut rest = &*items;
        std::iter::from_fn(move || {
            let longest = tokens(rest.first()?);
            let (part, later) = rest.split_at(self.count(longest).min(rest.len()));
            rest = later;
            Some(part)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{super::tests::Letters, *};

    #[test]
    fn items_with_more_tokens_than_estimated_are_split() {
        let mut lengths = [1, 3, 9, 2, 2];
        let parts = Limits { tokens: 12, rows: 2 }.split(&mut lengths, |&length| length);
        let parts: Vec<Vec<usize>> = parts.map(<[usize]>::to_vec).collect();
        assert_eq!(parts, [vec![9], vec![3, 2], vec![2, 1]]);
    }

    /// Texts of 40, 39, 8 and 4 bytes, estimated at 11, 10, 3 and 2 tokens, in two rows each.
    #[test]
    fn the_work_is_tokens_times_rows() {
        let letters = Letters { rows: 2, ..Letters::of_lengths(&[8, 40, 4, 39]) };
        let call = letters.call(44);
        assert_eq!(call.load().bytes, [40, 39, 8, 4]);
        assert_eq!(call.load().size(), 2 * (11 + 10 + 3 + 2));
    }
}
