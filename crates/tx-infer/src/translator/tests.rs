use std::collections::HashMap;

use burn::tensor::Device as BurnDevice;
use tx_model::{DropoutConfig, Transformer, Tying, VocabSizes};
use tx_text::{Lowercase, SentencePair, TokenizerConfig, TokenizerKind};

use super::*;
use crate::{
    Device, bundle::ModuleBundle, search::Sampling, task::ModelTask, tokens::BYTES_PER_TOKEN,
};

const MAX_LEN: usize = 24;

/// A bundle with random weights, whose vocabulary is that of `text`.
fn bundle(kind: TokenizerKind, text: &str, vocab_multiple: usize) -> ModuleBundle {
    let pairs = [SentencePair::new(text, text)];
    let config = TokenizerConfig { kind, ..TokenizerConfig::default() };
    let tokenizers = Tokenizers::train(&config, &pairs).unwrap();
    let config = ModelConfig {
        d_model: 8,
        n_heads: 2,
        d_ff: 8,
        encoder_layers: 1,
        decoder_layers: 1,
        max_len: MAX_LEN,
        vocab_multiple,
        tying: Tying::None,
        dropout: DropoutConfig::none(),
        ..ModelConfig::default()
    };
    let vocab = VocabSizes {
        source: tokenizers.source.vocab_size(),
        target: tokenizers.target.vocab_size(),
    };
    let model = Transformer::new(&config, config.padded(vocab), &BurnDevice::flex()).unwrap();
    ModuleBundle {
        model,
        task: ModelTask::Translate,
        config,
        tokenizers,
        languages: None,
        context: 0,
        search: None,
        lexicon: None,
        provenance: Default::default(),
    }
}

fn translator(kind: TokenizerKind) -> Translator {
    Translator::from_module(&bundle(kind, "one two three four, five", 1), &Device::Cpu)
}

fn samples(samples: usize) -> SearchOptions {
    SearchOptions::sampling(Sampling { samples, ..Sampling::default() })
}

#[test]
fn translators_are_shared_among_threads() {
    fn shared<T: Send + Sync + Clone + 'static>() {}
    shared::<Translator>();
    shared::<Cancellation>();
}

#[test]
fn a_text_that_is_too_long_is_reported_as_truncated() {
    let translator = translator(TokenizerKind::Word);
    let long = "one ".repeat(MAX_LEN);
    let fits = "one ".repeat(MAX_LEN - 1);
    assert!(translator.translate(&long).unwrap().truncated);
    assert!(!translator.translate(&fits).unwrap().truncated);
    let huge = "one".repeat(MAX_LEN * BYTES_PER_TOKEN);
    let found = translator.translate_batch(&[&fits, &huge, &long, "", " "]).unwrap();
    let truncated: Vec<bool> = found.iter().map(|found| found.truncated).collect();
    assert_eq!(truncated, [false, true, true, false, false]);
}

/// The parts of a stream are the text of greedy search, and the stream ends with its cancellation.
#[test]
fn parts_of_a_stream_are_the_translation() {
    let mut stopped = 0;
    for kind in [TokenizerKind::Word, TokenizerKind::Bpe, TokenizerKind::Character] {
        let translator = translator(kind);
        let greedy = SearchOptions { max_repeats: 0, ..SearchOptions::greedy() };
        let never = Cancellation::new();
        for text in ["one two three", "five", "", " "] {
            let expected = translator.translate_batch_with(&[text], &greedy, &never).unwrap();
            let mut parts = Vec::new();
            let found = translator
                .translate_streaming(&Line::new(text, 0), &greedy, &never, |part| {
                    parts.push(part.to_owned());
                })
                .unwrap();
            assert_eq!(found, expected[0], "{kind:?}");
            assert_eq!(parts.concat(), found.text, "{kind:?}");
        }
        let line = Line::new("one two three", 0);
        let stream = |cancellation: &Cancellation, stops: bool| {
            let mut parts = 0;
            let found = translator.translate_streaming(&line, &greedy, cancellation, |_| {
                parts += 1;
                if stops {
                    cancellation.cancel();
                }
            });
            (parts, found)
        };
        let (all, _) = stream(&never, false);
        let (parts, found) = stream(&Cancellation::new(), true);
        if all > 1 {
            assert!(matches!(found, Err(InferError::Cancelled)), "{kind:?}");
            assert_eq!(parts, 1, "{kind:?}");
            stopped += 1;
        }
        let found =
            translator.translate_streaming(&line, &SearchOptions::default(), &never, |_| {});
        assert!(found.unwrap_err().to_string().contains("one hypothesis"));
    }
    assert!(stopped > 0);
}

