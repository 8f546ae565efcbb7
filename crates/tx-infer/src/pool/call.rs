//! A call: texts of one kind of work, whose results its caller receives.

use std::{
    any::Any,
    cmp::Reverse,
    panic::{self, AssertUnwindSafe},
    ptr,
    sync::{Arc, Mutex},
    time::Instant,
};

use super::{
    Placement, Priority,
    load::{Limits, Load},
};
use crate::{cancellation::Cancellation, error::InferError};

/// Work on the texts of one call.
pub(crate) trait Task: Send + Sync + 'static {
    /// A text.
    type Text: Send + Sync;
    /// A tokenized text.
    type Item: Send;
    /// Result of a text.
    type Output: Send;

    /// Number of bytes of a text.
    fn bytes(text: &Self::Text) -> usize;

    /// Returns the number of rows of a text.
    fn rows(&self) -> usize {
        1
    }

    /// Use of threads by the model.
    fn placement(&self) -> Placement;

    /// Returns `true` if a batch is faster when threads without a batch take parts of it.
    fn is_shared(&self) -> bool {
        true
    }

    /// Returns `true` if texts of the other call may be in one batch with texts of this one.
    fn fits(&self, _other: &Self) -> bool {
        false
    }

    /// Tokenizes a text.
    ///
    /// # Errors
    ///
    /// If the text cannot be tokenized.
    fn encode(&self, text: &Self::Text) -> Result<Self::Item, InferError>;

    /// Number of tokens of a text.
    fn tokens(item: &Self::Item) -> usize;

    /// Computes the results of texts, in their order. They are those of this call, or of calls that
    /// [fit](Self::fits), each with its own task. `cancellation` is that of this call.
    ///
    /// # Errors
    ///
    /// The first error of a text.
    fn run(
        &self,
        texts: &[Encoded<'_, Self>],
        cancellation: &Cancellation,
    ) -> Result<Vec<Self::Output>, InferError>;
}

/// A tokenized text of a call.
pub(crate) struct Encoded<'a, T: Task + ?Sized> {
    call: &'a Call<T>,
    index: usize,
    pub(crate) text: &'a T::Text,
    pub(crate) item: T::Item,
}

impl<'a, T: Task> Encoded<'a, T> {
    /// Task of its call.
    pub(crate) fn task(&self) -> &'a T {
        &self.call.task
    }
}

/// Reason for which a text has no result.
#[derive(Debug)]
pub enum Failure {
    /// An error of the text; [`InferError::Cancelled`] if the call was canceled during its batch.
    Error(InferError),
    /// The payload of a panic.
    Panic(Box<dyn Any + Send>),
}

/// Results of texts, with their indices.
pub(crate) type Results<T> = Vec<(usize, Result<T, Failure>)>;

/// A task in the queue.
pub(super) struct Call<T: Task + ?Sized> {
    /// Texts with their indices, longest first.
    texts: Vec<(usize, T::Text)>,
    load: Load,
    receive: Box<dyn Fn(Results<T::Output>) + Send + Sync>,
    task: Arc<T>,
}

/// A call, without its type.
pub(super) trait AnyCall: Any + Send + Sync {
    /// Lengths and demands of the texts.
    fn load(&self) -> &Load;

    /// Returns `true` if texts of the other call may be in one batch with texts of this one.
    fn fits(&self, other: &dyn AnyCall) -> bool;

    /// Works on texts of calls that fit, by their positions.
    fn run(&self, texts: &[(Arc<dyn AnyCall>, usize)]);
}

impl<T: Task> Call<T> {
    /// Creates a call for texts with their indices, in batches of at most `batch_tokens` tokens, whose results
    /// `receive` takes on any thread.
    pub(super) fn new(
        task: Arc<T>,
        mut texts: Vec<(usize, T::Text)>,
        (batch_tokens, priority): (Option<usize>, Priority),
        cancellation: Cancellation,
        receive: impl Fn(Results<T::Output>) + Send + Sync + 'static,
    ) -> Self {
        texts.sort_by_key(|(_, text)| Reverse(T::bytes(text)));
        let placement = task.placement();
        let tokens = batch_tokens.unwrap_or(placement.batch_tokens());
        let load = Load {
            bytes: texts.iter().map(|(_, text)| T::bytes(text)).collect(),
            limits: Limits { tokens, rows: task.rows() },
            placement,
            is_shared: task.is_shared(),
            priority,
            cancellation,
            created: None,
            learned: Mutex::default(),
        };
        Self { texts, load, receive: Box::new(receive), task }
    }

