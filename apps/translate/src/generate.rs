//! Continuations of texts.

use std::{
    io::{self, IsTerminal, Write},
    path::Path,
};

use tx_cli::{allocator::SmallPages, terminal::stdout};
use tx_infer::{
    Bundle, Cancellation, Continuation, Device, Generator, Prompt, ScoredText, SearchOptions,
};

use crate::{
    args::TranslateArgs,
    editor::{Answer, answer_texts},
    lines::{Lines, of_line, write_lines},
    output::Stop,
};

/// Output format of continuations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    /// The best text, one line per input line.
    Text,
    /// All texts, one line each, in the n-best format of Moses.
    NBest,
    /// All texts with tokens and scores, one JSON object per input line.
    Json,
}

/// Continues the text or the lines of the input of `args` with `bundle`, which was opened at `model`.
pub fn generate(
    args: TranslateArgs,
    model: &Path,
    bundle: &Bundle,
    device: &Device,
    small_pages: Option<SmallPages>,
) -> anyhow::Result<()> {
    let generator = args.translator.generator(model, bundle, device, args.seed.seed)?;
    drop(small_pages);
    if args.interactive {
        return answer_texts(Typed { generator, number: 0 });
    }
    let search = &args.translator.search;
    let several = search.n_best.is_some() || search.samples.is_some();
    let format = match (args.json, several) {
        (true, _) => Format::Json,
        (false, true) => Format::NBest,
        (false, false) => Format::Text,
    };
    let streams =
        format == Format::Text && can_stream(generator.options()) && io::stdout().is_terminal();
    Lines::open(&args)?.each_window(|report, lines, first| {
        let prompts = lines.iter().zip(first..);
        let prompts: Vec<Prompt<'_>> =
            prompts.map(|(text, number)| Prompt { text, number }).collect();
        if streams {
            for (prompt, line) in prompts.iter().zip(lines) {
                let found = stream(&generator, *prompt)?;
                report.unknown(prompt.number + 1, &found.unknown)?;
                report.advance(std::slice::from_ref(line));
            }
            return Ok(());
        }
        let mut done = 0;
        let sink = |ready: Vec<Continuation>| {
            let range = done..done + ready.len();
            done = range.end;
            for (found, prompt) in ready.iter().zip(&prompts[range.clone()]) {
                report.unknown(prompt.number + 1, &found.unknown)?;
            }
            let results: Vec<_> = ready.iter().zip(&prompts[range.clone()]).collect();
            write_lines(&results, |out, (found, prompt)| match format {
                Format::Text => writeln!(out, "{}", found.text),
                Format::NBest => n_best(out, prompt.number, &found.hypotheses),
                Format::Json => writeln!(
                    out,
                    "{}",
                    of_line(generator.to_json(found), prompt.number + 1, "prompt", prompt.text)
                ),
            })?;
            report.advance(&lines[range]);
            Ok::<_, Stop>(())
        };
        let never = Cancellation::new();
        Ok(generator.continue_lines(&prompts, generator.options(), &never, sink)?)
    })
}

/// Returns `true` if there is one hypothesis, which can be shown while it is generated.
fn can_stream(options: &SearchOptions) -> bool {
    options.sampling.map_or(options.beam, |sampling| sampling.samples) == 1
}

/// Prints a prompt and its continuation token by token, and ends the line.
fn stream(generator: &Generator, prompt: Prompt<'_>) -> anyhow::Result<Continuation> {
    let mut out = stdout();
    let mut written = write!(out, "{}", prompt.text).and_then(|()| out.flush());
    let cancellation = Cancellation::new();
    let found = generator.continue_streaming(prompt, generator.options(), &cancellation, |part| {
        written = write!(out, "{part}").and_then(|()| out.flush());
        if written.is_err() {
            cancellation.cancel();
        }
    });
    // An error of writing ends the generation, too.
    written?;
    let found = found?;
    writeln!(out)?;
    Ok(found)
}

/// Writes `NUMBER ||| TEXT ||| logprob= LOG_PROBABILITY ||| SCORE` for each text.
fn n_best(out: &mut dyn Write, number: u64, hypotheses: &[ScoredText]) -> io::Result<()> {
    for ScoredText { text, hypothesis, .. } in hypotheses {
        let (log_probability, score) = (hypothesis.log_probability, hypothesis.score);
        writeln!(out, "{number} ||| {text} ||| logprob= {log_probability:.6} ||| {score:.6}")?;
    }
    Ok(())
}

/// Interactive session.
struct Typed {
    generator: Generator,
    /// Number of the line, from 0.
    number: u64,
}

impl Answer for Typed {
    fn prompt(&self) -> &'static str {
        "Type the beginning of a text to continue it."
    }

    fn answer(&mut self, text: &str) -> anyhow::Result<()> {
        let prompt = Prompt { text, number: self.number };
        self.number += 1;
        if can_stream(self.generator.options()) {
            stream(&self.generator, prompt)?;
            return Ok(());
        }
        let (options, never) = (self.generator.options(), Cancellation::new());
        let several = options.n_best > 1 || options.sampling.is_some();
        self.generator.continue_lines(&[prompt], options, &never, |ready| {
            write_lines(&ready, |out, found| {
                let shown = if several { found.hypotheses.len() } else { 1 };
                let texts = found.hypotheses.iter().take(shown);
                texts.into_iter().try_for_each(|scored| writeln!(out, "{}", scored.text))
            })?;
            Ok::<_, Stop>(())
        })?;
        Ok(())
    }
}
