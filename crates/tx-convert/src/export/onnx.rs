//! ONNX: a graph of the encoder, and one of the decoder with its keys and values.
//!
//! Names of inputs and outputs are those of `optimum`. The encoder also returns the keys and values of
//! the source for each decoder layer, which the decoder reads in each step:
//!
//! ```text
//! encoder_model.onnx                  input_ids, attention_mask [B, S]
//!     → last_hidden_state [B, S, d_model], present.N.encoder.{key,value} [B, H, S, D]
//! decoder_with_past_model.onnx        input_ids [B, T], encoder_attention_mask [B, S],
//!                                     past_key_values.N.encoder.{key,value} [B, H, S, D],
//!                                     past_key_values.N.decoder.{key,value} [B, H, P, D], P from 0
//!     → logits [B, T, V], present.N.decoder.{key,value} [B, H, P + T, D]
//! ```

use serde_json::json;
use tx_infer::Bundle;
use tx_model::{Autoregression, DecoderStart, config::Side};
use tx_text::special::{BOS, EOS, PAD, UNK};

use super::{ExportFormat, new_folder::NewFolder};
use crate::error::ConvertError;

mod graph;
mod layers;

use graph::{Element, Graph, Size, Value};
use layers::{Embedding, KeysValues, Layers, Places};

/// Writes the files.
///
/// # Errors
///
/// If the format has no counterpart of a property, or a file cannot be written.
pub(super) fn write(bundle: &Bundle, folder: &NewFolder) -> Result<(), ConvertError> {
    let refuse = |problems| ConvertError::NotExpressible { format: ExportFormat::Onnx, problems };
    match bundle.config.autoregression {
        Autoregression::SelfAttention => {}
        Autoregression::Ssru => {
            let problem = "`autoregression` = \"ssru\", supported is \"self-attention\"";
            return Err(refuse(vec![problem.to_owned()]));
        }
    }
    let graphs = [
        ("encoder_model.onnx", encoder(bundle)),
        ("decoder_with_past_model.onnx", decoder(bundle)),
    ];
    let problems: Vec<String> =
        graphs.iter().filter_map(|(_, graph)| graph.check().err()).collect();
    if !problems.is_empty() {
        return Err(refuse(problems));
    }
    for (name, graph) in graphs {
        folder.write_with(name, |file| graph.write(file))?;
    }
    folder.write("config.json", format!("{:#}\n", config(bundle)).as_bytes())?;
    folder.write_tokenizers(bundle)
}

/// `config.json`: special tokens and sizes that a program needs beside the graphs.
fn config(bundle: &Bundle) -> serde_json::Value {
    let config = &bundle.config;
    let start = match config.decoder_start {
        // The graph replaces the embedding of the first token by zeros.
        DecoderStart::Bos | DecoderStart::Zero => BOS,
        DecoderStart::Eos => EOS,
        DecoderStart::Pad => PAD,
    };
    // tx never generates padding and the start of a text.
    let suppress = bundle.search.as_ref().map_or(&[][..], |search| &search.suppress);
    let suppressed: Vec<u32> = [PAD, BOS].into_iter().chain(suppress.iter().copied()).collect();
    json!({
        "bos_token_id": BOS,
        "decoder_start_token_id": start,
        "eos_token_id": EOS,
        "pad_token_id": PAD,
        "suppress_tokens": suppressed,
        "unk_token_id": UNK,
        "d_model": config.d_model,
        "decoder_attention_heads": config.n_heads,
        "decoder_layers": config.decoder_layers,
        "max_position_embeddings": config.max_len,
        "vocab_size": config.padded(bundle.vocabulary()).target,
    })
}

const BATCH: Size = Size::Named("batch_size");
const SOURCE: Size = Size::Named("encoder_sequence_length");
const TARGET: Size = Size::Named("decoder_sequence_length");

fn encoder(bundle: &Bundle) -> Graph<'_> {
    let config = &bundle.config;
    let mut layers = Layers { graph: Graph::new(bundle, "encoder"), config };
    let ids = layers.graph.input("input_ids", Element::I64, &[BATCH, SOURCE]);
    let real = layers.graph.input("attention_mask", Element::I64, &[BATCH, SOURCE]);
    let (zero, len) = (layers.graph.int(0), layers.size(&ids, 1));
    let positions = layers.range(&zero, &len);
    let mask = layers.padding_mask(&real);
    let places =
        Places { mask: Some(mask), positions: Some([positions.clone(), positions.clone()]) };
    let embedding = Embedding {
        table: "source_embedding.weight",
        input: "source_input",
        factor: config.embedding_factor(Side::Source),
        zero_first: false,
    };
    let mut x = layers.embed(&ids, &positions, &embedding);
    for layer in 0..config.encoder_layers {
        let layer = format!("encoder.layers.{layer}");
        let name = format!("{layer}.self_attention");
        x = layers.residual(&x, &name, |layers, x| {
            let memory = layers.keys_values(x, &name, Some(&positions));
            layers.attention(x, &memory, &name, &places)
        });
        x = layers.feed_forward(&x, &layer);
    }
    x = layers.final_norm(x, "encoder");
    layers.graph.output(&x, "last_hidden_state", &[BATCH, SOURCE, Size::Known(config.d_model)]);
    for layer in 0..config.decoder_layers {
        let name = format!("decoder.layers.{layer}.cross_attention");
        let memory = layers.keys_values(&x, &name, None);
        let shape = heads(bundle, SOURCE);
        for (part, value) in [("key", memory.keys), ("value", memory.values)] {
            layers.graph.output(&value, &format!("present.{layer}.encoder.{part}"), &shape);
        }
    }
    layers.graph
}

