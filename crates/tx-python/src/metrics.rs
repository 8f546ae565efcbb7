//! Metrics with the interface of sacreBLEU.

use pyo3::prelude::*;
use tx_eval::{Bleu, Chrf, Smoothing, Ter, Tokenizer};

use crate::{
    error::{IntoException, invalid},
    interrupt::interruptible,
};

/// A score, as text that of sacreBLEU.
#[pyclass(name = "Score", module = "txmt.metrics", frozen, get_all)]
pub(crate) struct PyScore {
    score: f64,
    name: String,
    signature: String,
    text: String,
}

#[pymethods]
impl PyScore {
    fn __str__(&self) -> &str {
        &self.text
    }

    fn __repr__(&self) -> &str {
        &self.text
    }

    fn __float__(&self) -> f64 {
        self.score
    }
}

impl PyScore {
    fn new(score: f64, name: &str, signature: impl ToString, text: impl ToString) -> Self {
        let (signature, text) = (signature.to_string(), text.to_string());
        Self { score, name: name.to_owned(), signature, text }
    }
}

/// References of sacreBLEU: a list of references with a line for each hypothesis.
type References = Vec<Vec<String>>;

macro_rules! metric {
    ($class:ident, $($constructor:tt)*) => {
        #[pymethods]
        impl $class {
            $($constructor)*

            /// Scores a corpus.
            fn corpus_score(
                &self,
                py: Python<'_>,
                hypotheses: Vec<String>,
                references: References,
            ) -> PyResult<PyScore> {
                let inner = self.inner;
                let work = || inner.corpus_score(&hypotheses, &references);
                let found = interruptible(py, || {}, work)?;
                let found = found.map_err(IntoException::into_exception)?;
                Ok(PyScore::new(found.score, &found.summary().name, &found.signature, &found))
            }

            /// Scores a sentence.
            fn sentence_score(
                &self,
                hypothesis: &str,
                references: Vec<String>,
            ) -> PyResult<PyScore> {
                let found = self.inner.sentence_score(hypothesis, &references);
                let found = found.map_err(IntoException::into_exception)?;
                Ok(PyScore::new(found.score, &found.summary().name, &found.signature, &found))
            }
        }
    };
}

/// BLEU.
#[pyclass(name = "BLEU", module = "txmt.metrics", frozen)]
pub(crate) struct PyBleu {
    inner: Bleu,
}

/// Tokenizer of a name in sacreBLEU.
fn tokenizer(name: &str) -> PyResult<Tokenizer> {
    use Tokenizer::{Char, Intl, None, V13a, Zh};
    let found = [V13a, Intl, Zh, Char, None].into_iter().find(|it| it.name() == name);
    found.ok_or_else(|| invalid(format!("tokenize={name:?} is unknown")))
}

metric!(
    PyBleu,
    #[new]
    #[pyo3(signature = (lowercase = false, tokenize = "13a", smooth_method = "exp",
                        smooth_value = None, effective_order = false))]
    fn new(
        lowercase: bool,
        tokenize: &str,
        smooth_method: &str,
        smooth_value: Option<f64>,
        effective_order: bool,
    ) -> PyResult<Self> {
        let smoothing = match (smooth_method, smooth_value) {
            ("exp", _) => Smoothing::Exp,
            ("none", _) => Smoothing::None,
            ("floor", None) => Smoothing::FLOOR,
            ("floor", Some(value)) => Smoothing::Floor(value),
            ("add-k", None) => Smoothing::ADD_K,
            ("add-k", Some(value)) => Smoothing::AddK(value),
            (other, _) => return Err(invalid(format!("smooth_method={other:?} is unknown"))),
        };
        let tokenizer = tokenizer(tokenize)?;
        Ok(Self { inner: Bleu { tokenizer, smoothing, lowercase, effective_order } })
    }
);

/// chrF and chrF++.
#[pyclass(name = "CHRF", module = "txmt.metrics", frozen)]
pub(crate) struct PyChrf {
    inner: Chrf,
}

metric!(
    PyChrf,
    #[new]
    #[pyo3(signature = (char_order = 6, word_order = 0, beta = 2, lowercase = false,
                        whitespace = false, eps_smoothing = false))]
    fn new(
        char_order: usize,
        word_order: usize,
        beta: u32,
        lowercase: bool,
        whitespace: bool,
        eps_smoothing: bool,
    ) -> Self {
        Self { inner: Chrf { char_order, word_order, beta, lowercase, whitespace, eps_smoothing } }
    }
);

/// TER.
#[pyclass(name = "TER", module = "txmt.metrics", frozen)]
pub(crate) struct PyTer {
    inner: Ter,
}

metric!(
    PyTer,
    #[new]
    #[pyo3(signature = (normalized = false, no_punct = false, asian_support = false,
                        case_sensitive = false))]
    fn new(normalized: bool, no_punct: bool, asian_support: bool, case_sensitive: bool) -> Self {
        Self { inner: Ter { normalized, no_punct, asian_support, case_sensitive } }
    }
);
