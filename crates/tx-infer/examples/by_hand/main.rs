//! One sentence through a Transformer, in plain loops: ids, embeddings, positions, attention weights,
//! feed-forward layer, logits, a step of beam search and the loss.
//!
//! `cargo run -p tx-infer --example by_hand`
//!
//! The bundle beside this file has 8 features, so that whole vectors fit on a line. The loops follow
//! the equations of "Attention Is All You Need"; the last line compares them with the library.

use std::{
    error::Error,
    io::{self, Write},
};

use tx_infer::{Bundle, Device, Translator};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// A vector for each token.
type Rows = Vec<Vec<f32>>;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/by_hand/bundle");
const SOURCE: &str = "die Katze schläft nicht";
const TARGET: &str = "the cat does not sleep";

fn main() -> Result<()> {
    let model = Model(Bundle::open(FOLDER)?);
    let tokenizers = &model.0.tokenizers;
    let mut out = io::stdout().lock();

    // Text to ids.
    let source = tokenizers.source.encode(SOURCE)?;
    let target = tokenizers.target.encode(TARGET)?;
    let source_tokens: Vec<_> =
        source.iter().filter_map(|&id| tokenizers.source.token(id)).collect();
    let target_tokens: Vec<_> =
        target.iter().filter_map(|&id| tokenizers.target.token(id)).collect();
    writeln!(out, "source ids       {source_tokens:?} = {source:?}")?;
    writeln!(out, "target ids       {target_tokens:?} = {target:?}")?;

    // Ids to vectors.
    let token = source[1] as usize;
    writeln!(out, "\nembedding        {}", line(&model.matrix("source_embedding.weight")?[token]))?;
    let place: Vec<f32> = (0..8).map(|feature| sinusoid(1, feature, 8)).collect();
    writeln!(out, "position 1       {}", line(&place))?;
    let x = model.embed("source", &source)?;
    writeln!(out, "√8 · e + p       {}", line(&x[1]))?;

    // The encoder layer.
    let name = "encoder.layers.0";
    let (y, heads) = model.attention(&format!("{name}.self_attention"), &x, &x, false)?;
    for (head, weights) in heads.iter().enumerate() {
        writeln!(out, "\nencoder, self-attention, head {}", head + 1)?;
        table(&mut out, &source_tokens, weights)?;
    }
    let x = model.add_and_norm(&format!("{name}.self_attention_residual"), &x, &y)?;
    let (inner, y) = model.feed_forward(&format!("{name}.feed_forward"), &x)?;
    writeln!(out, "\nafter attention  {}", line(&x[1]))?;
    writeln!(out, "inner features   {}", line(&inner[1]))?;
    let memory = model.add_and_norm(&format!("{name}.feed_forward_residual"), &x, &y)?;
    writeln!(out, "encoder output   {}", line(&memory[1]))?;

    // The decoder, for all prefixes of the target at once.
    let (logits, heads) = model.decode(&target[..target.len() - 1], &memory)?;
    for (head, weights) in heads.iter().enumerate() {
        writeln!(out, "\ndecoder, cross-attention, head {}; columns {source_tokens:?}", head + 1)?;
        table(&mut out, &target_tokens, weights)?;
    }
    writeln!(out, "\nthe three most probable next tokens")?;
    for (token, logits) in target_tokens.iter().zip(&logits) {
        write!(out, "{token:>8}  →")?;
        for (id, p) in best(logits).into_iter().take(3) {
            let next = tokenizers.target.token(id).unwrap_or_default();
            write!(out, "  {next} {p:.3} (logit {:.2})", logits[id as usize])?;
        }
        writeln!(out)?;
    }

    // Two steps of beam search with two hypotheses.
    let mut beam = vec![(vec![target[0]], 0.0)];
    for step in 1..=2 {
        let mut found = Vec::new();
        for (ids, log_p) in &beam {
            let (logits, _) = model.decode(ids, &memory)?;
            for (id, p) in best(&logits[ids.len() - 1]) {
                found.push(([&ids[..], &[id]].concat(), log_p + p.ln()));
            }
        }
        found.sort_by(|a, b| b.1.total_cmp(&a.1));
        writeln!(out, "\nbeam, step {step}: {} continuations, the best four", found.len())?;
        for (ids, log_p) in &found[..4] {
            writeln!(out, "  {log_p:7.3}  {}", tokenizers.target.decode(ids)?)?;
        }
        found.truncate(2);
        beam = found;
    }

    // The loss, and the same from the library.
    let log_p: Vec<f32> = target[1..]
        .iter()
        .zip(&logits)
        .map(|(&id, logits)| softmax(logits.clone())[id as usize].ln())
        .collect();
    let sum: f32 = log_p.iter().sum();
    let count = log_p.len() as f32;
    writeln!(out, "\nln p of each     {}", line(&log_p))?;
    writeln!(
        out,
        "loss             {:.4} nats per token, perplexity {:.4}",
        -sum / count,
        (-sum / count).exp()
    )?;
    let library = Translator::open(FOLDER, &Device::Cpu)?.score(&[(SOURCE, TARGET)], 0)?;
    let difference = log_p.iter().zip(&library[0].log_probabilities).map(|(a, b)| (a - b).abs());
    let largest = difference.fold(0.0, f32::max);
    writeln!(out, "largest difference from the library: {largest:.0e}")?;
    assert!(largest < 1e-5);
    Ok(())
}

