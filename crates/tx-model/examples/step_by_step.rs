//! Scores a target at once, as in training, and token by token with a cache, as in translation, and
//! compares the two.
//!
//! `cargo run -p tx-model --example step_by_step`

use std::io::{self, Write};

use burn::{
    module::Module,
    tensor::{Bool, Device, Int, Tensor},
};
use tx_model::{ModelConfig, NormPlacement, Transformer, TransformerInput, VocabSizes};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let device = Device::flex();
    let config = ModelConfig {
        d_model: 32,
        n_heads: 4,
        d_ff: 64,
        encoder_layers: 2,
        decoder_layers: 2,
        max_len: 16,
        norm: NormPlacement::Pre,
        ..ModelConfig::default()
    };
    let model = Transformer::new(&config, VocabSizes { source: 20, target: 20 }, &device)?;

    // Ids and masks; `true` = must not be attended to. `tx-data` makes both from text.
    let source = Tensor::<2, Int>::from_data([[5, 6, 7, 2, 0]], &device);
    let padding = Tensor::<4, Bool>::from_data([[[[false, false, false, false, true]]]], &device);
    let target = Tensor::<2, Int>::from_data([[1, 8, 9]], &device);
    let later = [[false, true, true], [false, false, true], [false, false, false]];
    let input = TransformerInput {
        source: source.clone(),
        source_blocked: padding.clone(),
        target: target.clone(),
        target_blocked: Tensor::from_data([[later]], &device),
    };

    let mut out = io::stdout().lock();
    writeln!(out, "{} weights", model.num_params())?;
    let (logits, maps) = model.forward_with_attention(input);
    writeln!(out, "logits {:?}, attention {:?}", logits.dims(), maps.decoder.cross[0].dims())?;

    // The encoder runs once; the decoder keeps keys and values between steps.
    let memory = model.encode(source, padding.clone());
    let mut cache = model.start_decoding(memory, padding);
    for position in 0..3 {
        let token = target.clone().narrow(1, position, 1).squeeze_dim(1);
        let step = model.decode_step(token, &mut cache);
        let at_once = logits.clone().narrow(1, position, 1).squeeze_dim(1);
        let difference = (step - at_once).abs().max().into_scalar::<f32>();
        writeln!(out, "position {position}: largest difference {difference:.1e}")?;
        assert!(difference < 1e-4);
    }
    Ok(())
}
