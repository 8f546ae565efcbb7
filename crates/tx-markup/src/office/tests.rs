use std::{
    io::{Cursor, Read, Write},
    time::Duration,
};

use zip::{CompressionMethod, ZipArchive, ZipWriter, write::SimpleFileOptions};

use super::*;
use crate::{
    fixture,
    markup::Format,
    plan::{Plan, PlanOptions},
    unit::{Done, Unit},
};

const LIMIT: usize = 1 << 20;

fn open(content: Bytes, format: OfficeFormat, max_bytes: usize) -> Result<Document, MarkupError> {
    Document::read(content, format, max_bytes, &Deadline::after(Duration::MAX))
}

fn written(document: &Document, texts: &[String]) -> Result<Vec<u8>, MarkupError> {
    document.with_texts(texts, &Deadline::after(Duration::MAX))
}

/// The status with which a server answers.
fn status(error: &MarkupError) -> u16 {
    match error {
        MarkupError::Invalid(_) => 400,
        MarkupError::TooLarge(_) => 413,
        MarkupError::Infer(_) => 500,
        MarkupError::Late(_) => 503,
    }
}

fn archive(files: &[(&str, &str)]) -> Bytes {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, content) in files {
        let stored = *name == "mimetype";
        let method = if stored { CompressionMethod::Stored } else { CompressionMethod::Deflated };
        zip.start_file(*name, SimpleFileOptions::default().compression_method(method)).unwrap();
        zip.write_all(content.as_bytes()).unwrap();
    }
    zip.finish().unwrap().into_inner().into()
}

fn member(archive: &[u8], name: &str) -> String {
    let mut zip = ZipArchive::new(Cursor::new(archive)).unwrap();
    let mut text = String::new();
    zip.by_name(name).unwrap().read_to_string(&mut text).unwrap();
    text
}

/// A document with this body.
fn docx(body: &str) -> Bytes {
    let document =
        format!("<?xml version=\"1.0\"?>\r\n<w:document><w:body>{body}</w:body></w:document>");
    archive(&[("[Content_Types].xml", "<Types/>"), ("word/document.xml", &document)])
}

fn odt(body: &str) -> Bytes {
    let content = format!("<office:document-content>{body}</office:document-content>");
    archive(&[("mimetype", "application/vnd.oasis.opendocument.text"), ("content.xml", &content)])
}

fn read(content: Bytes, format: OfficeFormat) -> Document {
    open(content, format, LIMIT).unwrap()
}

/// The body with each paragraph changed by `change`.
fn changed(format: OfficeFormat, body: &str, change: impl Fn(&str) -> String) -> String {
    let (content, name) = match format {
        OfficeFormat::Docx => (docx(body), "word/document.xml"),
        OfficeFormat::Odt => (odt(body), "content.xml"),
    };
    let document = read(content, format);
    let texts: Vec<String> = document.texts().iter().map(|text| change(text)).collect();
    let xml = member(&written(&document, &texts).unwrap(), name);
    let (start, end) = match format {
        OfficeFormat::Docx => ("<w:body>", "</w:body>"),
        OfficeFormat::Odt => ("<office:document-content>", "</office:document-content>"),
    };
    let (_, rest) = xml.split_once(start).unwrap();
    rest.strip_suffix("</w:document>").unwrap_or(rest).strip_suffix(end).unwrap().to_owned()
}

/// Text in upper case, with its elements.
fn upper(html: &str) -> String {
    let mut is_tag = false;
    let change = |c: char| {
        is_tag = c == '<' || (is_tag && c != '>');
        if is_tag { c } else { c.to_ascii_uppercase() }
    };
    html.chars().map(change).collect::<String>().replace("&LT;", "&lt;").replace("&AMP;", "&amp;")
}

fn texts(format: OfficeFormat, body: &str) -> Vec<String> {
    match format {
        OfficeFormat::Docx => read(docx(body), format).texts(),
        OfficeFormat::Odt => read(odt(body), format).texts(),
    }
}

