//! Search options of a `generation_config.json`.

use std::collections::HashMap;

use serde_json::Value;
use tx_infer::{EarlyStopping, LengthNorm, SearchOptions};
use tx_text::special::EOS;

use super::options::Options;

/// Keys of a search that tx does not have, with the values that do not change it.
const NEUTRAL: [(&str, f64); 8] = [
    ("diversity_penalty", 0.0),
    ("encoder_no_repeat_ngram_size", 0.0),
    ("encoder_repetition_penalty", 1.0),
    ("guidance_scale", 1.0),
    ("min_new_tokens", 0.0),
    ("num_beam_groups", 1.0),
    ("penalty_alpha", 0.0),
    ("do_sample", 0.0),
];

/// Reads the options. `new_ids` are the ids in the bundle of the ids of the model. Keys that are not
/// supported are added to `notes`.
pub(super) fn search_options(
    generation: &mut Options,
    new_ids: &HashMap<u32, u32>,
    notes: &mut Vec<String>,
) -> SearchOptions {
    let mut suppress: Vec<u32> = Vec::new();
    let mut suppressed = |id: &Value| {
        let id = id.as_u64().and_then(|id| u32::try_from(id).ok());
        suppress.extend(id.and_then(|id| new_ids.get(&id)));
    };
    let words = generation.get("bad_words_ids").and_then(Value::as_array).cloned();
    for word in words.unwrap_or_default() {
        match word.as_array().map(Vec::as_slice) {
            Some([id]) => suppressed(id),
            _ => notes.push(format!("`bad_words_ids` with several tokens is ignored: {word}")),
        }
    }
    let tokens = generation.get("suppress_tokens").and_then(Value::as_array).cloned();
    tokens.unwrap_or_default().iter().for_each(&mut suppressed);
    suppress.sort_unstable();
    suppress.dedup();
    // `<pad>` and `<bos>` are always suppressed.
    suppress.retain(|&id| id > 1);
    let forced_end = generation.get("forced_eos_token_id").cloned();
    let is_eos = |id: &Value| {
        let id = id.as_u64().and_then(|id| u32::try_from(id).ok());
        id.and_then(|id| new_ids.get(&id)) == Some(&EOS)
    };
    let force_eos = forced_end.as_ref().is_some_and(is_eos);
    if let Some(id) = forced_end.filter(|_| !force_eos) {
        notes.push(format!("`forced_eos_token_id` = {id} is not the end token and is ignored"));
    }

    let beam = generation.optional_size("num_beams").unwrap_or(1).max(1);
    let early_stopping = match generation.get("early_stopping") {
        None | Some(Value::Bool(false)) => EarlyStopping::Improvement,
        Some(Value::Bool(true)) => EarlyStopping::Finished,
        Some(other) => {
            notes.push(format!("`early_stopping` = {other} is read as \"never\""));
            EarlyStopping::Never
        }
    };
    // The length of transformers includes the first input of the decoder.
    let max_len = match generation.optional_size("max_new_tokens") {
        Some(tokens) => Some(tokens),
        None => generation.optional_size("max_length").map(|length| length.saturating_sub(1)),
    };
    let length_penalty = generation.number("length_penalty", 1.0) as f32;
    let repetition_penalty = generation.number("repetition_penalty", 1.0) as f32;
    let options = SearchOptions {
        beam,
        length_penalty,
        length_norm: LengthNorm::Power,
        early_stopping,
        max_len: max_len.filter(|&tokens| tokens > 0),
        max_len_ratio: 0.0,
        max_len_extra: 1 << 16,
        min_len: generation.optional_size("min_length").unwrap_or(0).saturating_sub(1),
        repetition_penalty,
        no_repeat_ngram: generation.optional_size("no_repeat_ngram_size").unwrap_or(0),
        max_repeats: 0,
        suppress,
        renormalize: generation.flag("renormalize_logits", false),
        force_eos,
        ..SearchOptions::default()
    };
    let options = if beam == 1 { options.with_one_hypothesis() } else { options };
    for (key, neutral) in NEUTRAL {
        let value = generation.get(key).map(|value| match value {
            Value::Bool(flag) => f64::from(u8::from(*flag)),
            value => value.as_f64().unwrap_or(neutral),
        });
        if value.is_some_and(|value| value != neutral) {
            let value = generation.get(key).cloned().unwrap_or_default();
            notes.push(format!("`{key}` = {value} of the generation configuration is ignored"));
        }
    }
    options
}
