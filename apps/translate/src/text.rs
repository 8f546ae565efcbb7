//! Lines in, translations out.

use std::io::{BufReader, Write, stderr, stdin, stdout};

use anyhow::Context;
use tx_infer::{
    Aligner, Bundle, SearchOptions, Translation, Translator, tx_data::source::local::Lines,
};

use crate::{
    align::{TextAligner, line},
    args::TranslateArgs,
    interactive::{Session, interactive},
    progress::Progress,
    usage::Usage,
};

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
    let bundle = Bundle::open(&model, &device)?;
    let alignment_options = args.alignment_from.options(&bundle)?;
    let wants_alignment = args.alignment.is_some() || args.interactive;
    if args.alignment_from.is_given() && !wants_alignment {
        let problem = "`--alignment-layer` and `--alignment-head` need `--alignment`";
        return Err(Usage::new(problem).into());
    }
    // The translator lets the weights go as it packs them; who looks inside keeps them.
    let kept = wants_alignment.then(|| bundle.clone());
    let mut translator = Translator::new(bundle, &device)
        .with_options(options)?
        .with_batch_tokens(args.batch_tokens);
    if let Some(threads) = args.threads {
        translator = translator.with_threads(threads.get());
    }
    let aligner = kept.as_ref().map(|bundle| {
        TextAligner::new(bundle, Aligner::new(bundle.model.clone(), &device, alignment_options))
    });
    let aligner = match (kept, aligner) {
        (Some(bundle), Some(texts)) if args.interactive => {
            let shown = args.alignment.is_some();
            return interactive(Session::new(bundle, &device, translator, options, texts, shown));
        }
        (_, aligner) => args.alignment.zip(aligner),
    };

    let mut lines: Box<dyn Iterator<Item = _>> = match (args.text, &args.input) {
        (Some(text), _) => Box::new(std::iter::once(Ok(text))),
        (None, Some(path)) => Box::new(Lines::open(path)?),
        (None, None) => Box::new(Lines::new(Box::new(BufReader::new(stdin())), "standard input")),
    };
    let progress = Progress::new(args.input.as_deref(), args.quiet);
    let mut first = 1;
    loop {
        let chunk = lines.by_ref().take(CHUNK).collect::<Result<Vec<String>, _>>()?;
        if chunk.is_empty() {
            return Ok(());
        }
        let translations = translator.translate_batch(&chunk)?;
        if !args.quiet {
            let max_len = translator.config().max_len;
            progress.suspend(|| warn_of_cuts(&translations, first, max_len))?;
        }
        first += chunk.len();
        let mut output = stdout().lock();
        match &aligner {
            None => {
                for translation in &translations {
                    writeln!(output, "{}", translation.text)?;
                }
            }
            Some((format, aligner)) => {
                let alignments = aligner.translations(&chunk, &translations)?;
                for (translation, alignment) in translations.iter().zip(&alignments) {
                    writeln!(output, "{}", line(*format, &translation.text, alignment))?;
                }
            }
        }
        output.flush()?;
        progress.advance(chunk.len());
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
