//! English sentences of the phrasebook, one a line, as the tasks with one text learn them.
//!
//! ```text
//! cargo run -p tx-data --example phrasebook -- text-training 50000 1 > train.txt
//! cargo run -p tx-data --example phrasebook -- typed-validation 1000 1 > valid.tsv
//! ```
//!
//! The arguments are the set, the number of sentences, and the seed. The typed sets are lines of
//! sentence, tab and type.

use std::{
    env,
    io::{self, BufWriter, Write},
};

use tx_data::source::phrasebook;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [set, count, seed] = &arguments[..] else {
        return Err("expected a set, a number of sentences and a seed".into());
    };
    let (count, seed) = (count.parse()?, seed.parse()?);
    let (pairs, is_typed) = match set.as_str() {
        "text-training" => (phrasebook::training(count, seed), false),
        "text-validation" => (phrasebook::validation(count, seed), false),
        "typed-training" => (phrasebook::typed_training(count, seed), true),
        "typed-validation" => (phrasebook::typed_validation(count, seed), true),
        other => {
            let sets = "text-training, text-validation, typed-training or typed-validation";
            return Err(format!("expected {sets}, found {other}").into());
        }
    };
    let mut out = BufWriter::new(io::stdout().lock());
    for pair in pairs {
        match is_typed {
            true => writeln!(out, "{}\t{}", pair.source, pair.target)?,
            false => writeln!(out, "{}", pair.source)?,
        }
    }
    out.flush()?;
    Ok(())
}
