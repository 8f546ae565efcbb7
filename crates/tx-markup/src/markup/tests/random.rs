//! Random markup.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;

/// A document of random elements, atoms and words; `text` has words, white space, and `\u{1}` for each
/// atom.
struct Random {
    html: String,
    text: String,
    atoms: usize,
    elements: usize,
}

fn random(rng: &mut ChaCha8Rng) -> Random {
    let mut made = Random { html: String::new(), text: String::new(), atoms: 0, elements: 0 };
    let mut open: Vec<(usize, &str)> = Vec::new();
    let mut words = 0;
    for _ in 0..rng.random_range(1..14) {
        match rng.random_range(0..12) {
            0..=3 => {
                // Words have separators between them.
                if made.text.ends_with(|c: char| c.is_alphanumeric()) {
                    made.html.push(' ');
                    made.text.push(' ');
                }
                let word = format!("w{words}");
                words += 1;
                made.html.push_str(&word);
                made.text.push_str(&word);
                if rng.random_range(0..6) == 0 {
                    made.html.push(',');
                    made.text.push(',');
                }
            }
            4..=5 => {
                made.html.push(' ');
                made.text.push(' ');
            }
            6..=7 => {
                let name = ["b", "i", "a", "span"][rng.random_range(0..4)];
                made.html.push_str(&format!("<{name} id={}>", made.elements));
                open.push((made.elements, name));
                made.elements += 1;
            }
            8..=9 => {
                if let Some((_, name)) = open.pop() {
                    made.html.push_str(&format!("</{name}>"));
                }
            }
            _ => {
                let number = made.atoms;
                let atom = match rng.random_range(0..3) {
                    0 => format!("<img id=a{number}>"),
                    1 => format!("<code id=a{number}>x y</code>"),
                    _ => format!("<sup id=a{number}>[1]</sup>"),
                };
                made.html.push_str(&atom);
                made.text.push('\u{1}');
                made.atoms += 1;
            }
        }
    }
    while let Some((_, name)) = open.pop() {
        made.html.push_str(&format!("</{name}>"));
    }
    made
}

/// Text of a result as in [`Random`], and the ids of the elements that are not empty. Panics if tags are
/// not nested.
fn read(html: &str) -> (String, Vec<usize>, Vec<usize>) {
    let (mut text, mut filled, mut all) = (String::new(), Vec::new(), Vec::new());
    let mut open: Vec<(usize, &str, usize)> = Vec::new();
    let mut rest = html;
    while let Some((before, tag)) = rest.split_once('<') {
        text.push_str(before);
        let (tag, after) = tag.split_once('>').unwrap();
        rest = after;
        if let Some(name) = tag.strip_prefix('/') {
            let (id, opened, start) = open.pop().expect("an end tag without element");
            assert_eq!(opened, name, "{html}");
            if !text[start..].trim().is_empty() {
                filled.push(id);
            }
            continue;
        }
        let (name, id) = tag.split_once(" id=").unwrap();
        match id.strip_prefix('a') {
            Some(_) => {
                text.push('\u{1}');
                let end = format!("</{name}>");
                if name != "img" {
                    rest = rest.split_once(&*end).unwrap().1;
                }
            }
            None => {
                let id = id.parse().unwrap();
                all.push(id);
                open.push((id, name, text.len()));
            }
        }
    }
    assert!(open.is_empty(), "{html}");
    text.push_str(rest);
    filled.sort_unstable();
    all.sort_unstable();
    (text, filled, all)
}

/// Whether there is white space before and after each atom: `None` at the edge of the text and beside
/// another atom.
fn spaces(text: &str) -> Vec<[Option<bool>; 2]> {
    let chars: Vec<char> = text.trim().chars().collect();
    let side = |c: Option<&char>| c.filter(|c| **c != '\u{1}').map(|c| c.is_whitespace());
    let around = |at: usize| {
        let before = at.checked_sub(1).and_then(|before| chars.get(before));
        [side(before), side(chars.get(at + 1))]
    };
    let atoms = chars.iter().enumerate().filter(|(_, c)| **c == '\u{1}');
    atoms.map(|(at, _)| around(at)).collect()
}

