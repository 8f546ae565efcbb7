//! Segmentation of a normalized text into pieces, with the arithmetic and the order of SentencePiece,
//! so that ties are resolved in the same way.

use std::{
    cmp::Ordering,
    collections::{BinaryHeap, HashMap},
    ops::Range,
};

use super::{
    BPE, Model, NORMAL, UNIGRAM, UNUSED, USER_DEFINED, normalizer::SPACE, piece_trie::PieceTrie,
};

/// Difference of the score of an unknown character and the lowest score of a piece.
const UNKNOWN_PENALTY: f32 = 10.0;

/// Part of a normalized text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Segment {
    /// Bytes of the text.
    pub(super) bytes: Range<usize>,
    /// Number of the piece; `None` for unknown text.
    pub(super) piece: Option<usize>,
}

/// Algorithm of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Algorithm {
    /// The most probable sequence of pieces (Kudo 2018).
    Unigram,
    /// Byte-pair encoding: merges the pair with the highest score until there is none.
    Bpe,
}

/// Pieces of a model with their scores.
#[derive(Debug)]
pub(super) struct Segmenter {
    algorithm: Algorithm,
    /// Pieces that text can become, unused ones included.
    pieces: PieceTrie,
    scores: Vec<f32>,
    kinds: Vec<u64>,
    unknown_score: f32,
    highest_score: f32,
    /// Whether no piece crosses the start of a word, so that words can be segmented one by one.
    has_words: bool,
}

impl Segmenter {
    /// Reads the pieces of a model.
    ///
    /// # Errors
    ///
    /// If the model is of another type, or has a piece twice.
    pub(super) fn new(model: &Model) -> Result<Self, String> {
        let other = |name: &str| {
            format!("it is a SentencePiece model of type `{name}`; tx reads `unigram` and `bpe`")
        };
        let algorithm = match model.kind {
            UNIGRAM => Algorithm::Unigram,
            BPE => Algorithm::Bpe,
            3 => return Err(other("word")),
            4 => return Err(other("char")),
            number => return Err(other(&number.to_string())),
        };
        let is_text = |kind| matches!(kind, 0 | NORMAL | USER_DEFINED | UNUSED);
        let pieces = || model.pieces.iter().zip(0..).filter(|(piece, _)| is_text(piece.kind));
        let crosses = |text: &str| word_starts(text).next().is_some();
        let normal = model.pieces.iter().filter(|piece| piece.kind == NORMAL);
        let scores = normal.map(|piece| piece.score);
        let lowest = scores.clone().fold(f32::MAX, f32::min);
        Ok(Self {
            algorithm,
            pieces: PieceTrie::new(pieces().map(|(piece, number)| (&*piece.text, number)))?,
            scores: model.pieces.iter().map(|piece| piece.score).collect(),
            kinds: model.pieces.iter().map(|piece| piece.kind).collect(),
            unknown_score: lowest - UNKNOWN_PENALTY,
            // SentencePiece starts from the smallest positive number, so a symbol is preferred to
            // any pieces.
            highest_score: scores.fold(f32::MIN_POSITIVE, f32::max),
            has_words: !pieces().any(|(piece, _)| crosses(&piece.text)),
        })
    }

    /// Divides a normalized text. `kept` are user-defined symbols, which are not divided.
    pub(super) fn segment(&self, text: &str, kept: &PieceTrie) -> Vec<Segment> {
        let mut segments = Vec::with_capacity(text.len() / 4);
        let ends = word_starts(text).filter(|_| self.has_words).chain([text.len()]);
        let mut start = 0;
        match self.algorithm {
            Algorithm::Unigram => {
                let (mut nodes, mut score) = (Vec::new(), 0.0);
                for end in ends {
                    score = self.unigram(text, start..end, score, &mut nodes, &mut segments);
                    start = end;
                }
            }
            Algorithm::Bpe => {
                let mut merging = Merging::new(self, text);
                for end in ends {
                    merging.word(start..end, kept, &mut segments);
                    start = end;
                }
            }
        }
        segments
    }

    fn score(&self, piece: usize) -> f32 {
        self.scores.get(piece).copied().unwrap_or_default()
    }

