mod submitted;

use std::{
    cell::Cell,
    panic::AssertUnwindSafe,
    sync::{
        Condvar,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use super::*;

/// Texts of bytes, for which `work` runs with their indices. The result is ten times the index.
pub(super) struct Letters {
    pub(super) bytes: Vec<usize>,
    pub(super) rows: usize,
    pub(super) placement: Placement,
    pub(super) priority: Priority,
    pub(super) cancellation: Cancellation,
    pub(super) is_shared: bool,
    pub(super) work: Arc<dyn Fn(usize) + Send + Sync>,
}

impl Letters {
    pub(super) fn of_lengths(bytes: &[usize]) -> Self {
        Self {
            bytes: bytes.to_vec(),
            rows: 1,
            placement: Placement::Threads,
            priority: Priority::Interactive,
            cancellation: Cancellation::new(),
            is_shared: true,
            work: Arc::new(|_| {}),
        }
    }

    /// Texts without letters, each of size 1.
    fn working(count: usize, work: impl Fn(usize) + Send + Sync + 'static) -> Self {
        Self { work: Arc::new(work), ..Self::of_lengths(&vec![0; count]) }
    }

    /// Indices and bytes of the texts.
    fn texts(&self) -> Vec<(usize, (usize, usize))> {
        self.bytes.iter().copied().enumerate().enumerate().collect()
    }

    /// A call with batches of so many tokens; `None` is the default.
    pub(super) fn call(self, tokens: impl Into<Option<usize>>) -> Arc<dyn AnyCall> {
        let (terms, cancellation) = ((tokens.into(), self.priority), self.cancellation.clone());
        let texts = self.texts();
        Arc::new(Call::new(self.into(), texts, terms, cancellation, |_| {}))
    }
}

impl Task for Letters {
    /// Index and bytes.
    type Text = (usize, usize);
    type Item = ();
    type Output = usize;

    fn bytes((_, bytes): &(usize, usize)) -> usize {
        *bytes
    }

    fn rows(&self) -> usize {
        self.rows
    }

    fn placement(&self) -> Placement {
        self.placement
    }

    fn is_shared(&self) -> bool {
        self.is_shared
    }

    fn fits(&self, other: &Self) -> bool {
        self.placement.is_parallel() && self.is_shared == other.is_shared
    }

    fn encode(&self, _text: &(usize, usize)) -> Result<(), InferError> {
        Ok(())
    }

    fn tokens((): &()) -> usize {
        1
    }

    fn run(
        &self,
        texts: &[Encoded<'_, Self>],
        _cancellation: &Cancellation,
    ) -> Result<Vec<usize>, InferError> {
        let result = |text: &Encoded<'_, Self>| {
            let (index, _) = *text.text;
            (text.task().work)(index);
            Ok(10 * index)
        };
        texts.iter().map(result).collect()
    }
}

/// A pool whose batches have one text each.
fn pool(threads: usize) -> Pool {
    Pool::new(threads).with_batch_tokens(0)
}

/// Runs a call and passes its results to `receive`.
fn receive(
    pool: &Pool,
    call: Letters,
    cancellation: Cancellation,
    receive: impl FnMut(Vec<(usize, usize)>) -> Result<(), InferError>,
) -> Result<(), InferError> {
    let texts = call.texts();
    pool.run(call.into(), texts, cancellation, receive)
}

/// Runs `count` texts and returns their results.
fn run(
    pool: &Pool,
    count: usize,
    cancellation: &Cancellation,
    work: impl Fn(usize) + Send + Sync + 'static,
) -> Result<Vec<usize>, InferError> {
    let mut found = vec![0; count];
    receive(pool, Letters::working(count, work), cancellation.child(), |ready| {
        ready.into_iter().for_each(|(item, result)| found[item] = result);
        Ok(())
    })?;
    Ok(found)
}

/// Runs a call whose results do not matter.
fn run_call(pool: &Pool, call: Letters) {
    receive(pool, call, never(), |_| Ok(())).unwrap();
}

fn never() -> Cancellation {
    Cancellation::new()
}

/// Gate that blocks threads until it is opened.
#[derive(Clone, Default)]
struct Door(Arc<(Mutex<bool>, Condvar)>);

impl Door {
    fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }

    fn pass(&self) {
        let open = self.0.0.lock().unwrap();
        drop(self.0.1.wait_while(open, |open| !*open).unwrap());
    }
}

#[test]
fn every_item_of_every_call_runs_once() {
    for (threads, placement, batch_tokens) in [
        (1, Placement::Threads, 0),
        (3, Placement::Threads, 0),
        (3, Placement::Threads, 4),
        (3, Placement::Host, 0),
    ] {
        let pool = pool(threads).with_batch_tokens(batch_tokens);
        thread::scope(|scope| {
            for count in 0..20 {
                let pool = &pool;
                scope.spawn(move || {
                    let mut found = vec![0; count];
                    let texts = Letters { placement, ..Letters::working(count, |_| {}) };
                    receive(pool, texts, never(), |ready| {
                        ready.into_iter().for_each(|(index, result)| found[index] += result);
                        Ok(())
                    })
                    .unwrap();
                    assert_eq!(found, (0..count).map(|item| 10 * item).collect::<Vec<_>>());
                });
            }
        });
    }
}

#[test]
fn an_empty_task_starts_no_thread() {
    let pool = pool(2);
    assert!(run(&pool, 0, &never(), |_| {}).unwrap().is_empty());
    assert!(!pool.has_started());
}

thread_local! {
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// Each batch waits for parts that other threads may take, as matrix products do, while further
/// calls come in: no batch begins on the stack of another.
#[test]
fn a_waiting_thread_begins_no_other_batch() {
    let pool = pool(4);
    let deepest = Arc::new(AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..16 {
            let (pool, deepest) = (&pool, deepest.clone());
            scope.spawn(move || {
                run(pool, 20, &never(), move |_| {
                    DEPTH.set(DEPTH.get() + 1);
                    deepest.fetch_max(DEPTH.get(), Ordering::Relaxed);
                    for _ in 0..20 {
                        rayon::scope(|scope| {
                            for _ in 0..4 {
                                scope.spawn(|_| thread::sleep(Duration::from_micros(50)));
                            }
                        });
                    }
                    DEPTH.set(DEPTH.get() - 1);
                })
                .unwrap();
            });
        }
    });
    assert_eq!(deepest.load(Ordering::Relaxed), 1);
}

/// As many batches run as there are threads; of tensors, one.
#[test]
fn batches_in_progress_are_limited() {
    for (placement, limit) in [(Placement::Threads, 2), (Placement::Host, 1)] {
        let pool = pool(2);
        let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        thread::scope(|scope| {
            for _ in 0..6 {
                let (pool, running, most) = (&pool, running.clone(), most.clone());
                let work = move |_| {
                    most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    thread::sleep(Duration::from_micros(100));
                    running.fetch_sub(1, Ordering::SeqCst);
                };
                let texts = Letters { placement, ..Letters::working(10, work) };
                scope.spawn(move || run_call(pool, texts));
            }
        });
        assert!((1..=limit).contains(&most.load(Ordering::SeqCst)));
    }
}

/// Batches that share products run on other threads than those that do not, but no more than two at a
/// time.
#[test]
fn calls_of_models_of_both_kinds_share_a_pool() {
    let (pool, running) = (pool(2), Arc::new(AtomicUsize::new(0)));
    thread::scope(|scope| {
        for is_shared in [true, false, true, false] {
            let (pool, running) = (&pool, &running);
            scope.spawn(move || {
                for _ in 0..50 {
                    let running = running.clone();
                    let work = move |_| {
                        assert!(running.fetch_add(1, Ordering::SeqCst) < 2);
                        thread::yield_now();
                        running.fetch_sub(1, Ordering::SeqCst);
                    };
                    let call = Letters { is_shared, ..Letters::working(3, work) };
                    let mut count = 0;
                    receive(pool, call, never(), |ready| {
                        count += ready.len();
                        Ok(())
                    })
                    .unwrap();
                    assert_eq!(count, 3);
                }
            });
        }
    });
    pool.wait();
}

/// The long call is in its first of 50 batches when the short one comes. The short one's batch runs
/// next, or after one more.
#[test]
fn a_short_call_does_not_wait_for_a_long_one() {
    let pool = pool(1);
    let (begun, door) = (Door::default(), Door::default());
    let log = Arc::new(Mutex::new(Vec::new()));
    thread::scope(|scope| {
        let long = {
            let (begun, door, log) = (begun.clone(), door.clone(), log.clone());
            let pool = &pool;
            scope.spawn(move || {
                run(pool, 50, &never(), move |_| {
                    begun.open();
                    door.pass();
                    log.lock().unwrap().push("long");
                })
            })
        };
        begun.pass();
        let short = {
            let log = log.clone();
            let pool = &pool;
            scope.spawn(move || run(pool, 1, &never(), move |_| log.lock().unwrap().push("short")))
        };
        while pool.waiting() < 50 {
            thread::yield_now();
        }
        door.open();
        short.join().unwrap().unwrap();
        long.join().unwrap().unwrap();
    });
    let log = log.lock().unwrap();
    assert_eq!(log.len(), 51);
    assert!(log.iter().position(|name| *name == "short").unwrap() <= 2, "{log:?}");
}

/// The only thread works on a batch of 28 letters, of size 8. A call of 4 letters, of size 2, ends
/// before that batch, if it may run on the thread of its caller; one of 8 letters, of size 3, does not.
#[test]
fn a_call_that_is_much_shorter_than_the_batches_in_progress_overtakes_them() {
    for (placement, letters, overtakes) in
        [(Placement::Threads, 4, true), (Placement::Threads, 8, false), (Placement::Host, 4, false)]
    {
        let pool = pool(1);
        let (begun, door) = (Door::default(), Door::default());
        let has_ended = Arc::new(AtomicBool::new(false));
        thread::scope(|scope| {
            let (begins, passes, ends) = (begun.clone(), door.clone(), has_ended.clone());
            let pool = &pool;
            let work = move |_| {
                begins.open();
                passes.pass();
                ends.store(true, Ordering::SeqCst);
            };
            let long = Letters { bytes: vec![28], ..Letters::working(1, work) };
            scope.spawn(move || run_call(pool, long));
            begun.pass();
            let has_ended = has_ended.clone();
            let work = move |_| assert_eq!(has_ended.load(Ordering::SeqCst), !overtakes);
            let bytes = vec![letters];
            let short = Letters { bytes, placement, ..Letters::working(1, work) };
            let short = scope.spawn(move || run_call(pool, short));
            if !overtakes {
                while pool.waiting() == 0 {
                    thread::yield_now();
                }
                door.open();
            }
            short.join().unwrap();
            door.open();
        });
        assert_eq!(pool.shared.state().overtaking, 0);
    }
}

/// Calls of one batch and of two, with and without products that helpers take parts of.
#[test]
fn one_small_batch_runs_on_the_thread_of_its_caller() {
    for (count, is_shared, is_own) in [(1, false, true), (2, false, false), (1, true, false)] {
        let pool = pool(2);
        let caller = thread::current().id();
        let work = move |_| assert_eq!(thread::current().id() == caller, is_own);
        run_call(&pool, Letters { is_shared, ..Letters::working(count, work) });
        assert_eq!(pool.has_started(), !is_own);
        // A thread returns to the queue after the call has its results.
        pool.wait();
        assert!(pool.shared.state().running.is_empty());
    }
}

/// One caller runs its batch itself, as many as may run. Another call waits meanwhile, and runs
/// afterwards.
#[test]
fn a_call_waits_for_a_batch_on_the_thread_of_its_caller() {
    let pool = pool(1);
    let (begun, door) = (Door::default(), Door::default());
    let has_ended = Arc::new(AtomicBool::new(false));
    thread::scope(|scope| {
        let (begins, passes, ends) = (begun.clone(), door.clone(), has_ended.clone());
        let pool = &pool;
        let work = move |_| {
            begins.open();
            passes.pass();
            ends.store(true, Ordering::SeqCst);
        };
        let first = Letters { is_shared: false, ..Letters::working(1, work) };
        scope.spawn(move || run_call(pool, first));
        begun.pass();
        let work = move |_| assert!(has_ended.load(Ordering::SeqCst));
        let second = Letters { is_shared: false, ..Letters::working(1, work) };
        let waiting = scope.spawn(move || run_call(pool, second));
        while pool.waiting() == 0 {
            thread::yield_now();
        }
        // The thread of the pool finds no batch that it may start.
        thread::sleep(Duration::from_millis(10));
        door.open();
        waiting.join().unwrap();
    });
}

/// The only thread is busy with another call.
#[test]
fn a_canceled_call_returns_while_all_threads_are_busy() {
    let pool = pool(1);
    let (begun, door) = (Door::default(), Door::default());
    thread::scope(|scope| {
        let busy = {
            let (begun, door) = (begun.clone(), door.clone());
            let pool = &pool;
            scope.spawn(move || {
                run(pool, 1, &never(), move |_| {
                    begun.open();
                    door.pass();
                })
            })
        };
        begun.pass();
        let cancellation = Cancellation::new();
        let waiting = {
            let (pool, cancellation) = (&pool, cancellation.clone());
            scope.spawn(move || run(pool, 1, &cancellation, |_| panic!("must not run")))
        };
        cancellation.cancel();
        assert!(matches!(waiting.join().unwrap(), Err(InferError::Cancelled)));
        door.open();
        assert_eq!(busy.join().unwrap().unwrap(), [0]);
    });
    // The thread continues with other calls.
    assert_eq!(run(&pool, 2, &never(), |_| {}).unwrap(), [0, 10]);
}

#[test]
fn no_batch_begins_after_an_error_of_the_caller() {
    let pool = pool(1);
    let done = Arc::new(AtomicUsize::new(0));
    let counter = done.clone();
    let task = Letters::working(1_000_000, move |_| {
        counter.fetch_add(1, Ordering::Relaxed);
    });
    let fails = |_| Err(InferError::Search { problems: vec![] });
    let result = receive(&pool, task, never(), fails);
    assert!(matches!(result, Err(InferError::Search { .. })));
    run(&pool, 1, &never(), |_| {}).unwrap();
    assert!(done.load(Ordering::Relaxed) < 1_000_000);
}

#[test]
fn a_panic_affects_only_its_caller() {
    let pool = pool(2);
    let call = || run(&pool, 5, &never(), |item| assert!(item < 3, "item {item}"));
    let payload = panic::catch_unwind(AssertUnwindSafe(call)).unwrap_err();
    assert!(payload.downcast_ref::<String>().unwrap().contains("item"));
    assert_eq!(run(&pool, 3, &never(), |_| {}).unwrap(), [0, 10, 20]);
}

/// A flag of other code has no listeners.
#[test]
fn a_flag_that_other_code_set_before_or_during_a_call_cancels_it() {
    let pool = pool(2);
    for set_by in [None, Some(0), Some(1)] {
        let flag = Arc::new(AtomicBool::new(set_by.is_none()));
        let cancellation = Cancellation::from(flag.clone());
        let found = run(&pool, 100, &cancellation, move |item| {
            if set_by == Some(item) {
                flag.store(true, Ordering::Relaxed);
            }
        });
        assert!(matches!(found, Err(InferError::Cancelled)), "{set_by:?}: {found:?}");
    }
}