/// Random markup, translations and alignments. Elements stay nested and filled, each atom stands once, no
/// word is lost or joined to another, and atoms are separated from words as in the source.
#[test]
fn random_markup_is_kept_with_random_alignments() {
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    let mut checked = 0;
    while checked < 10_000 {
        let source = random(&mut rng);
        let mut found = String::new();
        let mut expected_words = Vec::new();
        let (mut is_reduced, mut segments) = (false, 0);
        for part in html::parts(&source.html, &TagOptions::default()) {
            let (segment, format) = match part {
                Part::Verbatim(raw) => {
                    found.push_str(&raw);
                    continue;
                }
                Part::Segment { segment, format } => (segment, format),
            };
            // The sentence is the whole text, as a model without punctuation divides it.
            let words = segment.text.split_whitespace().count();
            let count = rng.random_range(1..words + 4);
            let target: Vec<String> = (0..count)
                .map(|word| {
                    let mark = if rng.random_range(0..5) == 0 { "." } else { "" };
                    format!("t{word}{mark}")
                })
                .collect();
            let weights = (0..count)
                .map(|_| (0..words).map(|_| rng.random_range(0..3) as f32).collect())
                .collect();
            let alignment = Alignment {
                source: segment.text.split_whitespace().map(str::to_owned).collect(),
                target: target.clone(),
                weights,
            };
            let text = target.join(" ");
            let trimmed = segment::without_ranges(&segment::denormalized(&segment), &[], format);
            found.push_str(&placement::place(&trimmed, &text, Some(&alignment), format));
            // Words of two segments may be next to each other, as in the source.
            segments += 1;
            is_reduced |= count < source.elements || segments > 1;
            expected_words.extend(target);
        }
        checked += 1;
        let context = format!("{}\n{found}", source.html);
        let (text, filled, all) = read(&found);
        let (_, source_filled, source_all) = read(&source.html);
        assert_eq!(all, source_all, "{context}");
        assert_eq!(filled, source_filled, "{context}");
        assert_eq!(text.matches('\u{1}').count(), source.atoms, "{context}");
        let separated = text.replace('\u{1}', " ");
        let words: Vec<&str> = separated.split_whitespace().collect();
        if expected_words.is_empty() {
            continue;
        }
        // Words are whole unless there are fewer of them than elements.
        if is_reduced {
            let joined = |words: &[String]| words.concat();
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            assert_eq!(joined(&words), joined(&expected_words), "{context}");
            continue;
        }
        assert_eq!(words, expected_words, "{context}");
        if source_all != source_filled {
            continue;
        }
        if let ([wanted], [found]) = (&spaces(&source.text)[..], &spaces(&text)[..]) {
            let glued = is_glued(&source.html);
            for side in [0, 1] {
                if wanted[side] == Some(true) {
                    assert_ne!(found[side], Some(false), "{context}");
                }
            }
            // Between two words, an atom moves to a place where it has one of them.
            if glued.contains(&true) {
                assert!((0..2).any(|side| glued[side] && found[side] != Some(true)), "{context}");
            }
        }
    }
}

/// Whether a word is directly before and after the atom of a document.
fn is_glued(html: &str) -> [bool; 2] {
    let at = html.find(" id=a0>").unwrap();
    let start = html[..at].rfind('<').unwrap();
    let name = &html[start + 1..at];
    let rest = &html[at + " id=a0>".len()..];
    let after = match name {
        "img" => rest,
        name => rest.split_once(&*format!("</{name}>")).unwrap().1,
    };
    let is_word = |c: char| c.is_alphanumeric() || c == ',';
    [html[..start].ends_with(is_word), after.starts_with(is_word)]
}

/// Depth and number of elements cost time in proportion, and no stack.
#[test]
fn deep_markup_costs_linear_time_and_no_stack() {
    let translator = fixture::translator();
    let found = |format: Format, text: &str| {
        let mut plan = Plan::new(text, translator, &options(format), &fixture::deadline()).unwrap();
        let results: Vec<Done> = plan.take_units().iter().map(done).collect();
        plan.finish(&results, 0)
    };
    let depth = 200_000;
    let text = format!("one {}two{}", "<b>".repeat(depth), "</b>".repeat(depth));
    assert!(found(Format::Html, &text) == text.replace("one", "ONE").replace("two", "TWO"));
    let depth = 33_000;
    let (open, close) = ("<b>".repeat(depth), "</b>".repeat(depth));
    for format in [Format::Html, Format::Text, Format::Xml] {
        let nested = |text: &str| format!("one {open}{text}{close} three");
        let answer = found(format, &nested("two"));
        assert!(answer == nested("TWO").replace("one", "ONE").replace("three", "THREE"));
    }
    for format in [Format::Html, Format::Text] {
        assert!(found(format, &format!("one {open}two")) == format!("ONE {open}TWO"));
        assert!(found(format, &format!("one{close} two")) == format!("ONE{close} TWO"));
    }
    let depth = 5_000;
    for (open, close) in [
        ("<ul><li>", ""),
        ("<table><td>", ""),
        ("<p><button>", "<p></p>"),
        ("<div translate=no>", "</p>"),
        ("<a>", "</b>"),
        ("<i translate=no>", "</u>"),
        ("{", "}"),
        ("[1]", "[2]"),
        ("<sup>1", "</sup>"),
    ] {
        let text = format!("one {}two{}", open.repeat(depth), close.repeat(depth));
        for format in [Format::Html, Format::Text] {
            assert!(found(format, &text).len() >= text.len() - depth, "{open}");
        }
    }
}
