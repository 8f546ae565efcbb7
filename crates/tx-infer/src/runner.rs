//! Opening and execution of models, which the types for all tasks have in common.

use std::{num::NonZero, path::Path, sync::Arc, thread};

use tx_text::is_blank;

#[cfg(feature = "burn")]
use crate::bundle::ModuleBundle;
use crate::{
    bundle::{Bundle, Parts},
    cancellation::Cancellation,
    device::Device,
    error::InferError,
    model::PackedModel,
    pool::{InOrder, Placement, Pool, Task},
    precision::Precision,
    weights::Weights,
};

/// Model of a bundle that is ready for its task.
pub(crate) trait TaskModel: Clone {
    /// The model on the packed engine.
    type Packed: PackedModel;

    /// Combines the weights of a bundle with its other parts.
    fn new(weights: Weights<Self::Packed>, parts: Parts<'_>) -> Self;

    /// Use of threads by the model.
    fn placement(&self) -> Placement;
}

/// Model that can be part of an ensemble.
pub(crate) trait EnsembleModel: TaskModel {
    /// Adds `other` to the ensemble. `first` and `path` are the folders of this model and of `other`,
    /// for messages.
    ///
    /// # Errors
    ///
    /// If the models do not belong together.
    fn with_member(self, first: &Path, path: &Path, other: Self) -> Result<Self, InferError>;
}

/// A model with the pool that runs it. Clones share both.
#[derive(Debug, Clone)]
pub(crate) struct Runner<M> {
    pub(crate) model: Arc<M>,
    pub(crate) pool: Pool,
}

impl<M: TaskModel> Runner<M> {
    /// Runs `model` with the default threads and batches.
    pub(crate) fn new(model: M) -> Self {
        let threads = thread::available_parallelism().map_or(1, NonZero::get);
        Self { pool: Pool::new(model.placement().threads(threads)), model: model.into() }
    }

    /// Builds the model of a bundle on `device` in `precision`.
    ///
    /// # Errors
    ///
    /// Same as [`Bundle::weights`].
    pub(crate) fn of_bundle(
        bundle: &Bundle,
        precision: Precision,
        device: &Device,
    ) -> Result<Self, InferError> {
        let weights = bundle.weights(precision, device)?;
        Ok(Self::new(M::new(weights, bundle.parts())))
    }

    /// Uses the model of a bundle, which is on `device`.
    #[cfg(feature = "burn")]
    pub(crate) fn of_module(
        bundle: &ModuleBundle<<M::Packed as PackedModel>::Module>,
        device: &Device,
    ) -> Self {
        let weights = Weights::of_module(&bundle.model, device);
        Self::new(M::new(weights, bundle.parts()))
    }

    /// Runs the model in `threads` threads, which are no longer shared with clones of `self`.
    pub(crate) fn with_threads(self, threads: usize) -> Self {
        let pool = Pool::new(self.model.placement().threads(threads));
        Self { pool: pool.with_batch_tokens(self.pool.batch_tokens()), ..self }
    }

