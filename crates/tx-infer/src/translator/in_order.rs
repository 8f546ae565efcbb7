//! What is done in any order, given out in one.

use super::Translation;
use crate::error::InferError;

/// Translations that are there, and who gets them.
pub(super) struct InOrder<S, E> {
    /// Those that wait for an earlier one.
    waiting: Vec<Option<Translation>>,
    /// The first that was not given out.
    next: usize,
    sink: S,
    result: Result<(), E>,
}

impl<E: From<InferError>, S: FnMut(Vec<Translation>) -> Result<(), E>> InOrder<S, E> {
    /// Expects `count` translations.
    pub(super) fn new(count: usize, sink: S) -> Self {
        Self { waiting: (0..count).map(|_| None).collect(), next: 0, sink, result: Ok(()) }
    }

    /// Takes translations by number and gives out those whose turn it is; says whether more are
    /// wanted.
    pub(super) fn put(&mut self, ready: Result<Vec<(usize, Translation)>, InferError>) -> bool {
        if self.result.is_err() {
            return false;
        }
        match ready {
            Err(error) => self.result = Err(error.into()),
            Ok(ready) => {
                for (index, translation) in ready {
                    self.waiting[index] = Some(translation);
                }
                let rest = self.waiting[self.next..].iter_mut();
                let turn: Vec<Translation> = rest.map_while(Option::take).collect();
                self.next += turn.len();
                if !turn.is_empty() {
                    self.result = (self.sink)(turn);
                }
            }
        }
        self.result.is_ok()
    }

    /// The first error, if there was one.
    pub(super) fn finish(self) -> Result<(), E> {
        self.result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn translation(text: &str) -> Translation {
        Translation { text: text.into(), hypotheses: Vec::new(), cut: false }
    }

    #[test]
    fn each_waits_for_those_before_it() {
        let mut given = Vec::new();
        let sink = |ready: Vec<Translation>| {
            given.push(ready.into_iter().map(|ready| ready.text).collect::<String>());
            Ok::<_, InferError>(())
        };
        let mut output = InOrder::new(5, sink);
        for ready in [&[(2, "c")][..], &[(1, "b"), (4, "e")], &[], &[(0, "a")], &[(3, "d")]] {
            let ready = ready.iter().map(|(index, text)| (*index, translation(text)));
            assert!(output.put(Ok(ready.collect())));
        }
        assert!(output.finish().is_ok());
        assert_eq!(given, ["abc", "de"]);
    }

    #[test]
    fn after_an_error_nothing_more_is_given_out() {
        let mut calls = 0;
        let sink = |_: Vec<Translation>| {
            calls += 1;
            Err(InferError::Search { problems: Vec::new() })
        };
        let mut output = InOrder::new(2, sink);
        assert!(!output.put(Ok(vec![(0, translation("a"))])));
        assert!(!output.put(Ok(vec![(1, translation("b"))])));
        assert!(output.finish().is_err());
        assert_eq!(calls, 1);
    }
}
