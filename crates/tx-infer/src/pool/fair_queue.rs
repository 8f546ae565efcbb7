//! Texts that wait, and the choice of the next batch.
//!
//! Texts are taken by fair queuing: each call has a virtual time, which its texts advance by their
//! work, and the text of the call with the earliest virtual time is next. A new call starts at the
//! time of the queue, so that a short one does not wait for a long one. The time of the queue is that of
//! the latest text, and advances at least by the work for each text divided by the number of calls, so
//! that a long call does not wait for all short ones that arrive later. The texts of a
//! [bulk](super::Priority::Bulk) call advance its time faster.
//!
//! A batch has texts of calls that fit together, as far as its limits allow, and at most the share
//! of one thread in all texts that wait or are worked on, so that no thread is free meanwhile.

use std::{collections::BTreeMap, sync::Arc};

use super::{call::AnyCall, load::Load};

/// Texts that wait.
#[derive(Default)]
pub(super) struct FairQueue {
    /// Groups of calls that fit into one batch.
    groups: Vec<Group>,
    /// Number of texts.
    waiting: usize,
    /// Virtual time, in [units](UNIT).
    now: u64,
    /// Virtual time that the latest text takes, if all calls progress at the same speed.
    step: u64,
    next_id: u64,
}

/// Virtual time of a token. It can be divided by the number of calls.
const UNIT: u64 = 1 << 16;

/// Calls by virtual time, then by age.
#[derive(Default)]
struct Group {
    calls: BTreeMap<(u64, u64), Waiting>,
}

/// A call and the position of its next text.
struct Waiting {
    call: Arc<dyn AnyCall>,
    next: usize,
}

/// Texts that are worked on together.
pub(super) struct Batch {
    /// Calls, with the positions of their texts; at least one.
    pub(super) texts: Vec<(Arc<dyn AnyCall>, usize)>,
    /// Estimated tokens, times rows.
    pub(super) size: usize,
}

impl FairQueue {
    /// Number of texts.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// The call from which [`take`](Self::take) takes first, unless it is canceled.
    pub(super) fn next(&self, is_alone: bool) -> Option<&Load> {
        let (_, first) = self.groups[self.next_group(is_alone)?].first()?;
        Some(first.call.load())
    }

    /// Adds the texts of a call.
    pub(super) fn push(&mut self, call: Arc<dyn AnyCall>) {
        if call.load().bytes.is_empty() {
            return;
        }
        self.waiting += call.load().bytes.len();
        let key = (self.now, self.next_id);
        self.next_id += 1;
        let fits = |group: &Group| group.first().is_some_and(|(_, first)| first.call.fits(&*call));
        let index = self.groups.iter().position(fits).unwrap_or_else(|| {
            self.groups.push(Group::default());
            self.groups.len() - 1
        });
        self.groups[index].calls.insert(key, Waiting { call, next: 0 });
    }

    /// Takes the next batch, while `running` texts are worked on by some of `threads` threads. A batch
    /// that uses all threads needs to be alone. Calls that are canceled are dropped.
    pub(super) fn take(&mut self, running: usize, threads: usize, is_alone: bool) -> Option<Batch> {
        let parallel_share = self.waiting.saturating_add(running).div_ceil(threads.max(1));
        loop {
            let index = self.next_group(is_alone)?;
            let batch = self.take_from(index, parallel_share);
            if self.groups[index].calls.is_empty() {
                self.groups.swap_remove(index);
            }
            if !batch.texts.is_empty() {
                return Some(batch);
            }
        }
    }

    /// Index of the group with the earliest time, among those that may start.
    fn next_group(&self, is_alone: bool) -> Option<usize> {
        let groups = self.groups.iter().enumerate();
        let ready = groups.filter_map(|(index, group)| {
            let (key, first) = group.first()?;
            (is_alone || first.call.load().placement.is_parallel()).then_some((key, index))
        });
        ready.min().map(|(_, index)| index)
    }

