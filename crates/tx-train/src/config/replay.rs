//! Replay of other pairs beside the training pairs.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tx_data::source::format::Format;

/// Table `[data.replay]`: pairs, such as those that a bundle was trained on, of which each epoch
/// contains some beside all training pairs, so that a model does not forget them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReplayConfig {
    /// Source side of the pairs.
    pub source: Option<PathBuf>,
    /// Target side of the pairs.
    pub target: Option<PathBuf>,
    /// Both sides of the pairs, in any format with both sides.
    pub file: Option<PathBuf>,
    /// Format of the files; detected from their content by default.
    pub format: Option<Format>,
    /// Number of pairs to read from the beginning of the files.
    pub pairs: Option<usize>,
    /// Fraction of the pairs of an epoch that are replayed, in `0.0..1.0`.
    pub fraction: f64,
}

impl Default for ReplayConfig {
    fn default() -> Self {
        Self { source: None, target: None, file: None, format: None, pairs: None, fraction: 0.2 }
    }
}

impl ReplayConfig {
    /// Returns the number of replayed pairs of an epoch with `training` other pairs: `f / (1 - f)` of
    /// them with the fraction `f`, and at least one.
    pub(crate) fn pairs_per_epoch(&self, training: usize) -> usize {
        let pairs = training as f64 * self.fraction / (1.0 - self.fraction);
        (pairs.round() as usize).max(1)
    }

    pub(super) fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        match (self.source.is_some(), self.target.is_some(), self.file.is_some()) {
            (true, true, false) | (false, false, true) => {}
            (false, false, false) => {
                problems.push("`replay` needs `source` and `target`, or `file`".into());
            }
            (_, _, false) => {
                problems.push("`replay.source` and `replay.target` go together".into());
            }
            (_, _, true) => problems.push(
                "`replay.file` has both sides and conflicts with `replay.source` and \
                 `replay.target`"
                    .into(),
            ),
        }
        if self.pairs == Some(0) {
            problems.push("`replay.pairs` must be at least 1".into());
        }
        let fraction = self.fraction;
        if !(fraction > 0.0 && fraction < 1.0) {
            problems.push(format!("`replay.fraction` = {fraction} must be between 0 and 1"));
        }
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 0.2 of 125 pairs are 25, beside 100.
    #[test]
    fn the_fraction_is_that_of_all_pairs_of_an_epoch() {
        let replay = |fraction| ReplayConfig { fraction, ..ReplayConfig::default() };
        assert_eq!(replay(0.2).pairs_per_epoch(100), 25);
        assert_eq!(replay(0.5).pairs_per_epoch(100), 100);
        assert_eq!(replay(0.9).pairs_per_epoch(100), 900);
        assert_eq!(replay(0.001).pairs_per_epoch(100), 1);
    }

    #[test]
    fn files_and_fraction_are_checked() {
        let path = || Some(PathBuf::from("a"));
        let replay = ReplayConfig { file: path(), ..ReplayConfig::default() };
        assert_eq!(replay.problems(), [""; 0]);
        let replay = ReplayConfig { fraction: 1.0, pairs: Some(0), ..ReplayConfig::default() };
        assert_eq!(
            replay.problems(),
            [
                "`replay` needs `source` and `target`, or `file`",
                "`replay.pairs` must be at least 1",
                "`replay.fraction` = 1 must be between 0 and 1",
            ]
        );
        let replay = ReplayConfig { source: path(), ..ReplayConfig::default() };
        assert_eq!(replay.problems(), ["`replay.source` and `replay.target` go together"]);
        let replay = ReplayConfig { file: path(), ..replay };
        assert!(replay.problems()[0].contains("conflicts"));
    }
}
