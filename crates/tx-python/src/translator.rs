//! Translation.

use std::path::{Path, PathBuf};

use numpy::{PyArray4, PyArrayMethods};
use pyo3::{prelude::*, types::PyDict};
use rayon::prelude::*;
use tx_catalogue::Store;
use tx_infer::{
    Aligner, AlignmentOptions, Attention, AttentionKind, Bundle, Cancellation, InferError,
    SearchOptions, Shortlist, Tokens, Translator,
};
use tx_text::special::{EOS, UNK};

use crate::{
    error::{IntoException, invalid},
    interrupt::interruptible,
    options::{Search, device, precision},
    tokenizer::PyTokenizer,
};

/// Sources in tokens that are decoded together.
const BATCH: usize = 32;

/// Result of one text.
#[pyclass(name = "Translation", module = "txmt", frozen, get_all)]
pub(crate) struct PyTranslation {
    text: String,
    /// Texts, or lists of tokens if the source was one.
    hypotheses: Py<PyAny>,
    scores: Vec<f32>,
    tokens: Vec<Vec<String>>,
    truncated: bool,
    unknown: Vec<String>,
}

#[pymethods]
impl PyTranslation {
    fn __str__(&self) -> &str {
        &self.text
    }

    fn __repr__(&self) -> String {
        format!("Translation(text={:?})", self.text)
    }
}

/// Translator of a bundle, or of an ensemble.
#[pyclass(name = "Translator", module = "txmt", frozen, subclass)]
pub(crate) struct PyTranslator {
    inner: Translator,
}

/// Linked words, and the words of both sides.
type Links = (Vec<(usize, usize)>, Vec<String>, Vec<String>);

/// Sources of a call.
#[derive(FromPyObject)]
enum Sources {
    Texts(Vec<String>),
    Tokens(Vec<Vec<String>>),
}

#[pymethods]
impl PyTranslator {
    #[new]
    #[pyo3(signature = (model_path, device = "cpu", *, compute_type = "default", threads = None,
                        source_lang = None, target_lang = None, shortlist = None))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn new(
        py: Python<'_>,
        model_path: PathBuf,
        device: &str,
        compute_type: &str,
        threads: Option<usize>,
        source_lang: Option<&str>,
        target_lang: Option<&str>,
        shortlist: Option<PathBuf>,
    ) -> PyResult<Self> {
        let paths = vec![Store::resolve(model_path)];
        Self::open(py, paths, device, compute_type, threads, [source_lang, target_lang], shortlist)
    }

    /// Averages the probabilities of several models.
    #[staticmethod]
    #[pyo3(signature = (model_paths, device = "cpu", *, compute_type = "default", threads = None,
                        source_lang = None, target_lang = None))]
    fn ensemble(
        py: Python<'_>,
        model_paths: Vec<PathBuf>,
        device: &str,
        compute_type: &str,
        threads: Option<usize>,
        source_lang: Option<&str>,
        target_lang: Option<&str>,
    ) -> PyResult<Self> {
        if model_paths.is_empty() {
            return Err(invalid("an ensemble needs a model"));
        }
        let languages = [source_lang, target_lang];
        Self::open(py, model_paths, device, compute_type, threads, languages, None)
    }

    #[getter]
    fn source_tokenizer(&self) -> PyTokenizer {
        PyTokenizer::from(self.inner.tokenizers().source.clone())
    }

    #[getter]
    fn target_tokenizer(&self) -> PyTokenizer {
        PyTokenizer::from(self.inner.tokenizers().target.clone())
    }

    #[pyo3(signature = (text, **options))]
    fn translate(
        &self,
        py: Python<'_>,
        text: String,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<PyTranslation> {
        let options = Search::of(options)?.apply(self.inner.options());
        let mut found = self.of_texts(py, &[text], &options)?;
        found.pop().ok_or_else(|| invalid("no text"))
    }

    #[pyo3(signature = (source, **options))]
    fn translate_batch(
        &self,
        py: Python<'_>,
        source: Sources,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Vec<PyTranslation>> {
        let options = Search::of(options)?.apply(self.inner.options());
        match source {
            Sources::Texts(texts) => self.of_texts(py, &texts, &options),
            Sources::Tokens(tokens) => self.of_tokens(py, &tokens, &options),
        }
    }

    /// Natural logarithms of the probabilities of given translations, of each token.
    fn score_batch(
        &self,
        py: Python<'_>,
        source: Vec<String>,
        target: Vec<String>,
    ) -> PyResult<Vec<PyScored>> {
        if source.len() != target.len() {
            let (source, target) = (source.len(), target.len());
            return Err(invalid(format!("{source} sources and {target} targets")));
        }
        let pairs: Vec<(String, String)> = source.into_iter().zip(target).collect();
        let inner = &self.inner;
        let found = interruptible(py, || {}, || inner.score(&pairs, 0))?
            .map_err(IntoException::into_exception)?;
        let tokenizer = &self.inner.tokenizers().target;
        let scored = found.into_iter().map(|score| PyScored {
            tokens: score.ids.iter().map(|&id| tokenizer.token(id).unwrap_or_default()).collect(),
            log_probs: score.log_probabilities,
        });
        Ok(scored.collect())
    }

    /// Attention weights of a pair of texts: arrays `[layers, heads, queries, keys]`.
    #[pyo3(signature = (source, target = None))]
    fn attention<'py>(
        &self,
        py: Python<'py>,
        source: &str,
        target: Option<&str>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let [source, target] = self.pair(py, source, target)?;
        let inner = &self.inner;
        let maps = interruptible(py, || {}, || Attention::of(inner.engine(), source, target))?;
        let found = PyDict::new(py);
        for kind in AttentionKind::ALL {
            let (rows, columns) = maps.labels(kind);
            let name = kind.name();
            found.set_item(name, array(py, maps.layers(kind), rows.tokens.len())?)?;
            found.set_item(format!("{name}_rows"), rows.tokens)?;
            found.set_item(format!("{name}_columns"), columns.tokens)?;
        }
        Ok(found)
    }

    /// Links of words of a source and a target, both from 0, and the words.
    #[pyo3(signature = (source, target = None))]
    fn align(&self, py: Python<'_>, source: &str, target: Option<&str>) -> PyResult<Links> {
        let pair: (Tokens, Tokens) = self.pair(py, source, target)?.into();
        let aligner = Aligner::new(self.inner.engine().clone(), AlignmentOptions::default());
        let found = interruptible(py, || {}, || aligner.align(&[pair]))?;
        let alignment = found.into_iter().next().unwrap_or_default();
        Ok((alignment.links(), alignment.source, alignment.target))
    }
}

