//! Every format with every compression gives the same pairs. Errors name file, member and line.

mod hostile;
mod labels;
mod mutated;

use std::{
    fs,
    io::{Cursor, Write},
    path::{Path, PathBuf},
};

use flate2::{Compression, write::GzEncoder};
use tempfile::TempDir;
use tx_text::{SentencePair, TextError};
use zip::{CompressionMethod, ZipWriter, write::SimpleFileOptions};

use super::{
    columns::Columns,
    format::Format,
    read::{ReadOptions, lines, pairs, parallel, table_layout},
};
use crate::{encode::TargetSide, error::DataError};

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures");

/// Temporary folder with files.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    }
}

fn languages(source: &str, target: &str) -> ReadOptions {
    let columns = Columns {
        source_language: Some(source.into()),
        target_language: Some(target.into()),
        ..Columns::default()
    };
    ReadOptions { columns, ..ReadOptions::default() }
}

fn read(path: &Path, options: &ReadOptions) -> Result<Vec<SentencePair>, DataError> {
    pairs(path, options)?.collect()
}

/// Error with all its sources, as the programs print it.
fn chain(error: &DataError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text += &format!(": {error}");
        cause = error.source();
    }
    text
}

fn fails(path: &Path, options: &ReadOptions, words: &[&str]) -> DataError {
    let error = read(path, options).unwrap_err();
    let text = chain(&error);
    for word in words {
        assert!(text.contains(word), "no `{word}` in: {text}");
    }
    error
}

/// Pairs in every file of these tests.
pub(super) fn expected() -> Vec<SentencePair> {
    vec![
        SentencePair::new("Hello, \"you\" & <b>!", "Ciao, \"tu\" & <b>!"),
        SentencePair::new("Where is the cat?", "Dov'è il gatto?"),
        SentencePair::new("日本", "𝄞 Giappone"),
    ]
}

pub(super) fn tsv() -> String {
    expected().iter().map(|pair| format!("{}\t{}\tnote\n", pair.source, pair.target)).collect()
}

pub(super) fn csv_with(separator: &str, header: &str) -> String {
    let quote = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
    let mut text = header.to_owned();
    for pair in expected() {
        text += &[quote(&pair.source), quote(&pair.target)].join(separator);
        text += "\r\n";
    }
    text
}

pub(super) fn jsonl() -> String {
    let line = |pair: &SentencePair| serde_json::json!({"id": "1", "translation": {"en": pair.source, "it": pair.target}});
    expected().iter().map(|pair| format!("{}\n", line(pair))).collect()
}

pub(super) fn tmx() -> String {
    let escape =
        |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;");
    let mut text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE tmx SYSTEM \
                    \"tmx14.dtd\">\n<tmx version=\"1.4\">\n<header srclang=\"en\"/><body>\n"
        .to_owned();
    for pair in expected() {
        text += &format!(
            "<tu><tuv xml:lang=\"de\"><seg>nein</seg></tuv>\n<tuv \
             xml:lang=\"en-US\"><seg>{}</seg></tuv>\n<tuv \
             xml:lang=\"IT\"><seg>{}</seg></tuv></tu>\n",
            escape(&pair.source),
            escape(&pair.target)
        );
    }
    text + "</body></tmx>\n"
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::default());
    packer.write_all(bytes).unwrap();
    packer.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    ::zstd::encode_all(bytes, 3).unwrap()
}

