//! Special tokens and their ids, the same in every vocabulary.

/// Padding of a row to the length of the longest one in its batch.
pub const PAD: u32 = 0;
/// Beginning of a target; the first input of the decoder.
pub const BOS: u32 = 1;
/// End of a sentence.
pub const EOS: u32 = 2;
/// Unknown token: replaces text that is not in the vocabulary.
pub const UNK: u32 = 3;
/// Input of a masked language model at a position whose token it predicts; in vocabularies
/// [with a mask](SpecialTokens::WithMask) only.
pub const MASK: u32 = 4;

/// Special tokens as written in every vocabulary, at the ids above.
pub const SPECIAL_TOKENS: [&str; 4] = ["<pad>", "<bos>", "<eos>", "<unk>"];
/// [`MASK`] as written in a vocabulary and in the input of a masked language model.
pub const MASK_TOKEN: &str = "<mask>";

/// Special tokens that a vocabulary starts with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpecialTokens {
    /// [`SPECIAL_TOKENS`].
    Standard,
    /// [`SPECIAL_TOKENS`] and [`MASK_TOKEN`], for masked language models.
    WithMask,
}

impl SpecialTokens {
    /// Special tokens in the order of their ids.
    pub const fn tokens(self) -> &'static [&'static str] {
        match self {
            Self::Standard => &SPECIAL_TOKENS,
            Self::WithMask => &["<pad>", "<bos>", "<eos>", "<unk>", MASK_TOKEN],
        }
    }

    /// Number of special tokens, which is the first id of an ordinary token.
    pub const fn count(self) -> usize {
        self.tokens().len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_follows_the_tokens_of_every_vocabulary() {
        let [standard, with_mask] =
            [SpecialTokens::Standard, SpecialTokens::WithMask].map(SpecialTokens::tokens);
        assert_eq!(standard, SPECIAL_TOKENS);
        assert_eq!(with_mask[..4], SPECIAL_TOKENS);
        assert_eq!(with_mask[MASK as usize..], [MASK_TOKEN]);
    }
}
