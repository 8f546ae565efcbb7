//! Values inside a model as JSON, which pages draw.
//!
//! Lists of numbers are texts: base64 of 32-bit floats, the least significant byte first, so that a page has the
//! numbers bit by bit.

use data_encoding::BASE64;
use serde_json::{Value, json};
use tx_engine::{Ablation, LayerTrace, Map, StackTrace, Sublayer, SublayerTrace};
use tx_text::Tokenizer;

use super::{Inside, NextToken, OutputStep};
use crate::{
    search::{BeamCandidate, BeamStep, Hypothesis},
    tokens::Tokens,
};

impl Inside {
    /// Returns all values as JSON. `vocabulary` is the tokenizer of the target.
    pub fn to_json(&self, vocabulary: &Tokenizer) -> Value {
        let Self { config, source, target, input, language_token, trace, .. } = self;
        let Self { steps, beam, hypotheses, ablations, .. } = self;
        let token = |id: u32| vocabulary.token(id).unwrap_or_default();
        let candidate = |&NextToken { id, logit, log_probability }: &NextToken| json!({ "id": id, "token": token(id), "logit": logit, "log_probability": log_probability });
        let step = |step: &OutputStep| step.candidates.iter().map(candidate).collect::<Value>();
        let beam_candidate = |found: &BeamCandidate| {
            let &BeamCandidate { parent, token: id, log_probability, outcome } = found;
            json!({
                "parent": parent,
                "id": id,
                "token": token(id),
                "log_probability": log_probability,
                "outcome": outcome.name(),
            })
        };
        let beam_step =
            |step: &BeamStep| step.candidates.iter().map(beam_candidate).collect::<Value>();
        let hypothesis = |(text, found): &(String, Hypothesis)| {
            json!({
                "text": text,
                "ids": found.ids,
                "log_probability": found.log_probability,
                "score": found.score,
            })
        };
        let (ids, tokens): (Vec<u32>, Vec<&String>) = input.iter().map(|(id, it)| (id, it)).unzip();
        json!({
            "config": config,
            "source": side(source),
            "input": { "ids": ids, "tokens": tokens },
            "target": side(target),
            "language_token": language_token,
            "encoder": stack(&trace.encoder),
            "decoder": stack(&trace.decoder),
            "steps": steps.iter().map(step).collect::<Value>(),
            "beam": beam.iter().map(beam_step).collect::<Value>(),
            "hypotheses": hypotheses.iter().map(hypothesis).collect::<Value>(),
            "ablations": ablations.iter().map(Ablation::to_string).collect::<Value>(),
        })
    }
}

fn side(tokens: &Tokens) -> Value {
    json!({ "ids": tokens.ids, "tokens": tokens.tokens, "text": tokens.words.join(" ") })
}

fn stack(trace: &StackTrace) -> Value {
    json!({
        "embeddings": numbers(&trace.embeddings),
        "positions": numbers(&trace.positions),
        "layers": trace.layers.iter().map(layer).collect::<Value>(),
        "output": numbers(&trace.output),
    })
}

fn layer(trace: &LayerTrace) -> Value {
    trace.sublayers.iter().map(sublayer).collect()
}

fn sublayer(trace: &SublayerTrace) -> Value {
    let SublayerTrace { kind, input, attention, inner, output, residual } = trace;
    let mut value = json!({
        "kind": match kind {
            Sublayer::SelfAttention => "self-attention",
            Sublayer::Ssru => "ssru",
            Sublayer::CrossAttention => "cross-attention",
            Sublayer::FeedForward => "feed-forward",
        },
        "input": numbers(input),
        "inner": numbers(inner),
        "output": numbers(output),
        "residual": numbers(residual),
    });
    if let Some(attention) = attention {
        let map = |map: &Map| numbers(&map.values);
        value["heads"] = attention.weights.heads.into();
        value["keys"] = attention.weights.keys.into();
        value["q"] = numbers(&attention.queries);
        value["k"] = numbers(&attention.keys);
        value["v"] = numbers(&attention.values);
        value["scores"] = map(&attention.scores);
        value["weights"] = map(&attention.weights);
    }
    value
}

fn numbers(values: &[f32]) -> Value {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    BASE64.encode(&bytes).into()
}
