//! What is asked for one sentence.

/// A source, and what its target must begin with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Request<'a> {
    /// Token ids as the source tokenizer gives them; at least one.
    pub source: &'a [u32],
    /// Token ids that the target begins with, without `<bos>` and `<eos>`; fewer than the model's
    /// `max_len`. They are said whatever the options forbid, and their probability counts.
    pub prefix: &'a [u32],
    /// Number of the sentence: what is drawn for it depends on this and on the seed.
    pub number: u64,
}

impl<'a> Request<'a> {
    /// Asks for targets of `source`, sentence `number`.
    pub fn new(source: &'a [u32], number: u64) -> Self {
        Self { source, prefix: &[], number }
    }
}
