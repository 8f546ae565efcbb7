//! Word ids, and n-grams as arrays of word ids: counting hashes 16 bytes per n-gram instead of
//! joined strings.

use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
};

/// Maximum n-gram order, N = 4 in Papineni et al. (2002), section 2.3.
pub(crate) const MAX_ORDER: usize = 4;

/// N-gram of up to [`MAX_ORDER`] word ids; unused positions at the end hold 0, which is not a word
/// id.
pub(crate) type Ngram = [u32; MAX_ORDER];

/// Number of occurrences of each key.
pub(crate) type Counts<K> = HashMap<K, u32, BuildHasherDefault<IdHasher>>;

/// Hasher of ids, four or eight bytes at a time. Tables live for one line and their keys are ids
/// assigned in order of appearance, so no text can force collisions.
#[derive(Default)]
pub(crate) struct IdHasher(u64);

impl Hasher for IdHasher {
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
        // Golden ratio, as in Knuth (1973), section 6.4; the high half holds the mixed bits.
        let mixed = (self.0.rotate_left(23) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ mixed >> 32;
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    fn finish(&self) -> u64 {
        // The table takes the slot from the low bits and the tag from the highest seven.
        self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

/// Word ids, assigned from 1 in order of appearance.
#[derive(Default)]
pub(crate) struct Vocabulary {
    ids: HashMap<String, u32>,
}

impl Vocabulary {
    pub(crate) fn clear(&mut self) {
        self.ids.clear();
    }

    pub(crate) fn id(&mut self, word: &str) -> u32 {
        if let Some(&id) = self.ids.get(word) {
            return id;
        }
        // 32 bits are enough, because four billion distinct words do not fit into memory.
        let id = self.ids.len() as u32 + 1;
        self.ids.insert(word.to_owned(), id);
        id
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
    fn equal_words_have_equal_ids() {
        let mut vocabulary = Vocabulary::default();
        let ids: Vec<u32> = ["a", "b", "a"].map(|word| vocabulary.id(word)).into();
        assert_eq!(ids, [1, 2, 1]);
    }

    #[test]
    fn an_order_beyond_the_sentence_has_no_ngrams() {
        assert_eq!(ngrams(&[7, 8, 9], 2).collect::<Vec<_>>(), [[7, 8, 0, 0], [8, 9, 0, 0]]);
        assert_eq!(ngrams(&[7, 8, 9], 4).count(), 0);
        assert_eq!(ngrams(&[], 1).count(), 0);
    }
}