/// A byte tokenizer has a token for each control character.
#[test]
fn a_translation_with_any_tokens_is_one_line() {
    let translator = translator(TokenizerKind::Byte);
    let found =
        translator.translate_batch_with(&["one"; 20], &samples(20), &Cancellation::new()).unwrap();
    let mut raw = 0;
    for scored in found.iter().flat_map(|found| &found.hypotheses) {
        let decoded = translator.tokenizers().target.decode(&scored.hypothesis.ids).unwrap();
        let breaks = |c: char| c.is_control() || ['\u{2028}', '\u{2029}'].contains(&c);
        assert!(!scored.text.contains(breaks), "{:?}", scored.text);
        assert_eq!(scored.text.chars().count(), decoded.chars().count());
        raw += usize::from(decoded.contains(['\n', '\r', '\0', '\u{1b}']));
    }
    assert!(raw > 5, "{raw} samples with characters that end a line or control a terminal");
}

#[test]
fn unknown_words_are_listed_once_in_order() {
    for (kind, text, expected) in [
        (TokenizerKind::Word, "Rex, one Żółw two Rex.", &["Rex", "Żółw", "."][..]),
        (TokenizerKind::Word, "one two, three", &[]),
        (TokenizerKind::Character, "one Ж tЖwo", &["Ж"]),
        (TokenizerKind::Bpe, "one Żółw, tЖwo", &["Żółw", "tЖwo"]),
        (TokenizerKind::Byte, "one Ж", &[]),
        (TokenizerKind::Word, " ", &[]),
    ] {
        let found = translator(kind).translate(text).unwrap();
        assert_eq!(found.unknown, expected, "{kind:?} {text}");
    }
    // Only words that the model reads.
    let long = format!("{} Rex", "one ".repeat(MAX_LEN));
    assert_eq!(translator(TokenizerKind::Word).translate(&long).unwrap().unknown, [""; 0]);
}

/// 9 tokens, and 55 columns of the projection without a token.
#[test]
fn padding_of_the_vocabulary_is_never_generated() {
    let bundle = bundle(TokenizerKind::Word, "one two three four, five", 64);
    let ids = bundle.tokenizers.target.vocab_size() as u32;
    assert!(ids < 20);
    let translator = Translator::from_module(&bundle, &Device::Cpu);
    for options in [samples(50), SearchOptions { beam: 30, n_best: 30, ..SearchOptions::default() }]
    {
        let never = Cancellation::new();
        let found = translator.translate_batch_with(&["one two"], &options, &never).unwrap();
        for scored in &found[0].hypotheses {
            assert!(scored.hypothesis.ids.iter().all(|id| *id < ids), "{scored:?}");
        }
    }
}

#[test]
fn options_apply_to_one_call() {
    let translator = translator(TokenizerKind::Word);
    let texts = ["one two three", "five, four"];
    let wide = SearchOptions { beam: 6, n_best: 6, ..SearchOptions::default() };
    let found = translator.translate_batch_with(&texts, &wide, &Cancellation::new()).unwrap();
    let of_translator = translator.clone().with_options(wide).unwrap();
    assert_eq!(found, of_translator.translate_batch(&texts).unwrap());
    assert_eq!(found[0].hypotheses.len(), 6);
    assert_eq!(translator.translate_batch(&texts).unwrap()[0].hypotheses.len(), 1);

    let layer = SearchOptions { attention_layer: Some(9), ..SearchOptions::default() };
    let beyond = SearchOptions { suppress: vec![1_000], ..SearchOptions::default() };
    let none = SearchOptions { beam: 0, n_best: 0, ..SearchOptions::default() };
    for options in [layer, beyond, none] {
        let found = translator.translate_batch_with(&texts, &options, &Cancellation::new());
        assert!(matches!(found, Err(InferError::Search { .. })), "{found:?}");
    }
}

