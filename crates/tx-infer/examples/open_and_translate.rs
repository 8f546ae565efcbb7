//! Opens a bundle and translates with it.
//!
//! `cargo run -p tx-infer --example open_and_translate -- FOLDER TEXT`
//!
//! Without arguments, writes a bundle of an untrained model first. Its translations are arbitrary.

use std::{
    env,
    io::{self, Write},
};

use tx_infer::{
    Device, ModelTask, NewBundle, SearchOptions, Translator,
    tx_text::{SentencePair, TokenizerConfig, Tokenizers},
};

mod untrained;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let mut out = io::stdout().lock();
    match &arguments[..] {
        [folder, text] => {
            let translator = Translator::open(folder, &Device::Cpu)?;
            writeln!(out, "{}", translator.translate(text)?.text)?;
        }
        _ => {
            let folder = tempfile::tempdir()?;
            untrained()?.save(folder.path())?;

            let search = SearchOptions { beam: 3, n_best: 2, ..SearchOptions::default() };
            let translator = Translator::open(folder.path(), &Device::Cpu)?.with_options(search)?;
            let found = translator.translate_batch(&["Where is the cat?", ""])?;
            for scored in &found[0].hypotheses {
                writeln!(out, "{:.3}  {}", scored.hypothesis.score, scored.text)?;
            }
            // Best first; an empty text has an empty translation.
            let [first, second] = &found[0].hypotheses[..] else {
                return Err("two hypotheses were requested".into());
            };
            assert!(first.hypothesis.score >= second.hypothesis.score);
            assert!(found[1].text.is_empty() && found[1].hypotheses.is_empty());
        }
    }
    Ok(())
}

/// Bundle of an untrained model.
fn untrained() -> Result<NewBundle<'static>> {
    let pairs = [SentencePair::new("Where is the cat?", "Dov'è il gatto?")];
    let tokenizers = Tokenizers::train(&TokenizerConfig::default(), &pairs)?;
    Ok(untrained::bundle(ModelTask::Translate, untrained::small(), tokenizers))
}
