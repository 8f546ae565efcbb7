use std::{
    cell::Cell,
    sync::{
        Condvar,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use super::*;

/// Batches of one item, numbered from 0, each of size `size`; `work` runs in each.
struct Items<F> {
    count: usize,
    size: usize,
    is_shared: bool,
    claimed: AtomicUsize,
    work: F,
}

impl<F: Fn(usize) + Send + Sync + 'static> Items<F> {
    fn new(count: usize, work: F) -> Self {
        Self { count, size: 1, is_shared: true, claimed: AtomicUsize::new(0), work }
    }
}

impl<F> Claims for Items<F> {
    fn len(&self) -> usize {
        self.count
    }

    fn claim(&self) -> Option<Range<usize>> {
        let item = self.claimed.fetch_add(1, Ordering::Relaxed);
        (item < self.count).then(|| item..item + 1)
    }

    fn next_size(&self) -> usize {
        self.size().min(self.size)
    }

    fn size(&self) -> usize {
        self.size * self.count.saturating_sub(self.claimed.load(Ordering::Relaxed))
    }
}

impl<F: Fn(usize) + Send + Sync + 'static> Task for Items<F> {
    type Output = usize;

    fn items(&self) -> &dyn Claims {
        self
    }

    fn is_shared(&self) -> bool {
        self.is_shared
    }

    fn run(
        &self,
        batch: Range<usize>,
        cancellation: &Cancellation,
        put: &mut dyn FnMut(Vec<(usize, usize)>),
    ) -> Result<(), InferError> {
        if cancellation.is_cancelled() {
            return Err(InferError::Cancelled);
        }
        (self.work)(batch.start);
        put(vec![(batch.start, 10 * batch.start)]);
        Ok(())
    }
}

/// Runs `count` items and returns their results.
fn run(
    scheduler: &Scheduler,
    count: usize,
    cancellation: &Cancellation,
    work: impl Fn(usize) + Send + Sync + 'static,
) -> Result<Vec<usize>, InferError> {
    let mut found = vec![0; count];
    scheduler.run(Items::new(count, work), cancellation, |ready| {
        ready.into_iter().for_each(|(item, result)| found[item] = result);
        Ok::<_, InferError>(())
    })?;
    Ok(found)
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
    for (threads, most) in [(1, 1), (3, 3), (3, 1)] {
        let scheduler = Scheduler::new(threads, most, true);
        thread::scope(|scope| {
            for count in 0..20 {
                let scheduler = &scheduler;
                scope.spawn(move || {
                    let found = run(scheduler, count, &never(), |_| {}).unwrap();
                    assert_eq!(found, (0..count).map(|item| 10 * item).collect::<Vec<_>>());
                });
            }
        });
    }
}

#[test]
fn an_empty_task_starts_no_thread() {
    let scheduler = Scheduler::new(2, 2, true);
    assert!(run(&scheduler, 0, &never(), |_| {}).unwrap().is_empty());
    assert!(!scheduler.has_started());
}

