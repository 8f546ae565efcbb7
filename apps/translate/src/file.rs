//! Translation of files with markup: HTML, XML, subtitles, documents.

use std::{
    collections::HashSet,
    fs,
    io::{self, Read, Write},
    path::Path,
    time::Duration,
};

use anyhow::Context;
use tx_cli::{
    allocator::SmallPages,
    terminal::{stderr, stdout},
};
use tx_infer::{Aligner, Bundle, Deadline, Device};
use tx_markup::{File, FileFormat, MarkupError, PlanOptions};

use crate::{
    args::TranslateArgs,
    input::STANDARD_INPUT,
    unknown_words::{LISTED, UnknownWords},
};

impl TranslateArgs {
    /// Reads the text or the input as a whole.
    fn content(&self) -> anyhow::Result<Vec<u8>> {
        match (&self.text, &self.input) {
            (Some(text), _) => Ok(text.clone().into_bytes()),
            (None, Some(path)) => {
                fs::read(path).with_context(|| format!("cannot read `{}`", path.display()))
            }
            (None, None) => {
                let mut content = Vec::new();
                let read = io::stdin().read_to_end(&mut content);
                read.with_context(|| format!("cannot read {STANDARD_INPUT}"))?;
                Ok(content)
            }
        }
    }
}

/// Translates the text or the input of `args`, a file of this format, with `bundle`, which was opened at `model`.
pub fn translate(
    args: &TranslateArgs,
    format: FileFormat,
    model: &Path,
    bundle: Bundle,
    device: &Device,
    small_pages: Option<SmallPages>,
) -> anyhow::Result<()> {
    let name = match (&args.text, &args.input) {
        (Some(_), _) => "`--text`".to_owned(),
        (None, Some(path)) => format!("`{}`", path.display()),
        (None, None) => STANDARD_INPUT.to_owned(),
    };
    let failed = |error| match error {
        MarkupError::Infer(error) => anyhow::Error::new(error),
        error => anyhow::Error::new(error).context(format!("cannot translate {name}")),
    };
    // Whoever waits can interrupt the program.
    let deadline = Deadline::after(Duration::MAX);
    let file = File::read(args.content()?.into(), format, File::MAX_BYTES, &deadline);
    let file = file.map_err(failed)?;

    let alignment = args.alignment_from.options(&bundle)?;
    let mut translator = args.translator.translator(model, &bundle, device, args.seed.seed)?;
    if let Some(code) = &args.split.split_language {
        translator = translator.with_text_language(code);
    }
    drop(small_pages);
    let engine = args.translator.alignment_engine(&bundle, &translator, device)?;
    let aligner = Aligner::new(engine, alignment);
    // Unmaps the file of the weights.
    drop(bundle);

    let options = PlanOptions { format: format.text_format(), ..PlanOptions::default() };
    let (mut truncated, mut unknown, mut seen) = (0, Vec::new(), HashSet::new());
    let report = |translation: &tx_infer::Translation| {
        truncated += usize::from(translation.truncated);
        unknown.extend(
            translation.unknown.iter().filter(|word| seen.insert((*word).clone())).cloned(),
        );
    };
    let texts =
        tx_markup::translate(&file.texts(), &translator, &aligner, &options, &deadline, report);
    let content = file.with_texts(&texts.map_err(failed)?, &deadline).map_err(failed)?;
    match &args.output {
        Some(path) => fs::write(path, content)
            .with_context(|| format!("cannot write `{}`", path.display()))?,
        None => stdout().write_all(&content)?,
    }
    if args.quiet {
        return Ok(());
    }
    if truncated > 0 {
        let max_len = translator.config().max_len;
        writeln!(
            stderr(),
            "warning: {truncated} sentences were truncated to {max_len} tokens, the maximum of this model"
        )?;
    }
    if let Some(words) = UnknownWords::default().add(&unknown) {
        let further = match unknown.len().saturating_sub(LISTED) {
            0 => String::new(),
            further => format!(", and {further} more"),
        };
        writeln!(
            stderr(),
            "warning: unknown words, which the model cannot translate: {words}{further}"
        )?;
    }
    Ok(())
}
