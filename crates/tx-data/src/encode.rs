//! Encoding of text pairs as id pairs, with a policy for pairs that are too long.

use std::{borrow::Borrow, fmt};

use serde::{Deserialize, Serialize};
use tx_text::{Ends, SentencePair, Tokenizer, Tokenizers};

use crate::{context::ContextEncoder, encoded_pair::EncodedPair, error::DataError, labels::Labels};

/// Content of the target side of a corpus.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TargetSide {
    /// Translations.
    #[default]
    Sentence,
    /// Labels of the sources.
    Label,
}

impl TargetSide {
    /// Returns `true` for translations.
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "signature required by serde")]
    pub(crate) fn is_sentence(&self) -> bool {
        *self == Self::Sentence
    }
}

/// Handling of a pair with a side longer than the allowed number of tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LongPolicy {
    /// The pair is dropped.
    Skip,
    /// The side is truncated and ended with `<eos>`.
    #[serde(alias = "cut")]
    Truncate,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "signature required by serde")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// Counts of an encoded corpus.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct EncodingReport {
    /// Input pairs, with noisy copies.
    pub pairs: usize,
    /// Input pairs that are noisy copies.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub copies: usize,
    /// Pairs that are read with context.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub with_context: usize,
    /// Pairs dropped because a side has no text.
    pub empty: usize,
    /// Number of the first dropped pair without text, from 1.
    pub first_empty: Option<usize>,
    /// Pairs dropped or truncated because a side is too long.
    pub long: usize,
    /// Policy applied to pairs that are too long; `None` if there are none.
    pub policy: Option<LongPolicy>,
    /// Tokens of the longest input source, special tokens included.
    pub longest_source: usize,
    /// Tokens of the longest input target, special tokens included.
    pub longest_target: usize,
    /// Content of the targets.
    #[serde(default, skip_serializing_if = "TargetSide::is_sentence")]
    pub target_side: TargetSide,
}

impl EncodingReport {
    /// Adds the counts of pairs with context.
    pub(crate) fn with_context(self, context: &ContextEncoder<'_>) -> Self {
        let longest_source = self.longest_source.max(context.longest);
        Self { with_context: self.with_context + context.pairs, longest_source, ..self }
    }

    /// Adds the counts of the next part of a corpus.
    pub(crate) fn add(&mut self, next: &Self) {
        self.first_empty = self.first_empty.or(next.first_empty.map(|first| self.pairs + first));
        self.pairs += next.pairs;
        self.copies += next.copies;
        self.with_context += next.with_context;
        self.empty += next.empty;
        self.long += next.long;
        self.policy = self.policy.or(next.policy);
        self.longest_source = self.longest_source.max(next.longest_source);
        self.longest_target = self.longest_target.max(next.longest_target);
    }
}

impl fmt::Display for EncodingReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dropped = match self.policy {
            Some(LongPolicy::Skip) => self.empty + self.long,
            Some(LongPolicy::Truncate) | None => self.empty,
        };
        let (left, longest_source) = (self.pairs - dropped, self.longest_source);
        let side = match self.target_side {
            TargetSide::Sentence => {
                let longest_target = self.longest_target;
                write!(
                    f,
                    "{left} pairs, longest source {longest_source} and target {longest_target} tokens"
                )?;
                "side"
            }
            TargetSide::Label => {
                write!(f, "{left} texts, longest {longest_source} tokens")?;
                "text or label"
            }
        };
        if self.copies > 0 {
            write!(f, "; {} of them noisy copies", self.copies)?;
        }
        if self.with_context > 0 {
            write!(f, "; {} of them with context", self.with_context)?;
        }
        if let Some(first) = self.first_empty {
            write!(f, "; {} with an empty {side} left out (first: line {first})", self.empty)?;
        }
        match self.policy {
            Some(LongPolicy::Skip) => write!(f, "; {} too long left out", self.long),
            Some(LongPolicy::Truncate) => write!(f, "; {} too long truncated", self.long),
            None => Ok(()),
        }
    }
}

