//! What is in a bundle, without putting a weight on a device.

use std::{
    fs::{self, File},
    io::{self, Read},
    path::Path,
};

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use tx_data::{Tokenizers, hash::hexadecimal};
use tx_model::{ModelConfig, Tying, VocabSizes};

use super::{
    CONFIG, FORMAT, PROVENANCE, SOURCE_TOKENIZER, TARGET_TOKENIZER, WEIGHTS, read_config,
    read_tokenizer, read_toml,
};
use crate::error::InferError;

/// Longest header of a weights file that is read: the format's own limit.
const LONGEST_HEADER: u64 = 100_000_000;

/// What is in a bundle.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct BundleInfo {
    /// The files that make it.
    pub files: Vec<FileInfo>,
    /// The model's shape.
    pub config: ModelConfig,
    /// Ids of each side.
    pub vocabulary: VocabSizes,
    /// Text to ids and back.
    pub tokenizers: Tokenizers,
    /// The weights, by name.
    pub weights: Vec<WeightInfo>,
    /// Where the model comes from.
    pub provenance: toml::Table,
}

/// A file of a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileInfo {
    /// Its name in the folder.
    pub name: &'static str,
    /// Its size.
    pub bytes: u64,
    /// SHA-256 of its content, in hexadecimal.
    pub sha256: String,
}

/// A weight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WeightInfo {
    /// Its place in the model.
    pub name: String,
    /// Its type, as safetensors names it: `F32`.
    pub dtype: String,
    /// Its sizes.
    pub shape: Vec<usize>,
}

impl WeightInfo {
    /// Numbers in it.
    pub fn count(&self) -> usize {
        self.shape.iter().product()
    }

    /// The part of the model that it belongs to, as people name it.
    pub fn part(&self) -> &'static str {
        let name = self.name.as_str();
        let part = |word: &str| name.contains(word);
        match name.split('.').next() {
            Some("source_embedding") => "source embedding",
            Some("target_embedding") => "target embedding",
            Some("source_input" | "target_input") => "positions",
            Some("projection") => "projection",
            Some("encoder") if part("norm.") => "encoder norms",
            Some("encoder") if part("attention") => "encoder self-attention",
            Some("encoder") => "encoder feed-forward",
            Some("decoder") if part("norm.") => "decoder norms",
            Some("decoder") if part("cross_attention") => "decoder cross-attention",
            Some("decoder") if part("self_attention") => "decoder self-attention",
            Some("decoder") => "decoder feed-forward",
            _ => "other",
        }
    }
}

/// About how much memory translating takes, in bytes; what the program itself takes is not counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// The weights in single precision; where the projection is an embedding too, it is there twice.
    pub weights: usize,
    /// Keys and values of one token of one hypothesis, of all decoder layers.
    pub token: usize,
    /// Keys and values of a full batch: those of the source, and of targets twice as long.
    pub batch: usize,
}

impl BundleInfo {
    /// Reads all of a bundle but the values of its weights.
    ///
    /// # Errors
    ///
    /// As [`Bundle::open`](super::Bundle::open), but weights of a wrong name or shape are only
    /// found there.
    pub fn read(folder: &Path) -> Result<Self, InferError> {
        for missing in [WEIGHTS, CONFIG] {
            if !folder.join(missing).is_file() {
                return Err(InferError::NotABundle { path: folder.into(), missing });
            }
        }
        let config = read_config(&folder.join(CONFIG))?;
        config.model.check(config.vocabulary)?;
        let (hashes, vocabulary) = (&config.tokenizers, config.vocabulary);
        let tokenizer = |name, hash, size| read_tokenizer(&folder.join(name), hash, size);
        let tokenizers = Tokenizers {
            source: tokenizer(SOURCE_TOKENIZER, &hashes.source_sha256, vocabulary.source)?,
            target: tokenizer(TARGET_TOKENIZER, &hashes.target_sha256, vocabulary.target)?,
        };
        let files = [WEIGHTS, CONFIG, SOURCE_TOKENIZER, TARGET_TOKENIZER, PROVENANCE]
            .into_iter()
            .map(|name| file_info(folder, name))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            files,
            weights: weights(&folder.join(WEIGHTS))?,
            provenance: read_toml(&folder.join(PROVENANCE))?,
            config: config.model,
            vocabulary,
            tokenizers,
        })
    }

    /// Numbers that were learned.
    pub fn parameters(&self) -> usize {
        self.weights.iter().map(WeightInfo::count).sum()
    }

    /// Numbers by part of the model, in the order of the road through it.
    pub fn parts(&self) -> Vec<(&'static str, usize)> {
        const ORDER: [&str; 12] = [
            "source embedding",
            "target embedding",
            "positions",
            "encoder self-attention",
            "encoder feed-forward",
            "encoder norms",
            "decoder self-attention",
            "decoder cross-attention",
            "decoder feed-forward",
            "decoder norms",
            "projection",
            "other",
        ];
        let count = |part| {
            let own = self.weights.iter().filter(|weight| weight.part() == part);
            own.map(WeightInfo::count).sum()
        };
        ORDER.map(|part| (part, count(part))).into_iter().filter(|(_, n)| *n > 0).collect()
    }

    /// About how much memory translating takes, with batches of so many source tokens, hypotheses
    /// counted.
    pub fn memory(&self, batch_tokens: usize) -> Memory {
        const SINGLE: usize = 4;
        let ModelConfig { d_model, decoder_layers, tying, .. } = self.config;
        let shared = if tying == Tying::None { 0 } else { self.vocabulary.target * d_model };
        let token = 2 * decoder_layers * d_model * SINGLE;
        Memory {
            weights: (self.parameters() + shared) * SINGLE,
            token,
            batch: 3 * batch_tokens.saturating_mul(token),
        }
    }

    /// Everything, for other programs.
    pub fn to_json(&self, batch_tokens: usize) -> Value {
        let object = |pairs: Vec<(&str, usize)>| -> Map<String, Value> {
            pairs
                .into_iter()
                .map(|(key, value)| (key.replace([' ', '-'], "_"), json!(value)))
                .collect()
        };
        let Memory { weights, token, batch } = self.memory(batch_tokens);
        json!({
            "format": FORMAT,
            "parameters": { "total": self.parameters(), "parts": object(self.parts()) },
            "model": self.config,
            "vocabulary": self.vocabulary,
            "weights": self.weights.iter().map(|weight| json!({
                "name": weight.name, "dtype": weight.dtype, "shape": weight.shape,
            })).collect::<Vec<_>>(),
            "memory_bytes": { "weights": weights, "token": token, "batch": batch },
            "provenance": self.provenance,
            "files": self.files.iter().map(|file| json!({
                "name": file.name, "bytes": file.bytes, "sha256": file.sha256,
            })).collect::<Vec<_>>(),
        })
    }
}

