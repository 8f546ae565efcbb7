use super::*;
use SubtitleFormat::{Srt, Vtt};

/// The file with each text in upper case, except for tags.
fn upper(file: &str, format: SubtitleFormat) -> String {
    let subtitles = Subtitles::parse(file, format);
    let texts: Vec<String> = subtitles.texts().iter().map(|text| upper_text(text)).collect();
    subtitles.with_texts(&texts)
}

fn upper_text(text: &str) -> String {
    let mut is_tag = false;
    let change = |c: char| {
        is_tag = matches!(c, '<' | '{' | '&') || (is_tag && !matches!(c, '>' | '}' | ';'));
        if is_tag { c } else { c.to_ascii_uppercase() }
    };
    text.chars().map(change).collect()
}

fn texts(file: &str, format: SubtitleFormat) -> Vec<String> {
    Subtitles::parse(file, format).texts()
}

#[test]
fn cues_are_read_and_written() {
    let file = "1\n00:00:01,000 --> 00:00:02,000\n{\\an8}This is a text\non two lines.\n\n2\n00:00:03,000 --> 00:00:04,000\n- Yes?\n- No.\n\n3\n00:00:05,000 --> 00:00:06,000\n";
    let found = Subtitles::parse(file, Srt);
    assert_eq!(found.texts(), ["{\\an8}This is a text on two lines.", "Yes?", "No."]);
    assert_eq!(found.with_texts(&found.texts()), file);
    for other in ["", "\n", "no subtitles", "\u{feff}no subtitles\r\n", "1\n2\n", "a --> b\nc\n"] {
        assert_eq!(upper(other, Srt), other);
        assert_eq!(upper(other, Vtt), other);
    }
}

/// Files that are not quite valid, with what changes in them: only lines of text.
#[test]
fn files_are_read_leniently() {
    let time = "00:00:01,000 --> 00:00:02,000";
    for (file, changed) in [
        // No empty lines between cues.
        (
            format!("1\n{time}\nthe cat.\n2\n{time}\nthe dog?\n3\n{time}\nbye.\n"),
            vec!["the cat.", "the dog?", "bye."],
        ),
        // Empty lines in a cue, and at its begin.
        (format!("1\n{time}\none\n\ntwo\n\n\n2\n{time}\n\n\nthree"), vec!["one", "two", "three"]),
        // No numbers; a line of digits stays.
        (format!("{time}\none\n\n{time}\n42\n{time}\n2 cats"), vec!["one", "2 cats"]),
        // Byte order mark, other ends of lines, an empty line after each line.
        (format!("\u{feff}1\r\n{time}\r\none\r\n\r\n2\r\n{time}\r\ntwo"), vec!["one", "two"]),
        (
            format!("1\r\r\n{time}\r\r\none\r\r\n\r\r\n2\r\r\n{time}\r\r\ntwo\r\r\n"),
            vec!["one", "two"],
        ),
        (format!("1\r{time}\rone\r\r2\r{time}\rtwo\r"), vec!["one", "two"]),
        (format!("1\n\n{time}\n\none\n\n2\n\n{time}\n\ntwo\n\n"), vec!["one", "two"]),
        // Times without hours, with dots, out of order, negative, with positions, with spaces.
        ("1\n00:02.5-->00:01.25\none".into(), vec!["one"]),
        (
            "-00:00:01,000 --> -00:00:00,500\none\n1\n1:2:3,4 -> 1:2:4\ntwo".into(),
            vec!["one", "two"],
        ),
        (format!("1\n  {time} X1:100 X2:200\n  one  \n"), vec!["one"]),
        ("1\n00: 00: 01, 000 --> 00: 00: 02, 000\none".into(), vec!["one"]),
        ("1\n00:00:01,000 --> \none".into(), vec!["one"]),
        // An arrow in a text is no time.
        (format!("{time}\nthe way --> out\n{time}\na -> b"), vec!["the way --> out", "a -> b"]),
        // Music and descriptions.
        (format!("{time}\n♪ la la ♪\n{time}\n# la #\n{time}\n♪\n"), vec!["la la", "la"]),
        (
            format!("{time}\n[door opens]\nwho is it?\n(music)\n{time}\n..."),
            vec!["[door opens]", "who is it?", "(music)"],
        ),
        // Dialogs.
        (format!("{time}\n– yes.\n– thank you."), vec!["yes.", "thank you."]),
        (format!("{time}\n‐yes.\n‐no."), vec!["yes.", "no."]),
        (format!("{time}\n—yes.\n—no.\n\n"), vec!["yes.", "no."]),
        (format!("{time}\nWhere?\n- Here."), vec!["Where?", "Here."]),
        (format!("{time}\n>> yes.\n>>> news."), vec!["yes.", "news."]),
        (format!("{time}\n<i>- yes.</i>\n{{\\i1}}- no."), vec!["yes.</i>", "no."]),
        (format!("{time}\nANNA: yes.\nTOM 2: no."), vec!["yes.", "no."]),
        (format!("{time}\n- ANNA: yes.\n{time}\nNote: no."), vec!["yes.", "Note: no."]),
        (format!("{time}\n-5 degrees"), vec!["5 degrees"]),
    ] {
        assert_eq!(texts(&file, Srt), changed, "{file:?}");
        let expected = changed
            .iter()
            .fold(file.clone(), |file, text| file.replacen(text, &upper_text(text), 1));
        assert_eq!(upper(&file, Srt), expected, "{file:?}");
        assert_eq!(upper(&file, Vtt), expected, "{file:?}");
    }
}

