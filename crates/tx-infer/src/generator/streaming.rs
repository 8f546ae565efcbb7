//! Continuation of a text token by token.

use super::{Continuation, Generator, Model, Prompt, ScoredText};
use crate::{
    cancellation::Cancellation,
    error::InferError,
    search::{Request, SearchOptions},
    tokens::on_one_line,
};

impl Generator {
    /// Continues one text, and passes each part of the continuation to `show` as soon as it is
    /// generated. The parts together are [`ScoredText::continuation`] of the result. The bytes of an
    /// incomplete character, and spaces after a word, are passed on with the next token.
    ///
    /// With tokenizers whose decoder changes earlier text, which no tokenizer of `train` does, the
    /// result can differ from that of [`continue_lines`](Self::continue_lines) in spaces.
    ///
    /// # Errors
    ///
    /// Same as [`continue_lines`](Self::continue_lines); [`InferError::Search`] also if the options
    /// keep several hypotheses or samples.
    pub fn continue_streaming(
        &self,
        prompt: Prompt<'_>,
        options: &SearchOptions,
        cancellation: &Cancellation,
        mut show: impl FnMut(&str),
    ) -> Result<Continuation, InferError> {
        let model = &*self.runner.model;
        model.check(options)?;
        let ids = model.encode_prompt(&prompt)?;
        let mut stream = Stream::new(model, prompt.text, ids.len());
        let mut failed = None;
        let request = Request { prefix: &ids, ..Request::new(&[], prompt.number) };
        let hypothesis =
            model.engine.search_streaming(request, options, cancellation, &mut |ids| {
                if failed.is_none() {
                    failed = stream.advance(ids, false, &mut show).err();
                }
            })?;
        if let Some(error) = failed {
            return Err(error);
        }
        stream.advance(&hypothesis.ids, true, &mut show)?;
        let continuation = stream.text;
        let text = on_one_line(format!("{}{continuation}", prompt.text));
        Ok(Continuation {
            text: text.clone(),
            hypotheses: vec![ScoredText { text, continuation, hypothesis }],
            unknown: model.unknown_words(prompt.text, &ids)?,
        })
    }
}

/// Continuation of a prompt that is being generated.
pub(super) struct Stream<'a> {
    model: &'a Model,
    prompt: &'a str,
    /// Number of ids of the prompt.
    prompt_ids: usize,
    /// Decoded continuation whose characters have been passed on.
    shown: String,
    /// All parts that were passed on.
    text: String,
}

impl<'a> Stream<'a> {
    /// Creates the empty continuation of `prompt`, which has `prompt_ids` ids.
    pub(super) fn new(model: &'a Model, prompt: &'a str, prompt_ids: usize) -> Self {
        Self { model, prompt, prompt_ids, shown: String::new(), text: String::new() }
    }

    /// Passes on the text that `ids`, of prompt and continuation, add; all of it at the end.
    pub(super) fn advance(
        &mut self,
        ids: &[u32],
        is_end: bool,
        show: &mut impl FnMut(&str),
    ) -> Result<(), InferError> {
        let decoded = self.model.continuation(self.prompt, ids, self.prompt_ids)?;
        let stable = if is_end { &decoded } else { settled(&decoded) };
        if self.shown.starts_with(stable) {
            return Ok(());
        }
        let part = &stable[common_prefix(&self.shown, stable)..];
        show(part);
        self.text.push_str(part);
        self.shown = stable.to_owned();
        Ok(())
    }
}

/// Returns the text without spaces and incomplete characters at its end, which later tokens may
/// change.
fn settled(text: &str) -> &str {
    text.trim_end_matches(|c: char| c.is_whitespace() || c == char::REPLACEMENT_CHARACTER)
}

/// Returns the number of bytes of the characters that two texts begin with.
fn common_prefix(a: &str, b: &str) -> usize {
    let same = a.chars().zip(b.chars()).take_while(|(a, b)| a == b);
    same.map(|(c, _)| c.len_utf8()).sum()
}
