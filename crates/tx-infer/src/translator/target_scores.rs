//! Scores of given translations: their probability, by forced decoding.

use std::sync::Arc;

use super::{Line, Model, Translator};
use crate::{
    cancellation::Cancellation,
    error::InferError,
    pool::{Encoded, Placement, Task},
};

/// Score of a given translation: the probability that the model assigns to it.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct TargetScore {
    /// Token ids of the translation, ending with `<eos>`. The first can be the token of its language,
    /// whose log-probability is 0.
    pub ids: Vec<u32>,
    /// Natural logarithm of the probability of each token, given the source and the tokens before
    /// it.
    pub log_probabilities: Vec<f32>,
    /// Whether the source was truncated because it has more tokens than the model's `max_len`.
    pub truncated: bool,
}

impl TargetScore {
    /// Returns the natural logarithm of the probability of the whole translation.
    pub fn log_probability(&self) -> f64 {
        self.log_probabilities.iter().map(|&x| f64::from(x)).sum()
    }

    /// Returns the perplexity of the translation: `e^(-log P / tokens)`.
    pub fn perplexity(&self) -> f64 {
        (-self.log_probability() / self.ids.len().max(1) as f64).exp()
    }
}

impl Translator {
    /// Scores given targets (forced decoding): the probability of each target, given its source.
    /// Results are in the order of `pairs`, sources first. `first` is the number of the first pair,
    /// from 0, for messages.
    ///
    /// Search options have no effect on the probabilities.
    ///
    /// # Errors
    ///
    /// If a text cannot be tokenized or needs a language that is not selected, or a target has more tokens than the model's `max_len`;
    /// [`InferError::NotFinite`].
    pub fn score(
        &self,
        pairs: &[(impl AsRef<str>, impl AsRef<str>)],
        first: u64,
    ) -> Result<Vec<TargetScore>, InferError> {
        self.score_with(pairs, first, &Cancellation::new())
    }

    /// Same as [`score`](Self::score), until `cancellation` is set.
    ///
    /// # Errors
    ///
    /// Same as [`score`](Self::score); [`InferError::Cancelled`].
    pub fn score_with(
        &self,
        pairs: &[(impl AsRef<str>, impl AsRef<str>)],
        first: u64,
        cancellation: &Cancellation,
    ) -> Result<Vec<TargetScore>, InferError> {
        let lines = pairs.iter().zip(first..);
        let lines = lines.map(|((source, target), number)| {
            (Line::new(source.as_ref(), number), target.as_ref())
        });
        self.score_lines(&lines.collect::<Vec<_>>(), cancellation)
    }

    /// Same as [`score_with`](Self::score_with), for sources with context. The number of a line is for
    /// messages, and its prefix and cancellation have no effect.
    ///
    /// # Errors
    ///
    /// Same as [`score_with`](Self::score_with).
    pub fn score_lines(
        &self,
        pairs: &[(Line<'_>, &str)],
        cancellation: &Cancellation,
    ) -> Result<Vec<TargetScore>, InferError> {
        let pairs =
            pairs.iter().map(|(line, target)| self.pair_text(line, Target::Text((*target).into())));
        self.score_pairs(pairs.collect(), cancellation)
    }

    /// Scores targets that are given as ids, as those of hypotheses.
    ///
    /// # Errors
    ///
    /// Same as [`score`](Self::score).
    pub(crate) fn score_ids(
        &self,
        lines: &[Line<'_>],
        targets: Vec<Vec<u32>>,
        cancellation: &Cancellation,
    ) -> Result<Vec<TargetScore>, InferError> {
        let pairs = lines.iter().zip(targets);
        let pairs = pairs.map(|(line, ids)| self.pair_text(line, Target::Ids(ids)));
        self.score_pairs(pairs.collect(), cancellation)
    }

    fn pair_text(&self, line: &Line<'_>, target: Target) -> PairText {
        PairText {
            source: line.text.trim().into(),
            context: self.texts().read_context(line.context).to_vec(),
            target,
            line: line.number + 1,
        }
    }

    fn score_pairs(
        &self,
        pairs: Vec<PairText>,
        cancellation: &Cancellation,
    ) -> Result<Vec<TargetScore>, InferError> {
        let mut found = vec![TargetScore::default(); pairs.len()];
        // Without a source or a target there is nothing to score.
        let texts = pairs.into_iter().enumerate().filter(|(_, pair)| match &pair.target {
            Target::Text(_) => true,
            Target::Ids(ids) => !ids.is_empty(),
        });
        let texts = texts.collect();
        let task = Pairs { model: self.runner.model.clone() };
        self.runner.pool.run(task.into(), texts, cancellation.child(), |ready| {
            ready.into_iter().for_each(|(index, score)| found[index] = score);
            Ok::<_, InferError>(())
        })?;
        Ok(found)
    }
}

/// Scores of the pairs of one call.
struct Pairs {
    model: Arc<Model>,
}

/// A pair and the number of its line, from 1.
struct PairText {
    source: String,
    context: Vec<String>,
    target: Target,
    line: u64,
}

/// Target of a pair.
enum Target {
    Text(String),
    Ids(Vec<u32>),
}

/// A pair as ids.
struct Pair {
    source: Vec<u32>,
    target: Vec<u32>,
    truncated: bool,
}

impl Task for Pairs {
    type Text = PairText;
    type Item = Pair;
    type Output = TargetScore;

    fn bytes(pair: &PairText) -> usize {
        let target = match &pair.target {
            Target::Text(text) => text.len(),
            Target::Ids(ids) => ids.len(),
        };
        pair.source.len().max(target)
    }

    fn placement(&self) -> Placement {
        self.model.engine.placement()
    }

    fn encode(&self, pair: &PairText) -> Result<Pair, InferError> {
        let &PairText { ref source, ref context, ref target, line } = pair;
        let source = self.model.texts.split(source)?;
        let source = self.model.texts.source_ids(source, context)?;
        let (source, truncated) = (source.ids, source.truncated);
        let max = self.model.config.max_len;
        let long = |found| InferError::LongTarget { line, found, max };
        let target = match target {
            Target::Text(text) => self.model.texts.target_ids(text)?,
            Target::Ids(ids) => Some(ids.clone()),
        };
        match target {
            None => Err(long(None)),
            Some(target) if target.len() > max => Err(long(Some(target.len()))),
            Some(target) => Ok(Pair { source, target, truncated }),
        }
    }

    fn tokens(pair: &Pair) -> usize {
        pair.source.len().max(pair.target.len())
    }

    fn run(
        &self,
        pairs: &[Encoded<'_, Self>],
        cancellation: &Cancellation,
    ) -> Result<Vec<TargetScore>, InferError> {
        let ids: Vec<(&[u32], &[u32])> =
            pairs.iter().map(|pair| (&pair.item.source[..], &pair.item.target[..])).collect();
        let found = self.model.engine.log_probabilities(&ids, cancellation);
        let found = found.map_err(|error| match error {
            InferError::NotFinite { line } => {
                let pair = pairs.get((line - 1) as usize);
                InferError::NotFinite { line: pair.map_or(0, |pair| pair.text.line) }
            }
            error => error,
        })?;
        let is_forced = self.model.texts.forced_first()?.is_some();
        let scores = pairs.iter().zip(found).map(|(pair, mut log_probabilities)| {
            if is_forced {
                log_probabilities.first_mut().into_iter().for_each(|first| *first = 0.0);
            }
            let Pair { target, truncated, .. } = &pair.item;
            TargetScore { ids: target.clone(), log_probabilities, truncated: *truncated }
        });
        Ok(scores.collect())
    }
}