#[test]
fn runs_of_docx_keep_their_properties() {
    use OfficeFormat::Docx;
    let body = "<w:p w:x=\"1\"><w:pPr><w:jc/></w:pPr><w:r w:rsid=\"2\"><w:t>Some </w:t></w:r><w:r><w:t xml:space=\"preserve\">plain </w:t></w:r><w:r><w:rPr><w:b/></w:rPr><w:t>bold</w:t></w:r><w:r><w:t> &lt;text&gt; &#38; more.</w:t></w:r></w:p><w:sectPr/>";
    assert_eq!(texts(Docx, body), ["Some plain <x-0>bold</x-0> &lt;text&gt; &amp; more."]);
    let run = |properties: &str, text: &str| {
        format!("<w:r>{properties}<w:t xml:space=\"preserve\">{text}</w:t></w:r>")
    };
    let start = "<w:p w:x=\"1\"><w:pPr><w:jc/></w:pPr>";
    let expected = [
        start,
        &run("", "SOME PLAIN "),
        &run("<w:rPr><w:b/></w:rPr>", "BOLD"),
        &run("", " &lt;TEXT&gt; &amp; MORE."),
        "</w:p><w:sectPr/>",
    ];
    assert_eq!(changed(Docx, body, |text| upper(text).replace("&GT;", "&gt;")), expected.concat());
    // Elements that a translation moves, repeats, leaves open or invents.
    let moved =
        changed(Docx, body, |_| "<x-0>a<x-0>b</x-0></x-9></x-0> <i>c</i><x-0>d\u{1}".into());
    let bold = |text: &str| run("<w:rPr><w:b/></w:rPr>", text);
    let expected = [
        start,
        &bold("a"),
        &bold("b"),
        &run("", " "),
        &run("", "c"),
        &bold("d"),
        "</w:p><w:sectPr/>",
    ];
    assert_eq!(moved, expected.concat());
}

#[test]
fn what_is_no_text_stays_in_docx() {
    use OfficeFormat::Docx;
    let field = "<w:r><w:fldChar w:fldCharType=\"begin\"/></w:r><w:r><w:instrText> PAGE </w:instrText></w:r><w:r><w:fldChar w:fldCharType=\"separate\"/></w:r><w:r><w:t>seven</w:t></w:r><w:r><w:fldChar w:fldCharType=\"end\"/></w:r>";
    let body = format!(
        "<w:p><w:bookmarkStart w:id=\"1\"/><w:r><w:t>See </w:t></w:r><w:hyperlink r:id=\"r1\"><w:r><w:t>here</w:t></w:r></w:hyperlink><w:bookmarkEnd w:id=\"1\"/><w:r><w:t> page </w:t></w:r>{field}<w:r><w:tab/><w:t>after</w:t><w:drawing><w:p><w:r><w:t>box</w:t></w:r></w:p></w:drawing></w:r></w:p><w:p><w:r><w:t>12</w:t></w:r></w:p>"
    );
    assert_eq!(texts(Docx, &body), ["See <x-0>here</x-0> page <br x=\"1\">after", "box"]);
    let found = changed(Docx, &body, upper);
    assert_eq!(
        found,
        format!(
            "<w:p><w:bookmarkStart w:id=\"1\"/><w:r><w:t xml:space=\"preserve\">SEE </w:t></w:r><w:hyperlink r:id=\"r1\"><w:r><w:t xml:space=\"preserve\">HERE</w:t></w:r></w:hyperlink><w:r><w:t xml:space=\"preserve\"> PAGE </w:t></w:r>{field}<w:r><w:tab/><w:t xml:space=\"preserve\">AFTER</w:t></w:r><w:bookmarkEnd w:id=\"1\"/><w:r><w:drawing><w:p><w:r><w:t xml:space=\"preserve\">BOX</w:t></w:r></w:p></w:drawing></w:r></w:p><w:p><w:r><w:t>12</w:t></w:r></w:p>"
        )
    );
    // A translation without its elements loses none.
    let bare = changed(Docx, &body, |_| "x".into());
    assert!(bare.contains(field) && bare.contains("<w:tab/>") && bare.contains("<w:drawing>"));

    // Fields of several paragraphs, and what is not changed, are copied byte by byte.
    for same in [
        "<w:p><w:r><w:t>a</w:t><w:fldChar w:fldCharType=\"begin\"/></w:r></w:p>",
        "<w:p><w:r><w:fldChar w:fldCharType=\"end\"/><w:t>a</w:t></w:r></w:p>",
        "<w:p/><w:tbl>\n <!-- a --> </w:tbl>",
        "<w:p><w:del><w:r><w:delText>gone</w:delText></w:r></w:del></w:p>",
    ] {
        assert_eq!(changed(Docx, same, upper), same);
    }
}

