use burn::{
    module::{Module, ModuleMapper, Param},
    tensor::{Device as BurnDevice, Tensor},
};
use tx_model::{
    DropoutConfig, ModelConfig, NormPlacement, Positions, Transformer, Tying, VocabSizes,
};
use tx_text::special::EOS;

use super::*;
use crate::{cancellation::Cancellation, device::Device, error::InferError, fixture};

/// [`Engine::search`] uses greedy search for a beam of 1, so both searches are called directly
/// here.
#[test]
fn a_beam_of_one_is_greedy_search() {
    let sources: [&[u32]; 4] = [&[5, 9, 4, 10, 2], &[6, 2], &[8, 3, 7, 9, 9, 4, 5, 6, 2], &[4, 2]];
    let requests = sources.map(|source| Request::new(source, 0));
    let options = SearchOptions::greedy();
    let mut lengths = Vec::new();
    for (positions, norm) in [
        (Positions::Sinusoidal, NormPlacement::Post),
        (Positions::Rotary, NormPlacement::Pre),
        (Positions::Relative, NormPlacement::Pre),
        (Positions::Learned, NormPlacement::SublayerOutput),
    ] {
        for seed in 0..4 {
            for engine in engines(|device| model(positions, norm, seed, device)) {
                let never = Cancellation::new();
                let encode = || engine.encode(&requests, &options, &never);
                let (greedy, beam) = (
                    greedy::search(encode(), &mut |_| {}).unwrap(),
                    beam::search(encode(), None).unwrap(),
                );
                for (greedy, beam) in greedy.iter().zip(&beam) {
                    let ([greedy], [beam]) = (&greedy[..], &beam[..]) else {
                        panic!("one hypothesis each: {greedy:?} and {beam:?}")
                    };
                    assert_eq!(greedy.ids, beam.ids, "{positions:?} {norm:?} {seed}");
                    let gap = greedy.log_probability - beam.log_probability;
                    assert!(gap.abs() < 1e-4, "{greedy:?} and {beam:?}");
                    assert!((greedy.score - beam.score).abs() < 1e-4);
                    lengths.push((greedy.ids.len(), greedy.ids.last() == Some(&EOS)));
                }
            }
        }
    }
    // Some targets end with `<eos>` and some at the limit, so that both cases are tested.
    assert!(lengths.iter().any(|(length, ended)| *length > 1 && *ended), "{lengths:?}");
    assert!(lengths.iter().any(|(_, ended)| !ended), "{lengths:?}");
}

/// Options of every kind of search.
fn searches() -> [SearchOptions; 6] {
    let base = SearchOptions::default();
    let sampling = SearchOptions::sampling(Sampling::default());
    let top_k = SearchOptions::sampling(Sampling { top_k: 3, ..Sampling::default() });
    [
        SearchOptions::greedy(),
        base.clone(),
        SearchOptions { groups: 2, ..base.clone() },
        SearchOptions { renormalize: true, min_len: 3, ..base },
        sampling,
        top_k,
    ]
}

/// One model and an ensemble of two, with each kind of engine.
fn engines_and_ensembles(model: impl Fn(&BurnDevice) -> Transformer) -> Vec<Engine> {
    let mut all = engines(model);
    all.extend(all.clone().into_iter().map(|engine| engine.clone().with_member(engine)));
    all
}

#[test]
fn scores_that_are_not_finite_are_an_error_with_the_line() {
    struct Spoiled;
    impl ModuleMapper for Spoiled {
        fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
            param.map(|weight| weight * f32::NAN)
        }
    }
    let model = |device: &BurnDevice| {
        model(Positions::Sinusoidal, NormPlacement::Pre, 1, device).map(&mut Spoiled)
    };
    for engine in engines_and_ensembles(model) {
        for options in searches() {
            let found = engine.search_requests(
                &[Request::new(&[5, 2], 41)],
                &options,
                &Cancellation::new(),
            );
            assert!(matches!(found, Err(InferError::NotFinite { line: 42 })), "{found:?}");
        }
        let found = engine.log_probabilities(&[(&[5, 2], &[5, 2])], &Cancellation::new());
        assert!(matches!(found, Err(InferError::NotFinite { line: 1 })), "{found:?}");
    }
}

#[test]
fn a_canceled_search_ends_before_its_next_step() {
    let cancellation = Cancellation::new();
    cancellation.cancel();
    for engine in
        engines_and_ensembles(|device| model(Positions::Sinusoidal, NormPlacement::Pre, 1, device))
    {
        for options in searches() {
            let requests = [Request::new(&[5, 2], 0)];
            let found = engine.search_requests(&requests, &options, &cancellation);
            assert!(matches!(found, Err(InferError::Cancelled)), "{found:?}");
        }
        let found = engine.log_probabilities(&[(&[5, 2], &[5, 2])], &cancellation);
        assert!(matches!(found, Err(InferError::Cancelled)), "{found:?}");
    }
}

