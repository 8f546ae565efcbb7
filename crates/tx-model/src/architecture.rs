//! The three uses of the Transformer (sections 1 and 3 of the paper, Radford et al. 2018, Devlin et
//! al. 2019): encoder and decoder together, the encoder alone, the decoder alone.

use serde::{Deserialize, Serialize};

use crate::config::{ConfigError, ModelConfig, VocabSizes, vocabulary_problem};

/// Most classes of a classifier.
const MOST_CLASSES: usize = 1 << 16;

/// Use of the Transformer that a model has.
///
/// [`ModelConfig`] is the same for all: a model with one stack ignores the number of layers of the
/// other, and has one vocabulary, so that both of its [`VocabSizes`] are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Architecture {
    /// Scores the next token of a target, given a source: `Transformer`.
    EncoderDecoder,
    /// Scores the classes of a text: `Classifier`, with `encoder_layers` layers.
    Classifier {
        /// Number of classes.
        classes: usize,
        /// Reduction of the encoder's output to one vector.
        pooling: Pooling,
    },
    /// Scores the next token of a text: `LanguageModel`, with `decoder_layers` layers.
    LanguageModel,
    /// Scores the tokens at masked positions of a text: `MaskedLanguageModel`, with
    /// `encoder_layers` layers.
    MaskedLanguageModel,
}

/// Reduction of the encoder's output `[S, d_model]` to one vector `[d_model]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pooling {
    /// The first token, as in BERT.
    First,
    /// The mean over the tokens that are not padding.
    Mean,
}

impl Architecture {
    /// Prefixes of the encoder's weights: embedding, positions, layers. None if there is no encoder.
    fn encoder_prefixes(self) -> Option<[&'static str; 3]> {
        match self {
            Self::EncoderDecoder => Some(["source_embedding.", "source_input.", "encoder."]),
            Self::Classifier { .. } | Self::MaskedLanguageModel => {
                Some(["embedding.", "input.", "encoder."])
            }
            Self::LanguageModel => None,
        }
    }
}

/// Name, in a model of the architecture `from`, of the weight that the weight `name` of a model of
/// the architecture `to` can start from. None if `from` has no such weight.
///
/// Two models of the same architecture correspond in every weight, two others in the encoder and
/// its embedding. The caller compares shapes and vocabularies.
///
/// ```
/// # use tx_model::architecture::{Architecture, Pooling, corresponding_weight};
/// let classifier = Architecture::Classifier { classes: 4, pooling: Pooling::Mean };
/// let from = |name| corresponding_weight(name, Architecture::EncoderDecoder, classifier);
/// assert_eq!(from("embedding.weight").as_deref(), Some("source_embedding.weight"));
/// assert_eq!(from("encoder.norm.gamma").as_deref(), Some("encoder.norm.gamma"));
/// assert_eq!(from("output.weight"), None);
/// ```
pub fn corresponding_weight(name: &str, from: Architecture, to: Architecture) -> Option<String> {
    if from == to {
        return Some(name.to_owned());
    }
    let mut prefixes = to.encoder_prefixes()?.into_iter().zip(from.encoder_prefixes()?);
    prefixes.find_map(|(to, from)| {
        let rest = name.strip_prefix(to)?;
        Some(format!("{from}{rest}"))
    })
}

