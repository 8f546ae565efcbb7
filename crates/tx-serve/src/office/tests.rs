use std::io::{Cursor, Read, Write};

use zip::{CompressionMethod, ZipArchive, ZipWriter, write::SimpleFileOptions};

use super::*;

const LIMIT: usize = 1 << 20;

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
    Document::read(content, format, LIMIT).unwrap()
}

/// The body with each paragraph changed by `change`.
fn changed(format: OfficeFormat, body: &str, change: impl Fn(&str) -> String) -> String {
    let (content, name) = match format {
        OfficeFormat::Docx => (docx(body), "word/document.xml"),
        OfficeFormat::Odt => (odt(body), "content.xml"),
    };
    let document = read(content, format);
    let texts: Vec<String> = document.texts().iter().map(|text| change(text)).collect();
    let xml = member(&document.with_texts(&texts).unwrap(), name);
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
    assert_eq!(
        texts(Docx, &body),
        ["box", "See <x-0>here</x-0> page <x-1/><br x=\"2\">after<x-3/>"]
    );
    let found = changed(Docx, &body, upper);
    assert_eq!(
        found,
        format!(
            "<w:p><w:bookmarkStart w:id=\"1\"/><w:r><w:t xml:space=\"preserve\">SEE </w:t></w:r><w:hyperlink r:id=\"r1\"><w:r><w:t xml:space=\"preserve\">HERE</w:t></w:r></w:hyperlink><w:r><w:t xml:space=\"preserve\"> PAGE </w:t></w:r>{field}<w:r><w:tab/></w:r><w:r><w:t xml:space=\"preserve\">AFTER</w:t></w:r><w:r><w:drawing><w:p><w:r><w:t xml:space=\"preserve\">BOX</w:t></w:r></w:p></w:drawing></w:r><w:bookmarkEnd w:id=\"1\"/></w:p><w:p><w:r><w:t>12</w:t></w:r></w:p>"
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
    let new = document.with_texts(&["a", "b", "c"].map(String::from)).unwrap();
    assert!(member(&new, "word/header1.xml").contains(">b<"));
    assert_eq!(member(&new, "word/styles.xml"), paragraph("style"));
    assert_eq!(member(&new, "word/media/image1.png"), "\u{1}\u{2}");

    let new = read(odt("<text:p>a</text:p>"), OfficeFormat::Odt).with_texts(&["b".into()]).unwrap();
    // The type is readable in the first bytes of the file.
    assert_eq!(&new[30..46], b"mimetypeapplicat");
}

#[test]
fn what_is_no_document_or_too_large_is_refused() {
    let refused = |content: Bytes, format, limit| match Document::read(content, format, limit) {
        Err(error) => (error.status(), error.to_string()),
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
        if let Ok(document) = Document::read(damaged.into(), OfficeFormat::Docx, LIMIT) {
            let _ = document.with_texts(&document.texts());
        }
    }
}
