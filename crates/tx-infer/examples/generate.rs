//! Continues a text, whole or token by token.
//!
//! `cargo run -p tx-infer --example generate -- FOLDER TEXT`
//!
//! Without arguments, writes a bundle of an untrained model first. Its texts are arbitrary.

use std::{
    env,
    io::{self, Write},
};

use tx_infer::{
    Cancellation, Device, Generator, ModelTask, NewBundle, Prompt, Sampling, SearchOptions,
    tx_text::{Tokenizer, TokenizerConfig, Tokenizers, special::SpecialTokens},
};

mod untrained;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let mut out = io::stdout().lock();
    match &arguments[..] {
        [folder, text] => {
            let generator = Generator::open(folder, &Device::Cpu)?;
            writeln!(out, "{}", generator.continue_text(text)?.text)?;
        }
        _ => {
            let folder = tempfile::tempdir()?;
            untrained()?.save(folder.path())?;

            let generator = Generator::open(folder.path(), &Device::Cpu)?;
            writeln!(out, "{}", generator.continue_text("The cat")?.text)?;

            // A sample, printed while it is generated.
            let options = SearchOptions::sampling(Sampling { seed: 1, ..Sampling::default() });
            let prompt = Prompt { text: "The cat", number: 0 };
            let mut shown = prompt.text.to_owned();
            write!(out, "{}", prompt.text)?;
            let never = Cancellation::new();
            let found = generator.continue_streaming(prompt, &options, &never, |part| {
                shown += part;
                let _ = write!(out, "{part}").and_then(|()| out.flush());
            })?;
            writeln!(out)?;
            assert_eq!(shown, found.text);
        }
    }
    Ok(())
}

/// Bundle of an untrained model.
fn untrained() -> Result<NewBundle<'static>> {
    let texts = ["Where is the cat?", "The cat is here.", "The dog is not here."];
    let tokenizer = Tokenizer::train(&TokenizerConfig::default(), SpecialTokens::Standard, &texts)?;
    Ok(untrained::bundle(ModelTask::Generate, untrained::small(), Tokenizers::from(tokenizer)))
}