/// A post-norm model with one encoder layer and one decoder layer.
struct Model(Bundle);

impl Model {
    fn vector(&self, name: &str) -> Result<Vec<f32>> {
        let (_, values) = self.0.weight(name).ok_or_else(|| format!("no weight `{name}`"))?;
        Ok(values.into_owned())
    }

    fn matrix(&self, name: &str) -> Result<Rows> {
        let (shape, values) = self.0.weight(name).ok_or_else(|| format!("no weight `{name}`"))?;
        Ok(values.chunks(shape[1]).map(<[f32]>::to_vec).collect())
    }

    /// Embedding times √d plus position: sections 3.4 and 3.5.
    fn embed(&self, side: &str, ids: &[u32]) -> Result<Rows> {
        let table = self.matrix(&format!("{side}_embedding.weight"))?;
        let embed = |(position, &id): (usize, &u32)| {
            let row = &table[id as usize];
            let d = row.len();
            let features = row.iter().enumerate();
            features.map(|(i, e)| e * (d as f32).sqrt() + sinusoid(position, i, d)).collect()
        };
        Ok(ids.iter().enumerate().map(embed).collect())
    }

    /// `x W + b`
    fn linear(&self, name: &str, x: &Rows) -> Result<Rows> {
        let weight = self.matrix(&format!("{name}.weight"))?;
        let bias = self.vector(&format!("{name}.bias"))?;
        let product = |row: &Vec<f32>| {
            let column = |(j, b): (usize, &f32)| {
                b + row.iter().zip(&weight).map(|(x, w)| x * w[j]).sum::<f32>()
            };
            bias.iter().enumerate().map(column).collect()
        };
        Ok(x.iter().map(product).collect())
    }

    /// Multi-head attention of `x` to `memory`, and the weights of each head: section 3.2. A causal
    /// query sees the keys up to its own position.
    fn attention(
        &self,
        name: &str,
        x: &Rows,
        memory: &Rows,
        causal: bool,
    ) -> Result<(Rows, Vec<Rows>)> {
        let queries = self.linear(&format!("{name}.query"), x)?;
        let keys = self.linear(&format!("{name}.key"), memory)?;
        let values = self.linear(&format!("{name}.value"), memory)?;
        let heads = self.0.config.n_heads;
        let size = queries[0].len() / heads;
        let mut context: Rows = vec![Vec::new(); x.len()];
        let mut maps = Vec::new();
        for head in 0..heads {
            let features = head * size..(head + 1) * size;
            let attend = |(position, query): (usize, &Vec<f32>)| {
                let seen = if causal { position + 1 } else { keys.len() };
                let score = |key: &Vec<f32>| {
                    features.clone().map(|f| query[f] * key[f]).sum::<f32>() / (size as f32).sqrt()
                };
                softmax(keys[..seen].iter().map(score).collect())
            };
            let weights: Rows = queries.iter().enumerate().map(attend).collect();
            for (context, weights) in context.iter_mut().zip(&weights) {
                let mix =
                    |f| weights.iter().zip(&values).map(|(w, value)| w * value[f]).sum::<f32>();
                context.extend(features.clone().map(mix));
            }
            maps.push(weights);
        }
        Ok((self.linear(&format!("{name}.output"), &context)?, maps))
    }

