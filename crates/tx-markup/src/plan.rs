//! A text as sentences to translate, and the answer composed of their translations.

use std::{
    collections::{HashMap, HashSet},
    ops::Range,
    sync::Arc,
};

use tx_infer::{
    Deadline, Translator,
    tx_text::{spacing::needs_space, special::UNK},
};

use crate::{
    error::MarkupError,
    layout::LineBreaks,
    markup::{
        Format, Inline, InlineKind, Part as Document, Segment, TagOptions, has_words, html,
        partners, placeholders,
        placement::{gap, place},
        segment::{WhiteSpace, normalized},
        xml,
    },
    unit::{Done, Unit},
};

/// A text that is divided into sentences.
#[derive(Debug, Default)]
pub struct Plan {
    parts: Vec<Part>,
    /// Sentences to translate, some without their placeholders in addition.
    units: Vec<Unit>,
    /// Positions of the sentences: part, and index in it.
    positions: Vec<(usize, usize)>,
    /// Sentences before the next one that the model reads with it.
    context: Vec<String>,
}

#[derive(Debug)]
enum Part {
    Verbatim(String),
    Paragraph {
        sentences: Vec<Sentence>,
        /// White space and markup after the last sentence.
        after: String,
        format: Format,
    },
}

/// A sentence of a paragraph.
#[derive(Debug)]
struct Sentence {
    /// White space and markup between the sentence before and this one.
    before: String,
    /// Whether the sentence before ends where this one begins.
    is_adjacent: bool,
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
    /// Sentence without markup, and without symbols that the model does not have.
    pub source: &'a str,
    /// Its translation and alignment; `None` if it has no words.
    pub done: Option<&'a Done>,
}

/// A sentence of a text whose other sentences may not be translated yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partial<'a> {
    /// Sentence without markup.
    pub source: &'a str,
    /// White space and markup between it and the sentence before.
    pub before: &'a str,
    /// Its translation.
    pub translation: String,
}

/// Options of a plan.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlanOptions {
    /// Format of the text.
    pub format: Format,
    /// Treatment of line breaks in plain text.
    pub line_breaks: LineBreaks,
    /// Whether all sentences are aligned. Otherwise those with markup are.
    pub align: bool,
    /// Treatment of elements in HTML and XML.
    pub tags: Arc<TagOptions>,
    /// Sentences before the text in its document, the oldest first, for a model that reads context. They are
    /// not translated.
    pub context: Vec<String>,
}

/// Creates the sentences of a plan.
struct Planner<'a> {
    translator: &'a Translator,
    align: bool,
    plan: Plan,
    /// Symbols of the text, and whether the model has them.
    symbols: HashMap<String, bool>,
}

impl Plan {
    /// Divides a text.
    ///
    /// # Errors
    ///
    /// If the text cannot be tokenized, is XML that is not well-formed, or at the deadline.
    pub fn new(
        text: &str,
        translator: &Translator,
        options: &PlanOptions,
        deadline: &Deadline,
    ) -> Result<Self, MarkupError> {
        let parts = match options.format {
            Format::Text | Format::Cdata => {
                let text = options.line_breaks.apply(text);
                let segment = placeholders::without_markup(&text);
                let blocks = placeholders::blocks(&segment.text);
                let segments = normalized(&segment, &blocks, WhiteSpace::Kept, options.format);
                let part = |segment| Document::Segment { segment, format: options.format };
                segments.into_iter().map(part).collect()
            }
            Format::Html => html::parts(text, &options.tags),
            Format::Xml => xml::parts(text, &options.tags).map_err(|problem| {
                let problem = format!("the text is not well-formed XML: {problem}");
                MarkupError::Invalid(problem)
            })?,
        };
        let mut planner = Planner {
            translator,
            align: options.align,
            plan: Self { context: recent(&options.context, translator), ..Self::default() },
            symbols: HashMap::new(),
        };
        for part in parts {
            deadline.check()?;
            match part {
                Document::Verbatim(raw) => planner.plan.parts.push(Part::Verbatim(raw)),
                Document::Segment { segment, format } => planner.paragraph(segment, format)?,
            }
        }
        Ok(planner.plan)
    }

