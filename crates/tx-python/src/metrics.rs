//! Metrics with the interface of sacreBLEU.

use std::sync::atomic::{AtomicUsize, Ordering};

use pyo3::prelude::*;
use tx_eval::{
    Bleu, Chrf, Corpus, Metric, ScoreError, SegmentStatistics, Smoothing, Ter, Tokenizer,
    confidence::Resampling,
    paired::{self, SystemResult},
};

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
                self.references.store(references.len(), Ordering::Relaxed);
                let work = || inner.corpus_score(&hypotheses, &references);
                let found = interruptible(py, || {}, work)?;
                let found = found.map_err(IntoException::into_exception)?;
                Ok(PyScore::new(found.score, &found.summary().name, &found.signature, &found))
            }

            /// Signature of the last corpus score.
            fn get_signature(&self) -> PyResult<String> {
                match self.references.load(Ordering::Relaxed) {
                    0 => Err(invalid("the signature has the number of references: score a corpus first")),
                    references => Ok(self.inner.signature(Some(references)).to_string()),
                }
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
    /// References of the last corpus score; 0 before it.
    references: AtomicUsize,
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
        let inner = Bleu { tokenizer, smoothing, lowercase, effective_order };
        Ok(Self { inner, references: AtomicUsize::new(0) })
    }
);

/// chrF and chrF++.
#[pyclass(name = "CHRF", module = "txmt.metrics", frozen)]
pub(crate) struct PyChrf {
    inner: Chrf,
    references: AtomicUsize,
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
        let inner = Chrf { char_order, word_order, beta, lowercase, whitespace, eps_smoothing };
        Self { inner, references: AtomicUsize::new(0) }
    }
);

/// TER.
#[pyclass(name = "TER", module = "txmt.metrics", frozen)]
pub(crate) struct PyTer {
    inner: Ter,
    references: AtomicUsize,
}

metric!(
    PyTer,
    #[new]
    #[pyo3(signature = (normalized = false, no_punct = false, asian_support = false,
                        case_sensitive = false))]
    fn new(normalized: bool, no_punct: bool, asian_support: bool, case_sensitive: bool) -> Self {
        let inner = Ter { normalized, no_punct, asian_support, case_sensitive };
        Self { inner, references: AtomicUsize::new(0) }
    }
);

/// A metric of a paired test.
#[derive(FromPyObject)]
pub(crate) enum AnyMetric<'py> {
    Bleu(PyRef<'py, PyBleu>),
    Chrf(PyRef<'py, PyChrf>),
    Ter(PyRef<'py, PyTer>),
}

/// Score, p-value, and mean and half the width of the confidence interval of a system.
type Compared = (f64, Option<f64>, Option<f64>, Option<f64>);

/// Compares systems with the first of them by bootstrap resampling ("bs") or approximate randomization
/// ("ar"); returns their results, and name and signature of the metric.
#[pyfunction]
#[pyo3(signature = (systems, metric, references, test_type, n_samples, seed))]
pub(crate) fn paired_test(
    py: Python<'_>,
    systems: Vec<Vec<String>>,
    metric: AnyMetric<'_>,
    references: References,
    test_type: &str,
    n_samples: usize,
    seed: u64,
) -> PyResult<(Vec<Compared>, String, String)> {
    let metric: Box<dyn Metric> = match metric {
        AnyMetric::Bleu(metric) => Box::new(metric.inner),
        AnyMetric::Chrf(metric) => Box::new(metric.inner),
        AnyMetric::Ter(metric) => Box::new(metric.inner),
    };
    let is_bootstrap = match test_type {
        "bs" => true,
        "ar" => false,
        other => return Err(invalid(format!("test_type={other:?}, expected \"bs\" or \"ar\""))),
    };
    let default = if is_bootstrap { Resampling::BOOTSTRAP } else { Resampling::RANDOMIZATION };
    let samples = if n_samples == 0 { default.samples } else { n_samples };
    let resampling = Resampling { samples, seed };
    let work = || {
        let statistics = systems.iter().map(|lines| {
            let corpus = Corpus::new(lines, &references)?;
            metric.statistics(&corpus)
        });
        let statistics = statistics.collect::<Result<Vec<SegmentStatistics>, ScoreError>>()?;
        match is_bootstrap {
            true => paired::bootstrap(&*metric, &statistics, resampling),
            false => paired::randomization(&*metric, &statistics, resampling, None),
        }
    };
    let found = interruptible(py, || {}, work)?.map_err(IntoException::into_exception)?;
    let result = |it: &SystemResult| {
        let interval = it.interval;
        let [mean, half] = [interval.map(|it| it.mean), interval.map(|it| it.half_width)];
        (it.score, it.p_value, mean, half)
    };
    let results = found.systems.iter().map(result).collect();
    Ok((results, metric.name(), found.signature.to_string()))
}