fn decoder(bundle: &Bundle) -> Graph<'_> {
    let config = &bundle.config;
    let mut layers = Layers { graph: Graph::new(bundle, "decoder"), config };
    let ids = layers.graph.input("input_ids", Element::I64, &[BATCH, TARGET]);
    let real = layers.graph.input("encoder_attention_mask", Element::I64, &[BATCH, SOURCE]);
    let mut past = |layer: usize, side: &str, len: &'static str| {
        let shape = heads(bundle, Size::Named(len));
        let [keys, values] = ["key", "value"].map(|part| {
            let name = format!("past_key_values.{layer}.{side}.{part}");
            layers.graph.input(&name, Element::F32, &shape)
        });
        KeysValues { keys, values }
    };
    let caches: Vec<[KeysValues; 2]> = (0..config.decoder_layers)
        .map(|layer| {
            [
                past(layer, "encoder", "encoder_sequence_length"),
                past(layer, "decoder", "past_decoder_sequence_length"),
            ]
        })
        .collect();
    let zero = layers.graph.int(0);
    let start = match caches.first() {
        Some([_, target]) => layers.size(&target.keys, 2),
        None => zero.clone(),
    };
    let len = layers.size(&ids, 1);
    let end = layers.graph.node("Add", &[&start, &len]);
    let (queries, keys) = (layers.range(&start, &end), layers.range(&zero, &end));
    let mask = layers.causal_mask(&queries, &keys);
    let itself = Places { mask: Some(mask), positions: Some([queries.clone(), keys]) };
    let source = Places { mask: Some(layers.padding_mask(&real)), positions: None };
    let table = match config.tying.ties_source() {
        true => "source_embedding.weight",
        false => "target_embedding.weight",
    };
    let embedding = Embedding {
        table,
        input: "target_input",
        factor: config.embedding_factor(Side::Target),
        zero_first: config.decoder_start.is_zero(),
    };
    let mut x = layers.embed(&ids, &queries, &embedding);
    let mut presents = Vec::new();
    for (number, [encoder, past]) in caches.iter().enumerate() {
        let layer = format!("decoder.layers.{number}");
        let name = format!("{layer}.self_attention");
        let mut present = None;
        x = layers.residual(&x, &name, |layers, x| {
            let newest = layers.keys_values(x, &name, Some(&queries));
            let keys = layers.join(&past.keys, &newest.keys);
            let values = layers.join(&past.values, &newest.values);
            let all = present.insert(KeysValues { keys, values });
            layers.attention(x, all, &name, &itself)
        });
        let name = format!("{layer}.cross_attention");
        x = layers.residual(&x, &name, |layers, x| layers.attention(x, encoder, &name, &source));
        x = layers.feed_forward(&x, &layer);
        presents.extend(present);
    }
    x = layers.final_norm(x, "decoder");
    let logits = projection(&mut layers, &x, table);
    let ids = config.padded(bundle.vocabulary()).target;
    layers.graph.output(&logits, "logits", &[BATCH, TARGET, Size::Known(ids)]);
    let shape =
        heads(bundle, Size::Named("past_decoder_sequence_length + decoder_sequence_length"));
    for (layer, KeysValues { keys, values }) in presents.into_iter().enumerate() {
        for (part, value) in [("key", keys), ("value", values)] {
            layers.graph.output(&value, &format!("present.{layer}.decoder.{part}"), &shape);
        }
    }
    layers.graph
}

/// Shape of keys or values.
fn heads(bundle: &Bundle, len: Size) -> [Size; 4] {
    let config = &bundle.config;
    [BATCH, Size::Known(config.n_heads), len, Size::Known(config.d_head())]
}

/// Logits, by the table of the embedding if the projection is tied to it.
fn projection(layers: &mut Layers<'_, '_>, x: &Value, table: &str) -> Value {
    if !layers.config.tying.ties_projection() {
        return layers.linear(x, "projection");
    }
    let table = layers.graph.weight(table);
    let matrix = layers.graph.node("Transpose", &[&table]);
    let logits = layers.graph.node("MatMul", &[x, &matrix]);
    match layers.graph.has("projection.bias") {
        true => {
            let bias = layers.graph.weight("projection.bias");
            layers.graph.node("Add", &[&logits, &bias])
        }
        false => logits,
    }
}
