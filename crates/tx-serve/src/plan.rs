//! A text as sentences to translate, and the answer composed of their translations.

use std::ops::Range;

use tx_infer::{InferError, TextTranslation, Translation, Translator};

use crate::{
    job::{Done, Unit},
    layout::LineBreaks,
    markup::{Format, Inline, Segment, has_words, html, placeholders, placement::place},
};

/// A text that is divided into sentences.
#[derive(Debug, Default)]
pub struct Plan {
    parts: Vec<Part>,
    format: Format,
    /// Sentences to translate, some without their placeholders in addition.
    units: Vec<Unit>,
}

#[derive(Debug)]
enum Part {
    Verbatim(String),
    Paragraph { text: String, sentences: Vec<Sentence> },
}

/// A sentence of a paragraph.
#[derive(Debug)]
struct Sentence {
    span: Range<usize>,
    /// The sentence with its placeholders, without markup.
    segment: Segment,
    content: Content,
}

#[derive(Debug)]
enum Content {
    /// No words to translate.
    Copied,
    /// Index of the unit.
    Translated(usize),
    /// Placeholders, the unit with them, and the sentence and unit without them.
    Guarded { with: usize, without: (Segment, usize) },
}

/// A translated sentence.
#[derive(Debug, Clone)]
pub struct SentenceResult<'a> {
    /// Sentence without markup.
    pub source: &'a str,
    /// Its translation and alignment; `None` if it has no words.
    pub done: Option<&'a Done>,
}

/// A sentence of a text whose other sentences may not be translated yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partial<'a> {
    /// Sentence without markup.
    pub source: &'a str,
    /// White space between it and the sentence before.
    pub before: &'a str,
    /// Its translation.
    pub translation: String,
}

/// Options of a plan.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PlanOptions {
    /// Format of the text.
    pub format: Format,
    /// Treatment of line breaks in plain text.
    pub line_breaks: LineBreaks,
    /// Whether all sentences are aligned. Otherwise those with markup are.
    pub align: bool,
}

impl Plan {
    /// Divides a text.
    ///
    /// # Errors
    ///
    /// If the text cannot be tokenized.
    pub fn new(
        text: &str,
        translator: &Translator,
        options: PlanOptions,
    ) -> Result<Self, InferError> {
        let mut plan = Self { format: options.format, ..Self::default() };
        match options.format {
            Format::Text => {
                let text = options.line_breaks.apply(text);
                let segment = placeholders::without_markup(&text);
                plan.paragraph(segment, translator, options)?;
            }
            Format::Html => {
                for part in html::parts(text) {
                    match part {
                        html::Part::Verbatim(raw) => plan.parts.push(Part::Verbatim(raw)),
                        html::Part::Segment { segment, is_preformatted: _ } => {
                            plan.paragraph(segment, translator, options)?;
                        }
                    }
                }
            }
        }
        Ok(plan)
    }

    fn paragraph(
        &mut self,
        segment: Segment,
        translator: &Translator,
        options: PlanOptions,
    ) -> Result<(), InferError> {
        let spans = translator.spans(&segment.text)?;
        let mut inlines = segment.inlines;
        let mut sentences = Vec::with_capacity(spans.len());
        for (index, span) in spans.iter().enumerate() {
            // Markup between two sentences belongs to the next one, unless it is an end tag.
            let limit = spans.get(index + 1).map_or(usize::MAX, |_| span.end);
            let is_close =
                |inline: &Inline| matches!(inline.kind, crate::markup::InlineKind::Close(_));
            let count = inlines
                .iter()
                .position(|inline| {
                    inline.at > limit
                        || (inline.at == limit && !is_close(inline) && inline.at > span.start)
                })
                .unwrap_or(inlines.len());
            let count = count
                + inlines[count..]
                    .iter()
                    .take_while(|inline| {
                        is_close(inline)
                            && spans.get(index + 1).is_some_and(|next| inline.at <= next.start)
                    })
                    .count();
            let own = inlines.drain(..count);
            let own = own.map(|inline| Inline {
                at: inline.at.saturating_sub(span.start).min(span.len()),
                ..inline
            });
            let own =
                Segment { text: segment.text[span.clone()].to_owned(), inlines: own.collect() };
            let content = self.content(&segment.text, span, &own, translator, options);
            sentences.push(Sentence { span: span.clone(), segment: own, content });
        }
        if spans.is_empty() {
            // White space and markup only.
            let copied = Segment { text: segment.text, inlines };
            self.parts.push(Part::Verbatim(place(&copied, &copied.text, None, self.format)));
        } else {
            self.parts.push(Part::Paragraph { text: segment.text, sentences });
        }
        Ok(())
    }

