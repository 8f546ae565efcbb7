//! Models that read context, on the packed engine.

use tx_model::DecoderStart;
use tx_text::context::SEPARATOR;

use super::{
    languages::{hypotheses, multilingual_with, searched, with_context},
    *,
};
use crate::{Bundle, Device, LanguagePlacement, bundle::BundleInfo};

fn lines(lines: &[&str]) -> Vec<String> {
    lines.iter().map(|&line| line.to_owned()).collect()
}

/// Ids of `sentence <sep> sentence <sep> text <eos>`.
fn ids(translator: &Translator, sentences: &[&str], text: &str) -> Vec<u32> {
    let source = &translator.tokenizers().source;
    let separator = source.special_id(SEPARATOR).unwrap();
    let mut ids = Vec::new();
    for sentence in sentences {
        let sentence = source.encode(sentence).unwrap();
        ids.extend(&sentence[..sentence.len() - 1]);
        ids.push(separator);
    }
    ids.extend(source.encode(text).unwrap());
    ids
}

#[test]
fn lines_are_read_with_those_before_them_in_their_document() {
    let translator = with_context(2);
    assert_eq!(translator.texts().context(), 2);
    let text = lines(&["one", "two one", "three", "", "two", "one two", "one one three"]);
    let found = translator.translate_document(&text).unwrap();
    for (index, context) in [
        (0, &[][..]),
        (1, &["one"]),
        (2, &["one", "two one"]),
        (4, &[]),
        (5, &["two"]),
        (6, &["two", "one two"]),
    ] {
        let source = ids(&translator, context, &text[index]);
        assert_eq!(hypotheses(&found[index]), searched(&translator, &source, None), "{index}");
    }
    assert_eq!(found[3], Translation::default());
    let alone = translator.clone().with_context(0).unwrap();
    assert_eq!(alone.translate_document(&text).unwrap(), alone.translate_batch(&text).unwrap());
    assert_ne!(alone.translate_document(&text).unwrap(), found);
    let one = translator.with_context(1).unwrap().translate_document(&text).unwrap();
    assert_eq!((&one[1], &one[5]), (&found[1], &found[5]));
}

/// The model reads 12 tokens: five words in a text with `<eos>` leave room for two words and two separators.
#[test]
fn the_oldest_context_is_left_out_first_and_never_the_text() {
    let translator = with_context(9);
    let before = lines(&["one one one", "two", "three"]);
    let text = "one two three two one two";
    let line = Line { context: &before, ..Line::new(text, 0) };
    let never = Cancellation::new();
    let found = translator.translate_all(&[line], translator.options(), &never).unwrap();
    let source = ids(&translator, &["two", "three"], text);
    assert_eq!(source.len(), 11);
    assert_eq!(hypotheses(&found[0]), searched(&translator, &source, None));
    assert!(!found[0].truncated);
    // A text that is too long leaves no room for context.
    let long = "one ".repeat(40);
    let line = Line { context: &before, ..Line::new(&long, 0) };
    let found = translator.translate_all(&[line], translator.options(), &never).unwrap();
    assert_eq!(found[0], translator.translate(&long).unwrap());
}

/// `translate_text` reads each sentence with those before it in the text.
#[test]
fn sentences_of_a_text_are_context() {
    let translator = with_context(1);
    let found = translator.translate_text("One two. Three one.").unwrap();
    let text = lines(&["One two.", "Three one."]);
    let expected = translator.translate_document(&text).unwrap();
    let found: Vec<_> = found.sentences.into_iter().map(|sentence| sentence.translation).collect();
    assert_eq!(found, expected);
}

/// The token of a language is the first one, before the context, as in training.
#[test]
fn context_follows_the_token_of_a_language() {
    let translator = multilingual_with(LanguagePlacement::TargetInSource, 1);
    let german = translator.with_languages(None, Some("de")).unwrap();
    let before = lines(&["two"]);
    let line = Line { context: &before, ..Line::new("one", 0) };
    let never = Cancellation::new();
    let found = german.translate_all(&[line], german.options(), &never).unwrap();
    let de = german.tokenizers().source.special_id(">>de<<").unwrap();
    let source = [&[de], &ids(&german, &["two"], "one")[..]].concat();
    assert_eq!(hypotheses(&found[0]), searched(&german, &source, None));
    assert!(found[0].unknown.is_empty());
}

#[test]
fn given_translations_are_scored_in_context() {
    let translator = with_context(1);
    let before = lines(&["two one"]);
    let line = Line::new("one", 0);
    let pairs = [(Line { context: &before, ..line }, "three"), (line, "three")];
    let found = translator.score_lines(&pairs, &Cancellation::new()).unwrap();
    let source = ids(&translator, &["two one"], "one");
    let target = &found[0].ids;
    let expected =
        translator.engine().log_probabilities(&[(&source, target)], &Cancellation::new()).unwrap();
    assert_eq!(found[0].log_probabilities, expected[0]);
    assert_ne!(found[0].log_probabilities, found[1].log_probabilities);
    assert_eq!(found[1], translator.score(&[("one", "three")], 0).unwrap()[0]);
}

/// A model without context reads none, and refuses to be asked for some.
#[test]
fn a_model_without_context_ignores_what_is_before_a_line() {
    let translator = with_context(0);
    let text = lines(&["one", "two one", "three"]);
    let found = translator.translate_document(&text).unwrap();
    assert_eq!(found, translator.translate_batch(&text).unwrap());
    let line = Line { context: &text, ..Line::new("two", 0) };
    let never = Cancellation::new();
    let found = translator.translate_all(&[line], translator.options(), &never).unwrap();
    assert_eq!(found[0], translator.translate("two").unwrap());
    let message =
        |sentences, trained| with_context(trained).with_context(sentences).unwrap_err().to_string();
    assert_eq!(
        [message(1, 0), message(3, 2)],
        [
            "a context of 1 sentence, but the model was trained with none",
            "a context of 3 sentences, but the model was trained with at most 2"
        ]
    );
}

#[test]
fn a_bundle_records_its_context_and_needs_a_separator() {
    let folder = languages::saved_with(DecoderStart::Bos, None, 2, true).unwrap();
    assert_eq!(Bundle::open(folder.path()).unwrap().context, 2);
    assert_eq!(BundleInfo::read(folder.path()).unwrap().context, 2);
    let copy = tempfile::tempdir().unwrap();
    Bundle::open(folder.path()).unwrap().quantize(copy.path()).unwrap();
    let quantized = Bundle::open(copy.path()).unwrap();
    assert_eq!(Translator::new(quantized, &Device::Cpu).unwrap().texts().context(), 2);
    for (context, has_separator, problem) in [
        (1, false, "`context` = 1, but the source tokenizer has no <sep>"),
        (101, true, "`context` = 101 must be at most 100"),
    ] {
        let error = languages::saved_with(DecoderStart::Bos, None, context, has_separator);
        let error = error.unwrap_err().to_string();
        assert!(error.contains(problem), "{error}");
    }
    // A bundle without context does not mention it.
    let folder = languages::saved_with(DecoderStart::Bos, None, 0, true).unwrap();
    let config = std::fs::read_to_string(folder.path().join("config.toml")).unwrap();
    assert!(!config.contains("context"), "{config}");
}
