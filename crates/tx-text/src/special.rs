//! The special tokens and their ids, for every vocabulary and everywhere in tx.

/// Fills a row up to the longest of its batch; counts for nothing.
pub const PAD: u32 = 0;
/// Starts a target; the decoder's first input.
pub const BOS: u32 = 1;
/// Ends a sentence.
pub const EOS: u32 = 2;
/// Stands for what the vocabulary does not hold.
pub const UNK: u32 = 3;

/// The special tokens as they stand in a vocabulary, at the ids above.
pub const SPECIAL_TOKENS: [&str; 4] = ["<pad>", "<bos>", "<eos>", "<unk>"];
