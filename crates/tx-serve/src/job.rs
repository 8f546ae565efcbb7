//! The sentences of a request in translation.

use std::sync::Arc;

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tx_infer::{
    Cancellation, Deadline, Failure, InferError, Line, Priority, SearchOptions, Translation,
};
use tx_markup::{Done, Unit};

use crate::{error::ApiError, metrics::Metrics, model::Route};

/// Sentences of one request for one route. Dropping it cancels them: at the end of the connection, or
/// of the time limit.
#[derive(Debug)]
pub struct Job {
    sentences: usize,
    deadline: Deadline,
    cancellation: Cancellation,
    receiver: UnboundedReceiver<(usize, Result<Done, ApiError>)>,
}

impl Job {
    /// Puts sentences into the queue of the model.
    ///
    /// # Errors
    ///
    /// If the queue is full or closed.
    pub fn submit(
        route: &Route,
        options: &SearchOptions,
        units: Vec<Unit>,
        priority: Priority,
        deadline: &Deadline,
        metrics: &Arc<Metrics>,
    ) -> Result<Self, ApiError> {
        let (sender, receiver) = unbounded_channel();
        let (sentences, units): (usize, Arc<[Unit]>) = (units.len(), units.into());
        let cancellation = deadline.cancellation();
        let (shared, route_of_units, metrics) = (units.clone(), route.clone(), metrics.clone());
        let receive = move |results: Vec<(usize, Result<Translation, Failure>)>| {
            for (index, result) in results {
                let Some(unit) = shared.get(index) else { continue };
                if let Some(done) = done(unit, result, &route_of_units, &metrics) {
                    // The client may have left.
                    let _ = sender.send((index, done));
                }
            }
        };
        let lines = units.iter().zip(0..).map(|(unit, number)| unit.line(number));
        let lines: Vec<Line<'_>> = lines.collect();
        route.translator.submit(&lines, options, priority, &cancellation, receive)?;
        Ok(Self { sentences, deadline: deadline.clone(), cancellation, receiver })
    }

    /// Returns the next result, with the index of its sentence. They come in any order.
    ///
    /// # Errors
    ///
    /// The error of the sentence, or if the deadline is over.
    pub async fn next(&mut self) -> Result<(usize, Done), ApiError> {
        let received = tokio::time::timeout_at(self.deadline.end().into(), self.receiver.recv());
        match received.await {
            Ok(Some((index, result))) => Ok((index, result?)),
            Ok(None) if !self.deadline.is_over() => Err(ApiError::Internal),
            Ok(None) | Err(_) => Err(self.deadline.error().into()),
        }
    }

    /// Number of sentences.
    pub fn len(&self) -> usize {
        self.sentences
    }

    /// Returns `true` if there is no sentence.
    pub fn is_empty(&self) -> bool {
        self.sentences == 0
    }

    /// Returns all results, in order.
    ///
    /// # Errors
    ///
    /// The first error of a sentence, or if the deadline is over.
    pub async fn all(&mut self) -> Result<Vec<Done>, ApiError> {
        let mut results: Vec<Option<Done>> = vec![None; self.len()];
        for _ in 0..self.len() {
            let (index, done) = self.next().await?;
            if let Some(slot) = results.get_mut(index) {
                *slot = Some(done);
            }
        }
        Ok(results.into_iter().flatten().collect())
    }

    /// Time after which the client waits no longer.
    pub fn deadline(&self) -> &Deadline {
        &self.deadline
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        self.cancellation.cancel();
    }
}

/// Completes a translation; `None` if the client has left, or its time is over.
fn done(
    unit: &Unit,
    result: Result<Translation, Failure>,
    route: &Route,
    metrics: &Metrics,
) -> Option<Result<Done, ApiError>> {
    Some(match result {
        Ok(translation) => {
            let best = translation.hypotheses.first();
            let generated = best.map_or(0, |best| best.hypothesis.ids.len());
            metrics.tokens(unit.tokens(), generated);
            let (texts, aligner) = (route.translator.texts(), route.model.aligner());
            Done::new(unit, translation, texts, aligner).map_err(ApiError::from)
        }
        Err(Failure::Error(InferError::Cancelled)) => {
            metrics.dropped();
            return None;
        }
        Err(Failure::Error(error)) => Err(error.into()),
        Err(Failure::Panic(_)) => {
            tracing::error!("a translation panicked");
            Err(ApiError::Internal)
        }
    })
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{Mutex, mpsc},
        thread,
        time::{Duration, Instant},
    };

    use tx_infer::{Observer, Pool};

    use super::*;
    use crate::fixture;

    /// Holds the batch of one sentence until it is released. In the next batch, a client leaves and
    /// another one's time ends.
    struct Hold {
        released: Mutex<mpsc::Receiver<()>>,
        leaves: Mutex<Option<Job>>,
        late: Deadline,
    }

    impl Observer for Hold {
        fn started(&self, waits: &[Duration]) {
            match waits.len() {
                1 => self.released.lock().unwrap().recv().unwrap(),
                _ => {
                    drop(self.leaves.lock().unwrap().take());
                    thread::sleep(self.late.end().saturating_duration_since(Instant::now()));
                }
            }
        }

        fn ended(&self, _duration: Duration) {}
    }

    /// A client leaves and another one's time ends while their sentences are in a batch with those of a
    /// third one.
    #[tokio::test]
    async fn sentences_of_clients_that_left_are_dropped_from_their_batch() {
        let (release, released) = mpsc::channel();
        let (metrics, late) = (Arc::new(Metrics::new()), Deadline::after(Duration::from_secs(1)));
        let (released, leaves) = (Mutex::new(released), Mutex::default());
        let hold = Arc::new(Hold { released, leaves, late: late.clone() });
        let pool = Pool::new(1).with_observer(hold.clone());
        let mut route = fixture::route();
        let alone = route.translator.translate("the cat sleeps .").unwrap();
        route.translator = route.translator.with_pool(&pool);
        let submit = |texts: &[&str], deadline: &Deadline| {
            let unit =
                |text: &&str| Unit { text: (*text).into(), context: Vec::new(), align: true };
            let units = texts.iter().map(unit).collect();
            let options = route.translator.options();
            Job::submit(&route, options, units, Priority::Interactive, deadline, &metrics).unwrap()
        };
        let long = Deadline::after(Duration::from_secs(60));
        let mut first = submit(&["a"], &long);
        while pool.waiting() > 0 {
            thread::yield_now();
        }
        *hold.leaves.lock().unwrap() = Some(submit(&["the dog", "the house"], &long));
        let mut stays = submit(&["the cat sleeps ."], &long);
        let mut late = submit(&["the cat"], &late);
        release.send(()).unwrap();
        assert_eq!(first.all().await.unwrap().len(), 1);
        let found = stays.all().await.unwrap().remove(0);
        assert_eq!(found.translation, alone);
        assert!(found.alignment.is_some());
        pool.wait();
        assert!(late.receiver.try_recv().is_err());
        assert_eq!(late.all().await.unwrap_err(), ApiError::Timeout(late.deadline.error()));
        let text = metrics.render(0, 1);
        assert!(text.contains("tx_dropped_sentences_total 3"), "{text}");
    }
}
