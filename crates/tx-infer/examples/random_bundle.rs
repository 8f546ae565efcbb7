//! Writes a bundle of an untrained model, for measurements of speed and memory.
//!
//! `cargo run --release -p tx-infer --example random_bundle -- tiny|small|base|student FOLDER`
//!
//! The vocabulary has the words `t0`, `t1` and so on, the same on both sides, so that a source can have
//! any number of tokens.

use std::{
    env,
    io::{self, Write},
};

use tx_infer::{
    ModelTask,
    tx_text::{SentencePair, TokenizerConfig, TokenizerKind, Tokenizers, WordSplit, special},
};
use tx_model::ModelConfig;

mod untrained;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [shape, folder] = &arguments[..] else {
        return Err("usage: random_bundle tiny|small|base|student FOLDER".into());
    };
    // Ids, features, inner features, heads, layers of encoder and decoder.
    let (vocabulary, d_model, d_ff, n_heads, [encoder_layers, decoder_layers]) = match &**shape {
        "tiny" => (10_000, 128, 256, 4, [4, 4]),
        "small" => (10_000, 256, 1_024, 4, [3, 3]),
        "base" => (32_000, 512, 2_048, 8, [6, 6]),
        // As the models of Firefox, but with a decoder of self-attention.
        "student" => (32_000, 256, 1_536, 8, [6, 2]),
        other => return Err(format!("no shape `{other}`: tiny, small, base or student").into()),
    };

    let words: Vec<String> =
        (0..vocabulary - special::SPECIAL_TOKENS.len()).map(|i| format!("t{i}")).collect();
    let words = words.join(" ");
    let pair = SentencePair::new(&words, &words);
    let tokenizers = Tokenizers::train(
        &TokenizerConfig {
            kind: TokenizerKind::Word,
            split: WordSplit::Whitespace,
            vocab_size: vocabulary,
            ..TokenizerConfig::default()
        },
        &[pair],
    )?;
    let ids = tokenizers.source.vocab_size();
    let config = ModelConfig {
        d_model,
        d_ff,
        n_heads,
        encoder_layers,
        decoder_layers,
        ..ModelConfig::default()
    };
    untrained::bundle(ModelTask::Translate, config, tokenizers).save(folder.as_ref())?;
    writeln!(io::stdout(), "{folder}: {shape}, {ids} ids")?;
    Ok(())
}