    /// Takes the next texts of a group; none if all its calls are canceled.
    fn take_from(&mut self, index: usize, parallel_share: usize) -> Batch {
        let calls = self.groups.iter().map(|group| group.calls.len() as u64).sum::<u64>().max(1);
        let group = &mut self.groups[index];
        let mut batch = Batch { texts: Vec::new(), size: 0 };
        let mut longest = 0;
        while let Some(((time, id), Waiting { call, next })) = group.calls.pop_first() {
            let load = call.load();
            if load.cancellation.is_cancelled() {
                self.waiting -= load.bytes.len() - next;
                continue;
            }
            let tokens = load.tokens(next);
            let share = if load.placement.is_parallel() { parallel_share } else { usize::MAX };
            let count = load.limits.count(longest.max(tokens)).min(share);
            if !batch.texts.is_empty() && batch.texts.len() >= count {
                group.calls.insert((time, id), Waiting { call, next });
                break;
            }
            longest = longest.max(tokens);
            let size = load.limits.size(tokens);
            batch.size = batch.size.saturating_add(size);
            let duration = (size as u64).saturating_mul(UNIT);
            self.now = self.now.saturating_add(self.step).max(time);
            self.step = duration / calls;
            self.waiting -= 1;
            if next + 1 < load.bytes.len() {
                let end = time.saturating_add(duration.saturating_mul(load.priority.cost()));
                let waiting = Waiting { call: call.clone(), next: next + 1 };
                group.calls.insert((end, id), waiting);
            }
            batch.texts.push((call, next));
        }
        batch
    }
}

impl Group {
    /// The call with the earliest time.
    fn first(&self) -> Option<((u64, u64), &Waiting)> {
        self.calls.first_key_value().map(|(key, first)| (*key, first))
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{Placement, Priority, tests::Letters},
        *,
    };
    use crate::cancellation::Cancellation;

    /// Positions of the texts of the next batch, each with the bytes of the longest text of its call.
    fn taken(queue: &mut FairQueue, running: usize, threads: usize) -> Vec<(usize, usize)> {
        let batch = queue.take(running, threads, true);
        let texts = batch.map(|batch| batch.texts).unwrap_or_default();
        texts.iter().map(|(call, position)| (call.load().bytes[0], *position)).collect()
    }

    /// Bytes of the texts of all batches.
    fn batches(bytes: &[usize], tokens: usize, rows: usize, threads: usize) -> Vec<Vec<usize>> {
        let mut queue = FairQueue::default();
        queue.push(Letters { rows, ..Letters::of_lengths(bytes) }.call(tokens));
        let mut running = 0;
        let batches = std::iter::from_fn(|| {
            let batch = queue.take(running, threads, true)?;
            running += batch.texts.len();
            let bytes = |(call, position): &(Arc<dyn AnyCall>, usize)| call.load().bytes[*position];
            Some(batch.texts.iter().map(bytes).collect())
        });
        batches.collect()
    }

    /// Texts of 40, 39, 8 and 4 bytes, estimated at 11, 10, 3 and 2 tokens.
    #[test]
    fn the_longest_come_first_and_batches_keep_their_limit() {
        let bytes = [8, 40, 4, 39];
        assert_eq!(batches(&bytes, 22, 1, 1), [vec![40, 39], vec![8, 4]]);
        assert_eq!(batches(&bytes, 22, 2, 1), [vec![40], vec![39], vec![8, 4]]);
        assert_eq!(batches(&bytes, 1_000, 1, 2), [vec![40, 39], vec![8, 4]]);
        assert_eq!(batches(&bytes, 1_000, 1, 9), [vec![40], vec![39], vec![8], vec![4]]);
        assert_eq!(batches(&bytes, 0, 1, 1), [vec![40], vec![39], vec![8], vec![4]]);
        assert_eq!(batches(&[], 9, 1, 1), [[0; 0]; 0]);
    }

    /// Texts with a token for each byte, instead of one for every four.
    #[test]
    fn estimates_follow_the_text() {
        let mut queue = FairQueue::default();
        queue.push(Letters::of_lengths(&[100; 1_000]).call(1_000));
        let first = queue.take(0, 1, true).unwrap().texts;
        assert_eq!(first.len(), 1_000 / 26);
        first.iter().for_each(|(call, position)| call.load().learn(*position, 100));
        assert_eq!(queue.take(0, 1, true).unwrap().texts.len(), 1_000 / 100);
    }

    /// By hand: a text of 40 letters counts as 11 tokens, one of 4 as 2.
    #[test]
    fn a_short_call_passes_a_long_one() {
        let mut queue = FairQueue::default();
        queue.push(Letters::of_lengths(&[40; 10]).call(30));
        assert_eq!(taken(&mut queue, 0, 1), [(40, 0), (40, 1)]);
        queue.push(Letters::of_lengths(&[4]).call(30));
        // The long call is at time 22, the short one at 11. Three texts of up to 11 tokens are too many.
        assert_eq!(taken(&mut queue, 0, 1), [(4, 0), (40, 2)]);
        assert_eq!(queue.waiting(), 7);
    }

