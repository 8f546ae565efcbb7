//! Options of a Transformer of Marian, which are stored in the array `special:model.yml`.

use tx_model::{Activation, Autoregression, NormPlacement, Normalization};

use super::flat_yaml::{FlatYaml, Value};

/// Name of the array with the options of the model.
pub(crate) const OPTIONS: &str = "special:model.yml";

/// Options that describe a network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ModelOptions {
    /// Implementation that the names of the arrays belong to.
    pub(crate) layers: Layers,
    /// Features per token.
    pub(crate) d_model: usize,
    /// Attention heads.
    pub(crate) n_heads: usize,
    /// Inner features of the feed-forward layer.
    pub(crate) d_ff: usize,
    /// Layers of encoder and decoder.
    pub(crate) depths: [usize; 2],
    /// Ids of source and target.
    pub(crate) vocabularies: [usize; 2],
    /// Activation function of the feed-forward layer.
    pub(crate) activation: Activation,
    /// Order of normalization and residual sum.
    pub(crate) norm: NormPlacement,
    /// Normalization of the features.
    pub(crate) normalization: Normalization,
    /// First sub-layer of a decoder layer.
    pub(crate) autoregression: Autoregression,
    /// Matrices that are shared.
    pub(crate) tying: Tied,
    /// Whether the logits have a bias.
    pub(crate) output_bias: bool,
}

/// Implementation of the Transformer in Marian. They name the same arrays differently and have
/// another epsilon of layer normalization.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layers {
    /// `type: transformer`: epsilon 1e-6.
    Legacy,
    /// `type: transformer-new`: epsilon 1e-5.
    New,
}

impl Layers {
    /// Name of the type in the options.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Legacy => "transformer",
            Self::New => "transformer-new",
        }
    }

    /// Epsilon of layer normalization.
    pub(crate) fn norm_epsilon(self) -> f64 {
        match self {
            Self::Legacy => 1e-6,
            Self::New => 1e-5,
        }
    }
}

/// Sharing of matrices in Marian.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tied {
    /// `Wemb` is both embeddings and the output projection.
    All,
    /// `Wemb` is both embeddings.
    Embeddings,
    /// `decoder_Wemb` is the target embedding and the output projection.
    Decoder,
    /// Three matrices.
    None,
}

/// Options with the value that tx supports, and the default of Marian.
const FIXED: [(&str, &str); 15] = [
    ("factors-dim-emb", "0"),
    ("lemma-dim-emb", "0"),
    ("right-left", "false"),
    ("transformer-attention-mask", "default"),
    ("transformer-disable-position-embeddings", "false"),
    ("transformer-ffn-depth", "2"),
    ("transformer-no-affine", "false"),
    ("transformer-no-bias", "false"),
    ("transformer-no-projection", "false"),
    ("transformer-pool", "false"),
    ("transformer-train-position-embeddings", "false"),
    ("transformer-train-positions", "false"),
    ("ulr", "false"),
    ("ulr-trainable-transformation", "false"),
    ("ulr-dim-emb", "0"),
];

/// Options of other kinds of models, of training, or of no effect with the supported values of the
/// others. Those that start with one of [`IGNORED_PREFIXES`] are ignored too.
const IGNORED: [&str; 19] = [
    "best-deep",
    "dim-rnn",
    "dropout-rnn",
    "dropout-src",
    "dropout-trg",
    "factors-combine",
    "lemma-dependency",
    "max-length",
    "separator-symbol",
    "skip",
    "special-vocab",
    "transformer-alibi-shift",
    "transformer-alibi-trainable",
    "transformer-depth-scaling",
    "transformer-dim-aan",
    "transformer-dropout",
    "transformer-dropout-attention",
    "transformer-dropout-ffn",
    "transformer-guided-alignment-layer",
];

/// Starts of the names of options without effect on a Transformer, and the version of Marian.
const IGNORED_PREFIXES: [&str; 7] =
    ["bert-", "char-", "comet-", "dec-cell", "enc-cell", "transformer-aan-", "version"];

