//! Latency of short calls beside long ones, on one translator.
//!
//! `cargo bench --workspace --bench latency -- [tiny|small|base] [--long 4] [--short 2] [--calls
//! 100]`
//!
//! The model has random weights. `--long` threads translate 64 texts of 20 words per call, without
//! pause; `--short` threads translate one text of three words per call, `--calls` times each.
//! Prints a line of JSON: milliseconds of the short calls (median, 95th percentile, maximum), alone
//! and beside the long calls, and the number of long texts translated per second.

#![allow(clippy::expect_used, reason = "a benchmark may panic")]

use std::{
    env,
    error::Error,
    io::{Write, stdout},
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
    time::Instant,
};

use burn::tensor::Device as BurnDevice;
use serde_json::{Value, json};
use tx_infer::{
    Device, ModelTask, ModuleBundle, SearchOptions, Translator,
    tx_text::{SentencePair, TokenizerConfig, TokenizerKind, Tokenizers},
};
use tx_model::{ModelConfig, Transformer, VocabSizes};

const WORDS: usize = 10_000;
const LONG_TEXTS: usize = 64;

fn main() -> Result<(), Box<dyn Error>> {
    let (mut model, mut long, mut short, mut calls) = ("small".to_owned(), 4, 2, 100);
    let mut arguments = env::args().skip(1).filter(|argument| argument != "--bench");
    while let Some(argument) = arguments.next() {
        let mut number = || {
            arguments
                .next()
                .ok_or("a number is missing")?
                .parse::<usize>()
                .map_err(Box::<dyn Error>::from)
        };
        match &*argument {
            "--long" => long = number()?,
            "--short" => short = number()?.max(1),
            "--calls" => calls = number()?.max(1),
            _ => model = argument,
        }
    }
    let translator = translator(&model)?;
    let (_, alone) = measure(&translator, 0, short, calls);
    let (rate, beside) = measure(&translator, long, short, calls);
    let line = json!({
        "model": model,
        "threads": { "long": long, "short": short },
        "alone_ms": figures(alone),
        "beside_ms": figures(beside),
        "long_texts_per_second": rate,
    });
    Ok(writeln!(stdout(), "{line}")?)
}

/// Returns a translator with random weights, whose translations are at most as long as the text.
fn translator(name: &str) -> Result<Translator, Box<dyn Error>> {
    let (d_model, d_ff, n_heads, layers) = match name {
        "tiny" => (128, 256, 4, 4),
        "small" => (256, 1_024, 4, 3),
        "base" => (512, 2_048, 8, 6),
        other => return Err(format!("unknown model `{other}`: tiny, small or base").into()),
    };
    let words: Vec<String> = (0..WORDS).map(|index| format!("t{index}")).collect();
    let words = words.join(" ");
    let config = TokenizerConfig {
        kind: TokenizerKind::Word,
        vocab_size: WORDS + 4,
        ..TokenizerConfig::default()
    };
    let tokenizers = Tokenizers::train(&config, &[SentencePair::new(&words, &words)])?;
    let config = ModelConfig {
        d_model,
        d_ff,
        n_heads,
        encoder_layers: layers,
        decoder_layers: layers,
        ..ModelConfig::default()
    };
    let vocab = VocabSizes {
        source: tokenizers.source.vocab_size(),
        target: tokenizers.target.vocab_size(),
    };
    let device = BurnDevice::flex();
    device.seed(1);
    let model = Transformer::new(&config, vocab, &device)?;
    let bundle = ModuleBundle {
        model,
        task: ModelTask::Translate,
        config,
        tokenizers,
        languages: None,
        context: 0,
        search: None,
        lexicon: None,
        provenance: Default::default(),
    };
    let search = SearchOptions {
        max_len_ratio: 1.0,
        max_len_extra: 0,
        max_repeats: 0,
        ..SearchOptions::default()
    };
    Ok(Translator::from_module(&bundle, &Device::Cpu).with_options(search)?)
}

/// Returns `count` words, which depend on `number`.
fn text(number: usize, count: usize) -> String {
    let words = (0..count).map(|position| format!("t{}", (number * 37 + position * 11) % WORDS));
    words.collect::<Vec<_>>().join(" ")
}

/// Returns the number of long texts translated per second, and the seconds of each short call.
fn measure(translator: &Translator, long: usize, short: usize, calls: usize) -> (f64, Vec<f64>) {
    let (done, texts) = (AtomicBool::new(false), AtomicUsize::new(0));
    let start = Instant::now();
    let mut seconds = Vec::new();
    thread::scope(|scope| {
        for number in 0..long {
            let (done, texts) = (&done, &texts);
            scope.spawn(move || {
                let own: Vec<String> =
                    (0..LONG_TEXTS).map(|index| text(number * LONG_TEXTS + index, 20)).collect();
                while !done.load(Ordering::Relaxed) {
                    translator.translate_batch(&own).expect("a translation");
                    texts.fetch_add(own.len(), Ordering::Relaxed);
                }
            });
        }
        let threads: Vec<_> = (0..short)
            .map(|number| {
                scope.spawn(move || {
                    let call = |index| {
                        let text = text(number * calls + index, 3);
                        let start = Instant::now();
                        translator.translate_batch(&[text]).expect("a translation");
                        start.elapsed().as_secs_f64()
                    };
                    (0..calls).map(call).collect::<Vec<f64>>()
                })
            })
            .collect();
        for thread in threads {
            seconds.extend(thread.join().expect("a thread that ends"));
        }
        done.store(true, Ordering::Relaxed);
    });
    (texts.into_inner() as f64 / start.elapsed().as_secs_f64(), seconds)
}

/// Returns median, 95th percentile and maximum in milliseconds.
fn figures(mut seconds: Vec<f64>) -> Value {
    seconds.sort_by(f64::total_cmp);
    let at = |rank: f64| 1e3 * seconds[((seconds.len() - 1) as f64 * rank).round() as usize];
    json!({ "median": at(0.5), "p95": at(0.95), "max": at(1.0) })
}
