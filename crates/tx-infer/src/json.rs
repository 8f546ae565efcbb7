//! Results as JSON objects, which the programs print and browsers receive.

use serde_json::{Value, json};
use tx_text::Tokenizer;

use crate::{
    classifier::{Classification, LabelScore},
    confidence::{Confidence, WordConfidence},
    fill_mask::{Filled, MaskToken},
    generator::{Continuation, Generator, ScoredText},
    glossary::Term,
    search::Hypothesis,
    translator::{Scored, Translation, Translator},
};

impl Translator {
    /// Returns a translation with all its hypotheses, their tokens and scores.
    pub fn to_json(&self, translation: &Translation) -> Value {
        let mut object = json!({
            "text": translation.text,
            "truncated": translation.truncated,
            "unknown": translation.unknown,
            "translations": self.hypotheses_to_json(translation),
        });
        if let Some(read) = &translation.read {
            object["read"] = read.as_str().into();
        }
        if !translation.terms.is_empty() {
            object["terms"] = translation.terms.iter().map(Term::to_json).collect();
        }
        object
    }

    /// Returns the hypotheses of a translation with their tokens and scores.
    pub fn hypotheses_to_json(&self, translation: &Translation) -> Vec<Value> {
        let hypotheses = translation.hypotheses.iter().map(|scored| {
            let Scored { text, hypothesis, expected_utility, .. } = scored;
            let mut object = hypothesis_to_json(text, hypothesis, &self.tokenizers().target);
            if let Some(utility) = expected_utility {
                object["expected_utility"] = (*utility).into();
            }
            object
        });
        hypotheses.collect()
    }
}

impl Confidence {
    /// Returns the probability of the translation, and the words with their probabilities.
    pub fn to_json(&self) -> Value {
        let word = |WordConfidence { word, probability, .. }: &WordConfidence| json!({ "word": word, "probability": probability });
        let words: Vec<Value> = self.words.iter().map(word).collect();
        json!({ "probability": self.probability, "words": words })
    }
}

impl Term {
    /// Returns the term, its translation, and whether the target has it.
    pub fn to_json(&self) -> Value {
        let Self { source, target, is_used } = self;
        json!({ "source": source, "target": target, "used": is_used })
    }
}

impl Generator {
    /// Returns a continuation with all its hypotheses, their tokens and scores.
    pub fn to_json(&self, found: &Continuation) -> Value {
        let hypotheses = found.hypotheses.iter().map(|scored| {
            let ScoredText { text, continuation, hypothesis, .. } = scored;
            let mut object = hypothesis_to_json(text, hypothesis, self.tokenizer());
            object["continuation"] = continuation.as_str().into();
            object
        });
        json!({
            "text": found.text,
            "unknown": found.unknown,
            "continuations": hypotheses.collect::<Vec<_>>(),
        })
    }
}

fn hypothesis_to_json(text: &str, hypothesis: &Hypothesis, vocabulary: &Tokenizer) -> Value {
    let tokens = hypothesis.ids.iter().map(|&id| vocabulary.token(id));
    json!({
        "text": text,
        "score": hypothesis.score,
        "log_probability": hypothesis.log_probability,
        "tokens": tokens.collect::<Vec<Option<String>>>(),
        "ids": hypothesis.ids,
    })
}

impl Classification {
    /// Returns the labels with their probabilities, at most `top_k`.
    pub fn to_json(&self, top_k: Option<usize>) -> Value {
        let label = |LabelScore { label, probability, .. }: &LabelScore| json!({ "label": &**label, "probability": probability });
        let best = self.scores.iter().take(top_k.unwrap_or(usize::MAX));
        json!({
            "label": self.label(),
            "truncated": self.truncated,
            "unknown": self.unknown,
            "labels": best.map(label).collect::<Vec<_>>(),
        })
    }
}

impl Filled {
    /// Returns the filled text and the likeliest tokens of each mask.
    pub fn to_json(&self) -> Value {
        let token = |MaskToken { text, token, id, probability }: &MaskToken| json!({ "text": text, "token": token, "id": id, "probability": probability });
        let masks = self.masks.iter().map(|tokens| tokens.iter().map(token).collect());
        json!({
            "filled": self.text,
            "unknown": self.unknown,
            "masks": masks.collect::<Vec<Vec<Value>>>(),
        })
    }
}
