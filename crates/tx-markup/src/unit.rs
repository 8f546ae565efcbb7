//! Sentences to translate, and their results.

use tx_infer::{Aligner, Alignment, InferError, PairTokenizer, Translation};

/// A sentence to translate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unit {
    /// The text of the sentence.
    pub text: String,
    /// Whether the alignment of its words is needed.
    pub align: bool,
}

impl Unit {
    /// Estimate of the number of source tokens.
    pub fn tokens(&self) -> usize {
        self.text.len() / 4 + 2
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
