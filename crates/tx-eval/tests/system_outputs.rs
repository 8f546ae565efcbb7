//! Compares scores, signatures, confidence intervals and p-values of system outputs in eight
//! languages with sacreBLEU, and error rates with jiwer, on the output of
//! `fixtures/generate_systems.py`.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "helpers of tests may panic"
)]

use std::{collections::HashMap, io::Read, sync::LazyLock};

use flate2::read::GzDecoder;
use serde::Deserialize;
use tx_eval::{
    Bleu, Chrf, Corpus, ErrorRate, Metric, SegmentStatistics, Smoothing, Ter, Tokenizer, Unit,
    confidence::{self, Resampling},
    paired,
};

#[derive(Deserialize)]
struct Fixture {
    corpora: HashMap<String, Systems>,
    metrics: Vec<Settings>,
    /// Signatures by index of the metric and number of references.
    signatures: HashMap<String, String>,
    /// Corpus, system, number of references, scores of the metrics.
    scores: Vec<(String, usize, String, Vec<Option<f64>>)>,
    /// Corpus, metric, number of references, scores of all lines.
    sentences: Vec<(String, usize, usize, Vec<f64>)>,
    /// Corpus, metric, numbers of references and samples, mean, half width, signature.
    confidence: Vec<(String, usize, usize, usize, f64, f64, String)>,
    paired: Vec<PairedCase>,
    error_rates: Vec<ErrorRateCase>,
    tokens: Tokens,
}

#[derive(Deserialize)]
struct Systems {
    systems: Vec<Vec<String>>,
    references: Vec<Vec<String>>,
}

/// Arguments of sacreBLEU's Python classes.
#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
struct Settings {
    kind: String,
    tokenize: String,
    smooth_method: Option<String>,
    smooth_value: Option<f64>,
    effective_order: bool,
    lowercase: bool,
    char_order: Option<usize>,
    word_order: usize,
    beta: Option<u32>,
    whitespace: bool,
    eps_smoothing: bool,
    case_sensitive: bool,
    normalized: bool,
    no_punct: bool,
    asian_support: bool,
}

/// Corpus, system, lower case, no punctuation; edits and lengths in characters and words.
type ErrorRateCase = (String, usize, bool, bool, [usize; 2], [usize; 2]);

/// Score, p-value, mean and half width.
type ComparedCase = (f64, Option<f64>, Option<f64>, Option<f64>);

/// Corpus, metric, number of references, test, numbers of trials and of samples for the intervals,
/// signature; and each system.
#[derive(Deserialize)]
struct PairedCase(String, usize, usize, String, usize, i64, String, Vec<ComparedCase>);

#[derive(Deserialize)]
struct Tokens {
    lines: Vec<String>,
    words: HashMap<String, Vec<Vec<String>>>,
}

static FIXTURE: LazyLock<Fixture> = LazyLock::new(|| {
    let mut text = String::new();
    GzDecoder::new(&include_bytes!("fixtures/systems.json.gz")[..])
        .read_to_string(&mut text)
        .expect("the fixture is gzip");
    serde_json::from_str(&text).expect("the fixture is what generate_systems.py writes")
});

const TOKENIZERS: [Tokenizer; 5] =
    [Tokenizer::V13a, Tokenizer::Intl, Tokenizer::Zh, Tokenizer::Char, Tokenizer::None];