/// Options that [`ModelOptions::read`] reads by name.
const READ: [&str; 24] = [
    "type",
    "dim-emb",
    "dim-vocabs",
    "enc-depth",
    "dec-depth",
    "enc-type",
    "input-types",
    "layer-normalization",
    "output-omit-bias",
    "tied-embeddings",
    "tied-embeddings-all",
    "tied-embeddings-src",
    "transformer-heads",
    "transformer-dim-ffn",
    "transformer-decoder-autoreg",
    "transformer-decoder-dim-ffn",
    "transformer-decoder-ffn-depth",
    "transformer-ffn-activation",
    "transformer-preprocess",
    "transformer-postprocess",
    "transformer-postprocess-top",
    "transformer-postprocess-emb",
    "transformer-rnn-projection",
    "transformer-tied-layers",
];

impl ModelOptions {
    /// Reads the options of a model.
    ///
    /// # Errors
    ///
    /// One line per option that is missing or that tx does not support: name, value, supported
    /// values.
    pub(crate) fn read(yaml: &FlatYaml) -> Result<Self, Vec<String>> {
        let mut reader = Reader { yaml, problems: Vec::new() };
        let layers = match reader.text("type", "") {
            "transformer" => Layers::Legacy,
            "transformer-new" => Layers::New,
            // The other options have another meaning for other types.
            other => {
                return Err(vec![format!(
                    "`type` is {other:?}, supported are \"transformer\" and \"transformer-new\""
                )]);
            }
        };
        reader.check_fixed();
        reader.check_names();
        let d_ff = reader.count("transformer-dim-ffn", None);
        reader.count_or_zero("transformer-decoder-dim-ffn", d_ff);
        reader.count_or_zero("transformer-decoder-ffn-depth", 2);
        let (norm, normalization) = reader.norm(layers);
        let options = Self {
            layers,
            d_model: reader.count("dim-emb", None),
            n_heads: reader.count("transformer-heads", Some(8)),
            d_ff,
            depths: [reader.count("enc-depth", None), reader.count("dec-depth", None)],
            vocabularies: reader.vocabularies(),
            activation: reader.activation(layers),
            norm,
            normalization,
            autoregression: reader.autoregression(layers),
            tying: reader.tying(),
            output_bias: !reader.flag("output-omit-bias"),
        };
        if reader.problems.is_empty() { Ok(options) } else { Err(reader.problems) }
    }

    /// Text of the options, with those that Marian needs.
    pub(crate) fn to_yaml(&self) -> String {
        let [source, target] = self.vocabularies;
        let [encoder, decoder] = self.depths;
        let (preprocess, postprocess, top) = match self.norm {
            NormPlacement::Pre => ("n", "da", "n"),
            NormPlacement::PostFinal => ("", "dan", "n"),
            NormPlacement::Post | NormPlacement::SublayerOutput => ("", "dan", ""),
        };
        let letter = match self.normalization {
            Normalization::Layer => "n",
            Normalization::Rms => "r",
        };
        let [preprocess, postprocess, top] =
            [preprocess, postprocess, top].map(|steps| steps.replace('n', letter));
        let (cell, autoregression) = match self.autoregression {
            Autoregression::SelfAttention => ("gru", "self-attention"),
            Autoregression::Ssru => ("ssru", "rnn"),
        };
        let mut text = format!(
            "dec-cell: {cell}\ndec-depth: {decoder}\ndim-emb: {}\ndim-vocabs:\n  - {source}\n  - {target}\n\
             enc-depth: {encoder}\noutput-omit-bias: {}\ntied-embeddings: {}\n\
             tied-embeddings-all: {}\ntied-embeddings-src: {}\n\
             transformer-decoder-autoreg: {autoregression}\ntransformer-dim-ffn: {}\n\
             transformer-ffn-activation: {}\ntransformer-heads: {}\n\
             transformer-postprocess: {postprocess}\ntransformer-postprocess-emb: d\n\
             transformer-postprocess-top: \"{top}\"\ntransformer-preprocess: \"{preprocess}\"\n",
            self.d_model,
            !self.output_bias,
            self.tying == Tied::Decoder,
            self.tying == Tied::All,
            self.tying == Tied::Embeddings,
            self.d_ff,
            activation_name(self.activation),
            self.n_heads,
        );
        text.push_str(REST);
        text.push_str(&format!("type: {}\n", self.layers.name()));
        text
    }
}

