//! Tokenization speed on a text.
//!
//! `cargo bench --workspace --bench tokenize -- TOKENIZER TEXT [--rounds 5]`
//!
//! TOKENIZER is a `tokenizer.json` of tx, TEXT a file of lines, plain or gzip. Prints one line of
//! JSON: characters, tokens and tokens per second of the median round, without reading the file.
//! `benches/compare/tokenizing.py` prints the same for Python, and the ratio.

use std::{
    env,
    error::Error,
    io::{Write, stderr, stdout},
    path::PathBuf,
    process::ExitCode,
    time::Instant,
};

use serde_json::json;
use tx_text::{Tokenizer, lines::read_lines};

/// Lines tokenized together.
const PART: usize = 8_192;

fn main() -> ExitCode {
    match run(env::args().skip(1).filter(|argument| argument != "--bench")) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            drop(writeln!(stderr(), "error: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: impl Iterator<Item = String>) -> Result<(), Box<dyn Error>> {
    let (mut files, mut rounds): (Vec<PathBuf>, usize) = (Vec::new(), 5);
    let mut arguments = arguments;
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--rounds" => rounds = arguments.next().ok_or("--rounds needs a number")?.parse()?,
            _ => files.push(argument.into()),
        }
    }
    // `cargo bench` runs all benchmarks without arguments.
    let [tokenizer, text] = &files[..] else {
        writeln!(stderr(), "usage: tokenize TOKENIZER TEXT")?;
        return Ok(());
    };
    let tokenizer = Tokenizer::open(tokenizer)?;
    let lines = read_lines(text)?;
    let mut seconds = Vec::with_capacity(rounds);
    let mut tokens = 0;
    for _ in 0..rounds.max(1) {
        let start = Instant::now();
        tokens = 0;
        for part in lines.chunks(PART) {
            let part: Vec<&str> = part.iter().map(String::as_str).collect();
            tokens += tokenizer.par_encode_batch(&part)?.iter().map(Vec::len).sum::<usize>();
        }
        seconds.push(start.elapsed().as_secs_f64());
    }
    seconds.sort_by(f64::total_cmp);
    let record = json!({
        "program": "tx",
        "lines": lines.len(),
        "characters": lines.iter().map(|line| line.chars().count()).sum::<usize>(),
        "tokens": tokens,
        "seconds": seconds,
        "tokens_per_second": tokens as f64 / seconds[seconds.len() / 2],
        "version": env!("CARGO_PKG_VERSION"),
    });
    Ok(writeln!(stdout(), "{record}")?)
}
