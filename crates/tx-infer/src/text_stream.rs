//! Text that is generated token by token.

use crate::{
    cancellation::Cancellation,
    error::InferError,
    search::{Engine, Hypothesis, Request, SearchOptions},
};

/// Text that is being generated. `decode` returns the text of the ids so far.
pub(crate) struct TextStream<D> {
    decode: D,
    /// Decoded text whose characters have been passed on.
    shown: String,
    /// All parts that were passed on.
    text: String,
}

impl<D: Fn(&[u32]) -> Result<String, InferError>> TextStream<D> {
    /// Creates the empty text.
    pub(crate) fn new(decode: D) -> Self {
        Self { decode, shown: String::new(), text: String::new() }
    }

    /// Passes on the text that `ids` add; all of it at the end.
    pub(crate) fn advance(
        &mut self,
        ids: &[u32],
        is_end: bool,
        show: &mut impl FnMut(&str),
    ) -> Result<(), InferError> {
        let decoded = (self.decode)(ids)?;
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

    /// Finds one target by [`Engine::search_streaming`], and passes its parts on. Returns also all parts.
    pub(crate) fn search(
        mut self,
        engine: &Engine,
        request: Request<'_>,
        options: &SearchOptions,
        cancellation: &Cancellation,
        mut show: impl FnMut(&str),
    ) -> Result<(Hypothesis, String), InferError> {
        let mut failed = None;
        let hypothesis = engine.search_streaming(request, options, cancellation, &mut |ids| {
            if failed.is_none() {
                failed = self.advance(ids, false, &mut show).err();
            }
        })?;
        if let Some(error) = failed {
            return Err(error);
        }
        self.advance(&hypothesis.ids, true, &mut show)?;
        Ok((hypothesis, self.text))
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