    /// `LayerNorm(x + y)`: section 3.1.
    fn add_and_norm(&self, name: &str, x: &Rows, y: &Rows) -> Result<Rows> {
        let gamma = self.vector(&format!("{name}.norm.gamma"))?;
        let beta = self.vector(&format!("{name}.norm.beta"))?;
        let norm = |(x, y): (&Vec<f32>, &Vec<f32>)| {
            let sum: Vec<f32> = x.iter().zip(y).map(|(x, y)| x + y).collect();
            let count = sum.len() as f32;
            let mean = sum.iter().sum::<f32>() / count;
            let variance = sum.iter().map(|s| (s - mean).powi(2)).sum::<f32>() / count;
            let scale = (variance + self.0.config.norm_epsilon as f32).sqrt();
            let affine = gamma.iter().zip(&beta);
            sum.iter().zip(affine).map(|(s, (g, b))| (s - mean) / scale * g + b).collect()
        };
        Ok(x.iter().zip(y).map(norm).collect())
    }

    /// `max(0, x W₁ + b₁)` and `max(0, x W₁ + b₁) W₂ + b₂`: equation 2.
    fn feed_forward(&self, name: &str, x: &Rows) -> Result<(Rows, Rows)> {
        let mut inner = self.linear(&format!("{name}.inner"), x)?;
        inner.iter_mut().flatten().for_each(|x| *x = x.max(0.0));
        let outer = self.linear(&format!("{name}.outer"), &inner)?;
        Ok((inner, outer))
    }

    /// Logits of the token after each of `ids`, and the weights of the cross-attention.
    fn decode(&self, ids: &[u32], memory: &Rows) -> Result<(Rows, Vec<Rows>)> {
        let name = "decoder.layers.0";
        let x = self.embed("target", ids)?;
        let (y, _) = self.attention(&format!("{name}.self_attention"), &x, &x, true)?;
        let x = self.add_and_norm(&format!("{name}.self_attention_residual"), &x, &y)?;
        let (y, maps) = self.attention(&format!("{name}.cross_attention"), &x, memory, false)?;
        let x = self.add_and_norm(&format!("{name}.cross_attention_residual"), &x, &y)?;
        let (_, y) = self.feed_forward(&format!("{name}.feed_forward"), &x)?;
        let x = self.add_and_norm(&format!("{name}.feed_forward_residual"), &x, &y)?;
        Ok((self.linear("projection", &x)?, maps))
    }
}

/// Feature of a positional encoding: section 3.5.
fn sinusoid(position: usize, feature: usize, d: usize) -> f32 {
    let angle = position as f64 / 10_000_f64.powf((feature / 2 * 2) as f64 / d as f64);
    (if feature.is_multiple_of(2) { angle.sin() } else { angle.cos() }) as f32
}

fn softmax(scores: Vec<f32>) -> Vec<f32> {
    let max = scores.iter().copied().fold(f32::MIN, f32::max);
    let exponentials: Vec<f32> = scores.iter().map(|score| (score - max).exp()).collect();
    let sum: f32 = exponentials.iter().sum();
    exponentials.iter().map(|e| e / sum).collect()
}

/// Ids with their probabilities, the most probable first.
fn best(logits: &[f32]) -> Vec<(u32, f32)> {
    let mut ranked: Vec<(u32, f32)> = (0..).zip(softmax(logits.to_vec())).collect();
    ranked.sort_by(|a, b| b.1.total_cmp(&a.1));
    ranked
}

fn line(values: &[f32]) -> String {
    values.iter().map(|value| format!("{value:7.3}")).collect()
}

/// Prints a row of weights for each token.
fn table(out: &mut impl Write, tokens: &[String], rows: &Rows) -> io::Result<()> {
    for (token, row) in tokens.iter().zip(rows) {
        writeln!(out, "{token:>8}  {}", line(row))?;
    }
    Ok(())
}
