//! Files that are translated as a whole: only their text changes.

use std::io::{Cursor, Read};

use zip::{ZipArchive, ZipWriter, write::SimpleFileOptions};

use crate::*;

/// The translation as text of HTML and XML.
fn expected(source: &str) -> String {
    let found = translator(SearchOptions::default()).translate(source).unwrap().text;
    found.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn archive(name: &str, xml: &str) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, content) in [(name, xml), ("picture.png", "\u{1}\u{2}")] {
        writer.start_file(name, SimpleFileOptions::default()).unwrap();
        writer.write_all(content.as_bytes()).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

fn member(archive: &[u8], name: &str) -> String {
    let mut text = String::new();
    let mut archive = ZipArchive::new(Cursor::new(archive)).unwrap();
    archive.by_name(name).unwrap().read_to_string(&mut text).unwrap();
    text
}

#[test]
fn texts_in_markup_are_translated() {
    let folder = tempfile::tempdir().unwrap();
    let (two, three) = (expected("one two"), expected("three four five"));
    let page = |two: &str, three: &str| {
        format!("<!-- one --><h1 title='one'>{two}</h1>\n<script>one</script><p>{three}</p>\n")
    };
    let xml = |two: &str, three: &str| {
        format!("<?xml version=\"1.0\"?>\n<a><b x='one'>{two}</b>\n <c>{three}</c><d>1</d></a>\n")
    };
    let vtt = |two: &str, three: &str| {
        format!(
            "WEBVTT\n\nNOTE one\n\n1\n00:01.000 --> 00:02.000\n{two}\n\n00:03.000 --> 00:04.000\n- {three}\n"
        )
    };
    for (name, content, translated) in [
        ("a.html", page("one two", "three four five"), page(&two, &three)),
        ("a.HTM", page("one two", "three four five"), page(&two, &three)),
        ("a.xml", xml("one two", "three four five"), xml(&two, &three)),
        ("a.vtt", vtt("one two", "three four five"), vtt(&two, &three)),
    ] {
        let input = file(&folder, name, &content);
        assert_eq!(translate(&["--input", &input], "").printed(), translated, "{name}");
        let output = folder.path().join("output");
        let written = translate(&["--input", &input, "--output", output.to_str().unwrap()], "");
        assert_eq!(written.printed(), "");
        assert_eq!(fs::read_to_string(output).unwrap(), translated, "{name}");
    }
    // Standard input and texts have no extension; lines are the format of other files.
    let page = "<p>one two</p>";
    let translated = format!("<p>{two}</p>");
    assert_eq!(translate(&["--format", "html"], page).printed(), translated);
    assert_eq!(translate(&["--format", "html", "--text", page], "").printed(), translated);
    let lines = file(&folder, "lines.html", "one two\n");
    let text = file(&folder, "lines.txt", "one two\n");
    let by_line = translate(&["--input", &text], "").printed();
    assert_eq!(translate(&["--input", &lines, "--format", "lines"], "").printed(), by_line);
}

#[test]
fn a_tag_in_a_sentence_is_in_its_translation_once() {
    for options in
        [&["--alignment-layer", "1"][..], &["--alignment-head", "2"], &["--ensemble", model()]]
    {
        let arguments = [&["--format", "html", "--text", "one <b>two</b> three"], options].concat();
        let found = translate(&arguments, "").printed();
        assert_eq!(
            (found.matches("<b>").count(), found.matches("</b>").count()),
            (1, 1),
            "{found}"
        );
    }
}

#[test]
fn documents_keep_everything_but_their_text() {
    let folder = tempfile::tempdir().unwrap();
    let docx = "<w:document xmlns:w=\"w\"><w:body><w:p><w:pPr/><w:r><w:t>one two</w:t></w:r></w:p></w:body></w:document>";
    let odt = "<office:document-content xmlns:text=\"t\" xmlns:office=\"o\"><text:p text:style-name=\"one\">one two</text:p></office:document-content>";
    for (name, main, xml) in [("a.docx", "word/document.xml", docx), ("a.odt", "content.xml", odt)]
    {
        let input = file(&folder, name, archive(main, xml));
        let output = folder.path().join(format!("translated-{name}"));
        translate(&["--input", &input, "--output", output.to_str().unwrap()], "").printed();
        let written = fs::read(output).unwrap();
        let found = member(&written, main);
        assert!(found.contains(&format!(">{}<", expected("one two"))), "{found}");
        assert!(found.contains("<w:pPr/>") || found.contains("style-name=\"one\""), "{found}");
        assert_eq!(member(&written, "picture.png"), "\u{1}\u{2}");
    }
}

#[test]
fn damaged_files_are_named_and_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("output");
    let output = output.to_str().unwrap();
    for (name, content, problem) in [
        ("a.docx", b"PK\x03\x04one".to_vec(), "not a .docx document"),
        ("b.docx", archive("content.xml", "<a/>"), "no file `word/document.xml`"),
        ("a.odt", Vec::new(), "not a .odt document"),
        ("a.xml", b"<a>one".to_vec(), "not well-formed"),
        ("a.srt", b"caf\xe9".to_vec(), "neither UTF-8"),
    ] {
        let input = file(&folder, name, content);
        translate(&["--input", &input, "--output", output], "").failed(1, &[name, problem]);
        assert!(!Path::new(output).exists());
    }
    let missing = folder.path().join("missing.html");
    translate(&["--input", missing.to_str().unwrap()], "").failed(1, &["missing.html"]);
}

#[test]
fn options_of_lines_conflict_with_files() {
    let folder = tempfile::tempdir().unwrap();
    let input = file(&folder, "a.html", "one");
    for option in [
        &["--json"][..],
        &["--n-best", "2"],
        &["--alignment", "pharaoh"],
        &["--prefix", "one"],
        &["--split", "lines"],
        &["--invalid", "replace"],
    ] {
        let arguments = [&["--input", &input], option].concat();
        translate(&arguments, "").failed(2, &[option[0], "--format lines"]);
    }
    translate(&["--output", "x"], "one").failed(2, &["--output", "lines"]);
}