    fn is(&self, piece: usize, kind: u64) -> bool {
        self.kinds.get(piece) == Some(&kind)
    }

    /// Viterbi search in a word, or in a whole text. Scores are summed and compared in single precision,
    /// and the first of equal paths is kept, as by SentencePiece 0.2.3. `score` is that of the text before
    /// the word, through which all paths go; returns that of the text up to its end, so that all sums are
    /// those of the whole text.
    fn unigram(
        &self,
        text: &str,
        word: Range<usize>,
        score: f32,
        nodes: &mut Vec<Node>,
        segments: &mut Vec<Segment>,
    ) -> f32 {
        let (offset, word) = (word.start, text.get(word).unwrap_or_default());
        nodes.clear();
        nodes.resize(word.len() + 1, Node::default());
        if let Some(first) = nodes.first_mut() {
            first.score = score;
        }
        for (start, character) in word.char_indices() {
            let before = nodes.get(start).map_or(0.0, |node| node.score);
            let mut is_known = false;
            let rest = word.as_bytes().get(start..).unwrap_or_default();
            self.pieces.prefixes(rest, |length, piece| {
                let score = match self.kinds.get(piece) {
                    Some(&UNUSED) => return,
                    Some(&USER_DEFINED) => {
                        (f64::from(length as f32 * self.highest_score) - 0.1) as f32
                    }
                    _ => self.score(piece),
                };
                if let Some(node) = nodes.get_mut(start + length) {
                    node.improve(score + before, start, Some(piece));
                }
                is_known |= length == character.len_utf8();
            });
            if !is_known && let Some(node) = nodes.get_mut(start + character.len_utf8()) {
                node.improve(self.unknown_score + before, start, None);
            }
        }
        let first = segments.len();
        let mut end = word.len();
        while let Some(node) = nodes.get(end)
            && let Some(start) = node.start()
        {
            segments.push(Segment { bytes: offset + start..offset + end, piece: node.piece() });
            end = start;
        }
        segments.get_mut(first..).into_iter().for_each(<[Segment]>::reverse);
        nodes.last().map_or(score, |node| node.score)
    }
}

/// Positions of the words of a normalized text after the first: a space that follows another character.
fn word_starts(text: &str) -> impl Iterator<Item = usize> + '_ {
    let starts = text.match_indices(SPACE).map(|(start, _)| start);
    starts.filter(|&start| {
        start > 0 && !text.get(..start).is_some_and(|before| before.ends_with(SPACE))
    })
}

/// Best path that ends at a byte.
#[derive(Debug, Clone, Copy)]
struct Node {
    score: f32,
    /// Start of the last piece; [`NONE`] if no path ends here.
    start: u32,
    /// Number of the last piece; [`NONE`] for an unknown character.
    piece: u32,
}

/// Mark of an absent number.
const NONE: u32 = u32::MAX;

impl Default for Node {
    fn default() -> Self {
        Self { score: 0.0, start: NONE, piece: NONE }
    }
}

impl Node {
    fn start(self) -> Option<usize> {
        (self.start != NONE).then_some(self.start as usize)
    }

    fn piece(self) -> Option<usize> {
        (self.piece != NONE).then_some(self.piece as usize)
    }

    #[inline]
    fn improve(&mut self, score: f32, start: usize, piece: Option<usize>) {
        if self.start == NONE || score > self.score {
            let piece = piece.map_or(NONE, |piece| piece as u32);
            *self = Self { score, start: start as u32, piece };
        }
    }
}

/// State of a byte-pair encoding.
struct Merging<'a> {
    segmenter: &'a Segmenter,
    text: &'a str,
    symbols: Vec<Symbol>,
    agenda: BinaryHeap<Pair>,
    /// Length of the first part of each merge that gave an unused piece, by its text.
    parts: HashMap<&'a str, usize>,
}

/// Characters that are merged so far; empty after it became part of its left neighbor.
struct Symbol {
    bytes: Range<usize>,
    previous: Option<usize>,
    next: Option<usize>,
    is_kept: bool,
}

/// Two neighbors that can be merged.
#[derive(Debug, Clone, Copy)]
struct Pair {
    score: f32,
    left: usize,
    right: usize,
    /// Bytes of both, by which a pair that has changed is recognized.
    length: usize,
}

