//! How many target tokens a second searching gives, with random weights and targets of one length.
//!
//! ```text
//! cargo bench --workspace --bench decode                     # all
//! cargo bench --workspace --bench decode -- tiny             # one model
//! cargo bench --workspace --bench decode -- tiny tensors     # on tensors
//! ```
//!
//! Sources have 20 tokens and `<eos>`. With more than one thread, each searches its own batches, as
//! in `Translator`. Each figure is the median of [`RUNS`] runs.

#![allow(clippy::expect_used, reason = "a benchmark has nobody to report to")]

use std::{
    io::{self, Write, stdout},
    num::NonZero,
    thread,
    time::Instant,
};

use burn::tensor::Device;
use tx_infer::{Engine, SearchOptions};
use tx_model::{DropoutConfig, ModelConfig, Transformer, VocabSizes};

const RUNS: usize = 5;
const SOURCE_TOKENS: usize = 20;

/// A model and how many sentences are enough to time it.
struct Shape {
    name: &'static str,
    config: ModelConfig,
    vocabulary: usize,
    sentences: usize,
}

fn shapes() -> [Shape; 3] {
    let config = |layers, d_model, d_ff, n_heads| ModelConfig {
        d_model,
        n_heads,
        d_ff,
        encoder_layers: layers,
        decoder_layers: layers,
        dropout: DropoutConfig::none(),
        ..ModelConfig::default()
    };
    [
        Shape { name: "tiny", config: config(4, 128, 256, 4), vocabulary: 10_000, sentences: 16 },
        Shape { name: "small", config: config(3, 256, 1024, 4), vocabulary: 10_000, sentences: 16 },
        Shape { name: "base", config: config(6, 512, 2048, 8), vocabulary: 32_000, sentences: 8 },
    ]
}

fn main() -> io::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let tensors = args.iter().any(|arg| arg == "tensors");
    let named = |name| args.iter().any(|arg| arg == name);
    let all = shapes().iter().all(|shape| !named(shape.name));
    let cores = thread::available_parallelism().map_or(1, NonZero::get);

    writeln!(stdout(), "model  batch  beam  target  threads  tokens/s")?;
    for shape in shapes().into_iter().filter(|shape| all || named(shape.name)) {
        let device = Device::flex();
        let vocab = VocabSizes { source: shape.vocabulary, target: shape.vocabulary };
        let model = Transformer::new(&shape.config, vocab, &device).expect("a usable shape");
        let engine =
            if tensors { Engine::on_tensors(model, &device) } else { Engine::new(model, &device) };
        for (batch, beam, target) in
            [(1, 1, 25), (1, 5, 25), (32, 1, 25), (32, 5, 25), (32, 1, 100), (32, 1, 400)]
        {
            for threads in if tensors { vec![1] } else { vec![1, cores] } {
                let speed = tokens_per_second(&engine, &shape, batch, beam, target, threads);
                let name = shape.name;
                writeln!(
                    stdout(),
                    "{name:5} {batch:6} {beam:5} {target:7} {threads:8} {speed:9.0}"
                )?;
            }
        }
    }
    Ok(())
}

fn tokens_per_second(
    engine: &Engine,
    shape: &Shape,
    batch: usize,
    beam: usize,
    target: usize,
    threads: usize,
) -> f64 {
    let options = SearchOptions {
        beam,
        max_len_ratio: 0.0,
        max_len_extra: target,
        min_len: target,
        ..SearchOptions::default()
    };
    let sources: Vec<Vec<u32>> = (0..shape.sentences.max(batch * threads))
        .map(|sentence| {
            let id = |place| 4 + (sentence * 37 + place * 11) % (shape.vocabulary - 4);
            (0..SOURCE_TOKENS).map(|place| id(place) as u32).chain([2]).collect()
        })
        .collect();
    let sources: Vec<&[u32]> = sources.iter().map(Vec::as_slice).collect();
    let run = |sources: &[&[u32]]| {
        for batch in sources.chunks(batch.min(sources.len())) {
            let found = engine.search(batch, shape.config.max_len, &options);
            assert!(found.iter().all(|found| found[0].ids.len() == target));
        }
    };
    run(&sources[..batch]);
    let mut seconds: Vec<f64> = (0..RUNS)
        .map(|_| {
            let start = Instant::now();
            thread::scope(|scope| {
                let mut shares = sources.chunks(sources.len().div_ceil(threads));
                let own = shares.next().unwrap_or_default();
                for share in shares {
                    scope.spawn(move || run(share));
                }
                run(own);
            });
            start.elapsed().as_secs_f64()
        })
        .collect();
    seconds.sort_by(f64::total_cmp);
    (sources.len() * target) as f64 / seconds[RUNS / 2]
}
