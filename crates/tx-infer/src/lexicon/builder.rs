//! Lexicon from sentences and their translations.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
};

use tx_text::{Tokenizer, spacing::is_unspaced};

use super::{
    Lexicon, MAX_WORDS, SourceWords, TargetWords,
    names::{Neighbor, PRIOR, QUOTATION, Shares, can_be_name},
    stand_ins::{self, Frequencies, StandIns, Starts},
    words::{is_long_number, is_number, is_quoted, words},
};
use crate::{
    error::InferError,
    glossary::{after, forms_of},
    letter_case::lower,
};

/// Occurrences of a rare word, at most.
const RARE: u32 = 2;

/// Maximum number of cases in which a word is counted.
const MAX_CASES: usize = 8;

/// Digits of the longest number that a word may stand for.
const MAX_DIGITS: usize = 2;

/// Fewest sentences with a number and the word that stands for it.
const FEWEST: u32 = 3;

/// Smallest share of the translations with a name that the lexicon records as copied.
const MIN_COPIED: f64 = 0.6;

/// Smallest share of the translations with a number that the lexicon records as copied.
const MIN_COPIED_NUMBER: f64 = 0.4;

/// Smallest share of the translations with a name that stands for others.
const MIN_STAND_IN: f64 = 0.9;

/// Learns a [`Lexicon`] from sentences and their translations.
///
/// ```
/// use tx_infer::LexiconBuilder;
///
/// let mut builder = LexiconBuilder::default();
/// builder.add("Ein Hund in Rom", "A dog in Rome");
/// let config = Default::default();
/// let tokenizer = tx_infer::tx_text::Tokenizer::train(
///     &config,
///     tx_infer::tx_text::special::SpecialTokens::Standard,
///     &["A dog in Rome"],
/// )?;
/// let lexicon = builder.finish(&tokenizer)?.expect("few words");
/// assert_eq!(lexicon.source().new_words("Eine Katze in Rom", 9), ["Eine", "Katze"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct LexiconBuilder {
    /// Source words in lower case.
    sources: HashMap<String, Occurrences>,
    /// Sentences with a name or number, and those whose translations have it.
    copies: HashMap<String, (u32, u32)>,
    /// Sentences with a target word.
    targets: HashMap<String, u32>,
    /// Translations of the sentences with a number of at most [`MAX_DIGITS`] that do not have it.
    beside_numbers: HashMap<String, Beside>,
    /// Sources of the sentences with a target word that may stand for a number.
    beside_words: HashMap<String, Beside>,
    sentences: Sentences,
    starts: Starts,
    /// Whether there were more than [`MAX_WORDS`].
    is_full: bool,
}

/// Sentences beside a number or word.
#[derive(Debug, Default)]
struct Beside {
    sentences: u32,
    /// Those with a word, in lower case.
    words: HashMap<String, u32>,
}

/// Numbers of sentences with letters.
#[derive(Debug, Default)]
struct Sentences {
    all: u64,
    /// Those that begin with a capital.
    capital: u64,
    /// Those that end with a final mark.
    marked: u64,
}

/// A word, the one before it in lower case, and whether the translation has the word.
type FirstOccurrence = (String, Option<String>, bool);

/// Occurrences of a source word.
#[derive(Debug, Default)]
struct Occurrences {
    count: u32,
    /// The word as it is written within sentences, with the number of times.
    written: Vec<(String, u32)>,
    /// The first occurrences that can be names or are numbers.
    first: Vec<FirstOccurrence>,
}

impl Occurrences {
    fn add_written(&mut self, word: &str) {
        if let Some((_, times)) = self.written.iter_mut().find(|(written, _)| written == word) {
            *times = times.saturating_add(1);
        } else if self.written.len() < MAX_CASES {
            self.written.push((word.to_owned(), 1));
        }
    }

    /// The word as it is written most often, and first of equals.
    fn written(&self) -> Option<&str> {
        let most = self.written.iter().map(|(_, times)| *times).max()?;
        let most = self.written.iter().find(|(_, times)| *times == most);
        most.map(|(written, _)| written.as_str())
    }
}

impl Beside {
    fn add(&mut self, sentence: &HashSet<&str>) {
        self.sentences = self.sentences.saturating_add(1);
        for word in sentence.iter().map(|word| lower(word)).collect::<HashSet<_>>() {
            *self.words.entry(word).or_default() += 1;
        }
    }

    /// Returns the words that may stand for the number: those that four of five sentences have, and a share ten times
    /// as large as usual.
    fn number_words(&self, usual: impl Fn(&str) -> f64) -> impl Iterator<Item = (&String, u32)> {
        let all = f64::from(self.sentences.max(1));
        let found = self.words.iter().map(|(word, count)| (word, *count));
        found.filter(move |(word, count)| {
            let here = f64::from(*count) / all;
            let is_word = word.chars().all(char::is_alphabetic);
            is_word && *count >= FEWEST && here >= 0.8 && here >= 10.0 * usual(word)
        })
    }

