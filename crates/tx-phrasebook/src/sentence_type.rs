//! English sentences with their type, as training and validation data of a classifier.

use std::collections::HashSet;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use tx_text::SentencePair;

use super::{
    PATIENCE,
    draw::Draw,
    english, held_out,
    sentence::{Aspect, Clause, Force, Frequency, Object, Pronoun, Sentence, Subject, Utterance},
};

/// Type of a sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SentenceType {
    /// Order to one person: `Open the door.`
    Command,
    /// Negated statement: `The cats aren't here.`, `I never sleep.`
    Negation,
    /// Question, with or without its mark: `Where is the station?`
    Question,
    /// Any other sentence: `My sister went to the market.`
    Statement,
}

impl SentenceType {
    /// All types, in the order of their labels.
    pub const ALL: [Self; 4] = [Self::Command, Self::Negation, Self::Question, Self::Statement];

    /// Label of the type.
    pub fn label(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::Negation => "negation",
            Self::Question => "question",
            Self::Statement => "statement",
        }
    }

    fn of(sentence: &Sentence) -> Self {
        let never = Aspect::Habit(Frequency::Never);
        match sentence.force() {
            Force::Asked => Self::Question,
            Force::Denied => Self::Negation,
            Force::Stated => match sentence {
                Sentence::Clause(clause) if clause.aspect == never => Self::Negation,
                _ => Self::Statement,
            },
        }
    }
}

/// Returns `count` distinct English sentences, each with the [label](SentenceType::label) of its type, in
/// equal numbers and in turn. The result is the same for the same `seed`.
///
/// Fixed phrases, such as greetings, are left out, because their form does not determine their type. A
/// negated command does not occur.
///
/// ```
/// use tx_phrasebook::typed_training;
///
/// let pairs = typed_training(8, 1);
/// let labels: Vec<&str> = pairs.iter().map(|pair| pair.target.as_str()).collect();
/// assert_eq!(labels[..4], ["command", "negation", "question", "statement"]);
/// ```
pub fn typed_training(count: usize, seed: u64) -> Vec<SentencePair> {
    typed(count, seed, false)
}

/// Returns `count` distinct sentences as [`typed_training`] does, none of which is in it.
///
/// Each contains at least one pair of words that no training sentence contains.
pub fn typed_validation(count: usize, seed: u64) -> Vec<SentencePair> {
    typed(count, seed, true)
}

fn typed(count: usize, seed: u64, held_out: bool) -> Vec<SentencePair> {
    let mut draw = Draw::new(ChaCha8Rng::seed_from_u64(seed));
    let mut seen = HashSet::new();
    let mut pairs = Vec::new();
    let mut idle = 0;
    while pairs.len() < count && idle < PATIENCE {
        idle += 1;
        let wanted = SentenceType::ALL[pairs.len() % SentenceType::ALL.len()];
        let Some(utterance) = draw.utterance() else { continue };
        let Some(source) = text(&utterance, wanted, held_out) else { continue };
        if seen.insert(source.clone()) {
            idle = 0;
            pairs.push(SentencePair::new(source, wanted.label()));
        }
    }
    pairs
}

/// Text of the utterance as a sentence of the type `wanted`; `None` if it has another type or is in the
/// other set.
fn text(utterance: &Utterance, wanted: SentenceType, held_out: bool) -> Option<String> {
    if utterance.is_phrase() {
        return None;
    }
    if wanted == SentenceType::Command {
        // The set is that of the words that the command contains.
        let order = order(&utterance.sentence)?;
        let is_held_out = held_out::is_held_out(&Sentence::Clause(order.clone()));
        return (is_held_out == held_out).then(|| english::order(utterance, &order));
    }
    let fits = SentenceType::of(&utterance.sentence) == wanted
        && held_out::is_held_out(&utterance.sentence) == held_out
        && !denies_a_little(&utterance.sentence);
    fits.then(|| english::utterance(utterance))
}

/// Returns `true` for `I do not speak a little Italian`, because `a little` is not used in negations.
fn denies_a_little(sentence: &Sentence) -> bool {
    let Sentence::Clause(clause) = sentence else { return false };
    SentenceType::of(sentence) == SentenceType::Negation
        && matches!(clause.object, Some(Object::Language { is_little: true, .. }))
}

