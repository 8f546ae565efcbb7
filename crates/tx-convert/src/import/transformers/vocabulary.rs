//! Vocabularies: tokens with the ids of a model, and their order in a bundle.

use std::collections::{HashMap, HashSet};

use serde_json::Value;
use tx_text::special::SPECIAL_TOKENS;

use crate::rows::RowOrder;

/// Ids of the special tokens in a model; `None` for a token that it does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SpecialIds {
    pub(super) pad: u32,
    pub(super) bos: Option<u32>,
    pub(super) eos: u32,
    pub(super) unk: u32,
}

impl SpecialIds {
    /// Ids in the order of [`SPECIAL_TOKENS`].
    fn in_order(self) -> [Option<u32>; 4] {
        [Some(self.pad), self.bos, Some(self.eos), Some(self.unk)]
    }
}

/// Tokens of a bundle, with the ids that they have in the model.
#[derive(Debug, Clone)]
pub(super) struct Vocabulary {
    /// Token of each id of the bundle.
    pub(super) tokens: Vec<String>,
    /// Id in the model of each id of the bundle.
    pub(super) order: RowOrder,
    /// Ids of the model that have no token.
    pub(super) holes: usize,
}

impl Vocabulary {
    /// Orders the tokens of a model with `size` ids: the special tokens, then the others in the
    /// order of their ids. An id without a token gets a name.
    ///
    /// # Errors
    ///
    /// If an id is too large or has two tokens, or a token has the name of a special token of tx.
    pub(super) fn new(
        tokens: Vec<(String, u32)>,
        special: SpecialIds,
        size: usize,
    ) -> Result<Self, String> {
        // The number of tokens limits the memory, because `size` is a number in a file.
        if size > tokens.len().saturating_mul(2) + 1_000 {
            return Err(format!("it has {} tokens for {size} ids", tokens.len()));
        }
        let mut by_id: Vec<Option<String>> = vec![None; size];
        for (token, id) in tokens {
            let Some(slot) = by_id.get_mut(id as usize) else {
                return Err(format!("`{token}` has id {id}, but the model has {size} ids"));
            };
            if let Some(other) = slot {
                return Err(format!("`{other}` and `{token}` have the same id {id}"));
            }
            *slot = Some(token);
        }
        let special = special.in_order();
        for (id, name) in special.iter().zip(SPECIAL_TOKENS) {
            if id.is_some_and(|id| id as usize >= size) {
                return Err(format!("the id of `{name}` is not below {size}"));
            }
        }
        let distinct: HashSet<u32> = special.iter().flatten().copied().collect();
        if distinct.len() != special.iter().flatten().count() {
            return Err(format!("its special tokens share ids: {special:?}"));
        }
        let mut order: Vec<Option<u32>> = special.to_vec();
        let mut names: Vec<String> = SPECIAL_TOKENS.iter().map(|&token| token.to_owned()).collect();
        let mut holes = 0;
        for (token, id) in by_id.into_iter().zip(0..).filter(|(_, id)| !distinct.contains(id)) {
            holes += usize::from(token.is_none());
            let token = token.unwrap_or_else(|| format!("<unused {id}>"));
            if SPECIAL_TOKENS.contains(&token.as_str()) {
                return Err(format!("its token `{token}` has another meaning than in tx"));
            }
            names.push(token);
            order.push(Some(id));
        }
        Ok(Self { tokens: names, order: order.into(), holes })
    }

    /// Id in the bundle of each id of the model that has a token.
    pub(super) fn new_ids(&self) -> HashMap<u32, u32> {
        let ids = self.order.iter().zip(0..).take(self.tokens.len());
        ids.filter_map(|(old, new)| Some(((*old)?, new))).collect()
    }
}

/// Tokens and ids of a `vocab.json`.
///
/// # Errors
///
/// If it is not an object of ids.
pub(super) fn tokens_of(json: &Value) -> Result<Vec<(String, u32)>, String> {
    let object = json.as_object().ok_or("it is not an object of ids by token")?;
    let id = |token: &String, id: &Value| {
        let id = id.as_u64().and_then(|id| u32::try_from(id).ok());
        Ok((token.clone(), id.ok_or_else(|| format!("`{token}` has no id"))?))
    };
    object.iter().map(|(token, value)| id(token, value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPECIAL: SpecialIds = SpecialIds { pad: 4, bos: None, eos: 0, unk: 1 };

    fn named(tokens: &[(&str, u32)]) -> Vec<(String, u32)> {
        tokens.iter().map(|&(token, id)| (token.to_owned(), id)).collect()
    }

    #[test]
    fn special_tokens_come_first() {
        let tokens = named(&[("</s>", 0), ("<unk>", 1), ("b", 2), ("<pad>", 4), ("a", 5)]);
        let vocabulary = Vocabulary::new(tokens, SPECIAL, 6).unwrap();
        let expected = ["<pad>", "<bos>", "<eos>", "<unk>", "b", "<unused 3>", "a"];
        assert_eq!(vocabulary.tokens, expected);
        let order = [Some(4), None, Some(0), Some(1), Some(2), Some(3), Some(5)];
        assert_eq!(*vocabulary.order, order);
        assert_eq!(vocabulary.holes, 1);
        assert_eq!(vocabulary.new_ids()[&5], 6);
    }

    #[test]
    fn damaged_vocabularies_are_refused() {
        let problem = |tokens: &[(&str, u32)], size| {
            Vocabulary::new(named(tokens), SPECIAL, size).unwrap_err()
        };
        assert!(problem(&[("a", 9)], 6).contains("`a` has id 9"));
        assert!(problem(&[("a", 2), ("b", 2)], 6).contains("same id 2"));
        assert!(problem(&[("<bos>", 2)], 6).contains("`<bos>`"));
        assert!(problem(&[("a", 2)], 3).contains("`<pad>`"));
        assert!(problem(&[("a", 2)], 1 << 30).contains("1 tokens for"));
        let same = SpecialIds { unk: 0, ..SPECIAL };
        assert!(Vocabulary::new(Vec::new(), same, 6).is_err());
    }
}