#[test]
fn a_sentence_on_several_lines_is_one_text() {
    let time = "00:00:01,000 --> 00:00:02,000";
    let file = format!("{time}\r\n- I think that\r\nwe go home\r\nnow.\r\n- No – we\r\nstay.\r\n");
    assert_eq!(texts(&file, Srt), ["I think that we go home now.", "No – we stay."]);
    // The words of each line fit on it: 28 characters on 3 lines are 10 for each, and 13 on 2 are 7.
    assert_eq!(upper(&file, Srt), upper_text(&file));
    // A single dash before a word in lower case is in a sentence.
    assert_eq!(texts(&format!("{time}\nthe cat\n– the old one – sleeps"), Srt).len(), 1);
    let subtitles = Subtitles::parse(&file, Srt);
    let shorter = subtitles.with_texts(&["a".into(), " ".into()]);
    assert_eq!(shorter, format!("{time}\r\n- a\r\n- No – we\r\nstay.\r\n"));
    let longer = subtitles.with_texts(&["one two three four five six".into(), "x".into()]);
    assert_eq!(longer, format!("{time}\r\n- one two\r\nthree four\r\nfive six\r\n- x\r\n"));
}

#[test]
fn blocks_and_tags_of_webvtt_stay() {
    let file = "\u{feff}WEBVTT - the title\nKind: captions\n\nSTYLE\n::cue { color: red }\n\nREGION\nid:fred\n\nNOTE a remark\nin two lines\n\nintro\n00:01.000 --> 00:02.000 align:start position:0%\n<v Roger Bingham>we are in <c.yellow.bg>new</c> york &amp; here\n\nNOTE\nanother remark\n\nthe second\n01:00:03.000 --> 01:00:04.000\none <00:00:03.500>two <i><b>three</b></i>\nfour five\n\n2\n00:05.000 --> 00:06.000\nNOTE this\n<v.loud Ann>six\n<v Tom>seven</v>\n";
    let texts_of = [
        "<x-0>we are in <x-1>new</x-1> york &amp; here",
        "one <x-0/>two <x-1><x-2>three</x-2></x-1> four five",
        "NOTE this",
        "<x-0>six",
        "<x-0>seven</x-0>",
    ];
    assert_eq!(texts(file, Vtt), texts_of);
    let mut expected = file.to_owned();
    for (text, upper) in [
        ("we are in", "WE ARE IN"),
        ("new<", "NEW<"),
        ("york &amp; here", "YORK &amp; HERE"),
        ("\none", "\nONE"),
        ("two <i", "TWO <i"),
        ("three<", "THREE<"),
        ("four five", "FOUR FIVE"),
        ("NOTE this", "NOTE THIS"),
        ("six", "SIX"),
        ("seven", "SEVEN"),
    ] {
        expected = expected.replacen(text, upper, 1);
    }
    assert_eq!(upper(file, Vtt), expected);
    // Elements that a translation repeats, crosses or invents.
    let tagged = "00:01.000 --> 00:02.000\n<b>a</i> c</b>";
    let subtitles = Subtitles::parse(tagged, Vtt);
    assert_eq!(subtitles.texts(), ["<x-0>a<x-1/> c</x-0>"]);
    let found = subtitles.with_texts(&["<x-1/>1 &lt; 2</x-0> <x-9>".into()]);
    assert_eq!(found, "00:01.000 --> 00:02.000\n</i>1 &lt; 2</b> <x-9>");
}

/// A line is never divided inside of a tag.
#[test]
fn tags_are_not_divided() {
    let file = "00:01.000 --> 00:02.000\n<font color=\"red\" face=\"a b c\">one\ntwo</font>\n";
    let found =
        Subtitles::parse(file, Srt).with_texts(&["<font color=\"red\">11 22</font>".into()]);
    assert_eq!(found, "00:01.000 --> 00:02.000\n<font color=\"red\">11\n22</font>\n");
}