/// Clause as an order to one person; `None` if it cannot be one.
fn order(sentence: &Sentence) -> Option<Clause> {
    let Sentence::Clause(clause) = sentence else { return None };
    let is_tense = matches!(clause.aspect, Aspect::Present | Aspect::Future | Aspect::Modal(_));
    // States, such as wanting and losing, are not ordered; nor is `Help you.`
    let is_action = clause.verb.progressive && clause.verb.modal;
    let is_reflexive =
        matches!(clause.object, Some(Object::Pronoun(Pronoun::You | Pronoun::YouAll)));
    let can_be_ordered = clause.force == Force::Stated && is_tense && is_action && !is_reflexive;
    can_be_ordered.then(|| Clause {
        subject: Subject::Pronoun(Pronoun::You),
        time_first: false,
        ..clause.clone()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNT: usize = 4_000;

    #[test]
    fn types_take_turns_and_sentences_differ() {
        let pairs = typed_training(COUNT, 1);
        assert_eq!(pairs.len(), COUNT);
        for (index, pair) in pairs.iter().enumerate() {
            assert_eq!(pair.target, SentenceType::ALL[index % 4].label());
        }
        let texts: HashSet<&str> = pairs.iter().map(|pair| pair.source.as_str()).collect();
        assert_eq!(texts.len(), COUNT);
        assert_eq!(typed_training(100, 1), pairs[..100]);
        assert_ne!(typed_training(100, 2), pairs[..100]);
    }

    #[test]
    fn training_and_validation_are_disjoint() {
        let training: HashSet<String> =
            typed_training(COUNT, 1).into_iter().map(|pair| pair.source).collect();
        let validation = typed_validation(COUNT, 2);
        assert_eq!(validation.len(), COUNT);
        assert!(validation.iter().all(|pair| !training.contains(&pair.source)));
    }

    /// The sets are distinguished by the sentence that the text is rendered from.
    #[test]
    fn only_validation_contains_unseen_combinations() {
        let mut draw = Draw::new(ChaCha8Rng::seed_from_u64(3));
        let mut orders = [0, 0];
        for utterance in std::iter::repeat_with(|| draw.utterance()).flatten().take(20_000) {
            let Some(clause) = order(&utterance.sentence) else { continue };
            let is_held_out = held_out::is_held_out(&Sentence::Clause(clause));
            orders[usize::from(is_held_out)] += 1;
            for held_out in [false, true] {
                let text = text(&utterance, SentenceType::Command, held_out);
                assert_eq!(text.is_some(), is_held_out == held_out);
            }
        }
        assert!(orders.iter().all(|&count| count > 100), "{orders:?}");
    }

    /// `No work in the hotel` is not a command, but `No, work in the hotel` is.
    #[test]
    fn openers_of_commands_have_a_comma() {
        const OPENERS: [&str; 10] = [
            "Hello",
            "Hi",
            "Good morning",
            "Good evening",
            "Yes",
            "No",
            "Sorry",
            "Excuse me",
            "Thank you",
            "OK",
        ];
        let pairs = typed_training(4 * COUNT, 1);
        let commands = pairs.iter().filter(|pair| pair.target == "command");
        let mut opened = 0;
        for text in commands.map(|pair| &pair.source) {
            if let Some(rest) = OPENERS.iter().find_map(|opener| text.strip_prefix(opener)) {
                assert!(rest.starts_with(", "), "{text}");
                opened += 1;
            }
        }
        assert!(opened > 50, "{opened}");
        assert!(pairs.iter().any(|pair| pair.source.starts_with("Please ")));
    }

    #[test]
    fn a_little_is_not_negated() {
        let pairs = [typed_training(4 * COUNT, 1), typed_validation(4 * COUNT, 1)].concat();
        let little: Vec<_> = pairs.iter().filter(|it| it.source.contains(" a little ")).collect();
        assert!(little.len() > 50, "{}", little.len());
        assert!(little.iter().all(|pair| pair.target != "negation"));
    }

    /// Signs of the types that do not depend on the code above.
    #[test]
    fn labels_agree_with_the_words_of_the_text() {
        const NEGATIVE: [&str; 5] = ["not", "cannot", "can't", "never", "no"];
        const SUBJECTS: [&str; 8] = ["I", "you", "he", "she", "we", "they", "it", "there"];
        const ASKING: [&str; 17] = [
            "do", "does", "did", "is", "are", "was", "were", "will", "can", "must", "am", "how",
            "what", "where", "what's", "where's", "how's",
        ];
        for pair in typed_training(COUNT, 1).into_iter().chain(typed_validation(COUNT, 1)) {
            let text = pair.source.as_str();
            let words: Vec<&str> = text.split([' ', '.', '!', '?', ',']).collect();
            let is_negative =
                words.iter().any(|word| NEGATIVE.contains(word) || word.ends_with("n't"));
            match pair.target.as_str() {
                "question" => {
                    assert!(!text.ends_with(['.', '!']), "{text}");
                    let asks = |word: &&str| ASKING.contains(&&*word.to_lowercase());
                    assert!(words.iter().any(asks), "{text}");
                }
                "negation" => assert!(is_negative && !text.ends_with('?'), "{text}"),
                "command" => {
                    assert!(!is_negative || text.starts_with("No"), "{text}");
                    assert!(!text.ends_with('?'), "{text}");
                    let order = text.strip_prefix("Thank you").unwrap_or(text);
                    let mut words = order.split([' ', ',']).take(2);
                    assert!(!words.any(|word| SUBJECTS.contains(&word)), "{text}");
                }
                "statement" => {
                    // `No, I am here.`
                    assert!(!is_negative || words[0] == "No", "{text}");
                    assert!(!text.ends_with('?'), "{text}");
                }
                other => panic!("{other}"),
            }
        }
    }
}