#[test]
fn spans_of_odt_keep_their_tags() {
    use OfficeFormat::Odt;
    let body = "<text:h text:level=\"1\">A title</text:h><text:p>one <text:span text:style-name=\"T1\">bold<text:s text:c=\"3\"/>word</text:span>, <text:a xlink:href=\"x\">link</text:a><text:line-break/>next<text:note><text:note-body><text:p>A note.</text:p></text:note-body></text:note> end</text:p><text:p>&#8212;</text:p>";
    assert_eq!(
        texts(Odt, body),
        [
            "A title",
            "A note.",
            "one <x-0>bold word</x-0>, <x-1>link</x-1><br x=\"2\">next<x-3/> end"
        ]
    );
    let expected = body
        .replace("A title", "A TITLE")
        .replace(">one ", ">ONE ")
        .replace("bold<text:s text:c=\"3\"/>word", "BOLD WORD")
        .replace(">link<", ">LINK<")
        .replace(">next<", ">NEXT<")
        .replace("A note.", "A NOTE.")
        .replace(" end<", " END<");
    assert_eq!(changed(Odt, body, upper), expected);
}

#[test]
fn other_files_are_copied_and_headers_translated() {
    let paragraph = |text: &str| format!("<w:p><w:r><w:t>{text}</w:t></w:r></w:p>");
    let content = archive(&[
        ("word/media/image1.png", "\u{1}\u{2}"),
        ("word/document.xml", &paragraph("body")),
        ("word/header1.xml", &paragraph("head")),
        ("word/footnotes.xml", &paragraph("note")),
        ("word/styles.xml", &paragraph("style")),
    ]);
    let document = read(content, OfficeFormat::Docx);
    assert_eq!(document.plain_texts(), ["body", "head", "note"]);
    let new = written(&document, &["a", "b", "c"].map(String::from)).unwrap();
    assert!(member(&new, "word/header1.xml").contains(">b<"));
    assert_eq!(member(&new, "word/styles.xml"), paragraph("style"));
    assert_eq!(member(&new, "word/media/image1.png"), "\u{1}\u{2}");

    let new = read(odt("<text:p>a</text:p>"), OfficeFormat::Odt);
    let new = written(&new, &["b".into()]).unwrap();
    // The type is readable in the first bytes of the file.
    assert_eq!(&new[30..46], b"mimetypeapplicat");
}

#[test]
fn what_is_no_document_or_too_large_is_refused() {
    let refused = |content: Bytes, format, limit| match open(content, format, limit) {
        Err(error) => (status(&error), error.to_string()),
        Ok(_) => panic!("the document is accepted"),
    };
    let docx_of = |xml: &str| archive(&[("word/document.xml", xml)]);
    for (content, message) in [
        (Bytes::from("no archive"), "not a .docx document"),
        (Bytes::new(), "not a .docx document"),
        (odt(""), "no file `word/document.xml`"),
        (docx_of("<w:p>"), "`word/document.xml`: it ends before"),
        (docx_of("<w:p>&unknown;</w:p>"), "`unknown` is not known"),
        (docx_of(&("<w:p>".repeat(200) + &"</w:p>".repeat(200))), "deeper"),
    ] {
        let (status, found) = refused(content, OfficeFormat::Docx, LIMIT);
        assert!(status == 400 && found.contains(message), "{status} {found}");
    }
    // 64 MiB of spaces take 64 KiB.
    let bomb = docx_of(&" ".repeat(64 << 20));
    assert!(bomb.len() < 100_000);
    let (status, found) = refused(bomb, OfficeFormat::Docx, LIMIT);
    assert!(status == 413 && found.contains("more than 16777216 bytes"), "{found}");
    let many = docx_of(&"<a/>".repeat(MAX_NODES + 1));
    assert_eq!(refused(many, OfficeFormat::Docx, LIMIT).0, 400);
    let (status, found) =
        refused(docx("<w:p><w:r><w:t>0123456789a</w:t></w:r></w:p>"), OfficeFormat::Docx, 10);
    assert!(status == 413, "{found}");
    // A truncated or damaged file.
    let whole = docx("<w:p><w:r><w:t>a text that is long enough</w:t></w:r></w:p>");
    for length in 0..whole.len() {
        assert_eq!(refused(whole.slice(..length), OfficeFormat::Docx, LIMIT).0, 400);
        let mut damaged = whole.to_vec();
        damaged[length] ^= 0x55;
        if let Ok(document) = open(damaged.into(), OfficeFormat::Docx, LIMIT) {
            let _ = written(&document, &document.texts());
        }
    }
}

