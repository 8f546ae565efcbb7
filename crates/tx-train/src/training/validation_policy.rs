//! Decisions about validation: when it is due, which model is best, early stopping, and reductions
//! of the learning rate at a plateau.

use crate::{
    config::{Schedule, TrainConfig, ValidationConfig},
    recording::run_state::{Best, RunState},
    validation_report::Position,
};

/// Rules of a configuration about validations.
pub(crate) struct ValidationPolicy {
    validation: ValidationConfig,
    /// Number of best models that keep a checkpoint.
    keep_best: usize,
    plateau: Option<Plateau>,
}

/// Reduction of the learning rate at a plateau.
struct Plateau {
    /// Validations without a better model until a reduction.
    patience: usize,
    /// Factor of one reduction.
    factor: f64,
}

/// Consequences of a validation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Verdict {
    /// Whether the model is the best so far.
    pub is_best: bool,
    /// Whether it is among the best models that keep a checkpoint.
    pub is_kept: bool,
    /// New product of all reductions of the learning rate, if it is reduced.
    pub reduction: Option<f64>,
}

impl ValidationPolicy {
    pub fn new(config: &TrainConfig) -> Self {
        let plateau = (config.train.schedule == Schedule::ReduceOnPlateau).then_some(Plateau {
            patience: config.train.plateau_patience,
            factor: config.train.plateau_factor,
        });
        Self {
            validation: config.validation.clone(),
            keep_best: config.checkpoint.keep_best,
            plateau,
        }
    }

    /// Returns `true` if `every_steps` requires a validation after the last update.
    pub fn is_due_after_update(&self, state: &RunState) -> bool {
        let due = |every| state.step > 0 && state.step.is_multiple_of(every);
        self.validation.every_steps.is_some_and(due) && !state.is_validated()
    }

    /// Returns `true` if a validation is due after `epoch`; `is_whole` tells whether all its
    /// batches were used.
    pub fn is_due_after_epoch(
        &self,
        state: &RunState,
        epoch: usize,
        is_whole: bool,
        is_last: bool,
    ) -> bool {
        let is_due = is_whole && epoch.is_multiple_of(self.validation.every_epochs);
        (is_last || is_due) && !state.is_validated()
    }

    /// Returns `true` if the run ends because too many validations in a row found no better model.
    pub fn is_out_of_patience(&self, state: &RunState) -> bool {
        self.validation.patience.is_some_and(|patience| state.since_best >= patience)
    }

    /// Records a validated model in `state` and decides what follows.
    pub fn judge(&self, state: &mut RunState, position: Position, rank: (f64, f64)) -> Verdict {
        let model = Best { epoch: position.epoch, step: position.step, rank };
        let is_best = state.best.is_none_or(|best| rank > best.rank);
        let is_kept = state.keep(model, self.keep_best);
        if is_best {
            (state.best, state.since_best) = (Some(model), 0);
        } else {
            state.since_best += 1;
        }
        state.validated = Some(position.step);
        let is_plateau = |plateau: &&Plateau| {
            state.since_best > 0 && state.since_best.is_multiple_of(plateau.patience)
        };
        let reduction = self.plateau.as_ref().filter(is_plateau).map(|plateau| {
            state.reductions += 1;
            plateau.factor.powi(i32::try_from(state.reductions).unwrap_or(i32::MAX))
        });
        Verdict { is_best, is_kept, reduction }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(change: impl FnOnce(&mut TrainConfig)) -> ValidationPolicy {
        let mut config = TrainConfig::default();
        change(&mut config);
        ValidationPolicy::new(&config)
    }

    /// Judges models with the metrics `figures`, one after each update.
    fn verdicts(
        policy: &ValidationPolicy,
        state: &mut RunState,
        figures: &[f64],
    ) -> Vec<(bool, bool, Option<f64>)> {
        let judge = |&figure: &f64| {
            state.step += 1;
            let position = Position { epoch: 1, step: state.step };
            let verdict = policy.judge(state, position, (figure, 0.0));
            (verdict.is_best, verdict.is_kept, verdict.reduction)
        };
        figures.iter().map(judge).collect()
    }

    /// Patience 2, factor 0.5: a reduction after every second validation without a better model.
    #[test]
    fn the_rate_is_reduced_at_every_plateau_until_a_better_model_is_found() {
        let policy = policy(|config| {
            config.train.schedule = Schedule::ReduceOnPlateau;
            (config.train.plateau_patience, config.train.plateau_factor) = (2, 0.5);
        });
        let mut state = RunState::default();
        let found = verdicts(&policy, &mut state, &[1.0, 0.9, 1.0, 0.8, 0.7, 2.0, 1.9]);
        let reductions: Vec<_> = found.iter().map(|(_, _, reduction)| *reduction).collect();
        assert_eq!(reductions, [None, None, Some(0.5), None, Some(0.25), None, None]);
        let best: Vec<bool> = found.iter().map(|(is_best, ..)| *is_best).collect();
        assert_eq!(best, [true, false, false, false, false, true, false]);
        assert_eq!((state.since_best, state.reductions), (1, 2));
    }

    #[test]
    fn the_best_models_are_kept_and_patience_ends_the_run() {
        let policy = policy(|config| {
            config.checkpoint.keep_best = 2;
            config.validation.patience = Some(2);
        });
        let mut state = RunState::default();
        let kept: Vec<bool> = verdicts(&policy, &mut state, &[1.0, 3.0, 2.0])
            .into_iter()
            .map(|(_, is_kept, _)| is_kept)
            .collect();
        assert_eq!(kept, [true, true, true]);
        assert!(!policy.is_out_of_patience(&state));
        assert_eq!(verdicts(&policy, &mut state, &[1.5]), [(false, false, None)]);
        assert!(policy.is_out_of_patience(&state));
        let steps: Vec<usize> = state.kept.iter().map(|best| best.step).collect();
        assert_eq!(steps, [2, 3]);
    }

    #[test]
    fn a_validation_is_due_once() {
        let policy = policy(|config| {
            config.validation.every_steps = Some(10);
            config.validation.every_epochs = 2;
        });
        let at = |step, validated| RunState { step, validated, ..RunState::default() };
        let after_update = [at(0, None), at(9, None), at(20, Some(10)), at(20, Some(20))];
        let due = after_update.map(|state| policy.is_due_after_update(&state));
        assert_eq!(due, [false, false, true, false]);
        let after_epoch = |epoch, is_whole, is_last| {
            policy.is_due_after_epoch(&at(15, Some(10)), epoch, is_whole, is_last)
        };
        assert!(after_epoch(2, true, false) && after_epoch(1, true, true));
        assert!(!after_epoch(1, true, false) && !after_epoch(2, false, false));
        assert!(!policy.is_due_after_epoch(&at(15, Some(15)), 2, true, true));
    }
}
