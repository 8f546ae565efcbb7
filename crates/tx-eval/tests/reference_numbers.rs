//! Compares every number and signature with sacreBLEU and jiwer, on the corpus of
//! `fixtures/generate.py`: eight languages, and lines for edge cases of the tokenizer.

#![allow(clippy::expect_used, clippy::panic, reason = "helpers of tests may panic")]

use std::collections::HashMap;

use serde::Deserialize;
use tx_eval::{Bleu, Smoothing, Tokenizer, cer, exact_match, wer};

#[derive(Deserialize)]
struct Fixture {
    /// Names of the corpora that form the corpus `all`, in this order.
    languages: Vec<String>,
    corpora: HashMap<String, Corpus>,
    bleu: Vec<BleuCase>,
    error_rates: Vec<ErrorRateCase>,
    tokens: Tokens,
}

#[derive(Deserialize, Default, Clone)]
struct Corpus {
    hypotheses: Vec<String>,
    references: [Vec<String>; 2],
}

#[derive(Deserialize)]
struct BleuCase {
    corpus: String,
    tokenizer: String,
    smoothing: String,
    /// The smoothing value, if it is not the default.
    value: Option<f64>,
    lowercase: bool,
    references: usize,
    score: f64,
    precisions: [f64; 4],
    counts: [usize; 4],
    totals: [usize; 4],
    bp: f64,
    hyp_len: usize,
    ref_len: usize,
    signature: String,
    line: String,
}

#[derive(Deserialize)]
struct ErrorRateCase {
    corpus: String,
    cer: f64,
    character_edits: usize,
    wer: f64,
    word_edits: usize,
    equal_lines: usize,
}

#[derive(Deserialize)]
struct Tokens {
    /// Pairs of a line and its words.
    lines: Vec<(String, Vec<String>)>,
    /// Short lines, joined, with `|` at word boundaries.
    grid: String,
}

impl Fixture {
    fn read() -> Self {
        let mut fixture: Self = serde_json::from_str(include_str!("fixtures/reference.json"))
            .expect("the fixture is what generate.py writes");
        let mut all = Corpus::default();
        for language in &fixture.languages {
            let Corpus { hypotheses, references: [first, second] } =
                fixture.corpora[language].clone();
            all.hypotheses.extend(hypotheses);
            all.references[0].extend(first);
            all.references[1].extend(second);
        }
        fixture.corpora.insert("all".to_owned(), all);
        fixture
    }
}

impl BleuCase {
    fn settings(&self) -> Bleu {
        let tokenizer = match self.tokenizer.as_str() {
            "13a" => Tokenizer::V13a,
            "none" => Tokenizer::None,
            other => panic!("unknown tokenizer {other}"),
        };
        let smoothing = match (self.smoothing.as_str(), self.value) {
            ("exp", None) => Smoothing::Exp,
            ("none", None) => Smoothing::None,
            ("floor", None) => Smoothing::FLOOR,
            ("floor", Some(value)) => Smoothing::Floor(value),
            ("add-k", None) => Smoothing::ADD_K,
            ("add-k", Some(value)) => Smoothing::AddK(value),
            other => panic!("unknown smoothing {other:?}"),
        };
        Bleu { tokenizer, smoothing, lowercase: self.lowercase, ..Bleu::default() }
    }
}

fn assert_close(found: f64, expected: f64, what: &str) {
    assert!((found - expected).abs() < 1e-9, "{what}: found {found}, expected {expected}");
}

#[test]
fn bleu_is_that_of_sacrebleu() {
    let fixture = Fixture::read();
    assert!(fixture.corpora["all"].hypotheses.len() >= 300);
    assert!(fixture.bleu.len() >= 300);
    for case in &fixture.bleu {
        let corpus = &fixture.corpora[&case.corpus];
        let found = case
            .settings()
            .corpus_score(&corpus.hypotheses, &corpus.references[..case.references])
            .unwrap();

        let what = format!("corpus `{}`, {}", case.corpus, case.signature);
        assert_eq!(found.signature.to_string(), case.signature);
        assert_eq!(found.counts, case.counts, "{what}");
        assert_eq!(found.totals, case.totals, "{what}");
        assert_eq!(found.hypothesis_len, case.hyp_len, "{what}");
        assert_eq!(found.reference_len, case.ref_len, "{what}");
        assert_close(found.brevity_penalty, case.bp, &what);
        for (found, expected) in found.precisions.into_iter().zip(case.precisions) {
            assert_close(found, expected, &what);
        }
        assert_close(found.score, case.score, &what);
        assert_eq!(found.to_string(), case.line, "{what}");
    }
}

#[test]
fn error_rates_are_those_of_jiwer() {
    let fixture = Fixture::read();
    for case in &fixture.error_rates {
        let Corpus { hypotheses, references: [reference, _] } = &fixture.corpora[&case.corpus];

        let found = cer(hypotheses, reference).unwrap();
        assert_eq!(found.edits, case.character_edits, "corpus `{}`", case.corpus);
        assert_close(found.score, case.cer, &case.corpus);

        let found = wer(hypotheses, reference).unwrap();
        assert_eq!(found.edits, case.word_edits, "corpus `{}`", case.corpus);
        assert_close(found.score, case.wer, &case.corpus);

        let found = exact_match(hypotheses, reference).unwrap();
        assert_eq!(found.matches, case.equal_lines, "corpus `{}`", case.corpus);
    }
}

#[test]
fn tokens_are_those_of_sacrebleu() {
    let Tokens { lines, grid } = Fixture::read().tokens;
    for (line, words) in lines {
        assert_eq!(Tokenizer::V13a.tokenize(&line), words, "line {line:?}");
    }
    for words in grid.split(' ') {
        let line = words.replace('|', "");
        assert_eq!(Tokenizer::V13a.tokenize(&line).join("|"), words, "line {line:?}");
    }
}
