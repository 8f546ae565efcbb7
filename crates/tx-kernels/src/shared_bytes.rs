//! Bytes of weights, which may lie in a mapped file.

use std::{fmt, ops::Range, sync::Arc};

/// Part of a buffer, which it keeps alive. Clones share the buffer.
#[derive(Clone)]
pub struct SharedBytes {
    owner: Arc<dyn AsRef<[u8]> + Send + Sync>,
    range: Range<usize>,
}

impl SharedBytes {
    /// Returns the bytes of `owner` in `range`, or `None` if it does not have them all.
    pub fn new(owner: Arc<dyn AsRef<[u8]> + Send + Sync>, range: Range<usize>) -> Option<Self> {
        let exists = (*owner).as_ref().get(range.clone()).is_some();
        exists.then_some(Self { owner, range })
    }

    /// Returns the bytes.
    pub fn as_slice(&self) -> &[u8] {
        &(*self.owner).as_ref()[self.range.clone()]
    }
}

impl From<Vec<u8>> for SharedBytes {
    fn from(bytes: Vec<u8>) -> Self {
        let range = 0..bytes.len();
        Self { owner: Arc::new(bytes), range }
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
        let owner: Arc<dyn AsRef<[u8]> + Send + Sync> = Arc::new(vec![1, 2, 3, 4]);
        let part = |range| Some(SharedBytes::new(owner.clone(), range)?.as_slice().to_vec());
        assert_eq!(part(1..3), Some(vec![2, 3]));
        assert_eq!(part(4..4), Some(vec![]));
        assert_eq!(part(2..5), None);
        assert_eq!(SharedBytes::from(vec![7]).as_slice(), [7]);
    }
}