fn zip(method: CompressionMethod, members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(method);
    for (name, bytes) in members {
        archive.start_file(*name, options).unwrap();
        archive.write_all(bytes).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

fn deflated(members: &[(&str, &[u8])]) -> Vec<u8> {
    zip(CompressionMethod::Deflated, members)
}

fn tar(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut archive = ::tar::Builder::new(Vec::new());
    for (name, bytes) in members {
        let mut header = ::tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, name, *bytes).unwrap();
    }
    archive.into_inner().unwrap()
}

/// Compressions and archives of the given bytes.
pub(super) fn packings(name: &str, bytes: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let about: &[u8] = b"about these files\n";
    let members = [("_about.txt", about), (name, bytes)];
    let packed_name = format!("deep/er/{name}.gz");
    let packed = gzip(bytes);
    vec![
        ("plain", bytes.to_vec()),
        ("gzip", gzip(bytes)),
        ("zstd", zstd(bytes)),
        ("zip, deflated", deflated(&members)),
        ("zip, stored", zip(CompressionMethod::Stored, &members)),
        ("zip, zstd", zip(CompressionMethod::Zstd, &members)),
        ("tar", tar(&members)),
        ("tar.gz", gzip(&tar(&members))),
        ("tar.zst", zstd(&tar(&members))),
        ("gz in tar.gz", gzip(&tar(&[("LICENSE", about), (&packed_name, &packed)]))),
        ("gz in zip", deflated(&[("README.md", about), (&packed_name, &packed)])),
    ]
}

#[test]
fn every_format_in_every_packing_gives_the_same_pairs() {
    let folder = Folder::new();
    let both = [
        ("pairs.tsv", tsv()),
        ("pairs.csv", csv_with(",", "")),
        ("pairs.csv", csv_with(";", "en;it\n")),
        ("pairs.jsonl", jsonl()),
        ("pairs.tmx", tmx()),
    ];
    for (name, text) in both {
        for (packing, bytes) in packings(name, text.as_bytes()) {
            // Detection ignores the file name.
            let path = folder.file("anything", bytes);
            let read = read(&path, &languages("en", "it"));
            assert_eq!(read.unwrap_or_else(|e| panic!("{name}, {packing}: {e}")), expected());
        }
    }
}

#[test]
fn parquet_is_read_in_every_packing() {
    let folder = Folder::new();
    let fixture = fs::read(Path::new(FIXTURES).join("opus_books.en-it.parquet")).unwrap();
    for (packing, bytes) in packings("train.parquet", &fixture) {
        let path = folder.file("anything", bytes);
        let read = read(&path, &languages("it", "en"));
        let read = read.unwrap_or_else(|e| panic!("{packing}: {}", chain(&e)));
        assert_eq!(read.len(), 6, "{packing}");
        assert_eq!(read[1], SentencePair::new("Jane Eyre", "Jane Eyre"));
        let cat = SentencePair::new("«Cattiva gatta!» — disse.", "“Naughty cat!” — she said.");
        assert_eq!(read[3], cat);
        // A null side, and a null struct.
        assert_eq!(read[4], SentencePair::new("", "only English"));
        assert_eq!(read[5], SentencePair::new("", ""));
    }
}

#[test]
fn parquet_with_text_columns_is_read_with_every_codec() {
    for (codec, rows) in [("none", 30), ("gzip", 30), ("lz4", 30), ("zstd", 5_000)] {
        let path = Path::new(FIXTURES).join(format!("flat.{codec}.parquet"));
        let read = read(&path, &languages("en", "de")).unwrap();
        assert_eq!(read.len(), rows, "{codec}");
        for (row, pair) in read.iter().enumerate() {
            let expected =
                SentencePair::new(format!("sentence {}", row % 10), format!("Satz {row}"));
            assert_eq!(*pair, expected, "{codec}");
        }
    }
    let path = Path::new(FIXTURES).join("flat.none.parquet");
    let wrong = ReadOptions {
        columns: Columns { source: Some("fr".into()), ..Columns::default() },
        ..languages("en", "fr")
    };
    fails(&path, &wrong, &["column `fr` not found; available: de, en"]);
    // Two text columns are the two sides under any name; a given name selects its column.
    assert_eq!(read(&path, &languages("en", "fr")).unwrap()[0].target, "Satz 0");
}

#[test]
fn two_texts_are_read_in_every_packing() {
    let folder = Folder::new();
    let side = |side: fn(&SentencePair) -> &String| {
        expected().iter().map(|pair| format!("{}\r\n", side(pair))).collect::<String>()
    };
    let (sources, targets) = (side(|pair| &pair.source), side(|pair| &pair.target));
    let sources = packings("train.en", sources.as_bytes());
    for ((packing, source), (_, target)) in
        sources.into_iter().zip(packings("train.it", targets.as_bytes()))
    {
        let (source, target) = (folder.file("a", source), folder.file("b", target));
        let read: Result<Vec<_>, _> =
            parallel(&source, &target, &ReadOptions::default()).unwrap().collect();
        assert_eq!(read.unwrap_or_else(|e| panic!("{packing}: {e}")), expected());
    }
}

#[test]
fn moses_archives_are_read_by_their_languages() {
    let folder = Folder::new();
    let members: [(&str, &[u8]); 4] = [
        ("README", b"about"),
        ("Books.en-it.en", b"one\ntwo\n"),
        ("Books.en-it.it", b"uno\ndue\n"),
        ("Books.en-it.xml", b"<cesAlign/>"),
    ];
    let expected = [SentencePair::new("due", "two")];
    let path = folder.file("en-it.txt.zip", deflated(&members));
    assert_eq!(read(&path, &languages("it", "en")).unwrap()[1..], expected);
    fails(
        &path,
        &languages("it", "de"),
        &[
            "en-it.txt.zip`: cannot determine the members with the pairs",
            "Books.en-it.en, Books.en-it.it, Books.en-it.xml",
        ],
    );
}

#[test]
fn members_are_chosen_by_name_and_by_stem() {
    let folder = Folder::new();
    let members: [(&str, &[u8]); 5] = [
        ("training/europarl.de-en.de", b"eins\n"),
        ("training/europarl.de-en.en", b"one\n"),
        ("training/news.de-en.de", b"zwei\n"),
        ("training/news.de-en.en", b"two\n"),
        ("pairs.tsv", b"drei\tthree\n"),
    ];
    let path = folder.file("training.tgz", gzip(&tar(&members)));
    let member = |name: &str| PathBuf::from(format!("{}!{name}", path.display()));
    let german = languages("de", "en");
    assert_eq!(
        read(&member("training/news.de-en"), &german).unwrap(),
        [SentencePair::new("zwei", "two")]
    );
    assert_eq!(read(&member("pairs.tsv"), &german).unwrap()[0].target, "three");
    let apart = parallel(
        &member("training/europarl.de-en.en"),
        &member("training/news.de-en.de"),
        &ReadOptions::default(),
    );
    let apart: Result<Vec<_>, _> = apart.unwrap().collect();
    assert_eq!(apart.unwrap(), [SentencePair::new("one", "zwei")]);
    fails(
        &path,
        &german,
        &["cannot determine the members with the pairs", "training/news.de-en.de"],
    );
    fails(&member("training/nothing"), &german, &["member `training/nothing` not found"]);
}

#[test]
fn iwslt_and_wmt_markup_is_removed() {
    let folder = Folder::new();
    let tagged = |title: &str, text: &str| {
        format!("<url>http://x</url>\n<talkid>1</talkid>\n<title>{title}</title>\n {text} \nb\n")
    };
    let (source, target) = (tagged("T", "a < c"), tagged("U", "A"));
    let members: [(&str, &[u8]); 2] = [
        ("de-en/train.tags.de-en.de", source.as_bytes()),
        ("de-en/train.tags.de-en.en", target.as_bytes()),
    ];
    let path = folder.file("de-en.tgz", gzip(&tar(&members)));
    let expected = [SentencePair::new("a < c", "A"), SentencePair::new("b", "b")];
    assert_eq!(read(&path, &languages("de", "en")).unwrap(), expected);

    let sgm = |text: &str| {
        format!(
            "<refset setid=\"x\">\n<doc docid=\"1\">\n<p>\n<seg id=\"1\"> {text} &amp; so on \
             </seg>\n<seg id=\"2\">b</seg>\n</p>\n</doc>\n</refset>\n"
        )
    };
    let (a, b) = (folder.file("a.sgm", sgm("Ja")), folder.file("b.sgm", sgm("Yes")));
    let read: Result<Vec<_>, _> = parallel(&a, &b, &ReadOptions::default()).unwrap().collect();
    let expected = [SentencePair::new("Ja & so on", "Yes & so on"), SentencePair::new("b", "b")];
    assert_eq!(read.unwrap(), expected);
}

#[test]
fn utf_16_with_a_byte_order_mark_is_read() {
    let folder = Folder::new();
    for order in [u16::to_le_bytes, u16::to_be_bytes] {
        let wide = |text: &str| -> Vec<u8> {
            format!("\u{feff}{text}").encode_utf16().flat_map(order).collect()
        };
        for text in [tsv(), jsonl(), tmx().replace("UTF-8", "UTF-16")] {
            let path = folder.file("wide", wide(&text));
            assert_eq!(read(&path, &languages("en", "it")).unwrap(), expected());
        }
        // Longer than the conversion buffer, with a surrogate pair at every offset.
        let long: String = (0..9_000).map(|n| format!("{}𝄞\t𝄞\n", "x".repeat(n % 3))).collect();
        let path = folder.file("long", wide(&long));
        assert_eq!(read(&path, &ReadOptions::default()).unwrap().len(), 9_000);
        let mut cut = wide(&tsv());
        cut.pop();
        fails(&folder.file("cut", cut), &languages("en", "it"), &["ends inside a character"]);
        let lone = [order(0xfeff), order(0xd834), order(0x41), order(0x09)].concat();
        fails(&folder.file("lone", lone), &ReadOptions::default(), &["unpaired surrogate"]);
    }
}

#[test]
fn headers_columns_and_separators_of_tables() {
    let folder = Folder::new();
    let numbered = |source: &str, target: &str| {
        let columns = Columns {
            source: Some(source.into()),
            target: Some(target.into()),
            ..Columns::default()
        };
        ReadOptions { columns, ..ReadOptions::default() }
    };
    let table = folder.file("t.csv", "id,Italian,English\n7,uno,one\n8,\"du\ne\",two\n");
    let two = SentencePair::new("two", "du\ne");
    assert_eq!(read(&table, &languages("en", "it")).unwrap()[1], two);
    assert_eq!(read(&table, &numbered("English", "Italian")).unwrap()[1], two);
    assert_eq!(read(&table, &numbered("3", "2")).unwrap()[2], two);
    fails(&table, &numbered("French", "2"), &["t.csv` line 1: column `French` not found"]);
    fails(&table, &numbered("0", "2"), &["column `0` not found"]);
    fails(&table, &numbered("9", "2"), &["t.csv` line 1: 3 columns, expected at least 9"]);
    // The given format CSV implies quoting.
    let tabs = folder.file("t.tsv", "\"a\tb\"\tc\n");
    let forced = ReadOptions { format: Some(Format::Csv), ..ReadOptions::default() };
    assert_eq!(read(&tabs, &forced).unwrap(), [SentencePair::new("a\tb", "c")]);
    let plain = ReadOptions { format: Some(Format::Tsv), ..ReadOptions::default() };
    assert_eq!(read(&tabs, &plain).unwrap(), [SentencePair::new("\"a", "b\"")]);
}

#[test]
fn json_fields_may_be_anywhere() {
    let folder = Folder::new();
    let flat = folder
        .file("a", "{\"src\": \"a\", \"n\": 1, \"tgt\": \"b\"}\n\n{\"tgt\":\"d\",\"src\":\"c\"}");
    let expected = [SentencePair::new("a", "b"), SentencePair::new("c", "d")];
    assert_eq!(read(&flat, &ReadOptions::default()).unwrap(), expected);
    let nulls = folder.file("n", "{\"en\": \"a\", \"it\": null}\n");
    assert_eq!(read(&nulls, &languages("en", "it")).unwrap(), [SentencePair::new("a", "")]);
    for (text, problem) in [
        ("{\"en\":\"a\",\"it\":\"b\"}\n{\"en\":\"a\"}\n", "line 2: field `it` not found"),
        ("{\"en\":\"a\",\"it\":\"b\"}\n{\"en\":1,\"it\":\"b\"}\n", "line 2: `en` is a number"),
        ("{\"en\":\"a\",\"it\":\"b\"}\n[1]\n", "line 2: found an array, expected a JSON object"),
        ("{\"en\":\"a\",\"it\":\"b\"}\n{\"en\"\n", "line 2: EOF"),
        ("{\"x\":\"a\",\"y\":\"b\",\"z\":\"c\"}\n", "line 1: no column for the source"),
        ("[{\"en\":\"a\",\"it\":\"b\"}]", "found a JSON array"),
    ] {
        fails(&folder.file("bad.jsonl", text), &languages("en", "it"), &["bad.jsonl`", problem]);
    }
    let deep = "{\"a\":".repeat(100_000);
    fails(&folder.file("deep", deep), &languages("en", "it"), &["recursion limit"]);
}

#[test]
fn tmx_keeps_the_text_and_drops_the_codes() {
    let folder = Folder::new();
    let unit = |segment: &str| {
        format!(
            "<tmx version='1.4'><body>\n<tu>\n<tuv lang='EN'><seg>{segment}</seg></tuv><tuv \
             xml:lang='it'><prop type='x'>no</prop><seg><![CDATA[<x>]]></seg></tuv></tu>\n\
             <tu><tuv xml:lang='en'><seg>no Italian</seg></tuv></tu>\n</body></tmx>"
        )
    };
    for (segment, text) in [
        ("a <hi>b</hi> c", "a b c"),
        ("a<bpt i='1'>&lt;b></bpt>b<ept i='1'>&lt;/b></ept>", "ab"),
        ("a <ph>x<sub>note</sub></ph>b", "a b"),
        ("&#233;&#x1D11E;&amp;&lt;&gt;&quot;&apos;&nbsp;", "é𝄞&<>\"'&nbsp;"),
        ("", ""),
    ] {
        let path = folder.file("x.tmx", unit(segment));
        let read = read(&path, &languages("en", "it")).unwrap();
        assert_eq!(read, [SentencePair::new(text, "<x>")], "{segment}");
    }
    let path = folder.file("x.tmx", unit("a"));
    fails(&path, &languages("en", "fr"), &["no unit has both en and fr", "found: EN, en, it"]);
    fails(&path, &ReadOptions::default(), &["requires the languages of both sides"]);
    for (text, problem) in [
        ("<tmx><body>\n<tu>\n<tuv>", "x.tmx` line 3: the file ends inside a `<tu>`"),
        ("<tmx>\n<body></tmx>", "x.tmx` line 2"),
        ("<tmx>\n<tu><tuv lang='en'><seg>&#xD800;</seg>", "line 2"),
        ("<html><body>", "found `<html><body>` at the start, expected TMX"),
    ] {
        fails(&folder.file("x.tmx", text), &languages("en", "it"), &[problem]);
    }
}

#[test]
fn the_requested_region_is_preferred() {
    let folder = Folder::new();
    let unit = "<tmx><body><tu><tuv xml:lang='pt-PT'><seg>pt</seg></tuv><tuv \
                xml:lang='pt-BR'><seg>br</seg></tuv><tuv xml:lang='en'><seg>x</seg></tuv></tu></body></tmx>";
    let path = folder.file("x", unit);
    for (wanted, text) in [("pt-BR", "br"), ("pt-PT", "pt"), ("pt", "pt"), ("por", "pt")] {
        let read = read(&path, &languages(wanted, "en")).unwrap();
        assert_eq!(read, [SentencePair::new(text, "x")], "{wanted}");
    }
}

#[test]
fn errors_name_what_cannot_be_read() {
    let folder = Folder::new();
    let options = languages("en", "it");
    fails(Path::new("no/such.tsv"), &options, &["cannot read `no/such.tsv`: No such file"]);
    fails(folder.0.path(), &options, &["found a folder, expected a file"]);
    assert!(matches!(
        read(&folder.file("e", ""), &options),
        Err(DataError::Text(TextError::Empty { .. }))
    ));
    let path = folder.file("b.zip", deflated(&[("pairs.tsv", b"a\tb\nb\xff\tc\n")]));
    fails(&path, &options, &["b.zip!pairs.tsv` line 2 is not valid UTF-8 (byte 2"]);
    let path = folder.file("b.csv", b"a,b\nc,\xff\n");
    fails(&path, &options, &["b.csv` line 2: column 2 is not valid UTF-8"]);
    for (bytes, what) in [
        (&b"BZh91AY&SY"[..], "bzip2 compression is not supported"),
        (b"\xfd7zXZ\x00\x00", "xz compression is not supported"),
        (b"7z\xbc\xaf\x27\x1c\x00", "7z compression is not supported"),
        (b"\x00\x01\x02\x03", "neither text nor a known format"),
    ] {
        fails(&folder.file("b", bytes), &options, &[what]);
    }
    let broken = gzip(tsv().as_bytes());
    let path = folder.file("b.gz", &broken[..broken.len() - 5]);
    fails(&path, &options, &["cannot read `"]);
    let both = folder.file("both.tmx", tmx());
    let error = parallel(&both, &both, &options).map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("which contains both sides"), "{error}");
}

