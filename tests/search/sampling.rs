//! Sampling, and the probability of given targets.

use std::collections::HashMap;

use tx_infer::Sampling;

use super::*;

fn sampling_options(sampling: Sampling) -> SearchOptions {
    SearchOptions::sampling(sampling)
}

/// 4,000 samples of at most two tokens: the frequency of each equals its probability among the
/// possible targets within four standard deviations.
#[test]
fn targets_are_sampled_with_their_probability() {
    const SAMPLES: usize = 4_000;
    let targets = all_targets(2);
    for subject in subjects(7) {
        let source = SOURCES[0];
        let options = SearchOptions {
            max_len: Some(2),
            ..sampling_options(Sampling { samples: SAMPLES, seed: 5, ..Sampling::default() })
        };
        let found = subject.search(&[source], &options).remove(0);
        assert_eq!(found.len(), SAMPLES);
        let mut counts: HashMap<Vec<u32>, f64> = HashMap::new();
        for hypothesis in &found {
            *counts.entry(hypothesis.ids.clone()).or_default() += 1.0 / SAMPLES as f64;
        }
        // The probability of padding and `<bos>` is distributed over the other tokens at each
        // position.
        let own = subject.log_probabilities(source, &targets);
        let starts: Vec<Vec<u32>> = (0..7).map(|id| vec![id]).collect();
        let first: Vec<f64> = subject
            .log_probabilities(source, &starts)
            .iter()
            .map(|&x| f64::from(x).exp())
            .collect();
        let said = |probabilities: &[f64]| probabilities[2..].iter().sum::<f64>();
        for (target, own) in targets.iter().zip(&own) {
            let mut probability = first[target[0] as usize] / said(&first);
            if let [start, last] = target[..] {
                let both: Vec<Vec<u32>> = (0..7).map(|id| vec![start, id]).collect();
                let both = subject.log_probabilities(source, &both);
                let both: Vec<f64> = both.iter().map(|&x| f64::from(x).exp()).collect();
                probability *= both[last as usize] / said(&both);
            }
            let found_here = counts.get(target).copied().unwrap_or(0.0);
            let deviation = (probability * (1.0 - probability) / SAMPLES as f64).sqrt();
            let gap = (found_here - probability).abs();
            assert!(gap <= 4.0 * deviation + 1e-3, "{}: {target:?}", subject.name);
            // The log-probability is that of the model.
            let one = found.iter().find(|hypothesis| hypothesis.ids == *target);
            if let Some(one) = one {
                assert!((one.log_probability - own).abs() <= LIMIT, "{}", subject.name);
            }
        }
    }
}

/// Samples do not depend on the batch; to the bit if sentences are not padded.
#[test]
fn samples_depend_on_seed_and_number_only() {
    for subject in subjects(30) {
        for engine in subject.engines() {
            let options = sampling_options(Sampling { samples: 3, seed: 1, ..Sampling::default() });
            let requests: Vec<Request<'_>> =
                SOURCES.iter().zip(70..).map(|(source, n)| Request::new(source, n)).collect();
            let together = search_requests(&engine, &requests, &options);
            let mut turned: Vec<_> = requests.iter().rev().copied().collect();
            turned.truncate(4);
            let others = search_requests(&engine, &turned, &options);
            for (index, others) in others.iter().enumerate() {
                let own = &together[requests.len() - 1 - index];
                assert_eq!(own.len(), 3);
                if engine.gains_from_threads() {
                    assert_eq!(own, others, "{}", subject.name);
                } else {
                    assert_same(&subject.name, own, others);
                }
            }
            let samples = &together[2];
            assert!(samples[0] != samples[1] || samples[1] != samples[2], "{}", subject.name);
            for other in [
                engine.search(&SOURCES, &options).unwrap(),
                search_requests(
                    &engine,
                    &requests,
                    &sampling_options(Sampling { samples: 3, seed: 2, ..Sampling::default() }),
                ),
            ] {
                assert_ne!(other, together, "{}: other numbers or seed", subject.name);
            }
        }
    }
}