    /// By hand: texts of 40 and 41 letters count as 11 tokens. A long call and a short one wait whenever a
    /// text is taken, so that the time of the queue advances by 5.5. The texts of the long call start
    /// at 0, 11, 22 and 33, the short calls at 0, 5.5, 11, 22 and 33, where the older call is first.
    #[test]
    fn a_long_call_passes_short_ones_that_arrive_later() {
        let mut queue = FairQueue::default();
        queue.push(Letters::of_lengths(&[40; 4]).call(0));
        let mut order = vec![41];
        while order.len() < 9 {
            if order.last() == Some(&41) {
                queue.push(Letters::of_lengths(&[41]).call(0));
            }
            order.extend(taken(&mut queue, 0, 1).first().map(|(bytes, _)| *bytes));
        }
        assert_eq!(order[1..], [40, 41, 41, 40, 41, 40, 41, 40]);
    }

    /// Two threads wait when a call of five texts arrives. While both work, one of seven texts
    /// arrives.
    #[test]
    fn threads_share_the_texts_that_wait_or_are_worked_on() {
        let mut queue = FairQueue::default();
        queue.push(Letters::of_lengths(&[4; 5]).call(1_000));
        assert_eq!(taken(&mut queue, 0, 2).len(), 3);
        assert_eq!(taken(&mut queue, 3, 2).len(), 2);
        queue.push(Letters::of_lengths(&[4; 7]).call(1_000));
        // Of 12 texts, those of the other thread and 6 of those that wait.
        assert_eq!(taken(&mut queue, 5, 2).len(), 6);
        // 2 and 6 are worked on, and 1 waits.
        assert_eq!((taken(&mut queue, 8, 2).len(), queue.waiting()), (1, 0));
    }

    /// A single batch of tensors uses all threads, and has texts of one call.
    #[test]
    fn batches_of_tensors_are_not_shared() {
        let mut queue = FairQueue::default();
        for placement in [Placement::Host, Placement::Gpu] {
            queue.push(Letters { placement, ..Letters::of_lengths(&[4; 5]) }.call(1_000));
        }
        assert_eq!(queue.take(0, 2, false).map(|batch| batch.size), None);
        assert_eq!(taken(&mut queue, 0, 2).len(), 5);
        assert_eq!(taken(&mut queue, 0, 2).len(), 5);
    }

    /// By hand: texts of 40, 44 and 48 letters count as 11, 12 and 13 tokens.
    #[test]
    fn batches_have_one_set_of_options_and_the_budget_counts_rows() {
        let mut queue = FairQueue::default();
        for (lengths, rows) in [(&[40, 40][..], 1), (&[44, 44], 2), (&[48], 1)] {
            queue.push(Letters { rows, ..Letters::of_lengths(lengths) }.call(30));
        }
        // The third call is older in virtual time than the second text of the first one.
        assert_eq!(taken(&mut queue, 0, 1), [(40, 0), (48, 0)]);
        assert_eq!(taken(&mut queue, 0, 1), [(44, 0)]);
        assert_eq!(taken(&mut queue, 0, 1), [(40, 1)]);
        assert_eq!(taken(&mut queue, 0, 1), [(44, 1)]);
        assert_eq!(queue.waiting(), 0);
    }

    /// By hand: texts of 40 and 41 letters count as 11 tokens, and as 44 in bulk. The bulk call is at time 44
    /// after its first text, the other one at 11, 22, 33 and 44, where the older one is first.
    #[test]
    fn bulk_calls_wait_for_several_texts_of_others() {
        let mut queue = FairQueue::default();
        let bulk = Letters { priority: Priority::Bulk, ..Letters::of_lengths(&[40; 3]) };
        queue.push(bulk.call(0));
        queue.push(Letters::of_lengths(&[41; 6]).call(0));
        let order: Vec<usize> =
            std::iter::from_fn(|| Some(taken(&mut queue, 0, 1).first()?.0)).collect();
        assert_eq!(order, [40, 41, 41, 41, 41, 40, 41, 41, 40]);
    }

    #[test]
    fn canceled_calls_are_dropped() {
        let mut queue = FairQueue::default();
        let cancellation = Cancellation::new();
        let gone = Letters { cancellation: cancellation.clone(), ..Letters::of_lengths(&[4, 4]) };
        queue.push(gone.call(30));
        queue.push(Letters::of_lengths(&[8]).call(30));
        cancellation.cancel();
        assert_eq!(taken(&mut queue, 0, 1), [(8, 0)]);
        assert_eq!(queue.waiting(), 0);
    }
}