/// The body with each paragraph divided into sentences, whose words are translated to their upper case.
fn translated(format: OfficeFormat, body: &str) -> String {
    let options = PlanOptions { format: Format::Html, ..PlanOptions::default() };
    changed(format, body, |text| {
        let mut plan =
            Plan::new(text, fixture::translator(), &options, &fixture::deadline()).unwrap();
        let results: Vec<Done> = plan.take_units().iter().map(upper_unit).collect();
        plan.finish(&results, 0)
    })
}

fn upper_unit(unit: &Unit) -> Done {
    let translation = tx_infer::Translation::of_text(unit.text.to_uppercase());
    let words: Vec<String> = unit.text.split_whitespace().map(str::to_owned).collect();
    let row = |word| (0..words.len()).map(|other| f32::from(u8::from(word == other))).collect();
    let weights = (0..words.len()).map(row).collect();
    let target = translation.text.split_whitespace().map(str::to_owned).collect();
    Done { translation, alignment: Some(tx_infer::Alignment { source: words, target, weights }) }
}

/// The text that a reader sees: tabs and line breaks, and other parts by their names.
fn visible(xml: &str) -> String {
    let tree = tree::parse(xml, &mut 10_000).unwrap();
    let mut text = String::new();
    for node in tree.elements().filter(|node| !node.name().is_empty()) {
        match node.name() {
            "w:t" => text.push_str(&node.inner_text()),
            "w:tab" => text.push('\t'),
            "w:br" => text.push('\n'),
            "w:footnoteReference" | "w:drawing" | "w:sym" => text.push('*'),
            "w:p" if !text.is_empty() => text.push('|'),
            _ => {}
        }
    }
    text
}

