//! Decisions that all ranks of a run make together, so that none waits for another forever.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{error::TrainError, ranks::Ranks, recording::run_state::RunState, task::StepOutput};

/// Number of updates between two comparisons of the weights.
const COMPARED_EVERY: usize = 200;

/// Values on which the ranks have agreed. A run of one process decides alone, at any time.
pub(crate) struct Agreement {
    ranks: Arc<dyn Ranks>,
    is_interrupted: bool,
    /// Seconds of the run, by the clock of the first rank.
    seconds: f64,
}

/// Batches of an update, of one rank or of all.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Work {
    pub batches: usize,
    /// Numbers of tokens; loss and correct tokens are 0.
    pub counts: StepOutput,
}

/// Values of a rank on which the ranks have not agreed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Local {
    /// Whether the rank received a signal.
    pub is_interrupted: bool,
    /// Seconds of the run.
    pub seconds: f64,
}

/// Message of the first rank, which alone validates.
#[derive(Debug, Serialize, Deserialize)]
struct Message {
    is_interrupted: bool,
    seconds: f64,
    /// New product of all reductions of the learning rate, if it is reduced.
    reduction: Option<f64>,
    state: RunState,
}

impl Agreement {
    pub fn new(ranks: Arc<dyn Ranks>) -> Self {
        Self { ranks, is_interrupted: false, seconds: 0.0 }
    }

    pub fn ranks(&self) -> &dyn Ranks {
        &*self.ranks
    }

    /// Returns `true` for the rank that validates, writes files and reports.
    pub fn is_first(&self) -> bool {
        self.ranks.is_first()
    }

    /// Returns `true` if there are other ranks.
    pub fn is_shared(&self) -> bool {
        self.ranks.count() > 1
    }

    /// Returns whether the run is interrupted, as all ranks know it; `local` in a run of one process.
    pub fn is_interrupted(&self, local: bool) -> bool {
        if self.is_shared() { self.is_interrupted } else { local }
    }

    /// Returns the seconds of the run, as all ranks know them; `local` in a run of one process.
    pub fn seconds(&self, local: f64) -> f64 {
        if self.is_shared() { self.seconds } else { local }
    }

    /// Adds up the batches that each rank has for the next update, and agrees on `local`. A signal
    /// that one rank received interrupts all.
    pub fn on_update(&mut self, work: Work, local: Local) -> Work {
        if !self.is_shared() {
            return work;
        }
        let Work { batches, counts } = work;
        let seconds = if self.is_first() { local.seconds } else { 0.0 };
        let stops = if local.is_interrupted { 1.0 } else { 0.0 };
        let counts = [batches, counts.target_tokens, counts.source_tokens].map(|n| n as f64);
        let sums = self.ranks.sum_counts([&counts[..], &[stops, seconds]].concat());
        let count = |index: usize| sums.get(index).map_or(0, |&sum| sum as usize);
        self.is_interrupted |= sums.get(3).is_some_and(|&stops| stops > 0.0);
        self.seconds = sums.get(4).copied().unwrap_or(self.seconds);
        let counts = StepOutput {
            target_tokens: count(1),
            source_tokens: count(2),
            ..StepOutput::default()
        };
        Work { batches: count(0), counts }
    }

    /// Replaces `state` by that of the first rank, and agrees on its `local` values. Returns the
    /// reduction of the learning rate at the first rank.
    ///
    /// # Errors
    ///
    /// If this rank has other training data.
    pub fn follow(
        &mut self,
        state: &mut RunState,
        reduction: Option<f64>,
        local: Local,
    ) -> Result<Option<f64>, TrainError> {
        if !self.is_shared() {
            return Ok(reduction);
        }
        let Local { is_interrupted, seconds } = local;
        let unreadable = |problem: String| TrainError::Config {
            location: "state of rank 0".into(),
            problem,
            nearest: None,
        };
        let message = Message { is_interrupted, seconds, reduction, state: state.clone() };
        let text = match self.is_first() {
            true => toml::to_string(&message).map_err(|error| unreadable(error.to_string()))?,
            false => String::new(),
        };
        let bytes = self.ranks.broadcast(text.into_bytes());
        let text = String::from_utf8(bytes).map_err(|error| unreadable(error.to_string()))?;
        let first: Message =
            toml::from_str(&text).map_err(|error| unreadable(error.to_string()))?;
        self.compare("training data", state.step, &state.data, &first.state.data)?;
        self.is_interrupted |= first.is_interrupted;
        self.seconds = first.seconds;
        *state = first.state;
        Ok(first.reduction)
    }

