//! Concurrent calls of one translator give the same results as separate calls.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::Duration,
};

use tx_infer::{
    Cancellation, Device, InferError, Line, Sampling, SearchOptions, Translation, Translator,
};

use crate::support::devices;

const SHORT: [&str; 4] = ["dog", "the cat sleeps .", "xyz 42", ""];
const LONG: &str = "the dog eats the bread , and sleeps ! the cat sleeps . a b c d e f g h";

/// Random numbers that depend on the seed only: SplitMix64 (Steele et al. 2014).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, count: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) as usize % count
    }
}

/// Texts and options of one call.
struct Call {
    texts: Vec<&'static str>,
    options: SearchOptions,
}

/// Cancellation of a call.
#[derive(Debug, Clone, Copy)]
enum Cancel {
    Never,
    Before,
    /// By another thread, after this many microseconds.
    After(u64),
    /// By the call's sink, after this many translations.
    Once(usize),
}

fn calls() -> Vec<Call> {
    let base = SearchOptions::default;
    let sampling = Sampling { samples: 2, seed: 4, ..Sampling::default() };
    let options = [
        base(),
        SearchOptions::greedy(),
        SearchOptions { beam: 6, n_best: 3, groups: 2, ..base() },
        SearchOptions::sampling(sampling),
        SearchOptions { coverage_penalty: 0.2, no_repeat_ngram: 3, ..base() },
    ];
    let mut calls = Vec::new();
    for options in options {
        for text in SHORT {
            calls.push(Call { texts: vec![text], options: options.clone() });
        }
        let many = SHORT.into_iter().chain([LONG]).cycle().take(40).collect();
        calls.push(Call { texts: many, options: options.clone() });
        calls.push(Call { texts: vec![LONG; 12], options });
    }
    calls
}

/// Translations of a call, and its error.
fn translate(
    translator: &Translator,
    call: &Call,
    cancel: Cancel,
) -> (Vec<Translation>, Option<InferError>) {
    let cancellation = &Cancellation::new();
    let lines = call.texts.iter().zip(0..);
    let lines: Vec<Line<'_>> =
        lines.map(|(text, number)| Line { text, number, ..Line::default() }).collect();
    let mut found = Vec::new();
    let result = thread::scope(|scope| {
        match cancel {
            Cancel::Before => cancellation.cancel(),
            Cancel::After(microseconds) => {
                scope.spawn(move || {
                    thread::sleep(Duration::from_micros(microseconds));
                    cancellation.cancel();
                });
            }
            Cancel::Never | Cancel::Once(_) => {}
        }
        translator.translate_lines(&lines, &call.options, cancellation, |ready| {
            found.extend(ready);
            if matches!(cancel, Cancel::Once(count) if found.len() >= count) {
                cancellation.cancel();
            }
            Ok::<_, InferError>(())
        })
    });
    (found, result.err())
}

/// 64 threads with short and long calls, some of which are canceled, on each device.
#[test]
fn concurrent_calls_give_the_results_of_separate_calls() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/bundle-v1");
    let calls = calls();
    for ((name, device), rounds) in devices().into_iter().zip([24, 3]) {
        let translator = Translator::open(folder, &device.into()).unwrap().with_threads(3);
        let alone: Vec<Vec<Translation>> = calls
            .iter()
            .map(|call| {
                let (found, error) = translate(&translator, call, Cancel::Never);
                assert!(error.is_none(), "{name}: {error:?}");
                found
            })
            .collect();
        let (whole, cancelled) = (AtomicUsize::new(0), AtomicUsize::new(0));
        thread::scope(|scope| {
            for seed in 0..64 {
                let translator = translator.clone();
                let (calls, alone, whole, cancelled) = (&calls, &alone, &whole, &cancelled);
                scope.spawn(move || {
                    let mut numbers = Numbers(seed);
                    for _ in 0..rounds {
                        let index = numbers.below(calls.len());
                        let cancel = match numbers.below(8) {
                            0 => Cancel::Before,
                            1 => Cancel::After(numbers.below(3_000) as u64),
                            2 => Cancel::Once(numbers.below(20) + 1),
                            _ => Cancel::Never,
                        };
                        let (found, error) = translate(&translator, &calls[index], cancel);
                        let what = format!("{name}, call {index}, {cancel:?}: {error:?}");
                        match (&error, cancel) {
                            (None, _) => {
                                whole.fetch_add(1, Ordering::Relaxed);
                                assert_eq!(found, alone[index], "{what}");
                            }
                            (Some(InferError::Cancelled), cancel)
                                if !matches!(cancel, Cancel::Never) =>
                            {
                                cancelled.fetch_add(1, Ordering::Relaxed);
                                assert_eq!(found, alone[index][..found.len()], "{what}");
                            }
                            _ => panic!("{what}"),
                        }
                    }
                });
            }
        });
        let (whole, cancelled) = (whole.into_inner(), cancelled.into_inner());
        assert_eq!(whole + cancelled, 64 * rounds);
        assert!(whole > 30 * rounds && cancelled > 3 * rounds, "{name}: {whole}, {cancelled}");
    }
}

/// A sink may call the same translator, because it runs on its caller's thread.
#[test]
fn a_sink_may_use_the_same_translator() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/bundle-v1");
    let translator = Translator::open(folder, &Device::Cpu).unwrap().with_threads(1);
    let lines = [Line { text: "dog", ..Line::default() }; 3];
    let alone = translator.translate("dog").unwrap();
    let never = Cancellation::new();
    let mut inner = 0;
    translator
        .translate_lines(&lines, translator.options(), &never, |ready| {
            assert!(ready.iter().all(|found| *found == alone));
            inner += ready.len();
            assert_eq!(translator.translate("dog")?, alone);
            Ok::<_, InferError>(())
        })
        .unwrap();
    assert_eq!(inner, 3);
}
