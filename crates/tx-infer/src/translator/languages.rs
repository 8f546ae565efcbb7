//! Multilingual models, and models whose decoder starts with another token than `<bos>`, on the packed
//! engine.

use std::borrow::Cow;

use serde_json::{Value, json};
use tx_model::{DecoderStart, DropoutConfig, Tying};
use tx_text::{
    SentencePair, Tokenizer, TokenizerConfig, TokenizerKind,
    context::SEPARATOR,
    special::{BOS, EOS, PAD, UNK},
};

use super::*;
use crate::{
    Aligner, AlignmentOptions, Attention, Bundle, Device, Hypothesis, LanguagePlacement, Languages,
    ModelTask, NewBundle, NewWeight, Request, pair_tokenizer::SourceIds, search::start_id,
};

const LANGUAGES: [&str; 3] = ["de", "en", "fr"];

/// Tokenizers of words with the special tokens `token(code)`.
fn tokenizers(token: impl Fn(&str) -> String) -> Tokenizers {
    let config = TokenizerConfig { kind: TokenizerKind::Word, ..TokenizerConfig::default() };
    let pairs = [SentencePair::new("one two three", "one two three")];
    let Tokenizers { source, target } = Tokenizers::train(&config, &pairs).unwrap();
    Tokenizers { source: with_tokens(source, &token), target: with_tokens(target, &token) }
}

fn with_tokens(trained: Tokenizer, token: impl Fn(&str) -> String) -> Tokenizer {
    let mut json: Value = serde_json::from_str(&trained.to_json().unwrap()).unwrap();
    let added = json["added_tokens"].as_array_mut().unwrap();
    added.extend(LANGUAGES.iter().zip(trained.vocab_size()..).map(|(code, id)| {
        json!({
            "id": id, "content": token(code), "single_word": false, "lstrip": false,
            "rstrip": false, "normalized": false, "special": true,
        })
    }));
    Tokenizer::from_json(json.to_string().as_bytes(), "a.json".as_ref()).unwrap()
}

fn languages(placement: LanguagePlacement) -> Languages {
    let codes: Vec<String> = LANGUAGES.map(str::to_owned).to_vec();
    let (token, source) = match placement {
        LanguagePlacement::TargetInSource => (">>{}<<", Vec::new()),
        LanguagePlacement::BothSides => ("__{}__", codes.clone()),
    };
    Languages {
        placement,
        token: token.into(),
        source,
        target: codes,
        default_source: None,
        default_target: None,
    }
}

/// Value `index` of the weight `name`.
type Values = fn(name: &str, index: usize) -> f32;

fn hashed(name: &str, index: usize) -> f32 {
    (index as f32 * 0.37 + name.len() as f32).sin()
}

/// A model with these values, two layers and both sides alike.
fn bundle(start: DecoderStart, languages: Option<Languages>, values: Values) -> Bundle {
    Bundle::open(saved(start, languages, values).path()).unwrap()
}

/// The folder of such a model.
fn saved(start: DecoderStart, languages: Option<Languages>, values: Values) -> tempfile::TempDir {
    let template = languages.as_ref().map_or(">>{}<<", |languages| &languages.token).to_owned();
    let tokenizers = tokenizers(|code| template.replace("{}", code));
    save(start, languages, tokenizers, 0, values).unwrap()
}

/// The folder of a model that reads context.
pub(super) fn saved_with(
    start: DecoderStart,
    languages: Option<Languages>,
    context: usize,
    has_separator: bool,
) -> Result<tempfile::TempDir, InferError> {
    let tokens = if has_separator { vec![SEPARATOR.to_owned()] } else { Vec::new() };
    let Tokenizers { source, target } = tokenizers(|code| format!(">>{code}<<"));
    let source = source.with_special_tokens(&tokens).unwrap();
    let target = target.with_special_tokens(&tokens).unwrap();
    save(start, languages, Tokenizers { source, target }, context, hashed)
}

