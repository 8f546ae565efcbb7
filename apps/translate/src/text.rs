//! Lines in, translations out.

use std::io::{BufReader, Write, stderr, stdin, stdout};

use anyhow::Context;
use tx_infer::{SearchOptions, Translation, Translator, tx_data::source::local::Lines};

use crate::args::TranslateArgs;

/// Lines translated together: enough for batches of like length, few enough to show soon.
const CHUNK: usize = 1_000;

/// Translates the text or the lines that `args` name.
pub fn translate(args: TranslateArgs) -> anyhow::Result<()> {
    let model = args.model.context("`--model` is required")?;
    let (_, device) = args.device.open()?;
    let options = SearchOptions {
        beam: args.beam.into(),
        length_penalty: args.length_penalty,
        max_len_ratio: args.max_len_ratio,
        min_len: args.min_len,
        ..SearchOptions::default()
    };
    let mut translator = Translator::open(&model, &device)?
        .with_options(options)?
        .with_batch_tokens(args.batch_tokens);
    if let Some(threads) = args.threads {
        translator = translator.with_threads(threads.get());
    }

    let mut lines: Box<dyn Iterator<Item = _>> = match (args.text, &args.input) {
        (Some(text), _) => Box::new(std::iter::once(Ok(text))),
        (None, Some(path)) => Box::new(Lines::open(path)?),
        (None, None) => Box::new(Lines::new(Box::new(BufReader::new(stdin())), "standard input")),
    };
    let mut first = 1;
    loop {
        let chunk = lines.by_ref().take(CHUNK).collect::<Result<Vec<String>, _>>()?;
        if chunk.is_empty() {
            return Ok(());
        }
        let translations = translator.translate_batch(&chunk)?;
        if !args.quiet {
            warn_of_cuts(&translations, first, translator.config().max_len)?;
        }
        first += chunk.len();
        let mut output = stdout().lock();
        for translation in translations {
            writeln!(output, "{}", translation.text)?;
        }
        output.flush()?;
    }
}

fn warn_of_cuts(translations: &[Translation], first: usize, max_len: usize) -> anyhow::Result<()> {
    for (index, _) in translations.iter().enumerate().filter(|(_, found)| found.cut) {
        writeln!(
            stderr(),
            "warning: line {} was cut to the {max_len} tokens that this model can read",
            first + index
        )?;
    }
    Ok(())
}
