//! Words as numbers and n-grams as short arrays of them: counting then hashes 16 bytes an n-gram
//! instead of joining strings.

use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
};

/// The longest n-gram that is counted, N = 4 in Papineni et al. (2002), section 2.3.
pub(crate) const MAX_ORDER: usize = 4;

/// Up to [`MAX_ORDER`] word numbers; unused places at the end hold 0, which is no word.
pub(crate) type Ngram = [u32; MAX_ORDER];

/// How often each key occurs.
pub(crate) type Counts<K> = HashMap<K, u32, BuildHasherDefault<NumberHasher>>;

/// Mixes numbers, four or eight bytes at a time. The tables live for a line, and their keys are
/// numbers given in order of appearance: no text can be made to collide on purpose.
#[derive(Default)]
pub(crate) struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn write(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(8) {
            let mut number = [0; 8];
            number[..part.len()].copy_from_slice(part);
            self.write_u64(u64::from_le_bytes(number));
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    fn write_u64(&mut self, number: u64) {
        // The golden ratio, as in Knuth (1973), section 6.4; the high half holds the mixed bits.
        let mixed = (self.0.rotate_left(23) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ mixed >> 32;
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    fn finish(&self) -> u64 {
        // The table takes its slot from the low bits and its tag from the highest seven.
        self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

/// Numbers words from 1, in order of appearance.
#[derive(Default)]
pub(crate) struct Vocabulary {
    numbers: HashMap<String, u32>,
}

impl Vocabulary {
    pub(crate) fn clear(&mut self) {
        self.numbers.clear();
    }

    pub(crate) fn number(&mut self, word: &str) -> u32 {
        if let Some(&number) = self.numbers.get(word) {
            return number;
        }
        // 32 bits are enough: four billion different words do not fit into memory.
        let number = self.numbers.len() as u32 + 1;
        self.numbers.insert(word.to_owned(), number);
        number
    }
}

/// All n-grams of one order, `1..=MAX_ORDER`, from left to right.
pub(crate) fn ngrams(words: &[u32], order: usize) -> impl Iterator<Item = Ngram> {
    words.windows(order).map(move |window| {
        let mut ngram = [0; MAX_ORDER];
        ngram[..order].copy_from_slice(window);
        ngram
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_words_get_equal_numbers() {
        let mut vocabulary = Vocabulary::default();
        let numbers: Vec<u32> = ["a", "b", "a"].map(|word| vocabulary.number(word)).into();
        assert_eq!(numbers, [1, 2, 1]);
    }

    #[test]
    fn an_order_beyond_the_sentence_has_no_ngrams() {
        assert_eq!(ngrams(&[7, 8, 9], 2).collect::<Vec<_>>(), [[7, 8, 0, 0], [8, 9, 0, 0]]);
        assert_eq!(ngrams(&[7, 8, 9], 4).count(), 0);
        assert_eq!(ngrams(&[], 1).count(), 0);
    }
}
