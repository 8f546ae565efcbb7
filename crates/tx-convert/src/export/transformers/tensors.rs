//! `model.safetensors`: the weights of a bundle under the names of `transformers`.

use std::io::{self, Write};

use serde_json::{Map, json};
use tx_infer::Bundle;
use tx_model::{NormPlacement, SinusoidLayout, Tying};

use super::NewFolder;
use crate::error::ConvertError;

/// Name, shape, and origin of a tensor.
struct Tensor {
    name: String,
    shape: Vec<usize>,
    content: Content,
}

/// Origin of the values of a tensor.
enum Content {
    /// A vector of a bundle, with the features in the order of `transformers` if it has features.
    Vector { weight: String, has_features: bool },
    /// A table `[ids, d_model]`.
    Table { weight: String },
    /// The transpose of a matrix `[d_in, d_out]`; the flags tell which sides are features.
    Linear { weight: String, features_in: bool, features_out: bool },
    /// Zeros, for a bias that the model does not have.
    Zeros,
}

/// Writes the file.
pub(super) fn write(bundle: &Bundle, folder: &NewFolder) -> Result<(), ConvertError> {
    let tensors = tensors(bundle);
    let order = feature_order(bundle);
    let mut header = Map::new();
    header.insert("__metadata__".into(), json!({ "format": "pt" }));
    let mut end = 0;
    for tensor in &tensors {
        let start = end;
        end += 4 * tensor.shape.iter().product::<usize>();
        let offsets = [start, end];
        let entry = json!({ "dtype": "F32", "shape": tensor.shape, "data_offsets": offsets });
        header.insert(tensor.name.clone(), entry);
    }
    let mut header = json!(header).to_string().into_bytes();
    header.resize(header.len().next_multiple_of(8), b' ');
    folder.write_with("model.safetensors", |file| {
        file.write_all(&(header.len() as u64).to_le_bytes())?;
        file.write_all(&header)?;
        for tensor in &tensors {
            write_values(bundle, tensor, &order, file)?;
        }
        Ok(())
    })
}

fn write_values(
    bundle: &Bundle,
    tensor: &Tensor,
    order: &[usize],
    file: &mut dyn Write,
) -> io::Result<()> {
    let count = tensor.shape.iter().product::<usize>();
    let read = |weight: &str| {
        let found = bundle.weight(weight).filter(|(_, values)| values.len() == count);
        let missing = || io::Error::other(format!("the bundle has no weight `{weight}`"));
        found.map(|(_, values)| values).ok_or_else(missing)
    };
    let same: Vec<usize> = (0..*tensor.shape.iter().max().unwrap_or(&0)).collect();
    let along = |is_features: bool| if is_features { order } else { &same };
    let values: Vec<f32> = match &tensor.content {
        Content::Zeros => vec![0.0; count],
        Content::Vector { weight, has_features } => {
            let values = read(weight)?;
            along(*has_features)
                .iter()
                .take(count)
                .filter_map(|&at| values.get(at))
                .copied()
                .collect()
        }
        Content::Table { weight } => {
            let values = read(weight)?;
            let rows = values.chunks_exact(order.len().max(1));
            rows.flat_map(|row| order.iter().filter_map(|&at| row.get(at)).copied()).collect()
        }
        Content::Linear { weight, features_in, features_out } => {
            let values = read(weight)?;
            let &[d_out, d_in] = tensor.shape.as_slice() else { return Ok(()) };
            let mut transposed = Vec::with_capacity(count);
            for out in along(*features_out).iter().take(d_out) {
                let ins = along(*features_in).iter().take(d_in);
                transposed.extend(ins.filter_map(|at| values.get(at * d_out + out)));
            }
            transposed
        }
    };
    if values.len() != count {
        return Err(io::Error::other(format!("`{}` has {} values", tensor.name, values.len())));
    }
    values.iter().try_for_each(|value| file.write_all(&value.to_le_bytes()))
}

/// For each feature of `transformers`, the feature of the bundle: all sines, then all cosines.
fn feature_order(bundle: &Bundle) -> Vec<usize> {
    let features = 0..bundle.config.d_model;
    match bundle.config.sinusoids.layout {
        SinusoidLayout::Halves => features.collect(),
        SinusoidLayout::Interleaved => {
            features.clone().step_by(2).chain(features.skip(1).step_by(2)).collect()
        }
    }
}

