use super::*;
use crate::markup::{Part, TagOptions, html, placeholders};

fn alignment(source: &str, target: &str, links: &[(usize, usize)]) -> Alignment {
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let (source, target) = (words(source), words(target));
    let mut weights = vec![vec![0.0; source.len()]; target.len()];
    links.iter().for_each(|(from, to)| weights[*to][*from] = 1.0);
    Alignment { source, target, weights }
}

fn placed(document: &str, target: &str, links: &[(usize, usize)]) -> String {
    let parts = html::parts(document, &TagOptions::default());
    let [Part::Segment { segment, .. }] = &parts[..] else { panic!("{parts:?}") };
    let alignment = alignment(&segment.text, target, links);
    place(segment, target, Some(&alignment), Format::Html)
}

#[test]
fn elements_move_with_their_words() {
    for (document, target, links, expected) in [
        (
            "the <b>red</b> house",
            "la casa rossa",
            &[(0, 0), (2, 1), (1, 2)][..],
            "la casa <b>rossa</b>",
        ),
        ("<b>all</b> <i>this</i>", "das alles", &[(0, 1), (1, 0)], "<i>das</i> <b>alles</b>"),
        ("Hello <b>world</b>!", "Hallo Welt!", &[(0, 0), (1, 1)], "Hallo <b>Welt</b>!"),
        (
            "a (<a href=x>link</a>) b",
            "ein (Verweis) b",
            &[(0, 0), (1, 1), (2, 2)],
            "ein (<a href=x>Verweis</a>) b",
        ),
        (
            "<p2>x <i>y <b>z</b></i></p2>",
            "u v w",
            &[(0, 0), (1, 1), (2, 2)],
            "<p2>u <i>v <b>w</b></i></p2>",
        ),
        ("one <img src=a> two", "eins zwei", &[(0, 0), (1, 1)], "eins <img src=a> zwei"),
        (
            "a <b>1 < 2",
            "x 1 & <script>",
            &[(0, 0), (1, 1), (2, 2), (3, 3)],
            "x <b>1 &amp; &lt;script&gt;",
        ),
        ("end</b> of it", "Ende davon", &[(0, 0), (1, 1), (2, 1)], "Ende</b> davon"),
        ("no <b>links</b> here", "keine Links hier", &[], "keine <b>Links</b> hier"),
        ("one two three <b>four</b>", "eins", &[], "<b>eins</b>"),
    ] {
        assert_eq!(placed(document, target, links), expected, "{document}");
    }
}

/// Start tags, end tags and voids occur exactly once, in an order that keeps elements nested.
#[test]
fn crossing_alignments_keep_elements_nested() {
    let document = "<b>a <i>b</i> c</b> d <u>e f</u>";
    let links = [(0, 3), (1, 0), (2, 1), (3, 4), (4, 2), (5, 3)];
    let found = placed(document, "v w x y z", &links);
    let mut open = Vec::new();
    for part in html::parts(&found, &TagOptions::default()) {
        let Part::Segment { segment, .. } = part else { continue };
        for inline in segment.inlines {
            match inline.kind {
                InlineKind::Open(name) => open.push(name),
                InlineKind::Close(name) => assert_eq!(open.pop(), Some(name), "{found}"),
                InlineKind::Void | InlineKind::Atom(_) => {}
            }
        }
    }
    assert!(open.is_empty() && found.matches("</").count() == 3, "{found}");
}

#[test]
fn placeholders_are_separated_as_in_the_source() {
    let sentence = placeholders::without_words(
        &placeholders::without_markup("{name} has %d mails ."),
        Format::Text,
    );
    assert_eq!(sentence.text, "has mails .");
    let links = [(0, 0), (1, 1), (2, 2)];
    let target = "hat Mails .";
    let alignment = alignment(&sentence.text, target, &links);
    let found = place(&sentence, target, Some(&alignment), Format::Text);
    assert_eq!(found, "{name} hat %d Mails .");
    assert_eq!(place(&sentence, "", None, Format::Text), "{name} %d");
}
