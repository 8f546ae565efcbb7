//! Translations as lines: plain text, n-best lists, JSON.

use std::io::{self, Write};

use serde_json::{Value, json};
use tx_infer::{Scored, Translation, Translator};

/// How translations are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// The best one, a line for each line.
    Text,
    /// All of them, a line each, as Moses writes n-best lists.
    NBest,
    /// All of them with tokens and scores, an object for each line.
    Json,
}

/// Writes translations in one format.
pub struct Output<'a> {
    pub format: Format,
    pub translator: &'a Translator,
}

impl Output<'_> {
    /// Writes what became of the line `number`, from 0, which says `source`.
    pub fn write(
        &self,
        out: &mut impl Write,
        number: u64,
        source: &str,
        translation: &Translation,
    ) -> io::Result<()> {
        match self.format {
            Format::Text => writeln!(out, "{}", translation.text),
            Format::NBest => n_best(out, number, &translation.hypotheses),
            Format::Json => writeln!(out, "{}", self.json(number, source, translation)),
        }
    }

    fn json(&self, number: u64, source: &str, translation: &Translation) -> Value {
        let hypotheses = translation.hypotheses.iter().map(|Scored { text, hypothesis }| {
            let vocabulary = &self.translator.tokenizers().target;
            let tokens: Vec<Option<String>> =
                hypothesis.ids.iter().map(|&id| vocabulary.token(id)).collect();
            json!({
                "text": text,
                "score": hypothesis.score,
                "log_probability": hypothesis.log_probability,
                "tokens": tokens,
                "ids": hypothesis.ids,
            })
        });
        json!({
            "line": number + 1,
            "source": source,
            "text": translation.text,
            "cut": translation.cut,
            "translations": hypotheses.collect::<Vec<_>>(),
        })
    }
}

/// `NUMBER ||| TEXT ||| logprob= LOG_PROBABILITY ||| SCORE`. A line without words has one
/// translation, which is empty and certain.
fn n_best(out: &mut impl Write, number: u64, hypotheses: &[Scored]) -> io::Result<()> {
    if hypotheses.is_empty() {
        return writeln!(out, "{number} |||  ||| logprob= 0 ||| 0");
    }
    for Scored { text, hypothesis } in hypotheses {
        let (log_probability, score) = (hypothesis.log_probability, hypothesis.score);
        writeln!(out, "{number} ||| {text} ||| logprob= {log_probability:.6} ||| {score:.6}")?;
    }
    Ok(())
}
