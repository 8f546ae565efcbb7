//! Result of the validation of a masked language model: perplexity and accuracy of masked tokens.

use serde::{Deserialize, Serialize};

use crate::{
    recording::metrics::null_as_nan,
    validation_report::{Figure, SampleOutput, ValidationReport},
};

/// Result of the validation of a masked language model. The masks are the same in each validation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MaskedLanguageModelReport {
    /// Loss in nats per masked token, without smoothing.
    #[serde(deserialize_with = "null_as_nan")]
    pub loss: f64,
    /// Fraction of masked tokens predicted correctly.
    pub accuracy: f64,
    /// First texts.
    pub samples: Vec<FilledSample>,
    /// Seconds that the validation took.
    #[serde(rename = "validation_seconds")]
    pub seconds: f64,
}

/// Validation text with a masked word.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FilledSample {
    /// Text with `<mask>`.
    pub masked: String,
    /// Text before masking.
    pub original: String,
    /// Masked text, filled by the model.
    pub filled: String,
}

impl ValidationReport for MaskedLanguageModelReport {
    const FIGURE: &'static str = "accuracy of masked tokens";
    const UNIT: &'static str = "masked token";

    fn figure(&self) -> f64 {
        self.accuracy
    }

    fn figures(&self) -> Vec<Figure> {
        Figure::of_every_task(self.loss, self.perplexity(), self.accuracy).to_vec()
    }

    fn perplexity(&self) -> f64 {
        self.loss.exp()
    }

    fn seconds(&self) -> f64 {
        self.seconds
    }

    fn samples(&self) -> Vec<SampleOutput<'_>> {
        let outputs = self.samples.iter().map(|sample| SampleOutput {
            given: vec![("masked", &*sample.masked), ("original", &*sample.original)],
            output: ("filled", (&*sample.filled).into()),
            attention: None,
        });
        outputs.collect()
    }
}