    /// Changes the model. The threads remain those of all clones.
    pub(crate) fn with_model(
        self,
        change: impl FnOnce(M) -> Result<M, InferError>,
    ) -> Result<Self, InferError> {
        Ok(Self { model: change(Arc::unwrap_or_clone(self.model))?.into(), ..self })
    }
}

impl<M: EnsembleModel> Runner<M> {
    /// Adds the model of `other` to the ensemble: see [`EnsembleModel::with_member`].
    pub(crate) fn with_member(
        self,
        first: &Path,
        path: &Path,
        other: Self,
    ) -> Result<Self, InferError> {
        let other = Arc::unwrap_or_clone(other.model);
        let changed = self.with_model(|model| model.with_member(first, path, other))?;
        let threads = changed.pool.threads();
        Ok(changed.with_threads(threads))
    }
}

/// A text with its number, from 1, for messages.
pub(crate) struct NumberedText {
    pub(crate) text: String,
    pub(crate) line: u64,
}

impl NumberedText {
    /// Texts, numbered from `first + 1`, with their indices.
    pub(crate) fn all(
        texts: &[impl AsRef<str>],
        first: u64,
    ) -> impl Iterator<Item = (usize, Self)> {
        let texts = texts.iter().map(|text| text.as_ref().to_owned());
        texts.zip(first + 1..).map(|(text, line)| Self { text, line }).enumerate()
    }
}

impl<M: TaskModel + Task<Text = NumberedText>> Runner<M>
where
    M::Output: Default,
{
    /// Works on texts, numbered from `first`, and passes the results to `sink` in their order, in
    /// groups, as soon as they and all before them are complete. A text without words has an empty
    /// result.
    ///
    /// # Errors
    ///
    /// That of a text; [`InferError::Cancelled`]; an error of `sink`.
    pub(crate) fn run_lines<E: From<InferError>>(
        &self,
        texts: &[impl AsRef<str>],
        first: u64,
        cancellation: &Cancellation,
        sink: impl FnMut(Vec<M::Output>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut output = InOrder::new(texts.len(), sink);
        let (empty, texts): (Vec<_>, Vec<_>) =
            NumberedText::all(texts, first).partition(|(_, text)| is_blank(&text.text));
        output.put(empty.into_iter().map(|(index, _)| (index, M::Output::default())))?;
        let task = self.model.clone();
        self.pool.run(task, texts, cancellation.child(), |ready| output.put(ready))
    }
}

/// Public methods of a type with a field `runner`, whose model is a `$module` of Burn.
macro_rules! runner_methods {
    ($type:ident, $module:ident) => {
        impl $type {
            /// Opens the bundle in `folder`.
            ///
            /// # Errors
            ///
            /// Same as [`Bundle::open`](crate::Bundle::open) and [`new`](Self::new).
            pub fn open(
                folder: impl AsRef<std::path::Path>,
                device: &crate::Device,
            ) -> Result<Self, crate::InferError> {
                Self::new(crate::Bundle::open_for_model(folder)?, device)
            }

            /// Builds the model of a bundle on `device`, in the precision of its weights.
            ///
            /// # Errors
            ///
            /// [`InferError::WrongTask`](crate::InferError::WrongTask) if the model is for another
            /// task; otherwise the same as [`Bundle::pack`](crate::Bundle::pack).
            pub fn new(
                bundle: impl std::borrow::Borrow<crate::Bundle>,
                device: &crate::Device,
            ) -> Result<Self, crate::InferError> {
                let bundle = bundle.borrow();
                Self::new_in(bundle, bundle.precision(), device)
            }

            /// Builds the model of a bundle on `device` in `precision`.
            ///
            /// # Errors
            ///
            /// Same as [`new`](Self::new); if the device does not support the precision, or the
            /// program was built without the feature that the precision needs.
            pub fn new_in(
                bundle: &crate::Bundle,
                precision: crate::Precision,
                device: &crate::Device,
            ) -> Result<Self, crate::InferError> {
                Ok(Self { runner: crate::runner::Runner::of_bundle(bundle, precision, device)? })
            }

            /// Uses the model of a bundle, which is on `device`. [`Device::Cpu`](crate::Device::Cpu)
            /// packs weights in single precision.
            #[cfg(feature = "burn")]
            pub fn from_module(
                bundle: &crate::ModuleBundle<tx_model::$module>,
                device: &crate::Device,
            ) -> Self {
                Self { runner: crate::runner::Runner::of_module(bundle, device) }
            }

            /// Sets the maximum number of tokens of a batch, padding and hypotheses counted; `None` is the default
            /// [default: see [`Pool::BATCH_TOKENS`](crate::Pool::BATCH_TOKENS)].
            ///
            /// A longer text is its own batch. If there are few texts, they are distributed among the
            /// threads. Larger batches are faster up to a point, and take more memory.
            pub fn with_batch_tokens(mut self, batch_tokens: impl Into<Option<usize>>) -> Self {
                self.runner.pool = self.runner.pool.with_batch_tokens(batch_tokens);
                self
            }

            /// Sets the number of threads [default: all cores]. The result no longer shares its
            /// threads with clones of `self`.
            ///
            /// On [`Device::Cpu`](crate::Device::Cpu), each thread computes a batch at a time, and
            /// threads without a batch take parts of the others' larger matrix products. On other
            /// devices one batch is computed at a time; on a CPU, its tensor operations use the
            /// threads.
            pub fn with_threads(self, threads: usize) -> Self {
                Self { runner: self.runner.with_threads(threads) }
            }

            /// Shares the threads and the queue of `pool` with other models
            /// [default: threads of its own].
            pub fn with_pool(mut self, pool: &crate::Pool) -> Self {
                self.runner.pool = pool.clone();
                self
            }

            /// Returns `true` if computing in several threads is faster. A single tensor operation
            /// already uses all cores.
            pub fn gains_from_threads(&self) -> bool {
                crate::runner::TaskModel::placement(&*self.runner.model).is_parallel()
            }

            /// Returns the configuration of the model; of an ensemble, that of the first model with
            /// the smallest `max_len`.
            pub fn config(&self) -> &tx_model::ModelConfig {
                &self.runner.model.config
            }
        }
    };
}

/// Public methods of a type with a field `runner`, whose model can be part of an ensemble and
/// searches.
macro_rules! ensemble_methods {
    ($type:ident) => {
        impl $type {
            /// Opens several bundles as an ensemble: the probability of a token is the mean of the
            /// models' probabilities. The bundles must have the same tokenizers.
            ///
            /// # Errors
            ///
            /// Same as [`open`](Self::open) and [`with_member`](Self::with_member).
            pub fn open_ensemble(
                folders: &[impl AsRef<std::path::Path>],
                device: &crate::Device,
            ) -> Result<Self, crate::InferError> {
                let mut folders = folders.iter().map(AsRef::as_ref);
                let Some(first) = folders.next() else {
                    let problems = vec!["no bundle to open".into()];
                    return Err(crate::InferError::Search { problems });
                };
                folders.try_fold(Self::open(first, device)?, |all, path| {
                    all.with_member(first, path, Self::open(path, device)?)
                })
            }

            /// Adds the model of `other` to the ensemble. `first` and `path` are the folders of this
            /// bundle and of `other`, for messages.
            ///
            /// # Errors
            ///
            /// [`InferError::OtherVocabulary`](crate::InferError::OtherVocabulary) if the tokenizers
            /// differ; [`InferError::Search`](crate::InferError::Search) if a member has a shortlist.
            pub fn with_member(
                self,
                first: &std::path::Path,
                path: &std::path::Path,
                other: Self,
            ) -> Result<Self, crate::InferError> {
                Ok(Self { runner: self.runner.with_member(first, path, other.runner)? })
            }

            /// Sets the search options of calls that do not specify their own [default: those of the
            /// bundle, otherwise those of the library].
            ///
            /// # Errors
            ///
            /// [`InferError::Search`](crate::InferError::Search) with all problems of the options.
            pub fn with_options(
                self,
                options: crate::SearchOptions,
            ) -> Result<Self, crate::InferError> {
                self.runner.model.check(&options)?;
                let runner = self.runner.with_model(|model| Ok(Model { options, ..model }))?;
                Ok(Self { runner })
            }

            /// Returns the search options of calls that do not specify their own.
            pub fn options(&self) -> &crate::SearchOptions {
                &self.runner.model.options
            }

            /// Returns the engine in use.
            pub fn engine(&self) -> &crate::Engine {
                &self.runner.model.engine
            }
        }
    };
}

pub(crate) use {ensemble_methods, runner_methods};