impl ModelConfig {
    /// Checks all rules for a model of this architecture, and reports every violation at once.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] with one line per violated rule.
    pub fn check_architecture(
        &self,
        architecture: Architecture,
        vocab: VocabSizes,
    ) -> Result<(), ConfigError> {
        let classes = match architecture {
            Architecture::EncoderDecoder => return self.check(vocab),
            Architecture::Classifier { classes, pooling: Pooling::First | Pooling::Mean } => {
                Some(classes)
            }
            Architecture::LanguageModel | Architecture::MaskedLanguageModel => None,
        };
        let mut problems = self.problems();
        problems.extend(vocabulary_problem("vocabulary", vocab.source));
        if vocab.source != vocab.target {
            problems.push(format!(
                "a model with one stack has one vocabulary, found {} source and {} target ids",
                vocab.source, vocab.target
            ));
        }
        if architecture == Architecture::LanguageModel && !self.autoregression.is_attention() {
            problems.push(
                "`autoregression` = \"ssru\" needs a model for translation: a language model has \
                 self-attention"
                    .to_owned(),
            );
        }
        if let Some(classes) = classes.filter(|classes| !(1..=MOST_CLASSES).contains(classes)) {
            problems.push(format!("`classes` = {classes} must be in 1..={MOST_CLASSES}"));
        }
        ConfigError::from_problems(problems)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLASSIFIER: Architecture =
        Architecture::Classifier { classes: 4, pooling: Pooling::First };

    #[test]
    fn architectures_are_serialized_in_kebab_case() {
        for (architecture, json) in [
            (Architecture::EncoderDecoder, r#""encoder-decoder""#),
            (Architecture::LanguageModel, r#""language-model""#),
            (Architecture::MaskedLanguageModel, r#""masked-language-model""#),
            (CLASSIFIER, r#"{"classifier":{"classes":4,"pooling":"first"}}"#),
        ] {
            assert_eq!(serde_json::to_string(&architecture).unwrap(), json);
            assert_eq!(serde_json::from_str::<Architecture>(json).unwrap(), architecture);
        }
        let unknown = r#"{"classifier":{"classes":4,"pooling":"first","bias":true}}"#;
        assert!(serde_json::from_str::<Architecture>(unknown).is_err());
    }

    #[test]
    fn every_broken_rule_of_an_architecture_is_listed_at_once() {
        let config = ModelConfig { d_ff: 0, ..ModelConfig::default() };
        let classifier = |classes| Architecture::Classifier { classes, pooling: Pooling::Mean };
        let check = |architecture, source, target| {
            let vocab = VocabSizes { source, target };
            config.check_architecture(architecture, vocab).unwrap_err().problems
        };
        assert_eq!(
            check(classifier(0), 0, 9),
            [
                "`d_ff` must be at least 1",
                "the vocabulary is empty",
                "a model with one stack has one vocabulary, found 0 source and 9 target ids",
                "`classes` = 0 must be in 1..=65536",
            ]
        );
        assert_eq!(
            check(classifier(MOST_CLASSES + 1), 9, 9),
            ["`d_ff` must be at least 1", "`classes` = 65537 must be in 1..=65536"]
        );
        assert_eq!(check(classifier(MOST_CLASSES), 9, 9), ["`d_ff` must be at least 1"]);
        assert_eq!(check(Architecture::LanguageModel, 9, 9), ["`d_ff` must be at least 1"]);
        let autoregression = crate::Autoregression::Ssru;
        let recurrent = ModelConfig { autoregression, ..ModelConfig::default() };
        let vocab = VocabSizes { source: 9, target: 9 };
        assert!(recurrent.check_architecture(Architecture::LanguageModel, vocab).is_err());
        assert_eq!(recurrent.check_architecture(Architecture::MaskedLanguageModel, vocab), Ok(()));
        // Different vocabularies are allowed for two stacks only.
        let config = ModelConfig { tying: crate::Tying::None, ..ModelConfig::default() };
        let vocab = VocabSizes { source: 7, target: 9 };
        assert_eq!(config.check_architecture(Architecture::EncoderDecoder, vocab), Ok(()));
        assert!(config.check_architecture(Architecture::MaskedLanguageModel, vocab).is_err());
    }

    #[test]
    fn the_encoder_and_its_embedding_correspond() {
        use Architecture::{EncoderDecoder, LanguageModel, MaskedLanguageModel};
        for (to, from, name, expected) in [
            (CLASSIFIER, EncoderDecoder, "embedding.weight", Some("source_embedding.weight")),
            (
                CLASSIFIER,
                EncoderDecoder,
                "input.positions.learned",
                Some("source_input.positions.learned"),
            ),
            (
                EncoderDecoder,
                MaskedLanguageModel,
                "source_embedding.weight",
                Some("embedding.weight"),
            ),
            (EncoderDecoder, MaskedLanguageModel, "target_embedding.weight", None),
            (EncoderDecoder, MaskedLanguageModel, "decoder.norm.gamma", None),
            (EncoderDecoder, MaskedLanguageModel, "projection.bias", None),
            (
                CLASSIFIER,
                MaskedLanguageModel,
                "encoder.layers.0.feed_forward.inner.weight",
                Some("encoder.layers.0.feed_forward.inner.weight"),
            ),
            (CLASSIFIER, MaskedLanguageModel, "output.weight", None),
            (CLASSIFIER, CLASSIFIER, "output.weight", Some("output.weight")),
            (LanguageModel, MaskedLanguageModel, "embedding.weight", None),
            (CLASSIFIER, LanguageModel, "embedding.weight", None),
        ] {
            assert_eq!(
                corresponding_weight(name, from, to).as_deref(),
                expected,
                "{name} of {to:?} from {from:?}"
            );
        }
    }

    /// Every name is a weight of its own architecture, for both directions.
    #[test]
    fn corresponding_weights_exist_and_have_the_same_shape() {
        let config = ModelConfig {
            positions: crate::Positions::Learned,
            norm: crate::NormPlacement::Pre,
            ..ModelConfig::default()
        };
        let vocab = VocabSizes { source: 9, target: 9 };
        let all = [
            Architecture::EncoderDecoder,
            CLASSIFIER,
            Architecture::LanguageModel,
            Architecture::MaskedLanguageModel,
        ];
        for (from, to) in all.into_iter().flat_map(|from| all.map(|to| (from, to))) {
            let has = config.weight_shapes_of(from, vocab);
            let mut found = 0;
            for weight in config.weight_shapes_of(to, vocab) {
                if let Some(name) = corresponding_weight(&weight.name, from, to) {
                    let same = has.iter().find(|other| other.name == name);
                    assert_eq!(same.map(|other| &other.shape), Some(&weight.shape), "{name}");
                    found += 1;
                }
            }
            let has_encoder =
                |architecture: Architecture| architecture.encoder_prefixes().is_some();
            assert_eq!(found > 0, from == to || has_encoder(from) && has_encoder(to));
        }
    }
}