/// Number of pairs tokenized together. It is limited, because the tokenizer library's results take
/// much more memory than the ids.
const PART: usize = 8_192;

/// Encoder of the target side.
#[derive(Debug, Clone, Copy)]
enum TargetEncoder<'a> {
    Sentence(&'a Tokenizer),
    Label {
        labels: &'a Labels,
        /// Name of the corpus, for errors.
        what: &'a str,
    },
}

/// Encoder of a corpus in parts, in order. Drops pairs with an empty side, applies the policy to
/// pairs that are too long, and counts both.
#[derive(Debug)]
pub struct Encoder<'a> {
    source: &'a Tokenizer,
    target: TargetEncoder<'a>,
    max_len: usize,
    policy: LongPolicy,
    report: EncodingReport,
}

impl<'a> Encoder<'a> {
    /// Creates an encoder for at most `max_len` tokens a side.
    pub fn new(tokenizers: &'a Tokenizers, max_len: usize, policy: LongPolicy) -> Self {
        let target = TargetEncoder::Sentence(&tokenizers.target);
        Self { source: &tokenizers.source, target, max_len, policy, report: Default::default() }
    }

    /// Creates an encoder for texts of at most `max_len` tokens, each with a label as its target.
    /// The target of an encoded pair is the class alone. `what` names the corpus in an error.
    pub fn labeled(
        tokenizer: &'a Tokenizer,
        labels: &'a Labels,
        max_len: usize,
        policy: LongPolicy,
        what: &'a str,
    ) -> Self {
        let target = TargetEncoder::Label { labels, what };
        let report = EncodingReport { target_side: TargetSide::Label, ..Default::default() };
        Self { source: tokenizer, target, max_len, policy, report }
    }

    /// Encodes the next part of the corpus and passes each pair to `take`, in order, with its index
    /// in `pairs`.
    ///
    /// # Errors
    ///
    /// If the tokenizer or `take` fails, or a label is unknown.
    pub fn encode<P: Borrow<SentencePair>, E: From<DataError>>(
        &mut self,
        pairs: &[P],
        mut take: impl FnMut(usize, EncodedPair) -> Result<(), E>,
    ) -> Result<(), E> {
        let Self { source, target: target_side, max_len, policy, report } = self;
        let source_ends = source.ends();
        let target_ends = match target_side {
            TargetEncoder::Sentence(tokenizer) => tokenizer.ends(),
            TargetEncoder::Label { .. } => Ends::BOTH,
        };
        for (part, pairs) in pairs.chunks(PART).enumerate() {
            let texts = pairs.iter().map(Borrow::borrow);
            let sources = encode_side(source, texts.clone().map(|pair| &pair.source))?;
            let targets = match target_side {
                TargetEncoder::Sentence(tokenizer) => {
                    encode_side(tokenizer, texts.clone().map(|pair| &pair.target))?
                }
                TargetEncoder::Label { .. } => vec![Vec::new(); pairs.len()],
            };
            let encoded = sources.into_iter().zip(targets).zip(texts).enumerate();
            for (index, ((mut source, mut target), pair)) in encoded {
                report.pairs += 1;
                if pair.source.trim().is_empty() || pair.target.trim().is_empty() {
                    report.empty += 1;
                    report.first_empty.get_or_insert(report.pairs);
                    continue;
                }
                if let TargetEncoder::Label { labels, what } = target_side {
                    target = vec![labels.class_in_line(&pair.target, report.pairs, what)? as u32];
                }
                report.longest_source = report.longest_source.max(source.len());
                report.longest_target = report.longest_target.max(target.len());
                if source.len() > *max_len || target.len() > *max_len {
                    report.long += 1;
                    report.policy = Some(*policy);
                    match policy {
                        LongPolicy::Skip => continue,
                        LongPolicy::Truncate => {
                            source_ends.truncate(&mut source, *max_len);
                            target_ends.truncate(&mut target, *max_len);
                        }
                    }
                }
                take(part * PART + index, EncodedPair::new(source, target))?;
            }
        }
        Ok(())
    }

