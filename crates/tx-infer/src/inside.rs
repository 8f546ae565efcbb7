//! All values inside a model that translates one text: every layer and head, the scores of next tokens, and the beam.
//!
//! [`Translator::inside`] translates the text, and computes the values in one pass over the translation.

mod json;

use tx_engine::{Ablation, Trace};
use tx_kernels::formulas::log_softmax;
use tx_model::ModelConfig;
use tx_text::{is_blank, special::SPECIAL_TOKENS};

use crate::{
    cancellation::Cancellation,
    error::InferError,
    search::{BeamStep, Hypothesis, NOT_SINGLE, Request, SearchOptions},
    tokens::Tokens,
    translator::Translator,
};

/// Number of next tokens that are listed for each step.
const CANDIDATES: usize = 10;

/// Values inside a model that translates one text.
#[derive(Debug, Clone)]
pub struct Inside {
    /// Configuration of the model.
    pub config: ModelConfig,
    /// Tokens of the source, `S`.
    pub source: Tokens,
    /// Tokens of the target, `T`: the best translation, or a given one.
    pub target: Tokens,
    /// Tokens that the decoder reads, with their ids: its start, and the target without its last token.
    pub input: Vec<(u32, String)>,
    /// Whether the first token of the target is that of its language, which was given.
    pub language_token: bool,
    /// Values of all layers.
    pub trace: Trace,
    /// Scores of the next tokens in each of the `T` steps.
    pub steps: Vec<OutputStep>,
    /// Steps of the beam search; empty for a given target.
    pub beam: Vec<BeamStep>,
    /// Hypotheses of the beam search with their texts, best first; empty for a given target.
    pub hypotheses: Vec<(String, Hypothesis)>,
    /// Parts of the model that are turned off.
    pub ablations: Vec<Ablation>,
}

/// Part of the target that is given.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum GivenTarget<'a> {
    /// None: the model translates the source.
    #[default]
    Nothing,
    /// Token ids that the target begins with, without `<bos>` and the token of a language.
    Prefix(&'a [u32]),
    /// The whole target.
    Text(&'a str),
}

/// Scores of the next token after a prefix of the target.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OutputStep {
    /// Tokens with the largest logits, best first, and the token of the target if it is not among them.
    pub candidates: Vec<NextToken>,
}

/// A possible next token.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NextToken {
    /// The token.
    pub id: u32,
    /// Its logit.
    pub logit: f32,
    /// Natural logarithm of its probability.
    pub log_probability: f32,
}

impl Translator {
    /// Translates a text with these options, and computes all values inside the model for its best translation, or for
    /// the given one. A text with more tokens than the model's `max_len` is truncated.
    ///
    /// # Errors
    ///
    /// [`InferError::Search`] with all problems of the options; for sampling, a text without words, an unknown id, an
    /// ensemble, and models that run on tensors. If a text cannot be tokenized or needs a language that is not selected;
    /// [`InferError::NotFinite`].
    pub fn inside(
        &self,
        text: &str,
        given: GivenTarget<'_>,
        options: &SearchOptions,
    ) -> Result<Inside, InferError> {
        let problem = |problem: &str| InferError::Search { problems: vec![problem.into()] };
        let engine = self.engine();
        let model = engine.single_translator().ok_or_else(|| problem(NOT_SINGLE))?;
        let texts = self.texts();
        let source = texts.source(text)?;
        if is_blank(text) || source.ids.is_empty() {
            return Err(problem("the text has no words"));
        }
        let vocabulary = self.tokenizers().target.vocab_size();
        let (mut hypotheses, mut beam) = (Vec::new(), Vec::new());
        let prefix = match given {
            GivenTarget::Nothing | GivenTarget::Text(_) => &[][..],
            GivenTarget::Prefix(prefix) => prefix,
        };
        if prefix.iter().any(|id| *id as usize >= vocabulary) {
            return Err(problem("the prefix has an id that is not in the vocabulary"));
        }
        let target = match given {
            GivenTarget::Text(target) => texts.target(target)?,
            GivenTarget::Nothing | GivenTarget::Prefix(_) => {
                let forced_first = texts.forced_first()?;
                let request = Request { forced_first, prefix, ..Request::new(&source.ids, 0) };
                let (found, steps) = engine.search_steps(request, options, &Cancellation::new())?;
                beam = steps;
                for hypothesis in found {
                    hypotheses.push((texts.decode(&hypothesis.ids)?, hypothesis));
                }
                let best = hypotheses.first().ok_or_else(|| problem("no token is allowed"))?;
                texts.hypothesis(&best.1.ids)?
            }
        };
        if target.ids.is_empty() {
            return Err(problem("the translation has no words"));
        }
        let start = engine.start();
        let start = (start, SPECIAL_TOKENS[start as usize].to_owned());
        let read = target.ids.len() - 1;
        let tokens = target.ids.iter().copied().zip(target.tokens.iter().cloned());
        let input: Vec<(u32, String)> = std::iter::once(start).chain(tokens.take(read)).collect();
        let ids: Vec<u32> = input.iter().map(|(id, _)| *id).collect();
        let (mut steps, mut is_finite) = (Vec::with_capacity(ids.len()), true);
        let trace = model.trace(&source.ids, &ids, engine.ablations(), |logits| {
            let step = OutputStep::new(&logits[..vocabulary], target.ids[steps.len()]);
            is_finite &= step.candidates.iter().all(|it| !it.log_probability.is_nan());
            steps.push(step);
        });
        if !is_finite {
            return Err(InferError::NotFinite { line: 1 });
        }
        Ok(Inside {
            config: self.config().clone(),
            language_token: texts.forced_first()?.is_some(),
            steps,
            ablations: engine.ablations().to_vec(),
            source,
            target,
            input,
            trace,
            beam,
            hypotheses,
        })
    }
}

impl OutputStep {
    /// Ranks the logits of a step, `[vocabulary]`.
    fn new(logits: &[f32], chosen: u32) -> Self {
        let mut log_probabilities = logits.to_vec();
        log_softmax(&mut log_probabilities);
        let mut ids: Vec<u32> = (0..logits.len() as u32).collect();
        let by_logit =
            |a: &u32, b: &u32| logits[*b as usize].total_cmp(&logits[*a as usize]).then(a.cmp(b));
        let count = CANDIDATES.min(ids.len());
        if count < ids.len() {
            ids.select_nth_unstable_by(count, by_logit);
            ids.truncate(count);
        }
        ids.sort_unstable_by(by_logit);
        if !ids.contains(&chosen) {
            ids.push(chosen);
        }
        let candidate = |id: u32| NextToken {
            id,
            logit: logits[id as usize],
            log_probability: log_probabilities[id as usize],
        };
        Self { candidates: ids.into_iter().map(candidate).collect() }
    }
}

#[cfg(test)]
mod tests;