#[test]
fn spaces_stay_at_what_is_no_text() {
    use OfficeFormat::{Docx, Odt};
    let run = |text: &str| format!("<w:r><w:t xml:space=\"preserve\">{text}</w:t></w:r>");
    let simple = |name: &str, text: &str| {
        format!("<w:fldSimple w:instr=\" {name} \">{}</w:fldSimple>", run(text))
    };
    let character = |kind: &str| format!("<w:r><w:fldChar w:fldCharType=\"{kind}\"/></w:r>");
    let field = [
        &character("begin"),
        "<w:r><w:instrText> PAGE </w:instrText></w:r>",
        &character("separate"),
        &run("3"),
        &character("end"),
    ]
    .concat();
    let note = "<w:r><w:rPr><w:rStyle w:val=\"FootnoteReference\"/></w:rPr><w:footnoteReference w:id=\"2\"/></w:r>";
    let symbol = "<w:r><w:sym w:font=\"Wingdings\" w:char=\"F04A\"/></w:r>";
    let image = "<w:r><w:drawing/></w:r>";
    let bookmark = "<w:bookmarkStart w:id=\"1\"/><w:bookmarkEnd w:id=\"1\"/>";
    let superscript = "<w:r><w:rPr><w:vertAlign w:val=\"superscript\"/></w:rPr><w:t>1</w:t></w:r>";
    let link = |text: &str| format!("<w:hyperlink r:id=\"a\">{}</w:hyperlink>", run(text));
    for (body, expected) in [
        (run("See ") + &simple("REF x", "table 1"), "SEE table 1"),
        (run("Page ") + &simple("PAGE", "3"), "PAGE 3"),
        (run("Page ") + &field, "PAGE 3"),
        (run("Page ") + &field + &run(" of ") + &simple("NUMPAGES", "9"), "PAGE 3 OF 9"),
        (simple("REF x", "table 1") + &run(" shows it."), "table 1 SHOWS IT."),
        (field.clone() + &run(". page"), "3. PAGE"),
        (run("It sleeps ") + symbol, "IT SLEEPS *"),
        (run("It sleeps.") + note, "IT SLEEPS.*"),
        (run("It sleeps. It") + note, "IT SLEEPS. IT*"),
        (run("It") + note + &run(" sleeps."), "IT* SLEEPS."),
        (run("It") + superscript + &run(" sleeps."), "IT1 SLEEPS."),
        (run("It") + &link("[1]") + &run(" sleeps."), "IT[1] SLEEPS."),
        (run("It sleeps") + superscript, "IT SLEEPS1"),
        (run("It sleeps ") + &link("[1]"), "IT SLEEPS [1]"),
        (image.to_owned() + &run(" It sleeps ") + image, "* IT SLEEPS *"),
        (run("See ") + &link("this") + &run(" now."), "SEE THIS NOW."),
        (run("See ") + &link("this "), "SEE THIS "),
        (run("See ") + bookmark + &run("this ") + bookmark + &run("now."), "SEE THIS NOW."),
        (
            "<w:r><w:tab/><w:t>one</w:t><w:tab/><w:t xml:space=\"preserve\">two </w:t><w:br/><w:t>three</w:t><w:br/></w:r>"
                .to_owned(),
            "\tONE\tTWO \nTHREE\n",
        ),
        (
            "<w:hyperlink r:id=\"a\"><w:r><w:t>one</w:t><w:tab/><w:t>two</w:t></w:r></w:hyperlink>"
                .to_owned(),
            "ONE\tTWO",
        ),
    ] {
        let found = translated(Docx, &format!("<w:p><w:pPr><w:jc/></w:pPr>{body}</w:p>"));
        assert_eq!(visible(&found), expected, "{body}\n{found}");
        assert!(found.starts_with("<w:p><w:pPr><w:jc/></w:pPr>"), "{found}");
    }
    let page = "<text:page-number>3</text:page-number>";
    let note = "<text:note text:id=\"1\"><text:note-citation>1</text:note-citation></text:note>";
    let frame = "<draw:frame/>";
    for (body, expected) in [
        (format!("Page {page}"), format!("PAGE {page}")),
        (format!("Page {page} of {page}"), format!("PAGE {page} OF {page}")),
        (format!("{page} is the page"), format!("{page} IS THE PAGE")),
        (format!("It sleeps.{note}"), format!("IT SLEEPS.{note}")),
        (format!("It{note} sleeps.{note}"), format!("IT{note} SLEEPS.{note}")),
        (format!("{frame} It sleeps {frame}"), format!("{frame} IT SLEEPS {frame}")),
        ("<text:s text:c=\"4\"/>It sleeps".into(), "<text:s text:c=\"4\"/>IT SLEEPS".into()),
        (
            "<text:tab/>one<text:tab/>two <text:line-break/>three".into(),
            "<text:tab/>ONE<text:tab/>TWO <text:line-break/>THREE".into(),
        ),
        (
            "It <text:a xlink:href=\"#1\">[1]</text:a> sleeps".into(),
            "IT <text:a xlink:href=\"#1\">[1]</text:a> SLEEPS".into(),
        ),
    ] {
        let found = translated(Odt, &format!("<text:p>{body}</text:p>"));
        assert_eq!(found, format!("<text:p>{expected}</text:p>"));
    }
    // An element of white space alone does not glue the words around it.
    let found =
        translated(Odt, "<text:p>one<text:span text:style-name=\"B\"> </text:span>two</text:p>");
    let words = found.replace("<text:span text:style-name=\"B\">", "").replace("</text:span>", "");
    assert_eq!(words, "<text:p>ONE TWO</text:p>");
    let styles = "<office:automatic-styles><style:style style:name=\"T1\"><style:text-properties style:text-position=\"super 58%\"/></style:style></office:automatic-styles>";
    let raised = "<text:p>It<text:span text:style-name=\"T1\">1</text:span> sleeps</text:p>";
    assert_eq!(texts(Odt, &format!("{styles}{raised}")), ["It<x-0/> sleeps"]);
    assert_eq!(texts(Odt, raised), ["It<x-0>1</x-0> sleeps"]);
}

