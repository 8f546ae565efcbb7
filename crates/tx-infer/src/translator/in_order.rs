//! Reordering of results that arrive in any order.

use super::Translation;

/// Translations that wait for earlier ones, and the sink that receives them in order.
pub(super) struct InOrder<S> {
    waiting: Vec<Option<Translation>>,
    /// Index of the first translation that the sink has not received.
    next: usize,
    sink: S,
}

impl<E, S: FnMut(Vec<Translation>) -> Result<(), E>> InOrder<S> {
    /// Creates a sequence of `count` translations.
    pub(super) fn new(count: usize, sink: S) -> Self {
        Self { waiting: (0..count).map(|_| None).collect(), next: 0, sink }
    }

    /// Takes translations with their indices, and passes on those whose predecessors are complete.
    ///
    /// # Errors
    ///
    /// The error of the sink.
    pub(super) fn put(
        &mut self,
        ready: impl IntoIterator<Item = (usize, Translation)>,
    ) -> Result<(), E> {
        for (index, translation) in ready {
            self.waiting[index] = Some(translation);
        }
        let rest = self.waiting[self.next..].iter_mut();
        let turn: Vec<Translation> = rest.map_while(Option::take).collect();
        self.next += turn.len();
        if turn.is_empty() { Ok(()) } else { (self.sink)(turn) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn translations_wait_for_earlier_ones() {
        let mut given = Vec::new();
        let sink = |ready: Vec<Translation>| {
            given.push(ready.into_iter().map(|ready| ready.text).collect::<String>());
            Ok::<_, ()>(())
        };
        let mut output = InOrder::new(5, sink);
        for ready in [&[(2, "c")][..], &[(1, "b"), (4, "e")], &[], &[(0, "a")], &[(3, "d")]] {
            let ready = ready.iter().map(|&(index, text)| {
                (index, Translation { text: text.into(), ..Translation::default() })
            });
            assert_eq!(output.put(ready), Ok(()));
        }
        assert_eq!(given, ["abc", "de"]);
    }
}
