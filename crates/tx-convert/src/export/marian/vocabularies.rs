//! Vocabularies of Marian for the tokenizers of a bundle.

use std::collections::{HashMap, HashSet};

use tx_infer::Bundle;
use tx_model::Tying;
use tx_text::{
    Tokenizer, sentencepiece_pieces,
    special::{BOS, EOS, PAD, UNK},
};

use super::NewFolder;
use crate::{
    error::ConvertError,
    marian::vocabulary::{self, Vocabulary},
    rows::ABSENT_BIAS,
};

/// Vocabularies of source and target.
pub(super) struct Vocabularies {
    /// For each id of Marian, the id of the bundle.
    pub(super) orders: [Vec<u32>; 2],
    /// Names of the files.
    pub(super) names: [String; 2],
    contents: [Content; 2],
}

/// Content of the file of a vocabulary.
#[derive(PartialEq, Eq)]
enum Content {
    /// A SentencePiece model, whose pieces are the vocabulary.
    Pieces(Vec<u8>),
    /// Tokens in the order of their ids.
    Tokens(Vec<String>),
}

impl Vocabularies {
    /// Orders the ids of both sides. Marian has `</s>` and `<unk>`, but no padding and no start
    /// token: those are left out if the model never generates them.
    pub(super) fn new(bundle: &Bundle, problems: &mut Vec<String>) -> Self {
        let absent: HashSet<u32> =
            [PAD, BOS].into_iter().filter(|&id| is_absent(bundle, id)).collect();
        let sizes = bundle.config.padded(bundle.vocabulary());
        let tokenizers = &bundle.tokenizers;
        let side = |tokenizer, size, problems: &mut _| {
            let tokens = tokens(tokenizer, size);
            by_pieces(tokenizer, &tokens, &absent)
                .unwrap_or_else(|| by_ids(&tokens, &absent, problems))
        };
        let (source, source_content) = side(&tokenizers.source, sizes.source, problems);
        let (target, target_content) = side(&tokenizers.target, sizes.target, problems);
        if bundle.config.tying == Tying::All && source_content != target_content {
            problems.push("`tying` = \"all\" with two vocabularies: Marian needs one".to_owned());
        }
        let is_shared = source_content == target_content;
        let name = |content: &Content, side: &str| match (content, is_shared) {
            (Content::Pieces(_), true) => "vocab.spm".to_owned(),
            (Content::Pieces(_), false) => format!("{side}.spm"),
            (Content::Tokens(_), true) => "vocab.yml".to_owned(),
            (Content::Tokens(_), false) => format!("{side}.vocab.yml"),
        };
        Self {
            orders: [source, target],
            names: [name(&source_content, "source"), name(&target_content, "target")],
            contents: [source_content, target_content],
        }
    }

    /// Writes the files.
    ///
    /// # Errors
    ///
    /// If a file cannot be written.
    pub(super) fn write(&self, bundle: &Bundle, folder: &NewFolder) -> Result<(), ConvertError> {
        let count = if self.names[0] == self.names[1] { 1 } else { 2 };
        for (name, content) in self.names.iter().zip(&self.contents).take(count) {
            match content {
                Content::Pieces(model) => folder.write(name, model)?,
                Content::Tokens(tokens) => {
                    let text = Vocabulary::to_yaml(tokens.iter().map(String::as_str));
                    folder.write(name, text.as_bytes())?;
                }
            }
        }
        let sides = [&bundle.tokenizers.source, &bundle.tokenizers.target];
        let is_listed = self.contents.iter().any(|content| matches!(content, Content::Tokens(_)));
        match sides.map(Tokenizer::sentencepiece_model) {
            _ if !is_listed => Ok(()),
            [Some(source), Some(target)] => {
                for (name, model) in [("source.spm", source), ("target.spm", target)] {
                    if !self.names.iter().any(|written| written == name) {
                        folder.write(name, model)?;
                    }
                }
                Ok(())
            }
            _ => folder.write_tokenizers(bundle),
        }
    }
}

/// Returns `true` if a token has the row of zeros and the bias of a token that the imported model
/// did not have: its probability is 0.
fn is_absent(bundle: &Bundle, id: u32) -> bool {
    let bias = bundle.weight("projection.bias");
    bias.is_some_and(|(_, bias)| bias.get(id as usize).is_some_and(|&bias| bias <= ABSENT_BIAS))
}

/// Tokens of all ids, with the names that Marian knows. Ids without a token get names of their own.
fn tokens(tokenizer: &Tokenizer, size: usize) -> Vec<String> {
    let token = |id: u32| match id {
        EOS => vocabulary::END.to_owned(),
        UNK => vocabulary::UNKNOWN.to_owned(),
        _ => tokenizer.token(id).unwrap_or_else(|| format!("<row_{id}>")),
    };
    (0..size as u32).map(token).collect()
}

/// Ids in the order of the pieces of a SentencePiece model; `None` if the tokenizer has none, or its
/// tokens are not the pieces.
fn by_pieces(
    tokenizer: &Tokenizer,
    tokens: &[String],
    absent: &HashSet<u32>,
) -> Option<(Vec<u32>, Content)> {
    let model = tokenizer.sentencepiece_model()?;
    let pieces = sentencepiece_pieces(model).ok()?;
    let ids: HashMap<&str, u32> = tokens
        .iter()
        .zip(0..)
        .filter(|(_, id)| !absent.contains(id))
        .map(|(token, id)| (token.as_str(), id))
        .collect();
    let order: Option<Vec<u32>> =
        pieces.iter().map(|piece| ids.get(piece.as_str()).copied()).collect();
    let order = order.filter(|order| order.len() == ids.len())?;
    Some((order, Content::Pieces(model.to_vec())))
}

/// Ids in their order, after `</s>` and `<unk>`.
fn by_ids(
    tokens: &[String],
    absent: &HashSet<u32>,
    problems: &mut Vec<String>,
) -> (Vec<u32>, Content) {
    let mut order = vec![EOS, UNK];
    order.extend(
        (0..tokens.len() as u32).filter(|id| ![EOS, UNK].contains(id) && !absent.contains(id)),
    );
    let listed: Vec<String> =
        order.iter().filter_map(|&id| tokens.get(id as usize).cloned()).collect();
    let mut known = HashSet::new();
    for token in &listed {
        if token.is_empty() || token.contains([' ', '\n', '\r', '\t']) {
            problems.push(format!("the token {token:?} has spaces, at which Marian divides text"));
        } else if !known.insert(token.as_str()) {
            problems.push(format!("the token `{token}` has another meaning in Marian"));
        }
    }
    problems.truncate(100);
    (order, Content::Tokens(listed))
}
