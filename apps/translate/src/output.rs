//! Translations as lines: plain text, n-best lists, JSON.

use std::io::{self, Write};

use tx_cli::terminal::stderr;
use tx_infer::{Cancellation, Confidence, InferError, Line, Scored, Term, Translation, Translator};

use crate::{
    align::{self, AlignmentFormat, TextAligner},
    lines::of_line,
    progress::Progress,
    unknown_words::UnknownWords,
};

/// Output format of translations.
pub enum Format {
    /// The best hypothesis, one line per input line.
    Text,
    /// The best hypothesis and its confidence.
    Confidence,
    /// All hypotheses, one line each, in the n-best format of Moses.
    NBest,
    /// All hypotheses with tokens and scores, one JSON object per input line; also the confidence.
    Json { confidence: bool },
    /// The best hypothesis with its word alignment.
    Aligned(AlignmentFormat, Box<TextAligner>),
}

/// Error that ends the translation before the last line.
pub enum Stop {
    /// The model or its tokenizers failed.
    Infer(InferError),
    /// A translation could not be written.
    Write(io::Error),
}

impl From<InferError> for Stop {
    fn from(error: InferError) -> Self {
        Self::Infer(error)
    }
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Self::Write(error)
    }
}

impl From<Stop> for anyhow::Error {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Infer(error) => error.into(),
            Stop::Write(error) => error.into(),
        }
    }
}

/// Writer of translations in one format, and of warnings.
pub struct Output<'a> {
    pub format: Format,
    pub translator: &'a Translator,
    /// Whether warnings are omitted.
    pub quiet: bool,
    pub progress: Progress,
    pub unknown: UnknownWords,
}

impl Output<'_> {
    /// Writes the `translations` of `lines`.
    pub fn write(
        &self,
        out: &mut impl Write,
        lines: &[Line<'_>],
        translations: &[Translation],
    ) -> Result<(), Stop> {
        let mut pairs = lines.iter().zip(translations);
        match &self.format {
            Format::Text => pairs.try_for_each(|(_, found)| writeln!(out, "{}", found.text))?,
            Format::Confidence => {
                for (found, confidence) in
                    translations.iter().zip(self.confidences(lines, translations)?)
                {
                    writeln!(out, "{}\t{:.4}", found.text, confidence.probability)?;
                }
            }
            Format::NBest => {
                pairs.try_for_each(|(line, found)| n_best(out, line.number, &found.hypotheses))?;
            }
            Format::Json { confidence } => {
                let confidences = match confidence {
                    true => self.confidences(lines, translations)?,
                    false => Vec::new(),
                };
                for (index, (line, found)) in pairs.enumerate() {
                    let mut object = self.translator.to_json(found);
                    if let Some(confidence) = confidences.get(index) {
                        object["confidence"] = confidence.to_json();
                    }
                    writeln!(out, "{}", of_line(object, line.number + 1, "source", line.text))?;
                }
            }
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

    /// Returns the confidence in the translations of `lines`.
    fn confidences(
        &self,
        lines: &[Line<'_>],
        translations: &[Translation],
    ) -> Result<Vec<Confidence>, InferError> {
        self.translator.confidences(lines, translations, &Cancellation::new())
    }

    /// Warns about truncated lines, unknown words and terms that are not translated.
    pub fn warn(&mut self, lines: &[Line<'_>], translations: &[Translation]) -> io::Result<()> {
        if self.quiet {
            return Ok(());
        }
        let max_len = self.translator.config().max_len;
        for (line, found) in lines.iter().zip(translations) {
            let number = line.number + 1;
            let truncated = found.truncated.then(|| {
                format!(
                    "line {number} was truncated to {max_len} tokens, the maximum of this model"
                )
            });
            let unknown = self.unknown.add(&found.unknown).map(|words| {
                format!("unknown words in line {number}, which the model cannot translate: {words}")
            });
            let terms = found.terms.iter().filter(|term| !term.is_used).map(|Term { source, target, .. }| {
                format!("the translation of line {number} lacks `{target}` for `{source}`, a term of the glossary")
            });
            for warning in truncated.into_iter().chain(unknown).chain(terms) {
                self.progress.suspend(|| writeln!(stderr(), "warning: {warning}"))?;
            }
        }
        Ok(())
    }

    /// Prints the number of unknown words, unless all of them were listed.
    pub fn count_unknown_words(&self) -> io::Result<()> {
        match self.unknown.summary().filter(|_| !self.quiet) {
            Some(summary) => {
                self.progress.suspend(|| writeln!(stderr(), "warning: unknown words: {summary}"))
            }
            None => Ok(()),
        }
    }
}

/// Writes `NUMBER ||| TEXT ||| logprob= LOG_PROBABILITY ||| SCORE` for each hypothesis; with minimum
/// Bayes risk, the score is the expected utility. A line without words has one translation, which is
/// empty and has probability 1.
fn n_best(out: &mut impl Write, number: u64, hypotheses: &[Scored]) -> io::Result<()> {
    if hypotheses.is_empty() {
        return writeln!(out, "{number} |||  ||| logprob= 0 ||| 0");
    }
    for Scored { text, hypothesis, expected_utility, .. } in hypotheses {
        let log_probability = hypothesis.log_probability;
        let score = expected_utility.unwrap_or_else(|| hypothesis.score.into());
        writeln!(out, "{number} ||| {text} ||| logprob= {log_probability:.6} ||| {score:.6}")?;
    }
    Ok(())
}