impl Ord for Pair {
    fn cmp(&self, other: &Self) -> Ordering {
        self.score.total_cmp(&other.score).then(other.left.cmp(&self.left))
    }
}

impl PartialOrd for Pair {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Pair {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Pair {}

impl<'a> Merging<'a> {
    fn new(segmenter: &'a Segmenter, text: &'a str) -> Self {
        let (symbols, agenda, parts) = (Vec::new(), BinaryHeap::new(), HashMap::new());
        Self { segmenter, text, symbols, agenda, parts }
    }

    /// Divides a word, or a whole text: merges pairs of neighbors, the highest score first, the
    /// leftmost of equal scores first.
    fn word(&mut self, word: Range<usize>, kept: &PieceTrie, segments: &mut Vec<Segment>) {
        self.symbols.clear();
        self.agenda.clear();
        self.parts.clear();
        self.split(word, kept);
        self.merge();
        self.divide(segments);
    }

    /// Splits a word into characters and user-defined symbols.
    fn split(&mut self, word: Range<usize>, kept: &PieceTrie) {
        let mut start = word.start;
        while let Some(rest) = self.text.get(start..word.end)
            && let Some(character) = rest.chars().next()
        {
            let symbol = if kept.is_empty() { None } else { kept.longest(rest) };
            let length = symbol.unwrap_or(character.len_utf8());
            let index = self.symbols.len();
            let next = (start + length < word.end).then_some(index + 1);
            self.symbols.push(Symbol {
                bytes: start..start + length,
                previous: index.checked_sub(1),
                next,
                is_kept: symbol.is_some(),
            });
            start += length;
        }
    }

    fn merge(&mut self) {
        for index in 1..self.symbols.len() {
            self.propose(Some(index - 1), Some(index));
        }
        while let Some(Pair { left, right, length, .. }) = self.agenda.pop() {
            let (Some(first), Some(second)) = (self.symbols.get(left), self.symbols.get(right))
            else {
                continue;
            };
            let is_current = !first.bytes.is_empty()
                && !second.bytes.is_empty()
                && first.bytes.len() + second.bytes.len() == length;
            if !is_current {
                continue;
            }
            let (end, next, previous) = (second.bytes.end, second.next, first.previous);
            if let Some(second) = self.symbols.get_mut(right) {
                second.bytes = 0..0;
            }
            if let Some(first) = self.symbols.get_mut(left) {
                first.bytes.end = end;
                first.next = next;
            }
            if let Some(after) = next.and_then(|next| self.symbols.get_mut(next)) {
                after.previous = Some(left);
            }
            self.propose(previous, Some(left));
            self.propose(Some(left), next);
        }
    }

    /// Adds a pair to the agenda if it gives a piece.
    fn propose(&mut self, left: Option<usize>, right: Option<usize>) {
        let (Some(left), Some(right)) = (left, right) else { return };
        let (Some(first), Some(second)) = (self.symbols.get(left), self.symbols.get(right)) else {
            return;
        };
        if first.is_kept || second.is_kept {
            return;
        }
        let bytes = first.bytes.start..second.bytes.end;
        let (length, middle) = (bytes.len(), first.bytes.end);
        let Some(text) = self.text.get(bytes.clone()) else { return };
        let Some(piece) = self.segmenter.pieces.get(text) else { return };
        let score = self.segmenter.score(piece);
        self.agenda.push(Pair { score, left, right, length });
        if self.segmenter.is(piece, UNUSED) {
            self.parts.insert(text, middle - bytes.start);
        }
    }

