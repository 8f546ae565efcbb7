use data_encoding::BASE64;
use serde_json::Value;

use super::*;
use crate::{
    Attention, AttentionKind, LanguagePlacement, Sampling,
    search::{BeamCandidate, Outcome},
    translator::languages::multilingual,
};

fn translator() -> Translator {
    multilingual(LanguagePlacement::BothSides).with_languages(Some("en"), Some("de")).unwrap()
}

fn inside(translator: &Translator, given: GivenTarget<'_>) -> Inside {
    translator.inside("one two three", given, translator.options()).unwrap()
}

/// Path from the first step to a candidate.
fn path(beam: &[BeamStep], step: usize, candidate: &BeamCandidate) -> Vec<u32> {
    let mut ids = match step.checked_sub(1) {
        None => Vec::new(),
        Some(before) => {
            let kept = |it: &&BeamCandidate| it.outcome == Outcome::Kept;
            let candidates = &beam[before].candidates;
            let parent = candidates.iter().filter(kept).nth(candidate.parent).unwrap();
            path(beam, before, parent)
        }
    };
    ids.push(candidate.token);
    ids
}

/// The hypotheses are those of the translator; each that has ended is a path through the candidates, and no step keeps
/// more than the beam.
#[test]
fn the_beam_leads_to_the_hypotheses() {
    let translator = translator();
    let found = inside(&translator, GivenTarget::Nothing);
    let expected = translator.translate("one two three").unwrap();
    assert_eq!(found.hypotheses.len(), expected.hypotheses.len());
    for ((text, hypothesis), expected) in found.hypotheses.iter().zip(&expected.hypotheses) {
        assert_eq!((text, hypothesis), (&expected.text, &expected.hypothesis));
    }
    let mut paths = Vec::new();
    for (step, BeamStep { candidates }) in found.beam.iter().enumerate() {
        let count = |outcome| candidates.iter().filter(|it| it.outcome == outcome).count();
        assert!(count(Outcome::Kept) <= translator.options().beam, "{candidates:?}");
        assert!(candidates.is_sorted_by(|a, b| a.log_probability >= b.log_probability));
        let last = found.beam.len() - 1 == step;
        let ends = candidates
            .iter()
            .filter(|it| it.outcome == Outcome::Finished || (last && it.outcome == Outcome::Kept));
        paths.extend(ends.map(|end| (path(&found.beam, step, end), end.log_probability)));
    }
    for (_, hypothesis) in &found.hypotheses {
        let end = (hypothesis.ids.clone(), hypothesis.log_probability);
        assert!(paths.contains(&end), "{end:?} is not in {paths:?}");
    }
}

/// Probabilities are those of forced decoding, and weights those of `Attention`.
#[test]
fn values_are_those_of_forced_decoding_and_of_attention() {
    let translator = translator();
    for given in [GivenTarget::Nothing, GivenTarget::Text("two one")] {
        let found = inside(&translator, given);
        let pair = [(&found.source.ids[..], &found.target.ids[..])];
        let scores = translator.engine().log_probabilities(&pair, &Cancellation::new()).unwrap();
        assert_eq!(found.steps.len(), found.target.ids.len());
        for ((step, id), expected) in found.steps.iter().zip(&found.target.ids).zip(&scores[0]) {
            let chosen = step.candidates.iter().find(|it| it.id == *id).unwrap();
            assert!((chosen.log_probability - expected).abs() < 1e-6, "{chosen:?}, {expected}");
            let best = &step.candidates[..CANDIDATES.min(step.candidates.len())];
            assert!(best.is_sorted_by(|a, b| a.logit >= b.logit));
        }
        let attention =
            Attention::of(translator.engine(), found.source.clone(), found.target.clone());
        let mut compared = 0;
        for kind in AttentionKind::ALL {
            let (stack, kind_of) = match kind {
                AttentionKind::Encoder => {
                    (&found.trace.encoder, tx_engine::Sublayer::SelfAttention)
                }
                AttentionKind::Decoder => {
                    (&found.trace.decoder, tx_engine::Sublayer::SelfAttention)
                }
                AttentionKind::Cross => (&found.trace.decoder, tx_engine::Sublayer::CrossAttention),
            };
            for (layer, heads) in stack.layers.iter().zip(attention.layers(kind)) {
                let sublayer = layer.sublayers.iter().find(|it| it.kind == kind_of).unwrap();
                let expected: Vec<f32> = heads.iter().flat_map(|map| map.weights.clone()).collect();
                assert_eq!(sublayer.attention.as_ref().unwrap().weights.values, expected);
                compared += expected.len();
            }
        }
        assert!(compared > 100, "{compared}");
    }
}