/// Log-probabilities of the tokens of a given translation.
#[pyclass(name = "Scored", module = "txmt", frozen, get_all)]
pub(crate) struct PyScored {
    tokens: Vec<String>,
    log_probs: Vec<f32>,
}

impl PyTranslator {
    fn open(
        py: Python<'_>,
        paths: Vec<PathBuf>,
        device_name: &str,
        compute_type: &str,
        threads: Option<usize>,
        [source, target]: [Option<&str>; 2],
        shortlist: Option<PathBuf>,
    ) -> PyResult<Self> {
        let (device, precision) = (device(device_name)?, precision(compute_type)?);
        let open = |path: &Path| -> Result<Translator, InferError> {
            match precision {
                None => Translator::open(path, &device),
                Some(precision) => Translator::new_in(&Bundle::open(path)?, precision, &device),
            }
        };
        let build = || -> Result<Translator, InferError> {
            let (first, others) =
                (paths.first().map_or(Path::new(""), |path| path), paths.iter().skip(1));
            let mut translator = open(first)?;
            for path in others {
                translator = translator.with_member(first, path, open(path)?)?;
            }
            if source.is_some() || target.is_some() {
                translator = translator.with_languages(source, target)?;
            }
            if let Some(path) = &shortlist {
                translator = translator.with_shortlist(Shortlist::open(path)?)?;
            }
            Ok(match threads {
                Some(threads) => translator.with_threads(threads.max(1)),
                None => translator,
            })
        };
        let inner = interruptible(py, || {}, build)?;
        Ok(Self { inner: inner.map_err(IntoException::into_exception)? })
    }

