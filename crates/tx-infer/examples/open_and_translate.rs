//! Opens a bundle and translates with it.
//!
//! `cargo run -p tx-infer --example open_and_translate -- FOLDER TEXT`
//!
//! Without arguments, makes a bundle first. Its model has learned nothing, so its answers mean
//! nothing; everything else is as with a trained one.

use std::{
    env,
    io::{self, Write},
};

use tx_infer::{
    Bundle, Device, SearchOptions, Translator,
    tx_text::{SentencePair, TokenizerConfig, Tokenizers},
};
use tx_model::{ModelConfig, Transformer, VocabSizes};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let device = Device::flex();
    let mut out = io::stdout().lock();
    match &arguments[..] {
        [folder, text] => {
            let translator = Translator::open(folder, &device)?;
            writeln!(out, "{}", translator.translate(text)?.text)?;
        }
        _ => {
            let folder = tempfile::tempdir()?;
            untrained(&device)?.save(folder.path())?;

            let search = SearchOptions { beam: 3, n_best: 2, ..SearchOptions::default() };
            let translator = Translator::open(folder.path(), &device)?.with_options(search)?;
            let found = translator.translate_batch(&["Where is the cat?", ""])?;
            for scored in &found[0].hypotheses {
                writeln!(out, "{:.3}  {}", scored.hypothesis.score, scored.text)?;
            }
            // Best first; an empty text has an empty translation.
            let [first, second] = &found[0].hypotheses[..] else {
                return Err("two hypotheses were asked for".into());
            };
            assert!(first.hypothesis.score >= second.hypothesis.score);
            assert!(found[1].text.is_empty() && found[1].hypotheses.is_empty());
        }
    }
    Ok(())
}

/// What `train` writes, before it has trained.
fn untrained(device: &Device) -> Result<Bundle> {
    let pairs = [SentencePair::new("Where is the cat?", "Dov'è il gatto?")];
    let tokenizers = Tokenizers::train(&TokenizerConfig::default(), &pairs)?;
    let config = ModelConfig {
        d_model: 16,
        n_heads: 2,
        d_ff: 32,
        encoder_layers: 1,
        decoder_layers: 1,
        max_len: 32,
        ..ModelConfig::default()
    };
    let vocabulary = VocabSizes {
        source: tokenizers.source.vocab_size(),
        target: tokenizers.target.vocab_size(),
    };
    device.seed(1);
    let model = Transformer::new(&config, vocabulary, device)?;
    Ok(Bundle { model, config, tokenizers, provenance: Default::default() })
}
