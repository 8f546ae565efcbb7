//! Divides texts into sentences.
//!
//! Reads lines `LANGUAGE<TAB>TEXT` from standard input, and prints one sentence per line and an empty
//! line after each text:
//!
//! ```sh
//! printf 'de\tAm 3. Oktober kam Dr. Meier. Wer ging?\n' | cargo run -p tx-text --example sentences
//! ```

use std::io::{self, BufRead, Write};

use tx_text::sentences::sentences;

fn main() -> io::Result<()> {
    let mut output = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let line = line?;
        let (language, text) = line.split_once('\t').unwrap_or(("", &line));
        for span in sentences(text, Some(language)) {
            writeln!(output, "{}", &text[span])?;
        }
        writeln!(output)?;
    }
    Ok(())
}
