use std::{collections::BTreeMap, fs, path::Path};

use serde_json::{Value, json};
use tx_infer::{ModelTask, NewBundle, NewWeight};
use tx_model::{Activation, ModelConfig, SinusoidLayout, Sinusoids, Tying};
use tx_text::{SentencePair, TokenizerConfig, TokenizerKind, Tokenizers};

use super::*;
use crate::export::export;

/// Small configuration with two layers on each side.
fn small() -> ModelConfig {
    ModelConfig {
        d_model: 8,
        n_heads: 2,
        d_ff: 12,
        encoder_layers: 2,
        decoder_layers: 2,
        max_len: 10,
        ..ModelConfig::default()
    }
}

/// Bundle with weights of different values.
fn bundle(config: ModelConfig) -> Bundle {
    let pairs = [SentencePair::new("a cat sleeps .", "un gatto dorme .")];
    let kind = TokenizerKind::Word;
    let tokenizers =
        Tokenizers::train(&TokenizerConfig { kind, ..TokenizerConfig::default() }, &pairs).unwrap();
    let ids = tokenizers.source.vocab_size();
    let vocab = config.padded(tx_model::VocabSizes { source: ids, target: ids });
    let weights = config.weight_shapes(vocab).into_iter().enumerate();
    let weights = weights.map(|(index, weight)| {
        let size: usize = weight.shape.iter().product();
        let values = move || (0..size).map(|i| index as f32 + i as f32 / 1_000.0).collect();
        NewWeight { name: weight.name, shape: weight.shape, values: Box::new(values) }
    });
    let folder = tempfile::tempdir().unwrap();
    let bundle = NewBundle {
        task: ModelTask::Translate,
        weights: weights.collect(),
        config,
        tokenizers,
        languages: None,
        context: 0,
        search: None,
        provenance: Default::default(),
    };
    bundle.save(folder.path()).unwrap();
    Bundle::open(folder.path()).unwrap()
}

/// Variable of a `model.bin`: shape, dtype, bytes.
type Found = (Vec<u32>, u8, Vec<u8>);

/// Reader of `model.bin` that resolves aliases.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (bytes, rest) = self.0.split_at(count);
        self.0 = rest;
        bytes
    }

    fn number(&mut self, size: usize) -> usize {
        self.bytes(size).iter().rev().fold(0, |number, &byte| number << 8 | usize::from(byte))
    }

    fn string(&mut self) -> String {
        let length = self.number(2);
        let (last, text) = self.bytes(length).split_last().unwrap();
        assert_eq!(*last, 0);
        String::from_utf8(text.to_vec()).unwrap()
    }

    fn model(mut self) -> BTreeMap<String, Found> {
        assert_eq!(self.number(4), 6);
        assert_eq!(self.string(), "TransformerSpec");
        assert_eq!(self.number(4), 7);
        let mut variables = BTreeMap::new();
        for _ in 0..self.number(4) {
            let name = self.string();
            let rank = self.number(1);
            let shape = (0..rank).map(|_| self.number(4) as u32).collect();
            let dtype = self.number(1) as u8;
            let bytes = self.number(4);
            let value = (shape, dtype, self.bytes(bytes).to_vec());
            assert!(variables.insert(name, value).is_none());
        }
        for _ in 0..self.number(4) {
            let (alias, name) = (self.string(), self.string());
            let value = variables[&name].clone();
            assert!(variables.insert(alias, value).is_none());
        }
        assert!(self.0.is_empty());
        variables
    }
}

fn exported(bundle: &Bundle) -> (BTreeMap<String, Found>, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    export(bundle, ExportFormat::CTranslate2, folder.path()).unwrap();
    let model = fs::read(folder.path().join("model.bin")).unwrap();
    (Reader(&model).model(), folder)
}

fn json_file(folder: &Path, name: &str) -> Value {
    serde_json::from_str(&fs::read_to_string(folder.join(name)).unwrap()).unwrap()
}

fn floats(found: &Found) -> Vec<f32> {
    assert_eq!(found.1, 0);
    let floats: Vec<f32> =
        found.2.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect();
    assert_eq!(floats.len(), found.0.iter().product::<u32>() as usize);
    floats
}

