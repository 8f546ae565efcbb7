//! Replaces each `<mask>` in a text.
//!
//! `cargo run -p tx-infer --example fill_mask -- FOLDER TEXT`
//!
//! Without arguments, writes a bundle of an untrained model first. Its tokens are arbitrary.

use std::{
    env,
    io::{self, Write},
};

use tx_infer::{
    Device, FillMask, ModelTask, NewBundle,
    tx_text::{Tokenizer, TokenizerConfig, Tokenizers, special::SpecialTokens},
};

mod untrained;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let mut out = io::stdout().lock();
    match &arguments[..] {
        [folder, text] => {
            let model = FillMask::open(folder, &Device::Cpu)?;
            writeln!(out, "{}", model.fill(text)?.text)?;
        }
        _ => {
            let folder = tempfile::tempdir()?;
            untrained()?.save(folder.path())?;

            let model = FillMask::open(folder.path(), &Device::Cpu)?;
            let found = model.fill("The <mask> is <mask>.")?;
            writeln!(out, "{}", found.text)?;
            for token in &found.masks[0] {
                writeln!(out, "{}  {:.3}", token.text, token.probability)?;
            }
            // Likeliest tokens of each mask, best first.
            assert_eq!((found.masks.len(), found.masks[0].len()), (2, FillMask::TOP_K));
            assert!(found.masks[0][0].probability >= found.masks[0][1].probability);
        }
    }
    Ok(())
}

/// Bundle of an untrained model.
fn untrained() -> Result<NewBundle<'static>> {
    let texts = ["Where is the cat?", "The cat is here.", "The dog is not here."];
    let tokenizer = Tokenizer::train(&TokenizerConfig::default(), SpecialTokens::WithMask, &texts)?;
    Ok(untrained::bundle(ModelTask::FillMask, untrained::small(), Tokenizers::from(tokenizer)))
}
