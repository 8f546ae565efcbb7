//! Labels of texts with their probabilities.

use tx_cli::allocator::SmallPages;
use tx_infer::{Bundle, Cancellation, Classification, Classifier, Device};

use crate::{
    args::TranslateArgs,
    editor::{Answer, answer_texts},
    lines::{Lines, of_line, write_fields, write_lines},
    output::Stop,
    usage::Usage,
};

/// Classifies the text or the lines of the input of `args` with `bundle`.
pub fn classify(
    args: TranslateArgs,
    bundle: &Bundle,
    device: &Device,
    small_pages: Option<SmallPages>,
) -> anyhow::Result<()> {
    let top_k = args.translator.search.top_k;
    if top_k == Some(0) {
        return Err(Usage::new("`--top-k` = 0 must be at least 1").into());
    }
    let classifier = args.translator.classifier(bundle, device)?;
    drop(small_pages);
    if args.interactive {
        return answer_texts(Typed { classifier, top_k: top_k.unwrap_or(1) });
    }
    let max_len = classifier.config().max_len;
    Lines::open(&args)?.each_window(|report, lines, first| {
        let mut done = 0;
        let sink = |ready: Vec<Classification>| {
            let these = &lines[done..done + ready.len()];
            let numbers = first + done as u64 + 1..;
            done += ready.len();
            for (found, number) in ready.iter().zip(numbers.clone()) {
                if found.truncated {
                    report.truncated(number, max_len)?;
                }
                report.unknown(number, &found.unknown)?;
            }
            let results: Vec<_> = ready.iter().zip(these).zip(numbers).collect();
            write_lines(&results, |mut out, ((found, line), number)| match args.json {
                true => writeln!(out, "{}", of_line(found.to_json(top_k), *number, "text", line)),
                false => write_fields(&mut out, &fields(found, top_k.unwrap_or(1))),
            })?;
            report.advance(these);
            Ok::<_, Stop>(())
        };
        Ok(classifier.classify_lines(lines, first, &Cancellation::new(), sink)?)
    })
}

/// Label and probability of the `top_k` best classes.
fn fields(found: &Classification, top_k: usize) -> Vec<String> {
    let best = found.scores.iter().take(top_k);
    best.flat_map(|score| [score.label.to_string(), format!("{:.6}", score.probability)]).collect()
}

/// Interactive session.
struct Typed {
    classifier: Classifier,
    top_k: usize,
}

impl Answer for Typed {
    fn prompt(&self) -> &'static str {
        "Type a text to classify it."
    }

    fn answer(&mut self, text: &str) -> anyhow::Result<()> {
        let found = self.classifier.classify(text)?;
        Ok(write_lines(&[fields(&found, self.top_k)], |mut out, fields| {
            write_fields(&mut out, fields)
        })?)
    }
}
