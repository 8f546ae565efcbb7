//! Masked tokens of masked language modeling (Devlin et al. 2019, section 3.1).

use std::{ops::Range, sync::Arc};

use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tx_text::{
    TextError, Tokenizer, WordTable,
    special::{MASK, PAD, SpecialTokens},
};

/// Mixed into the seed, so that the masks differ from other random numbers of a run.
const MASKS: u64 = 0xbf58_476d_1ce4_e5b9;
/// First id of an ordinary token. Special tokens are neither predicted nor sampled.
const FIRST: u32 = SpecialTokens::WithMask.count() as u32;

/// Text with some tokens to predict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MaskedText {
    /// Input of the model.
    pub ids: Vec<u32>,
    /// Original token at each position to predict, and `<pad>` elsewhere.
    pub labels: Vec<u32>,
}

/// Choice of the tokens to predict.
///
/// Each token is chosen at a rate of 15 %. Of the chosen ones, 80 % become `<mask>`, 10 % a random token,
/// and 10 % are unchanged. Special and unknown tokens are not chosen. A text in which no token was chosen
/// gets one chosen token at random, so that every text contributes to the loss.
///
/// ```
/// use tx_data::Masking;
/// use tx_text::{Tokenizer, TokenizerConfig, special::SpecialTokens};
///
/// let config = TokenizerConfig::default();
/// let tokenizer = Tokenizer::train(&config, SpecialTokens::WithMask, &["a b c d"])?;
/// let masking = Masking::new(&tokenizer)?;
/// let ids = tokenizer.encode("d c b a")?;
/// let first = masking.of_example(&ids, 1, 1, 0);
/// assert!(first.labels.iter().any(|&label| label != 0));
/// assert_eq!(masking.of_example(&ids, 1, 1, 0), first);
/// # Ok::<(), tx_data::DataError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Masking {
    rate: f64,
    vocab_size: u32,
    /// Words that are chosen as a whole; `None` chooses tokens.
    words: Option<Arc<WordTable>>,
}

impl Masking {
    /// Rate of BERT.
    pub const RATE: f64 = 0.15;

    /// Choice of single tokens.
    ///
    /// # Errors
    ///
    /// [`TextError::NoMask`] if the vocabulary of `tokenizer` has no `<mask>`.
    pub fn new(tokenizer: &Tokenizer) -> Result<Self, TextError> {
        tokenizer.mask_id().ok_or(TextError::NoMask)?;
        Ok(Self { rate: Self::RATE, vocab_size: tokenizer.vocab_size() as u32, words: None })
    }

    /// Choice of whole words: all tokens of a chosen word are predicted. `tokenizer` must be that of
    /// [`new`](Self::new).
    pub fn with_whole_words(self, tokenizer: &Tokenizer) -> Self {
        Self { words: Some(Arc::new(WordTable::of(tokenizer))), ..self }
    }

    /// Masks an example. The result is a function of the seed, the epoch, the number of the example, and
    /// its tokens; it does not depend on the batch.
    pub fn of_example(&self, ids: &[u32], seed: u64, epoch: usize, example: usize) -> MaskedText {
        let mut random = ChaCha8Rng::seed_from_u64(seed ^ MASKS);
        // Room for 2^40 examples.
        random.set_stream((epoch as u64) << 40 | example as u64);
        self.apply(ids, &mut random)
    }

    /// Masks a text with the given random numbers.
    pub fn apply(&self, ids: &[u32], random: &mut impl Rng) -> MaskedText {
        let mut masked = MaskedText { ids: ids.to_vec(), labels: vec![PAD; ids.len()] };
        let units: Vec<Range<usize>> = match &self.words {
            Some(words) => words.words(ids),
            None => {
                let ordinary = (0..ids.len()).filter(|&index| ids[index] >= FIRST);
                ordinary.map(|index| index..index + 1).collect()
            }
        };

        let mut is_any_chosen = false;
        for unit in &units {
            if random.random_bool(self.rate) {
                is_any_chosen = true;
                self.predict(unit.clone(), &mut masked, random);
            }
        }
        if !is_any_chosen && !units.is_empty() {
            let unit = random.random_range(0..units.len() as u32) as usize;
            self.predict(units[unit].clone(), &mut masked, random);
        }
        masked
    }

