use std::collections::HashMap;

use tx_model::{
    VocabSizes,
    config::{Autoregression, ModelConfig, NormPlacement, Positions, Tying},
};

use super::*;

const VOCAB: VocabSizes = VocabSizes { source: 11, target: 13 };
const SOURCE: [u32; 4] = [4, 7, 5, 2];
const TARGET: [u32; 5] = [1, 6, 9, 6, 3];

type Weights = HashMap<String, Vec<f32>>;

fn config() -> ModelConfig {
    ModelConfig {
        d_model: 8,
        n_heads: 2,
        d_ff: 12,
        encoder_layers: 2,
        decoder_layers: 2,
        max_len: 8,
        norm: NormPlacement::Pre,
        tying: Tying::None,
        ..ModelConfig::default()
    }
}

/// Configurations of all placements of norms, positions and decoders.
fn configs() -> Vec<ModelConfig> {
    let norms = [
        NormPlacement::Pre,
        NormPlacement::Post,
        NormPlacement::PostFinal,
        NormPlacement::SublayerOutput,
    ];
    let positions = [
        Positions::Sinusoidal,
        Positions::Learned,
        Positions::Rotary,
        Positions::Relative,
        Positions::Alibi,
        Positions::None,
    ];
    let of_norm = norms.map(|norm| ModelConfig { norm, ..config() });
    let of_positions = positions.map(|positions| ModelConfig { positions, ..config() });
    let ssru = ModelConfig { autoregression: Autoregression::Ssru, ..config() };
    of_norm.into_iter().chain(of_positions).chain([ssru]).collect()
}

fn weights(config: &ModelConfig) -> Weights {
    let values = |name: &str, len: usize| {
        let start = name.bytes().fold(0_u32, |sum, byte| sum * 31 % 997 + u32::from(byte)) as f32;
        (0..len).map(|index| (index as f32 * 0.73 + start).sin() * 0.6).collect()
    };
    let shapes = config.weight_shapes(VOCAB).into_iter();
    shapes.map(|it| (it.name.clone(), values(&it.name, it.shape.iter().product()))).collect()
}

fn packed(config: &ModelConfig) -> PackedTransformer {
    PackedTransformer::pack(config, VOCAB, &weights(config)).unwrap()
}

/// Values inside the model, and the logits of all steps.
fn trace(model: &PackedTransformer, ablations: &[Ablation]) -> (Trace, Vec<f32>) {
    let mut logits = Vec::new();
    let trace = model.trace(&SOURCE, &TARGET, ablations, |step| logits.extend_from_slice(step));
    (trace, logits)
}

fn steps(model: &PackedTransformer, ablations: &[Ablation]) -> Vec<f32> {
    let mut decoding = model.start_ablated(&[&SOURCE], ablations);
    TARGET.iter().flat_map(|&token| decoding.step_logits(&[token])).collect()
}

fn assert_near(found: &[f32], expected: &[f32], name: &str) {
    assert_eq!(found.len(), expected.len(), "{name}");
    for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
        let limit = 1e-5 * expected.abs().max(1.0);
        assert!((found - expected).abs() <= limit, "{name}, {index}: {found} and {expected}");
    }
}

#[test]
fn recording_does_not_change_the_logits() {
    for config in configs() {
        let model = packed(&config);
        let (_, logits) = trace(&model, &[]);
        assert_eq!(logits, steps(&model, &[]), "{config:?}");
    }
}

/// Attention by hand, from the recorded queries, keys and values.
#[test]
fn weights_are_the_softmax_of_scores_and_the_context_is_the_mean_of_values() {
    for config in configs() {
        let (trace, _) = trace(&packed(&config), &[]);
        let d_head = config.d_model / config.n_heads;
        let mut checked = 0;
        for (stack, len) in [(&trace.encoder, SOURCE.len()), (&trace.decoder, TARGET.len())] {
            for sublayer in stack.layers.iter().flat_map(|layer| &layer.sublayers) {
                let Some(attention) = &sublayer.attention else { continue };
                let Map { heads, queries, keys, values: scores } = &attention.scores;
                assert_eq!((*heads, *queries), (config.n_heads, len));
                let is_causal = len == TARGET.len() && sublayer.kind == Sublayer::SelfAttention;
                let feature = |rows: &[f32], row: usize, index| rows[row * config.d_model + index];
                for (head, query) in (0..*heads).flat_map(|head| (0..len).map(move |q| (head, q))) {
                    let row = (head * len + query) * keys..(head * len + query + 1) * keys;
                    let visible = if is_causal { query + 1 } else { *keys };
                    let features = head * d_head..(head + 1) * d_head;
                    let score = |key: usize| {
                        let products = features.clone().map(|index| {
                            let q = feature(&attention.queries, query, index);
                            q * feature(&attention.keys, key, index)
                        });
                        products.sum::<f32>() / (d_head as f32).sqrt()
                    };
                    let scores = &scores[row.clone()];
                    assert!(scores[visible..].iter().all(|score| *score == f32::NEG_INFINITY));
                    let has_bias =
                        matches!(config.positions, Positions::Relative | Positions::Alibi);
                    if !has_bias || sublayer.kind == Sublayer::CrossAttention {
                        let expected: Vec<f32> = (0..visible).map(score).collect();
                        assert_near(&scores[..visible], &expected, "scores");
                    }
                    let powers: Vec<f32> = scores.iter().map(|score| score.exp()).collect();
                    let sum: f32 = powers.iter().sum();
                    let expected: Vec<f32> = powers.iter().map(|power| power / sum).collect();
                    assert_near(&attention.weights.values[row], &expected, "weights");
                    let mixed = |index| {
                        let of_key =
                            |key: usize| expected[key] * feature(&attention.values, key, index);
                        (0..visible).map(of_key).sum::<f32>()
                    };
                    let context: Vec<f32> = features.clone().map(mixed).collect();
                    let at = query * config.d_model + features.start;
                    assert_near(&sublayer.inner[at..at + d_head], &context, "context");
                    checked += 1;
                }
            }
        }
        assert!(checked > 0, "{config:?}");
    }
}

