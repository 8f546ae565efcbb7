//! Bundle of an untrained model for the other examples.

use tx_infer::{ModelTask, NewBundle, NewWeight, tx_text::Tokenizers};
use tx_model::{ModelConfig, VocabSizes};

/// Smallest useful model.
#[allow(dead_code, reason = "not every example needs it")]
pub fn small() -> ModelConfig {
    ModelConfig {
        d_model: 16,
        n_heads: 2,
        d_ff: 32,
        encoder_layers: 1,
        decoder_layers: 1,
        max_len: 32,
        ..ModelConfig::default()
    }
}

/// Bundle with arbitrary weights, the same in every call.
pub fn bundle(task: ModelTask, config: ModelConfig, tokenizers: Tokenizers) -> NewBundle<'static> {
    let vocabulary = config.padded(VocabSizes {
        source: tokenizers.source.vocab_size(),
        target: tokenizers.target.vocab_size(),
    });
    let shapes = config.weight_shapes_of(task.architecture(), vocabulary);
    let weights = shapes.into_iter().enumerate().map(|(number, weight)| {
        let count: usize = weight.shape.iter().product();
        // Small values that look random: the angle advances by much more than a turn.
        let value = move |index: usize| ((index * 7919 + number) as f32).sin() * 0.1;
        NewWeight {
            name: weight.name,
            shape: weight.shape,
            values: Box::new(move || (0..count).map(value).collect()),
        }
    });
    NewBundle {
        task,
        weights: weights.collect(),
        config,
        tokenizers,
        languages: None,
        context: 0,
        search: None,
        provenance: Default::default(),
    }
}