    /// Makes labels of the tokens at `unit`, and replaces most of them in the input.
    fn predict(&self, unit: Range<usize>, masked: &mut MaskedText, random: &mut impl Rng) {
        for index in unit {
            masked.labels[index] = masked.ids[index];
            match random.random_range(0..10_u32) {
                0..8 => masked.ids[index] = MASK,
                8 => masked.ids[index] = random.random_range(FIRST..self.vocab_size.max(FIRST + 1)),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tx_text::{
        TokenizerConfig, TokenizerKind,
        special::{BOS, EOS, UNK},
    };

    use super::*;

    /// Tokenizer of characters: `a` to `z`, and the space.
    fn tokenizer() -> Tokenizer {
        let config =
            TokenizerConfig { kind: TokenizerKind::Character, ..TokenizerConfig::default() };
        let letters: String = ('a'..='z').chain([' ', 'a']).collect();
        Tokenizer::train(&config, SpecialTokens::WithMask, &[letters]).unwrap()
    }

    /// 100,000 ordinary tokens, each followed by `<unk>`, between `<bos>` and `<eos>`.
    fn long_text() -> Vec<u32> {
        let ordinary = (0..100_000).flat_map(|i| [FIRST + i % 26, UNK]);
        [BOS].into_iter().chain(ordinary).chain([EOS]).collect()
    }

    /// Compares a count of `n` samples at probability `p` with its expectation, within four standard
    /// deviations of the binomial distribution, √(n p (1 − p)).
    fn assert_rate(count: usize, n: usize, p: f64) {
        let (count, n) = (count as f64, n as f64);
        let deviation = (n * p * (1.0 - p)).sqrt();
        assert!((count - n * p).abs() < 4.0 * deviation, "{count} of {n}, expected {}", n * p);
    }

    #[test]
    fn rates_are_those_of_the_paper() {
        let masking = Masking::new(&tokenizer()).unwrap();
        let ids = long_text();
        let MaskedText { ids: input, labels } = masking.of_example(&ids, 3, 1, 0);
        let chosen: Vec<usize> = (0..ids.len()).filter(|&index| labels[index] != PAD).collect();
        assert_rate(chosen.len(), 100_000, 0.15);
        let count = |is: &dyn Fn(usize) -> bool| chosen.iter().filter(|&&index| is(index)).count();
        assert_rate(count(&|index| input[index] == MASK), chosen.len(), 0.8);
        // A random token is the original one at 1/27: the vocabulary has 27 ordinary tokens.
        let changed = count(&|index| input[index] != MASK && input[index] != ids[index]);
        assert_rate(changed, chosen.len(), 0.1 * 26.0 / 27.0);
        assert_rate(count(&|index| input[index] == ids[index]), chosen.len(), 0.1 + 0.1 / 27.0);
    }

    #[test]
    fn labels_are_the_tokens_that_were_chosen_and_padding_elsewhere() {
        let masking = Masking::new(&tokenizer()).unwrap();
        let ids = long_text();
        let MaskedText { ids: input, labels } = masking.of_example(&ids, 3, 1, 0);
        for index in 0..ids.len() {
            if labels[index] == PAD {
                assert_eq!(input[index], ids[index]);
            } else {
                assert_eq!(labels[index], ids[index]);
                assert!(ids[index] >= FIRST, "a special token is not predicted");
            }
        }
        let vocab_size = tokenizer().vocab_size();
        assert!(input.iter().all(|&id| (id as usize) < vocab_size));
    }

    #[test]
    fn seed_epoch_and_example_determine_the_masks() {
        let masking = Masking::new(&tokenizer()).unwrap();
        let ids = &long_text()[..400];
        let first = masking.of_example(ids, 3, 1, 0);
        assert_eq!(masking.of_example(ids, 3, 1, 0), first);
        for (seed, epoch, example) in [(4, 1, 0), (3, 2, 0), (3, 1, 1)] {
            assert_ne!(masking.of_example(ids, seed, epoch, example), first);
        }
    }

    #[test]
    fn a_short_text_has_a_token_to_predict() {
        let masking = Masking::new(&tokenizer()).unwrap();
        for example in 0..200 {
            let labels = masking.of_example(&[BOS, FIRST + 3, EOS], 1, 1, example).labels;
            assert_eq!(labels, [PAD, FIRST + 3, PAD]);
        }
        let empty = masking.of_example(&[BOS, UNK, EOS], 1, 1, 0);
        assert_eq!(empty, MaskedText { ids: vec![BOS, UNK, EOS], labels: vec![PAD; 3] });
        assert!(masking.of_example(&[], 1, 1, 0).labels.is_empty());
    }

    #[test]
    fn whole_words_are_predicted_or_not() {
        let tokenizer = tokenizer();
        let masking = Masking::new(&tokenizer).unwrap().with_whole_words(&tokenizer);
        let words = 20_000;
        let ids = tokenizer.encode(&vec!["word"; words].join(" ")).unwrap();
        let labels = masking.of_example(&ids, 1, 1, 0).labels;
        // `<bos>`, then five characters a word, the last of which is the space.
        let mut chosen = [0, 0];
        for word in labels[1..].chunks(5) {
            let predicted: Vec<bool> = word.iter().map(|&label| label != PAD).collect();
            assert!(predicted[1..4].iter().all(|&it| it == predicted[0]));
            chosen[0] += usize::from(predicted[0]);
            chosen[1] += usize::from(word.len() == 5 && predicted[4] && word[4] > EOS);
        }
        assert_rate(chosen[0], words, 0.15);
        // A space is a word of its own.
        assert_rate(chosen[1], words - 1, 0.15);
    }

    #[test]
    fn a_tokenizer_without_mask_is_refused() {
        let config = TokenizerConfig::default();
        let tokenizer = Tokenizer::train(&config, SpecialTokens::Standard, &["a b"]).unwrap();
        assert!(matches!(Masking::new(&tokenizer), Err(TextError::NoMask)));
    }
}