fn save(
    start: DecoderStart,
    languages: Option<Languages>,
    tokenizers: Tokenizers,
    context: usize,
    values: Values,
) -> Result<tempfile::TempDir, InferError> {
    let config = ModelConfig {
        d_model: 8,
        n_heads: 2,
        d_ff: 8,
        encoder_layers: 1,
        decoder_layers: 2,
        max_len: 12,
        tying: Tying::None,
        dropout: DropoutConfig::none(),
        decoder_start: start,
        ..ModelConfig::default()
    };
    let ids = tokenizers.source.vocab_size();
    let vocabulary = tx_model::VocabSizes { source: ids, target: ids };
    let shapes = config.weight_shapes(config.padded(vocabulary));
    let weights = shapes.into_iter().map(|weight| {
        let count: usize = weight.shape.iter().product();
        let name = weight.name.clone();
        let values = move || (0..count).map(|index| values(&name, index)).collect();
        NewWeight { name: weight.name, shape: weight.shape, values: Box::new(values) }
    });
    let weights = weights.collect();
    let provenance = toml::Table::new();
    let task = ModelTask::Translate;
    let new = NewBundle {
        task,
        config,
        tokenizers,
        languages,
        context,
        search: None,
        provenance,
        weights,
    };
    let folder = tempfile::tempdir().unwrap();
    new.save(folder.path())?;
    Ok(folder)
}

/// A model of one language pair that reads context.
pub(super) fn with_context(context: usize) -> Translator {
    opened(&saved_with(DecoderStart::Bos, None, context, true).unwrap())
}

/// A multilingual model that reads context.
pub(super) fn multilingual_with(placement: LanguagePlacement, context: usize) -> Translator {
    opened(&saved_with(DecoderStart::Eos, Some(languages(placement)), context, true).unwrap())
}

fn opened(folder: &tempfile::TempDir) -> Translator {
    let bundle = Bundle::open(folder.path()).unwrap();
    let options = SearchOptions { beam: 3, n_best: 3, max_repeats: 0, ..SearchOptions::default() };
    Translator::new(bundle, &Device::Cpu).unwrap().with_options(options).unwrap()
}

pub(crate) fn multilingual(placement: LanguagePlacement) -> Translator {
    let bundle = bundle(DecoderStart::Eos, Some(languages(placement)), hashed);
    let options = SearchOptions { beam: 3, n_best: 3, max_repeats: 0, ..SearchOptions::default() };
    Translator::new(bundle, &Device::Cpu).unwrap().with_options(options).unwrap()
}

fn id(translator: &Translator, token: &str) -> u32 {
    translator.tokenizers().source.special_id(token).unwrap()
}

/// Hypotheses of the engine for source ids.
pub(super) fn searched(
    translator: &Translator,
    source: &[u32],
    first: Option<u32>,
) -> Vec<Hypothesis> {
    let request = Request { forced_first: first, ..Request::new(source, 0) };
    let never = Cancellation::new();
    let found = translator.engine().search_requests(&[request], translator.options(), &never);
    found.unwrap().remove(0)
}

pub(super) fn hypotheses(translation: &Translation) -> Vec<Hypothesis> {
    translation.hypotheses.iter().map(|found| found.hypothesis.clone()).collect()
}

#[test]
fn both_sides_begin_with_the_tokens_of_their_languages() {
    let translator = multilingual(LanguagePlacement::BothSides);
    let error = translator.translate("one two").unwrap_err().to_string();
    assert_eq!(error, "no source language is selected; the model has de, en, fr");
    let english = translator.clone().with_languages(Some("en"), None).unwrap();
    let error = english.translate("one two").unwrap_err().to_string();
    assert_eq!(error, "no target language is selected; the model has de, en, fr");
    assert!(english.score(&[("one", "two")], 0).is_err());
    assert_eq!(english.translate("  ").unwrap(), Translation::default());

    let german = english.with_languages(None, Some("de")).unwrap();
    let (en, de) = (id(&german, "__en__"), id(&german, "__de__"));
    let found = german.translate("one two").unwrap();
    let source = [&[en], &german.tokenizers().source.encode("one two").unwrap()[..]].concat();
    assert_eq!(hypotheses(&found), searched(&german, &source, Some(de)));
    for found in &found.hypotheses {
        assert_eq!(found.hypothesis.ids[0], de);
        assert!(!found.text.contains("__"), "{found:?}");
        // The token of the language has log-probability 0 and counts in the length.
        let scored = german
            .engine()
            .log_probabilities(&[(&source, &found.hypothesis.ids)], &Cancellation::new());
        let scored = scored.unwrap().remove(0);
        let rest: f32 = scored[1..].iter().sum();
        assert!((found.hypothesis.log_probability - rest).abs() < 1e-4, "{found:?}");
        let mean = rest / found.hypothesis.ids.len() as f32;
        assert!((found.hypothesis.score - mean).abs() < 1e-4, "{found:?}");
    }

    // Forced decoding of a translation gives its log-probability.
    let forced = &german.score(&[("one two", "three one")], 0).unwrap()[0];
    assert_eq!((forced.ids[0], forced.log_probabilities[0]), (de, 0.0));
    // A target begins with `<bos>`, which is not scored.
    let words = german.tokenizers().target.encode("three one").unwrap()[1..].to_vec();
    assert_eq!(forced.ids[1..], words);

    // Greedy search, sampling and a prefix begin with the token, too.
    for options in [
        SearchOptions::greedy(),
        SearchOptions::sampling(crate::Sampling { samples: 3, ..crate::Sampling::default() }),
    ] {
        let never = Cancellation::new();
        let line = Line { prefix: "three", ..Line::new("one two", 0) };
        let found = german.translate_lines(&[line], &options, &never, |found| {
            let hypotheses = found.iter().flat_map(|found| &found.hypotheses);
            hypotheses.for_each(|found| assert_eq!(found.hypothesis.ids[..2], [de, words[0]]));
            Ok::<_, InferError>(())
        });
        found.unwrap();
    }
}