impl Settings {
    fn metric(&self) -> Box<dyn Metric> {
        match self.kind.as_str() {
            "BLEU" => Box::new(Bleu {
                tokenizer: tokenizer(&self.tokenize),
                smoothing: match (self.smooth_method.as_deref(), self.smooth_value) {
                    (None, None) => Smoothing::Exp,
                    (Some("none"), None) => Smoothing::None,
                    (Some("floor"), value) => value.map_or(Smoothing::FLOOR, Smoothing::Floor),
                    (Some("add-k"), value) => value.map_or(Smoothing::ADD_K, Smoothing::AddK),
                    other => panic!("unknown smoothing {other:?}"),
                },
                lowercase: self.lowercase,
                effective_order: self.effective_order,
            }),
            "chrF" => Box::new(Chrf {
                char_order: self.char_order.unwrap_or(6),
                word_order: self.word_order,
                beta: self.beta.unwrap_or(2),
                lowercase: self.lowercase,
                whitespace: self.whitespace,
                eps_smoothing: self.eps_smoothing,
            }),
            "TER" => Box::new(Ter {
                normalized: self.normalized,
                no_punct: self.no_punct,
                asian_support: self.asian_support,
                case_sensitive: self.case_sensitive,
            }),
            other => panic!("unknown metric {other}"),
        }
    }
}

fn tokenizer(name: &str) -> Tokenizer {
    TOKENIZERS.into_iter().find(|found| found.name() == name).expect("a known tokenizer")
}

/// References of a corpus; for the number `var`, with some lines missing.
fn references<'a>(corpus: &'a Systems, number: &str) -> Vec<Vec<Option<&'a str>>> {
    let (count, varies) = match number {
        "var" => (3, true),
        _ => (number.parse().expect("a number of references"), false),
    };
    let mut references: Vec<Vec<Option<&str>>> = corpus.references[..count]
        .iter()
        .map(|lines| lines.iter().map(|line| Some(line.as_str())).collect())
        .collect();
    if varies {
        references[1].iter_mut().step_by(3).for_each(|line| *line = None);
        for (index, line) in references[2].iter_mut().enumerate() {
            if index % 4 != 1 {
                *line = None;
            }
        }
    }
    references
}

fn statistics(
    metric: &dyn Metric,
    corpus: &Systems,
    system: usize,
    number: &str,
) -> SegmentStatistics {
    let references = references(corpus, number);
    let corpus = Corpus::new(&corpus.systems[system], &references).unwrap();
    metric.statistics(&corpus).unwrap()
}

fn assert_close(found: f64, expected: f64, what: &str) {
    assert!((found - expected).abs() <= 1e-6, "{what}: found {found}, expected {expected}");
}

#[test]
fn scores_and_signatures_of_system_outputs_are_those_of_sacrebleu() {
    let fixture = &*FIXTURE;
    let metrics: Vec<_> = fixture.metrics.iter().map(Settings::metric).collect();
    let outputs: usize = fixture.corpora.values().map(|corpus| corpus.systems.len()).sum();
    assert!(outputs >= 50 && fixture.corpora.len() >= 8);
    for (name, system, number, scores) in &fixture.scores {
        let corpus = &fixture.corpora[name];
        for (index, metric) in metrics.iter().enumerate() {
            let Some(score) = scores[index] else { continue };
            let statistics = statistics(&**metric, corpus, *system, number);
            let found = metric.score(&statistics);
            let signature = found.signature.to_string();
            assert_eq!(signature, fixture.signatures[&format!("{index} {number}")]);
            let what = format!("{name} {system}: {} {signature}", found.name);
            assert_close(found.value, score, &what);
        }
    }
}

#[test]
fn sentence_scores_are_those_of_sacrebleu() {
    let fixture = &*FIXTURE;
    for (name, metric, number, scores) in &fixture.sentences {
        let corpus = &fixture.corpora[name];
        let metric = fixture.metrics[*metric].metric();
        let system = corpus.systems.len().min(5) - 1;
        let statistics = statistics(&*metric, corpus, system, &number.to_string());
        let found = metric.line_scores(&statistics);
        assert_eq!(found.len(), scores.len());
        for (line, (found, expected)) in found.into_iter().zip(scores).enumerate() {
            let what = format!("{name} line {}: {}", line + 1, metric.name());
            assert_close(found, *expected, &what);
        }
    }
}