thread_local! {
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// Each batch waits for parts that other threads may take, as matrix products do, while further
/// calls come in: no batch begins on the stack of another.
#[test]
fn a_waiting_thread_begins_no_other_batch() {
    let scheduler = Scheduler::new(4, 4, true);
    let deepest = Arc::new(AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..16 {
            let (scheduler, deepest) = (&scheduler, deepest.clone());
            scope.spawn(move || {
                run(scheduler, 20, &never(), move |_| {
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

/// The number of concurrent batches stays within its limit for any number of threads.
#[test]
fn batches_in_progress_are_limited() {
    let scheduler = Scheduler::new(4, 2, true);
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    thread::scope(|scope| {
        for _ in 0..6 {
            let (scheduler, running, most) = (&scheduler, running.clone(), most.clone());
            scope.spawn(move || {
                run(scheduler, 10, &never(), move |_| {
                    most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    thread::sleep(Duration::from_micros(100));
                    running.fetch_sub(1, Ordering::SeqCst);
                })
                .unwrap();
            });
        }
    });
    assert!((1..=2).contains(&most.load(Ordering::SeqCst)));
}

/// The long call is in its first of 50 batches when the short one comes. The short one's batch runs
/// next, or after one more.
#[test]
fn a_short_call_does_not_wait_for_a_long_one() {
    let scheduler = Scheduler::new(1, 1, true);
    let (begun, door) = (Door::default(), Door::default());
    let log = Arc::new(Mutex::new(Vec::new()));
    thread::scope(|scope| {
        let long = {
            let (begun, door, log) = (begun.clone(), door.clone(), log.clone());
            let scheduler = &scheduler;
            scope.spawn(move || {
                run(scheduler, 50, &never(), move |_| {
                    begun.open();
                    door.pass();
                    log.lock().unwrap().push("long");
                })
            })
        };
        begun.pass();
        let short = {
            let log = log.clone();
            let scheduler = &scheduler;
            scope.spawn(move || {
                run(scheduler, 1, &never(), move |_| log.lock().unwrap().push("short"))
            })
        };
        while scheduler.queue.state().calls.len() < 2 {
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

/// The only thread works on a batch of size 8. A call of size 2 ends before that batch, if
/// overtaking is allowed; one of size 3 does not.
#[test]
fn a_call_that_is_much_shorter_than_the_batches_in_progress_overtakes_them() {
    for (allows_overtaking, size, overtakes) in
        [(true, 2, true), (true, 3, false), (false, 2, false)]
    {
        let scheduler = Scheduler::new(1, 1, allows_overtaking);
        let (begun, door) = (Door::default(), Door::default());
        let has_ended = Arc::new(AtomicBool::new(false));
        thread::scope(|scope| {
            let (begins, passes, ends) = (begun.clone(), door.clone(), has_ended.clone());
            let scheduler = &scheduler;
            scope.spawn(move || {
                let mut long = Items::new(1, move |_| {
                    begins.open();
                    passes.pass();
                    ends.store(true, Ordering::SeqCst);
                });
                long.size = 8;
                scheduler.run(long, &never(), |_| Ok::<_, InferError>(())).unwrap();
            });
            begun.pass();
            let short = scope.spawn(move || {
                let has_ended = has_ended.clone();
                let work = move |_| assert_eq!(has_ended.load(Ordering::SeqCst), !overtakes);
                let mut short = Items::new(1, work);
                short.size = size;
                scheduler.run(short, &never(), |_| Ok::<_, InferError>(())).unwrap();
            });
            if !overtakes {
                while scheduler.queue.state().calls.len() < 2 {
                    thread::yield_now();
                }
                door.open();
            }
            short.join().unwrap();
            door.open();
        });
        assert_eq!(scheduler.queue.state().overtaking, 0);
    }
}

/// Calls of one batch and of two, with and without products that helpers take parts of.
#[test]
fn one_small_batch_runs_on_the_thread_of_its_caller() {
    for (count, is_shared, is_own) in [(1, false, true), (2, false, false), (1, true, false)] {
        let scheduler = Scheduler::new(2, 2, true);
        let caller = thread::current().id();
        let work = move |_| assert_eq!(thread::current().id() == caller, is_own);
        let task = Items { is_shared, ..Items::new(count, work) };
        scheduler.run(task, &never(), |_| Ok::<_, InferError>(())).unwrap();
        assert_eq!(scheduler.has_started(), !is_own);
        // A worker returns to the queue after the call has its results.
        while !scheduler.queue.state().running.is_empty() {
            thread::yield_now();
        }
    }
}

/// One caller runs its batch itself, as many as may run. Another call waits meanwhile, and runs
/// afterwards.
#[test]
fn a_call_waits_for_a_batch_on_the_thread_of_its_caller() {
    let scheduler = Scheduler::new(1, 1, false);
    let (begun, door) = (Door::default(), Door::default());
    let has_ended = Arc::new(AtomicBool::new(false));
    thread::scope(|scope| {
        let (begins, passes, ends) = (begun.clone(), door.clone(), has_ended.clone());
        let scheduler = &scheduler;
        scope.spawn(move || {
            let work = move |_| {
                begins.open();
                passes.pass();
                ends.store(true, Ordering::SeqCst);
            };
            let task = Items { is_shared: false, ..Items::new(1, work) };
            scheduler.run(task, &never(), |_| Ok::<_, InferError>(())).unwrap();
        });
        begun.pass();
        let waiting = scope.spawn(move || {
            let work = move |_| assert!(has_ended.load(Ordering::SeqCst));
            let task = Items { is_shared: false, ..Items::new(1, work) };
            scheduler.run(task, &never(), |_| Ok::<_, InferError>(())).unwrap();
        });
        while scheduler.queue.state().calls.is_empty() {
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
    let scheduler = Scheduler::new(1, 1, true);
    let (begun, door) = (Door::default(), Door::default());
    thread::scope(|scope| {
        let busy = {
            let (begun, door) = (begun.clone(), door.clone());
            let scheduler = &scheduler;
            scope.spawn(move || {
                run(scheduler, 1, &never(), move |_| {
                    begun.open();
                    door.pass();
                })
            })
        };
        begun.pass();
        let cancellation = Cancellation::new();
        let waiting = {
            let (scheduler, cancellation) = (&scheduler, cancellation.clone());
            scope.spawn(move || run(scheduler, 1, &cancellation, |_| panic!("must not run")))
        };
        cancellation.cancel();
        assert!(matches!(waiting.join().unwrap(), Err(InferError::Cancelled)));
        door.open();
        assert_eq!(busy.join().unwrap().unwrap(), [0]);
    });
    // The thread continues with other calls.
    assert_eq!(run(&scheduler, 2, &never(), |_| {}).unwrap(), [0, 10]);
}

#[test]
fn no_batch_begins_after_an_error_of_the_caller() {
    let scheduler = Scheduler::new(1, 1, true);
    let done = Arc::new(AtomicUsize::new(0));
    let counter = done.clone();
    let task = Items::new(1_000_000, move |_| {
        counter.fetch_add(1, Ordering::Relaxed);
    });
    let result = scheduler.run(task, &never(), |_| Err(InferError::Search { problems: vec![] }));
    assert!(matches!(result, Err(InferError::Search { .. })));
    run(&scheduler, 1, &never(), |_| {}).unwrap();
    assert!(done.load(Ordering::Relaxed) < 1_000_000);
}

#[test]
fn a_panic_affects_only_its_caller() {
    let scheduler = Scheduler::new(2, 2, true);
    let call = || run(&scheduler, 5, &never(), |item| assert!(item < 3, "item {item}"));
    let payload = panic::catch_unwind(AssertUnwindSafe(call)).unwrap_err();
    assert!(payload.downcast_ref::<String>().unwrap().contains("item"));
    assert_eq!(run(&scheduler, 3, &never(), |_| {}).unwrap(), [0, 10, 20]);
}

/// A flag of other code has no listeners.
#[test]
fn a_flag_that_other_code_set_before_or_during_a_call_cancels_it() {
    let scheduler = Scheduler::new(2, 2, true);
    for set_by in [None, Some(0), Some(1)] {
        let flag = Arc::new(AtomicBool::new(set_by.is_none()));
        let cancellation = Cancellation::from(flag.clone());
        let found = run(&scheduler, 100, &cancellation, move |item| {
            if set_by == Some(item) {
                flag.store(true, Ordering::Relaxed);
            }
        });
        assert!(matches!(found, Err(InferError::Cancelled)), "{set_by:?}: {found:?}");
    }
}