/// Visiting the content of each level twice would take 2^40 steps.
#[test]
fn nested_paragraphs_are_visited_once() {
    use OfficeFormat::{Docx, Odt};
    let nested = |open: &str, text: &str, close: &str| open.repeat(40) + text + &close.repeat(40);
    let begin = "<w:r><w:fldChar w:fldCharType=\"begin\"/></w:r>";
    let (open, close) = ("<w:r><w:pict>", "</w:pict></w:r></w:p>");
    let cat = "<w:p><w:r><w:t>cat</w:t></w:r></w:p>";
    let words = format!("<w:p><w:r><w:t>a</w:t></w:r>{open}");
    for (start, count) in [
        (format!("<w:p>{open}"), 1),
        (words, 41),
        // Paragraphs that are copied, because a field does not end in them.
        (format!("<w:p><w:r><w:t>a</w:t></w:r>{begin}{open}"), 1),
    ] {
        let body = nested(&start, cat, close);
        assert_eq!(texts(Docx, &body).len(), count);
        assert!(changed(Docx, &body, upper).contains("CAT"));
    }
    for (start, count) in [("<text:p><draw:frame>", 1), ("<text:p>a<draw:frame>", 41)] {
        let body = nested(start, "<text:p>cat</text:p>", "</draw:frame></text:p>");
        assert_eq!(texts(Odt, &body).len(), count);
        assert!(changed(Odt, &body, upper).contains("CAT"));
    }
    // Links in links, each without words of its own.
    let body = format!(
        "<w:p>{}</w:p>",
        "<w:hyperlink>".repeat(120) + "<w:r><w:t>cat</w:t></w:r>" + &"</w:hyperlink>".repeat(120)
    );
    assert!(changed(Docx, &body, upper).contains("CAT"));
}

#[test]
fn properties_are_not_repeated_for_each_part_of_a_run() {
    let properties = format!("<w:rPr>{}</w:rPr>", "<a b=\"c\"/>".repeat(1000));
    let field = "<w:fldChar w:fldCharType=\"begin\"/><w:instrText>A</w:instrText><w:fldChar w:fldCharType=\"end\"/>";
    for part in ["<w:tab/>", "<w:t>dog</w:t><w:tab/>", "<w:sym/>", field, "<w:t>dog</w:t><w:sym/>"]
    {
        let body = format!(
            "<w:p><w:r>{properties}<w:t>cat</w:t>{parts}<w:t>cat</w:t></w:r><w:r><w:t>the other text of it</w:t></w:r></w:p>",
            parts = part.repeat(1000)
        );
        let found = changed(OfficeFormat::Docx, &body, upper);
        assert_eq!(found.matches("CAT").count(), 2);
        assert!(found.len() < 8 * body.len(), "{part}: {} of {}", found.len(), body.len());
    }
}

#[test]
fn a_document_nobody_waits_for_is_not_read() {
    let content = docx("<w:p><w:r><w:t>cat</w:t></w:r></w:p>");
    let over = Deadline::after(Duration::ZERO);
    let error = Document::read(content.clone(), OfficeFormat::Docx, LIMIT, &over).unwrap_err();
    assert_eq!(status(&error), 503);
    let document = read(content, OfficeFormat::Docx);
    assert_eq!(status(&document.with_texts(&["dog".into()], &over).unwrap_err()), 503);
}

