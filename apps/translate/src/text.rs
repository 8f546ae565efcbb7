//! Lines in, translations out.

use std::{
    io::{self, BufWriter, Write, stderr, stdout},
    path::Path,
};

use anyhow::{Context, bail};
use tx_infer::{
    InferError, Line, Translation, Translator,
    tx_data::source::local::{Invalid, Lines},
};

use crate::{
    args::TranslateArgs,
    input::{Input, Window},
    output::{Format, Output},
};

/// Translates the text or the lines that `args` name.
pub fn translate(args: TranslateArgs) -> anyhow::Result<()> {
    let model = args.model.context("`--model` is required")?;
    let (_, device) = args.device.open()?;
    let folders = [&[model], &args.search.ensemble[..]].concat();
    let translator = Translator::open_ensemble(&folders, &device)?;
    let mut translator = args.search.apply(translator)?.with_batch_tokens(args.batch_tokens);
    if let Some(threads) = args.threads {
        translator = translator.with_threads(threads.get());
    }
    let several = args.search.n_best.is_some() || args.search.samples.is_some();
    let format = match (args.json, several) {
        (true, _) => Format::Json,
        (false, true) => Format::NBest,
        (false, false) => Format::Text,
    };

    let invalid = args.invalid.into();
    let window = args.batch_size.get();
    let mut input = match (args.text, &args.input) {
        (Some(text), _) => Input::text(text),
        (None, Some(path)) => Input::file(path, invalid)?,
        (None, None) => Input::standard(invalid, window),
    };
    let mut prefixes = Prefixes::new(args.prefix, args.prefix_file.as_deref(), invalid)?;
    let output = Output { format, translator: &translator };
    let mut first = 0;
    loop {
        let Window { lines, end } = input.window(window);
        translate_window(&output, &lines, &mut prefixes, first, args.quiet)?;
        first += lines.len() as u64;
        if let Some(end) = end {
            end?;
            return prefixes.finish(first);
        }
    }
}

/// Translates lines from number `first`; those that are done are written at once.
fn translate_window(
    output: &Output<'_>,
    texts: &[String],
    prefixes: &mut Prefixes,
    first: u64,
    quiet: bool,
) -> anyhow::Result<()> {
    let prefixes = prefixes.of(texts.len(), first)?;
    let lines: Vec<Line<'_>> = texts
        .iter()
        .zip(&prefixes)
        .zip(first..)
        .map(|((text, prefix), number)| Line { text, prefix, number })
        .collect();
    let mut lines_left = lines.iter();
    let max_len = output.translator.config().max_len;
    let sink = |ready: Vec<Translation>| {
        let mut out = BufWriter::new(stdout());
        // In this order: a zip takes from its first half what the second has no partner for.
        for (translation, line) in ready.iter().zip(lines_left.by_ref()) {
            if translation.cut && !quiet {
                warn_of_cut(line.number, max_len)?;
            }
            output.write(&mut out, line.number, line.text, translation)?;
        }
        out.flush()?;
        Ok::<_, Stop>(())
    };
    output.translator.translate_lines(&lines, sink).map_err(|stop| match stop {
        Stop::Infer(error) => error.into(),
        Stop::Write(error) => error.into(),
    })
}

fn warn_of_cut(number: u64, max_len: usize) -> io::Result<()> {
    writeln!(
        stderr(),
        "warning: line {} was cut to the {max_len} tokens that this model can read",
        number + 1
    )
}

/// Why translating stops.
enum Stop {
    Infer(InferError),
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

/// What translations begin with.
enum Prefixes {
    /// All with this.
    Same(String),
    /// Each with its own line of a file.
    Lines { lines: Lines, path: String },
}

impl Prefixes {
    fn new(same: Option<String>, file: Option<&Path>, invalid: Invalid) -> anyhow::Result<Self> {
        Ok(match file {
            None => Self::Same(same.unwrap_or_default()),
            Some(path) => Self::Lines {
                lines: Lines::open(path)?.with_invalid(invalid),
                path: path.display().to_string(),
            },
        })
    }

    /// Those of `count` lines from number `first`.
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

    /// After the last line, of `count`.
    fn finish(&mut self, count: u64) -> anyhow::Result<()> {
        if let Self::Lines { lines, path } = self
            && lines.next().transpose()?.is_some()
        {
            bail!("`{path}` has more lines than the input, which has {count}");
        }
        Ok(())
    }
}
