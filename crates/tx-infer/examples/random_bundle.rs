//! Writes a bundle of an untrained model, for measurements of speed and memory.
//!
//! `cargo run --release -p tx-infer --features burn --example random_bundle -- tiny|small|base FOLDER`
//!
//! The vocabulary has the words `t0`, `t1` and so on, the same on both sides, so that a source can have
//! any number of tokens.

use std::{
    env,
    io::{self, Write},
};

use tx_infer::{
    ModelTask, ModuleBundle,
    tx_text::{SentencePair, TokenizerConfig, TokenizerKind, Tokenizers, WordSplit, special},
};
use tx_model::{ModelConfig, Transformer, VocabSizes};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [shape, folder] = &arguments[..] else {
        return Err("usage: random_bundle tiny|small|base FOLDER".into());
    };
    // Ids, features, inner features, heads, layers of each stack.
    let (vocabulary, d_model, d_ff, n_heads, layers) = match &**shape {
        "tiny" => (10_000, 128, 256, 4, 4),
        "small" => (10_000, 256, 1_024, 4, 3),
        "base" => (32_000, 512, 2_048, 8, 6),
        other => return Err(format!("no shape `{other}`: tiny, small or base").into()),
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
    let vocab = VocabSizes {
        source: tokenizers.source.vocab_size(),
        target: tokenizers.target.vocab_size(),
    };

    let device = burn::tensor::Device::flex();
    device.seed(1);
    let config = ModelConfig {
        d_model,
        d_ff,
        n_heads,
        encoder_layers: layers,
        decoder_layers: layers,
        ..ModelConfig::default()
    };
    let model = Transformer::new(&config, vocab, &device)?;
    let bundle = ModuleBundle {
        model,
        task: ModelTask::Translate,
        config,
        tokenizers,
        languages: None,
        search: None,
        provenance: Default::default(),
    };
    bundle.save(folder)?;
    writeln!(io::stdout(), "{folder}: {shape}, {} ids", vocab.source)?;
    Ok(())
}
