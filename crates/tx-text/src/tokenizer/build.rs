//! Learned tokenizers: normalizer, pre-tokenizer, model and decoder.

use std::borrow::Cow;

use tokenizers::{
    AddedToken, NormalizerWrapper, PreTokenizerWrapper, SplitDelimiterBehavior, Tokenizer as Inner,
    Trainer,
    decoders::{
        DecoderWrapper, byte_fallback::ByteFallback, fuse::Fuse,
        sequence::Sequence as DecoderSequence, wordpiece::WordPiece as WordPieceDecoder,
    },
    models::{
        ModelWrapper, TrainerWrapper,
        bpe::{BPE, BpeTrainerBuilder},
        unigram::Unigram,
        wordlevel::{WordLevel, WordLevelTrainer},
        wordpiece::WordPiece,
    },
    normalizers::{
        Lowercase, NFC, Sequence as NormalizerSequence, Strip,
        replace::{Replace, ReplacePattern},
    },
    pre_tokenizers::{
        byte_level::ByteLevel,
        digits::Digits as DigitSplit,
        metaspace::{Metaspace, PrependScheme},
        punctuation::Punctuation,
        sequence::Sequence as PreTokenizerSequence,
        split::{Split, SplitPattern},
        whitespace::WhitespaceSplit,
    },
};

use super::{
    config::{Digits, TokenizerConfig, TokenizerKind, WordSplit},
    special_text::{apart, byte_token, special_word},
    unigram::UnigramLearner,
    wordpiece::WordPieceLearner,
    words::InParts,
};
use crate::{
    error::TextError,
    special::{SPECIAL_TOKENS, SpecialTokens, UNK},
};

/// Mark on the side of a punctuation token without a space, as in OpenNMT's tokenizer.
const JOINER: &str = "\u{ffed}";
/// Prefix of a token that continues a word, as in BERT.
const CONTINUING: &str = "##";
/// Training texts. The type is boxed so that the trainers of the library are compiled once.
pub(super) type Texts<'a> = Box<dyn Iterator<Item = Cow<'a, str>> + Send + 'a>;

/// Builds normalizer, pre-tokenizer, model and decoder, and learns the vocabulary from `texts`, which
/// are lowercased if `lowercase` is set. The vocabulary starts with the special tokens `special`.
pub(super) fn learned(
    config: &TokenizerConfig,
    special: SpecialTokens,
    lowercase: bool,
    texts: Texts<'_>,
) -> Result<Inner, TextError> {
    let failed = TextError::Tokenizer;
    let mut inner = Inner::new(BPE::default());
    let parts = Parts::new(config, special, lowercase).map_err(failed)?;
    inner.with_normalizer(Some(parts.normalizer)).map_err(failed)?;
    inner.with_pre_tokenizer(Some(parts.pre_tokenizer));
    inner.with_decoder(parts.decoder);
    let unknown = SPECIAL_TOKENS[UNK as usize].to_owned();
    let special_tokens: Vec<AddedToken> =
        special.tokens().iter().map(|&token| AddedToken::from(token, true)).collect();
    let bytes = if config.byte_fallback { 256 } else { 0 };
    match config.kind {
        TokenizerKind::Word | TokenizerKind::Character => {
            inner.with_model(WordLevel::builder().unk_token(unknown).build().map_err(failed)?);
            let trainer = WordLevelTrainer::builder()
                .vocab_size(config.vocab_size)
                .min_frequency(config.min_frequency as u64)
                .show_progress(false)
                .special_tokens(special_tokens)
                .build();
            let trainer: TrainerWrapper = trainer.map_err(|error| failed(error.into()))?.into();
            train(&mut inner, trainer, texts)?;
        }
        TokenizerKind::Byte => {
            let vocab = all_bytes(special).collect();
            let model = WordLevel::builder().unk_token(unknown).vocab(vocab).build();
            inner.with_model(model.map_err(failed)?);
            inner.add_special_tokens(special_tokens).map_err(failed)?;
        }
        TokenizerKind::Bpe => {
            inner.with_model(unknown_fused(BPE::builder()).build().map_err(failed)?);
            let trainer = BpeTrainerBuilder::new()
                .vocab_size(config.vocab_size - bytes)
                .min_frequency(config.min_frequency as u64)
                .show_progress(false)
                .special_tokens(special_tokens)
                .build();
            train(&mut inner, InParts(TrainerWrapper::from(trainer)), texts)?;
            if config.byte_fallback {
                let model = with_bytes(inner.get_model()).map_err(failed)?;
                inner.with_model(model);
            }
        }
        TokenizerKind::Unigram => {
            let room = config.vocab_size - special.count() - bytes;
            let (least, fallback) = (config.min_frequency as u64, config.byte_fallback);
            inner.with_model(Unigram::default());
            let mut learner = UnigramLearner::new(room, least, fallback, special);
            inner.train(&mut learner, texts).map_err(failed)?;
        }
        TokenizerKind::Wordpiece => {
            inner.with_model(WordPiece::default());
            let least = config.min_frequency as u64;
            let mut learner = WordPieceLearner::new(config.vocab_size, least, CONTINUING, special);
            inner.train(&mut learner, texts).map_err(failed)?;
        }
    }
    Ok(inner)
}

