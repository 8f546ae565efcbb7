//! Result of the validation of a language model: perplexities and sample continuations.

use serde::{Deserialize, Serialize};

use crate::{
    recording::metrics::null_as_nan,
    validation_report::{Figure, Format, SampleOutput, ValidationReport},
};

/// Result of the validation of a language model.
///
/// The loss covers all tokens of a document except `<bos>`, `<eos>` included. Perplexities per word
/// and per character divide the same sum by the words (separated by white space) and the characters
/// of the text, so models with different tokenizers can be compared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LanguageModelReport {
    /// Loss in nats per token, without smoothing.
    #[serde(deserialize_with = "null_as_nan")]
    pub loss: f64,
    /// Fraction of tokens predicted correctly, given the correct preceding tokens.
    pub accuracy: f64,
    /// Perplexity per word.
    #[serde(deserialize_with = "null_as_nan")]
    pub word_perplexity: f64,
    /// Perplexity per character.
    #[serde(deserialize_with = "null_as_nan")]
    pub character_perplexity: f64,
    /// First documents.
    pub samples: Vec<ContinuedSample>,
    /// Seconds that the validation took.
    #[serde(rename = "validation_seconds")]
    pub seconds: f64,
}

/// Beginning of a validation document with a sampled continuation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ContinuedSample {
    /// Beginning of the document.
    pub prompt: String,
    /// The prompt, continued by the model.
    pub text: String,
}

impl ValidationReport for LanguageModelReport {
    // The dashboard plots values of which higher ones are better.
    const FIGURE: &'static str = "negated loss per character";
    const UNIT: &'static str = "token";

    fn figure(&self) -> f64 {
        -self.character_perplexity.ln()
    }

    fn figures(&self) -> Vec<Figure> {
        let of =
            |key, name, title, value| Figure::new(key, name, title, value, Format::Decimals(3));
        let mut figures =
            Figure::of_every_task(self.loss, self.perplexity(), self.accuracy).to_vec();
        figures.extend([
            of("word_perplexity", "per word", "Perplexity per word", self.word_perplexity),
            of(
                "character_perplexity",
                "per character",
                "Perplexity per character",
                self.character_perplexity,
            ),
        ]);
        figures
    }

    fn perplexity(&self) -> f64 {
        self.loss.exp()
    }

    fn seconds(&self) -> f64 {
        self.seconds
    }

    fn samples(&self) -> Vec<SampleOutput<'_>> {
        let outputs = self.samples.iter().map(|sample| SampleOutput {
            given: vec![("prompt", &*sample.prompt)],
            output: ("continued", (&*sample.text).into()),
            attention: None,
        });
        outputs.collect()
    }
}
