//! `translate --interactive` with a model for translation.

use std::{io::Write, iter::once, ops::ControlFlow, path::PathBuf};

use tx_cli::terminal::{stderr, stdout};
use tx_infer::{
    Attention, AttentionKind, Bundle, Engine, SearchOptions, TextTranslation, Translation,
    Translator, figure::FigureOptions,
};

use crate::{
    align::TextAligner, args::split::Split, attention::write_by_extension, editor::converse,
    unknown_words::UnknownWords,
};

const HELP: &str = "\
Type sentences to translate them. A line that starts with a colon is a command:

  :nbest N         show the N best translations with their scores
  :beam N          keep N hypotheses per sentence; 1 is greedy search
  :penalty ALPHA   set the length penalty: score = log P / length^ALPHA
  :source CODE     select the source language of a multilingual model
  :target CODE     select the target language
  :align           show word alignments, or hide them
  :attention FILE  export the attention weights of the last sentence: .html, .svg, .png, .json
  :options         show the current options
  :help            show this list
  :quit            exit, as Ctrl-D does

Arrow up recalls earlier lines, Ctrl-R searches them, Ctrl-C discards the line.
";

/// Meaning of a line.
#[derive(Debug, Clone, PartialEq)]
enum Request {
    Translate(String),
    NBest(usize),
    Beam(usize),
    Penalty(f32),
    Source(String),
    Target(String),
    Align,
    Attention(PathBuf),
    Options,
    Help,
    Quit,
    Nothing,
}

/// Translates typed sentences until the user quits.
pub fn interactive(mut session: Session) -> anyhow::Result<()> {
    converse("Type a sentence to translate, :help for commands, Ctrl-D to exit.", |line| {
        match parse(line).map_err(anyhow::Error::msg)? {
            Request::Quit => Ok(ControlFlow::Break(())),
            request => session.answer(request).map(ControlFlow::Continue),
        }
    })
}

/// State of an interactive session: a model and its options.
pub struct Session {
    bundle: Bundle,
    translator: Translator,
    engine: Engine,
    texts: TextAligner,
    align: bool,
    unit: Split,
    /// The last sentence and the ids of its translation.
    last: Option<(String, Vec<u32>)>,
}

impl Session {
    /// Starts a session with a `translator` of `bundle` and the `engine` that computes attention; `align`
    /// shows alignments from the start, and `unit` is translated at once.
    pub fn new(
        bundle: Bundle,
        translator: Translator,
        engine: Engine,
        texts: TextAligner,
        align: bool,
        unit: Split,
    ) -> Self {
        Self { bundle, translator, engine, texts, align, unit, last: None }
    }

    fn answer(&mut self, request: Request) -> anyhow::Result<()> {
        let SearchOptions { beam, n_best, .. } = *self.translator.options();
        match request {
            Request::Translate(text) => self.translate(text)?,
            // The beam bounds the number of translations.
            Request::NBest(n_best) => self.set(SearchOptions {
                n_best,
                beam: beam.max(n_best),
                ..self.translator.options().clone()
            })?,
            Request::Beam(beam) => {
                let n_best = n_best.min(beam);
                let options = self.translator.options().clone();
                let options = if beam == 1 { options.with_one_hypothesis() } else { options };
                self.set(SearchOptions { beam, n_best, ..options })?;
            }
            Request::Penalty(length_penalty) => {
                self.set(SearchOptions { length_penalty, ..self.translator.options().clone() })?;
            }
            Request::Source(code) => self.select(Some(&code), None)?,
            Request::Target(code) => self.select(None, Some(&code))?,
            Request::Align => {
                self.align = !self.align;
                self.print_options()?;
            }
            Request::Attention(path) => self.attention(&path)?,
            Request::Options => self.print_options()?,
            Request::Help => write!(stderr(), "{HELP}")?,
            Request::Quit | Request::Nothing => {}
        }
        Ok(())
    }

    fn set(&mut self, options: SearchOptions) -> anyhow::Result<()> {
        self.translator = self.translator.clone().with_options(options)?;
        self.print_options()
    }

    /// Selects languages by their codes.
    fn select(&mut self, source: Option<&str>, target: Option<&str>) -> anyhow::Result<()> {
        self.translator = self.translator.clone().with_languages(source, target)?;
        self.texts.set_texts(self.translator.texts().clone());
        Ok(())
    }

    fn print_options(&self) -> anyhow::Result<()> {
        let SearchOptions { beam, n_best, length_penalty, .. } = *self.translator.options();
        let align = if self.align { "shown" } else { "hidden" };
        writeln!(
            stderr(),
            "beam {beam}, n-best {n_best}, length penalty {length_penalty}, alignment {align}"
        )?;
        Ok(())
    }

    fn translate(&mut self, text: String) -> anyhow::Result<()> {
        let found = match self.unit {
            Split::Sentences => self.translator.translate_text(&text)?,
            Split::Lines => {
                let translation = self.translator.translate(&text)?;
                TextTranslation::join(&text, once(0..text.len()), vec![translation])
            }
        };
        if found.truncated() {
            let max_len = self.bundle.config.max_len;
            writeln!(
                stderr(),
                "warning: truncated to {max_len} tokens, the maximum of this model"
            )?;
        }
        if let Some(words) = UnknownWords::default().add(&found.unknown()) {
            writeln!(
                stderr(),
                "warning: unknown words, which the model cannot translate: {words}"
            )?;
        }
        let mut output = stdout();
        let several = self.translator.options().n_best > 1;
        if !several {
            writeln!(output, "{}", found.text)?;
        }
        for sentence in &found.sentences {
            let translation = &sentence.translation;
            let sentence = text[sentence.span.clone()].to_owned();
            if several {
                for (rank, scored) in translation.hypotheses.iter().enumerate() {
                    let score = scored.hypothesis.score;
                    writeln!(output, "{:>2}  {score:>8.3}  {}", rank + 1, scored.text)?;
                }
            }
            if self.align {
                self.print_alignment(&mut output, &sentence, translation)?;
            }
            let best = translation.hypotheses.first().map(|best| best.hypothesis.ids.clone());
            self.last = best.map(|ids| (sentence, ids));
        }
        Ok(output.flush()?)
    }