#[test]
fn a_typed_or_selected_token_precedes_the_source() {
    let translator = multilingual(LanguagePlacement::TargetInSource);
    let german = translator.clone().with_languages(None, Some("de")).unwrap();
    let de = id(&german, ">>de<<");
    let words = german.tokenizers().source.encode("one blue").unwrap();
    let found = german.translate("one blue").unwrap();
    let source = [&[de], &words[..]].concat();
    assert_eq!(hypotheses(&found), searched(&german, &source, None));
    assert_eq!(found.unknown, ["blue"]);
    for text in [">>de<< one blue", "  >>de<<one blue "] {
        assert_eq!(translator.translate(text).unwrap(), found, "{text}");
        let french = german.clone().with_languages(None, Some("fr")).unwrap();
        assert_eq!(french.translate(text).unwrap(), found, "{text}");
    }
    assert_ne!(german.translate(">>fr<< one blue").unwrap(), found);
    assert_eq!(translator.translate(">>de<< ").unwrap(), Translation::default());
    // An unknown code, a token elsewhere, and none: text in the selected language, if there is one.
    for text in [">>xx<< one", "one >>de<<", ">>de one", "de"] {
        assert!(matches!(translator.translate(text), Err(InferError::LanguageNeeded { .. })));
        let source =
            german.texts().source_ids(german.texts().split(text).unwrap(), &[]).unwrap().ids;
        assert_eq!(source.iter().filter(|id| **id == de).count(), 1, "{text}");
        german.translate(text).unwrap();
    }
    let [forced, typed] = [(&german, "one two"), (&translator, ">>de<< one two")]
        .map(|(translator, source)| translator.score(&[(source, "three")], 0).unwrap().remove(0));
    assert_eq!(forced, typed);
}

/// With the token, at most as many ids as the model reads.
#[test]
fn a_long_source_is_truncated_after_its_token() {
    for placement in [LanguagePlacement::TargetInSource, LanguagePlacement::BothSides] {
        let translator = multilingual(placement);
        let source = (placement == LanguagePlacement::BothSides).then_some("en");
        let texts = translator.texts().clone().with_languages(source, Some("de")).unwrap();
        for (words, truncated) in [(10, false), (11, true), (40, true)] {
            let text = "one ".repeat(words);
            let SourceIds { ids, truncated: is_truncated, .. } =
                texts.source_ids(texts.split(&text).unwrap(), &[]).unwrap();
            assert_eq!((ids.len(), is_truncated, ids.last()), (12, truncated, Some(&EOS)));
            assert!(ids[0] > UNK && ids[0] != ids[1]);
            let tokens = texts.source(&text).unwrap();
            assert_eq!(tokens.ids, ids);
            assert_eq!(
                (tokens.word_of[0], tokens.word_of[1], tokens.word_of[11]),
                (None, Some(0), None)
            );
            assert_eq!((tokens.tokens.len(), &*tokens.tokens[11]), (12, "<eos>"));
        }
    }
}

