//! Special tokens and their ids, the same in every vocabulary.

/// Padding of a row to the length of the longest one in its batch.
pub const PAD: u32 = 0;
/// Beginning of a target; the first input of the decoder.
pub const BOS: u32 = 1;
/// End of a sentence.
pub const EOS: u32 = 2;
/// Unknown token: replaces text that is not in the vocabulary.
pub const UNK: u32 = 3;

/// Special tokens as written in a vocabulary, at the ids above.
pub const SPECIAL_TOKENS: [&str; 4] = ["<pad>", "<bos>", "<eos>", "<unk>"];