#[test]
fn sides_of_different_length_are_refused_with_both_numbers() {
    let folder = Folder::new();
    let (a, b) = (folder.file("a", "1\n2\n3\n"), folder.file("b", "1\n2\n"));
    for (source, target, counts) in [(&a, &b, (3, 2)), (&b, &a, (2, 3))] {
        let read: Result<Vec<_>, _> =
            parallel(source, target, &ReadOptions::default()).unwrap().collect();
        let Err(DataError::Text(TextError::LineCount { source_lines, target_lines, .. })) = read
        else {
            panic!("{read:?}")
        };
        assert_eq!((source_lines, target_lines), counts);
    }
}

#[cfg(unix)]
#[test]
fn a_pipe_is_read_like_a_file() {
    let folder = Folder::new();
    let path = folder.0.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&path).status();
    if !made.is_ok_and(|status| status.success()) {
        eprintln!("SKIPPED: there is no mkfifo");
        return;
    }
    let writer = {
        let path = path.clone();
        std::thread::spawn(move || fs::write(path, gzip(jsonl().as_bytes())).unwrap())
    };
    assert_eq!(read(&path, &languages("en", "it")).unwrap(), expected());
    writer.join().unwrap();
}

/// Readers can be handed to another thread.
#[test]
fn readers_are_send() {
    fn is_send<T: Send>() {}
    is_send::<tx_text::Lines>();
    is_send::<super::Pairs>();
}

