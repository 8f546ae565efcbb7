use std::sync::atomic::{AtomicUsize, Ordering};

use tx_engine::PackedLanguageModel;
use tx_kernels::formulas::log_softmax;
use tx_model::{Pooling, Tying};
use tx_text::{
    TokenizerKind,
    special::{BOS, EOS, PAD},
};

use super::*;
use crate::{Device, fixture, search::Sampling, text_stream::TextStream};

const INPUTS: [&str; 5] = ["The cat", "", "Is the zebra", "(a small", "it's "];

const KINDS: [TokenizerKind; 3] =
    [TokenizerKind::Word, TokenizerKind::Bpe, TokenizerKind::Character];

fn devices() -> [Device; 2] {
    [Device::Cpu, Device::Burn(burn::tensor::Device::flex())]
}

/// Greedy search without a limit of repetitions, as random weights repeat tokens.
fn greedy() -> SearchOptions {
    SearchOptions { max_repeats: 0, ..SearchOptions::greedy() }
}

fn all_options() -> Vec<SearchOptions> {
    vec![
        greedy(),
        SearchOptions::default(),
        SearchOptions { beam: 3, n_best: 3, max_len: Some(12), ..SearchOptions::default() },
        SearchOptions { beam: 4, groups: 2, min_len: 9, ..SearchOptions::default() },
        SearchOptions { repetition_penalty: 1.3, no_repeat_ngram: 2, ..SearchOptions::greedy() },
        SearchOptions::sampling(Sampling { samples: 3, top_k: 9, seed: 5, ..Sampling::default() }),
        SearchOptions::sampling(Sampling { temperature: 0.7, top_p: 0.8, ..Sampling::default() }),
    ]
}

#[test]
fn a_batch_on_any_device_equals_each_text_alone() {
    for (kind, tying) in [(KINDS[0], Tying::All), (KINDS[1], Tying::None), (KINDS[2], Tying::All)] {
        let bundle = fixture::language_model(kind, tying);
        let generators = devices().map(|device| Generator::from_module(&bundle, &device));
        for options in all_options() {
            let [packed, tensors] =
                generators.clone().map(|it| it.with_options(options.clone()).unwrap());
            let alone = INPUTS.iter().zip(0..).map(|(text, number)| {
                let mut found = Vec::new();
                let never = Cancellation::new();
                let prompt = Prompt { text, number };
                packed
                    .continue_lines(&[prompt], &options, &never, |ready| {
                        found.extend(ready);
                        Ok::<_, InferError>(())
                    })
                    .unwrap();
                found.remove(0)
            });
            let alone: Vec<Continuation> = alone.collect();
            let small = packed.clone().with_batch_tokens(1).with_threads(2);
            for other in [&packed, &tensors, &small] {
                let found = other.continue_batch(&INPUTS).unwrap();
                for (found, expected) in found.iter().zip(&alone) {
                    assert_eq!(found.text, expected.text, "{kind:?} {options:?}");
                    assert_eq!(found.unknown, expected.unknown);
                    assert_eq!(found.hypotheses.len(), expected.hypotheses.len());
                    for (found, expected) in found.hypotheses.iter().zip(&expected.hypotheses) {
                        assert_eq!(found.hypothesis.ids, expected.hypothesis.ids);
                        let gap = found.hypothesis.score - expected.hypothesis.score;
                        assert!(gap.abs() < 1e-3, "{gap}");
                    }
                }
            }
        }
    }
}