    /// Returns the most recent sentences before the end of the text that the model reads with the next one: the
    /// [context](PlanOptions::context) of a text that follows.
    pub fn context(&self) -> &[String] {
        &self.context
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
                Part::Paragraph { sentences, after, format } => {
                    for sentence in sentences {
                        let translation = sentence.finish(|unit| results.get(unit), rank, *format);
                        if sentence.is_adjacent && needs_space(&answer, &translation) {
                            answer.push(' ');
                        }
                        answer.push_str(&sentence.before);
                        answer.push_str(&translation);
                    }
                    answer.push_str(after);
                }
            }
        }
        answer
    }

    /// Returns the mean score of the hypotheses that the [answer](Self::finish) with this rank consists
    /// of; `None` without hypotheses. Sentences without words do not count.
    pub fn score(&self, results: &[Done], rank: usize) -> Option<f32> {
        let (mut sum, mut count) = (0.0, 0.0);
        for found in self.sentences(results) {
            let hypotheses = found.done.map_or(&[][..], |done| &done.translation.hypotheses);
            if let Some(found) = hypotheses.get(rank).or(hypotheses.first()) {
                sum += found.hypothesis.score;
                count += 1.0;
            }
        }
        (count > 0.0).then(|| sum / count)
    }

    /// Returns the words of the text that are not in the vocabulary, each once, in order of appearance.
    /// The model reads them as `<unk>`, so their translation is arbitrary.
    pub fn unknown(&self, results: &[Done]) -> Vec<String> {
        let mut seen = HashSet::new();
        let words = self.sentences(results).filter_map(|sentence| sentence.done);
        let words = words.flat_map(|done| &done.translation.unknown);
        words.filter(|word| seen.insert(*word)).cloned().collect()
    }

    /// Returns the number of sentences.
    pub fn len(&self) -> usize {
        self.positions.len()
    }

    /// Returns `true` if there is no sentence.
    pub fn is_empty(&self) -> bool {
        self.positions.is_empty()
    }

    /// Returns a sentence, what is before it, and its translation; `None` until the results that it needs
    /// have arrived. `results` has an entry for each unit.
    pub fn sentence(&self, index: usize, results: &[Option<Done>]) -> Option<Partial<'_>> {
        let (part, index) = *self.positions.get(index)?;
        let Part::Paragraph { sentences, format, .. } = self.parts.get(part)? else { return None };
        let sentence = sentences.get(index)?;
        let has_arrived = |unit: &usize| results.get(*unit).is_some_and(Option::is_some);
        let is_complete = match &sentence.content {
            Content::Copied => true,
            Content::Translated(unit) => has_arrived(unit),
            Content::Guarded { with, without: (_, without) } => {
                has_arrived(with) && has_arrived(without)
            }
        };
        let done = |unit: usize| results.get(unit).and_then(Option::as_ref);
        is_complete.then(|| Partial {
            source: &sentence.segment.text,
            before: &sentence.before,
            translation: sentence.finish(done, 0, *format),
        })
    }

    /// Returns the sentences with their results, in order.
    pub fn sentences<'a>(
        &'a self,
        results: &'a [Done],
    ) -> impl Iterator<Item = SentenceResult<'a>> {
        let sentences = self.parts.iter().flat_map(|part| match part {
            Part::Verbatim(_) => &[][..],
            Part::Paragraph { sentences, .. } => &**sentences,
        });
        sentences.map(|sentence| SentenceResult {
            source: &sentence.segment.text,
            done: sentence.chosen(|unit| results.get(unit)).1,
        })
    }
}