    /// Returns the most frequent of them.
    fn number_word(&self, usual: impl Fn(&str) -> f64) -> Option<String> {
        // Of equals, the first in the alphabet.
        let most = self.number_words(usual).max_by_key(|(word, count)| (*count, Reverse(*word)));
        most.map(|(word, _)| word.clone())
    }

    /// Returns the source word that most of these sentences have and few others, with the number of sentences.
    fn source_word(&self, source: &SourceWords) -> Option<(String, u32)> {
        let is_translated = |(word, count): &(&String, &u32)| {
            let share = |of: u32| f64::from(**count) / f64::from(of.max(1));
            let is_word = word.chars().all(char::is_alphabetic);
            is_word && share(self.sentences) >= 0.6 && share(source.times(word)) >= 0.5
        };
        let found = self.words.iter().filter(is_translated);
        let most = found.max_by_key(|(word, count)| (**count, Reverse(*word)));
        most.map(|(word, count)| (word.clone(), *count))
    }
}

impl LexiconBuilder {
    /// Adds a sentence and its translation.
    pub fn add(&mut self, source: &str, target: &str) {
        if self.is_full {
            return;
        }
        self.starts.add(source, target);
        let target: HashSet<&str> = words(target).collect();
        if let Some(first) = source.chars().find(|c| c.is_alphabetic()) {
            let Sentences { all, capital, marked } = &mut self.sentences;
            *all += 1;
            *capital += u64::from(first.is_uppercase());
            *marked += u64::from(!source.trim_end().ends_with(char::is_alphanumeric));
        }
        let mut before = None;
        let mut counted = HashSet::new();
        for word in words(source) {
            let lowered = lower(word);
            let is_copied = target.contains(word);
            let is_name = can_be_name(word);
            let found = self.sources.entry(lowered.clone()).or_default();
            found.count = found.count.saturating_add(1);
            if before.is_some() {
                found.add_written(word);
            }
            if (is_name || is_long_number(word)) && found.count <= RARE {
                let quotation = is_quoted(source, word).then(|| QUOTATION.to_owned());
                found.first.push((word.to_owned(), quotation.or(before), is_copied));
            } else if found.count > RARE {
                found.first = Vec::new();
            }
            if (is_name || is_number(word)) && counted.insert(word) {
                let (sentences, copies) = self.copies.entry(word.to_owned()).or_default();
                *sentences = sentences.saturating_add(1);
                *copies += u32::from(is_copied && *copies < u32::MAX);
                if is_number(word) && word.len() <= MAX_DIGITS && !is_copied {
                    let beside = self.beside_numbers.entry(word.to_owned()).or_default();
                    beside.add(&target);
                    let usual = |word: &str| {
                        let times = self.targets.get(word).copied().unwrap_or_default();
                        f64::from(times) / self.sentences.all.max(1) as f64
                    };
                    for (word, _) in beside.number_words(usual) {
                        self.beside_words.entry(word.clone()).or_default();
                    }
                }
            }
            before = Some(lowered);
        }
        if !self.beside_words.is_empty() {
            let source: HashSet<&str> = words(source).collect();
            for word in target.iter().map(|word| lower(word)).collect::<HashSet<_>>() {
                if let Some(beside) = self.beside_words.get_mut(&word) {
                    beside.add(&source);
                }
            }
        }
        for word in target {
            let sentences = self.targets.entry(word.to_owned()).or_default();
            *sentences = sentences.saturating_add(1);
        }
        let sizes = [self.sources.len(), self.copies.len(), self.targets.len()];
        if sizes.into_iter().any(|size| size > MAX_WORDS) {
            *self = Self { is_full: true, ..Self::default() };
        }
    }

    /// Returns the lexicon for a model with this tokenizer of targets; `None` if there are more than
    /// [`MAX_WORDS`] words on a side.
    ///
    /// # Errors
    ///
    /// If a word cannot be tokenized.
    pub fn finish(self, tokenizer: &Tokenizer) -> Result<Option<Lexicon>, InferError> {
        if self.is_full {
            return Ok(None);
        }
        let Self { sources, copies, targets, beside_numbers, beside_words, sentences, .. } = self;
        let (mut source, rare) = source_words(sources);
        let Sentences { all, capital, marked } = sentences;
        source.capital_starts = capital as f64 / all.max(1) as f64;
        source.final_marks = marked as f64 / all.max(1) as f64;
        (source.names, source.numbers) = copied_shares(&source, rare);
        source.copied = copied_words(&source, &copies);

        let in_lower_case = counts_in_lower_case(&targets);
        let usual = |word: &str| {
            let times = in_lower_case.get(word).copied().unwrap_or(u32::MAX);
            f64::from(times) / all.max(1) as f64
        };
        let number_words = beside_numbers.into_iter();
        let number_words: BTreeMap<String, String> = number_words
            .filter_map(|(number, beside)| Some((number, beside.number_word(usual)?)))
            .collect();
        let translated: BTreeSet<&String> = number_words.values().collect();
        let number_pairs = translated.into_iter().filter_map(|target| {
            let (word, times) = beside_words.get(target)?.source_word(&source)?;
            Some(((word, target.clone()), times))
        });
        let (names, digits) = known_words(&source, copies);
        let digits = digits.into_iter().map(|(digit, times)| ((digit.clone(), digit), times));
        let numbers = number_pairs.chain(digits).collect();
        source.stand_ins = StandIns::new(names, numbers, self.starts);
        source.number_words = number_words;
        source.number_words.retain(|number, _| !source.copied.contains(number));
        Ok(Some(Lexicon::new(source, target_words(&targets, tokenizer)?)))
    }
}