/// A translation that repeats elements cannot make a document larger than the limit.
#[test]
fn the_translated_document_has_a_limit() {
    let run = |properties: &str, text: &str| {
        format!("<w:r><w:rPr>{properties}</w:rPr><w:t>{text}</w:t></w:r>")
    };
    let body =
        format!("<w:p>{}{}</w:p>", run("<w:b/>", "the base"), run(&"<a/>".repeat(2000), "x"));
    let document = open(docx(&body), OfficeFormat::Docx, 1000).unwrap();
    assert_eq!(document.texts(), ["the base<x-0>x</x-0>"]);
    assert!(written(&document, &["<x-0>a</x-0>b".into()]).is_ok());
    let error = written(&document, &["<x-0>a</x-0>b".repeat(1000)]).unwrap_err();
    assert!(
        status(&error) == 413 && error.to_string().contains("more than 32000 bytes"),
        "{error}"
    );
}

/// Archive whose directory has `names` after the main file, all of which refer to the same bytes.
fn overlapping(main: &str, names: &[&str]) -> Vec<u8> {
    let number = |value: usize, length: usize| value.to_le_bytes()[..length].to_vec();
    let record = |signature: &[u8], name: &str, size: usize, crc: usize, central: Option<usize>| {
        let mut record = signature.to_vec();
        // Version that is needed, flags, method, time, date.
        record.extend([20, 0, 0, 0, 0, 0, 0, 0, 0x21, 0]);
        for (value, length) in [(crc, 4), (size, 4), (size, 4), (name.len(), 2), (0, 2)] {
            record.extend(number(value, length));
        }
        if let Some(offset) = central {
            record.extend([0; 10]);
            record.extend(number(offset, 4));
        }
        record.extend(name.as_bytes());
        record
    };
    let crc = |content: &[u8]| {
        let step = |crc: u32| if crc & 1 == 1 { (crc >> 1) ^ 0xEDB8_8320 } else { crc >> 1 };
        let byte = |crc: u32, byte: &u8| (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc));
        !content.iter().fold(!0, byte) as usize
    };
    let name = "word/document.xml";
    let local = [80, 75, 3, 4];
    let central = [80, 75, 1, 2, 20, 0];
    let (crc, blob) = (crc(main.as_bytes()), [7; 5000]);
    let mut file = record(&local, name, main.len(), crc, None);
    file.extend(main.as_bytes());
    let mut directory = record(&central, name, main.len(), crc, Some(0));
    for name in names {
        directory.extend(record(&central, name, blob.len(), 0, Some(file.len())));
    }
    file.extend(record(&local, "b", blob.len(), 0, None));
    file.extend(blob);
    let end = [
        (0, 4),
        (names.len() + 1, 2),
        (names.len() + 1, 2),
        (directory.len(), 4),
        (file.len(), 4),
        (0, 2),
    ];
    file.extend(directory);
    file.extend([80, 75, 5, 6]);
    end.into_iter().for_each(|(value, length)| file.extend(number(value, length)));
    file
}

#[test]
fn archives_whose_copy_would_be_larger_are_refused() {
    let main = "<w:p><w:r><w:t>the cat</w:t></w:r></w:p>";
    let refused = |file: Vec<u8>| match open(file.into(), OfficeFormat::Docx, LIMIT) {
        Err(error) => (status(&error), error.to_string()),
        Ok(_) => panic!("the document is accepted"),
    };
    let single = open(overlapping(main, &["b"]).into(), OfficeFormat::Docx, LIMIT).unwrap();
    assert_eq!(single.texts(), ["the cat"]);
    let (status, message) = refused(overlapping(main, &["b", "c", "d"]));
    assert!(status == 400 && message.contains("files of the archive overlap"), "{message}");
    // The same name twice: programs differ in the file that they read.
    let twice = archive(&[("word/document.xml", main), ("word/document.xmk", main)]);
    let mut twice = twice.to_vec();
    for at in 0..twice.len() {
        if twice[at..].starts_with(b"xmk") {
            twice[at + 2] = b'l';
        }
    }
    let (status, message) = refused(twice);
    assert!(status == 400 && message.contains("the same name"), "{message}");
    // Sizes in the directory beyond the content.
    let mut beyond = overlapping(main, &["b"]);
    let at = beyond.windows(4).rposition(|bytes| bytes == [80, 75, 1, 2]).unwrap();
    beyond[at + 20..at + 24].copy_from_slice(&[0, 0, 0, 1]);
    assert_eq!(refused(beyond).0, 400);
}
