//! Threads that translate the batches of the queue.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    thread::{self, JoinHandle},
    time::Instant,
};

use tx_infer::{Alignment, InferError, Translation};

use crate::{
    error::{ApiError, ServeError},
    job::{Batch, Done, Job},
    metrics::{Metrics, Stage},
    queue::Queue,
};

/// Threads of the server. They end when the queue is closed and empty.
#[derive(Debug)]
pub struct Workers {
    threads: Vec<JoinHandle<()>>,
}

impl Workers {
    /// Starts `count` threads.
    ///
    /// # Errors
    ///
    /// If the system cannot start a thread.
    pub fn start(
        count: usize,
        queue: &Arc<Queue>,
        metrics: &Arc<Metrics>,
    ) -> Result<Self, ServeError> {
        let start = |number: usize| {
            let (queue, metrics) = (queue.clone(), metrics.clone());
            let run = move || {
                while let Some(batch) = queue.take() {
                    work(&batch, &metrics);
                }
            };
            thread::Builder::new().name(format!("translate-{number}")).spawn(run)
        };
        let threads = (0..count.max(1)).map(start).collect::<Result<_, _>>();
        Ok(Self { threads: threads.map_err(|source| ServeError::Threads { source })? })
    }

    /// Waits until all threads have ended.
    pub fn join(self) {
        for thread in self.threads {
            // A panic has been reported by the hook.
            let _ = thread.join();
        }
    }
}

/// Translates a batch and sends the results.
fn work(batch: &Batch, metrics: &Metrics) {
    let started = Instant::now();
    for (job, _) in &batch.units {
        metrics.waited(started.duration_since(job.created));
    }
    metrics.batch(batch.units.len());
    match catch_unwind(AssertUnwindSafe(|| translate(batch, &batch.units, metrics))) {
        Ok(Ok(())) => {}
        Ok(Err(InferError::Cancelled)) => {}
        // The text of one client must not fail the requests of the others.
        Ok(Err(_)) | Err(_) if batch.units.len() > 1 => {
            for unit in &batch.units {
                let one = std::slice::from_ref(unit);
                let result = catch_unwind(AssertUnwindSafe(|| translate(batch, one, metrics)));
                report(unit, result.unwrap_or_else(|_| Err(InferError::Cancelled)));
            }
        }
        Ok(Err(error)) => batch.units.iter().for_each(|unit| report(unit, Err(clone_of(&error)))),
        Err(_) => {
            tracing::error!("a translation panicked");
            batch.units.iter().for_each(|(job, index)| job.send(*index, Err(ApiError::Internal)));
        }
    }
    metrics.stage(Stage::Translate, started.elapsed());
}

/// Sends the error of a unit.
fn report((job, index): &(Arc<Job>, usize), result: Result<(), InferError>) {
    if let Err(error) = result {
        tracing::error!(%error, "a sentence could not be translated");
        job.send(*index, Err(ApiError::Internal));
    }
}

/// A copy of an error for its message.
fn clone_of(error: &InferError) -> InferError {
    InferError::Search { problems: vec![error.to_string()] }
}

fn translate(
    batch: &Batch,
    units: &[(Arc<Job>, usize)],
    metrics: &Metrics,
) -> Result<(), InferError> {
    let Some((first, _)) = units.first() else { return Ok(()) };
    let translator = &first.route.translator;
    let texts: Vec<&str> = units.iter().map(|(job, index)| &*job.units[*index].text).collect();
    let translations =
        translator.translate_batch_with(&texts, &first.options, &batch.cancellation)?;
    for ((job, index), translation) in units.iter().zip(translations) {
        let unit = &job.units[*index];
        let generated = translation.hypotheses.first().map_or(0, |best| best.hypothesis.ids.len());
        metrics.tokens(unit.tokens(), generated);
        let alignment = if unit.align { align(job, &unit.text, &translation)? } else { None };
        job.send(*index, Ok(Done { translation, alignment }));
    }
    Ok(())
}

/// Aligns the words of a sentence and its translation; `None` for a sentence without words.
fn align(
    job: &Job,
    text: &str,
    translation: &Translation,
) -> Result<Option<Alignment>, InferError> {
    let Some(best) = translation.hypotheses.first() else { return Ok(None) };
    let texts = job.route.translator.texts();
    let pair = (texts.source(text)?, texts.hypothesis(&best.hypothesis.ids)?);
    // One pair is aligned on this thread.
    Ok(job.route.model.aligner().align(&[pair]).pop())
}
