//! `translate inspect`: contents of a bundle, as text or JSON.

use std::io::Write;

use clap::Args;
use tx_cli::terminal::{printable, stdout};
use tx_infer::{BundleInfo, ModelTask, Pool};
use tx_text::{Tokenizer, special::SpecialTokens};

use crate::args::model::{BatchArgs, ModelArgs};

/// Arguments of `translate inspect`.
#[derive(Debug, Args)]
pub struct InspectArgs {
    /// Bundle to open
    #[command(flatten)]
    pub model: ModelArgs,

    /// List every weight with its shape
    #[arg(long)]
    pub weights: bool,

    /// Tokens shown of each vocabulary
    #[arg(long, value_name = "N", default_value_t = 12)]
    pub samples: usize,

    /// Size of the batch whose memory is estimated
    #[command(flatten)]
    pub batch: BatchArgs,

    /// Print JSON, every weight included
    #[arg(long)]
    pub json: bool,
}

/// Prints the contents of a bundle.
pub fn inspect(args: InspectArgs) -> anyhow::Result<()> {
    let info = BundleInfo::read(&args.model.model)?;
    let batch_tokens = args.batch.batch_tokens.unwrap_or(Pool::BATCH_TOKENS);
    let mut output = stdout();
    if args.json {
        writeln!(output, "{:#}", info.to_json(batch_tokens))?;
        return Ok(());
    }
    let total = info.parameters();
    writeln!(output, "parameters")?;
    for (part, count) in info.parts() {
        let percent = 100.0 * count as f64 / total.max(1) as f64;
        writeln!(output, "  {part:<26} {:>14}  {percent:5.1} %", grouped(count))?;
    }
    writeln!(output, "  {:<26} {:>14}", "all", grouped(total))?;

    writeln!(output, "\nmodel")?;
    writeln!(output, "  {:<26} {}", "precision", info.precision())?;
    let shape = serde_json::to_value(&info.config)?;
    for (key, value) in shape.as_object().into_iter().flatten() {
        for (key, value) in flat(key, value) {
            writeln!(output, "  {key:<26} {value}")?;
        }
    }

    let kind = info.task.kind();
    if kind.has_one_text() {
        writeln!(output, "\ntask")?;
        writeln!(output, "  {:<26} {kind}", "task")?;
        if let ModelTask::Classify { labels, pooling } = &info.task {
            let pooling = serde_json::to_value(pooling)?;
            writeln!(output, "  {:<26} {}", "pooling", pooling.as_str().unwrap_or_default())?;
            let names: Vec<String> =
                labels.iter().take(args.samples).map(|label| printable(label)).collect();
            let more = if labels.len() > names.len() { " …" } else { "" };
            writeln!(output, "  {:<26} {}: {}{more}", "labels", labels.len(), names.join(" "))?;
        }
    }

    if let Some(languages) = &info.languages {
        writeln!(output, "\nlanguages")?;
        let table = serde_json::to_value(languages)?;
        for (key, value) in table.as_object().into_iter().flatten() {
            let value = match value.as_array() {
                Some(codes) => listed(codes, args.samples),
                None => flat(key, value).remove(0).1,
            };
            writeln!(output, "  {key:<26} {value}")?;
        }
    }
    if info.context > 0 {
        writeln!(output, "\ncontext")?;
        writeln!(output, "  {:<26} {}", "sentences", info.context)?;
    }
    if let Some(search) = &info.search {
        writeln!(output, "\nsearch")?;
        let table = serde_json::to_value(search)?;
        for (key, value) in table.as_object().into_iter().flatten() {
            for (key, value) in flat(key, value) {
                writeln!(output, "  {key:<26} {value}")?;
            }
        }
    }

    writeln!(output, "\nvocabulary")?;
    let sides = match kind.has_one_text() {
        true => vec![("text", &info.tokenizers.target)],
        false => vec![("source", &info.tokenizers.source), ("target", &info.tokenizers.target)],
    };
    for (side, tokenizer) in sides {
        let size = grouped(tokenizer.vocab_size());
        writeln!(output, "  {side:<26} {size} tokens: {}", samples(tokenizer, args.samples))?;
    }
    let special = match info.tokenizers.target.mask_id() {
        Some(_) => SpecialTokens::WithMask,
        None => SpecialTokens::Standard,
    };
    let special = special.tokens().iter().enumerate();
    let special: Vec<String> = special.map(|(id, token)| format!("{token} {id}")).collect();
    writeln!(output, "  {:<26} {}", "special", special.join(", "))?;

    let memory = info.memory(batch_tokens);
    writeln!(output, "\nmemory, estimated")?;
    writeln!(output, "  {:<26} {:>14}", "weights", bytes(memory.weights))?;
    // Models without a decoder keep no keys and values.
    if memory.token > 0 {
        writeln!(output, "  {:<26} {:>14}", "keys and values per token", bytes(memory.token))?;
        let batch = format!("a batch of {} tokens", grouped(batch_tokens));
        let per_thread = "(on cpu, for each thread)";
        writeln!(output, "  {batch:<26} {:>14}  {per_thread}", bytes(memory.batch))?;
    }

    writeln!(output, "\nprovenance")?;
    for (key, value) in serde_json::to_value(&info.provenance)?.as_object().into_iter().flatten() {
        for (key, value) in flat(key, value) {
            writeln!(output, "  {key:<26} {value}")?;
        }
    }

    writeln!(output, "\nfiles")?;
    for file in &info.files {
        let size = grouped(file.bytes as usize);
        writeln!(output, "  {:<26} {size:>14}  {}", file.name, file.sha256)?;
    }
    if args.weights {
        writeln!(output, "\nweights")?;
        for weight in &info.weights {
            let name = printable(&weight.name);
            writeln!(output, "  {name:<60} {} {:?}", weight.dtype, weight.shape)?;
        }
    }
    Ok(())
}