/// Frequent and rare words, and the first occurrences of the rare ones.
fn source_words(words: HashMap<String, Occurrences>) -> (SourceWords, Vec<FirstOccurrence>) {
    let (mut frequent, mut rare, mut first) = (BTreeMap::new(), Vec::new(), Vec::new());
    for (word, occurrences) in words {
        let written = occurrences.written().unwrap_or(&word).to_owned();
        if occurrences.count > RARE {
            frequent.insert(word, (written, occurrences.count));
        } else {
            first.extend(occurrences.first);
            rare.push(written);
        }
    }
    let source = SourceWords {
        counts: frequent.values().map(|(_, count)| *count).collect(),
        frequent: frequent.into_values().map(|(written, _)| written).collect(),
        rare: rare.into_iter().collect(),
        ..SourceWords::default()
    };
    (source, first)
}

/// Shares of copied names and numbers among occurrences of rare words.
fn copied_shares(source: &SourceWords, rare: Vec<FirstOccurrence>) -> (Shares, f64) {
    let (mut names, mut numbers) = (Vec::new(), (0, 0));
    for (word, before, is_copied) in rare {
        if is_number(&word) {
            numbers = (numbers.0 + u32::from(is_copied), numbers.1 + 1);
        } else if !source.is_composed(&lower(&word)) {
            let neighbor = before.map_or(Neighbor::Start, |before| source.neighbor(before));
            names.push((neighbor, is_copied));
        }
    }
    (Shares::of(&names), f64::from(numbers.0) / f64::from(numbers.1.max(1)))
}

/// Names and numbers that most of their translations have. `copies` are the sentences with each, and those whose translations
/// have it.
fn copied_words(source: &SourceWords, copies: &HashMap<String, (u32, u32)>) -> BTreeSet<String> {
    let is_copied = |word: &str, sentences: u32, copies: u32| {
        let (sentences, copies) = (f64::from(sentences), f64::from(copies));
        if is_number(word) {
            // Few sentences say little about a number, which is copied like rare ones.
            copies + PRIOR * source.numbers >= MIN_COPIED_NUMBER * (sentences + PRIOR)
        } else {
            copies >= MIN_COPIED * sentences
        }
    };
    let copied = copies.iter().filter(|(word, (all, copies))| is_copied(word, *all, *copies));
    copied.map(|(word, _)| word.clone()).collect()
}

/// Names and digits that stand for others, with the number of sentences. `copies` are the sentences with each name or number,
/// and those whose translations have it. Longer numbers have translations of their own, such as `2:30` for `14 h 30`.
fn known_words(
    source: &SourceWords,
    copies: HashMap<String, (u32, u32)>,
) -> (Frequencies, Frequencies) {
    let is_known = |(word, (sentences, copies)): &(String, (u32, u32))| {
        let share = f64::from(*copies) / f64::from(*sentences);
        let is_kept = match is_number(word) {
            true => word.len() == 1 && source.copied.contains(word),
            false => share >= MIN_STAND_IN,
        };
        *sentences >= stand_ins::FEWEST && is_kept
    };
    let known = copies.into_iter().filter(is_known).map(|(word, (sentences, _))| (word, sentences));
    known.partition(|(word, _)| !is_number(word))
}

/// Sentences with each word in any case, at most.
fn counts_in_lower_case(words: &HashMap<String, u32>) -> HashMap<String, u32> {
    let mut counts = HashMap::<String, u32>::new();
    for (word, count) in words {
        let sum = counts.entry(lower(word)).or_default();
        *sum = sum.saturating_add(*count);
    }
    counts
}

/// Words as token ids, within and at the beginning of a text and after a punctuation mark, also in lower case and with a
/// capital.
fn target_words(
    words: &HashMap<String, u32>,
    tokenizer: &Tokenizer,
) -> Result<TargetWords, InferError> {
    let is_spaced =
        |word: &&String| word.chars().all(char::is_alphabetic) && !word.chars().any(is_unspaced);
    let mut spellings = BTreeSet::new();
    for word in words.keys().filter(is_spaced) {
        spellings.insert(lower(word));
        spellings.insert(word.clone());
    }
    let mut ids = Vec::with_capacity(2 * spellings.len());
    for word in spellings {
        ids.extend(forms_of(&word, tokenizer)?.into_iter().map(|form| form.ids));
        ids.extend(after("(", &word, tokenizer)?);
    }
    Ok(TargetWords::new(ids))
}