/// A source tokenizer can add `<bos>`, which stays the first token.
#[test]
fn the_token_of_a_language_follows_the_start_of_the_source() {
    let languages = languages(LanguagePlacement::TargetInSource);
    let Tokenizers { target, .. } = tokenizers(|code| languages.token_of(code));
    let de = target.special_id(">>de<<").unwrap();
    let both = Tokenizers { source: target.clone(), target };
    let texts = PairTokenizer::of(both, 9, Some(languages));
    let texts = texts.with_languages(None, Some("de")).unwrap();
    let ids = texts.source_ids(texts.split("one").unwrap(), &[]).unwrap().ids;
    assert_eq!((ids[0], ids[1], ids[3], ids.len()), (BOS, de, EOS, 4));
    let tokens = texts.source("one").unwrap();
    assert_eq!((&tokens.ids, &tokens.word_of[..]), (&ids, &[None, None, Some(0), None][..]));
}

#[test]
fn tokens_of_languages_are_not_shown() {
    let translator = multilingual(LanguagePlacement::TargetInSource);
    let (texts, target) = (translator.texts(), &translator.tokenizers().target);
    let words = target.encode("one two").unwrap()[1..].to_vec();
    let ids = [words[0], id(&translator, ">>fr<<"), words[1], id(&translator, ">>de<<"), EOS];
    assert_eq!(texts.decode(&ids).unwrap(), "one two");
    let tokens = texts.hypothesis(&ids).unwrap();
    assert_eq!(tokens.words, ["one", "two"]);
    assert_eq!(tokens.word_of, [Some(0), None, Some(1), None, None]);
    assert_eq!(tokens.tokens, ["one", ">>fr<<", "two", ">>de<<", "<eos>"]);

    // Attention and alignments have the tokens that the model reads.
    let german = texts.clone().with_languages(None, Some("de")).unwrap();
    let source = german.source("one two").unwrap();
    assert_eq!(source.tokens, [">>de<<", "one", "two", "<eos>"]);
    let attention = Attention::of(translator.engine(), source.clone(), tokens.clone());
    assert_eq!(attention.cross[0][0].columns, 4);
    let aligner = Aligner::new(translator.engine().clone(), AlignmentOptions::default());
    let aligned = aligner.align(&[(source, tokens)]).remove(0);
    assert_eq!((aligned.source.len(), aligned.target.len()), (2, 2));
}

/// The word of an unknown token is found by its position after the token of the language.
#[test]
fn unknown_words_are_replaced_after_the_token_of_the_language() {
    let translator = multilingual(LanguagePlacement::TargetInSource);
    let options = SearchOptions {
        replace_unknown: true,
        // `<unk>` and `<eos>` only.
        suppress: (4..translator.tokenizers().target.vocab_size() as u32).collect(),
        min_len: 1,
        max_repeats: 0,
        ..SearchOptions::greedy()
    };
    let translator = translator.with_options(options).unwrap();
    for token in ["", ">>de<< "] {
        let german = match token {
            "" => translator.clone().with_languages(None, Some("de")).unwrap(),
            _ => translator.clone(),
        };
        let found = german.translate(&format!("{token}blue")).unwrap();
        let words = found.text.split(' ').zip(&found.hypotheses[0].hypothesis.sources);
        let words: Vec<(&str, usize)> = words.map(|(word, &source)| (word, source)).collect();
        assert!(!words.is_empty());
        for (word, source) in words {
            // Positions: token of the language, `blue`, `<eos>`.
            assert_eq!(word, if source == 1 { "blue" } else { "<unk>" }, "{found:?}");
        }
    }
}

#[test]
fn unknown_languages_are_refused_with_the_nearest() {
    let both = multilingual(LanguagePlacement::BothSides);
    let target = multilingual(LanguagePlacement::TargetInSource);
    let none = bundle(DecoderStart::Bos, None, hashed);
    let none = Translator::new(none, &Device::Cpu).unwrap();
    for (translator, source, code, expected) in [
        (&both, None, Some("eng"), "the model has no target language `eng`; the nearest is `en`"),
        (&both, None, Some("FR"), "the model has no target language `FR`; the nearest is `fr`"),
        (&both, Some("xx"), Some("de"), "no source language `xx`; the nearest is `de`"),
        (&target, Some("en"), Some("de"), "the model has no source language `en`"),
        (&none, None, Some("de"), "the model has no languages to select"),
    ] {
        let error = translator.clone().with_languages(source, code).unwrap_err();
        assert!(error.to_string().ends_with(expected), "{expected}: {error}");
    }
    none.with_languages(None, None).unwrap().translate("one").unwrap();
}