#[test]
fn confidence_intervals_are_those_of_sacrebleu() {
    let fixture = &*FIXTURE;
    for (name, metric, number, samples, mean, half_width, signature) in &fixture.confidence {
        let metric = fixture.metrics[*metric].metric();
        let statistics = statistics(&*metric, &fixture.corpora[name], 3, &number.to_string());
        let resampling = Resampling { samples: *samples, ..Resampling::BOOTSTRAP };
        let found = confidence::estimate(&*metric, &statistics, resampling).unwrap();
        assert_eq!(found.signature.to_string(), *signature);
        let what = format!("{name} {}, {samples} samples", metric.name());
        assert_close(found.interval.mean, *mean, &what);
        assert_close(found.interval.half_width, *half_width, &what);
    }
}

/// System 3 is the baseline and is also compared with itself.
#[test]
fn p_values_are_those_of_sacrebleu() {
    let fixture = &*FIXTURE;
    for PairedCase(name, metric, number, test, trials, samples, signature, expected) in
        &fixture.paired
    {
        let metric = fixture.metrics[*metric].metric();
        let systems = [3, 2, 4, 3].map(|system| {
            statistics(&*metric, &fixture.corpora[name], system, &number.to_string())
        });
        let resampling = Resampling { samples: *trials, seed: Resampling::SEED };
        let found = match test.as_str() {
            "bs" => paired::bootstrap(&*metric, &systems, resampling),
            _ => {
                let samples = usize::try_from(*samples).ok();
                paired::randomization(&*metric, &systems, resampling, samples)
            }
        }
        .unwrap();
        assert_eq!(found.signature.to_string(), *signature);
        for (index, (found, expected)) in found.systems.iter().zip(expected).enumerate() {
            let what = format!("{name} {} {test} {trials} system {index}", metric.name());
            let (score, p_value, mean, half_width) = *expected;
            assert_close(found.score, score, &what);
            // Comparison of the counts, because the last digit of the fixture's decimals may
            // differ.
            let count = |p: Option<f64>| p.map(|p| (p * (*trials as f64 + 1.0) * 1e6).round());
            assert_eq!(count(found.p_value), count(p_value), "{what}");
            assert_eq!(found.interval.is_some(), mean.is_some(), "{what}");
            if let (Some(interval), Some(mean), Some(half_width)) =
                (found.interval, mean, half_width)
            {
                assert_close(interval.mean, mean, &what);
                assert_close(interval.half_width, half_width, &what);
            }
        }
    }
}

#[test]
fn error_rates_without_case_and_punctuation_are_those_of_jiwer() {
    let fixture = &*FIXTURE;
    for (name, system, lowercase, no_punct, edits, lengths) in &fixture.error_rates {
        let corpus = &fixture.corpora[name];
        // The fixture collapses each run of white space to one space.
        let spaced = |lines: &[String]| -> Vec<String> {
            lines.iter().map(|line| Tokenizer::None.tokenize(line).join(" ")).collect()
        };
        let (hypotheses, references) =
            (spaced(&corpus.systems[*system]), spaced(&corpus.references[0]));
        for (unit, edits, length) in
            [(Unit::Character, edits[0], lengths[0]), (Unit::Word, edits[1], lengths[1])]
        {
            let rate = ErrorRate { unit, lowercase: *lowercase, no_punct: *no_punct };
            let found = rate.corpus_score(&hypotheses, &references).unwrap();
            let what = format!("{name} {system} {rate:?}");
            assert_eq!((found.edits, found.reference_len), (edits, length), "{what}");
        }
    }
}

#[test]
fn words_are_those_of_sacrebleu() {
    let Tokens { lines, words } = &FIXTURE.tokens;
    assert_eq!(words.len(), 3);
    for (name, words) in words {
        for (line, words) in lines.iter().zip(words) {
            assert_eq!(tokenizer(name).tokenize(line), *words, "{name} {line:?}");
        }
    }
}
