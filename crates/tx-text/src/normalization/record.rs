//! Normalization as steps of a `tokenizer.json`.
//!
//! The steps are the first element of the file's normalizer, a sequence of their own. Other programs
//! apply them as any step. tx takes them out when it opens the file, and applies [`Normalization`]
//! instead, which also replaces entities, for which the format has no step.

use serde_json::{Value, json};

use super::{NormalForm, Normalization};

/// Regular expression of [invisible characters](super::invisible) that are removed.
const INVISIBLE: &str = concat!(
    r"[\x{0}-\x{8}\x{E}-\x{1F}\x{7F}-\x{84}\x{86}-\x{9F}\x{AD}\x{34F}\x{61C}\x{200B}\x{200E}\x{200F}",
    r"\x{202A}-\x{202E}\x{2060}-\x{206F}\x{FEFF}\x{FFF9}-\x{FFFB}]",
    r"|(?<![\x{590}-\x{1DFF}\x{2190}-\x{10FFFF}])[\x{200C}\x{200D}]",
    r"|(?<![0-9#*\x{A9}\x{AE}\x{203C}\x{2049}\x{2122}\x{2139}\x{590}-\x{1DFF}\x{2190}-\x{FDFF}",
    r"\x{FE10}-\x{10FFFF}])[\x{FE00}-\x{FE0F}]",
);
/// Regular expression of tags.
const TAG: &str = r"<(?=/?[A-Za-z!?])[^<>]{1,199}>";

impl Normalization {
    /// Steps of a `tokenizer.json`.
    pub(crate) fn steps(self) -> Value {
        let replace = |regex: &str, by: &str| json!({ "type": "Replace", "pattern": { "Regex": regex }, "content": by });
        let mut steps = Vec::new();
        match self.form {
            NormalForm::None => {}
            NormalForm::Nfc => steps.push(json!({ "type": "NFC" })),
            NormalForm::Nfkc => steps.push(json!({ "type": "NFKC" })),
        }
        if self.markup {
            steps.push(replace(TAG, " "));
        }
        if self.spaces {
            steps.push(replace(INVISIBLE, ""));
            steps.push(replace(r"\s+", " "));
            steps.push(json!({ "type": "Strip", "strip_left": true, "strip_right": true }));
        }
        json!({ "type": "Sequence", "normalizers": steps })
    }

    /// Reads the normalization that the steps of a `tokenizer.json` start with. Also returns the steps
    /// after it.
    pub(crate) fn split_steps(normalizer: &Value) -> Option<(Self, &[Value])> {
        let (first, rest) = normalizer.get("normalizers")?.as_array()?.split_first()?;
        (normalizer.get("type")? == "Sequence").then_some(())?;
        Self::all().find(|one| one.steps() == *first).map(|found| (found, rest))
    }

    fn all() -> impl Iterator<Item = Self> {
        use NormalForm::{Nfc, Nfkc, None};
        let switches = [(false, false), (true, false), (false, true), (true, true)];
        [None, Nfc, Nfkc]
            .into_iter()
            .flat_map(move |form| switches.map(|(spaces, markup)| Self { form, spaces, markup }))
    }
}
