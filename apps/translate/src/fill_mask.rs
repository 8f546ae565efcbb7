//! Texts with tokens in place of their masks.

use tx_cli::allocator::SmallPages;
use tx_infer::{Bundle, Cancellation, Device, FillMask, Filled};

use crate::{
    args::TranslateArgs,
    editor::{Answer, answer_texts},
    lines::{Lines, of_line, write_fields, write_lines},
    output::Stop,
    usage::Usage,
};

/// Fills the masks of the text or the lines of the input of `args` with `bundle`.
pub fn fill_mask(
    args: TranslateArgs,
    bundle: &Bundle,
    device: &Device,
    small_pages: Option<SmallPages>,
) -> anyhow::Result<()> {
    let top_k = args.translator.search.top_k;
    if top_k == Some(0) {
        return Err(Usage::new("`--top-k` = 0 must be at least 1").into());
    }
    let model = args.translator.fill_mask(bundle, device)?;
    let model = model.with_top_k(top_k.unwrap_or(FillMask::TOP_K));
    drop(small_pages);
    if args.interactive {
        return answer_texts(Typed { model, lists_tokens: top_k.is_some() });
    }
    Lines::open(&args)?.each_window(|report, lines, first| {
        let mut done = 0;
        let sink = |ready: Vec<Filled>| {
            let these = &lines[done..done + ready.len()];
            let numbers = first + done as u64 + 1..;
            done += ready.len();
            for (found, number) in ready.iter().zip(numbers.clone()) {
                report.unknown(number, &found.unknown)?;
            }
            let results: Vec<_> = ready.iter().zip(these).zip(numbers).collect();
            write_lines(&results, |mut out, ((found, line), number)| match args.json {
                true => writeln!(out, "{}", of_line(found.to_json(), *number, "text", line)),
                false => write_fields(&mut out, &fields(found, top_k.is_some())),
            })?;
            report.advance(these);
            Ok::<_, Stop>(())
        };
        Ok(model.fill_lines(lines, first, &Cancellation::new(), sink)?)
    })
}

/// The filled text; with `lists_tokens`, also the likeliest tokens of each mask with their
/// probabilities.
fn fields(found: &Filled, lists_tokens: bool) -> Vec<String> {
    let mut fields = vec![found.text.clone()];
    let tokens = found.masks.iter().flatten().filter(|_| lists_tokens);
    fields
        .extend(tokens.flat_map(|token| [token.text.clone(), format!("{:.6}", token.probability)]));
    fields
}

/// Interactive session.
struct Typed {
    model: FillMask,
    lists_tokens: bool,
}

impl Answer for Typed {
    fn prompt(&self) -> &'static str {
        "Type a text with <mask> to fill it."
    }

    fn answer(&mut self, text: &str) -> anyhow::Result<()> {
        let found = self.model.fill(text)?;
        Ok(write_lines(&[fields(&found, self.lists_tokens)], |mut out, fields| {
            write_fields(&mut out, fields)
        })?)
    }
}