    /// Returns the counts.
    ///
    /// # Errors
    ///
    /// If no pair or text is left; `what` names the corpus in the message.
    pub fn finish(self, what: &str) -> Result<EncodingReport, DataError> {
        let report = self.report;
        let skipped = if report.policy == Some(LongPolicy::Skip) { report.long } else { 0 };
        if report.pairs == report.empty + skipped {
            let EncodingReport { pairs, empty, long, .. } = report;
            let (what, max_len) = (what.into(), self.max_len);
            return Err(match report.target_side {
                TargetSide::Sentence => DataError::NoPairs {
                    what,
                    reason: format!(
                        "{pairs} pairs, {empty} with an empty side, {long} longer than {max_len} \
                         tokens"
                    ),
                },
                TargetSide::Label => DataError::NoTexts {
                    what,
                    reason: format!(
                        "{pairs} texts, {empty} with an empty text or label, {long} longer than \
                         {max_len} tokens"
                    ),
                },
            });
        }
        Ok(report)
    }
}

/// Encodes a corpus in memory, as [`Encoder`] does, with the context of its pairs.
///
/// # Errors
///
/// If no pair is left; `what` names the corpus in the message.
pub fn encode_corpus(
    pairs: &[SentencePair],
    tokenizers: &Tokenizers,
    max_len: usize,
    policy: LongPolicy,
    what: &str,
) -> Result<(Vec<EncodedPair>, EncodingReport), DataError> {
    let context = ContextEncoder::new(&tokenizers.source, max_len);
    encode_all(pairs, Encoder::new(tokenizers, max_len, policy), context, what)
}

/// Encodes labeled texts in memory, as [`Encoder::labeled`] does.
///
/// # Errors
///
/// When a label is unknown, or no text is left; `what` names the corpus in the message.
pub fn encode_labeled(
    pairs: &[SentencePair],
    tokenizer: &Tokenizer,
    labels: &Labels,
    max_len: usize,
    policy: LongPolicy,
    what: &str,
) -> Result<(Vec<EncodedPair>, EncodingReport), DataError> {
    let context = ContextEncoder::new(tokenizer, max_len);
    encode_all(pairs, Encoder::labeled(tokenizer, labels, max_len, policy, what), context, what)
}

fn encode_all(
    pairs: &[SentencePair],
    mut encoder: Encoder<'_>,
    mut context: ContextEncoder<'_>,
    what: &str,
) -> Result<(Vec<EncodedPair>, EncodingReport), DataError> {
    let mut encoded = Vec::with_capacity(pairs.len());
    let contexts = context.encode(pairs.iter().map(|pair| &pair.context[..]))?;
    encoder.encode(pairs, |index, mut pair| {
        context.add(&mut pair, contexts.get(index).map_or(&[], Vec::as_slice));
        encoded.push(pair);
        Ok::<_, DataError>(())
    })?;
    Ok((encoded, encoder.finish(what)?.with_context(&context)))
}

fn encode_side<'a>(
    tokenizer: &Tokenizer,
    texts: impl Iterator<Item = &'a String>,
) -> Result<Vec<Vec<u32>>, DataError> {
    Ok(tokenizer.par_encode_batch(&texts.map(String::as_str).collect::<Vec<_>>())?)
}

#[cfg(test)]
mod tests {
    use tx_text::{
        TokenizerConfig, TokenizerKind,
        special::{BOS, EOS, SpecialTokens},
    };

    use super::*;

    fn corpus() -> (Vec<SentencePair>, Tokenizers) {
        let pairs = [("a", "b"), (" ", "b"), ("a a a a", "b"), ("a", "b b b"), ("a", "")]
            .map(|(source, target)| SentencePair::new(source, target))
            .to_vec();
        let config = TokenizerConfig { kind: TokenizerKind::Word, ..TokenizerConfig::default() };
        let tokenizers = Tokenizers::train(&config, &pairs).unwrap();
        (pairs, tokenizers)
    }

