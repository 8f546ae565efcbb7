//! Calls that are submitted.

use super::*;

fn submit(
    pool: &Pool,
    call: Letters,
    receive: impl Fn(Results<usize>) + Send + Sync + 'static,
) -> Result<(), InferError> {
    let (texts, priority, cancellation) = (call.texts(), call.priority, call.cancellation.clone());
    pool.submit(call.into(), texts, priority, cancellation, receive)
}

/// Occupies the only thread of a pool, and waits until it is busy. The result lets it continue.
fn occupied(pool: &Pool) -> Door {
    let (begun, door) = (Door::default(), Door::default());
    let (begins, passes) = (begun.clone(), door.clone());
    let work = move |_| {
        begins.open();
        passes.pass();
    };
    let call = Letters { placement: Placement::Host, ..Letters::working(1, work) };
    submit(pool, call, |_| {}).unwrap();
    begun.pass();
    door
}

/// Results of a submitted call by their indices, as text.
#[derive(Clone, Default)]
struct Received(Arc<Mutex<Vec<(usize, String)>>>);

impl Received {
    fn submit(&self, pool: &Pool, call: Letters) -> Result<(), InferError> {
        let received = self.0.clone();
        submit(pool, call, move |results| {
            let results = results.into_iter().map(|(index, result)| match result {
                Ok(output) => (index, output.to_string()),
                Err(Failure::Error(error)) => (index, error.to_string()),
                Err(Failure::Panic(payload)) => {
                    (index, (*payload.downcast::<&str>().unwrap()).into())
                }
            });
            received.lock().unwrap().extend(results);
        })
    }

    fn sorted(&self) -> Vec<(usize, String)> {
        let mut results = std::mem::take(&mut *self.0.lock().unwrap());
        results.sort();
        results
    }
}

fn texts(results: &[(usize, &str)]) -> Vec<(usize, String)> {
    results.iter().map(|(index, text)| (*index, (*text).into())).collect()
}

/// Three calls in one batch: one text panics, and the last text cancels the second call.
#[test]
fn a_text_of_a_batch_fails_or_is_canceled_alone() {
    let pool = Pool::new(1);
    let door = occupied(&pool);
    let [fails, leaves, stays] = [(); 3].map(|()| Received::default());
    let work = |index| assert!(index != 1, "text 1");
    fails.submit(&pool, Letters::working(3, work)).unwrap();
    let left = Cancellation::new();
    let call = Letters { cancellation: left.clone(), ..Letters::working(2, |_| {}) };
    leaves.submit(&pool, call).unwrap();
    stays.submit(&pool, Letters::working(2, move |_| left.cancel())).unwrap();
    door.open();
    pool.wait();
    assert_eq!(fails.sorted(), texts(&[(0, "0"), (1, "text 1"), (2, "20")]));
    assert!(leaves.sorted().iter().all(|(_, result)| result == "the call was canceled"));
    assert_eq!(stays.sorted(), texts(&[(0, "0"), (1, "10")]));
}

/// A receiver that panics ends its call, and no other.
#[test]
fn a_panic_of_a_receiver_cancels_its_call() {
    let pool = pool(1);
    let door = occupied(&pool);
    let cancellation = Cancellation::new();
    let call = Letters::working(5, |index| assert_eq!(index, 0));
    let call = Letters { cancellation: cancellation.clone(), ..call };
    submit(&pool, call, |_| panic!("receiver")).unwrap();
    door.open();
    pool.wait();
    assert!(cancellation.is_cancelled());
    assert_eq!(run(&pool, 2, &never(), |_| {}).unwrap(), [0, 10]);
}

#[test]
fn a_full_or_closed_pool_refuses() {
    let pool = Pool::new(1).with_max_waiting(3);
    let received = Received::default();
    let submit = |count| received.submit(&pool, Letters::working(count, |_| {}));
    let door = occupied(&pool);
    submit(5).unwrap();
    assert!(matches!(submit(1), Err(InferError::QueueFull)));
    door.open();
    pool.wait();
    assert_eq!((received.sorted().len(), pool.waiting()), (5, 0));
    let door = occupied(&pool);
    submit(1).unwrap();
    pool.close();
    assert!(matches!(submit(1), Err(InferError::PoolClosed)));
    assert!(matches!(run(&pool, 1, &never(), |_| {}), Err(InferError::PoolClosed)));
    door.open();
    pool.wait();
    assert_eq!(received.sorted(), texts(&[(0, "0")]), "waiting texts are worked on");
}

#[derive(Default)]
struct Recorder(Mutex<Vec<usize>>, AtomicUsize);

impl Observer for Recorder {
    fn started(&self, waits: &[Duration]) {
        self.0.lock().unwrap().push(waits.len());
    }

    fn ended(&self, _duration: Duration) {
        self.1.fetch_add(1, Ordering::SeqCst);
    }
}

/// Two calls of two texts make a batch of four.
#[test]
fn batches_are_observed() {
    let recorder = Arc::new(Recorder::default());
    let pool = Pool::new(1).with_observer(recorder.clone());
    let door = occupied(&pool);
    for _ in 0..2 {
        Received::default().submit(&pool, Letters::working(2, |_| {})).unwrap();
    }
    door.open();
    pool.wait();
    assert_eq!(*recorder.0.lock().unwrap(), [1, 4]);
    assert_eq!(recorder.1.load(Ordering::SeqCst), 2);
}