#[test]
fn narrow_sampling_gives_the_likeliest_tokens() {
    let mut differs = 0;
    for subject in subjects(30) {
        let greedy = subject.search(&SOURCES, &SearchOptions::greedy());
        for sampling in [
            Sampling { top_k: 1, ..Sampling::default() },
            Sampling { top_p: 1e-6, ..Sampling::default() },
            Sampling { top_k: 5, top_p: 1e-6, ..Sampling::default() },
            Sampling { temperature: 1e-3, ..Sampling::default() },
        ] {
            let found = subject.search(&SOURCES, &sampling_options(sampling));
            for (found, greedy) in found.iter().zip(&greedy) {
                assert_same(&format!("{}, {sampling:?}", subject.name), found, greedy);
            }
        }
        let all = subject.search(&SOURCES, &sampling_options(Sampling::default()));
        differs += usize::from(all != greedy);
    }
    assert_eq!(differs, subjects(30).len());
}

/// Output constraints also hold for samples.
#[test]
fn suppressed_tokens_are_not_sampled() {
    for subject in subjects(7) {
        for top_k in [0, 3] {
            let options = SearchOptions {
                no_repeat_ngram: 2,
                suppress: vec![4],
                min_len: 3,
                ..sampling_options(Sampling { samples: 20, top_k, ..Sampling::default() })
            };
            for found in subject.search(&SOURCES, &options).concat() {
                let words: Vec<u32> = found.ids.iter().copied().filter(|&id| id != EOS).collect();
                assert!(words.len() >= 3 && !words.contains(&4), "{found:?}");
                let mut pairs: Vec<&[u32]> = words.windows(2).collect();
                let count = pairs.len();
                pairs.sort_unstable();
                pairs.dedup();
                assert_eq!(pairs.len(), count, "{found:?}");
            }
        }
    }
}

/// Per token and in total, for targets of different lengths in one batch.
#[test]
fn the_probability_of_a_given_target_equals_that_of_teacher_forcing() {
    let targets: [&[u32]; 6] =
        [&[5, 4, 2], &[2], &[4, 4, 4, 4, 4, 4, 4, 4, 2], &[6], &[3, 6, 5, 2], &[4, 2]];
    let pairs: Vec<(&[u32], &[u32])> = SOURCES.into_iter().zip(targets).collect();
    for subject in subjects(7) {
        for engine in subject.engines() {
            let found = engine.log_probabilities(&pairs, &Cancellation::new()).unwrap();
            assert_eq!(found.len(), pairs.len());
            for ((source, target), found) in pairs.iter().zip(&found) {
                let starts: Vec<Vec<u32>> =
                    (1..=target.len()).map(|len| target[..len].to_vec()).collect();
                let expected = subject.log_probabilities(source, &starts);
                assert_eq!(found.len(), target.len());
                let mut sum = 0.0;
                for (found, expected) in found.iter().zip(expected) {
                    sum += found;
                    assert!((sum - expected).abs() <= LIMIT, "{}, {target:?}", subject.name);
                }
            }
            assert_eq!(
                engine.log_probabilities(&[], &Cancellation::new()).unwrap(),
                Vec::<Vec<f32>>::new()
            );
        }
    }
}

/// For any number of threads and any batch size, to the bit; including the text output.
#[test]
fn sampled_translations_do_not_depend_on_threads_and_batches() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/bundle-v1");
    let texts: Vec<&str> =
        ["the cat sleeps .", "", "dog", "the dog eats"].into_iter().cycle().take(17).collect();
    let options = sampling_options(Sampling { samples: 2, seed: 3, ..Sampling::default() });
    let translate = |threads, batch_tokens| {
        let translator = Translator::open(folder, &tx_infer::Device::Cpu).unwrap();
        let translator = translator.with_options(options.clone()).unwrap();
        let translator = translator.with_threads(threads).with_batch_tokens(batch_tokens);
        translator.translate_batch(&texts).unwrap()
    };
    let alone = translate(1, 4_096);
    assert!(alone[0].hypotheses.len() == 2 && alone[1].hypotheses.is_empty());
    // The same text on another line gives another sample.
    assert!(alone.iter().step_by(4).any(|found| found.text != alone[0].text));
    for (threads, batch_tokens) in [(2, 4_096), (3, 10), (1, 0)] {
        assert_eq!(translate(threads, batch_tokens), alone, "{threads} threads, {batch_tokens}");
    }
}
