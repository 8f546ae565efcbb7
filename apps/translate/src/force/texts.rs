//! Scores of texts with a language model.

use std::io::{self, BufWriter, Write};

use serde_json::json;
use tx_cli::terminal::{stderr, stdout};
use tx_infer::{Generator, TextScore};
use tx_text::Lines;

use super::{ForceArgs, WINDOW};

/// Sums over all lines.
#[derive(Default)]
struct Total {
    lines: usize,
    tokens: usize,
    words: usize,
    characters: usize,
    log_probability: f64,
}

impl Total {
    fn add(&mut self, score: &TextScore) {
        self.lines += 1;
        self.tokens += score.ids.len();
        self.words += score.words;
        self.characters += score.characters;
        self.log_probability += score.log_probability();
    }

    fn perplexity_per(&self, units: usize) -> f64 {
        (-self.log_probability / units.max(1) as f64).exp()
    }
}

/// Prints the log-probability of each line of `--source`, and to standard error the perplexity of all
/// lines.
pub(super) fn force(args: &ForceArgs, generator: &Generator) -> anyhow::Result<()> {
    let mut lines = Lines::open(&args.source)?;
    let mut total = Total::default();
    loop {
        let texts = lines.by_ref().take(WINDOW).collect::<Result<Vec<String>, _>>()?;
        if texts.is_empty() {
            break;
        }
        let found = generator.score(&texts, total.lines as u64)?;
        let mut out = BufWriter::new(stdout());
        if total.lines == 0 && !args.json {
            writeln!(out, "log_probability\ttokens\tperplexity")?;
        }
        for score in &found {
            total.add(score);
            write_one(&mut out, generator, total.lines, score, args.json)?;
        }
        out.flush()?;
    }
    if !args.quiet {
        let Total { lines, tokens, words, characters, .. } = total;
        writeln!(
            stderr(),
            "perplexity {:.4} per token, {:.4} per word, {:.4} per character ({lines} lines, {tokens} \
             tokens, {words} words, {characters} characters)",
            total.perplexity_per(tokens),
            total.perplexity_per(words),
            total.perplexity_per(characters)
        )?;
    }
    Ok(())
}

fn write_one(
    out: &mut impl Write,
    generator: &Generator,
    line: usize,
    score: &TextScore,
    as_json: bool,
) -> io::Result<()> {
    let (log_probability, perplexity) = (score.log_probability(), score.perplexity());
    if !as_json {
        return writeln!(out, "{log_probability:.6}\t{}\t{perplexity:.6}", score.ids.len());
    }
    let vocabulary = generator.tokenizer();
    let tokens: Vec<Option<String>> = score.ids.iter().map(|&id| vocabulary.token(id)).collect();
    let object = json!({
        "line": line,
        "log_probability": log_probability,
        "perplexity": perplexity,
        "perplexity_per_word": score.perplexity_per_word(),
        "perplexity_per_character": score.perplexity_per_character(),
        "words": score.words,
        "characters": score.characters,
        "tokens": tokens,
        "ids": score.ids,
        "log_probabilities": score.log_probabilities,
    });
    writeln!(out, "{object}")
}