    #[test]
    fn empty_and_long_pairs_are_dropped_and_counted() {
        let (pairs, tokenizers) = corpus();
        let (encoded, report) =
            encode_corpus(&pairs, &tokenizers, 4, LongPolicy::Skip, "test").unwrap();
        assert_eq!(encoded.len(), 1);
        assert_eq!(
            report.to_string(),
            "1 pairs, longest source 5 and target 5 tokens; 2 with an empty side left out \
             (first: line 2); 2 too long left out"
        );
    }

    #[test]
    fn a_truncated_side_ends_with_eos() {
        let (pairs, tokenizers) = corpus();
        let (encoded, report) =
            encode_corpus(&pairs, &tokenizers, 4, LongPolicy::Truncate, "test").unwrap();
        let (a, b) = (tokenizers.source.id("a").unwrap(), tokenizers.target.id("b").unwrap());
        let expected = [
            EncodedPair::new(vec![a, EOS], vec![BOS, b, EOS]),
            EncodedPair::new(vec![a, a, a, EOS], vec![BOS, b, EOS]),
            EncodedPair::new(vec![a, EOS], vec![BOS, b, b, EOS]),
        ];
        assert_eq!(encoded, expected);
        assert_eq!((report.long, report.empty), (2, 2));
    }

    /// The empty text and the text without label are dropped; the long one is dropped or truncated.
    #[test]
    fn labeled_texts_keep_their_class_whatever_their_length() {
        let pairs = [("a", "x"), (" ", "x"), ("a b a", "y"), ("b", ""), ("b", " y ")]
            .map(|(text, label)| SentencePair::new(text, label));
        let config = TokenizerConfig { kind: TokenizerKind::Word, ..TokenizerConfig::default() };
        let tokenizer = Tokenizer::train(&config, SpecialTokens::Standard, &["a b"]).unwrap();
        let (a, b) = (tokenizer.id("a").unwrap(), tokenizer.id("b").unwrap());
        let labels = Labels::new(["x", "y"], "test").unwrap();
        let encode =
            |policy| encode_labeled(&pairs, &tokenizer, &labels, 4, policy, "test").unwrap();
        let pair = |source: &[u32], class| EncodedPair::new(source.into(), vec![class]);

        let (encoded, report) = encode(LongPolicy::Truncate);
        let expected =
            [pair(&[BOS, a, EOS], 0), pair(&[BOS, a, b, EOS], 1), pair(&[BOS, b, EOS], 1)];
        assert_eq!(encoded, expected);
        assert_eq!((report.empty, report.first_empty, report.long), (2, Some(2), 1));
        assert_eq!(
            report.to_string(),
            "3 texts, longest 5 tokens; 2 with an empty text or label left out (first: line 2); 1 too \
             long truncated"
        );
        assert_eq!(encode(LongPolicy::Skip).0, [expected[0].clone(), expected[2].clone()]);
        let policy = LongPolicy::Skip;
        let error = encode_labeled(&pairs, &tokenizer, &labels, 2, policy, "`t.tsv`").unwrap_err();
        assert_eq!(
            error.to_string(),
            "no usable text with a label in `t.tsv`: 5 texts, 2 with an empty text or label, 3 longer \
             than 2 tokens"
        );

        let unknown = [SentencePair::new("a", "x"), SentencePair::new("a", "z")];
        let policy = LongPolicy::Skip;
        let error =
            encode_labeled(&unknown, &tokenizer, &labels, 4, policy, "`v.tsv`").unwrap_err();
        assert_eq!(
            error.to_string(),
            "line 2 of `v.tsv` has the label `z`, which does not occur in training; accepted are `x`, `y`"
        );
    }

    #[test]
    fn no_pair_left_is_an_error_with_counts() {
        let (pairs, tokenizers) = corpus();
        let error = encode_corpus(&pairs, &tokenizers, 2, LongPolicy::Skip, "`x.de`").unwrap_err();
        assert_eq!(
            error.to_string(),
            "no usable sentence pair in `x.de`: 5 pairs, 2 with an empty side, 3 longer than 2 tokens"
        );
    }
}
