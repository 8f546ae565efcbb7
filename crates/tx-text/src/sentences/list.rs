//! Marks of items in a list that is written in one line: `1.) First 2.) Second`.

use super::{
    line::Line,
    marks::{is_bullet, is_dash},
};

/// Mark of an item: a bullet, a number or letter with what follows it, or both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ListMark {
    bullet: Option<char>,
    number: Number,
    suffix: Suffix,
    /// Position after it.
    pub(super) end: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Number {
    None,
    Digits(u32),
    Letter(char),
    Roman,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Suffix {
    None,
    Stop,
    Bracket,
    StopAndBracket,
}

/// Maximum number of characters of a number.
const DIGITS: usize = 3;

/// Maximum number of letters of a Roman numeral.
const ROMAN: usize = 5;

impl ListMark {
    /// Reads the mark at a position, if text follows it after white space.
    pub(super) fn read(line: &Line<'_>, start: usize) -> Option<Self> {
        let first = line.after(start)?;
        let bullet = Some(first).filter(|c| is_bullet(*c) || is_dash(*c));
        let at = start + bullet.map_or(0, char::len_utf8);
        let at = if bullet.is_some() { line.skip(at, 2, char::is_whitespace) } else { at };
        let Some((number, suffix, end)) = number(line, at) else {
            // Other bullets also stand for multiplication, a note or direct speech.
            let is_list = matches!(first, '•' | '‣' | '⁃' | '▪' | '●') && at > start;
            let mark = Self { bullet, number: Number::None, suffix: Suffix::None, end: at };
            return is_list.then_some(mark);
        };
        let text = line.skip(end, 2, char::is_whitespace);
        let next = line.after(text).filter(|_| text > end)?;
        let is_text = suffix != Suffix::Stop || !(next.is_lowercase() || next.is_numeric());
        is_text.then_some(Self { bullet, number, suffix, end })
    }

    /// Whether `next` is the mark of the item after this one.
    pub(super) fn precedes(self, next: Self) -> bool {
        let is_next = match (self.number, next.number) {
            (Number::None, Number::None) => true,
            (Number::Digits(this), Number::Digits(next)) => next == this + 1,
            // A capital letter with a full stop is an initial.
            (Number::Letter(this), Number::Letter(next)) => {
                next as u32 == this as u32 + 1
                    && (self.suffix != Suffix::Stop || next.is_lowercase())
            }
            _ => false,
        };
        is_next && self.bullet == next.bullet && self.suffix == next.suffix
    }

    /// Whether it looks like an ordinal.
    pub(super) fn is_ordinal(self) -> bool {
        let is_number = matches!(self.number, Number::Digits(_));
        is_number && self.suffix == Suffix::Stop && self.bullet.is_none()
    }
}

/// Reads a number or letter and what follows it.
fn number(line: &Line<'_>, start: usize) -> Option<(Number, Suffix, usize)> {
    let digits = line.skip(start, DIGITS, |c| c.is_ascii_digit());
    let (number, end) = if digits > start {
        (Number::Digits(line.slice(start, digits).parse().ok()?), digits)
    } else {
        let lower = line.skip(start, ROMAN, |c| matches!(c, 'i' | 'v' | 'x'));
        let upper = line.skip(start, ROMAN, |c| matches!(c, 'I' | 'V' | 'X'));
        let roman = lower.max(upper);
        let letter = line.after(start).filter(|c| c.is_lowercase() || c.is_uppercase())?;
        if roman > start + 1 {
            (Number::Roman, roman)
        } else {
            (Number::Letter(letter), start + letter.len_utf8())
        }
    };
    match line.after(end)? {
        '.' if line.after(end + 1) == Some(')') => Some((number, Suffix::StopAndBracket, end + 2)),
        '.' => Some((number, Suffix::Stop, end + 1)),
        ')' => Some((number, Suffix::Bracket, end + 1)),
        _ => None,
    }
}