/// Each token is the likeliest one after all tokens before it, decoded anew without a cache.
#[test]
fn greedy_continuation_equals_uncached_argmax() {
    let bundle = fixture::language_model(TokenizerKind::Word, Tying::All);
    let vocabulary = bundle.vocabulary().target;
    let packed = PackedLanguageModel::from(&bundle.model);
    let [cached, tensors] = devices()
        .map(|device| Generator::from_module(&bundle, &device).with_options(greedy()).unwrap());
    for text in INPUTS {
        let found = cached.continue_text(text).unwrap();
        let ids = &found.hypotheses[0].hypothesis.ids;
        assert_eq!(*ids, tensors.continue_text(text).unwrap().hypotheses[0].hypothesis.ids);
        let mut total = 0.0;
        let prompt = cached.runner.model.encode_prompt(&Prompt { text, number: 0 }).unwrap();
        assert_eq!(ids[..prompt.len()], prompt);
        for position in 0..ids.len() {
            let input = [&[BOS], &ids[..position]].concat();
            let mut decoding = packed.start(1);
            let mut scores = Vec::new();
            input.iter().for_each(|&token| scores = decoding.step_logits(&[token]));
            log_softmax(&mut scores);
            total += scores[ids[position] as usize];
            if position >= prompt.len() {
                let allowed = (0..vocabulary as u32).filter(|id| ![PAD, BOS].contains(id));
                let best =
                    allowed.max_by(|&a, &b| scores[a as usize].total_cmp(&scores[b as usize]));
                assert_eq!(best, Some(ids[position]));
            }
        }
        assert!((total - found.hypotheses[0].hypothesis.log_probability).abs() < 1e-3);
        assert!(ids.last() == Some(&EOS) || ids.len() == bundle.config.max_len, "{ids:?}");
    }
}

#[test]
fn parts_of_a_stream_are_the_continuation() {
    for kind in KINDS {
        let bundle = fixture::language_model(kind, Tying::All);
        for device in devices() {
            let generator = Generator::from_module(&bundle, &device);
            for options in
                [greedy(), SearchOptions::sampling(Sampling { seed: 3, ..Sampling::default() })]
            {
                let generator = generator.clone().with_options(options.clone()).unwrap();
                let whole = generator.continue_batch(&INPUTS).unwrap();
                for ((text, number), expected) in INPUTS.iter().zip(0..).zip(whole) {
                    let mut parts = Vec::new();
                    let never = Cancellation::new();
                    let prompt = Prompt { text, number };
                    let found = generator
                        .continue_streaming(prompt, &options, &never, |part| {
                            parts.push(part.to_owned());
                        })
                        .unwrap();
                    assert_eq!(found.text, expected.text, "{kind:?}");
                    let ids = |it: &Continuation| it.hypotheses[0].hypothesis.ids.clone();
                    assert_eq!(ids(&found), ids(&expected));
                    assert_eq!(parts.concat(), found.hypotheses[0].continuation, "{kind:?}");
                    assert_eq!(format!("{text}{}", parts.concat()), found.text);
                    assert!(parts.iter().all(|part| !part.is_empty()));
                }
            }
        }
    }
}

/// `é` has two bytes in UTF-8 and `日` three; a part has whole characters only.
#[test]
fn incomplete_characters_are_held_back() {
    let generator = Generator::from_module(
        &fixture::language_model(TokenizerKind::Byte, Tying::All),
        &Device::Cpu,
    );
    let ids = generator.tokenizer().encode("é日 x").unwrap();
    let ids: Vec<u32> = ids.into_iter().filter(|id| ![BOS, EOS].contains(id)).collect();
    let mut parts = Vec::new();
    let model = &generator.runner.model;
    let mut stream = TextStream::new(|ids: &[u32]| model.continuation("", ids, 0));
    for end in 1..=ids.len() {
        stream.advance(&ids[..end], false, &mut |part: &str| parts.push(part.to_owned())).unwrap();
    }
    stream.advance(&ids, true, &mut |part: &str| parts.push(part.to_owned())).unwrap();
    assert_eq!(parts, ["é", "日", " x"]);
}

#[test]
fn streaming_needs_one_hypothesis_and_can_be_canceled() {
    let generator = Generator::from_module(
        &fixture::language_model(TokenizerKind::Word, Tying::All),
        &Device::Cpu,
    );
    let stream = |options: &SearchOptions, cancellation: &Cancellation, count: &AtomicUsize| {
        generator.continue_streaming(Prompt::default(), options, cancellation, |_| {
            count.fetch_add(1, Ordering::Relaxed);
            cancellation.cancel();
        })
    };
    let count = AtomicUsize::new(0);
    let found = stream(&SearchOptions::default(), &Cancellation::new(), &count);
    assert!(matches!(found, Err(InferError::Search { .. })), "{found:?}");
    assert_eq!(count.load(Ordering::Relaxed), 0);
    let found = stream(&greedy(), &Cancellation::new(), &count);
    assert!(matches!(found, Err(InferError::Cancelled)), "{found:?}");
    assert_eq!(count.load(Ordering::Relaxed), 1);
}