/// The projection has 11 columns, of which the last four have no token.
#[test]
fn ids_that_pad_the_vocabulary_are_never_generated() {
    let sources: [&[u32]; 4] = [&[5, 9, 4, 10, 2], &[6, 2], &[8, 3, 7, 9, 9, 4, 5, 6, 2], &[4, 2]];
    let mut beyond = 0;
    for engine in
        engines_and_ensembles(|device| model(Positions::Sinusoidal, NormPlacement::Pre, 1, device))
    {
        let padded = engine.clone().with_padding(7..11);
        for options in searches() {
            let options = match &options.sampling {
                None => options,
                Some(sampling) => SearchOptions::sampling(Sampling { samples: 20, ..*sampling }),
            };
            for found in padded.search(&sources, &options).unwrap().concat() {
                assert!(found.ids.iter().all(|id| *id < 7), "{options:?}: {found:?}");
            }
            let found = engine.search(&sources, &options).unwrap().concat();
            beyond += found.iter().filter(|found| found.ids.iter().any(|id| *id >= 7)).count();
        }
    }
    assert!(beyond > 100, "{beyond} with such ids where they are allowed");
}

/// Random weights fall into loops easily.
#[test]
fn repetition_of_sequences_is_limited() {
    fn most_repeats(ids: &[u32]) -> usize {
        let runs = (1..=ids.len() / 2).flat_map(|unit| {
            (0..ids.len()).map(move |start| {
                let times = ids[start..].chunks_exact(unit);
                times.take_while(|chunk| *chunk == &ids[start..start + unit]).count()
            })
        });
        runs.max().unwrap_or(1)
    }
    let sources: [&[u32]; 3] = [&[5, 9, 4, 10, 2], &[6, 2], &[8, 8, 8, 8, 8, 8, 2]];
    let (mut looping, mut as_in_source) = (0, 0);
    for seed in 0..8 {
        for engine in
            engines(|device| model(Positions::Sinusoidal, NormPlacement::Pre, seed, device))
        {
            for options in searches().into_iter().take(2) {
                let allowed = SearchOptions { max_repeats: 0, ..options.clone() };
                let limited = engine.search(&sources, &options).unwrap();
                let allowed = engine.search(&sources, &allowed).unwrap();
                for (index, (limited, allowed)) in limited.iter().zip(&allowed).enumerate() {
                    let most = most_repeats(&limited[0].ids);
                    // The last source repeats a token six times.
                    assert!(most <= if index == 2 { 6 } else { 4 }, "{limited:?}");
                    as_in_source += usize::from(most > 4);
                    looping += usize::from(most_repeats(&allowed[0].ids) > 6);
                    // The limit affects only translations that reach it.
                    if most_repeats(&allowed[0].ids) <= 4 && options.beam == 1 {
                        assert_eq!(limited[0].ids, allowed[0].ids);
                    }
                }
            }
        }
    }
    assert!(looping > 10 && as_in_source > 0, "{looping} loops, {as_in_source} as in the source");
}

#[test]
fn invalid_requests_are_rejected() {
    let engine = &engines(|device| model(Positions::Learned, NormPlacement::Pre, 1, device))[0];
    let long = [5; 17];
    for (source, prefix) in [(&[][..], &[][..]), (&long, &[]), (&[5, 2], &long[..16])] {
        let requests = [Request { prefix, ..Request::new(source, 7) }];
        let found =
            engine.search_requests(&requests, &SearchOptions::greedy(), &Cancellation::new());
        let Err(InferError::Search { problems }) = found else { panic!("{found:?}") };
        assert!(problems[0].contains("sentence 7"), "{problems:?}");
    }
    let options = SearchOptions { groups: 0, ..SearchOptions::default() };
    assert!(matches!(engine.search(&[&[5, 2]], &options), Err(InferError::Search { .. })));
}

/// Engines with tensors on every CPU backend, and the packed engine.
fn engines(model: impl Fn(&BurnDevice) -> Transformer) -> Vec<Engine> {
    let tensors =
        |device: BurnDevice| Engine::from_transformer(model(&device), 16, &Device::Burn(device));
    let mut engines: Vec<Engine> = devices().into_iter().map(tensors).collect();
    engines.push(Engine::from_transformer(model(&BurnDevice::flex()), 16, &Device::Cpu));
    engines
}

#[cfg_attr(
    feature = "ndarray",
    expect(deprecated, reason = "tx supports ndarray as long as Burn has it")
)]
fn devices() -> Vec<BurnDevice> {
    vec![
        BurnDevice::flex(),
        #[cfg(feature = "ndarray")]
        BurnDevice::ndarray(),
    ]
}

/// Small model, whose weights depend only on the arguments.
fn model(positions: Positions, norm: NormPlacement, seed: u64, device: &BurnDevice) -> Transformer {
    let config = ModelConfig {
        d_model: 8,
        n_heads: 2,
        d_ff: 12,
        encoder_layers: 1,
        decoder_layers: 2,
        max_len: 16,
        tying: Tying::None,
        dropout: DropoutConfig::none(),
        positions,
        norm,
        ..ModelConfig::default()
    };
    let vocab = VocabSizes { source: 11, target: 11 };
    fixture::random(Transformer::new(&config, vocab, device).unwrap(), seed)
}
