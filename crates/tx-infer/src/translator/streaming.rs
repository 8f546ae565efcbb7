//! Translation of a text token by token.

use super::{Line, Translation, Translator, sentences::Sentences};
use crate::{
    cancellation::Cancellation, error::InferError, pool::Task, search::SearchOptions,
    text_stream::TextStream,
};

impl Translator {
    /// Translates one text by greedy search or with one sample, and passes each part of the translation to `show` as
    /// soon as it is generated. The bytes of an incomplete character, and spaces after a word, are passed on with the
    /// next token. The text of the result can differ from the parts in control characters, replaced unknown words and the final mark.
    ///
    /// # Errors
    ///
    /// Same as [`translate_lines`](Self::translate_lines); [`InferError::Search`] also if the options keep several
    /// hypotheses or samples, or hypotheses are ranked by minimum Bayes risk.
    pub fn translate_streaming(
        &self,
        line: &Line<'_>,
        options: &SearchOptions,
        cancellation: &Cancellation,
        mut show: impl FnMut(&str),
    ) -> Result<Translation, InferError> {
        let model = self.runner.model.clone();
        model.check(options)?;
        if model.mbr.is_some() {
            let problems =
                vec!["`mbr` needs several hypotheses, which a stream does not have".into()];
            return Err(InferError::Search { problems });
        }
        let sentences = Sentences { model: model.clone(), options: options.clone() };
        let Some(text) = sentences.text(line, cancellation)? else {
            return Ok(Translation::default());
        };
        let source = sentences.encode(&text)?;
        let request = text.request(&source).ok_or(InferError::Cancelled)?;
        let stream = TextStream::new(|ids: &[u32]| model.texts.decode(ids));
        let show = |part: &str| show(&text.adaptation.cased(part.to_owned()));
        let (hypothesis, _) = stream.search(&model.engine, request, options, cancellation, show)?;
        sentences.translation(&text, &source, vec![hypothesis], Vec::new())
    }
}