#[test]
fn a_given_prefix_begins_the_translation() {
    let translator = translator();
    let best = inside(&translator, GivenTarget::Nothing).hypotheses[0].1.ids.clone();
    // The first token is that of the language.
    let vocabulary = translator.tokenizers().target.vocab_size() as u32;
    let other = (4..vocabulary).find(|id| !best[..2].contains(id)).unwrap();
    let found = inside(&translator, GivenTarget::Prefix(&[other]));
    assert_eq!(found.target.ids[..2], [best[0], other]);
    assert!(found.language_token);
    let options = translator.options();
    for (text, given, sampling, words) in [
        (" ", GivenTarget::Nothing, None, "no words"),
        ("one", GivenTarget::Prefix(&[9_999]), None, "not in the vocabulary"),
        ("one", GivenTarget::Nothing, Some(Sampling::default()), "`sampling`"),
    ] {
        let one = SearchOptions { sampling, ..options.clone() };
        let one = if sampling.is_some() { one.with_one_hypothesis() } else { one };
        let error = translator.inside(text, given, &one).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}

/// A translator without a head translates as its values say.
#[test]
fn ablations_change_values_and_translations_alike() {
    let translator = translator();
    let before = inside(&translator, GivenTarget::Nothing);
    let changed = translator.clone().with_ablations(vec!["decoder.2".parse().unwrap()]).unwrap();
    let found = inside(&changed, GivenTarget::Nothing);
    let expected = changed.translate("one two three").unwrap();
    assert_eq!(found.hypotheses[0].1, expected.hypotheses[0].hypothesis);
    assert_ne!(found.hypotheses[0].1.log_probability, before.hypotheses[0].1.log_probability);
    let json = found.to_json(&changed.tokenizers().target);
    assert_eq!(json["ablations"], serde_json::json!(["decoder.2"]));
    let error = translator.with_ablations(vec!["cross.3.1".parse().unwrap()]).unwrap_err();
    assert!(error.to_string().contains("the model has no cross.3.1"), "{error}");
}

#[test]
fn json_has_the_numbers_bit_by_bit() {
    let translator = translator();
    let found = inside(&translator, GivenTarget::Nothing);
    let json = found.to_json(&translator.tokenizers().target);
    let numbers = |value: &Value| -> Vec<f32> {
        let bytes = BASE64.decode(value.as_str().unwrap().as_bytes()).unwrap();
        bytes.chunks_exact(4).map(|it| f32::from_le_bytes(it.try_into().unwrap())).collect()
    };
    let sublayer = &found.trace.decoder.layers[0].sublayers[0];
    let value = &json["decoder"]["layers"][0][0];
    let attention = sublayer.attention.as_ref().unwrap();
    assert_eq!(value["kind"], "self-attention");
    for (name, expected) in [
        ("q", &attention.queries),
        ("k", &attention.keys),
        ("v", &attention.values),
        ("scores", &attention.scores.values),
        ("weights", &attention.weights.values),
        ("inner", &sublayer.inner),
        ("residual", &sublayer.residual),
    ] {
        assert_eq!(&numbers(&value[name]), expected, "{name}");
    }
    assert_eq!(json["input"]["tokens"].as_array().unwrap().len(), found.target.ids.len());
    assert_eq!(json["config"]["n_heads"], found.config.n_heads);
}