    /// Records the time of the call, from which it waits.
    pub(super) fn created(mut self, created: Option<Instant>) -> Self {
        self.load.created = created;
        self
    }

    fn deliver(&self, results: Results<T::Output>) {
        // A panic of the receiver must not end this thread.
        if panic::catch_unwind(AssertUnwindSafe(|| (self.receive)(results))).is_err() {
            self.load.cancellation.cancel();
        }
    }

    /// Tokenizes the text at a position, or delivers its error.
    fn encoded(&self, position: usize) -> Option<Encoded<'_, T>> {
        let (index, text) = &self.texts[position];
        match attempt(|| self.task.encode(text)) {
            Ok(item) => {
                self.load.learn(position, T::tokens(&item));
                Some(Encoded { call: self, index: *index, text, item })
            }
            Err(failure) => {
                self.deliver(vec![(*index, Err(failure))]);
                None
            }
        }
    }
}

impl<T: Task> AnyCall for Call<T> {
    fn load(&self) -> &Load {
        &self.load
    }

    fn fits(&self, other: &dyn AnyCall) -> bool {
        let other: Option<&Self> = (other as &dyn Any).downcast_ref();
        other.is_some_and(|other| {
            let (ours, theirs) = (&self.load, &other.load);
            ours.limits == theirs.limits
                && ours.priority == theirs.priority
                && self.task.fits(&other.task)
        })
    }

    fn run(&self, texts: &[(Arc<dyn AnyCall>, usize)]) {
        let encoded = texts.iter().filter_map(|(call, position)| {
            let call: &Self = (&**call as &dyn Any).downcast_ref()?;
            call.encoded(*position)
        });
        let mut encoded: Vec<Encoded<'_, T>> = encoded.collect();
        for part in self.load.limits.split(&mut encoded, |text| T::tokens(&text.item)) {
            run_part(part);
        }
    }
}

/// Works on texts and delivers their results. If one fails, the others are worked on separately: the
/// text of one caller must not fail those of others.
fn run_part<T: Task>(part: &[Encoded<'_, T>]) {
    let Some(first) = part.first() else { return };
    let is_over = |text: &Encoded<'_, T>| text.call.load.cancellation.is_cancelled();
    let results: Vec<Result<T::Output, Failure>> = if part.iter().all(is_over) {
        part.iter().map(|_| Err(Failure::Error(InferError::Cancelled))).collect()
    } else {
        match attempt(|| first.task().run(part, &first.call.load.cancellation)) {
            Ok(outputs) => outputs.into_iter().map(Ok).collect(),
            Err(failure) if part.len() == 1 => vec![Err(failure)],
            Err(_) => return part.chunks(1).for_each(run_part),
        }
    };
    let mut calls: Vec<(&Call<T>, Results<T::Output>)> = Vec::new();
    for (text, mut result) in part.iter().zip(results) {
        if is_over(text) {
            // The text may have left its batch.
            result = Err(Failure::Error(InferError::Cancelled));
        }
        let result = (text.index, result);
        match calls.iter_mut().find(|(call, _)| ptr::eq(*call, text.call)) {
            Some((_, results)) => results.push(result),
            None => calls.push((text.call, vec![result])),
        }
    }
    calls.into_iter().for_each(|(call, results)| call.deliver(results));
}

fn attempt<T>(work: impl FnOnce() -> Result<T, InferError>) -> Result<T, Failure> {
    match panic::catch_unwind(AssertUnwindSafe(work)) {
        Ok(result) => result.map_err(Failure::Error),
        Err(payload) => Err(Failure::Panic(payload)),
    }
}
