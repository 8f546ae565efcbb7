//! Search requests.

use super::Constraints;
use crate::cancellation::Cancellation;

/// A source, and the constraints on its target that differ between sentences.
#[derive(Debug, Clone, Copy, Default)]
pub struct Request<'a> {
    /// Token ids of the source tokenizer; at least one. Empty for a language model.
    pub source: &'a [u32],
    /// Number of ids of `source` that belong to the context before the text, which limits on the length of
    /// the target do not count.
    pub context: usize,
    /// First token of the target, such as that of its language. It counts in the length, and its
    /// log-probability is 0. No option suppresses it.
    pub forced_first: Option<u32>,
    /// Token ids that the target begins with, after `forced_first`, without `<bos>`; together fewer than the model's
    /// `max_len`. No option suppresses them, and their probability counts. `<eos>` at the end ends the target.
    pub prefix: &'a [u32],
    /// Texts that the target contains. Beam search meets them; greedy search and samples do not.
    pub constraints: Option<&'a Constraints>,
    /// Words as token ids that the target may have besides those of a [lexicon](crate::lexicon), such as names of the
    /// source. `None` allows all words.
    pub words: Option<&'a [Vec<u32>]>,
    /// Number of the sentence. Samples depend on it and on the seed.
    pub number: u64,
    /// Cancellation of this request alone. Once it is set, the request leaves the batch before the
    /// next step and has no hypotheses.
    pub cancellation: Option<&'a Cancellation>,
}

impl<'a> Request<'a> {
    /// Creates a request for targets of `source`, the sentence with this `number`.
    pub fn new(source: &'a [u32], number: u64) -> Self {
        Self { source, number, ..Self::default() }
    }

    /// Returns `true` if this request is canceled.
    pub(super) fn is_cancelled(&self) -> bool {
        self.cancellation.is_some_and(Cancellation::is_cancelled)
    }
}