    /// Adds the units of a sentence.
    fn content(
        &mut self,
        text: &str,
        span: &Range<usize>,
        sentence: &Segment,
        translator: &Translator,
        options: PlanOptions,
    ) -> Content {
        let placeholders = placeholders::words(&sentence.text);
        let align = options.align || !sentence.inlines.is_empty();
        let mut unit = |text: String, align: bool| {
            self.units.push(Unit { text, align });
            self.units.len() - 1
        };
        if placeholders.is_empty() {
            if !has_words(&sentence.text) {
                return Content::Copied;
            }
            return Content::Translated(unit(
                translator.sentence(text, span.clone()).into_owned(),
                align,
            ));
        }
        let without = placeholders::without_words(sentence);
        if !has_words(&without.text) {
            return Content::Copied;
        }
        let with = unit(sentence.text.clone(), align);
        let index = unit(without.text.clone(), true);
        Content::Guarded { with, without: (without, index) }
    }

    /// Takes the sentences to translate, which [`finish`](Self::finish) expects the results of.
    pub fn take_units(&mut self) -> Vec<Unit> {
        std::mem::take(&mut self.units)
    }

    /// Composes the answer of hypotheses with this rank, from 0; sentences with fewer hypotheses have
    /// their best one.
    pub fn finish(&self, results: &[Done], rank: usize) -> String {
        let mut answer = String::new();
        for part in &self.parts {
            match part {
                Part::Verbatim(raw) => answer.push_str(raw),
                Part::Paragraph { text, sentences } => {
                    let spans = sentences.iter().map(|sentence| sentence.span.clone());
                    let translations = sentences.iter().map(|sentence| {
                        let mut translation = Translation::default();
                        translation.text = sentence.finish(results, rank, self.format);
                        translation
                    });
                    answer
                        .push_str(&TextTranslation::join(text, spans, translations.collect()).text);
                }
            }
        }
        answer
    }

    /// Returns the mean score of the hypotheses that the [answer](Self::finish) with this rank consists
    /// of; `None` without hypotheses. Sentences without words do not count.
    pub fn score(&self, results: &[Done], rank: usize) -> Option<f32> {
        let (mut sum, mut count) = (0.0, 0.0);
        for (_, sentences) in self.paragraphs() {
            for sentence in sentences {
                let done = sentence.chosen(results).1.and_then(|index| results.get(index));
                let hypotheses = done.map_or(&[][..], |done| &done.translation.hypotheses);
                if let Some(found) = hypotheses.get(rank).or(hypotheses.first()) {
                    sum += found.hypothesis.score;
                    count += 1.0;
                }
            }
        }
        (count > 0.0).then(|| sum / count)
    }

    /// Returns the number of sentences.
    pub fn len(&self) -> usize {
        self.paragraphs().map(|(_, sentences)| sentences.len()).sum()
    }

    /// Returns `true` if there is no sentence.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns a sentence, the white space before it, and its translation; `None` until the results
    /// that it needs have arrived. `results` has an entry for each unit.
    pub fn sentence(&self, index: usize, results: &[Option<Done>]) -> Option<Partial<'_>> {
        let mut before = index;
        for (text, sentences) in self.paragraphs() {
            let Some(sentence) = sentences.get(before) else {
                before -= sentences.len();
                continue;
            };
            let start = before.checked_sub(1).map_or(0, |previous| sentences[previous].span.end);
            let units = match &sentence.content {
                Content::Copied => vec![],
                Content::Translated(unit) => vec![*unit],
                Content::Guarded { with, without: (_, without) } => vec![*with, *without],
            };
            let mut arrived = vec![Done::default(); results.len()];
            for unit in units {
                arrived[unit] = results.get(unit)?.clone()?;
            }
            return Some(Partial {
                source: &sentence.segment.text,
                before: &text[start..sentence.span.start],
                translation: sentence.finish(&arrived, 0, self.format),
            });
        }
        None
    }

    fn paragraphs(&self) -> impl Iterator<Item = (&str, &[Sentence])> {
        self.parts.iter().filter_map(|part| match part {
            Part::Verbatim(_) => None,
            Part::Paragraph { text, sentences } => Some((&**text, &**sentences)),
        })
    }

    /// Returns the sentences with their results, in order.
    pub fn sentences<'a>(
        &'a self,
        results: &'a [Done],
    ) -> impl Iterator<Item = SentenceResult<'a>> {
        self.paragraphs().flat_map(|(_, sentences)| sentences).map(|sentence| SentenceResult {
            source: &sentence.segment.text,
            done: sentence.chosen(results).1.and_then(|index| results.get(index)),
        })
    }
}

impl Sentence {
    /// The segment whose translation is used, and the index of its result.
    fn chosen(&self, results: &[Done]) -> (&Segment, Option<usize>) {
        match &self.content {
            Content::Copied => (&self.segment, None),
            Content::Translated(unit) => (&self.segment, Some(*unit)),
            Content::Guarded { with, without: (segment, index) } => {
                let words = placeholders::words(&self.segment.text);
                let is_kept = |done: &Done| placeholders::survive(&words, &done.translation.text);
                if results.get(*with).is_some_and(is_kept) {
                    (&self.segment, Some(*with))
                } else {
                    (segment, Some(*index))
                }
            }
        }
    }

