//! Corpora of tx with Burn's dataset transforms and its data loader.
//!
//! `cargo run --example burn_datasets`

use std::io::{self, Write};

use burn::{
    data::{
        dataloader::DataLoaderBuilder,
        dataset::{
            Dataset, InMemDataset,
            transform::{Mapper, MapperDataset, PartialDataset, ShuffledDataset},
        },
    },
    tensor::Device,
};
use tx_data::{LongPolicy, PairStore, dataset::Seq2SeqBatcher, encode_corpus, source::generated};
use tx_text::{SentencePair, TokenizerConfig, TokenizerKind, Tokenizers};

/// Swaps source and target.
struct Swap;

impl Mapper<SentencePair, SentencePair> for Swap {
    fn map(&self, pair: &SentencePair) -> SentencePair {
        SentencePair::new(&pair.target, &pair.source)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Text: the first 900 of 1,000 pairs, with source and target swapped.
    let text = InMemDataset::new(generated::reverse(1_000, 1));
    let text: MapperDataset<_, _, SentencePair> =
        MapperDataset::new(PartialDataset::new(text, 0, 900), Swap);
    let pairs = text.iter().collect::<Result<Vec<_>, _>>()?;

    // Ids: encoded once, then shuffled and batched by Burn.
    let config = TokenizerConfig { kind: TokenizerKind::Character, ..TokenizerConfig::default() };
    let tokenizers = Tokenizers::train(&config, &pairs)?;
    let (encoded, report) = encode_corpus(&pairs, &tokenizers, 32, LongPolicy::Skip, "the pairs")?;
    let dataset = ShuffledDataset::new(PairStore::from(encoded), 7);
    let loader = DataLoaderBuilder::new(Seq2SeqBatcher::default())
        .batch_size(64)
        .set_device(Device::flex())
        .build(dataset);

    let mut tokens = 0;
    for batch in loader.iter() {
        tokens += batch?.target_tokens;
    }
    writeln!(io::stdout(), "{report}; {tokens} target tokens in {} pairs", loader.num_items())?;
    Ok(())
}