#[test]
fn max_len_limits_prompt_and_continuation_together_and_unknown_words_are_listed() {
    let generator = Generator::from_module(
        &fixture::language_model(TokenizerKind::Word, Tying::All),
        &Device::Cpu,
    );
    let options = SearchOptions { max_len: Some(5), min_len: 5, ..greedy() };
    let generator = generator.with_options(options).unwrap();
    let tokens = |text: &str| {
        let found = generator.continue_text(text).unwrap();
        found.hypotheses[0].hypothesis.ids.len()
    };
    assert_eq!(["", "The", "The cat sleeps"].map(tokens), [5, 5, 5]);
    // One token is generated after a longer prompt.
    assert_eq!(tokens("The cat sleeps in the house"), 7);
    let found = generator.continue_batch(&["the zebra", "zebra okapi the", "the"]).unwrap();
    let unknown: Vec<_> = found.into_iter().map(|found| found.unknown).collect();
    assert_eq!(unknown, [vec!["zebra"], vec!["zebra", "okapi"], vec![]]);
}

#[test]
fn a_prompt_without_room_for_a_token_names_its_line() {
    let generator = Generator::from_module(
        &fixture::language_model(TokenizerKind::Word, Tying::All),
        &Device::Cpu,
    );
    let words = |count: usize| "the ".repeat(count);
    let found = generator.continue_batch(&["the", &words(32)]);
    assert!(
        matches!(found, Err(InferError::LongPrefix { line: 2, found: Some(32), max: 31 })),
        "{found:?}"
    );
    let found = generator.continue_text(&words(31)).unwrap();
    assert_eq!(found.hypotheses[0].hypothesis.ids.len(), 32);
}

#[test]
fn options_that_need_a_source_are_rejected() {
    let generator = Generator::from_module(
        &fixture::language_model(TokenizerKind::Word, Tying::All),
        &Device::Cpu,
    );
    let base = SearchOptions::default;
    for (options, key) in [
        (SearchOptions { coverage_penalty: 0.1, ..base() }, "coverage_penalty"),
        (SearchOptions { max_len_ratio: 3.0, ..base() }, "max_len_ratio"),
        (SearchOptions { max_len_extra: 3, ..base() }, "max_len_extra"),
        (SearchOptions { min_len_ratio: 0.5, ..base() }, "min_len_ratio"),
        (SearchOptions { replace_unknown: true, ..base() }, "replace_unknown"),
        (SearchOptions { attention_layer: Some(1), ..base() }, "attention_layer"),
    ] {
        let error = generator.clone().with_options(options).unwrap_err().to_string();
        assert!(error.contains(&format!("`{key}` needs a source")), "{error}");
    }
}

/// The probability of a text is the product of those of its tokens; `<eos>` is one of them.
#[test]
fn scores_equal_the_log_probabilities_of_the_tokens() {
    let bundle = fixture::language_model(TokenizerKind::Word, Tying::None);
    let packed = PackedLanguageModel::from(&bundle.model);
    let texts = ["The cat sleeps.", "", "the red  book"];
    for device in devices() {
        let generator = Generator::from_module(&bundle, &device);
        for (text, found) in texts.iter().zip(generator.score(&texts, 0).unwrap()) {
            let mut decoding = packed.start(1);
            let mut token = BOS;
            for (id, log_probability) in found.ids.iter().zip(&found.log_probabilities) {
                let mut scores = decoding.step_logits(&[token]);
                log_softmax(&mut scores);
                assert!((scores[*id as usize] - log_probability).abs() < 1e-4, "{text}");
                token = *id;
            }
            assert_eq!(found.ids.last(), Some(&EOS));
            assert_eq!(found.words, text.split_whitespace().count());
            assert_eq!(found.characters, text.chars().count());
            let log = |perplexity: f64, units: usize| perplexity.ln() * units.max(1) as f64;
            for log_p in [
                log(found.perplexity(), found.ids.len()),
                log(found.perplexity_per_word(), found.words),
                log(found.perplexity_per_character(), found.characters),
            ] {
                assert!((log_p + found.log_probability()).abs() < 1e-6);
            }
        }
    }
    let generator = Generator::from_module(&bundle, &Device::Cpu);
    let found = generator.score(&["the", &"the ".repeat(32)], 10);
    assert!(
        matches!(found, Err(InferError::LongTarget { line: 12, found: Some(33), max: 32 })),
        "{found:?}"
    );
}

