//! Training: configurations, runs and their callbacks.

use std::{
    ops::ControlFlow,
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use pyo3::{
    exceptions::PyTypeError,
    prelude::*,
    types::{PyDict, PyList, PyTuple},
};
use tx_train::{
    ConfigBuilder, OnMismatch, Outcome, ResumeFrom, TrainConfig, TrainError, Trainer,
    ranks::Alone,
    reporting::{
        observer::{Event, UpdateEvent, ValidationEvent},
        progress::ProgressMode,
    },
    tx_data::source::named::Endpoints,
    validation_report::Figure,
};

use crate::{
    error::{IntoException, invalid},
    fetching::{corpora, fetcher},
    interrupt::interruptible,
};

/// Maximum depth of lists and dictionaries in a value of a configuration.
const MAX_DEPTH: usize = 8;

/// Configuration of a run: values over those of a recipe or a file.
#[pyclass(name = "Config", module = "txmt")]
pub(crate) struct PyConfig {
    builder: ConfigBuilder,
}

#[pymethods]
impl PyConfig {
    #[new]
    #[pyo3(signature = (recipe = None, *, path = None))]
    fn new(recipe: Option<&str>, path: Option<PathBuf>) -> PyResult<Self> {
        let builder = match (recipe, path) {
            (Some(name), None) => ConfigBuilder::from_recipe(name),
            (None, Some(path)) => ConfigBuilder::from_file(&path),
            (None, None) => ConfigBuilder::from_recipe("small"),
            (Some(_), Some(_)) => return Err(invalid("pass a recipe or a path")),
        };
        Ok(Self { builder: builder.map_err(IntoException::into_exception)? })
    }

    /// Sets a value; `None` resets it to its default.
    fn set(&mut self, key: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let value = optional_value(value)?;
        set(&mut self.builder, key, value).map_err(IntoException::into_exception)
    }

    /// All values, as a file has them.
    fn to_toml(&self) -> PyResult<String> {
        toml::to_string(&self.build()?).map_err(|error| invalid(error.to_string()))
    }
}

impl PyConfig {
    fn build(&self) -> PyResult<TrainConfig> {
        self.builder.clone().build().map_err(IntoException::into_exception)
    }
}

/// Sets one value of a configuration; `None` resets it.
fn set(
    builder: &mut ConfigBuilder,
    key: &str,
    value: Option<toml::Value>,
) -> Result<(), TrainError> {
    match value {
        Some(value) => {
            builder.set_given(key, value);
            Ok(())
        }
        None => builder.set(&format!("{key}=")),
    }
}

/// Converts a value of Python; `None` stands for the default.
fn optional_value(value: &Bound<'_, PyAny>) -> PyResult<Option<toml::Value>> {
    (!value.is_none()).then(|| toml_value(value, MAX_DEPTH)).transpose()
}

/// Converts a value of Python: a number, a string or path, a truth value, a list, a tuple or a
/// dictionary, in which lists and dictionaries have at most `depth` levels.
fn toml_value(value: &Bound<'_, PyAny>, depth: usize) -> PyResult<toml::Value> {
    let inner = |value: &Bound<'_, PyAny>| match depth.checked_sub(1) {
        Some(depth) => toml_value(value, depth),
        None => Err(invalid(format!("a value has more than {MAX_DEPTH} levels of lists"))),
    };
    if let Ok(values) = value.cast::<PyDict>() {
        let pairs = values.iter().map(|(key, value)| Ok((key.extract()?, inner(&value)?)));
        return Ok(toml::Value::Table(pairs.collect::<PyResult<_>>()?));
    }
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        let values = value.try_iter()?.map(|value| inner(&value?));
        return Ok(toml::Value::Array(values.collect::<PyResult<_>>()?));
    }
    // `bool` is a subclass of `int`.
    if let Ok(value) = value.extract::<bool>() {
        return Ok(value.into());
    }
    if let Ok(value) = value.extract::<i64>() {
        return Ok(value.into());
    }
    if let Ok(value) = value.extract::<f64>() {
        return Ok(value.into());
    }
    if let Ok(value) = value.extract::<String>() {
        return Ok(value.into());
    }
    if let Ok(path) = value.extract::<PathBuf>() {
        return Ok(path.to_string_lossy().into_owned().into());
    }
    let kind = value.get_type();
    Err(PyTypeError::new_err(format!("a value of a configuration cannot be of the type {kind}")))
}