#[test]
fn a_canceled_call_translates_nothing() {
    let translator = translator(TokenizerKind::Word);
    let cancellation = Cancellation::new();
    cancellation.cancel();
    let found = translator.translate_batch_with(&["one"], translator.options(), &cancellation);
    assert!(matches!(found, Err(InferError::Cancelled)), "{found:?}");
    // An empty text leaves nothing to cancel.
    let found = translator.translate_batch_with(&[""], translator.options(), &cancellation);
    assert_eq!(found.unwrap(), [Translation::default()]);
}

/// Canceled by the sink, after the first translations.
#[test]
fn a_call_is_canceled_between_two_steps() {
    let translator = translator(TokenizerKind::Word).with_batch_tokens(1);
    let texts = vec!["one two three four five"; 500];
    let lines: Vec<Line<'_>> = texts.iter().map(|text| Line { text, ..Line::default() }).collect();
    let cancellation = Cancellation::new();
    let mut count = 0;
    let found = translator.translate_lines(&lines, translator.options(), &cancellation, |ready| {
        count += ready.len();
        cancellation.cancel();
        Ok::<_, InferError>(())
    });
    assert!(matches!(found, Err(InferError::Cancelled)), "{found:?}");
    assert!((1..500).contains(&count), "{count}");
}

#[test]
fn long_prefixes_and_targets_are_rejected_before_they_are_tokenized() {
    let translator = translator(TokenizerKind::Word);
    let long = "one ".repeat(MAX_LEN);
    let huge = "x".repeat(MAX_LEN * BYTES_PER_TOKEN + 1);
    for (text, expected) in [(&long, Some(MAX_LEN)), (&huge, None)] {
        let line = Line { prefix: text, ..Line::new("one", 8) };
        let never = Cancellation::new();
        let sink = |_: Vec<Translation>| Ok::<_, InferError>(());
        match translator.translate_lines(&[line], translator.options(), &never, sink) {
            Err(InferError::LongPrefix { line: 9, found, .. }) => assert_eq!(found, expected),
            other => panic!("{other:?}"),
        }
        match translator.score(&[("one", "one"), ("one", text)], 5) {
            Err(InferError::LongTarget { line: 7, found, .. }) => {
                assert_eq!(found, expected.map(|tokens| tokens + 1));
            }
            other => panic!("{other:?}"),
        }
    }
}

/// Tokenizers with the same tokens, but different normalization.
#[test]
fn an_ensemble_needs_the_same_tokenizers() {
    let ours = bundle(TokenizerKind::Word, "one two", 1);
    let mut theirs = ours.clone();
    let pairs = [SentencePair::new("one two", "one two")];
    let config = TokenizerConfig {
        kind: TokenizerKind::Word,
        lowercase: Lowercase::Both,
        ..TokenizerConfig::default()
    };
    theirs.tokenizers = Tokenizers::train(&config, &pairs).unwrap();
    let tokens = |bundle: &ModuleBundle| -> HashMap<u32, _> {
        (0..9).map(|id| (id, bundle.tokenizers.source.token(id))).collect()
    };
    assert_eq!(tokens(&ours), tokens(&theirs));
    let [ours, theirs] =
        [ours, theirs].map(|bundle| Translator::from_module(&bundle, &Device::Cpu));
    let both = |other| ours.clone().with_member(Path::new("a"), Path::new("b"), other);
    assert!(both(ours.clone()).is_ok());
    match both(theirs) {
        Err(InferError::OtherVocabulary { side: "source", problem, .. }) => {
            assert!(problem.contains("normalization"), "{problem}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn no_text_starts_no_thread() {
    let translator = translator(TokenizerKind::Word);
    let none: [&str; 0] = [];
    assert_eq!(translator.translate_batch(&none).unwrap(), []);
    assert_eq!(translator.translate("  ").unwrap(), Translation::default());
    let none: [(&str, &str); 0] = [];
    assert!(translator.score(&none, 0).unwrap().is_empty());
    assert!(!translator.runner.pool.has_started());
}