    fn of_texts(
        &self,
        py: Python<'_>,
        texts: &[String],
        options: &SearchOptions,
    ) -> PyResult<Vec<PyTranslation>> {
        let (inner, cancellation) = (&self.inner, Cancellation::new());
        let found = interruptible(
            py,
            || cancellation.cancel(),
            || inner.translate_batch_with(texts, options, &cancellation),
        )?;
        let found = found.map_err(IntoException::into_exception)?;
        let tokenizer = &inner.tokenizers().target;
        let translations = found.into_iter().map(|it| {
            let texts: Vec<String> = it.hypotheses.iter().map(|one| one.text.clone()).collect();
            let ids = it.hypotheses.iter().map(|one| &one.hypothesis.ids);
            let tokens = ids.map(|ids| {
                let shown = ids.iter().filter(|id| **id != EOS);
                shown.map(|&id| tokenizer.token(id).unwrap_or_default()).collect()
            });
            Ok(PyTranslation {
                tokens: tokens.collect(),
                scores: it.hypotheses.iter().map(|one| one.hypothesis.score).collect(),
                hypotheses: texts.into_pyobject(py)?.into_any().unbind(),
                text: it.text,
                truncated: it.truncated,
                unknown: it.unknown,
            })
        });
        translations.collect()
    }

    /// Translates tokens into tokens. Special tokens are those of the source as given.
    fn of_tokens(
        &self,
        py: Python<'_>,
        sources: &[Vec<String>],
        options: &SearchOptions,
    ) -> PyResult<Vec<PyTranslation>> {
        let (inner, max_len) = (&self.inner, self.inner.config().max_len);
        let tokenizers = inner.tokenizers();
        let ids: Vec<Vec<u32>> = sources
            .iter()
            .map(|tokens| {
                tokens.iter().map(|token| tokenizers.source.id(token).unwrap_or(UNK)).collect()
            })
            .collect();
        if let Some(empty) = ids.iter().position(|ids| ids.is_empty() || ids.len() > max_len) {
            let found = ids.get(empty).map_or(0, Vec::len);
            return Err(invalid(format!(
                "source {empty} has {found} tokens, expected 1 to {max_len}"
            )));
        }
        let found = interruptible(
            py,
            || {},
            || {
                let batches = ids.par_chunks(BATCH).map(|batch| {
                    let batch: Vec<&[u32]> = batch.iter().map(Vec::as_slice).collect();
                    inner.engine().search(&batch, options)
                });
                batches.collect::<Result<Vec<_>, InferError>>()
            },
        )?;
        let found = found.map_err(IntoException::into_exception)?;
        let translations = found.into_iter().flatten().map(|hypotheses| {
            let tokens = hypotheses.iter().map(|one| {
                let shown = one.ids.iter().filter(|id| **id != EOS);
                shown.map(|&id| tokenizers.target.token(id).unwrap_or_default()).collect()
            });
            let tokens: Vec<Vec<String>> = tokens.collect();
            let best = hypotheses.first().map_or(&[][..], |one| &one.ids);
            let text = tokenizers.target.decode(best);
            let text = text.map_err(|error| InferError::from(error).into_exception())?;
            Ok(PyTranslation {
                text,
                scores: hypotheses.iter().map(|one| one.score).collect(),
                hypotheses: tokens.clone().into_pyobject(py)?.into_any().unbind(),
                tokens,
                truncated: false,
                unknown: Vec::new(),
            })
        });
        translations.collect()
    }

    /// Tokens of a pair; without a target, those of its translation.
    fn pair(&self, py: Python<'_>, source: &str, target: Option<&str>) -> PyResult<[Tokens; 2]> {
        let target = match target {
            Some(target) => target.to_owned(),
            None => self.translate(py, source.to_owned(), None)?.text,
        };
        let (tokenizers, max_len) = (self.inner.tokenizers(), self.inner.config().max_len);
        let tokens = || -> Result<[Tokens; 2], InferError> {
            Ok([
                Tokens::of_source(&tokenizers.source, source, max_len)?,
                Tokens::of_target(&tokenizers.target, &target, max_len)?,
            ])
        };
        let pair = tokens().map_err(IntoException::into_exception)?;
        match pair.iter().any(Tokens::is_empty) {
            true => Err(invalid("a text without words has no attention")),
            false => Ok(pair),
        }
    }
}

/// Array `[layers, heads, rows, columns]` of maps.
fn array<'py>(
    py: Python<'py>,
    layers: &[Vec<tx_infer::attention::AttentionMap>],
    rows: usize,
) -> PyResult<Bound<'py, PyArray4<f32>>> {
    let first = layers.first().and_then(|heads| heads.first());
    let shape = [
        layers.len(),
        layers.first().map_or(0, Vec::len),
        if first.is_some() { rows } else { 0 },
        first.map_or(0, |map| map.columns),
    ];
    let values: Vec<f32> =
        layers.iter().flatten().flat_map(|map| map.weights.iter().copied()).collect();
    numpy::PyArray1::from_vec(py, values).reshape(shape)
}