/// Update of the weights.
#[pyclass(name = "Update", module = "txmt", frozen, get_all)]
pub(crate) struct PyUpdate {
    step: usize,
    epoch: usize,
    seconds: f64,
    took: f64,
    loss: f64,
    nll: f64,
    accuracy: f64,
    learning_rate: f64,
    gradient_norm: f64,
    source_tokens: usize,
    target_tokens: usize,
}

#[pymethods]
impl PyUpdate {
    /// The numbers by name, as loggers take them.
    fn as_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let values = PyDict::new(py);
        for (name, value) in [
            ("step", self.step),
            ("epoch", self.epoch),
            ("source_tokens", self.source_tokens),
            ("target_tokens", self.target_tokens),
        ] {
            values.set_item(name, value)?;
        }
        for (name, value) in [
            ("seconds", self.seconds),
            ("took", self.took),
            ("loss", self.loss),
            ("nll", self.nll),
            ("accuracy", self.accuracy),
            ("learning_rate", self.learning_rate),
            ("gradient_norm", self.gradient_norm),
        ] {
            values.set_item(name, value)?;
        }
        Ok(values)
    }

    fn __repr__(&self) -> String {
        format!("Update(step={}, epoch={}, loss={:.4})", self.step, self.epoch, self.loss)
    }
}

impl From<UpdateEvent> for PyUpdate {
    fn from(update: UpdateEvent) -> Self {
        let UpdateEvent { step, epoch, seconds, took, loss, nll, accuracy, .. } = update;
        let UpdateEvent { learning_rate, gradient_norm, source_tokens, target_tokens, .. } = update;
        Self {
            step,
            epoch,
            seconds,
            took,
            loss,
            nll,
            accuracy,
            learning_rate,
            gradient_norm,
            source_tokens,
            target_tokens,
        }
    }
}

/// Validation of the model.
#[pyclass(name = "Validation", module = "txmt", frozen, get_all)]
pub(crate) struct PyValidation {
    step: usize,
    epoch: usize,
    seconds: f64,
    is_best: bool,
    metrics: Py<PyDict>,
}

#[pymethods]
impl PyValidation {
    fn __repr__(&self, py: Python<'_>) -> String {
        let metrics = self.metrics.bind(py);
        format!("Validation(step={}, epoch={}, metrics={metrics})", self.step, self.epoch)
    }
}

/// Result of a run.
#[pyclass(name = "TrainingResult", module = "txmt", frozen, get_all)]
pub(crate) struct PyTrainingResult {
    run: PathBuf,
    step: usize,
    epoch: usize,
    interrupted: bool,
    metrics: Py<PyDict>,
    examples: Vec<String>,
}

impl PyTrainingResult {
    fn new(py: Python<'_>, outcome: Outcome) -> PyResult<Self> {
        let figures = outcome.validation.map(|it| it.figures()).unwrap_or_default();
        Ok(Self {
            run: outcome.run,
            step: outcome.state.step,
            epoch: outcome.state.epoch,
            interrupted: outcome.interrupted,
            metrics: metrics(py, &figures)?,
            examples: outcome.examples,
        })
    }
}

fn metrics(py: Python<'_>, figures: &[Figure]) -> PyResult<Py<PyDict>> {
    let metrics = PyDict::new(py);
    for figure in figures {
        metrics.set_item(figure.key, figure.value)?;
    }
    Ok(metrics.unbind())
}

/// Functions that a run calls.
struct Callbacks {
    on_update: Option<Py<PyAny>>,
    on_validation: Option<Py<PyAny>>,
    /// The exception that a function has raised.
    raised: Mutex<Option<PyErr>>,
}

