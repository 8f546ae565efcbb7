//! Search on a device, which may compute steps before they are asked for, and on the CPU.

use burn::{
    module::{Module, ModuleMapper, Param},
    tensor::Tensor,
};
use tx_infer::{
    InferError,
    cancellation::Cancellation,
    search::{EarlyStopping, Engine, Request, SearchOptions},
};

use super::{Pair, SCORES, Subject, few_pairs, sources};

/// Longer than the first room of a cache.
const MAX_LEN: usize = 33;

/// Options that make the search choose what a device does not expect, and others.
fn options() -> Vec<SearchOptions> {
    let greedy = SearchOptions { beam: 1, max_len_extra: MAX_LEN, ..SearchOptions::default() };
    let beams = SearchOptions { beam: 4, n_best: 4, ..greedy.clone() };
    let stopping = [
        EarlyStopping::Finished,
        EarlyStopping::First,
        EarlyStopping::Never,
        EarlyStopping::Improvement,
        EarlyStopping::Narrowing,
    ];
    let stopping = stopping.map(|early_stopping| SearchOptions { early_stopping, ..beams.clone() });
    let both = [greedy, beams.clone()];
    let constrained = both.iter().flat_map(|options| {
        [
            SearchOptions { min_len: MAX_LEN, max_repeats: 0, ..options.clone() },
            SearchOptions { min_len: 5, ..options.clone() },
            SearchOptions { no_repeat_ngram: 2, ..options.clone() },
            SearchOptions { max_repeats: 1, suppress: vec![5, 6], ..options.clone() },
            SearchOptions { force_eos: true, repetition_penalty: 1.2, ..options.clone() },
        ]
    });
    let groups = SearchOptions { groups: 2, diversity: 0.5, ..beams.clone() };
    // More tokens than the kernels find.
    let wide = SearchOptions { beam: 17, n_best: 17, max_len: Some(6), ..beams };
    both.clone().into_iter().chain(constrained).chain(stopping).chain([groups, wide]).collect()
}

fn search(subject: &Subject, options: &SearchOptions) -> Vec<Vec<(Vec<u32>, f32)>> {
    let engine = Engine::from_transformer(subject.model(), 64, &subject.device.clone().into());
    let sources = sources();
    let requests = sources.iter().zip(0..).map(|(source, number)| {
        let request = Request::new(source, number);
        // Given tokens need the scores of all tokens.
        match (options.min_len, number % 3) {
            (5, 1) => Request { forced_first: Some(4), ..request },
            (5, 2) => Request { prefix: &[5, 4], ..request },
            _ => request,
        }
    });
    let requests: Vec<Request<'_>> = requests.collect();
    let found = engine.search_requests(&requests, options, &Cancellation::new());
    let pair = |found: tx_infer::search::Hypothesis| (found.ids, found.log_probability);
    let of_sentence = |found: Vec<_>| found.into_iter().map(pair).collect();
    found.expect("the options are valid").into_iter().map(of_sentence).collect()
}

#[test]
fn every_option_finds_the_same_hypotheses() {
    let mut longest = 0;
    for pair in few_pairs() {
        let wider = |subject: Subject| {
            let config = tx_model::ModelConfig { max_len: 64, ..subject.config.clone() };
            Subject { config, ..subject }
        };
        let pair = Pair { found: wider(pair.found), expected: wider(pair.expected) };
        for options in options() {
            let (found, expected) =
                (search(&pair.found, &options), search(&pair.expected, &options));
            let both = found.iter().flatten().zip(expected.iter().flatten());
            for ((found, score), (ids, expected)) in both {
                assert_eq!(found, ids, "{}, {options:?}", pair.name());
                let limit = SCORES * ids.len().max(10) as f64;
                assert!(f64::from((score - expected).abs()) <= limit, "{score} and {expected}");
                longest = longest.max(ids.len());
            }
        }
    }
    assert!(longest == 0 || longest > 32, "{longest}");
}

/// A GPU may compare NaN as it likes, but the sums that it makes of it are NaN.
#[test]
fn scores_that_are_not_finite_are_an_error() {
    struct Spoiled;
    impl ModuleMapper for Spoiled {
        fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
            param.map(|weight| weight * f32::NAN)
        }
    }
    for pair in few_pairs() {
        let Subject { device, .. } = &pair.found;
        let model = pair.found.model().map(&mut Spoiled);
        let engine = Engine::from_transformer(model, 16, &device.clone().into());
        for beam in [1, 4] {
            let options = SearchOptions { beam, ..SearchOptions::default() };
            let found = engine.search(&[&[5, 2]], &options);
            assert!(matches!(found, Err(InferError::NotFinite { line: 1 })), "{found:?}");
        }
    }
}