/// All tensors of the model.
fn tensors(bundle: &Bundle) -> Vec<Tensor> {
    let config = &bundle.config;
    let mut tensors = Tensors { bundle, all: Vec::new() };
    let size = config.padded(bundle.vocabulary()).target;
    let table = |name: &str, weight: &str| Tensor {
        name: name.to_owned(),
        shape: vec![size, config.d_model],
        content: Content::Table { weight: weight.to_owned() },
    };
    let source = "source_embedding.weight";
    match config.tying {
        Tying::All => tensors.all.push(table("model.shared.weight", source)),
        Tying::Decoder | Tying::None => {
            tensors.all.push(table("model.encoder.embed_tokens.weight", source));
            let target = "target_embedding.weight";
            tensors.all.push(table("model.decoder.embed_tokens.weight", target));
        }
    }
    if config.tying == Tying::None {
        tensors.linear("lm_head", "projection", [config.d_model, size], [true, false], false);
    }
    tensors.vector("final_logits_bias", "projection.bias", size, false);
    if let Some(bias) = tensors.all.last_mut() {
        bias.shape = vec![1, size];
    }
    for (stack, layers) in [("encoder", config.encoder_layers), ("decoder", config.decoder_layers)]
    {
        for layer in 0..layers {
            let (ours, theirs) =
                (format!("{stack}.layers.{layer}"), format!("model.{stack}.layers.{layer}"));
            tensors.attention([&ours, "self_attention"], [&theirs, "self_attn"]);
            if stack == "decoder" {
                tensors.attention([&ours, "cross_attention"], [&theirs, "encoder_attn"]);
            }
            tensors.feed_forward(&ours, &theirs);
        }
        match config.norm {
            NormPlacement::Pre => {
                tensors.norm(&format!("model.{stack}.layer_norm"), &format!("{stack}.norm"));
            }
            NormPlacement::Post | NormPlacement::PostFinal | NormPlacement::SublayerOutput => {}
        }
    }
    tensors.all
}

/// Tensors collected so far.
struct Tensors<'a> {
    bundle: &'a Bundle,
    all: Vec<Tensor>,
}

impl Tensors<'_> {
    /// A vector; zeros if the model does not have it.
    fn vector(&mut self, name: &str, weight: &str, size: usize, has_features: bool) {
        let content = match self.bundle.weight(weight).is_some() {
            true => Content::Vector { weight: weight.to_owned(), has_features },
            false => Content::Zeros,
        };
        self.all.push(Tensor { name: name.to_owned(), shape: vec![size], content });
    }

    /// A matrix `[d_in, d_out]`, transposed, with its bias.
    fn linear(
        &mut self,
        name: &str,
        weight: &str,
        [d_in, d_out]: [usize; 2],
        [features_in, features_out]: [bool; 2],
        has_bias: bool,
    ) {
        let matrix = format!("{weight}.weight");
        self.all.push(Tensor {
            name: format!("{name}.weight"),
            shape: vec![d_out, d_in],
            content: Content::Linear { weight: matrix, features_in, features_out },
        });
        if has_bias {
            let (name, bias) = (format!("{name}.bias"), format!("{weight}.bias"));
            self.vector(&name, &bias, d_out, features_out);
        }
    }

    fn norm(&mut self, name: &str, weight: &str) {
        let d_model = self.bundle.config.d_model;
        for (theirs, ours) in [("weight", "gamma"), ("bias", "beta")] {
            self.vector(&format!("{name}.{theirs}"), &format!("{weight}.{ours}"), d_model, true);
        }
    }

    fn attention(&mut self, [our_layer, ours]: [&str; 2], [their_layer, theirs]: [&str; 2]) {
        let shape = [self.bundle.config.d_model; 2];
        for (their, our, sides) in [
            ("q", "query", [true, false]),
            ("k", "key", [true, false]),
            ("v", "value", [true, false]),
            ("out", "output", [false, true]),
        ] {
            let name = format!("{their_layer}.{theirs}.{their}_proj");
            self.linear(&name, &format!("{our_layer}.{ours}.{our}"), shape, sides, true);
        }
        let norm = format!("{our_layer}.{ours}_residual.norm");
        self.norm(&format!("{their_layer}.{theirs}_layer_norm"), &norm);
    }

    fn feed_forward(&mut self, ours: &str, theirs: &str) {
        let (d_model, d_ff) = (self.bundle.config.d_model, self.bundle.config.d_ff);
        let block = format!("{ours}.feed_forward");
        let (inner, outer) = (format!("{block}.inner"), format!("{block}.outer"));
        self.linear(&format!("{theirs}.fc1"), &inner, [d_model, d_ff], [true, false], true);
        self.linear(&format!("{theirs}.fc2"), &outer, [d_ff, d_model], [false, true], true);
        self.norm(&format!("{theirs}.final_layer_norm"), &format!("{block}_residual.norm"));
    }
}
