//! Scores of given texts: their probability, by forced decoding.

use super::{Generator, Model};
use crate::{
    cancellation::Cancellation,
    error::InferError,
    pool::{Encoded, Placement, Task},
    runner::{NumberedText, TaskModel},
    tokens::encode_whole,
};

/// Score of a given text: the probability that the model assigns to it.
///
/// `<eos>` counts as a token and in the probability, but not as a word or a character.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct TextScore {
    /// Token ids of the text, ending with `<eos>`.
    pub ids: Vec<u32>,
    /// Natural logarithm of the probability of each token, given the tokens before it.
    pub log_probabilities: Vec<f32>,
    /// Number of words, separated by white space.
    pub words: usize,
    /// Number of characters (Unicode scalar values), white space included.
    pub characters: usize,
}

impl TextScore {
    /// Returns the natural logarithm of the probability of the whole text.
    pub fn log_probability(&self) -> f64 {
        self.log_probabilities.iter().map(|&x| f64::from(x)).sum()
    }

    /// Returns the perplexity per token: `e^(-log P / tokens)`.
    pub fn perplexity(&self) -> f64 {
        self.perplexity_per(self.ids.len())
    }

    /// Returns the perplexity per word: `e^(-log P / words)`. A text without words counts as one
    /// word.
    pub fn perplexity_per_word(&self) -> f64 {
        self.perplexity_per(self.words)
    }

    /// Returns the perplexity per character: `e^(-log P / characters)`. An empty text counts as one
    /// character.
    pub fn perplexity_per_character(&self) -> f64 {
        self.perplexity_per(self.characters)
    }

    fn perplexity_per(&self, units: usize) -> f64 {
        (-self.log_probability() / units.max(1) as f64).exp()
    }
}

impl Generator {
    /// Scores given texts (forced decoding): the probability of each text, `<eos>` included. Results
    /// are in the order of `texts`; `first` is the number of the first text, from 0, for messages.
    ///
    /// Search options have no effect on the probabilities.
    ///
    /// # Errors
    ///
    /// [`InferError::LongTarget`] if a text has more tokens than the model's `max_len`;
    /// [`InferError::NotFinite`]; if a text cannot be tokenized.
    pub fn score(
        &self,
        texts: &[impl AsRef<str>],
        first: u64,
    ) -> Result<Vec<TextScore>, InferError> {
        let mut found = vec![TextScore::default(); texts.len()];
        let task = self.runner.model.clone();
        let texts = NumberedText::all(texts, first).collect();
        self.runner.pool.run(task, texts, Cancellation::new(), |ready| {
            ready.into_iter().for_each(|(index, score)| found[index] = score);
            Ok::<_, InferError>(())
        })?;
        Ok(found)
    }
}

/// An encoded text.
pub(super) struct Item {
    ids: Vec<u32>,
    words: usize,
    characters: usize,
}

impl Task for Model {
    type Text = NumberedText;
    type Item = Item;
    type Output = TextScore;

    fn bytes(text: &NumberedText) -> usize {
        text.text.len()
    }

    fn placement(&self) -> Placement {
        TaskModel::placement(self)
    }

    fn encode(&self, &NumberedText { ref text, line }: &NumberedText) -> Result<Item, InferError> {
        let text = text.trim();
        let max = self.config.max_len;
        let long = |found| InferError::LongTarget { line, found, max };
        let ids = encode_whole(&self.tokenizer, text, max)?.ok_or_else(|| long(None))?;
        if ids.len() > max {
            return Err(long(Some(ids.len())));
        }
        let words = text.split_whitespace().count();
        Ok(Item { ids, words, characters: text.chars().count() })
    }

    fn tokens(item: &Item) -> usize {
        item.ids.len()
    }

    fn run(
        &self,
        texts: &[Encoded<'_, Self>],
        cancellation: &Cancellation,
    ) -> Result<Vec<TextScore>, InferError> {
        let ids: Vec<(&[u32], &[u32])> =
            texts.iter().map(|text| (&[][..], &text.item.ids[..])).collect();
        let found = self.engine.log_probabilities(&ids, cancellation);
        let found = found.map_err(|error| match error {
            InferError::NotFinite { line } => {
                let text = texts.get(line.saturating_sub(1) as usize);
                InferError::NotFinite { line: text.map_or(0, |text| text.text.line) }
            }
            error => error,
        })?;
        let scores = texts.iter().zip(found).map(|(text, log_probabilities)| {
            let Item { ids, words, characters } = &text.item;
            TextScore {
                ids: ids.clone(),
                log_probabilities,
                words: *words,
                characters: *characters,
            }
        });
        Ok(scores.collect())
    }
}