    /// Prints a line for each word of the best translation: its source word and the weight.
    fn print_alignment(
        &self,
        output: &mut impl Write,
        text: &String,
        translation: &Translation,
    ) -> anyhow::Result<()> {
        let texts = std::slice::from_ref(text);
        let found = self.texts.translations(texts, std::slice::from_ref(translation))?;
        let Some(alignment) = found.first() else { return Ok(()) };
        let width = alignment.target.iter().map(|word| word.chars().count()).max().unwrap_or(0);
        let links = alignment.links();
        for (target, word) in alignment.target.iter().enumerate() {
            let source = links.iter().find(|link| link.1 == target).map(|link| link.0);
            let from = source.map_or("-", |source| &alignment.source[source]);
            let weight = source.map_or(0.0, |source| alignment.weights[target][source]);
            writeln!(output, "    {word:<width$}  ← {from}  {weight:.2}")?;
        }
        Ok(())
    }

    fn attention(&self, path: &std::path::Path) -> anyhow::Result<()> {
        let Some((text, ids)) = &self.last else {
            anyhow::bail!("no sentence has been translated yet");
        };
        let (source, target) = self.texts.hypothesis(text, ids)?;
        let attention = Attention::of(&self.engine, source, target);
        let view = FigureOptions {
            kind: AttentionKind::Cross,
            layer: self.bundle.config.decoder_layers.saturating_sub(1),
            head: None,
            words: false,
            grid: false,
        };
        write_by_extension(&attention, &view, path)?;
        writeln!(stderr(), "written: {}", path.display())?;
        Ok(())
    }
}

/// Parses a line; the error names the problem.
fn parse(line: &str) -> Result<Request, String> {
    let Some(command) = line.strip_prefix(':') else {
        let text = line.trim();
        return Ok(if text.is_empty() {
            Request::Nothing
        } else {
            Request::Translate(text.into())
        });
    };
    let (name, value) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
    let value = value.trim();
    let count = || match value.parse::<usize>() {
        Ok(count @ 1..=64) => Ok(count),
        _ => Err(format!("`:{name}` expects a number from 1 to 64, found `{value}`")),
    };
    let alone = |request| {
        if value.is_empty() {
            Ok(request)
        } else {
            Err(format!("`:{name}` expects no value, found `{value}`"))
        }
    };
    match name {
        "nbest" => count().map(Request::NBest),
        "beam" => count().map(Request::Beam),
        "penalty" => match value.parse::<f32>() {
            Ok(penalty) if penalty.is_finite() => Ok(Request::Penalty(penalty)),
            _ => Err(format!("`:penalty` expects a number, found `{value}`")),
        },
        "source" | "target" if value.is_empty() => {
            Err(format!("`:{name}` expects the code of a language"))
        }
        "source" => Ok(Request::Source(value.into())),
        "target" => Ok(Request::Target(value.into())),
        "attention" if value.is_empty() => Err("`:attention` expects the name of a file".into()),
        "attention" => Ok(Request::Attention(value.into())),
        "align" => alone(Request::Align),
        "options" => alone(Request::Options),
        "help" | "h" | "?" => alone(Request::Help),
        "quit" | "q" | "exit" => alone(Request::Quit),
        _ => Err(format!(
            "unknown command `:{name}`; `:help` lists the commands, and a space before the colon makes the line a sentence"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_sentences_or_commands() {
        let request = |line| parse(line).unwrap();
        assert_eq!(request(" Where is it? "), Request::Translate("Where is it?".into()));
        assert_eq!(request(" :nbest 3"), Request::Translate(":nbest 3".into()));
        assert_eq!((request(""), request("  ")), (Request::Nothing, Request::Nothing));
        assert_eq!(
            (request(":nbest 5"), request(":beam  8 ")),
            (Request::NBest(5), Request::Beam(8))
        );
        assert_eq!(request(":penalty 0.6"), Request::Penalty(0.6));
        assert_eq!(request(":source en"), Request::Source("en".into()));
        assert_eq!(request(":target  deu "), Request::Target("deu".into()));
        assert_eq!((request(":align"), request(":quit")), (Request::Align, Request::Quit));
        assert_eq!(request(":attention my page.html"), Request::Attention("my page.html".into()));
    }

    #[test]
    fn invalid_commands_are_named_with_their_value() {
        for (line, word) in [
            (":nbest", "1 to 64"),
            (":nbest 0", "`0`"),
            (":beam 65", "`65`"),
            (":penalty nan", "`nan`"),
            (":attention", "name of a file"),
            (":target", "code of a language"),
            (":align on", "`on`"),
            (":bst 3", "`:bst`"),
            (":", "`:`"),
        ] {
            let problem = parse(line).unwrap_err();
            assert!(problem.contains(word), "{line}: {problem}");
        }
    }
}
