//! Kinds of noise.

use rand::{RngExt, seq::IndexedRandom};
use rand_chacha::ChaCha8Rng;
use tx_text::{SentencePair, spacing::needs_space};

use super::{
    invented,
    lexicon::Lexicon,
    linked::{Place, inserted, replaced, surrounded, translated, word_of},
    typos::with_typos,
};
use crate::encoded_pair::Link;

/// Marks at the end of a sentence.
const FINAL: [char; 7] = ['.', '!', '?', '…', '。', '！', '？'];

/// Symbols that a message contains, the same on both sides.
const SYMBOLS: &[&str] = &[
    "😀", "😂", "😊", "😍", "😢", "😡", "🙏", "👍", "❤️", "🎉", "🔥", "✅", "⭐", "→", "•", "™",
    "©", "€", "#", "*",
];

/// Kind of noise. Sources have it with the targets that a reader expects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Both sides in capitals.
    UpperCase,
    /// Both sides with a capital at the start of each word.
    TitleCase,
    /// The source without capitals; the target is unchanged.
    LowerCase,
    /// Both sides without their final mark, or with `!` in place of `.`; or the source without any
    /// punctuation and the target without its final mark.
    Punctuation,
    /// Source words with a letter that is missing, doubled, swapped with the next one or replaced by a
    /// neighbor on the keyboard; the target is unchanged.
    Typos,
    /// An emoji or another symbol on both sides.
    Symbols,
    /// A placeholder such as `{name}` or `%s` on both sides.
    Placeholders,
    /// Tags such as `<b>…</b>` around a word and its translation.
    Tags,
    /// The pair after the one before it, as one line.
    Concatenation,
    /// An invented name in place of a name that both sides have, or of a word and its translation.
    Names,
    /// A random number in place of a number that both sides have, or of a word and its translation.
    Numbers,
    /// The translation of a word in its place, as [terminology](tx_text::terminology). In half of the copies, it is a word of
    /// the pair before, also in the target.
    Terms,
    /// A line that is its own translation: a name, number, date, address or code.
    Copies,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 13] = [
        Self::UpperCase,
        Self::TitleCase,
        Self::LowerCase,
        Self::Punctuation,
        Self::Typos,
        Self::Symbols,
        Self::Placeholders,
        Self::Tags,
        Self::Concatenation,
        Self::Names,
        Self::Numbers,
        Self::Terms,
        Self::Copies,
    ];

    /// Returns its key in `[data.noise]`.
    pub fn key(self) -> &'static str {
        match self {
            Self::UpperCase => "upper_case",
            Self::TitleCase => "title_case",
            Self::LowerCase => "lower_case",
            Self::Punctuation => "punctuation",
            Self::Typos => "typos",
            Self::Symbols => "symbols",
            Self::Placeholders => "placeholders",
            Self::Tags => "tags",
            Self::Concatenation => "concatenation",
            Self::Names => "names",
            Self::Numbers => "numbers",
            Self::Terms => "terms",
            Self::Copies => "copies",
        }
    }

    /// Returns its share in a robust model.
    pub fn robust(self) -> f64 {
        match self {
            Self::Typos | Self::Concatenation => 0.05,
            Self::Punctuation | Self::Names | Self::Numbers => 0.03,
            Self::LowerCase => 0.02,
            Self::TitleCase | Self::Copies => 0.01,
            // Inference reads capitals in lower case.
            Self::UpperCase => 0.0,
            // Glossaries are constraints on the search without training.
            Self::Terms => 0.0,
            // Translation of text with markup keeps them without training.
            Self::Symbols | Self::Placeholders | Self::Tags => 0.0,
        }
    }

    /// Returns `true` if it uses translations of words.
    pub(super) fn needs_links(self) -> bool {
        match self {
            Self::Symbols
            | Self::Placeholders
            | Self::Tags
            | Self::Names
            | Self::Numbers
            | Self::Terms => true,
            Self::UpperCase
            | Self::TitleCase
            | Self::LowerCase
            | Self::Punctuation
            | Self::Typos
            | Self::Concatenation
            | Self::Copies => false,
        }
    }

    /// Returns the noisy copy of a pair; `None` if the pair has nothing that the noise can change.
    pub(super) fn apply(
        self,
        pair: &SentencePair,
        previous: Option<&SentencePair>,
        links: Option<&[Link]>,
        lexicon: &Lexicon,
        random: &mut ChaCha8Rng,
    ) -> Option<SentencePair> {
        let changed = match self {
            Self::UpperCase => {
                SentencePair::new(pair.source.to_uppercase(), pair.target.to_uppercase())
            }
            Self::TitleCase => SentencePair::new(title(&pair.source), title(&pair.target)),
            Self::LowerCase => SentencePair::new(pair.source.to_lowercase(), pair.target.clone()),
            Self::Punctuation => punctuation(pair, random)?,
            Self::Typos => {
                SentencePair::new(with_typos(&pair.source, random)?, pair.target.clone())
            }
            Self::Symbols => {
                let symbol = SYMBOLS.choose(random)?;
                inserted(pair, symbol, Place::find(pair, links, lexicon, random))
            }
            Self::Placeholders => {
                let placeholder = invented::placeholder(random);
                inserted(pair, &placeholder, Place::find(pair, links, lexicon, random))
            }
            Self::Tags => {
                let name = invented::tag(random);
                let place = Place::find(pair, links, lexicon, random)?;
                surrounded(pair, &format!("<{name}>"), &format!("</{name}>"), &place)
            }
            Self::Concatenation => concatenated(previous?, pair),
            Self::Names => {
                let place = Place::same(pair, is_name, random);
                let place = place.or_else(|| Place::find(pair, links, lexicon, random))?;
                replaced(pair, &invented::name(random), &place)
            }
            Self::Numbers => {
                let place = Place::same(pair, is_number, random);
                let place = place.or_else(|| Place::find(pair, links, lexicon, random))?;
                replaced(pair, &invented::number(random), &place)
            }
            Self::Terms => {
                let place = Place::find(pair, links, lexicon, random)?;
                let other = previous.filter(|_| random.random());
                let other = other.and_then(|pair| word_of(&pair.target, random));
                let word = other.unwrap_or(&pair.target[place.target.clone()]);
                translated(pair, word, &place)
            }
            Self::Copies => {
                let line = invented::line(random);
                SentencePair::new(line.clone(), line)
            }
        };
        (changed != *pair).then_some(changed)
    }
}