/// Options with the values of a new model, which Marian expects to find.
const REST: &str = "\
bert-train-type-embeddings: true
bert-type-vocab-size: 2
dec-cell-base-depth: 2
dec-cell-high-depth: 1
dim-rnn: 1024
enc-cell: gru
enc-cell-depth: 1
enc-type: bidirectional
factors-combine: sum
factors-dim-emb: 0
input-types:
  []
layer-normalization: false
lemma-dependency: \"\"
lemma-dim-emb: 0
right-left: false
separator-symbol: \"[eos]\"
skip: false
transformer-aan-activation: swish
transformer-aan-depth: 2
transformer-aan-nogate: false
transformer-alibi-shift: false
transformer-alibi-trainable: false
transformer-attention-mask: default
transformer-decoder-dim-ffn: 0
transformer-decoder-ffn-depth: 0
transformer-dim-aan: 2048
transformer-disable-position-embeddings: false
transformer-ffn-depth: 2
transformer-guided-alignment-layer: last
transformer-no-affine: false
transformer-no-bias: false
transformer-no-projection: false
transformer-pool: false
transformer-rnn-projection: false
transformer-tied-layers:
  []
transformer-train-position-embeddings: false
ulr: false
ulr-dim-emb: 0
ulr-trainable-transformation: false
version: v1.12.0
";

/// Name of an activation function in Marian.
pub(crate) fn activation_name(activation: Activation) -> &'static str {
    match activation {
        Activation::Relu => "relu",
        Activation::Gelu => "gelu",
        Activation::Swish | Activation::Gated => "swish",
    }
}

struct Reader<'a> {
    yaml: &'a FlatYaml,
    problems: Vec<String>,
}

