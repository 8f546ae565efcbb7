//! Translations as lines: plain text, n-best lists, JSON.

use std::io::{self, Write};

use serde_json::{Value, json};
use tx_infer::{Line, Scored, Translation, Translator};

use crate::{
    align::{self, AlignmentFormat, TextAligner},
    progress::Progress,
    terminal::stderr,
    text::Stop,
    unknown_words::UnknownWords,
};

/// How translations are written.
pub enum Format {
    /// The best one, a line for each line.
    Text,
    /// All of them, a line each, as Moses writes n-best lists.
    NBest,
    /// All of them with tokens and scores, an object for each line.
    Json,
    /// The best one and which of its words came from which.
    Aligned(AlignmentFormat, Box<TextAligner>),
}

/// Writes translations in one format.
pub struct Output<'a> {
    pub format: Format,
    pub translator: &'a Translator,
    /// Whether to print no warnings.
    pub quiet: bool,
    pub progress: Progress,
    pub unknown: UnknownWords,
}

impl Output<'_> {
    /// Writes what became of `lines`.
    pub fn write(
        &self,
        out: &mut impl Write,
        lines: &[Line<'_>],
        translations: &[Translation],
    ) -> Result<(), Stop> {
        let mut each = lines.iter().zip(translations);
        match &self.format {
            Format::Text => each.try_for_each(|(_, found)| writeln!(out, "{}", found.text))?,
            Format::NBest => {
                each.try_for_each(|(line, found)| n_best(out, line.number, &found.hypotheses))?;
            }
            Format::Json => each.try_for_each(|(line, found)| {
                writeln!(out, "{}", self.json(line.number, line.text, found))
            })?,
            Format::Aligned(format, aligner) => {
                let texts: Vec<&str> = lines.iter().map(|line| line.text).collect();
                let alignments = aligner.translations(&texts, translations)?;
                for (found, alignment) in translations.iter().zip(&alignments) {
                    writeln!(out, "{}", align::line(*format, &found.text, alignment))?;
                }
            }
        }
        Ok(())
    }

    /// Warns of lines that were too long for the model, and of words that it does not know.
    pub fn warn(&mut self, lines: &[Line<'_>], translations: &[Translation]) -> io::Result<()> {
        if self.quiet {
            return Ok(());
        }
        let max_len = self.translator.config().max_len;
        for (line, found) in lines.iter().zip(translations) {
            let number = line.number + 1;
            let truncated = found.truncated.then(|| {
                format!(
                    "line {number} was truncated to the {max_len} tokens that this model can read"
                )
            });
            let unknown = self.unknown.add(&found.unknown).map(|words| {
                format!("unknown words in line {number}, which the model cannot translate: {words}")
            });
            for warning in truncated.into_iter().chain(unknown) {
                self.progress.suspend(|| writeln!(stderr(), "warning: {warning}"))?;
            }
        }
        Ok(())
    }

    /// Prints how many unknown words there were, if not all of them were listed.
    pub fn count_unknown_words(&self) -> io::Result<()> {
        match self.unknown.summary().filter(|_| !self.quiet) {
            Some(summary) => {
                self.progress.suspend(|| writeln!(stderr(), "warning: unknown words: {summary}"))
            }
            None => Ok(()),
        }
    }

    fn json(&self, number: u64, source: &str, translation: &Translation) -> Value {
        let hypotheses = translation.hypotheses.iter().map(|scored| {
            let Scored { text, hypothesis, .. } = scored;
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
            "truncated": translation.truncated,
            "unknown": translation.unknown,
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
    for Scored { text, hypothesis, .. } in hypotheses {
        let (log_probability, score) = (hypothesis.log_probability, hypothesis.score);
        writeln!(out, "{number} ||| {text} ||| logprob= {log_probability:.6} ||| {score:.6}")?;
    }
    Ok(())
}
