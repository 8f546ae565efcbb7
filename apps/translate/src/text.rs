//! Translation of a text or of the lines of an input.

use std::{
    io::{self, BufWriter, Write},
    path::Path,
};

use anyhow::bail;
use tx_cli::{
    allocator::SmallPages,
    terminal::{printable, stderr, stdout},
};
use tx_infer::{Aligner, Bundle, Cancellation, Device, Line, Translation};
use tx_markup::placeholders_of;
use tx_text::{InvalidUtf8, Lines};

use crate::{
    align::TextAligner,
    args::{TranslateArgs, split::Split},
    document::Document,
    input::{Input, Window},
    interactive::{Session, interactive},
    output::{Format, Output, Stop},
    progress::Progress,
    sentences,
    unknown_words::UnknownWords,
    usage::Usage,
};

/// Bytes of a placeholder that a note shows, at most.
const SHOWN: usize = 60;

/// Translates the text or the input of `args` with `bundle`, which was opened at `model`.
pub fn translate(
    args: TranslateArgs,
    model: &Path,
    bundle: Bundle,
    device: &Device,
    small_pages: Option<SmallPages>,
) -> anyhow::Result<()> {
    if args.interactive && args.translator.search.sample {
        return Err(Usage::new("`--interactive` conflicts with `--sample` in translation").into());
    }
    if args.interactive && args.translator.search.mbr.is_some() {
        return Err(Usage::new("`--interactive` conflicts with `--mbr`").into());
    }
    let unit = args.unit()?;
    let mut notes_sentences = args.has_default_lines() && !args.quiet;
    let mut notes_placeholders = notes_sentences && !args.json && args.format.is_none();
    let alignment_options = args.alignment_from.options(&bundle)?;
    let wants_alignment = args.alignment.is_some() || args.interactive;
    if args.alignment_from.is_given() && !wants_alignment {
        let problem =
            "`--alignment-layer` and `--alignment-head` have no effect without `--alignment`";
        return Err(Usage::new(problem).into());
    }
    let mut translator = args.translator.translator(model, &bundle, device, args.seed.seed)?;
    if let Some(code) = &args.split.split_language {
        translator = translator.with_text_language(code);
    }
    drop(small_pages);
    let aligner = if wants_alignment {
        let engine = args.translator.alignment_engine(&bundle, &translator, device)?;
        let aligner = Aligner::new(engine.clone(), alignment_options);
        Some((engine, TextAligner::new(translator.texts().clone(), aligner)))
    } else {
        None
    };
    let aligner = match aligner {
        Some((engine, texts)) if args.interactive => {
            let shown = args.alignment.is_some();
            return interactive(Session::new(bundle, translator, engine, texts, shown, unit));
        }
        aligner => args.alignment.zip(aligner.map(|(_, texts)| texts)),
    };
    // Unmaps the file of the weights.
    drop(bundle);
    let search = &args.translator.search;
    // With minimum Bayes risk, the samples are candidates.
    let several = search.n_best.is_some() || (search.samples.is_some() && search.mbr.is_none());
    let format = match (aligner, args.json, several) {
        (Some((format, aligner)), ..) => Format::Aligned(format, Box::new(aligner)),
        (None, true, _) => Format::Json { confidence: args.confidence },
        (None, false, _) if args.confidence => Format::Confidence,
        (None, false, true) => Format::NBest,
        (None, false, false) => Format::Text,
    };

    let invalid = args.invalid.into();
    let window = args.batch_size.get();
    let progress = Progress::new(args.input.as_deref(), args.quiet);
    let mut input = match (args.text, &args.input) {
        (Some(text), _) => Input::text(text),
        (None, Some(path)) => Input::file(path, invalid)?,
        (None, None) => Input::standard(invalid, window),
    };
    let mut prefixes = Prefixes::new(args.prefix, args.prefix_file.as_deref(), invalid)?;
    let mut output = Output {
        format,
        translator: &translator,
        quiet: args.quiet,
        progress,
        unknown: UnknownWords::default(),
    };
    let mut document = Document::new(translator.texts().context());
    let mut first = 0;
    loop {
        let Window { lines, end } = input.window(window);
        output.progress.read(input.bytes_read(), lines.iter().map(String::as_str));
        match unit {
            Split::Lines => {
                if notes_sentences && note_sentences(&output, &lines, first)? {
                    notes_sentences = false;
                }
                if notes_placeholders && note_placeholders(&output, &lines, first)? {
                    notes_placeholders = false;
                }
                document.add(&lines);
                translate_window(&mut output, &lines, &document, &mut prefixes, first)?;
            }
            Split::Sentences => {
                sentences::translate_window(&mut output, &lines, &mut document, first)?;
            }
        }
        first += lines.len() as u64;
        if let Some(end) = end {
            output.count_unknown_words()?;
            end?;
            return prefixes.finish(first);
        }
    }
}