#[test]
fn linear_layers_are_transposed_and_joined() {
    let bundle = bundle(small());
    let (model, _folder) = exported(&bundle);
    let (d, weights) = (8, |name: &str| bundle.weight(name).unwrap().1.to_vec());
    let found = &model["decoder/layer_1/attention/linear_1/weight"];
    assert_eq!(found.0, [16, 8]);
    let found = floats(found);
    let path = "decoder.layers.1.cross_attention";
    let keys = weights(&format!("{path}.key.weight"));
    let values = weights(&format!("{path}.value.weight"));
    for output in 0..d {
        for input in 0..d {
            assert_eq!(found[output * d + input], keys[input * d + output]);
            assert_eq!(found[(d + output) * d + input], values[input * d + output]);
        }
    }
    let found = &model["encoder/layer_0/ffn/linear_0/weight"];
    assert_eq!(
        (found.0.as_slice(), floats(found)[1]),
        (&[12, 8][..], { weights("encoder.layers.0.feed_forward.inner.weight")[12] })
    );
    let path = "encoder.layers.0.self_attention";
    let biases = ["query", "key", "value"].map(|part| weights(&format!("{path}.{part}.bias")));
    assert_eq!(floats(&model["encoder/layer_0/self_attention/linear_0/bias"]), biases.concat());
    assert!(!model.contains_key("encoder/layer_norm/gamma"));
}

/// Bytes divided by scales are the weights of the quantized bundle, for all of its arrangements.
#[test]
fn a_quantized_bundle_has_bytes_and_scales() {
    for tying in [Tying::None, Tying::Decoder, Tying::All] {
        let folder = tempfile::tempdir().unwrap();
        bundle(ModelConfig { tying, ..small() }).quantize(folder.path()).unwrap();
        let bundle = Bundle::open(folder.path()).unwrap();
        let (model, _folder) = exported(&bundle);
        let weights = |name: &str| bundle.weight(name).unwrap().1.to_vec();
        let rows = |name: &str| -> Vec<f32> {
            let (shape, dtype, bytes) = &model[name];
            assert_eq!((*dtype, bytes.len()), (1, shape.iter().product::<u32>() as usize));
            let scales = floats(&model[&format!("{name}_scale")]);
            assert_eq!(scales.len(), shape[0] as usize);
            let rows = bytes.chunks_exact(shape[1] as usize).zip(scales);
            rows.flat_map(|(row, scale)| row.iter().map(move |&b| f32::from(b as i8) / scale))
                .collect()
        };
        let assert_close = |found: &[f32], expected: &[f32]| {
            assert_eq!(found.len(), expected.len());
            let is_close = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-5 * b.abs();
            assert!(found.iter().zip(expected).all(is_close), "{tying:?}");
        };
        assert_close(&rows("encoder/embeddings_0/weight"), &weights("source_embedding.weight"));
        let inner = weights("decoder.layers.1.feed_forward.inner.weight");
        let turned: Vec<f32> =
            (0..12).flat_map(|output| inner[output..].iter().step_by(12).copied()).collect();
        assert_close(&rows("decoder/layer_1/ffn/linear_0/weight"), &turned);
        assert_eq!(model["decoder/layer_0/self_attention/linear_0/weight"].0, [24, 8]);
        let ids = bundle.vocabulary().target;
        let projection = rows("decoder/projection/weight");
        if tying == Tying::None {
            let columns = weights("projection.weight");
            let turned: Vec<f32> =
                (0..ids).flat_map(|id| columns[id..].iter().step_by(ids).copied()).collect();
            assert_close(&projection, &turned);
        } else {
            assert_close(&projection, &rows("decoder/embeddings/weight"));
        }
    }
}

#[test]
fn tied_matrices_are_stored_once() {
    let bundle = bundle(small());
    let (model, folder) = exported(&bundle);
    let table = bundle.weight("source_embedding.weight").unwrap().1;
    for name in
        ["encoder/embeddings_0/weight", "decoder/embeddings/weight", "decoder/projection/weight"]
    {
        assert_eq!(floats(&model[name]), *table, "{name}");
    }
    let size = fs::metadata(folder.path().join("model.bin")).unwrap().len() as usize;
    let untied = ModelConfig { tying: Tying::None, ..small() };
    let (_, folder) = exported(&self::bundle(untied));
    let larger = fs::metadata(folder.path().join("model.bin")).unwrap().len() as usize;
    assert!(size + 8 * table.len() < larger + 200, "{size} {larger}");
}