fn file_info(folder: &Path, name: &'static str) -> Result<FileInfo, InferError> {
    let path = folder.join(name);
    let hash = || {
        let (mut file, mut hash) = (File::open(&path)?, Sha256::new());
        let bytes = fs::metadata(&path)?.len();
        let mut chunk = vec![0; 1 << 16];
        loop {
            match file.read(&mut chunk)? {
                0 => break,
                count => hash.update(&chunk[..count]),
            }
        }
        let sha256 = hexadecimal(&hash.finalize());
        Ok::<_, io::Error>(FileInfo { name, bytes, sha256 })
    };
    hash().map_err(|source| InferError::Read { path: path.clone(), source })
}

/// The header of a safetensors file: its length in eight bytes, then JSON.
fn weights(path: &Path) -> Result<Vec<WeightInfo>, InferError> {
    let problem = |problem: String| InferError::Weights { path: path.into(), problem };
    let read_error = |source| InferError::Read { path: path.into(), source };
    let mut file = File::open(path).map_err(read_error)?;
    let mut len = [0; 8];
    file.read_exact(&mut len).map_err(|_| problem("it ends before its header".into()))?;
    let len = u64::from_le_bytes(len);
    if len > LONGEST_HEADER {
        return Err(problem(format!("its header says to be {len} bytes long")));
    }
    let mut header = Vec::new();
    (&mut file).take(len).read_to_end(&mut header).map_err(read_error)?;
    let header: Map<String, Value> =
        serde_json::from_slice(&header).map_err(|error| problem(format!("its header: {error}")))?;
    let mut weights = Vec::new();
    for (name, value) in header.into_iter().filter(|(name, _)| name != "__metadata__") {
        let dtype = value["dtype"].as_str();
        let shape = value["shape"].as_array().and_then(|shape| {
            shape.iter().map(|size| size.as_u64().map(|size| size as usize)).collect()
        });
        match dtype.zip(shape) {
            Some((dtype, shape)) => weights.push(WeightInfo { name, dtype: dtype.into(), shape }),
            None => return Err(problem(format!("weight `{name}` has no type or shape"))),
        }
    }
    Ok(weights)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The fixture of `tests/`: d 8, 2 heads, d_ff 12, gated, 1 encoder and 2 decoder layers,
    /// learned positions up to 24, 48 source and 46 target ids, target tables tied, no attention
    /// biases. By hand:
    ///
    /// ```text
    /// attention       4 · 8²                             = 256
    /// feed-forward    2 · (8·12 + 12) + (12·8 + 8)       = 320
    /// norm            2 · 8                              = 16
    /// ```
    #[test]
    fn a_bundle_is_counted_as_by_hand() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/bundle-v1");
        let info = BundleInfo::read(folder.as_ref()).unwrap();
        assert_eq!(
            info.parts(),
            [
                ("source embedding", 48 * 8),
                ("target embedding", 46 * 8),
                ("positions", 2 * 24 * 8),
                ("encoder self-attention", 256),
                ("encoder feed-forward", 320),
                ("encoder norms", 3 * 16),
                ("decoder self-attention", 2 * 256),
                ("decoder cross-attention", 2 * 256),
                ("decoder feed-forward", 2 * 320),
                ("decoder norms", 7 * 16),
                ("projection", 46),
            ]
        );
        // Two layers of keys and values of 8 numbers of 4 bytes; the table of the target twice.
        let memory = info.memory(100);
        assert_eq!((memory.token, memory.batch), (128, 38_400));
        assert_eq!(memory.weights, 4 * (info.parameters() + 46 * 8));
        let json = info.to_json(100);
        assert_eq!(json["parameters"]["parts"]["encoder_self_attention"], 256);
        // The hash of the tokenizer stands in the configuration too.
        let hash = fs::read_to_string(Path::new(folder).join(CONFIG)).unwrap();
        assert!(hash.contains(json["files"][2]["sha256"].as_str().unwrap()));
    }

    #[test]
    fn a_damaged_header_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(WEIGHTS);
        for damage in [&b""[..], b"abc", &[255; 40], &[3, 0, 0, 0, 0, 0, 0, 0, b'{', b'}', b'x']] {
            fs::write(&path, damage).unwrap();
            let error = weights(&path).unwrap_err();
            assert!(error.to_string().contains(WEIGHTS), "{error}");
        }
        let text = b"{\"a\":{\"dtype\":\"F32\"}}";
        fs::write(&path, [&(text.len() as u64).to_le_bytes()[..], text].concat()).unwrap();
        assert!(weights(&path).unwrap_err().to_string().contains("weight `a` has no type"));
    }
}