/// Values of a model in whose embeddings `<bos>` has the row of `from`, or zeros.
fn with_bos_row(name: &str, index: usize, from: Option<u32>) -> f32 {
    let is_row = name == "target_embedding.weight" && index / 8 == BOS as usize;
    match from {
        Some(from) if is_row => hashed(name, index % 8 + from as usize * 8),
        None if is_row => 0.0,
        _ => hashed(name, index),
    }
}

/// A decoder that starts with a token has the results of one that starts with `<bos>`, if `<bos>` has
/// the embedding of that token.
#[test]
fn the_decoder_starts_with_the_token_of_the_configuration() {
    let of = |start, values: Values| {
        let bundle = bundle(start, None, values);
        let options = SearchOptions { beam: 3, n_best: 3, ..SearchOptions::default() };
        Translator::new(bundle, &Device::Cpu).unwrap().with_options(options).unwrap()
    };
    let plain = of(DecoderStart::Bos, hashed);
    for (start, values) in [
        (DecoderStart::Pad, (|name, index| with_bos_row(name, index, Some(PAD))) as Values),
        (DecoderStart::Eos, |name, index| with_bos_row(name, index, Some(EOS))),
        (DecoderStart::Zero, |name, index| with_bos_row(name, index, None)),
    ] {
        let (started, expected) = (of(start, hashed), of(DecoderStart::Bos, values));
        assert_eq!(started.engine().start(), start_id(start));
        let multilingual = Some(languages(LanguagePlacement::BothSides));
        // Other devices read the weights when the model is built.
        let folder = saved(start, multilingual, hashed);
        let checked = Bundle::open(folder.path()).unwrap();
        let results = crate::check::check(&checked, &Device::Cpu, crate::check::LIMIT).unwrap();
        assert!(results.iter().all(|result| result.passed()), "{start:?}: {results:?}");
        let text = "one three two";
        for options in [
            SearchOptions { beam: 3, n_best: 3, ..SearchOptions::default() },
            SearchOptions::greedy(),
            SearchOptions::sampling(crate::Sampling { samples: 2, ..crate::Sampling::default() }),
        ] {
            let [started, expected, plain] = [&started, &expected, &plain].map(|translator| {
                translator.translate_batch_with(&[text], &options, &Cancellation::new()).unwrap()
            });
            assert_eq!(started, expected, "{start:?}");
            assert_ne!(started, plain, "{start:?}");
        }
        let pairs = [(text, "two one")];
        let [scores, others] =
            [&started, &expected].map(|translator| translator.score(&pairs, 0).unwrap());
        assert_eq!(scores, others, "{start:?}");
        // The same maps, with the start among the labels of the decoder.
        let maps = |translator: &Translator| {
            let texts = translator.texts();
            let (source, target) = (texts.source(text).unwrap(), texts.target("two one").unwrap());
            Attention::of(translator.engine(), source, target)
        };
        let (maps, others) = (maps(&started), maps(&expected));
        assert_eq!((&maps.cross, &maps.decoder), (&others.cross, &others.decoder), "{start:?}");
        let (rows, _) = maps.labels(crate::AttentionKind::Decoder);
        let label = match start {
            DecoderStart::Pad => "<pad>",
            DecoderStart::Eos => "<eos>",
            DecoderStart::Bos | DecoderStart::Zero => "<bos>",
        };
        assert_eq!(rows.tokens[0], label);
        // In an ensemble each model has its own start.
        let both = started.clone().with_member("a".as_ref(), "b".as_ref(), expected.clone());
        let (both, alone) = (both.unwrap().translate(text), started.translate(text));
        for (both, alone) in both.unwrap().hypotheses.iter().zip(alone.unwrap().hypotheses) {
            assert_eq!(both.hypothesis.ids, alone.hypothesis.ids, "{start:?}");
            assert!((both.hypothesis.score - alone.hypothesis.score).abs() < 1e-5, "{start:?}");
        }
    }
}

#[test]
fn weights_of_an_opened_bundle_are_readable() {
    let bundle = bundle(DecoderStart::Bos, None, hashed);
    let (shape, values) = bundle.weight("target_embedding.weight").unwrap();
    let expected: Vec<f32> =
        (0..shape[0] * 8).map(|index| hashed("target_embedding.weight", index)).collect();
    assert_eq!(values, Cow::Borrowed(&expected[..]));
}
