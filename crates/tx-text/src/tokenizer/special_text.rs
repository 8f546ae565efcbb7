//! Text that looks like a special token or a byte.

use tokenizers::{
    SplitDelimiterBehavior,
    pre_tokenizers::split::{Split, SplitPattern},
};

/// The `<` of text that looks like a special token or a byte.
const SPECIAL_TEXT: &str = "<(?=(pad|bos|eos|unk|0x[0-9A-F]{2})>)";

/// Splits text that looks like a special token after its `<`, so that it becomes two tokens. The text
/// is unchanged.
pub(super) fn apart() -> tokenizers::Result<Split> {
    let special_text = SplitPattern::Regex(SPECIAL_TEXT.into());
    Split::new(special_text, SplitDelimiterBehavior::Isolated, false)
}

/// Token of a byte, as in SentencePiece.
pub(super) fn byte_token(byte: usize) -> String {
    format!("<0x{byte:02X}>")
}
