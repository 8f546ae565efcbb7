//! Threads that translate the batches of the queue.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    slice,
    sync::Arc,
    thread::{self, JoinHandle},
    time::Instant,
};

use tx_infer::{Cancellation, InferError, Line, Translation};
use tx_markup::Done;

use crate::{
    error::{ApiError, ServeError},
    job::Job,
    metrics::{Metrics, Stage},
    queue::Queue,
};

/// A sentence: its job and its index.
type Unit = (Arc<Job>, usize);

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
                    queue.finish(batch.len());
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
fn work(units: &[Unit], metrics: &Metrics) {
    let started = Instant::now();
    for (job, _) in units {
        metrics.waited(started.duration_since(job.created));
    }
    metrics.batch(units.len());
    let attempt = |units: &[Unit]| catch_unwind(AssertUnwindSafe(|| translate(units, metrics)));
    match units {
        [unit] => report(unit, attempt(units)),
        _ if matches!(attempt(units), Ok(Ok(()))) => {}
        // The text of one client must not fail the requests of the others.
        _ => units.iter().for_each(|unit| report(unit, attempt(slice::from_ref(unit)))),
    }
    metrics.stage(Stage::Translate, started.elapsed());
}

/// Sends the error of a unit, or that of its panic.
fn report((job, index): &Unit, result: thread::Result<Result<(), InferError>>) {
    match result {
        Ok(Ok(())) => return,
        Ok(Err(error)) => tracing::error!(%error, "a sentence could not be translated"),
        Err(_) => tracing::error!("a translation panicked"),
    }
    job.send(*index, Err(ApiError::Internal));
}

/// Translates sentences and sends the results. Those of clients that leave are dropped at the next
/// decoding step.
fn translate(units: &[Unit], metrics: &Metrics) -> Result<(), InferError> {
    let Some((first, _)) = units.first() else { return Ok(()) };
    let lines: Vec<Line<'_>> = units.iter().zip(0..).map(line).collect();
    let mut waiting = units.iter();
    let send = |ready: Vec<Translation>| {
        // The iterator of units stays at the first without a result.
        for (translation, (job, index)) in ready.into_iter().zip(waiting.by_ref()) {
            if job.is_abandoned() {
                metrics.dropped();
                continue;
            }
            let unit = &job.units[*index];
            let best = translation.hypotheses.first();
            let generated = best.map_or(0, |best| best.hypothesis.ids.len());
            metrics.tokens(unit.tokens(), generated);
            let (texts, aligner) = (job.route.translator.texts(), job.route.model.aligner());
            job.send(*index, Ok(Done::new(unit, translation, texts, aligner)?));
        }
        Ok::<_, InferError>(())
    };
    let never = Cancellation::new();
    first.route.translator.translate_lines(&lines, &first.options, &never, send)
}

/// A sentence of a job, which is dropped when its client leaves.
fn line(((job, index), number): (&Unit, u64)) -> Line<'_> {
    let cancellation = Some(&job.cancellation);
    Line { cancellation, ..Line::new(&job.units[*index].text, number) }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tx_infer::Deadline;

    use super::*;
    use crate::fixture;

    /// A client leaves and another one's time ends while their sentences are in a batch with those of a
    /// third one.
    #[tokio::test]
    async fn sentences_of_clients_that_left_are_dropped_from_their_batch() {
        let route = fixture::route();
        let new = |texts: &[&str], seconds| {
            let unit = |text: &&str| tx_markup::Unit { text: (*text).into(), align: true };
            let units = texts.iter().map(unit).collect();
            let deadline = Deadline::after(Duration::from_secs(seconds));
            Job::new(route.clone(), route.translator.options().clone(), units, &deadline)
        };
        let (gone, left) = new(&["the dog", "the house"], 60);
        let (late, mut late_handle) = new(&["the cat"], 0);
        let (stays, mut handle) = new(&["the cat sleeps ."], 60);
        drop(left);
        let units = [(gone.clone(), 0), (stays, 0), (late, 0), (gone, 1)];
        let metrics = Metrics::new();
        work(&units, &metrics);
        let found = handle.all().await.unwrap().remove(0);
        assert_eq!(found.translation, route.translator.translate("the cat sleeps .").unwrap());
        assert!(found.alignment.is_some());
        assert!(late_handle.receiver_is_empty());
        let text = metrics.render(0, 1);
        assert!(text.contains("tx_dropped_sentences_total 3"), "{text}");
    }
}