#[test]
fn documents_are_read_from_lines_of_any_packing() {
    use crate::documents::{DocumentEnd, documents};

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("text.gz");
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(b"one\ntwo\n\nthree\n").unwrap();
    fs::write(&path, packed.finish().unwrap()).unwrap();
    let read: Result<Vec<_>, _> = lines(&path, &ReadOptions::default()).unwrap().collect();
    let read = read.unwrap();
    assert_eq!(read, ["one", "two", "", "three"]);
    assert_eq!(documents(read, DocumentEnd::EmptyLine), ["one\ntwo", "three"]);

    let broken = folder.path().join("broken");
    fs::write(&broken, b"one\n\xff\nthree\n").unwrap();
    let mut read = lines(&broken, &ReadOptions::default()).unwrap();
    assert!(read.next().unwrap().is_ok() && read.next().unwrap().is_err());
    assert!(read.next().is_none());
}

#[test]
fn a_declared_encoding_of_xml_is_read() {
    let folder = Folder::new();
    let document = "<?xml version=\"1.0\" encoding=\"ISO-8859-1\"?>\n<tmx version=\"1.4\"><body>\n\
                    <tu><tuv xml:lang=\"en\"><seg>key</seg></tuv><tuv xml:lang=\"fr\"><seg>cl\u{e9}</seg></tuv></tu>\
                    </body></tmx>";
    let latin1: Vec<u8> = document.chars().map(|c| c as u8).collect();
    let expected = [SentencePair::new("key", "cl\u{e9}")];
    for (packing, bytes) in packings("a.tmx", &latin1) {
        let path = folder.file("anything", bytes);
        let read = read(&path, &languages("en", "fr"));
        assert_eq!(read.unwrap_or_else(|e| panic!("{packing}: {}", chain(&e))), expected);
    }
    let unknown = document.replace("ISO-8859-1", "klingon");
    let path = folder.file("unknown.tmx", unknown);
    fails(&path, &languages("en", "fr"), &["names the unknown encoding `klingon`"]);

    let side = |text: &str| {
        let text =
            format!("<?xml version='1.0' encoding='windows-1252'?>\n<seg id=\"1\">{text}</seg>\n");
        text.chars().map(|c| c as u8).collect::<Vec<_>>()
    };
    let (source, target) =
        (folder.file("a.sgm", side("key")), folder.file("b.sgm", side("cl\u{e9}")));
    let read: Result<Vec<_>, _> =
        parallel(&source, &target, &ReadOptions::default()).unwrap().collect();
    assert_eq!(read.unwrap(), expected);
}

#[test]
fn padded_gzip_is_read() {
    let folder = Folder::new();
    let padded = [gzip(tsv().as_bytes()), vec![0; 1_000]].concat();
    assert_eq!(read(&folder.file("a", padded), &languages("en", "it")).unwrap(), expected());
    let tar = [gzip(&tar(&[("pairs.tsv", tsv().as_bytes())])), vec![0; 1_000]].concat();
    assert_eq!(read(&folder.file("b", tar), &languages("en", "it")).unwrap(), expected());
}

#[test]
fn layouts_of_tables_are_found_in_every_packing() {
    let folder = Folder::new();
    let text = "id,en,it\n1,The cat.,Il gatto.\n2,The dog.,Il cane.\n";
    for (packing, bytes) in packings("pairs.csv", text.as_bytes()) {
        let path = folder.file("anything", bytes);
        let (layout, first) = table_layout(&path, &ReadOptions::default()).unwrap().unwrap();
        assert_eq!(layout.to_string(), "'en' -> 'it'; ignored: 'id'", "{packing}");
        assert_eq!(first, SentencePair::new("The cat.", "Il gatto."));
    }
    let path = folder.file("other", jsonl());
    assert_eq!(table_layout(&path, &ReadOptions::default()).unwrap(), None);
}