/// In pre-norm: `x + f(norm(x))`, from the embeddings to the output of the last layer.
#[test]
fn residuals_add_the_outputs_to_the_embeddings() {
    let config = config();
    let (trace, _) = trace(&packed(&config), &[]);
    for stack in [trace.encoder, trace.decoder] {
        assert_eq!(stack.output.len(), stack.embeddings.len());
        let positions = stack.positions.iter().zip(&stack.embeddings);
        let mut x: Vec<f32> = positions.map(|(position, embedding)| position + embedding).collect();
        for sublayer in stack.layers.iter().flat_map(|layer| &layer.sublayers) {
            x.iter_mut().zip(&sublayer.output).for_each(|(x, output)| *x += output);
            assert_near(&sublayer.residual, &x, "residual");
        }
    }
}

/// A head that is turned off is a head whose rows of the output projection are 0.
#[test]
fn a_head_that_is_turned_off_contributes_nothing() {
    let d_head = 4;
    for config in configs() {
        let model = packed(&config);
        for part in ["encoder.2.1", "decoder.1.2", "cross.2.2"] {
            let ablation: Ablation = part.parse().unwrap();
            if !model.ablation_problems(&[ablation]).is_empty() {
                assert_eq!((config.autoregression, part), (Autoregression::Ssru, "decoder.1.2"));
                continue;
            }
            let Ablation::Head { layer, head, .. } = ablation else { panic!("a head") };
            let name = match part.split_once('.').unwrap().0 {
                "cross" => format!("decoder.layers.{layer}.cross_attention"),
                stack => format!("{stack}.layers.{layer}.self_attention"),
            };
            let mut changed = weights(&config);
            let matrix = changed.get_mut(&format!("{name}.output.weight")).unwrap();
            matrix[head * d_head * config.d_model..(head + 1) * d_head * config.d_model].fill(0.0);
            let expected = PackedTransformer::pack(&config, VOCAB, &changed).unwrap();
            let found = steps(&model, &[ablation]);
            assert_near(&found, &steps(&expected, &[]), part);
            assert_ne!(found, steps(&model, &[]), "{part}");
            assert_eq!(trace(&model, &[ablation]).1, found, "{part}");
        }
    }
}

/// A layer that is turned off is a layer that is not there.
#[test]
fn a_layer_that_is_turned_off_passes_its_input_on() {
    for (part, stack) in [("encoder.1", "encoder"), ("decoder.1", "decoder")] {
        let config = config();
        let shorter = match stack {
            "encoder" => ModelConfig { encoder_layers: 1, ..config.clone() },
            _ => ModelConfig { decoder_layers: 1, ..config.clone() },
        };
        let second = format!("{stack}.layers.1.");
        let mut changed = weights(&config);
        for (name, values) in weights(&config) {
            if let Some(rest) = name.strip_prefix(&second) {
                changed.insert(format!("{stack}.layers.0.{rest}"), values);
            }
        }
        let expected = PackedTransformer::pack(&shorter, VOCAB, &changed).unwrap();
        let ablation = part.parse().unwrap();
        let model = packed(&config);
        assert_eq!(steps(&model, &[ablation]), steps(&expected, &[]), "{part}");
        let (trace, _) = trace(&model, &[ablation]);
        let layers = if stack == "encoder" { trace.encoder.layers } else { trace.decoder.layers };
        assert!(layers[0].sublayers.is_empty() && !layers[1].sublayers.is_empty());
    }
}

#[test]
fn parts_that_a_model_does_not_have_are_problems() {
    let model = packed(&config());
    for part in ["encoder.3", "decoder.3", "encoder.3.1", "encoder.1.3", "cross.1.3", "cross.3.1"] {
        let problems = model.ablation_problems(&[part.parse().unwrap()]);
        assert_eq!(problems, [format!("the model has no {part}")]);
    }
    for part in ["", "encoder", "encoder.0", "cross.1", "encoder.1.1.1", "embedding.1", "encoder.x"]
    {
        assert!(part.parse::<Ablation>().is_err(), "{part}");
    }
}
