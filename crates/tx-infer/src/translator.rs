//! Text in, text out.

use std::path::Path;

use burn::tensor::Device;
use tx_data::encode::cut;

use crate::{
    bundle::Bundle,
    error::InferError,
    search::{Hypothesis, SearchOptions, search},
};

/// Translates text with a bundle.
///
/// ```no_run
/// use burn::tensor::Device;
/// use tx_infer::Translator;
///
/// let translator = Translator::open("runs/de-en".as_ref(), &Device::default())?;
/// println!("{}", translator.translate("ein hund läuft .")?);
/// # Ok::<(), tx_infer::InferError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Translator {
    bundle: Bundle,
    device: Device,
    options: SearchOptions,
    batch_tokens: usize,
}

/// What became of one text.
#[derive(Debug, Clone, PartialEq)]
pub struct Translation {
    /// The best translation; empty for a text without words.
    pub text: String,
    /// All translations asked for, best first; none for a text without words.
    pub hypotheses: Vec<Scored>,
    /// Whether the text was cut because it is longer than the model can read.
    pub cut: bool,
}

/// A translation with its score.
#[derive(Debug, Clone, PartialEq)]
pub struct Scored {
    /// The translation.
    pub text: String,
    /// Its ids and scores.
    pub hypothesis: Hypothesis,
}

impl Translator {
    /// Opens the bundle in `folder`.
    ///
    /// # Errors
    ///
    /// As [`Bundle::open`].
    pub fn open(folder: &Path, device: &Device) -> Result<Self, InferError> {
        Ok(Self::new(Bundle::open(folder, device)?, device))
    }

    /// Translates with a bundle whose weights are on `device`.
    pub fn new(bundle: Bundle, device: &Device) -> Self {
        let options = SearchOptions::default();
        Self { bundle, device: device.clone(), options, batch_tokens: 4_096 }
    }

    /// Searches in another way than by default.
    ///
    /// # Errors
    ///
    /// When an option breaks a rule; all broken rules are named.
    pub fn with_options(self, options: SearchOptions) -> Result<Self, InferError> {
        let problems = options.problems();
        if !problems.is_empty() {
            return Err(InferError::Search { problems });
        }
        Ok(Self { options, ..self })
    }

    /// At most so many source tokens in a batch, padding and hypotheses counted; a longer text is
    /// a batch of its own. More is faster up to a point, and takes more memory.
    pub fn with_batch_tokens(self, batch_tokens: usize) -> Self {
        Self { batch_tokens, ..self }
    }

    /// The bundle in use.
    pub fn bundle(&self) -> &Bundle {
        &self.bundle
    }

    /// Translates one text.
    ///
    /// # Errors
    ///
    /// When the text cannot be tokenized.
    pub fn translate(&self, text: &str) -> Result<String, InferError> {
        let mut translations = self.translate_batch(&[text])?;
        Ok(translations.pop().map(|translation| translation.text).unwrap_or_default())
    }

    /// Translates many texts, those of like length together; results come in the order of `texts`.
    ///
    /// # Errors
    ///
    /// When a text cannot be tokenized.
    pub fn translate_batch(
        &self,
        texts: &[impl AsRef<str>],
    ) -> Result<Vec<Translation>, InferError> {
        let max_len = self.bundle.config.max_len;
        let texts: Vec<&str> = texts.iter().map(AsRef::as_ref).collect();
        let mut translations: Vec<Translation> = texts
            .iter()
            .map(|_| Translation { text: String::new(), hypotheses: Vec::new(), cut: false })
            .collect();

        let mut sources = self.bundle.tokenizers.source.encode_batch(texts.clone())?;
        let mut order: Vec<usize> =
            (0..texts.len()).filter(|&index| !texts[index].trim().is_empty()).collect();
        for &index in &order {
            translations[index].cut = sources[index].len() > max_len;
            cut(&mut sources[index], max_len);
        }
        // Longest first: the batch that takes most memory comes at once.
        order.sort_by_key(|&index| std::cmp::Reverse(sources[index].len()));

        let mut rest = &order[..];
        while let Some(&longest) = rest.first() {
            let per_sentence = sources[longest].len() * self.options.beam;
            let count = (self.batch_tokens / per_sentence).clamp(1, rest.len());
            let (batch, later) = rest.split_at(count);
            rest = later;
            let ids: Vec<&[u32]> = batch.iter().map(|&index| &sources[index][..]).collect();
            let found = search(&self.bundle.model, &ids, max_len, &self.options, &self.device);
            for (&index, hypotheses) in batch.iter().zip(found) {
                let hypotheses = hypotheses
                    .into_iter()
                    .map(|hypothesis| {
                        let text = self.bundle.tokenizers.target.decode(&hypothesis.ids)?;
                        Ok(Scored { text, hypothesis })
                    })
                    .collect::<Result<Vec<_>, InferError>>()?;
                let translation = &mut translations[index];
                translation.text =
                    hypotheses.first().map(|best| best.text.clone()).unwrap_or_default();
                translation.hypotheses = hypotheses;
            }
        }
        Ok(translations)
    }
}