/// Formats a list of codes: their number and all of them, or the first `count` if there are many.
fn listed(codes: &[serde_json::Value], count: usize) -> String {
    const FEW: usize = 250;
    let shown = if codes.len() > FEW { count } else { codes.len() };
    let names = codes.iter().take(shown).filter_map(serde_json::Value::as_str).map(printable);
    let names: Vec<String> = names.collect();
    let more = if shown < codes.len() { " …" } else { "" };
    format!("{}: {}{more}", codes.len(), names.join(" "))
}

/// Flattens a table into pairs of path and value, such as `dropout.embedding`. The path of a table in
/// an array has its number, from 1.
fn flat(key: &str, value: &serde_json::Value) -> Vec<(String, String)> {
    match value {
        serde_json::Value::Object(table) => {
            table.iter().flat_map(|(inner, value)| flat(&format!("{key}.{inner}"), value)).collect()
        }
        serde_json::Value::Array(tables) if tables.iter().any(serde_json::Value::is_object) => {
            let numbered = tables.iter().zip(1..);
            numbered.flat_map(|(inner, number)| flat(&format!("{key}.{number}"), inner)).collect()
        }
        serde_json::Value::String(text) => vec![(printable(key), printable(text))],
        other => vec![(printable(key), printable(&other.to_string()))],
    }
}

/// Formats the first tokens after the special ones, which are frequent, and the last, which are rare.
fn samples(tokenizer: &Tokenizer, count: usize) -> String {
    let first = match tokenizer.mask_id() {
        Some(_) => SpecialTokens::WithMask.count(),
        None => SpecialTokens::Standard.count(),
    };
    let last = tokenizer.vocab_size();
    let names = |from: usize, to: usize| {
        let ids = from.min(last)..to.min(last);
        ids.filter_map(|id| tokenizer.token(u32::try_from(id).ok()?))
            .map(|token| printable(&token).replace(' ', "␣"))
    };
    if last.saturating_sub(first) <= count {
        return names(first, last).collect::<Vec<_>>().join(" ");
    }
    let frequent = names(first, first + count.div_ceil(2)).collect::<Vec<_>>();
    let rare = names(last - count / 2, last).collect::<Vec<_>>();
    format!("{} … {}", frequent.join(" "), rare.join(" "))
}

/// Formats a number with separators: `1,234,567`.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn bytes(bytes: usize) -> String {
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_tables_are_formatted() {
        let numbers = [0, 12, 999, 1_000, 12_345, 1_234_567].map(grouped);
        assert_eq!(numbers, ["0", "12", "999", "1,000", "12,345", "1,234,567"]);
        assert_eq!([999, 1_500, 2_000_000].map(bytes), ["999 B", "1.5 kB", "2.0 MB"]);
        let table = serde_json::json!({ "a": { "b": 1 }, "c": "d" });
        let expected = [("x.a.b", "1"), ("x.c", "d")].map(|(k, v)| (k.to_owned(), v.to_owned()));
        assert_eq!(flat("x", &table), expected);
        let table = serde_json::json!({ "a\u{1b}": ["\u{202e}"] });
        let expected = [("x.a\\u{1b}".to_owned(), "[\"\\u{202e}\"]".to_owned())];
        assert_eq!(flat("x", &table), expected);
    }
}
