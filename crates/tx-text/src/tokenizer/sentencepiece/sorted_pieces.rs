//! Pieces of a model, sorted, for finding those that a text starts with.

/// Pieces with their numbers, sorted by their bytes.
#[derive(Debug)]
pub(super) struct SortedPieces(Vec<(Box<str>, usize)>);

impl SortedPieces {
    /// Sorts pieces; `None` if two are equal.
    pub(super) fn new<'a>(pieces: impl Iterator<Item = (&'a str, usize)>) -> Option<Self> {
        let mut sorted: Vec<(Box<str>, usize)> =
            pieces.map(|(text, number)| (text.into(), number)).collect();
        sorted.sort_unstable();
        let is_unique = sorted.windows(2).all(|pair| match pair {
            [(first, _), (second, _)] => first != second,
            _ => true,
        });
        is_unique.then_some(Self(sorted))
    }

    /// Number of the piece with this text.
    pub(super) fn get(&self, text: &str) -> Option<usize> {
        let found = self.0.binary_search_by(|(piece, _)| (**piece).cmp(text)).ok()?;
        self.0.get(found).map(|(_, number)| *number)
    }

    /// Pieces that `text` starts with, shortest first: the length in bytes and the number of each.
    pub(super) fn prefixes<'a>(
        &'a self,
        text: &'a str,
    ) -> impl Iterator<Item = (usize, usize)> + 'a {
        let mut rest = self.0.as_slice();
        text.bytes()
            .enumerate()
            .map_while(move |(depth, byte)| {
                // All pieces of `rest` have the first `depth` bytes of the text.
                let at = |piece: &str| piece.as_bytes().get(depth).copied();
                let start = rest.partition_point(|(piece, _)| at(piece) < Some(byte));
                let after = rest.get(start..)?;
                let end = after.partition_point(|(piece, _)| at(piece) == Some(byte));
                rest = after.get(..end)?;
                let (first, number) = rest.first()?;
                Some((first.len() == depth + 1).then_some((depth + 1, *number)))
            })
            .flatten()
    }

    /// Length in bytes of the longest piece that `text` starts with.
    pub(super) fn longest(&self, text: &str) -> Option<usize> {
        self.prefixes(text).last().map(|(length, _)| length)
    }

    /// Returns `true` if there are no pieces.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_prefixes_of_a_text() {
        let texts = ["ab", "a", "abcd", "b", "äh", "abd"];
        let pieces = SortedPieces::new(texts.iter().copied().zip(0..)).unwrap();
        let found = |text| pieces.prefixes(text).collect::<Vec<_>>();
        assert_eq!(found("abcde"), [(1, 1), (2, 0), (4, 2)]);
        assert_eq!(found("ab"), [(1, 1), (2, 0)]);
        assert_eq!(found("ähm"), [(3, 4)]);
        assert_eq!(found("x"), []);
        assert_eq!(found(""), []);
        assert_eq!((pieces.get("abd"), pieces.get("abc")), (Some(5), None));
        assert!(SortedPieces::new(["a", "a"].into_iter().zip(0..)).is_none());
    }
}