impl Planner<'_> {
    /// Adds a paragraph. Markup between two sentences stays there, and so does an element around whole
    /// sentences.
    fn paragraph(&mut self, segment: Segment, format: Format) -> Result<(), MarkupError> {
        let Segment { text, inlines } = segment;
        let spans = self.translator.spans(&text)?;
        let partners = partners(&inlines);
        let mut sentences = Vec::with_capacity(spans.len());
        let (mut end, mut next) = (0, 0);
        for span in spans {
            let own = own_inlines(&inlines, &partners, next, &span);
            let between = &inlines[next..own.start];
            let before = gap(&text[end..span.start], end, between, true, format);
            let has_atoms = between.iter().any(|inline| matches!(inline.kind, InlineKind::Atom(_)));
            let is_adjacent = !sentences.is_empty() && end == span.start && !has_atoms;
            next = own.end;
            let own = inlines[own]
                .iter()
                .map(|inline| Inline { at: inline.at - span.start, ..inline.clone() });
            let segment = Segment { text: text[span.clone()].to_owned(), inlines: own.collect() };
            let (segment, content) = self.content(&text, &span, segment, format);
            self.add_context(&text[span.clone()]);
            self.plan.positions.push((self.plan.parts.len(), sentences.len()));
            sentences.push(Sentence { before, is_adjacent, segment, content });
            end = span.end;
        }
        let after = gap(&text[end..], end, &inlines[next..], false, format);
        self.plan.parts.push(Part::Paragraph { sentences, after, format });
        Ok(())
    }

    /// Adds a sentence to the context of those after it.
    fn add_context(&mut self, sentence: &str) {
        let (most, context) = (self.translator.texts().context(), &mut self.plan.context);
        if most > 0 {
            context.drain(..(context.len() + 1).saturating_sub(most));
            context.push(sentence.to_owned());
        }
    }

    /// Adds the units of a sentence.
    fn content(
        &mut self,
        text: &str,
        span: &Range<usize>,
        sentence: Segment,
        format: Format,
    ) -> (Segment, Content) {
        let translator = self.translator;
        let symbols = &mut self.symbols;
        let without = placeholders::without_symbols(&sentence, format, |symbol| {
            if let Some(is_known) = symbols.get(symbol) {
                return *is_known;
            }
            let is_known = is_known(symbol, translator);
            symbols.insert(symbol.to_owned(), is_known);
            is_known
        });
        let sentence = without.unwrap_or(sentence);
        if !has_words(&sentence.text) {
            return (sentence, Content::Copied);
        }
        // The token of a language that the text begins with.
        let typed = translator.sentence(text, span.clone());
        let token = typed.strip_suffix(&text[span.clone()]).unwrap_or_default();
        let align = self.align || !sentence.inlines.is_empty();
        let (units, context) = (&mut self.plan.units, &self.plan.context);
        let mut unit = |text: &str, align: bool| {
            units.push(Unit { text: format!("{token}{text}"), context: context.clone(), align });
            units.len() - 1
        };
        if placeholders::words(&sentence.text).is_empty() {
            let unit = unit(&sentence.text, align);
            return (sentence, Content::Translated(unit));
        }
        let without = placeholders::without_words(&sentence, format);
        if !has_words(&without.text) {
            return (sentence, Content::Copied);
        }
        let with = unit(&sentence.text, align);
        let index = unit(&without.text, true);
        (sentence, Content::Guarded { with, without: (without, index) })
    }
}

/// Returns the sentences of a context that a model reads.
fn recent(context: &[String], translator: &Translator) -> Vec<String> {
    context[context.len().saturating_sub(translator.texts().context())..].to_vec()
}

