//! Bundles with random weights, for tests of models with one text.

use burn::{
    module::{Module, ModuleMapper, Param},
    tensor::{Device, Tensor, TensorData},
};
use tx_model::{
    Classifier, DropoutConfig, LanguageModel, MaskedLanguageModel, ModelConfig, Pooling, Positions,
    Tying,
};
use tx_text::{
    Tokenizer, TokenizerConfig, TokenizerKind, Tokenizers, WordSplit, special::SpecialTokens,
};

use crate::{bundle::ModuleBundle, task::ModelTask};

/// Training texts of the tokenizers.
pub(crate) const TEXTS: [&str; 4] = [
    "The cat sleeps in the house.",
    "Is the dog here? The dog isn't here, it's there!",
    "(a small bird) reads: \"the red book\"",
    "è già qui l'amico — naïve 日本",
];

pub(crate) fn tokenizer(kind: TokenizerKind, special: SpecialTokens) -> Tokenizer {
    let config = TokenizerConfig {
        kind,
        split: WordSplit::Punctuation,
        vocab_size: 320,
        ..TokenizerConfig::default()
    };
    Tokenizer::train(&config, special, &TEXTS).unwrap()
}

pub(crate) fn config(positions: Positions, tying: Tying) -> ModelConfig {
    ModelConfig {
        d_model: 16,
        n_heads: 2,
        d_ff: 24,
        encoder_layers: 2,
        decoder_layers: 2,
        max_len: 32,
        positions,
        tying,
        // More ids than the tokenizer has.
        vocab_multiple: 64,
        dropout: DropoutConfig::none(),
        ..ModelConfig::default()
    }
}

fn of<M>(
    task: ModelTask,
    tokenizer: Tokenizer,
    config: ModelConfig,
    model: impl FnOnce(&ModelConfig, usize, &Device) -> M,
) -> ModuleBundle<M> {
    let device = Device::flex();
    device.seed(11);
    let tokenizers = Tokenizers::from(tokenizer);
    let vocab = tx_model::VocabSizes {
        source: tokenizers.source.vocab_size(),
        target: tokenizers.target.vocab_size(),
    };
    let model = model(&config, config.padded(vocab).target, &device);
    ModuleBundle {
        model,
        task,
        config,
        tokenizers,
        languages: None,
        context: 0,
        search: None,
        lexicon: None,
        provenance: toml::Table::new(),
    }
}

pub(crate) fn classifier(pooling: Pooling) -> ModuleBundle<Classifier> {
    let labels = ["no", "perhaps", "yes"].map(String::from).to_vec();
    let config = config(Positions::Learned, Tying::All);
    let tokenizer = tokenizer(TokenizerKind::Word, SpecialTokens::Standard);
    let task = ModelTask::Classify { labels, pooling };
    of(task, tokenizer, config, |config, vocabulary, device| {
        Classifier::new(config, vocabulary, 3, pooling, device).unwrap()
    })
}

pub(crate) fn language_model(kind: TokenizerKind, tying: Tying) -> ModuleBundle<LanguageModel> {
    let tokenizer = tokenizer(kind, SpecialTokens::Standard);
    let config = config(Positions::Rotary, tying);
    of(ModelTask::Generate, tokenizer, config, |config, vocabulary, device| {
        LanguageModel::new(config, vocabulary, device).unwrap()
    })
}

pub(crate) fn masked(kind: TokenizerKind, tying: Tying) -> ModuleBundle<MaskedLanguageModel> {
    let tokenizer = tokenizer(kind, SpecialTokens::WithMask);
    let config = config(Positions::Sinusoidal, tying);
    of(ModelTask::FillMask, tokenizer, config, |config, vocabulary, device| {
        MaskedLanguageModel::new(config, vocabulary, device).unwrap()
    })
}

/// Sets all weights of a model to `value`.
pub(crate) fn filled<M: Module>(model: M, value: f32) -> M {
    struct Fill(f32);
    impl ModuleMapper for Fill {
        fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
            param.map(|weight| weight.zeros_like() + self.0)
        }
    }
    model.map(&mut Fill(value))
}

/// Sets all weights of a model to random numbers, which depend on the seed only.
pub(crate) fn random<M: Module>(model: M, seed: u64) -> M {
    model.map(&mut Weights { state: seed, largest: 1.0, vectors: true })
}

/// Sets all matrices of a model to random numbers up to `largest`, which depend on the seed only. Biases and norms stay.
pub(crate) fn random_matrices<M: Module>(model: M, seed: u64, largest: f32) -> M {
    model.map(&mut Weights { state: seed, largest, vectors: false })
}

/// Numbers from SplitMix64 (Steele et al. 2014): the device's own random numbers are one
/// stream for all tests of a process.
struct Weights {
    state: u64,
    /// Largest magnitude.
    largest: f32,
    /// Whether vectors are set, too.
    vectors: bool,
}

impl ModuleMapper for Weights {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        if D == 1 && !self.vectors {
            return param;
        }
        param.map(|old| {
            let count = old.dims().iter().product();
            let values: Vec<f32> = (0..count).map(|_| self.largest * self.next()).collect();
            Tensor::from_data(TensorData::new(values, old.dims().to_vec()), &old.device())
        })
    }
}

impl Weights {
    fn next(&mut self) -> f32 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 40) as f32 / (1 << 23) as f32 - 1.0
    }
}