/// Whether a word that both sides have is a name.
fn is_name(word: &str) -> bool {
    let mut letters = word.chars();
    letters.next().is_some_and(char::is_uppercase)
        && letters.as_str().chars().count() > 1
        && letters.all(char::is_lowercase)
}

/// Whether a word is a number in digits.
fn is_number(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_digit()) && !word.contains(char::is_alphabetic)
}

/// Sets the first letter of each word to upper case.
fn title(text: &str) -> String {
    let mut titled = String::with_capacity(text.len());
    let mut is_start = true;
    for c in text.chars() {
        match is_start {
            true => titled.extend(c.to_uppercase()),
            false => titled.push(c),
        }
        is_start = c.is_whitespace();
    }
    titled
}

/// Removes the final marks of a sentence.
fn without_final(text: &str) -> &str {
    text.trim_end_matches(|c: char| FINAL.contains(&c) || c.is_whitespace())
}

fn punctuation(pair: &SentencePair, random: &mut ChaCha8Rng) -> Option<SentencePair> {
    let [source, target] = [&pair.source, &pair.target].map(|text| without_final(text));
    let is_final = |text: &str, rest: &str| text.trim_end().len() > rest.len() && !rest.is_empty();
    if !is_final(&pair.source, source) || !is_final(&pair.target, target) {
        return None;
    }
    let ends_in_stop = [&pair.source, &pair.target].iter().all(|text| text.ends_with('.'));
    match random.random_range(0..4) {
        0 if ends_in_stop => Some(SentencePair::new(format!("{source}!"), format!("{target}!"))),
        1 => {
            let is_mark =
                |c: char| FINAL.contains(&c) || matches!(c, ',' | ';' | ':' | '"' | '，' | '、');
            let bare: String = source.replace(is_mark, " ");
            let words: Vec<&str> = bare.split_whitespace().collect();
            Some(SentencePair::new(words.join(" "), target))
        }
        _ => Some(SentencePair::new(source, target)),
    }
}

/// Two pairs as one.
fn concatenated(first: &SentencePair, second: &SentencePair) -> SentencePair {
    let join = |first: &str, second: &str| match needs_space(first, second) {
        true => format!("{first} {second}"),
        false => format!("{first}{second}"),
    };
    SentencePair::new(join(&first.source, &second.source), join(&first.target, &second.target))
}