    /// Returns `true` if the weights are to be compared after update `step`.
    pub fn is_comparison_due(&self, step: usize) -> bool {
        self.is_shared() && step.is_multiple_of(COMPARED_EVERY)
    }

    /// Compares a hash of the weights after update `step` with that of the first rank.
    ///
    /// # Errors
    ///
    /// If they differ.
    pub fn compare_weights(&self, step: usize, hash: &str) -> Result<(), TrainError> {
        let first = self.ranks.broadcast(hash.as_bytes().to_vec());
        self.compare("weights", step, hash, &String::from_utf8_lossy(&first))
    }

    fn compare(
        &self,
        part: &'static str,
        step: usize,
        found: &str,
        expected: &str,
    ) -> Result<(), TrainError> {
        if found == expected {
            return Ok(());
        }
        let (rank, found, expected) = (self.ranks.rank(), found.into(), expected.into());
        Err(TrainError::RanksDiffer { rank, part, step, found, expected })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ranks::{Alone, tests::Threads};

    fn local(is_interrupted: bool, seconds: f64) -> Local {
        Local { is_interrupted, seconds }
    }

    #[test]
    fn a_run_of_one_process_decides_alone() {
        let mut agreement = Agreement::new(Arc::new(Alone));
        let work = Work { batches: 2, counts: StepOutput::default() };
        assert_eq!(agreement.on_update(work, local(true, 5.0)), work);
        assert!(!agreement.is_interrupted(false) && agreement.is_interrupted(true));
        assert_eq!(agreement.seconds(7.0), 7.0);
    }

    /// Ranks 0, 1 and 2 have as many batches, and rank 2 received a signal.
    #[test]
    fn a_signal_to_one_rank_interrupts_all_at_the_time_of_the_first() {
        let found = Threads::run(3, |ranks| {
            let rank = ranks.rank();
            let mut agreement = Agreement::new(Arc::new(ranks));
            let counts =
                StepOutput { target_tokens: 10 * rank, source_tokens: 1, ..StepOutput::default() };
            let work = agreement
                .on_update(Work { batches: rank, counts }, local(rank == 2, 100.0 + rank as f64));
            (work.batches, work.counts, agreement.is_interrupted(false), agreement.seconds(0.0))
        });
        let counts = StepOutput { target_tokens: 30, source_tokens: 3, ..StepOutput::default() };
        assert_eq!(found, vec![(3, counts, true, 100.0); 3]);
    }

    #[test]
    fn all_ranks_follow_the_state_of_the_first() {
        let found = Threads::run(2, |ranks| {
            let rank = ranks.rank();
            let mut agreement = Agreement::new(Arc::new(ranks));
            let mut state = RunState { step: 4, since_best: 3 - rank, ..RunState::default() };
            let reduction = (rank == 0).then_some(0.25);
            let reduction =
                agreement.follow(&mut state, reduction, local(false, 9.0 + rank as f64));
            (state.since_best, reduction.unwrap(), agreement.seconds(0.0))
        });
        assert_eq!(found, vec![(3, Some(0.25), 9.0); 2]);
    }

    #[test]
    fn other_data_or_weights_than_those_of_the_first_are_an_error_with_both_values() {
        let found = Threads::run(2, |ranks| {
            let rank = ranks.rank();
            let mut agreement = Agreement::new(Arc::new(ranks));
            let mut state = RunState { data: format!("{rank} pairs"), ..RunState::default() };
            let data = agreement.follow(&mut state, None, local(false, 0.0)).map(|_| ());
            let weights = agreement.compare_weights(200, &format!("hash {rank}"));
            [data, weights].map(|result| result.err().map(|error| error.to_string()))
        });
        assert_eq!(found[0], [None, None]);
        let expected = [
            "rank 1 has other training data than rank 0 at update 0: 1 pairs, rank 0 has 0 pairs",
            "rank 1 has other weights than rank 0 at update 200: hash 1, rank 0 has hash 0",
        ];
        assert_eq!(found[1], expected.map(|text| Some(text.to_owned())));
    }
}