    /// Appends the symbols as pieces. An unused piece is divided into the parts that it was merged from.
    fn divide(&self, segments: &mut Vec<Segment>) {
        let mut next = (!self.symbols.is_empty()).then_some(0);
        while let Some(symbol) = next.and_then(|index| self.symbols.get(index)) {
            next = symbol.next;
            let mut open = vec![symbol.bytes.clone()];
            while let Some(bytes) = open.pop() {
                let text = self.text.get(bytes.clone()).unwrap_or_default();
                let piece = self.segmenter.pieces.get(text);
                let is_unused = piece.is_some_and(|piece| self.segmenter.is(piece, UNUSED));
                match self.parts.get(text) {
                    Some(length) if is_unused => {
                        open.push(bytes.start + length..bytes.end);
                        open.push(bytes.start..bytes.start + length);
                    }
                    _ => segments.push(Segment { bytes, piece }),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokenizer::sentencepiece::Piece;

    fn segmenter(kind: u64, pieces: &[(&str, f32, u64)]) -> Segmenter {
        let mut model = Model { kind, ..Model::default() };
        model.pieces = pieces
            .iter()
            .map(|&(text, score, kind)| Piece { text: text.to_owned(), score, kind })
            .collect();
        Segmenter::new(&model).unwrap()
    }

    fn segments<'a>(segmenter: &Segmenter, text: &'a str) -> Vec<(&'a str, bool)> {
        let kept = PieceTrie::new(std::iter::empty()).unwrap();
        let segments = segmenter.segment(text, &kept);
        segments.iter().map(|part| (&text[part.bytes.clone()], part.piece.is_some())).collect()
    }

    /// Scores of the paths: ab·c = -3, a·bc = -2.5, a·b·c = -6. `x` is unknown.
    #[test]
    fn the_most_probable_path() {
        let pieces =
            [("a", -2.0, 1), ("b", -2.0, 1), ("c", -2.0, 1), ("ab", -1.0, 1), ("bc", -0.5, 1)];
        let segmenter = segmenter(UNIGRAM, &pieces);
        assert_eq!(segments(&segmenter, "abc"), [("a", true), ("bc", true)]);
        assert_eq!(segments(&segmenter, "abxb"), [("ab", true), ("x", false), ("b", true)]);
        assert_eq!(segments(&segmenter, ""), []);
    }

    /// In single precision, x·0·00 and x·00·0 have the score −15.6 both; in double precision, the second
    /// is larger than the first rounded. SentencePiece 0.2.3 keeps the first.
    #[test]
    fn the_first_of_equal_paths_is_kept() {
        let pieces = [("x", -8.5, 1), ("0", -3.6, 1), ("00", -3.5, 1)];
        let segmenter = segmenter(UNIGRAM, &pieces);
        assert_eq!(segments(&segmenter, "x000"), [("x", true), ("0", true), ("00", true)]);
    }

    /// `bc` has a higher score than `ab`, so it is merged first; `aa` is merged from the left. The
    /// unused piece `de` is divided again.
    #[test]
    fn the_best_pair_is_merged_first() {
        let pieces = [
            ("ab", -2.0, 1),
            ("bc", -1.0, 1),
            ("aa", -3.0, 1),
            ("a", -9.0, 1),
            ("d", -9.0, 1),
            ("e", -9.0, 1),
            ("de", -4.0, UNUSED),
        ];
        let segmenter = segmenter(BPE, &pieces);
        assert_eq!(segments(&segmenter, "abc"), [("a", true), ("bc", true)]);
        assert_eq!(segments(&segmenter, "aaa"), [("aa", true), ("a", true)]);
        assert_eq!(segments(&segmenter, "dex"), [("d", true), ("e", true), ("x", false)]);
    }

    /// With the piece `b▁a`, no word can be segmented alone.
    #[test]
    fn words_are_segmented_alone_unless_a_piece_crosses_them() {
        let pieces =
            [("a", -2.0, 1), ("b", -2.0, 1), ("▁", -2.0, 1), ("▁a", -1.0, 1), ("▁▁", -1.0, 1)];
        for kind in [UNIGRAM, BPE] {
            let words = segmenter(kind, &pieces);
            assert!(words.has_words);
            assert_eq!(
                segments(&words, "▁ab▁a▁▁b▁"),
                ["▁a", "b", "▁a", "▁▁", "b", "▁"].map(|piece| (piece, true))
            );
            let crossing = segmenter(kind, &[&pieces[..], &[("b▁", -0.5, 1)]].concat());
            assert!(!crossing.has_words);
            assert_eq!(segments(&crossing, "ab▁a"), ["a", "b▁", "a"].map(|piece| (piece, true)));
        }
        assert_eq!(word_starts("▁a▁▁b▁").collect::<Vec<_>>(), [4, 11]);
    }
}
