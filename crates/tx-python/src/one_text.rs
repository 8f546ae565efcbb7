//! Models with one text: classifier, generator, masked language model.

use std::path::PathBuf;

use pyo3::{
    prelude::*,
    types::{PyDict, PyList},
};
use tx_catalogue::Store;
use tx_infer::{Cancellation, Classifier, FillMask, Generator, InferError, Prompt, SearchOptions};

use crate::{
    error::IntoException, interrupt::interruptible, options::Search, stream::stream,
    tokenizer::PyTokenizer,
};

/// Runs `work` to its end without the lock of the interpreter.
fn run<T: Send>(
    py: Python<'_>,
    work: impl FnOnce() -> Result<T, InferError> + Send,
) -> PyResult<T> {
    interruptible(py, || {}, work)?.map_err(IntoException::into_exception)
}

/// Classifier of texts.
#[pyclass(name = "Classifier", module = "txmt", frozen)]
pub(crate) struct PyClassifier {
    inner: Classifier,
}

#[pymethods]
impl PyClassifier {
    #[new]
    #[pyo3(signature = (model_path, device = "cpu"))]
    fn new(py: Python<'_>, model_path: PathBuf, device: &str) -> PyResult<Self> {
        let device = crate::options::device(device)?;
        Ok(Self { inner: run(py, || Classifier::open(Store::resolve(model_path), &device))? })
    }

    #[getter]
    fn labels(&self) -> Vec<String> {
        self.inner.labels().iter().map(|label| label.to_string()).collect()
    }

    #[getter]
    fn tokenizer(&self) -> PyTokenizer {
        self.inner.tokenizer().clone().into()
    }

    /// For each text, pairs of a label and its probability, best first.
    #[pyo3(signature = (texts, top_k = None))]
    fn classify_batch(
        &self,
        py: Python<'_>,
        texts: Vec<String>,
        top_k: Option<usize>,
    ) -> PyResult<Vec<Vec<(String, f32)>>> {
        let cancellation = Cancellation::new();
        let mut found = Vec::with_capacity(texts.len());
        let work = || {
            self.inner.classify_lines(&texts, 0, &cancellation, |ready| {
                found.extend(ready);
                Ok::<_, InferError>(())
            })
        };
        let done = interruptible(py, || cancellation.cancel(), work)?;
        done.map_err(IntoException::into_exception)?;
        let best = |scores: Vec<tx_infer::LabelScore>| {
            let scores = scores.into_iter().take(top_k.unwrap_or(usize::MAX));
            scores.map(|score| (score.label.to_string(), score.probability)).collect()
        };
        Ok(found.into_iter().map(|one| best(one.scores)).collect())
    }
}

/// Generator of texts.
#[pyclass(name = "Generator", module = "txmt", frozen)]
pub(crate) struct PyGenerator {
    inner: Generator,
}

#[pymethods]
impl PyGenerator {
    #[new]
    #[pyo3(signature = (model_path, device = "cpu"))]
    fn new(py: Python<'_>, model_path: PathBuf, device: &str) -> PyResult<Self> {
        let device = crate::options::device(device)?;
        Ok(Self { inner: run(py, || Generator::open(Store::resolve(model_path), &device))? })
    }

    #[getter]
    fn tokenizer(&self) -> PyTokenizer {
        self.inner.tokenizer().clone().into()
    }

    /// For each prompt, texts with their scores, best first.
    #[pyo3(signature = (prompts, **options))]
    fn generate_batch(
        &self,
        py: Python<'_>,
        prompts: Vec<String>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Vec<Vec<(String, f32)>>> {
        let options: SearchOptions = Search::of(options)?.apply(self.inner.options());
        let cancellation = Cancellation::new();
        let found = interruptible(
            py,
            || cancellation.cancel(),
            || {
                let texts = prompts.iter().zip(0..);
                let prompts: Vec<Prompt<'_>> =
                    texts.map(|(text, number)| Prompt { text, number }).collect();
                let mut found = Vec::with_capacity(prompts.len());
                self.inner.continue_lines(&prompts, &options, &cancellation, |ready| {
                    found.extend(ready);
                    Ok::<_, InferError>(())
                })?;
                Ok::<_, InferError>(found)
            },
        )?;
        let found = found.map_err(IntoException::into_exception)?;
        let texts = found.into_iter().map(|one| {
            let hypotheses = one.hypotheses.into_iter();
            hypotheses.map(|it| (it.text, it.hypothesis.score)).collect()
        });
        Ok(texts.collect())
    }

    /// Continues one text, and calls `callback` with each part as it is generated. Stops if it returns
    /// `False` or raises an exception.
    #[pyo3(signature = (prompt, callback, **options))]
    fn generate(
        &self,
        py: Python<'_>,
        prompt: String,
        callback: Py<PyAny>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<String> {
        let options: SearchOptions = Search::of(options)?.apply(self.inner.options());
        let (parts, found) = stream(py, &callback, |cancellation, pass_on| {
            let prompt = Prompt { text: &prompt, number: 0 };
            self.inner.continue_streaming(prompt, &options, cancellation, pass_on)
        })?;
        Ok(found.map_or_else(|| prompt + &parts, |found| found.text))
    }
}

/// Model that fills masks.
#[pyclass(name = "FillMask", module = "txmt", frozen)]
pub(crate) struct PyFillMask {
    inner: FillMask,
}

#[pymethods]
impl PyFillMask {
    #[new]
    #[pyo3(signature = (model_path, device = "cpu", *, top_k = 5))]
    fn new(py: Python<'_>, model_path: PathBuf, device: &str, top_k: usize) -> PyResult<Self> {
        let device = crate::options::device(device)?;
        let inner = run(py, || FillMask::open(Store::resolve(model_path), &device))?;
        Ok(Self { inner: inner.with_top_k(top_k) })
    }

    #[getter]
    fn tokenizer(&self) -> PyTokenizer {
        self.inner.tokenizer().clone().into()
    }

    /// Candidates of each mask of a text: dictionaries as those of transformers.
    fn __call__<'py>(&self, py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyList>> {
        let found = run(py, || self.inner.fill(text))?;
        let masks = PyList::empty(py);
        for mask in found.masks {
            let candidates = PyList::empty(py);
            for one in mask {
                let candidate = PyDict::new(py);
                candidate.set_item("score", one.probability)?;
                candidate.set_item("token", one.id)?;
                candidate.set_item("token_str", one.text)?;
                candidates.append(candidate)?;
            }
            masks.append(candidates)?;
        }
        Ok(masks)
    }
}