impl Reader<'_> {
    fn text(&self, key: &str, default: &'static str) -> &str {
        self.yaml.scalar(key).unwrap_or(default)
    }

    fn refuse(&mut self, key: &str, supported: &str) {
        let value = self.yaml.get(key).map_or_else(|| "missing".to_owned(), Value::to_string);
        self.problems.push(format!("`{key}` is {value}, supported is {supported}"));
    }

    fn check_fixed(&mut self) {
        for (key, supported) in FIXED {
            if self.yaml.get(key).is_some() && self.yaml.scalar(key) != Some(supported) {
                self.refuse(key, supported);
            }
        }
        if !self.yaml.list("transformer-tied-layers").is_empty() {
            self.refuse("transformer-tied-layers", "an empty list");
        }
        let types = self.yaml.list("input-types");
        if !types.iter().all(|kind| *kind == "sequence") {
            self.refuse("input-types", "\"sequence\"");
        }
    }

    /// Reports options of unknown names: they may change the network.
    fn check_names(&mut self) {
        let is_known = |key: &str| {
            READ.contains(&key)
                || IGNORED.contains(&key)
                || IGNORED_PREFIXES.iter().any(|prefix| key.starts_with(prefix))
                || FIXED.iter().any(|(name, _)| *name == key)
        };
        for (key, value) in self.yaml.iter().filter(|(key, _)| !is_known(key)) {
            self.problems.push(format!("`{key}` is {value}, and the option is unknown"));
        }
    }

    /// A positive number; 1 if there is a problem.
    fn count(&mut self, key: &str, default: Option<usize>) -> usize {
        let number = match self.yaml.get(key) {
            None => default,
            Some(_) => self.yaml.scalar(key).and_then(|text| text.parse().ok()),
        };
        match number.filter(|&number| number > 0) {
            Some(number) => number,
            None => {
                self.refuse(key, "a positive number");
                1
            }
        }
    }

    /// Checks that an option is absent, 0 or `same`.
    fn count_or_zero(&mut self, key: &str, same: usize) {
        let text = self.text(key, "0");
        if text != "0" && text.parse() != Ok(same) {
            self.refuse(key, &format!("0 or {same}"));
        }
    }

    fn flag(&mut self, key: &str) -> bool {
        match self.text(key, "false") {
            "true" => true,
            "false" => false,
            _ => {
                self.refuse(key, "true or false");
                false
            }
        }
    }

    fn vocabularies(&mut self) -> [usize; 2] {
        let sizes: Option<Vec<usize>> =
            self.yaml.list("dim-vocabs").iter().map(|size| size.parse().ok()).collect();
        match sizes.as_deref() {
            Some(&[source, target]) if source > 0 && target > 0 => [source, target],
            _ => {
                self.refuse("dim-vocabs", "two positive numbers");
                [1, 1]
            }
        }
    }

    fn activation(&mut self, layers: Layers) -> Activation {
        match (self.text("transformer-ffn-activation", "swish"), layers) {
            ("relu" | "ReLU", _) => Activation::Relu,
            ("swish", _) => Activation::Swish,
            ("gelu", Layers::New) => Activation::Gelu,
            _ => {
                self.refuse("transformer-ffn-activation", "relu or swish");
                Activation::Swish
            }
        }
    }

    /// Sub-layer of the decoder that reads the target so far.
    fn autoregression(&mut self, layers: Layers) -> Autoregression {
        let key = "transformer-decoder-autoreg";
        match (self.text(key, "self-attention"), self.text("dec-cell", "gru"), layers) {
            ("self-attention", _, _) => Autoregression::SelfAttention,
            ("rnn", "ssru", Layers::Legacy) => {
                for key in ["transformer-rnn-projection", "layer-normalization"] {
                    if self.flag(key) {
                        self.refuse(key, "false");
                    }
                }
                Autoregression::Ssru
            }
            (_, cell, _) => {
                let found = self.text(key, "");
                self.problems.push(format!(
                    "`{key}` is {found:?} with `dec-cell` {cell:?}, supported are \"self-attention\", and \
                     with `type` \"transformer\" also \"rnn\" with \"ssru\""
                ));
                Autoregression::SelfAttention
            }
        }
    }

    /// Order of normalization and residual sum, and the normalization. Dropout, `d`, has no effect
    /// outside of training.
    fn norm(&mut self, layers: Layers) -> (NormPlacement, Normalization) {
        let steps = |key, default| self.text(key, default).replace('d', "");
        let around = [
            steps("transformer-preprocess", ""),
            steps("transformer-postprocess", "dan"),
            steps("transformer-postprocess-top", ""),
        ];
        if !steps("transformer-postprocess-emb", "d").is_empty() {
            self.refuse("transformer-postprocess-emb", "d");
        }
        match (around.each_ref().map(String::as_str), layers) {
            (["", "an", ""], _) => (NormPlacement::Post, Normalization::Layer),
            (["n", "a", "n"], _) => (NormPlacement::Pre, Normalization::Layer),
            (["", "ar", ""], Layers::Legacy) => (NormPlacement::Post, Normalization::Rms),
            (["r", "a", "r"], Layers::Legacy) => (NormPlacement::Pre, Normalization::Rms),
            _ => {
                let keys = [
                    "transformer-preprocess",
                    "transformer-postprocess",
                    "transformer-postprocess-top",
                ];
                let found: Vec<String> =
                    keys.iter().map(|key| format!("`{key}` {:?}", self.text(key, ""))).collect();
                self.problems.push(format!(
                    "{}: supported are \"\", \"dan\", \"\" and \"n\", \"da\", \"n\", and with `type` \
                     \"transformer\" also \"r\" in place of \"n\"",
                    found.join(", ")
                ));
                (NormPlacement::Post, Normalization::Layer)
            }
        }
    }

    fn tying(&mut self) -> Tied {
        let [all, source, target] =
            ["tied-embeddings-all", "tied-embeddings-src", "tied-embeddings"]
                .map(|key| self.flag(key));
        match (all, source, target) {
            (true, _, _) | (false, true, true) => Tied::All,
            (false, true, false) => Tied::Embeddings,
            (false, false, true) => Tied::Decoder,
            (false, false, false) => Tied::None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> ModelOptions {
        ModelOptions {
            layers: Layers::Legacy,
            d_model: 32,
            n_heads: 4,
            d_ff: 64,
            depths: [1, 2],
            vocabularies: [600, 600],
            activation: Activation::Swish,
            norm: NormPlacement::Post,
            normalization: Normalization::Layer,
            autoregression: Autoregression::SelfAttention,
            tying: Tied::All,
            output_bias: true,
        }
    }

    fn read(text: &str) -> Result<ModelOptions, Vec<String>> {
        ModelOptions::read(&FlatYaml::parse(text).unwrap())
    }

    #[test]
    fn written_options_are_read_back() {
        for norm in [NormPlacement::Post, NormPlacement::Pre] {
            for tying in [Tied::All, Tied::Embeddings, Tied::Decoder, Tied::None] {
                for layers in [Layers::Legacy, Layers::New] {
                    let options = ModelOptions { norm, tying, layers, ..options() };
                    assert_eq!(read(&options.to_yaml()), Ok(options));
                }
            }
        }
        let other = ModelOptions {
            layers: Layers::New,
            activation: Activation::Gelu,
            output_bias: false,
            ..options()
        };
        assert_eq!(read(&other.to_yaml()), Ok(other));
        for norm in [NormPlacement::Post, NormPlacement::Pre] {
            let (autoregression, normalization) = (Autoregression::Ssru, Normalization::Rms);
            let options = ModelOptions { norm, autoregression, normalization, ..options() };
            assert_eq!(read(&options.to_yaml()), Ok(options));
        }
    }

    #[test]
    fn each_unsupported_option_is_named() {
        let with = |key: &str, value: &str| {
            let text = options().to_yaml();
            let mut is_removed = false;
            let kept = text.lines().filter(|line| {
                // The lines of a list belong to its key.
                is_removed =
                    line.starts_with(&format!("{key}:")) || is_removed && line.starts_with(' ');
                !is_removed
            });
            let kept: Vec<&str> = kept.collect();
            format!("{}\n{key}: {value}\n", kept.join("\n"))
        };
        for (key, value) in [
            ("type", "s2s"),
            ("type", "[transformer]"),
            ("dim-emb", "0"),
            ("dim-emb", "-1"),
            ("dim-emb", "99999999999999999999"),
            ("dim-vocabs", "5"),
            ("dim-vocabs", "[5, 0]"),
            ("dim-vocabs", "[5, 5, 5]"),
            ("enc-depth", "zero"),
            ("factors-dim-emb", "8"),
            ("input-types", "[class]"),
            ("lemma-dim-emb", "1"),
            ("output-omit-bias", "maybe"),
            ("right-left", "true"),
            ("tied-embeddings-all", "1"),
            ("transformer-attention-mask", "alibi"),
            ("transformer-decoder-autoreg", "rnn"),
            ("transformer-decoder-autoreg", "average-attention"),
            ("transformer-decoder-dim-ffn", "32"),
            ("transformer-decoder-ffn-depth", "1"),
            ("transformer-disable-position-embeddings", "true"),
            ("transformer-ffn-activation", "gelu"),
            ("transformer-ffn-activation", "tanh"),
            ("transformer-ffn-depth", "3"),
            ("transformer-heads", "0"),
            ("transformer-no-affine", "true"),
            ("transformer-no-bias", "true"),
            ("transformer-no-projection", "true"),
            ("transformer-pool", "true"),
            ("transformer-postprocess", "darn"),
            ("transformer-postprocess", "dhn"),
            ("transformer-postprocess-emb", "nd"),
            ("transformer-postprocess-top", "n"),
            ("transformer-preprocess", "n"),
            ("transformer-tied-layers", "[1, 1]"),
            ("transformer-train-position-embeddings", "true"),
            ("transformer-new-feature", "true"),
            ("ulr", "true"),
        ] {
            let problems = read(&with(key, value)).unwrap_err();
            assert_eq!(problems.len(), 1, "{key}: {value}: {problems:?}");
            assert!(problems[0].contains(&format!("`{key}`")), "{key}: {value}: {problems:?}");
        }
    }
}
