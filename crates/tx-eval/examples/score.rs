//! Scores two translated lines with every metric, as a table with signatures.
//!
//! `cargo run -p tx-eval --example score`

use std::io::{self, Write};

use tx_eval::{Bleu, Chrf, Ter, cer, exact_match, wer};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let hypotheses = ["A dog runs over the green grass.", "Two men are cooking."];
    let reference = ["A dog is running across the green grass.", "Two men are cooking."];

    let scores = [
        // These metrics take several references, hence a list with one reference.
        Bleu::default().corpus_score(&hypotheses, &[reference])?.summary(),
        Chrf::PLUS_PLUS.corpus_score(&hypotheses, &[reference])?.summary(),
        Ter::default().corpus_score(&hypotheses, &[reference])?.summary(),
        cer(&hypotheses, &reference)?.summary(),
        wer(&hypotheses, &reference)?.summary(),
        exact_match(&hypotheses, &reference)?.summary(),
    ];

    let mut out = io::stdout().lock();
    for score in scores {
        writeln!(out, "{score}")?;
        writeln!(out, "    {}", score.signature)?;
    }
    Ok(())
}
