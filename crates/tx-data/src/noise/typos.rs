//! Errors of typing.

use rand::{RngExt, seq::IndexedRandom};
use rand_chacha::ChaCha8Rng;
use tx_text::text_words::word_ranges;

/// Letters of a keyboard by rows.
const KEYBOARD: [&str; 3] = ["qwertyuiop", "asdfghjkl", "zxcvbnm"];
/// Fraction of the words with an error, besides the first one.
const WORDS: f64 = 0.1;
/// Letters of the shortest word with an error.
const SHORTEST: usize = 4;

/// Returns `text` with an error in at least one word; `None` if all words are short.
pub(super) fn with_typos(text: &str, random: &mut ChaCha8Rng) -> Option<String> {
    let is_long = |word: &str| word.chars().filter(|c| c.is_alphabetic()).count() >= SHORTEST;
    let words: Vec<_> = word_ranges(text, usize::MAX)
        .into_iter()
        .filter(|range| is_long(&text[range.clone()]))
        .collect();
    let first = words.choose(random)?.start;
    let mut typed = String::with_capacity(text.len());
    let mut end = 0;
    for range in words {
        if range.start == first || random.random::<f64>() < WORDS {
            typed.push_str(&text[end..range.start]);
            typed.push_str(&mistyped(&text[range.clone()], random));
            end = range.end;
        }
    }
    typed.push_str(&text[end..]);
    Some(typed)
}

/// Returns a word with one error after its first letter.
fn mistyped(word: &str, random: &mut ChaCha8Rng) -> String {
    let mut letters: Vec<char> = word.chars().collect();
    let inner: Vec<usize> =
        (1..letters.len()).filter(|&index| letters[index].is_alphabetic()).collect();
    let Some(&at) = inner.choose(random) else { return word.into() };
    match random.random_range(0..4) {
        0 => drop(letters.remove(at)),
        1 => letters.insert(at, letters[at]),
        2 if letters.get(at + 1).is_some_and(|next| next.is_alphabetic()) => {
            letters.swap(at, at + 1)
        }
        2 => drop(letters.remove(at)),
        _ => match neighbor(letters[at], random) {
            Some(neighbor) => letters[at] = neighbor,
            // A script without this keyboard.
            None => drop(letters.remove(at)),
        },
    }
    letters.into_iter().collect()
}

/// Returns a letter beside `letter` in its row of the keyboard.
fn neighbor(letter: char, random: &mut ChaCha8Rng) -> Option<char> {
    let row = KEYBOARD.into_iter().find(|row| row.contains(letter))?;
    let at = row.find(letter)?;
    let beside = [at.checked_sub(1), Some(at + 1)].into_iter().flatten();
    let beside: Vec<char> =
        beside.filter_map(|at| row[at.min(row.len())..].chars().next()).collect();
    beside.choose(random).copied()
}
