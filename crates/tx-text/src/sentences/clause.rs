//! Division of a sentence that is too long for a model.

use super::marks::{closes, continues, is_dash};

/// Returns the position at which a long sentence is best divided: the end of a clause or, without one in
/// the middle half, the white space closest to the middle, otherwise the end of any clause. `None` for
/// text without either.
///
/// The position is after a mark and before white space, or after a mark of a script without spaces. Text
/// other than white space is on both sides.
pub fn clause_end(sentence: &str) -> Option<usize> {
    let middle = sentence.len() / 2;
    let half = middle / 2..=middle + middle / 2;
    let end = sentence.trim_end().len();
    let [mut clause, mut word] = [None; 2];
    let mut before = None;
    for (at, c) in sentence.char_indices() {
        let gap = c.is_whitespace();
        let marked = before.is_some_and(|mark| match mark {
            '，' | '、' | '；' | '：' => !closes(c) && !gap,
            _ => gap && (continues(mark) || is_dash(mark)),
        });
        let distance = at.abs_diff(middle);
        let closest = |best: Option<usize>| best.is_none_or(|at| distance < at.abs_diff(middle));
        let inside = at > 0 && at < end;
        if marked && closest(clause) && inside {
            clause = Some(at);
        }
        if gap && closest(word) && inside && before.is_some_and(|c: char| !c.is_whitespace()) {
            word = Some(at);
        }
        before = Some(c);
    }
    clause.filter(|at| half.contains(at)).or(word).or(clause)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn divided(sentence: &str) -> Option<(&str, &str)> {
        clause_end(sentence).map(|at| sentence.split_at(at))
    }

    #[test]
    fn clauses_before_words() {
        assert_eq!(divided("one two three, four five"), Some(("one two three,", " four five")));
        assert_eq!(divided("a, two three four five six"), Some(("a, two three", " four five six")));
        assert_eq!(divided("one – two"), Some(("one –", " two")));
        assert_eq!(divided("one 1,000,000 two three"), Some(("one 1,000,000", " two three")));
        assert_eq!(divided("一二三，四五六，七八九"), Some(("一二三，", "四五六，七八九")));
    }

    #[test]
    fn text_without_gaps_is_not_divided() {
        for text in ["", "a", "猫がいます。", "a,b", "，", "、、"].map(str::trim) {
            let found = divided(text);
            assert!(found.is_none_or(|(left, right)| !left.is_empty() && !right.trim().is_empty()));
        }
        assert_eq!(divided("猫がいます。"), None);
        assert_eq!(divided("   "), None);
    }
}