/// Range of the inlines of a sentence, from index `next`. Those before and after it are between sentences:
/// what is outside of the sentence, and at its start and end everything except elements that are in it
/// and do not cover all of it.
fn own_inlines(
    inlines: &[Inline],
    partners: &[Option<usize>],
    next: usize,
    span: &Range<usize>,
) -> Range<usize> {
    let mut start = next;
    let position = |index: usize| inlines.get(index).map(|inline| inline.at);
    let begins_inside = |index: usize| {
        matches!(inlines[index].kind, InlineKind::Open(_))
            && partners[index].and_then(position).is_some_and(|end| end < span.end)
            && partners[index].and_then(position).is_some_and(|end| end > span.start)
    };
    while position(start).is_some_and(|at| at < span.start)
        || (position(start) == Some(span.start) && !begins_inside(start))
    {
        start += 1;
    }
    let mut end = start;
    while position(end).is_some_and(|at| at < span.end) {
        end += 1;
    }
    // At the end: up to the last end tag of an element that begins in the sentence.
    let mut last = end;
    while position(last) == Some(span.end) {
        last += 1;
        let is_own = partners[last - 1].is_some_and(|open| (start..end).contains(&open));
        if is_own && matches!(inlines[last - 1].kind, InlineKind::Close(_)) {
            end = last;
        }
    }
    start..end
}

/// Whether the vocabulary of a model has a symbol, other than as its bytes.
fn is_known(symbol: &str, translator: &Translator) -> bool {
    let tokenizer = &translator.tokenizers().source;
    let Ok(ids) = tokenizer.encode(symbol) else { return true };
    ids.iter()
        .all(|&id| id != UNK && tokenizer.token(id).is_none_or(|token| !token.starts_with("<0x")))
}

impl Sentence {
    /// The segment whose translation is used, and its result.
    fn chosen<'a>(
        &self,
        result: impl Fn(usize) -> Option<&'a Done>,
    ) -> (&Segment, Option<&'a Done>) {
        match &self.content {
            Content::Copied => (&self.segment, None),
            Content::Translated(unit) => (&self.segment, result(*unit)),
            Content::Guarded { with, without: (segment, index) } => {
                let words = placeholders::words(&self.segment.text);
                let is_kept = |done: &&Done| placeholders::survive(&words, &done.translation.text);
                match result(*with).filter(is_kept) {
                    Some(done) => (&self.segment, Some(done)),
                    None => (segment, result(*index)),
                }
            }
        }
    }

    fn finish<'a>(
        &self,
        result: impl Fn(usize) -> Option<&'a Done>,
        rank: usize,
        format: Format,
    ) -> String {
        let (segment, done) = self.chosen(result);
        let Some(Done { translation, alignment }) = done else {
            return place(segment, &segment.text, None, format);
        };
        // The alignment is that of the best hypothesis.
        match translation.hypotheses.get(rank).filter(|_| rank > 0) {
            Some(other) => place(segment, &other.text, None, format),
            None => place(segment, &translation.text, alignment.as_ref(), format),
        }
    }
}

#[cfg(test)]
mod tests {
    use tx_infer::Translation;

    use super::*;
    use crate::fixture;

    /// Translates each unit to its upper case, with words aligned in order.
    fn results(units: &[Unit]) -> Vec<Done> {
        let done = |unit: &Unit| {
            let translation = Translation::of_text(unit.text.to_uppercase());
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
        let mut plan =
            Plan::new(text, fixture::translator(), &options, &fixture::deadline()).unwrap();
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
            assert_eq!(translated(source, options.clone()), expected, "{source}");
        }
    }

    #[test]
    fn sentences_have_their_results() {
        let options = PlanOptions { align: true, ..PlanOptions::default() };
        let mut plan = Plan::new(
            "One two. 3. Four {x}.",
            fixture::translator(),
            &options,
            &fixture::deadline(),
        )
        .unwrap();
        let units = plan.take_units();
        assert!(units.iter().all(|unit| unit.align));
        let results = results(&units);
        let found: Vec<_> = plan.sentences(&results).collect();
        assert!(found.len() >= 2 && found[0].done.is_some(), "{found:?}");
        assert_eq!(plan.finish(&results, 3), plan.finish(&results, 0));
    }
}
