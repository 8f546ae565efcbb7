//! A sentence and its translation, or its class, as ids.

/// Sentence as token ids, special tokens included, with its translation or its class.
#[derive(Debug, Clone, PartialEq)]
pub struct EncodedPair {
    /// Input of the encoder, with the special tokens of its tokenizer.
    pub source: Vec<u32>,
    /// `<bos> … <eos>`, or the class of a labeled text.
    pub target: Vec<u32>,
    /// Weight and links between tokens of a training pair; `None` if it has weight 1 and no links.
    pub annotation: Option<Box<PairAnnotation>>,
}

impl EncodedPair {
    /// Creates a pair without annotation.
    pub fn new(source: Vec<u32>, target: Vec<u32>) -> Self {
        Self { source, target, annotation: None }
    }

    /// Inserts ids that no token of the target is linked to.
    ///
    /// # Panics
    ///
    /// If `position` is out of bounds.
    pub fn insert_source(&mut self, position: usize, ids: &[u32]) {
        self.source.splice(position..position, ids.iter().copied());
        for link in self.annotation.iter_mut().flat_map(|annotation| &mut annotation.links) {
            link.source += if link.source < position { 0 } else { ids.len() };
        }
    }

    /// Inserts ids that are linked to no token of the source.
    ///
    /// # Panics
    ///
    /// If `position` is out of bounds.
    pub fn insert_target(&mut self, position: usize, ids: &[u32]) {
        self.target.splice(position..position, ids.iter().copied());
        for link in self.annotation.iter_mut().flat_map(|annotation| &mut annotation.links) {
            link.target += if link.target < position { 0 } else { ids.len() };
        }
    }
}

/// Facts about a pair besides its text.
#[derive(Debug, Clone, PartialEq)]
pub struct PairAnnotation {
    /// Factor of the loss of the pair.
    pub weight: f32,
    /// Word alignment: links between words of a [`SentencePair`](tx_text::SentencePair), or between tokens of an
    /// [`EncodedPair`].
    pub links: Vec<Link>,
}

impl Default for PairAnnotation {
    /// Weight 1, without links.
    fn default() -> Self {
        Self { weight: 1.0, links: Vec::new() }
    }
}

/// Link of a word alignment; both positions are from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Link {
    /// Position in the source.
    pub source: usize,
    /// Position in the target.
    pub target: usize,
}
