//! Time of each kernel and of its composed version, forward and backward, on shapes of a small
//! model.
//!
//! `cargo bench --workspace --bench kernels`
//!
//! Prints medians in milliseconds; the two alternate.

use std::{
    error::Error,
    io::{Write, stdout},
    time::Instant,
};

use burn::tensor::{Device, Distribution, Int, Tensor};
use tx_model::{
    Activation, ProductPrecision,
    kernels::{
        self, AttentionInput, CrossEntropyConfig, DropoutMask, EmbeddingInput, HashedMask,
        LinearWeights, Norm, composed,
    },
};

/// Number of timed pairs.
const ROUNDS: usize = 15;

/// Implementation, which returns a scalar for the backward pass.
type Implementation<'a> = Box<dyn Fn() -> Tensor<1> + 'a>;

fn main() -> Result<(), Box<dyn Error>> {
    let device = Device::flex().autodiff();
    let normal = Distribution::Normal(0.0, 1.0);
    let random = |shape: [usize; 3]| Tensor::<3>::random(shape, normal, &device).require_grad();
    let precision = ProductPrecision::F32;
    let dropout = DropoutMask::Hashed(HashedMask::new(1, 0.1));
    let (batch, len, width, heads, d_ff, vocabulary) = (64, 32, 256, 4, 1_024, 10_000);
    let (x, y) = (random([batch, len, width]), random([batch, len, width]));
    let hidden = random([batch, len, d_ff]);
    let matrix =
        |rows, columns| Tensor::<2>::random([rows, columns], normal, &device).require_grad();
    let (w, table) = (matrix(width, d_ff), matrix(vocabulary, width));
    let vector = |len| Tensor::<1>::ones([len], &device).require_grad();
    let (gamma, beta, bias) = (vector(width), vector(width), vector(d_ff));
    let split =
        |x: &Tensor<3>| x.clone().reshape([batch, len, heads, width / heads]).swap_dims(1, 2);
    let ids = |shape: [usize; 2]| {
        let high = Distribution::Uniform(0.0, vocabulary as f64);
        Tensor::<2, Int>::random(shape, high, &device)
    };
    let tokens = ids([batch, len]);
    let logits = matrix(512, vocabulary);
    let targets = || ids([1, 512]).squeeze_dim::<1>(0);
    let config = CrossEntropyConfig { smoothing: 0.1, ignore_index: 0 };
    let embedding = || EmbeddingInput {
        table: table.clone(),
        ids: tokens.clone(),
        positions: Some(x.clone().narrow(0, 0, 1).squeeze_dim::<2>(0)),
        scale: 16.0,
        zero_first: false,
        dropout,
    };
    let attention = || AttentionInput {
        queries: split(&x),
        keys: split(&y),
        values: split(&x),
        bias: None,
        blocked: None,
        dropout,
        precision,
    };

    let layer = || LinearWeights { w: w.clone(), b: Some(bias.clone()) };
    let norm = || Norm { gamma: gamma.clone(), beta: Some(beta.clone()), epsilon: 1e-5 };

    writeln!(stdout(), "{:<14} {:>10} {:>10} {:>7}", "", "kernel", "composed", "ratio")?;
    compare(
        "linear",
        Box::new(|| kernels::linear(x.clone(), layer(), precision).sum()),
        Box::new(|| composed::linear(x.clone(), layer()).sum()),
    )?;
    compare(
        "attention",
        Box::new(|| kernels::attention(attention(), false).0.sum()),
        Box::new(|| composed::attention(attention(), false).0.sum()),
    )?;
    compare(
        "layer norm",
        Box::new(|| kernels::layer_norm(x.clone(), norm()).sum()),
        Box::new(|| composed::layer_norm(x.clone(), norm()).sum()),
    )?;
    compare(
        "recurrence",
        Box::new(|| kernels::recurrence(x.clone(), y.clone()).sum()),
        Box::new(|| composed::recurrence(x.clone(), y.clone()).sum()),
    )?;
    compare(
        "residual",
        Box::new(|| kernels::residual(x.clone(), y.clone(), dropout).sum()),
        Box::new(|| composed::residual(x.clone(), y.clone(), dropout).sum()),
    )?;
    for function in [Activation::Relu, Activation::Swish] {
        compare(
            &format!("{function:?}"),
            Box::new(|| kernels::activation(hidden.clone(), function, dropout).sum()),
            Box::new(|| composed::activation(hidden.clone(), function, dropout).sum()),
        )?;
    }
    compare(
        "embedding",
        Box::new(|| kernels::embedding(embedding()).sum()),
        Box::new(|| composed::embedding(embedding()).sum()),
    )?;
    compare(
        "cross-entropy",
        Box::new(|| kernels::cross_entropy(logits.clone(), targets(), None, config).loss),
        Box::new(|| composed::cross_entropy(logits.clone(), targets(), None, config).loss),
    )?;
    Ok(())
}

fn compare(
    name: &str,
    kernel: Implementation<'_>,
    composed: Implementation<'_>,
) -> Result<(), Box<dyn Error>> {
    let time = |implementation: &Implementation<'_>| {
        let start = Instant::now();
        drop(implementation().backward());
        start.elapsed().as_secs_f64() * 1e3
    };
    // Warm-up of memory and threads.
    time(&kernel);
    time(&composed);
    let rounds: Vec<_> = (0..ROUNDS).map(|_| (time(&kernel), time(&composed))).collect();
    let kernel = median(rounds.iter().map(|round| round.0));
    let composed = median(rounds.iter().map(|round| round.1));
    let ratio = composed / kernel;
    Ok(writeln!(stdout(), "{name:<14} {kernel:>10.2} {composed:>10.2} {ratio:>6.1}x")?)
}

fn median(times: impl Iterator<Item = f64>) -> f64 {
    let mut times: Vec<f64> = times.collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
