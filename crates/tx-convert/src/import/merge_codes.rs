//! Codes of subword-nmt (Sennrich et al. 2016): merges of a byte-pair encoding, one a line.
//!
//! A part of a word that another follows has the mark `@@` in a vocabulary, as in `hel@@ lo`. In codes and
//! in the tokenizers of a bundle, the last part of a word has the mark `</w>` instead: `hel lo</w>`.

use std::collections::{BTreeSet, HashSet};

use serde_json::{Map, Value, json};
use tx_text::special::{SPECIAL_TOKENS, UNK};

/// End of a part of a word that another part follows, in vocabularies.
pub(super) const MARK: &str = "@@";
/// End of the last part of a word, in codes.
const END: &str = "</w>";
/// Maximum number of merges of a file.
const MAX_MERGES: usize = 1 << 17;
/// First line of a file: the version, of which 0.1 divides the last character of a word from its end.
const VERSION: &str = "#version: 0.2";

/// Merges in the order in which they were learned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MergeCodes {
    merges: Vec<[String; 2]>,
}

impl MergeCodes {
    /// Parses a file.
    ///
    /// # Errors
    ///
    /// If it is not UTF-8, a line is not a pair, or there are too many.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, String> {
        let text = str::from_utf8(bytes).map_err(|_| "it is not UTF-8")?;
        let mut lines = text.lines();
        if lines.next().map(str::trim_end) != Some(VERSION) {
            return Err(format!("its first line is not `{VERSION}`"));
        }
        let (mut merges, mut seen) = (Vec::new(), HashSet::new());
        for (number, line) in (2..).zip(lines) {
            let parts: Vec<&str> = line.trim_matches(['\r', ' ']).split(' ').collect();
            let &[left, right] = parts.as_slice() else {
                return Err(format!("its line {number} is not a pair of symbols"));
            };
            if merges.len() == MAX_MERGES {
                return Err(format!("it has more than {MAX_MERGES} pairs"));
            }
            // Of equal pairs, the first counts.
            if seen.insert((left, right)) {
                merges.push([left.to_owned(), right.to_owned()]);
            }
        }
        Ok(Self { merges })
    }

    /// All symbols: the parts of pairs, and their results.
    pub(super) fn symbols(&self) -> BTreeSet<String> {
        let pairs = self.merges.iter();
        pairs
            .flat_map(|[left, right]| [left.clone(), right.clone(), format!("{left}{right}")])
            .collect()
    }

    /// Name of a token of a vocabulary in a bundle.
    pub(super) fn name(token: &str) -> String {
        match token.strip_suffix(MARK) {
            Some(part) => part.to_owned(),
            None => format!("{token}{END}"),
        }
    }

    /// Model and decoder of a `tokenizer.json` with these tokens, which contain all symbols.
    pub(super) fn json(&self, tokens: &[String]) -> [Value; 2] {
        let vocab: Map<String, Value> =
            tokens.iter().enumerate().map(|(id, token)| (token.clone(), id.into())).collect();
        let model = json!({
            "type": "BPE", "dropout": null, "unk_token": SPECIAL_TOKENS[UNK as usize],
            "continuing_subword_prefix": null, "end_of_word_suffix": END, "fuse_unk": false,
            "byte_fallback": false, "ignore_merges": false, "vocab": vocab, "merges": self.merges,
        });
        [model, json!({ "type": "BPEDecoder", "suffix": END })]
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use tx_text::Ends;

    use super::*;
    use crate::import::side_tokens::{Division, Listed, SideTokens};

    /// Rows of the embedding for texts with unknown parts and letters, as subword-nmt divides them
    /// (`fixtures/subword-nmt/generate.py`).
    #[test]
    fn texts_are_divided_as_by_subword_nmt() {
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/subword-nmt");
        let read = |file: &str| fs::read_to_string(fixtures.join(file)).unwrap();
        let tokens: Vec<String> = read("vocabulary").lines().map(str::to_owned).collect();
        let codes = MergeCodes::parse(read("codes").as_bytes()).unwrap();
        let rows = tokens.len();
        let listed =
            Listed { tokens: tokens.clone(), special: Vec::new(), division: Division::Words };
        let names = ["<pad>", "<s>", "</s>", "<unk>"];
        let side = SideTokens::new(listed, rows, names, Path::new("vocabulary")).unwrap();
        let symbols = codes.symbols();
        let side = side.with_merges(codes, &symbols).unwrap();
        assert!(side.order.len() > rows && side.order.len() == side.logits.len());
        let hidden = side.logits.iter().skip(SPECIAL_TOKENS.len()).filter(|row| row.is_none());
        assert_eq!(hidden.count(), side.order.len() - (rows + 2));
        let tokenizer = side.tokenizer(Ends { bos: false, eos: false }).unwrap();
        let cases: Value = serde_json::from_str(&read("cases.json")).unwrap();
        let mut compared = 0;
        for case in cases.as_array().unwrap() {
            let text = case["text"].as_str().unwrap();
            let parts = case["parts"].as_array().unwrap().iter().map(|part| part.as_str().unwrap());
            let row = |part| tokens.iter().position(|token| token == part).unwrap() as u32;
            let expected: Vec<u32> = parts.map(row).collect();
            let ids = tokenizer.encode(text).unwrap();
            let found: Vec<u32> = ids.iter().map(|&id| side.order[id as usize].unwrap()).collect();
            assert_eq!(found, expected, "{text}");
            if !expected.contains(&1) {
                assert_eq!(
                    tokenizer.decode(&ids).unwrap(),
                    text.split(' ').collect::<Vec<_>>().join(" ")
                );
                compared += 1;
            }
        }
        assert!(compared > 10, "{compared}");
    }

    #[test]
    fn codes_are_pairs_in_order() {
        let codes = MergeCodes::parse(b"#version: 0.2\nl o\nlo w</w>\nl o\n").unwrap();
        let symbols: Vec<String> = codes.symbols().into_iter().collect();
        assert_eq!(symbols, ["l", "lo", "low</w>", "o", "w</w>"]);
        assert_eq!(["lo@@", "low"].map(MergeCodes::name), ["lo", "low</w>"]);
        for (text, problem) in [
            (&b"l o\n"[..], "its first line"),
            (b"#version: 0.2\nl o w\n", "its line 2"),
            (b"#version: 0.2\nl o\n\n", "its line 3"),
            (b"#version: 0.2\n\xff o\n", "UTF-8"),
        ] {
            assert!(MergeCodes::parse(text).unwrap_err().contains(problem), "{problem}");
        }
        let pairs = |count| (0..count).map(|number| format!("a {number}\n")).collect::<String>();
        let parse = |count| MergeCodes::parse(format!("{VERSION}\n{}", pairs(count)).as_bytes());
        assert!(parse(MAX_MERGES).is_ok());
        assert!(parse(MAX_MERGES + 1).unwrap_err().contains("more than 131072 pairs"));
    }
}
