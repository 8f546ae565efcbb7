//! Variants of the sinusoidal positional encoding.
//!
//! The paper defines the encoding twice, in its text and in its published code, and the two differ;
//! later programs follow one or the other. A model computes sensible scores only with the variant
//! that it was trained with.

use serde::{Deserialize, Serialize};

/// Largest [`Sinusoids::first`].
const LAST_FIRST: usize = 2;

/// Sinusoidal positional encoding. [`Default`] is that of the paper's section 3.5.
///
/// | program | layout | formula | first |
/// |---|---|---|---|
/// | the paper's text, OpenNMT-py, JoeyNMT | interleaved | paper | 0 |
/// | Marian models in transformers | halves | paper | 0 |
/// | Marian | halves | tensor2tensor | 0 |
/// | OpenNMT-tf | halves | tensor2tensor | 1 |
/// | fairseq, M2M-100, NLLB | halves | tensor2tensor | 2 |
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sinusoids {
    /// Order of sines and cosines.
    pub layout: SinusoidLayout,
    /// Wavelengths.
    pub formula: SinusoidFormula,
    /// Position of the first token, at most 2.
    pub first: usize,
}

/// Order of the sines and cosines of a position.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SinusoidLayout {
    /// Sine and cosine of the first wavelength, then of the second, and so on (section 3.5).
    #[default]
    Interleaved,
    /// All sines, then all cosines, as in the paper's published code.
    Halves,
}

/// Wavelength number `i` of `d_model / 2`, divided by 2π.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SinusoidFormula {
    /// `10000^(2i / d_model)` (section 3.5); the last is shorter than 10,000.
    #[default]
    Paper,
    /// `10000^(i / (d_model / 2 - 1))`, from 1 to 10,000: the paper's published code,
    /// Tensor2Tensor (Vaswani et al. 2018).
    Tensor2tensor,
}

impl Sinusoids {
    /// Violations of the rules for a model with `d_model` features.
    pub(super) fn problems(&self, d_model: usize) -> Vec<String> {
        let mut problems = Vec::new();
        if self.first > LAST_FIRST {
            problems
                .push(format!("`sinusoids.first` = {} must be at most {LAST_FIRST}", self.first));
        }
        match self.formula {
            SinusoidFormula::Tensor2tensor if d_model < 4 => problems.push(format!(
                "`d_model` = {d_model} must be at least 4 with `sinusoids.formula` = \
                 \"tensor2tensor\", which divides by `d_model` / 2 - 1"
            )),
            SinusoidFormula::Tensor2tensor | SinusoidFormula::Paper => {}
        }
        problems
    }
}