fn train<T: Trainer<Model = ModelWrapper> + Sync>(
    inner: &mut Inner,
    mut trainer: T,
    texts: Texts<'_>,
) -> Result<(), TextError> {
    inner.train(&mut trainer, texts).map_err(TextError::Tokenizer)?;
    Ok(())
}

fn unknown_fused(
    builder: tokenizers::models::bpe::BpeBuilder,
) -> tokenizers::models::bpe::BpeBuilder {
    builder.unk_token(SPECIAL_TOKENS[UNK as usize].to_owned()).fuse_unk(true)
}

/// Adds the 256 bytes of the byte fallback after the tokens of a byte-pair encoding.
fn with_bytes(model: &ModelWrapper) -> tokenizers::Result<BPE> {
    let mut json = serde_json::to_value(model)?;
    if let Some(vocab) = json.get_mut("vocab").and_then(|vocab| vocab.as_object_mut()) {
        let first = vocab.len();
        vocab.extend((0..256).map(|byte| (byte_token(byte), (first + byte).into())));
    }
    json["byte_fallback"] = true.into();
    // The library deserializes a model from text only.
    Ok(serde_json::from_slice(json.to_string().as_bytes())?)
}

/// Special tokens and all bytes, each as the character that [`ByteLevel`] writes for it: itself if it is
/// visible, else the next one from U+0100 (`bytes_to_unicode` of GPT-2).
fn all_bytes(special: SpecialTokens) -> impl Iterator<Item = (String, u32)> {
    let is_visible = |byte: u32| matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
    let mut next = 0x100;
    let characters = (0..0x100).map(move |byte| {
        let code = if is_visible(byte) { byte } else { next };
        next += u32::from(!is_visible(byte));
        char::from_u32(code).unwrap_or_default().to_string()
    });
    special.tokens().iter().map(|&token| token.to_owned()).chain(characters).zip(0..)
}

/// Pre-tokenizer and decoder of bytes.
pub(super) fn byte_level() -> ByteLevel {
    ByteLevel::new(false, false, false)
}

/// Steps before and after the model.
struct Parts {
    normalizer: NormalizerWrapper,
    pre_tokenizer: PreTokenizerWrapper,
    /// `None` joins tokens with spaces.
    decoder: Option<DecoderWrapper>,
}