#[test]
fn a_saved_bundle_continues_as_its_module() {
    let folder = tempfile::tempdir().unwrap();
    let bundle = fixture::language_model(TokenizerKind::Bpe, Tying::None);
    bundle.save(folder.path()).unwrap();
    for device in devices() {
        let opened = Generator::open(folder.path(), &device).unwrap();
        let expected = Generator::from_module(&bundle, &device);
        assert_eq!(
            opened.continue_batch(&INPUTS).unwrap(),
            expected.continue_batch(&INPUTS).unwrap()
        );
    }
    let error = crate::Translator::open(folder.path(), &Device::Cpu).unwrap_err();
    assert!(error.hint().unwrap().contains("`Generator`"), "{error}");
    fixture::classifier(Pooling::Mean).save(folder.path()).unwrap();
    let error = Generator::open(folder.path(), &Device::Cpu).unwrap_err();
    assert!(matches!(error, InferError::WrongTask { .. }), "{error}");
}

#[test]
fn attention_is_causal() {
    for device in devices() {
        let generator = Generator::from_module(
            &fixture::language_model(TokenizerKind::Word, Tying::All),
            &device,
        );
        let found = generator.attention("The cat sleeps.").unwrap();
        assert!(found.encoder.is_empty() && found.cross.is_empty());
        assert_eq!((found.decoder.len(), found.decoder[0].len()), (2, 2));
        for map in found.decoder.concat() {
            for (position, row) in map.rows().enumerate() {
                assert!((row.iter().sum::<f32>() - 1.0).abs() < 1e-5);
                assert!(row[position + 1..].iter().all(|weight| *weight == 0.0));
            }
        }
    }
}

/// Each token has the mean of its probabilities under both models.
#[test]
fn an_ensemble_averages_probabilities_and_needs_one_vocabulary() {
    let first = fixture::language_model(TokenizerKind::Word, Tying::All);
    let mut second = first.clone();
    let vocabulary = first.config.padded(first.vocabulary()).target;
    second.model =
        tx_model::LanguageModel::new(&first.config, vocabulary, &burn::tensor::Device::flex())
            .unwrap();
    let here = Path::new("here");
    for device in devices() {
        let [one, two] = [&first, &second].map(|bundle| Generator::from_module(bundle, &device));
        let both = one.clone().with_member(here, here, two.clone()).unwrap();
        let text = ["The cat is"];
        let scores = [&one, &two, &both].map(|it| it.score(&text, 0).unwrap().remove(0));
        let [a, b, mean] = scores.map(|score| score.log_probabilities);
        assert!(a.len() > 2 && a.len() == mean.len());
        assert_ne!(a, b);
        for ((a, b), mean) in a.into_iter().zip(b).zip(mean) {
            let expected = ((a.exp() + b.exp()) / 2.0).ln();
            assert!((mean - expected).abs() < 1e-5, "{mean} {expected}");
        }
    }
    let other = fixture::language_model(TokenizerKind::Character, Tying::All);
    let [one, other] = [first, other].map(|bundle| Generator::from_module(&bundle, &Device::Cpu));
    let error = one.with_member(here, Path::new("there"), other).unwrap_err().to_string();
    assert!(error.contains("`there`") && error.contains("text vocabularies"), "{error}");
}
