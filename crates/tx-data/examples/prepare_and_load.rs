//! Preparation of a corpus on disk, which may be larger than memory, and loading it batch by batch.
//!
//! `cargo run --example prepare_and_load -- PAIRS.tsv FOLDER`

use std::{
    env,
    error::Error,
    io::{Write, stderr, stdout},
    path::Path,
    sync::atomic::AtomicBool,
};

use burn::{data::dataloader::DataLoader, tensor::Device};
use tx_data::{
    BatchSize, CleanConfig, LongPolicy, PairLoader, SplitBy, TargetSide,
    make_batch::MakeSeq2SeqBatch,
    pipeline::{CorpusOptions, Overlaps, ValidationPairs},
    prepared::{Preparation, prepare},
    source::read::{self, ReadOptions},
};
use tx_text::TokenizerConfig;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let (Some(pairs), Some(folder)) = (arguments.next(), arguments.next()) else {
        writeln!(stderr(), "usage: prepare_and_load PAIRS.tsv FOLDER")?;
        return Ok(());
    };
    let tokenizer = TokenizerConfig { vocab_size: 8_000, ..TokenizerConfig::default() };
    let preparation = Preparation {
        corpus: CorpusOptions {
            clean: CleanConfig::default(),
            validation: ValidationPairs::SetAside { fraction: 0.001, by: SplitBy::Hash, seed: 1 },
            overlaps: Overlaps::Count,
            target: TargetSide::Sentence,
            noise: None,
            context: None,
        },
        tokenizer: &tokenizer,
        max_len: 128,
        long: LongPolicy::Skip,
        inputs: vec![pairs.clone().into()],
        settings: serde_json::to_value(&tokenizer)?,
        stop: &AtomicBool::new(false),
    };
    let say = |line: &str| drop(writeln!(stderr(), "{line}"));
    let corpus = prepare(
        read::pairs(Path::new(&pairs), &ReadOptions::default())?,
        preparation,
        Path::new(&folder),
        &say,
    )?;

    let (make, size) = (MakeSeq2SeqBatch::default(), BatchSize::Tokens(4_096));
    let loader = PairLoader::new(corpus.training()?, make, size, Device::flex()).shuffled(1);
    let tokens: usize =
        loader.iter().take(100).map(|batch| batch.map_or(0, |batch| batch.target_tokens)).sum();
    writeln!(stdout(), "{}; {tokens} target tokens in 100 batches", corpus.record.encoding)?;
    Ok(())
}
