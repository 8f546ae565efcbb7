//! Reordering of results that arrive in any order.

/// Results that wait for earlier ones, and the sink that receives them in order.
pub(crate) struct InOrder<T, S> {
    waiting: Vec<Option<T>>,
    /// Index of the first result that the sink has not received.
    next: usize,
    sink: S,
}

impl<T, E, S: FnMut(Vec<T>) -> Result<(), E>> InOrder<T, S> {
    /// Creates a sequence of `count` results.
    pub(crate) fn new(count: usize, sink: S) -> Self {
        Self { waiting: (0..count).map(|_| None).collect(), next: 0, sink }
    }

    /// Takes results with their indices, and passes on those whose predecessors are complete.
    ///
    /// # Errors
    ///
    /// The error of the sink.
    pub(crate) fn put(&mut self, ready: impl IntoIterator<Item = (usize, T)>) -> Result<(), E> {
        for (index, result) in ready {
            self.waiting[index] = Some(result);
        }
        let rest = self.waiting[self.next..].iter_mut();
        let turn: Vec<T> = rest.map_while(Option::take).collect();
        self.next += turn.len();
        if turn.is_empty() { Ok(()) } else { (self.sink)(turn) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_wait_for_earlier_ones() {
        let mut given = Vec::new();
        let sink = |ready: Vec<&str>| {
            given.push(ready.concat());
            Ok::<_, ()>(())
        };
        let mut output = InOrder::new(5, sink);
        for ready in [&[(2, "c")][..], &[(1, "b"), (4, "e")], &[], &[(0, "a")], &[(3, "d")]] {
            assert_eq!(output.put(ready.iter().copied()), Ok(()));
        }
        assert_eq!(given, ["abc", "de"]);
    }
}
