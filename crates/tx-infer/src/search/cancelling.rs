//! Requests that are canceled while their batch is decoded.

use std::{cell::RefCell, rc::Rc};

use tx_kernels::formulas::log_softmax;
use tx_model::random::mix;
use tx_text::special::{BOS, EOS};

use super::{
    Request, Sampling, SearchOptions, beam,
    decoder::{IncrementalDecoder, Next},
    greedy,
    scores::{best_of_row, suppress},
    state::{Limits, ModelLimits, SearchState},
};
use crate::{cancellation::Cancellation, search::Hypothesis};

const VOCABULARY: u64 = 9;

/// Decoder whose logits are a hash of the sentence and its tokens. It sets a flag in one step.
struct Hashed {
    /// Sentence and hash of the tokens of each row.
    rows: Vec<(usize, u64)>,
    /// Sentences of the rows of each step.
    steps: Rc<RefCell<Vec<Vec<usize>>>>,
    /// The flag, and the step that sets it.
    cancels: Option<(Cancellation, usize)>,
}

impl IncrementalDecoder for Hashed {
    fn step(&mut self, tokens: &[u32], suppressed: &[u32], count: usize) -> Vec<Vec<Next>> {
        let mut scores = self.logits(tokens);
        let rows = scores.chunks_exact_mut(VOCABULARY as usize).map(|row| {
            log_softmax(row);
            suppress(row, suppressed);
            best_of_row(row, count)
        });
        rows.collect()
    }

    fn logits(&mut self, tokens: &[u32]) -> Vec<f32> {
        self.steps.borrow_mut().push(self.rows.iter().map(|(sentence, _)| *sentence).collect());
        if let Some((flag, step)) = &self.cancels
            && self.steps.borrow().len() == *step
        {
            flag.cancel();
        }
        for ((_, hash), token) in self.rows.iter_mut().zip(tokens) {
            *hash = mix(*hash ^ u64::from(*token));
        }
        let logit = |hash: u64, id: u64| match id {
            // No sentence ends before its maximum length.
            id if id == u64::from(EOS) => -100.0,
            id => (mix(hash.wrapping_add(id)) >> 49) as f32 / 8192.0,
        };
        let rows = self.rows.iter();
        rows.flat_map(|(_, hash)| (0..VOCABULARY).map(|id| logit(*hash, id))).collect()
    }

    fn attention(&self, _: usize) -> &[f32] {
        &[]
    }

    fn select(&mut self, rows: &[usize]) {
        self.rows = rows.iter().map(|&row| self.rows[row]).collect();
    }
}

/// Number of tokens of each target.
const LENGTH: usize = 6;

/// Searches with `sentences`; one may be canceled in a step. Returns the hypotheses, and the sentences of
/// the rows of each step.
fn search(
    sentences: &[usize],
    options: &SearchOptions,
    cancels: Option<(usize, usize)>,
) -> (Vec<Vec<Hypothesis>>, Vec<Vec<usize>>) {
    let (never, flag, steps) = (Cancellation::new(), Cancellation::new(), Rc::default());
    let decoder = Hashed {
        rows: sentences.iter().map(|&sentence| (sentence, sentence as u64)).collect(),
        steps: Rc::clone(&steps),
        cancels: cancels.map(|(_, step)| (flag.clone(), step)),
    };
    let requests = sentences.iter().map(|&sentence| {
        let is_cancelled = cancels.is_some_and(|(cancelled, _)| cancelled == sentence);
        let cancellation = is_cancelled.then_some(&flag);
        Request { cancellation, ..Request::new(&[EOS], sentence as u64) }
    });
    let requests: Vec<Request<'_>> = requests.collect();
    let model = ModelLimits {
        start: BOS,
        padding: 0..0,
        limits: Limits::Source,
        max_len: 100,
        lexicon: None,
    };
    let state = SearchState::new(Box::new(decoder), &requests, model, options, &never);
    let found = match options.rows_are_independent() {
        true => greedy::search(state, &mut |_| {}),
        false => beam::search(state, None),
    };
    (found.unwrap(), steps.take())
}

/// A canceled sentence is in the step that sets the flag, and in none after it. The others have the
/// hypotheses that they have alone.
#[test]
fn a_canceled_sentence_leaves_before_the_next_step() {
    let base = SearchOptions {
        max_len: Some(LENGTH),
        max_repeats: 0,
        beam: 3,
        n_best: 3,
        ..SearchOptions::default()
    };
    let sampling = Sampling { samples: 2, ..Sampling::default() };
    let greedy = SearchOptions { n_best: 1, ..base.clone() }.with_one_hypothesis();
    for options in [
        greedy.clone(),
        SearchOptions { sampling: Some(sampling), ..greedy },
        SearchOptions { beam: 4, groups: 2, n_best: 2, diversity: 0.5, ..base.clone() },
        base,
    ] {
        assert_eq!(options.problems(), [""; 0]);
        for (cancelled, step) in [(0, 1), (1, 3), (2, LENGTH)] {
            let (found, steps) = search(&[0, 1, 2], &options, Some((cancelled, step)));
            assert_eq!(steps.len(), LENGTH);
            for (number, rows) in (1..).zip(&steps) {
                assert_eq!(rows.contains(&cancelled), number <= step, "{options:?}, step {number}");
            }
            for (sentence, found) in found.into_iter().enumerate() {
                let alone = search(&[sentence], &options, None).0.remove(0);
                assert!(!alone.is_empty());
                let expected = if sentence == cancelled { Vec::new() } else { alone };
                assert_eq!(found, expected, "{options:?}, sentence {sentence}");
            }
        }
        let (found, steps) = search(&[1], &options, Some((1, 2)));
        assert_eq!((found, steps.len()), (vec![Vec::new()], 2), "nothing is left to decode");
    }
}
