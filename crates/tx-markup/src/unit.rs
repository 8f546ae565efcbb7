//! Sentences to translate, and their results.

use tx_infer::{Aligner, Alignment, InferError, Line, PairTokenizer, Translation};

/// A sentence to translate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unit {
    /// The text of the sentence.
    pub text: String,
    /// The sentences before it that the model reads with it, the oldest first; empty for most models.
    pub context: Vec<String>,
    /// Whether the alignment of its words is needed.
    pub align: bool,
}

impl Unit {
    /// The text to translate with this `number`, with its context.
    pub fn line(&self, number: u64) -> Line<'_> {
        Line { context: &self.context, ..Line::new(&self.text, number) }
    }

    /// Estimate of the number of source tokens.
    pub fn tokens(&self) -> usize {
        let bytes: usize = self.context.iter().map(String::len).sum();
        (bytes + self.text.len()) / 4 + 2
    }
}

/// Result of a sentence.
#[derive(Debug, Clone, Default)]
pub struct Done {
    /// The translation.
    pub translation: Translation,
    /// Alignment of its words; `None` unless it was requested.
    pub alignment: Option<Alignment>,
}

impl Done {
    /// Aligns the words of a translation, if `unit` needs it and has words. `texts` are the tokenizers of
    /// the translator.
    ///
    /// # Errors
    ///
    /// If the text cannot be tokenized.
    pub fn new(
        unit: &Unit,
        translation: Translation,
        texts: &PairTokenizer,
        aligner: &Aligner,
    ) -> Result<Self, InferError> {
        let best = translation.hypotheses.first().filter(|_| unit.align);
        let pair = best.map(|best| {
            Ok::<_, InferError>((
                texts.source(&unit.text)?,
                texts.hypothesis(&best.hypothesis.ids)?,
            ))
        });
        // One pair is aligned on this thread.
        let alignment = pair.transpose()?.and_then(|pair| aligner.align(&[pair]).pop());
        Ok(Self { translation, alignment })
    }
}