#[test]
fn time_is_linear_for_lines_of_any_kind() {
    for line in
        ["<", "{\\", "<a ", "-\n", "1\n", "\n", "\r", "<v a>\n", "♪", "a -> b\n", "00:01-->00:02\n"]
    {
        let file = format!("00:01-->00:02\n{}", line.repeat(100_000));
        let found = upper(&file, Vtt).to_lowercase();
        assert!(found.split_whitespace().eq(file.split_whitespace()), "{line:?}");
    }
}

/// A sentence with times in it may be divided before them.
#[test]
fn no_line_of_a_text_becomes_the_times_of_a_cue() {
    let time = "00:00:01,000 --> 00:00:02,000";
    let file = format!("1\n{time}\nfrom 10:30\nuntil late --> there\n");
    let subtitles = Subtitles::parse(&file, SubtitleFormat::Srt);
    assert_eq!(subtitles.texts(), ["from 10:30 until late --> there"]);
    let found = subtitles.with_texts(&["it opens at noon 10:30 --> 11:45".to_owned()]);
    assert_eq!(found, format!("1\n{time}\nit opens at noon\n10:30 → 11:45\n"));
    assert_eq!(Subtitles::parse(&found, SubtitleFormat::Srt).texts().len(), 1);
}

/// Texts that could be divided before a word that begins another utterance, or is the number of a cue. By
/// hand: half of their length, without the space there, is at that word.
#[test]
fn no_line_of_a_text_becomes_another_utterance() {
    let time = "00:00:01,000 --> 00:00:02,000";
    for (before, text, after) in [
        (
            "- Yes.\n- one\ntwo\n",
            "The cat sleeps - Now it is",
            "- Yes.\n- The cat sleeps -\nNow it is\n",
        ),
        ("one\ntwo\n", "Tom cat sleep ANN: Now it is", "Tom cat sleep ANN:\nNow it is\n"),
        ("one\ntwo\n", "Yes sir >> Now it is", "Yes sir >>\nNow it is\n"),
        ("one\ntwo\n", "la la la ♪ la la la", "la la la ♪\nla la la\n"),
        ("one\ntwo\n", "they are 4242", "they are 4242\n"),
        ("one\ntwo\n", "who is [the cat]", "who is [the\ncat]\n"),
        ("one\ntwo\n", "[a dog] barks", "[a dog] barks\n"),
        ("one\ntwo\n", "a\u{b} b\u{b} \u{b} c", "a\u{b} b\u{b} \u{b} c\n"),
    ] {
        let subtitles = Subtitles::parse(&format!("{time}\n{before}{time}\nend"), Srt);
        let mut texts = subtitles.texts();
        let changed = texts.len() - 2;
        texts[changed] = text.to_owned();
        let found = subtitles.with_texts(&texts);
        assert_eq!(found, format!("{time}\n{after}{time}\nend"));
        assert_eq!(Subtitles::parse(&found, Srt).texts(), texts);
    }
    // A dash without a word is in a sentence, on one line as on several.
    assert_eq!(texts(&format!("{time}\nyes\n-\nno"), Srt), ["yes - no"]);
    assert_eq!(texts(&format!("{time}\nyes\n- no"), Srt), ["yes - no"]);
    // Lines between an empty one and the times of a cue are its identifier in WebVTT.
    let file = format!("{time}\none\n\ntwo\nthree\n{time}\nfour");
    assert_eq!(texts(&file, Vtt), ["one", "four"]);
    assert_eq!(texts(&file, Srt), ["one", "two three", "four"]);
}

/// A file that is written with its own texts has the same texts, whatever it consists of.
#[test]
fn files_of_any_pieces_keep_their_utterances() {
    use rand::{RngExt, SeedableRng};

    let pieces = [
        "- ",
        "-",
        ">>",
        "&gt;&gt;",
        "a",
        "Bcd",
        "éf",
        "ANN:",
        "42",
        "[",
        "]",
        "(",
        ")",
        "♪",
        "<i>",
        "</i>",
        "<v Ann>",
        "<v Ann",
        "<",
        ">",
        "<x-0>",
        "{\\an8}",
        " ",
        " ",
        " ",
        "\t",
        "\u{b}",
        "\u{a0}",
        "\n",
        "\n",
        "\n",
        "\r",
        "\r\n",
        "10:30",
        "-->",
        "->",
        "1,5",
        "\n00:01 --> 00:02\n",
        "\n00:01 --> 00:02\n",
        "NOTE",
    ];
    let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(7);
    for _ in 0..5_000 {
        let count = random.random_range(1..40);
        let file = (0..count).map(|_| pieces[random.random_range(0..pieces.len())]);
        let file = ["00:00 --> 00:01\n", &file.collect::<String>()].concat();
        for format in [Srt, Vtt] {
            let subtitles = Subtitles::parse(&file, format);
            let written = subtitles.with_texts(&subtitles.texts());
            let found = texts(&written, format);
            assert_eq!(found.len(), subtitles.texts().len(), "{file:?} {written:?}");
        }
    }
}