impl Parts {
    fn new(
        config: &TokenizerConfig,
        special: SpecialTokens,
        lowercase: bool,
    ) -> tokenizers::Result<Self> {
        let mut normalizers: Vec<NormalizerWrapper> =
            vec![NFC.into(), replace_regex(r"\s+", " ")?.into(), Strip::new(true, true).into()];
        if lowercase {
            normalizers.push(Lowercase.into());
        }
        let (pre_tokenizer, decoder): (PreTokenizerWrapper, Option<DecoderWrapper>) =
            match (config.kind, config.split) {
                (TokenizerKind::Character, _) => {
                    (each_character()?.into(), Some(Fuse::new().into()))
                }
                (TokenizerKind::Word, WordSplit::Whitespace) => {
                    // A word of the text must not encode to a special token.
                    normalizers.push(replace_regex(special_word(special), "< ")?.into());
                    (WhitespaceSplit.into(), None)
                }
                (TokenizerKind::Word, WordSplit::Punctuation) => {
                    normalizers.extend(mark_punctuation()?);
                    (WhitespaceSplit.into(), Some(join_punctuation()?))
                }
                (TokenizerKind::Byte, _) => {
                    let bytes: PreTokenizerWrapper = byte_level().into();
                    let each = each_character()?.into();
                    (PreTokenizerSequence::new(vec![bytes, each]).into(), Some(byte_level().into()))
                }
                (TokenizerKind::Wordpiece, WordSplit::Whitespace) => {
                    let words: PreTokenizerWrapper = WhitespaceSplit.into();
                    let pre_tokenizer =
                        PreTokenizerSequence::new(vec![words, apart(special)?.into()]);
                    (pre_tokenizer.into(), Some(continued().into()))
                }
                (TokenizerKind::Wordpiece, WordSplit::Punctuation) => {
                    normalizers.extend(mark_punctuation()?);
                    let decoder = DecoderSequence::new(vec![
                        continued().into(),
                        Fuse::new().into(),
                        replace(&format!(" {JOINER}"), "")?.into(),
                        replace(&format!("{JOINER} "), "")?.into(),
                        replace(JOINER, "")?.into(),
                    ]);
                    (WhitespaceSplit.into(), Some(decoder.into()))
                }
                (TokenizerKind::Bpe | TokenizerKind::Unigram, split) => {
                    let spaces = Metaspace::new('▁', PrependScheme::Always, true);
                    let mut steps: Vec<PreTokenizerWrapper> = vec![spaces.clone().into()];
                    if split == WordSplit::Punctuation {
                        steps.push(Punctuation::new(SplitDelimiterBehavior::Isolated).into());
                    } else if config.kind == TokenizerKind::Unigram
                        || config.byte_fallback
                        || special == SpecialTokens::WithMask
                    {
                        steps.push(apart(special)?.into());
                    }
                    match config.digits {
                        Digits::Joined => {}
                        Digits::Split => steps.push(DigitSplit::new(true).into()),
                    }
                    let pre_tokenizer = match steps.len() {
                        1 => spaces.clone().into(),
                        _ => PreTokenizerSequence::new(steps).into(),
                    };
                    let decoder: DecoderWrapper = match config.byte_fallback {
                        true => {
                            let bytes = ByteFallback::new().into();
                            DecoderSequence::new(vec![bytes, spaces.into()]).into()
                        }
                        false => spaces.into(),
                    };
                    (pre_tokenizer, Some(decoder))
                }
            };
        Ok(Self { normalizer: NormalizerSequence::new(normalizers).into(), pre_tokenizer, decoder })
    }
}

/// Separates punctuation with spaces, and marks sides without a space: `l'amico.` becomes
/// `l ￭'￭ amico ￭.`. Words have no marks, so that each word has one id.
fn mark_punctuation() -> tokenizers::Result<Vec<NormalizerWrapper>> {
    Ok(vec![
        // A mark in the text itself is removed.
        replace(JOINER, "")?.into(),
        replace_regex(r"(?<=[^\w\s])(?=\w)", &format!("{JOINER} "))?.into(),
        replace_regex(&format!(r"(?<=\S)(?=[^\w\s{JOINER}])"), &format!(" {JOINER}"))?.into(),
    ])
}

/// Decoder that reverts [`mark_punctuation`].
fn join_punctuation() -> tokenizers::Result<DecoderWrapper> {
    let spaces = WordPieceDecoder::new(JOINER.into(), false);
    Ok(DecoderSequence::new(vec![
        spaces.into(),
        Fuse::new().into(),
        replace(&format!("{JOINER} "), "")?.into(),
        replace(JOINER, "")?.into(),
    ])
    .into())
}

fn replace(text: &str, by: &str) -> tokenizers::Result<Replace> {
    Replace::new(ReplacePattern::String(text.into()), by)
}

fn replace_regex(regex: &str, by: &str) -> tokenizers::Result<Replace> {
    Replace::new(ReplacePattern::Regex(regex.into()), by)
}

/// Splits text into characters.
fn each_character() -> tokenizers::Result<Split> {
    let any = SplitPattern::Regex(r"[\s\S]".into());
    Split::new(any, SplitDelimiterBehavior::Isolated, false)
}

/// Decoder that joins tokens that continue a word.
fn continued() -> WordPieceDecoder {
    WordPieceDecoder::new(CONTINUING.into(), false)
}
