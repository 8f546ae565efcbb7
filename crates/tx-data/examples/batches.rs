//! From text to padded batches, and from ids back to text.
//!
//! `cargo run -p tx-data --example batches`

use std::io::{self, Write};

use burn::{data::dataloader::DataLoader, tensor::Device};
use tx_data::{BatchSize, LongPolicy, PairLoader, encode_corpus, make_batch::MakeSeq2SeqBatch};
use tx_text::{SentencePair, TokenizerConfig, TokenizerKind, Tokenizers};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // `source::local` reads such pairs from files.
    let pairs = [
        ("Where is the cat?", "Dov'è il gatto?"),
        ("The cat is here.", "Il gatto è qui."),
        ("Here!", "Qui!"),
    ]
    .map(|(source, target)| SentencePair::new(source, target));

    // The vocabulary is learned from the training pairs alone.
    let config = TokenizerConfig { kind: TokenizerKind::Word, ..TokenizerConfig::default() };
    let tokenizers = Tokenizers::train(&config, &pairs)?;
    let (encoded, report) = encode_corpus(&pairs, &tokenizers, 64, LongPolicy::Skip, "the pairs")?;

    let mut out = io::stdout().lock();
    writeln!(out, "{} ids; {report}", tokenizers.target.vocab_size())?;

    // At most 16 tokens a batch on either side, padding included.
    let (make, size) = (MakeSeq2SeqBatch::default(), BatchSize::Tokens(16));
    let loader = PairLoader::new(encoded, make, size, Device::flex()).shuffled(1);
    let mut tokens = 0;
    for batch in loader.iter() {
        let batch = batch?;
        tokens += batch.target_tokens;
        writeln!(out, "source {:?}, target {:?}", batch.source.dims(), batch.target_out.dims())?;
        for row in batch.target_out.iter_dim(0) {
            let ids: Vec<u32> = row.into_data().iter::<u32>().collect();
            writeln!(out, "  {ids:?} = {}", tokenizers.target.decode(&ids)?)?;
        }
    }
    // `Dov ' è il gatto ? <eos>`, `Il gatto è qui . <eos>`, `Qui ! <eos>`
    assert_eq!(tokens, 7 + 6 + 3);
    Ok(())
}