    fn finish(&self, results: &[Done], rank: usize, format: Format) -> String {
        let (segment, index) = self.chosen(results);
        let Some(done) = index.and_then(|index| results.get(index)) else {
            return place(segment, &segment.text, None, format);
        };
        let Done { translation, alignment } = done;
        // The alignment is that of the best hypothesis.
        match translation.hypotheses.get(rank).filter(|_| rank > 0) {
            Some(other) => place(segment, &other.text, None, format),
            None => place(segment, &translation.text, alignment.as_ref(), format),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    /// Translates each unit to its upper case, with words aligned in order.
    fn results(units: &[Unit]) -> Vec<Done> {
        let done = |unit: &Unit| {
            let mut translation = Translation::default();
            translation.text = unit.text.to_uppercase();
            let words: Vec<String> = unit.text.split_whitespace().map(str::to_owned).collect();
            let row =
                |word| (0..words.len()).map(|other| f32::from(u8::from(word == other))).collect();
            let weights = (0..words.len()).map(row).collect();
            let target = translation.text.split_whitespace().map(str::to_owned).collect();
            let alignment = tx_infer::Alignment { source: words, target, weights };
            Done { translation, alignment: Some(alignment).filter(|_| unit.align) }
        };
        units.iter().map(done).collect()
    }

    fn translated(text: &str, options: PlanOptions) -> String {
        let mut plan = Plan::new(text, &fixture::route().translator, options).unwrap();
        let units = plan.take_units();
        plan.finish(&results(&units), 0)
    }

    #[test]
    fn layout_of_text_is_kept() {
        let text = |text: &str| translated(text, PlanOptions::default());
        for (source, expected) in [
            ("", ""),
            (" \n ", " \n "),
            ("one two.  three?\n\n- four\n", "ONE TWO.  THREE?\n\n- FOUR\n"),
            ("123 — !?\n...", "123 — !?\n..."),
            ("see <br /> this", "SEE <br /> THIS"),
            ("{\\an8}Go!", "{\\an8}GO!"),
            ("say <i>hello</i> now", "SAY <i>HELLO</i> NOW"),
            ("<br/>", "<br/>"),
            ("well-known \"quoted\" text; (really)", "WELL-KNOWN \"QUOTED\" TEXT; (REALLY)"),
        ] {
            assert_eq!(text(source), expected, "{source}");
        }
    }

    /// Upper case changes `{name}` and keeps `%d`… which is `%D` then.
    #[test]
    fn placeholders_survive() {
        let text = |text: &str| translated(text, PlanOptions::default());
        for source in [
            "hello {name}, you have %d mails in {box}.",
            "%s",
            "{a} {b}",
            "visit https://a.b/c now. {x}!",
        ] {
            let found = text(source);
            let (mut expected, mut words) =
                (placeholders::words(source), placeholders::words(&found));
            expected.sort_unstable();
            words.sort_unstable();
            assert_eq!(words, expected, "{found}");
        }
        assert_eq!(text("hello {name} again"), "HELLO {name} AGAIN");
        // A placeholder that the model keeps stays where the model puts it.
        assert_eq!(text("a {X}."), "A {X}.");
    }

    #[test]
    fn html_keeps_its_tags() {
        let options = PlanOptions { format: Format::Html, ..PlanOptions::default() };
        for (source, expected) in [
            ("<p>one <b>two</b> three.</p>", "<p>ONE <b>TWO</b> THREE.</p>"),
            ("<p>\n  one\n  two\n</p>", "<p> ONE TWO </p>"),
            ("<p><b>One two. Three</b> four.</p>", "<p><b>ONE TWO. THREE</b> FOUR.</p>"),
            ("a &lt;b&gt; &amp; c", "A &lt;B&gt; &amp; C"),
            (
                "<ul><li>one</li><li><a href='x'>two</a></li></ul>",
                "<ul><li>ONE</li><li><a href='x'>TWO</a></li></ul>",
            ),
            ("<script>var a = '<p>';</script>x", "<script>var a = '<p>';</script>X"),
            ("one<br>two", "ONE<br>TWO"),
            ("<p>One.</p><!-- note --><p>123</p>", "<p>ONE.</p><!-- note --><p>123</p>"),
            ("<b>Note.</b> More.", "<b>NOTE.</b> MORE."),
            ("One. <i>Two.</i>", "ONE. <i>TWO.</i>"),
        ] {
            assert_eq!(translated(source, options), expected, "{source}");
        }
    }

    #[test]
    fn sentences_have_their_results() {
        let options = PlanOptions { align: true, ..PlanOptions::default() };
        let mut plan =
            Plan::new("One two. 3. Four {x}.", &fixture::route().translator, options).unwrap();
        let units = plan.take_units();
        assert!(units.iter().all(|unit| unit.align));
        let results = results(&units);
        let found: Vec<_> = plan.sentences(&results).collect();
        assert!(found.len() >= 2 && found[0].done.is_some(), "{found:?}");
        assert_eq!(plan.finish(&results, 3), plan.finish(&results, 0));
    }
}
