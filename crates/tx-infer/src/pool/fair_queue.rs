//! Batches of texts of similar length. Tokens are counted when a batch is claimed.

use std::{
    cmp::Reverse,
    ops::Range,
    sync::{Mutex, PoisonError},
};

use super::Claims;

/// Texts sorted by length and claimed in batches, longest first, so that the batch that takes the
/// most memory runs first.
#[derive(Debug)]
pub(crate) struct Batches {
    /// Indices of the texts.
    order: Vec<usize>,
    /// Bytes of the texts, in that order.
    bytes: Vec<usize>,
    limits: Limits,
    progress: Mutex<Progress>,
}

/// Bounds of a batch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Maximum number of tokens of all rows, padding included.
    pub(crate) tokens: usize,
    /// Rows of one text.
    pub(crate) rows: usize,
    /// Threads among which few texts are distributed evenly.
    pub(crate) threads: usize,
}

#[derive(Debug)]
struct Progress {
    claimed: usize,
    /// Bytes of the texts tokenized so far, from which the tokens of the others are estimated.
    bytes: usize,
    tokens: usize,
}

impl Batches {
    /// Creates the batches of texts, given by their indices and `bytes`.
    pub(crate) fn new(bytes: impl IntoIterator<Item = (usize, usize)>, limits: Limits) -> Self {
        let mut texts: Vec<(usize, usize)> = bytes.into_iter().collect();
        texts.sort_by_key(|&(_, bytes)| Reverse(bytes));
        let (order, bytes) = texts.into_iter().unzip();
        // Four bytes per token are typical of subwords; used until the first batch is tokenized.
        let progress = Progress { claimed: 0, bytes: 4, tokens: 1 };
        Self { order, bytes, limits, progress: progress.into() }
    }

    fn size_of(&self, texts: Range<usize>) -> usize {
        // An empty text takes time, too.
        let bytes: usize = self.bytes[texts].iter().map(|bytes| bytes.saturating_add(1)).sum();
        bytes.saturating_mul(self.limits.rows.max(1))
    }

    /// Returns the first unclaimed texts that are likely to keep the limits; `None` if all texts
    /// are claimed.
    fn next(&self, progress: &Progress) -> Option<Range<usize>> {
        let start = progress.claimed;
        let longest = *self.bytes.get(start)?;
        let estimate = longest.saturating_mul(progress.tokens) / progress.bytes + 1;
        let fair_share = self.order.len().div_ceil(self.limits.threads.max(1));
        let count = self.limits.count(estimate).min(fair_share).min(self.order.len() - start);
        Some(start..start + count)
    }

    /// Indices of the texts of a batch.
    pub(crate) fn texts(&self, batch: Range<usize>) -> &[usize] {
        &self.order[batch]
    }

    /// Records the `tokens` of a batch, for the estimates of the next ones.
    pub(crate) fn learn(&self, batch: Range<usize>, tokens: usize) {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        progress.bytes += self.bytes[batch].iter().sum::<usize>();
        progress.tokens += tokens;
    }

    /// Splits items, longest first, into parts that keep the limits by their number of tokens.
    pub(crate) fn split<'a, T>(
        &self,
        items: &'a mut [T],
        tokens: impl Fn(&T) -> usize,
    ) -> impl Iterator<Item = &'a [T]> {
        items.sort_by_key(|item| Reverse(tokens(item)));
        let mut rest = &*items;
        std::iter::from_fn(move || {
            let longest = tokens(rest.first()?);
            let (part, later) = rest.split_at(self.limits.count(longest).min(rest.len()));
            rest = later;
            Some(part)
        })
    }
}

impl Claims for Batches {
    fn len(&self) -> usize {
        self.order.len()
    }

    /// Claims a batch that is likely to keep the limits.
    fn claim(&self) -> Option<Range<usize>> {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        let batch = self.next(&progress)?;
        progress.claimed = batch.end;
        Some(batch)
    }

    /// Returns the bytes of the next batch, counted once for each row of a text.
    fn next_size(&self) -> usize {
        let progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        self.next(&progress).map_or(0, |batch| self.size_of(batch))
    }

    fn size(&self) -> usize {
        let progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        self.size_of(progress.claimed..self.order.len())
    }
}

impl Limits {
    /// Returns the number of texts of `tokens` tokens that a batch can have; at least one.
    fn count(self, tokens: usize) -> usize {
        (self.tokens / tokens.saturating_mul(self.rows).max(1)).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims(batches: &Batches) -> Vec<Vec<usize>> {
        std::iter::from_fn(|| batches.claim()).map(|batch| batches.texts(batch).to_vec()).collect()
    }

    /// Texts of 40, 39, 8 and 4 bytes, first estimated at 11, 10, 3 and 2 tokens.
    #[test]
    fn the_longest_come_first_and_batches_keep_their_limit() {
        let bytes = [(7, 8), (8, 40), (9, 4), (10, 39)];
        let batches = |tokens, rows, threads| Batches::new(bytes, Limits { tokens, rows, threads });
        assert_eq!(claims(&batches(22, 1, 1)), [vec![8, 10], vec![7, 9]]);
        assert_eq!(claims(&batches(22, 2, 1)), [vec![8], vec![10], vec![7, 9]]);
        assert_eq!(claims(&batches(1_000, 1, 2)), [vec![8, 10], vec![7, 9]]);
        assert_eq!(claims(&batches(1_000, 1, 9)), [vec![8], vec![10], vec![7], vec![9]]);
        assert_eq!(claims(&batches(0, 1, 1)), [vec![8], vec![10], vec![7], vec![9]]);
        assert_eq!(
            claims(&Batches::new([], Limits { tokens: 9, rows: 1, threads: 1 })),
            [[0; 0]; 0]
        );
    }

    /// Two rows of 40 + 1 and 39 + 1 bytes, then of 8 + 1 and 4 + 1.
    #[test]
    fn sizes_are_those_of_the_texts_not_claimed() {
        let bytes = [(7, 8), (8, 40), (9, 4), (10, 39)];
        let batches = Batches::new(bytes, Limits { tokens: 44, rows: 2, threads: 1 });
        assert_eq!((batches.next_size(), batches.size()), (2 * 81, 2 * 95));
        batches.claim();
        assert_eq!((batches.next_size(), batches.size()), (2 * 14, 2 * 14));
        batches.claim();
        assert_eq!((batches.next_size(), batches.size()), (0, 0));
    }

    /// Texts with a token for each byte, instead of one for every four.
    #[test]
    fn estimates_follow_the_text() {
        let bytes = (0..1_000).map(|index| (index, 100));
        let batches = Batches::new(bytes, Limits { tokens: 1_000, rows: 1, threads: 1 });
        let first = batches.claim().unwrap();
        assert_eq!(first.len(), 1_000 / 26);
        batches.learn(first.clone(), first.len() * 100);
        assert_eq!(batches.claim().unwrap().len(), 1_000 / 100);
    }

    #[test]
    fn items_with_more_tokens_than_estimated_are_split() {
        let batches = Batches::new([], Limits { tokens: 12, rows: 2, threads: 1 });
        let mut lengths = [1, 3, 9, 2, 2];
        let parts: Vec<Vec<usize>> =
            batches.split(&mut lengths, |&length| length).map(<[usize]>::to_vec).collect();
        assert_eq!(parts, [vec![9], vec![3, 2], vec![2, 1]]);
    }
}
