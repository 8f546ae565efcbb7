//! Steps of a beam search, for display.

/// A step of the beam search for one source.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BeamStep {
    /// Continuations of the hypotheses, best first: twice the beam, or fewer if fewer are possible.
    pub candidates: Vec<BeamCandidate>,
}

/// Continuation of a hypothesis by one token.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BeamCandidate {
    /// Hypothesis that is continued: its index among the [kept](Outcome::Kept) candidates of the step before; 0 in the
    /// first step.
    pub parent: usize,
    /// The token.
    pub token: u32,
    /// Natural logarithm of the probability of the hypothesis with the token.
    pub log_probability: f32,
    /// Use of the candidate.
    pub outcome: Outcome,
}

/// Use of a candidate of beam search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The hypothesis remains in the beam.
    Kept,
    /// The hypothesis has ended.
    Finished,
    /// The hypothesis is not among the best, and is dropped.
    Pruned,
}

impl Outcome {
    /// Returns the name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::Finished => "finished",
            Self::Pruned => "pruned",
        }
    }
}