#[test]
fn options_and_tokens_are_those_of_the_bundle() {
    let config = ModelConfig {
        vocab_multiple: 16,
        norm_epsilon: 1e-6,
        decoder_start: DecoderStart::Eos,
        sinusoids: Sinusoids { layout: SinusoidLayout::Halves, ..Sinusoids::default() },
        ..small()
    };
    let bundle = bundle(config);
    let (model, folder) = exported(&bundle);
    let number = |name: &str| model[name].2.clone();
    assert_eq!(number("encoder/pre_norm"), [0]);
    assert_eq!(number("decoder/activation"), [0]);
    assert_eq!(number("decoder/num_heads"), [2, 0]);
    assert_eq!(number("decoder/alignment_layer"), [1, 0]);
    assert_eq!(number("decoder/start_from_zero_embedding"), [0]);
    let table = &model["encoder/position_encodings/encodings"];
    assert_eq!(table.0, [10, 8]);
    assert_eq!(floats(table)[..8], [0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0]);
    let config = json_file(folder.path(), "config.json");
    assert_eq!(config["decoder_start_token"], "<eos>");
    assert_eq!(config["layer_norm_epsilon"], json!(1e-6));
    let vocabulary = json_file(folder.path(), "shared_vocabulary.json");
    assert_eq!((&vocabulary[2], &vocabulary[15]), (&json!("<eos>"), &json!("<unused4>")));
    assert_eq!(vocabulary.as_array().unwrap().len(), 16);
    let tokenizer = Tokenizer::open(&folder.path().join("source.tokenizer.json")).unwrap();
    assert_eq!(
        tokenizer.encode("a cat").unwrap(),
        bundle.tokenizers.source.encode("a cat").unwrap()
    );
}

#[test]
fn pre_norm_rotary_gated_and_untied() {
    let config = ModelConfig {
        norm: NormPlacement::Pre,
        positions: Positions::Rotary,
        activation: Activation::Gated,
        tying: Tying::None,
        attention_bias: false,
        output_bias: false,
        decoder_start: DecoderStart::Zero,
        ..small()
    };
    let bundle = bundle(config);
    let (model, folder) = exported(&bundle);
    let weights = |name: &str| bundle.weight(name).unwrap().1.to_vec();
    assert_eq!(model["decoder/layer_1/self_attention/rotary_dim"].2, [4, 0, 0, 0]);
    assert_eq!(model["encoder/layer_0/self_attention/rotary_interleave"].2, [0]);
    assert_eq!(model["decoder/start_from_zero_embedding"].2, [1]);
    assert_eq!(floats(&model["encoder/layer_norm/beta"]), weights("encoder.norm.beta"));
    assert_eq!(model["decoder/projection/weight"].0, [bundle.vocabulary().target as u32, 8]);
    let gate = weights("encoder.layers.1.feed_forward.gate.bias");
    assert_eq!(floats(&model["encoder/layer_1/ffn/linear_0/bias"]), gate);
    for absent in [
        "encoder/position_encodings/encodings",
        "decoder/projection/bias",
        "decoder/layer_0/attention/rotary_dim",
        "decoder/layer_0/attention/linear_0/bias",
    ] {
        assert!(!model.contains_key(absent), "{absent}");
    }
    assert_eq!(json_file(folder.path(), "config.json")["decoder_start_token"], "<bos>");
}

#[test]
fn all_properties_without_a_counterpart_are_named() {
    let config = ModelConfig {
        norm: NormPlacement::SublayerOutput,
        positions: Positions::Relative,
        ..small()
    };
    let parent = tempfile::tempdir().unwrap();
    let output = parent.path().join("output");
    let error = export(&bundle(config), ExportFormat::CTranslate2, &output);
    let error = error.unwrap_err().to_string();
    for word in ["ctranslate2", "`norm` = \"sublayer-output\"", "`positions` = \"relative\""] {
        assert!(error.contains(word), "no {word}: {error}");
    }
    assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
}
