//! Text that looks like a special token or a byte.

use tokenizers::{
    SplitDelimiterBehavior,
    pre_tokenizers::split::{Split, SplitPattern},
};

use crate::special::SpecialTokens;

/// The `<` of text that looks like a special token or a byte.
const SPECIAL_TEXT: &str = "<(?=(pad|bos|eos|unk|0x[0-9A-F]{2})>)";
/// [`SPECIAL_TEXT`] of a vocabulary with a mask.
const SPECIAL_TEXT_AND_MASK: &str = "<(?=(pad|bos|eos|unk|mask|0x[0-9A-F]{2})>)";
/// The `<` of a word that would be a special token. `<unk>` is not among them, because tokenized
/// corpora use it for unknown words.
const SPECIAL_WORD: &str = "<(?=(pad|bos|eos)>)";
/// [`SPECIAL_WORD`] of a vocabulary with a mask.
const SPECIAL_WORD_OR_MASK: &str = "<(?=(pad|bos|eos|mask)>)";

/// Splits text that looks like a special token after its `<`, so that it becomes two tokens. The text
/// is unchanged.
pub(super) fn apart(special: SpecialTokens) -> tokenizers::Result<Split> {
    let special_text = match special {
        SpecialTokens::Standard => SPECIAL_TEXT,
        SpecialTokens::WithMask => SPECIAL_TEXT_AND_MASK,
    };
    let special_text = SplitPattern::Regex(special_text.into());
    Split::new(special_text, SplitDelimiterBehavior::Isolated, false)
}

/// Regular expression of the `<` of words that would be special tokens.
pub(super) fn special_word(special: SpecialTokens) -> &'static str {
    match special {
        SpecialTokens::Standard => SPECIAL_WORD,
        SpecialTokens::WithMask => SPECIAL_WORD_OR_MASK,
    }
}

/// Token of a byte, as in SentencePiece.
pub(super) fn byte_token(byte: usize) -> String {
    format!("<0x{byte:02X}>")
}
