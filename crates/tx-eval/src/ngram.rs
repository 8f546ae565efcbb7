//! Words as numbers and n-grams as short arrays of them: counting then hashes 16 bytes an n-gram
//! instead of joining strings.

use std::collections::HashMap;

/// The longest n-gram that is counted, N = 4 in Papineni et al. (2002), section 2.3.
pub(crate) const MAX_ORDER: usize = 4;

/// Up to [`MAX_ORDER`] word numbers; unused places at the end hold 0, which is no word.
pub(crate) type Ngram = [u32; MAX_ORDER];

/// Numbers the words of a corpus from 1, in order of appearance.
#[derive(Default)]
pub(crate) struct Vocabulary {
    numbers: HashMap<String, u32>,
}

impl Vocabulary {
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
