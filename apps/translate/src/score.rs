//! Scores of translations against references.

use std::io::{BufReader, Write, stdin, stdout};

use serde_json::{Map, Value, json};
use tx_eval::{Bleu, Score, Tokenizer, cer, exact_match, wer};
use tx_infer::tx_data::source::local::{Lines, lines};

use crate::args::{Metric, ScoreArgs, Tokenize};

/// Prints the scores that `args` ask for.
pub fn score(args: ScoreArgs) -> anyhow::Result<()> {
    let hypotheses = match &args.hypothesis {
        Some(path) => lines(path)?,
        None => Lines::new(Box::new(BufReader::new(stdin())), "standard input")
            .collect::<Result<_, _>>()?,
    };
    let references =
        args.reference.iter().map(|path| lines(path)).collect::<Result<Vec<_>, _>>()?;
    let scores = args
        .metrics
        .iter()
        .map(|metric| compute(*metric, &args, &hypotheses, &references))
        .collect::<anyhow::Result<Vec<_>>>()?;

    let mut output = stdout().lock();
    if args.json {
        let list = scores.iter().map(to_json).collect();
        writeln!(output, "{:#}", Value::Array(list))?;
    } else {
        for score in scores {
            writeln!(output, "{}", to_text(&score))?;
        }
    }
    Ok(())
}

fn compute(
    metric: Metric,
    args: &ScoreArgs,
    hypotheses: &[String],
    references: &[Vec<String>],
) -> anyhow::Result<Score> {
    let first = references.first().map_or(&[][..], Vec::as_slice);
    Ok(match metric {
        Metric::Bleu => {
            let tokenizer = match args.tokenize {
                Tokenize::V13a => Tokenizer::V13a,
                Tokenize::None => Tokenizer::None,
            };
            let bleu = Bleu { tokenizer, lowercase: args.lowercase, ..Bleu::default() };
            bleu.corpus_score(hypotheses, references)?.summary()
        }
        Metric::Cer => cer(hypotheses, first)?.summary(),
        Metric::Wer => wer(hypotheses, first)?.summary(),
        Metric::Exact => exact_match(hypotheses, first)?.summary(),
    })
}

/// The line of `sacrebleu --format text`: a score without its signature cannot be compared.
fn to_text(score: &Score) -> String {
    let Score { name, value, verbose, signature } = score;
    format!("{name}|{signature} = {value:.2} {verbose}")
}

/// The keys of `sacrebleu --format json`.
fn to_json(score: &Score) -> Value {
    let mut object = Map::new();
    object.insert("name".into(), json!(score.name));
    object.insert("score".into(), json!((score.value * 100.0).round() / 100.0));
    object.insert("signature".into(), json!(score.signature.to_string()));
    object.insert("verbose_score".into(), json!(score.verbose));
    for (key, value) in score.signature.pairs() {
        object.insert(key.into(), json!(value));
    }
    Value::Object(object)
}
