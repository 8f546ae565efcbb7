//! Translates the lines of standard input in three ways: as a batch, as a stream, and until a deadline.
//!
//! `cargo run -p tx-infer --example translate_many -- FOLDER < TEXT`

use std::{
    env,
    error::Error,
    io::{self, Write},
    thread,
    time::Duration,
};

use tx_infer::{Cancellation, Device, InferError, Line, SearchOptions, Translator};

fn main() -> Result<(), Box<dyn Error>> {
    let folder = env::args().nth(1).ok_or("usage: translate_many FOLDER < TEXT")?;
    let texts = io::stdin().lines().collect::<Result<Vec<String>, _>>()?;
    let mut out = io::stdout().lock();

    // A batch: all translations, in the order of the texts.
    let translator = Translator::open(&folder, &Device::Cpu)?;
    for translation in translator.translate_batch(&texts)? {
        writeln!(out, "{}", translation.text)?;
        if translation.truncated || !translation.unknown.is_empty() {
            writeln!(io::stderr(), "not translated in full: {:?}", translation.unknown)?;
        }
    }

    // A stream: each translation as soon as it and all before it are complete.
    let options = SearchOptions { beam: 2, ..translator.options().clone() };
    let lines: Vec<_> = texts.iter().zip(0..).map(|(text, n)| Line::new(text, n)).collect();
    translator.translate_lines(&lines, &options, &Cancellation::new(), |ready| {
        for translation in ready {
            writeln!(out, "{}", translation.text)?;
        }
        out.flush()?;
        Ok::<_, Box<dyn Error>>(())
    })?;

    // A deadline: another thread cancels the call, which ends before its next decoding step.
    let cancellation = Cancellation::new();
    let deadline = cancellation.clone();
    thread::spawn(move || {
        thread::sleep(Duration::from_secs(1));
        deadline.cancel();
    });
    match translator.translate_batch_with(&texts, &options, &cancellation) {
        Ok(translations) => writeln!(out, "{} in time", translations.len())?,
        Err(InferError::Cancelled) => writeln!(out, "canceled after a second")?,
        Err(error) => return Err(error.into()),
    }
    Ok(())
}