impl Callbacks {
    /// Calls the function for an event. The run stops if it returns `False` or raises an exception.
    fn call(&self, event: &Event) -> ControlFlow<()> {
        let function = match event {
            Event::Update(_) => &self.on_update,
            Event::Validation(_) => &self.on_validation,
        };
        let Some(function) = function else { return ControlFlow::Continue(()) };
        let result = Python::attach(|py| -> PyResult<bool> {
            let result = match event {
                Event::Update(update) => function.call1(py, (PyUpdate::from(*update),))?,
                Event::Validation(validation) => {
                    let ValidationEvent { step, epoch, seconds, is_best, ref figures } =
                        *validation;
                    let metrics = metrics(py, figures)?;
                    function
                        .call1(py, (PyValidation { step, epoch, seconds, is_best, metrics },))?
                }
            };
            Ok(result.extract(py).unwrap_or(true))
        });
        match result {
            Ok(true) => ControlFlow::Continue(()),
            Ok(false) => ControlFlow::Break(()),
            Err(error) => {
                *self.raised.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                ControlFlow::Break(())
            }
        }
    }
}

/// Trains a model in a new folder.
#[pyfunction]
#[pyo3(signature = (config, run, *, on_update = None, on_validation = None, device = "cpu",
                    fetch = false, progress = false))]
#[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
pub(crate) fn train(
    py: Python<'_>,
    config: &PyConfig,
    run: PathBuf,
    on_update: Option<Py<PyAny>>,
    on_validation: Option<Py<PyAny>>,
    device: &str,
    fetch: bool,
    progress: bool,
) -> PyResult<PyTrainingResult> {
    let (config, device) = (config.build()?, crate::options::device(device)?);
    let start = || Ok(Trainer::new(config, run, device.to_burn()));
    launch(py, start, [on_update, on_validation], fetch, progress)
}

/// Resumes a run from one of its checkpoints.
#[pyfunction]
#[pyo3(signature = (run, *, step = None, take = None, changes = None, on_update = None,
                    on_validation = None, device = "cpu", fetch = false, progress = false))]
#[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
pub(crate) fn resume(
    py: Python<'_>,
    run: PathBuf,
    step: Option<usize>,
    take: Option<&str>,
    changes: Option<&Bound<'_, PyDict>>,
    on_update: Option<Py<PyAny>>,
    on_validation: Option<Py<PyAny>>,
    device: &str,
    fetch: bool,
    progress: bool,
) -> PyResult<PyTrainingResult> {
    let device = crate::options::device(device)?;
    let from = step.map_or(ResumeFrom::Last, ResumeFrom::Step);
    let take = match take {
        None => None,
        Some("old") => Some(OnMismatch::Old),
        Some("new") => Some(OnMismatch::New),
        Some(other) => return Err(invalid(format!("take={other:?}, expected \"old\" or \"new\""))),
    };
    let mut values = Vec::new();
    for (key, value) in changes.into_iter().flatten() {
        values.push((key.extract::<String>()?, optional_value(&value)?));
    }
    let change = move |builder: &mut ConfigBuilder| {
        values.into_iter().try_for_each(|(key, value)| set(builder, &key, value))
    };
    let start = || Trainer::resume(run, from, take, device.to_burn(), Arc::new(Alone), change);
    launch(py, start, [on_update, on_validation], fetch, progress)
}

/// Runs a trainer with callbacks. Ctrl-C stops it with a checkpoint.
fn launch(
    py: Python<'_>,
    start: impl FnOnce() -> Result<Trainer, TrainError> + Send,
    [on_update, on_validation]: [Option<Py<PyAny>>; 2],
    fetch: bool,
    progress: bool,
) -> PyResult<PyTrainingResult> {
    let stop = Arc::new(AtomicBool::new(false));
    let callbacks = Arc::new(Callbacks { on_update, on_validation, raised: Mutex::new(None) });
    let observer = callbacks.clone();
    let mode = if progress { ProgressMode::Lines } else { ProgressMode::Quiet };
    let work = || -> Result<Outcome, TrainError> {
        let trainer = start()?;
        if fetch {
            let fetcher = fetcher(!progress)?;
            for request in &tx_train::corpus::requests(trainer.config()) {
                tx_train::corpus::fetch(request, &fetcher, &Endpoints::from_env())?;
            }
        }
        trainer
            .with_corpora(corpora())
            .with_progress(mode)
            .with_interrupt(stop.clone())
            .with_observer(move |event| observer.call(event))
            .run()
    };
    let outcome = interruptible(py, || stop.store(true, Ordering::Relaxed), work)?;
    let raised = callbacks.raised.lock().unwrap_or_else(PoisonError::into_inner).take();
    match raised {
        Some(error) => Err(error),
        None => PyTrainingResult::new(py, outcome.map_err(IntoException::into_exception)?),
    }
}
