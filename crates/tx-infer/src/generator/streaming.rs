//! Continuation of a text token by token.

use super::{Continuation, Generator, Prompt, ScoredText};
use crate::{
    cancellation::Cancellation,
    error::InferError,
    search::{Request, SearchOptions},
    text_stream::TextStream,
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
        show: impl FnMut(&str),
    ) -> Result<Continuation, InferError> {
        let model = &*self.runner.model;
        model.check(options)?;
        let ids = model.encode_prompt(&prompt)?;
        let stream = TextStream::new(|found| model.continuation(prompt.text, found, ids.len()));
        let request = Request { prefix: &ids, ..Request::new(&[], prompt.number) };
        let (hypothesis, continuation) =
            stream.search(&model.engine, request, options, cancellation, show)?;
        let text = on_one_line(format!("{}{continuation}", prompt.text));
        Ok(Continuation {
            text: text.clone(),
            hypotheses: vec![ScoredText { text, continuation, hypothesis }],
            unknown: model.unknown_words(prompt.text, &ids)?,
        })
    }
}
