//! Bytes of weights, which may lie in a mapped file.

use std::{fmt, ops::Range, sync::Arc};

/// Part of a buffer, which it keeps alive. Clones share the buffer.
#[derive(Clone)]
pub struct SharedBytes {
    owner: Arc<dyn AsRef<[u8]> + Send + Sync>,
    range: Range<usize>,
}

impl SharedBytes {
    /// Returns all bytes of `owner`.
    pub fn whole(owner: Arc<dyn AsRef<[u8]> + Send + Sync>) -> Self {
        let range = 0..(*owner).as_ref().len();
        Self { owner, range }
    }

    /// Returns the bytes in `range`, or `None` if there are fewer.
    pub fn part(&self, range: Range<usize>) -> Option<Self> {
        self.as_slice().get(range.clone())?;
        let range = self.range.start + range.start..self.range.start + range.end;
        Some(Self { owner: self.owner.clone(), range })
    }

    /// Returns the bytes.
    pub fn as_slice(&self) -> &[u8] {
        &(*self.owner).as_ref()[self.range.clone()]
    }
}

impl From<Vec<u8>> for SharedBytes {
    fn from(bytes: Vec<u8>) -> Self {
        Self::whole(Arc::new(bytes))
    }
}

impl fmt::Debug for SharedBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedBytes({})", self.range.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_within_its_buffer() {
        let whole = SharedBytes::from(vec![1, 2, 3, 4]);
        let part = |range| Some(whole.part(range)?.as_slice().to_vec());
        assert_eq!(part(1..3), Some(vec![2, 3]));
        assert_eq!(part(4..4), Some(vec![]));
        assert_eq!(part(2..5), None);
        let inner = whole.part(1..4).unwrap();
        assert_eq!(inner.part(1..3).unwrap().as_slice(), [3, 4]);
        assert!(inner.part(1..4).is_none());
    }
}
