//! Translation of the sentences of lines.

use std::{
    borrow::Cow,
    io::{BufWriter, Write},
    iter::Peekable,
    ops::Range,
};

use serde_json::json;
use tx_cli::terminal::stdout;
use tx_infer::{Cancellation, Line, SentenceTranslation, TextTranslation, Translation};

use crate::{
    document::Document,
    output::{Format, Output, Stop},
};

/// Translates the sentences of lines, which are numbered from `first`, and writes each line as soon as
/// its sentences and all lines before it are done. The context of a sentence are the sentences before it, also
/// of other lines of its document.
pub fn translate_window(
    output: &mut Output<'_>,
    texts: &[String],
    document: &mut Document,
    first: u64,
) -> anyhow::Result<()> {
    let translator = output.translator;
    let spans = texts.iter().map(|text| translator.spans(text));
    let spans = spans.collect::<Result<Vec<_>, _>>()?;
    let numbered = texts.iter().zip(&spans).zip(first..);
    let sentences: Vec<(Cow<'_, str>, u64)> = numbered
        .flat_map(|((text, spans), line)| {
            // The first sentence has the number, and so the samples, of the line.
            let numbers = (0..).map(move |sentence: u64| line.wrapping_add(sentence << 32));
            spans.iter().map(|span| translator.sentence(text, span.clone())).zip(numbers)
        })
        .collect();
    let positions = add_sentences(document, texts, &spans);
    let lines = sentences.iter().enumerate().map(|(index, (text, number))| {
        let context = positions.get(index).map_or(&[][..], |at| document.before(*at));
        Line { context, ..Line::new(text, *number) }
    });
    let lines: Vec<Line<'_>> = lines.collect();
    let texts = texts.iter().map(String::as_str);
    let mut pending =
        Pending { lines: texts.zip(spans).zip(first..).peekable(), ready: Vec::new() };
    let never = Cancellation::new();
    if !lines.is_empty() {
        translator.translate_lines(&lines, translator.options(), &never, |ready| {
            pending.ready.extend(ready);
            pending.write(output)
        })?;
    }
    // Lines without sentences at the end.
    Ok(pending.write(output)?)
}

/// Adds the sentences at `spans` of lines to a document, and returns their positions; none without context.
/// A line without a sentence ends the document.
fn add_sentences(
    document: &mut Document,
    texts: &[String],
    spans: &[Vec<Range<usize>>],
) -> Vec<usize> {
    let (mut sentences, mut positions) = (Vec::new(), Vec::new());
    if !document.has_context() {
        return positions;
    }
    for (text, spans) in texts.iter().zip(spans) {
        if spans.is_empty() {
            sentences.push(String::new());
        }
        for span in spans {
            positions.push(sentences.len());
            sentences.push(text[span.clone()].to_owned());
        }
    }
    document.add(&sentences);
    positions
}

/// Lines that have not been written.
struct Pending<I: Iterator> {
    /// Each with the spans of its sentences and its number.
    lines: Peekable<I>,
    /// Translations of the first sentences.
    ready: Vec<Translation>,
}

impl<'a, I: Iterator<Item = ((&'a str, Vec<Range<usize>>), u64)>> Pending<I> {
    /// Writes the lines whose sentences are all translated, and their warnings.
    fn write(&mut self, output: &mut Output<'_>) -> Result<(), Stop> {
        let mut out = BufWriter::new(stdout());
        let mut ready = std::mem::take(&mut self.ready).into_iter();
        while let Some(((text, spans), number)) =
            self.lines.next_if(|((_, spans), _)| spans.len() <= ready.len())
        {
            let translations = ready.by_ref().take(spans.len()).collect();
            let found = TextTranslation::join(text, spans, translations);
            let mut summary = Translation::default();
            (summary.truncated, summary.unknown) = (found.truncated(), found.unknown());
            output.warn(&[Line::new(text, number)], &[summary])?;
            write(output, &mut out, text, number, &found)?;
            output.progress.advance([text]);
        }
        self.ready = ready.collect();
        Ok(out.flush()?)
    }
}

/// Writes the translation of a line. With JSON, an object per line contains one per sentence; the object
/// of a line with one sentence also has the hypotheses of this sentence.
fn write(
    output: &Output<'_>,
    out: &mut impl Write,
    text: &str,
    number: u64,
    found: &TextTranslation,
) -> Result<(), Stop> {
    match output.format {
        Format::Json { .. } => {}
        Format::Text | Format::Confidence | Format::NBest | Format::Aligned(..) => {
            return Ok(writeln!(out, "{}", found.text)?);
        }
    }
    let sentences =
        found.sentences.iter().map(|SentenceTranslation { span, translation, .. }| {
            let mut object = output.translator.to_json(translation);
            object["source"] = text[span.clone()].into();
            object
        });
    let mut line = json!({
        "line": number + 1,
        "source": text,
        "text": found.text,
        "truncated": found.truncated(),
        "unknown": found.unknown(),
        "sentences": sentences.collect::<Vec<_>>(),
    });
    if let [only] = &*found.sentences {
        line["translations"] = output.translator.hypotheses_to_json(&only.translation).into();
    }
    Ok(writeln!(out, "{line}")?)
}
