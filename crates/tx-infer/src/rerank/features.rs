//! Features of hypotheses that other models compute by forced decoding.

use super::n_best_list::NBestList;
use crate::{error::InferError, generator::Generator, translator::Translator};

/// Feature of a reverse model: `ln P(source | hypothesis) / tokens of the source`.
pub const REVERSE: &str = "reverse";
/// Feature of a language model: `ln P(hypothesis) / tokens of the hypothesis`.
pub const LANGUAGE_MODEL: &str = "lm";

/// Number of hypotheses scored together.
const WINDOW: usize = 10_000;

/// Sets the feature [`REVERSE`] of each hypothesis: the mean log-probability of a token of the source,
/// `<eos>` included, given the hypothesis. `sources` has the source of each sentence.
///
/// # Errors
///
/// [`InferError::Rerank`] if the number of sources is not that of the sentences; otherwise same as
/// [`Translator::score`], with the number of the line of the list.
pub fn add_reverse(
    list: &mut NBestList,
    sources: &[impl AsRef<str>],
    reverse: &Translator,
) -> Result<(), InferError> {
    if sources.len() != list.len() {
        let (found, expected) = (sources.len(), list.len());
        let problem = format!("the n-best list has {expected} sentences, but the source {found}");
        return Err(InferError::Rerank { problem });
    }
    let pairs: Vec<(&str, &str)> = list
        .sentence_of()
        .zip(list.entries())
        .map(|(sentence, entry)| (&*entry.text, sources[sentence].as_ref()))
        .collect();
    let mut values = Vec::with_capacity(pairs.len());
    for (pairs, first) in pairs.chunks(WINDOW).zip((0..).step_by(WINDOW)) {
        let scores = reverse.score(pairs, first)?;
        values.extend(scores.iter().map(|it| mean(it.log_probability(), it.ids.len())));
    }
    list.set_feature(REVERSE, &values);
    Ok(())
}

/// Sets the feature [`LANGUAGE_MODEL`] of each hypothesis: the mean log-probability of its tokens,
/// `<eos>` included.
///
/// # Errors
///
/// Same as [`Generator::score`], with the number of the line of the list.
pub fn add_language_model(list: &mut NBestList, model: &Generator) -> Result<(), InferError> {
    let texts: Vec<&str> = list.entries().iter().map(|entry| &*entry.text).collect();
    let mut values = Vec::with_capacity(texts.len());
    for (texts, first) in texts.chunks(WINDOW).zip((0..).step_by(WINDOW)) {
        let scores = model.score(texts, first)?;
        values.extend(scores.iter().map(|it| mean(it.log_probability(), it.ids.len())));
    }
    list.set_feature(LANGUAGE_MODEL, &values);
    Ok(())
}

fn mean(log_probability: f64, tokens: usize) -> f64 {
    log_probability / tokens.max(1) as f64
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::Device;

    /// A model as its own reverse, as forced decoding scores each pair by itself.
    #[test]
    fn the_reverse_feature_is_the_mean_log_probability_of_the_source() {
        let bundle = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/bundle-v1");
        let model = Translator::open(bundle, &Device::Cpu).unwrap();
        let lines = ["0 ||| il gatto ||| ||| 1", "0 ||| gatto ||| ||| 2", "1 ||| ||| ||| 0"];
        let lines = lines.map(|line| Ok::<_, InferError>(line.to_owned()));
        let mut list = NBestList::parse(lines).unwrap();
        let sources = ["the cat sleeps .", "the dog"];
        add_reverse(&mut list, &sources, &model).unwrap();
        let found = list.feature(REVERSE).unwrap();
        let pairs = [("il gatto", sources[0]), ("gatto", sources[0]), ("", sources[1])];
        for (found, pair) in found.iter().zip(pairs) {
            let score = model.score(&[pair], 0).unwrap().remove(0);
            let expected = score.log_probability() / score.ids.len() as f64;
            assert!((found - expected).abs() < 1e-6, "{pair:?}: {found} {expected}");
        }
        let error = add_reverse(&mut list, &sources[..1], &model).unwrap_err();
        assert!(error.to_string().contains("2 sentences, but the source 1"), "{error}");
    }
}
