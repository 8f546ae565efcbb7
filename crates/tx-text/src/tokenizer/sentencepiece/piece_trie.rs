//! Pieces of a model as a trie, for finding those that a text starts with.

/// Maximum bytes of all pieces. The trie takes up to 17 bytes of memory for each.
const MAX_BYTES: usize = 8 << 20;

/// Pieces with their numbers, as a trie of bytes.
#[derive(Debug)]
pub(super) struct PieceTrie {
    nodes: Vec<Node>,
    /// Byte that leads from its parent to each node except the root; children are sorted by it.
    bytes: Vec<u8>,
}

/// Node of the trie: the text that leads to it.
#[derive(Debug, Clone, Copy)]
struct Node {
    /// First child. The children of a node are consecutive.
    first: u32,
    children: u16,
    /// Number of the piece with this text, or [`NO_PIECE`].
    piece: u32,
}

/// Mark of a node whose text is not a piece.
const NO_PIECE: u32 = u32::MAX;

impl PieceTrie {
    /// Builds the trie.
    ///
    /// # Errors
    ///
    /// If two pieces are equal, or the pieces have too many bytes together.
    pub(super) fn new<'a>(pieces: impl Iterator<Item = (&'a str, usize)>) -> Result<Self, String> {
        let mut sorted: Vec<(&[u8], usize)> =
            pieces.map(|(text, number)| (text.as_bytes(), number)).collect();
        sorted.sort_unstable();
        let all: usize = sorted.iter().map(|(piece, _)| piece.len()).sum();
        if all > MAX_BYTES || sorted.len() >= NO_PIECE as usize {
            return Err(format!("its pieces have {all} bytes together, more than {MAX_BYTES}"));
        }
        if let Some(&[(twice, _), _]) =
            sorted.array_windows::<2>().find(|[(first, _), (second, _)]| first == second)
        {
            return Err(format!("it has the piece `{}` twice", String::from_utf8_lossy(twice)));
        }
        let mut trie = Self { nodes: vec![Node::EMPTY], bytes: vec![0] };
        // Nodes without children so far: index, pieces that start with their text, and its length.
        let mut level = vec![(0, sorted.as_slice())];
        let mut depth = 0;
        while !level.is_empty() {
            let mut next_level = Vec::new();
            for (index, mut below) in level {
                let mut node = Node { first: trie.nodes.len() as u32, ..Node::EMPTY };
                if let Some(&(piece, number)) = below.first()
                    && piece.len() == depth
                {
                    node.piece = number as u32;
                    below = below.get(1..).unwrap_or_default();
                }
                for child in below.chunk_by(|(a, _), (b, _)| a.get(depth) == b.get(depth)) {
                    let byte = child.first().and_then(|(piece, _)| piece.get(depth));
                    next_level.push((trie.nodes.len(), child));
                    trie.nodes.push(Node::EMPTY);
                    trie.bytes.push(byte.copied().unwrap_or_default());
                    node.children += 1;
                }
                if let Some(place) = trie.nodes.get_mut(index) {
                    *place = node;
                }
            }
            level = next_level;
            depth += 1;
        }
        Ok(trie)
    }

    /// Number of the piece with this text.
    pub(super) fn get(&self, text: &str) -> Option<usize> {
        let mut node = *self.nodes.first()?;
        for byte in text.bytes() {
            node = self.child(node, byte)?;
        }
        node.piece()
    }

    /// Pieces that `text` starts with, shortest first: the length in bytes and the number of each.
    #[inline]
    pub(super) fn prefixes(&self, text: &[u8], mut found: impl FnMut(usize, usize)) {
        let Some(&root) = self.nodes.first() else { return };
        let mut node = root;
        for (&byte, length) in text.iter().zip(1..) {
            let Some(child) = self.child(node, byte) else { return };
            if let Some(piece) = child.piece() {
                found(length, piece);
            }
            node = child;
        }
    }

    /// Length in bytes of the longest piece that `text` starts with.
    pub(super) fn longest(&self, text: &str) -> Option<usize> {
        let mut longest = None;
        self.prefixes(text.as_bytes(), |length, _| longest = Some(length));
        longest
    }

    /// Returns `true` if there are no pieces.
    pub(super) fn is_empty(&self) -> bool {
        self.nodes.len() <= 1
    }

    #[inline]
    fn child(&self, node: Node, byte: u8) -> Option<Node> {
        let first = node.first as usize;
        let bytes = self.bytes.get(first..first + usize::from(node.children))?;
        let place = match bytes.len() {
            0..=8 => bytes.iter().position(|&other| other == byte)?,
            _ => bytes.binary_search(&byte).ok()?,
        };
        self.nodes.get(first + place).copied()
    }
}

impl Node {
    const EMPTY: Self = Self { first: 0, children: 0, piece: NO_PIECE };

    #[inline]
    fn piece(self) -> Option<usize> {
        (self.piece != NO_PIECE).then_some(self.piece as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_prefixes_of_a_text() {
        let texts = ["ab", "a", "abcd", "b", "äh", "abd"];
        let pieces = PieceTrie::new(texts.iter().copied().zip(0..)).unwrap();
        let found = |text: &str| {
            let mut found = Vec::new();
            pieces.prefixes(text.as_bytes(), |length, piece| found.push((length, piece)));
            found
        };
        assert_eq!(found("abcde"), [(1, 1), (2, 0), (4, 2)]);
        assert_eq!(found("ab"), [(1, 1), (2, 0)]);
        assert_eq!(found("ähm"), [(3, 4)]);
        assert_eq!(found("x"), []);
        assert_eq!(found(""), []);
        assert_eq!((pieces.get("abd"), pieces.get("abc"), pieces.get("")), (Some(5), None, None));
        assert_eq!((pieces.longest("abcx"), pieces.longest("x")), (Some(2), None));
        assert!(PieceTrie::new(std::iter::empty()).unwrap().is_empty());
        let error = PieceTrie::new(["a", "b", "a"].into_iter().zip(0..)).unwrap_err();
        assert_eq!(error, "it has the piece `a` twice");
    }

    /// A node with more children than are searched one by one, and more than 255.
    #[test]
    fn every_byte_is_found() {
        let texts: Vec<String> = ('\u{1}'..'\u{800}').map(String::from).collect();
        let pieces = PieceTrie::new(texts.iter().map(String::as_str).zip(0..)).unwrap();
        for (text, number) in texts.iter().zip(0..) {
            assert_eq!(pieces.get(text), Some(number));
        }
    }

    #[test]
    fn the_bytes_of_all_pieces_are_limited() {
        let texts: Vec<String> = (0..9 << 10).map(|number| format!("{number:1024}")).collect();
        let error = PieceTrie::new(texts.iter().map(String::as_str).zip(0..)).unwrap_err();
        assert_eq!(error, "its pieces have 9437184 bytes together, more than 8388608");
    }
}
