//! Translation.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Mutex, mpsc::channel},
};

use numpy::{PyArray4, PyArrayMethods};
use pyo3::{prelude::*, types::PyDict};
use rayon::prelude::*;
use tx_catalogue::Store;
use tx_infer::{
    Aligner, AlignmentOptions, Attention, AttentionKind, Bundle, Cancellation, Failure, Glossary,
    Hypothesis, InferError, Line, Priority, Request, SearchOptions, Shortlist, Tokens, Translation,
    Translator,
};
use tx_text::{
    Tokenizer,
    special::{BOS, EOS, UNK},
};

use crate::{
    error::{IntoException, internal, invalid},
    interrupt::{interruptible, receive},
    options::{Search, device, precision},
    stream::stream,
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
                        inter_threads = None, intra_threads = None, source_lang = None,
                        target_lang = None, shortlist = None, glossary = None, files = None))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn new(
        py: Python<'_>,
        model_path: PathBuf,
        device: &str,
        compute_type: &str,
        threads: Option<usize>,
        inter_threads: Option<usize>,
        intra_threads: Option<usize>,
        source_lang: Option<&str>,
        target_lang: Option<&str>,
        shortlist: Option<PathBuf>,
        glossary: Option<PathBuf>,
        files: Option<BTreeMap<String, Vec<u8>>>,
    ) -> PyResult<Self> {
        let paths = vec![Store::resolve(model_path)];
        // CTranslate2 has `inter_threads` workers of `intra_threads` threads, where 0 is its default.
        let workers = [inter_threads, intra_threads].map(|threads| threads.filter(|it| *it > 0));
        let threads = threads.or(match workers {
            [None, None] => None,
            [inter, intra] => Some(inter.unwrap_or(1).saturating_mul(intra.unwrap_or(1))),
        });
        let languages = [source_lang, target_lang];
        let opened =
            Self::open(py, paths, device, compute_type, threads, languages, shortlist, files)?;
        let Some(path) = glossary else { return Ok(opened) };
        let glossary = Glossary::open(&path, None).map_err(IntoException::into_exception)?;
        Ok(Self { inner: opened.inner.with_glossary(glossary) })
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
        Self::open(py, model_paths, device, compute_type, threads, languages, None, None)
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
        let mut found = self.of_texts(py, &[text], &[], &options)?;
        found.pop().ok_or_else(|| invalid("no text"))
    }

    /// Translates one text by greedy search, and calls `callback` with each part as it is generated. Stops if it returns
    /// `False` or raises an exception. Returns the parts.
    #[pyo3(signature = (text, callback, **options))]
    fn translate_stream(
        &self,
        py: Python<'_>,
        text: String,
        callback: Py<PyAny>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<String> {
        let greedy = self.inner.options().clone().with_one_hypothesis();
        let options = Search::of(options)?.apply(&greedy);
        let (parts, _) = stream(py, &callback, |cancellation, pass_on| {
            let line = Line::new(&text, 0);
            self.inner.translate_streaming(&line, &options, cancellation, pass_on)
        })?;
        Ok(parts)
    }

    #[pyo3(signature = (source, target_prefix = None, **options))]
    fn translate_batch(
        &self,
        py: Python<'_>,
        source: Sources,
        target_prefix: Option<Sources>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Vec<PyTranslation>> {
        let options = Search::of(options)?.apply(self.inner.options());
        let counted = |sources: usize, prefixes: usize| match sources == prefixes {
            true => Ok(()),
            false => Err(invalid(format!("{sources} sources and {prefixes} prefixes"))),
        };
        match (source, target_prefix) {
            (Sources::Texts(texts), None) => self.of_texts(py, &texts, &[], &options),
            (Sources::Tokens(tokens), None) => self.of_tokens(py, &tokens, &[], &options),
            (Sources::Texts(texts), Some(Sources::Texts(prefixes))) => {
                counted(texts.len(), prefixes.len())?;
                self.of_texts(py, &texts, &prefixes, &options)
            }
            (Sources::Tokens(tokens), Some(Sources::Tokens(prefixes))) => {
                counted(tokens.len(), prefixes.len())?;
                self.of_tokens(py, &tokens, &prefixes, &options)
            }
            _ => Err(invalid("sources and prefixes are both texts or both lists of tokens")),
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
        let cancellation = Cancellation::new();
        let work = || inner.score_with(&pairs, 0, &cancellation);
        let found = interruptible(py, || cancellation.cancel(), work)?
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
        // Without NumPy, creating an array panics.
        py.import("numpy")?;
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
    #[expect(clippy::too_many_arguments, reason = "those of the constructors")]
    fn open(
        py: Python<'_>,
        paths: Vec<PathBuf>,
        device_name: &str,
        compute_type: &str,
        threads: Option<usize>,
        [source, target]: [Option<&str>; 2],
        shortlist: Option<PathBuf>,
        files: Option<BTreeMap<String, Vec<u8>>>,
    ) -> PyResult<Self> {
        let (device, precision) = (device(device_name)?, precision(compute_type)?);
        let open = |path: &Path| -> Result<Translator, InferError> {
            let bundle = match &files {
                None if precision.is_none() => return Translator::open(path, &device),
                None => Bundle::open(path)?,
                Some(files) => Bundle::from_files(files.clone())?,
            };
            Translator::new_in(&bundle, precision.unwrap_or(bundle.precision()), &device)
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
        prefixes: &[String],
        options: &SearchOptions,
    ) -> PyResult<Vec<PyTranslation>> {
        let (inner, cancellation) = (&self.inner, Cancellation::new());
        let lines = texts.iter().enumerate().map(|(index, text)| {
            let prefix = prefixes.get(index).map_or("", String::as_str);
            Line { prefix, ..Line::new(text, index as u64) }
        });
        let lines: Vec<Line<'_>> = lines.collect();
        // The threads of the translator work while this one waits for results and signals.
        let (sender, receiver) = channel();
        let receiver = Mutex::new(receiver);
        let submit = || {
            let send = move |ready| drop(sender.send(ready));
            inner.submit(&lines, options, Priority::Interactive, &cancellation, send)
        };
        py.detach(submit).map_err(IntoException::into_exception)?;
        let _stop = CancelOnDrop(cancellation.clone());
        let mut found = vec![Translation::default(); texts.len()];
        let mut left = texts.len();
        while left > 0 {
            let ready = receive(py, &receiver)?.ok_or_else(internal)?;
            left = left.saturating_sub(ready.len());
            for (index, result) in ready {
                found[index] = result.map_err(|failure| match failure {
                    Failure::Error(error) => error.into_exception(),
                    Failure::Panic(_) => internal(),
                })?;
            }
        }
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

    /// Translates tokens into tokens. Special tokens that the model expects around a source are added
    /// unless they are there; a source without tokens has an empty translation.
    fn of_tokens(
        &self,
        py: Python<'_>,
        sources: &[Vec<String>],
        prefixes: &[Vec<String>],
        options: &SearchOptions,
    ) -> PyResult<Vec<PyTranslation>> {
        let (inner, max_len) = (&self.inner, self.inner.config().max_len);
        let tokenizers = inner.tokenizers();
        let sources: Vec<Vec<u32>> =
            sources.iter().map(|tokens| with_ends(tokens, &tokenizers.source)).collect();
        let prefixes: Vec<Vec<u32>> =
            prefixes.iter().map(|tokens| ids(tokens, &tokenizers.target)).collect();
        if let Some((index, long)) = (0..).zip(&sources).find(|(_, ids)| ids.len() > max_len) {
            let found = long.len();
            let index: usize = index;
            return Err(invalid(format!(
                "source {index} has {found} tokens, expected at most {max_len}"
            )));
        }
        let requests =
            (0..).zip(&sources).filter(|(_, ids)| !ids.is_empty()).map(|(index, ids)| {
                let prefix = prefixes.get(index).map_or(&[][..], Vec::as_slice);
                Request { prefix, ..Request::new(ids, index as u64) }
            });
        let requests: Vec<Request<'_>> = requests.collect();
        let cancellation = Cancellation::new();
        let work = || {
            let batches = requests
                .par_chunks(BATCH)
                .map(|batch| inner.engine().search_requests(batch, options, &cancellation));
            batches.collect::<Result<Vec<_>, InferError>>()
        };
        let found = interruptible(py, || cancellation.cancel(), work)?;
        let mut found = found.map_err(IntoException::into_exception)?.into_iter().flatten();
        let translations = sources.iter().map(|ids| {
            let hypotheses = if ids.is_empty() { None } else { found.next() };
            self.of_hypotheses(py, &hypotheses.unwrap_or_default())
        });
        translations.collect()
    }

    /// Translation of tokens; an empty one without hypotheses.
    fn of_hypotheses(&self, py: Python<'_>, found: &[Hypothesis]) -> PyResult<PyTranslation> {
        let tokenizer = &self.inner.tokenizers().target;
        let tokens = found.iter().map(|one| {
            let shown = one.ids.iter().filter(|id| **id != EOS);
            shown.map(|&id| tokenizer.token(id).unwrap_or_default()).collect()
        });
        let mut tokens: Vec<Vec<String>> = tokens.collect();
        if tokens.is_empty() {
            tokens.push(Vec::new());
        }
        let best = found.first().map_or(&[][..], |one| &one.ids);
        let text = tokenizer.decode(best);
        Ok(PyTranslation {
            text: text.map_err(|error| InferError::from(error).into_exception())?,
            scores: found.iter().map(|one| one.score).collect(),
            hypotheses: tokens.clone().into_pyobject(py)?.into_any().unbind(),
            tokens,
            truncated: false,
            unknown: Vec::new(),
        })
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

/// Cancels a call that ends early: by an error or a signal.
struct CancelOnDrop(Cancellation);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Ids of tokens; that of `<unk>` for those that are not in the vocabulary.
fn ids(tokens: &[String], tokenizer: &Tokenizer) -> Vec<u32> {
    tokens.iter().map(|token| tokenizer.id(token).unwrap_or(UNK)).collect()
}

/// Ids of a source, with the special tokens that the tokenizer adds to a text; none without tokens.
fn with_ends(tokens: &[String], tokenizer: &Tokenizer) -> Vec<u32> {
    let (mut ids, ends) = (ids(tokens, tokenizer), tokenizer.ends());
    if ends.bos && ids.first().is_some_and(|first| *first != BOS) {
        ids.insert(0, BOS);
    }
    if ends.eos && ids.last().is_some_and(|last| *last != EOS) {
        ids.push(EOS);
    }
    ids
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
