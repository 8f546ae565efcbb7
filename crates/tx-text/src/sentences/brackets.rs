//! Brackets of a line that enclose a part of a sentence.

use std::ops::Range;

/// Spans from an opening to its closing bracket, in order of their ends. Spans do not overlap except
/// that one contains another.
#[derive(Debug, Clone, Default)]
pub(super) struct Brackets {
    /// Outermost spans, in order.
    spans: Vec<Range<usize>>,
}

impl Brackets {
    /// Returns the outermost pairs of brackets of `line`, which begins at the position `start`. A
    /// bracket without a partner is ignored, and that of an emoticon: `:(`.
    pub(super) fn of(line: &str, start: usize) -> Self {
        let mut open: Vec<(char, usize)> = Vec::new();
        let mut spans: Vec<Range<usize>> = Vec::new();
        let mut before = ' ';
        for (at, c) in line.char_indices() {
            let emoticon = matches!(before, ':' | ';' | '=');
            before = c;
            if emoticon {
                continue;
            }
            if closing(c).is_some() {
                open.push((c, start + at));
            } else if is_closing(c)
                && let Some(&(opening, from)) = open.last()
                && closing(opening) == Some(c)
            {
                open.pop();
                while spans.last().is_some_and(|inner| inner.start > from) {
                    spans.pop();
                }
                spans.push(from..start + at);
            }
        }
        Self { spans }
    }

    /// Returns the end of the outermost span that begins at `start`.
    pub(super) fn end(&self, start: usize) -> Option<usize> {
        let next = self.spans.partition_point(|span| span.start < start);
        self.spans.get(next).filter(|span| span.start == start).map(|span| span.end)
    }

    /// Returns the outermost span with the position `at` inside.
    pub(super) fn around(&self, at: usize) -> Option<&Range<usize>> {
        let next = self.spans.partition_point(|span| span.end < at);
        self.spans.get(next).filter(|span| span.start < at)
    }
}

/// Returns the closing bracket of an opening one.
fn closing(c: char) -> Option<char> {
    Some(match c {
        '(' => ')',
        '[' => ']',
        '（' => '）',
        '「' => '」',
        '『' => '』',
        '《' => '》',
        '〈' => '〉',
        '【' => '】',
        '〔' => '〕',
        _ => return None,
    })
}

fn is_closing(c: char) -> bool {
    matches!(c, ')' | ']' | '）' | '」' | '』' | '》' | '〉' | '】' | '〕')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outermost_pairs_count() {
        let brackets = Brackets::of("a (b [c] d) e) f (g", 10);
        assert_eq!(brackets.spans, vec![12..20]);
        let around: Vec<bool> = (10..22).map(|at| brackets.around(at).is_some()).collect();
        assert_eq!(around.iter().position(|inside| *inside), Some(3));
        assert_eq!(around.iter().filter(|inside| **inside).count(), 8);
        assert_eq!((brackets.end(12), brackets.end(13), brackets.end(20)), (Some(20), None, None));
        assert!(Brackets::of(") a (b] [", 0).spans.is_empty());
    }
}
