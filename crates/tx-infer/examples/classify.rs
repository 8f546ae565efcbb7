//! Classifies a text.
//!
//! `cargo run -p tx-infer --example classify -- FOLDER TEXT`
//!
//! Without arguments, writes a bundle of an untrained model first. Its labels are arbitrary.

use std::{
    env,
    io::{self, Write},
};

use tx_infer::{
    Classifier, Device, ModelTask, NewBundle,
    tx_text::{Tokenizer, TokenizerConfig, Tokenizers, special::SpecialTokens},
};
use tx_model::Pooling;

mod untrained;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let mut out = io::stdout().lock();
    match &arguments[..] {
        [folder, text] => {
            let classifier = Classifier::open(folder, &Device::Cpu)?;
            let found = classifier.classify(text)?;
            writeln!(out, "{}", found.label().unwrap_or_default())?;
        }
        _ => {
            let folder = tempfile::tempdir()?;
            untrained()?.save(folder.path())?;

            let classifier = Classifier::open(folder.path(), &Device::Cpu)?;
            let found = classifier.classify_batch(&["Where is the cat?", ""])?;
            for score in &found[0].scores {
                writeln!(out, "{}  {:.3}", score.label, score.probability)?;
            }
            // Best first; an empty text has no label.
            assert!(found[0].scores[0].probability >= found[0].scores[1].probability);
            assert_eq!((found[0].scores.len(), found[1].label()), (2, None));
        }
    }
    Ok(())
}

/// Bundle of an untrained model.
fn untrained() -> Result<NewBundle<'static>> {
    let texts = ["Where is the cat?", "The cat is here.", "The dog is not here."];
    let tokenizer = Tokenizer::train(&TokenizerConfig::default(), SpecialTokens::Standard, &texts)?;
    let labels = vec!["question".to_owned(), "statement".to_owned()];
    let task = ModelTask::Classify { labels, pooling: Pooling::Mean };
    Ok(untrained::bundle(task, untrained::small(), Tokenizers::from(tokenizer)))
}