/// Prints a note about the first of `texts`, numbered from `first`, that has several sentences, because they are
/// translated as one. Returns whether there is one.
fn note_sentences(output: &Output<'_>, texts: &[String], first: u64) -> io::Result<bool> {
    for (text, number) in texts.iter().zip(first + 1..) {
        let count = output.translator.count_sentences(text);
        if count > 1 {
            let note = format!(
                "note: line {number} has {count} sentences, which are translated as one; `--split \
                 sentences` translates each by itself, `--split lines` hides this note"
            );
            output.progress.suspend(|| writeln!(stderr(), "{note}"))?;
            return Ok(true);
        }
    }
    Ok(false)
}

/// Prints a note about the first of `texts`, numbered from `first`, that has a placeholder or an address, because
/// the model can change it. Returns whether there is one.
fn note_placeholders(output: &Output<'_>, texts: &[String], first: u64) -> io::Result<bool> {
    let found = texts.iter().zip(first + 1..).find_map(|(text, number)| {
        let placeholder = placeholders_of(text).into_iter().next()?;
        Some((number, &placeholder[..placeholder.floor_char_boundary(SHOWN)]))
    });
    if let Some((number, placeholder)) = found {
        let note = format!(
            "note: line {number} has `{}`, which the model can change; `--format text` keeps \
             placeholders, addresses, tags and symbols, `--format lines` hides this note",
            printable(placeholder)
        );
        output.progress.suspend(|| writeln!(stderr(), "{note}"))?;
    }
    Ok(found.is_some())
}

/// Translates lines, numbered from `first`, and writes each batch as soon as it is done.
fn translate_window(
    output: &mut Output<'_>,
    texts: &[String],
    document: &Document,
    prefixes: &mut Prefixes,
    first: u64,
) -> anyhow::Result<()> {
    let prefixes = prefixes.of(texts.len(), first)?;
    let lines: Vec<Line<'_>> = texts
        .iter()
        .zip(&prefixes)
        .zip(first..)
        .enumerate()
        .map(|(index, ((text, prefix), number))| {
            let context = document.before(index);
            Line { prefix, context, ..Line::new(text, number) }
        })
        .collect();
    let translator = output.translator;
    let mut written = 0;
    let sink = |ready: Vec<Translation>| {
        let these = &lines[written..written + ready.len()];
        written += ready.len();
        output.warn(these, &ready)?;
        let mut out = BufWriter::new(stdout());
        output.write(&mut out, these, &ready)?;
        out.flush()?;
        output.progress.advance(these.iter().map(|line| line.text));
        Ok::<_, Stop>(())
    };
    let never = Cancellation::new();
    Ok(translator.translate_lines(&lines, translator.options(), &never, sink)?)
}

/// Target prefixes of translations.
enum Prefixes {
    /// The same prefix for all lines.
    Same(String),
    /// One prefix per line of a file.
    Lines { lines: Lines, path: String },
}

impl Prefixes {
    fn new(
        same: Option<String>,
        file: Option<&Path>,
        invalid: InvalidUtf8,
    ) -> anyhow::Result<Self> {
        Ok(match file {
            None => Self::Same(same.unwrap_or_default()),
            Some(path) => Self::Lines {
                lines: Lines::open(path)?.with_invalid_utf8(invalid),
                path: path.display().to_string(),
            },
        })
    }

    /// Returns the prefixes of `count` lines, numbered from `first`.
    fn of(&mut self, count: usize, first: u64) -> anyhow::Result<Vec<String>> {
        match self {
            Self::Same(prefix) => Ok(vec![prefix.clone(); count]),
            Self::Lines { lines, path } => {
                let prefixes = lines.take(count).collect::<Result<Vec<_>, _>>()?;
                if prefixes.len() < count {
                    let has = first + prefixes.len() as u64;
                    bail!("`{path}` has {has} lines, but the input has more");
                }
                Ok(prefixes)
            }
        }
    }

    /// Checks that no prefix is left after the last of `count` lines.
    fn finish(&mut self, count: u64) -> anyhow::Result<()> {
        if let Self::Lines { lines, path } = self
            && lines.next().transpose()?.is_some()
        {
            bail!("`{path}` has more lines than the input, which has {count}");
        }
        Ok(())
    }
}
