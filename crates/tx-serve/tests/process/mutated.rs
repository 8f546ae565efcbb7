use std::{
    env,
    time::{Duration, Instant},
};

use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::{
    documents::{DOCX, ODT, archive, docx_xml, odt_xml},
    server::{BOUND, Options, Process, file, post, text},
};

fn cases() -> usize {
    env::var("TX_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(60)
}

/// Paths, content types and bodies of requests.
const REQUESTS: [(&str, &str, &str); 8] = [
    (
        "/translate",
        "application/json",
        r#"{"q":"the <b>cat</b> {name}","source":"en","target":"it","format":"html","alternatives":2}"#,
    ),
    (
        "/translate",
        "application/json",
        r#"{"q":["the cat","%s dog","<a href='x'>the</a> cat"],"source":"auto","target":"it"}"#,
    ),
    (
        "/translate",
        "application/x-www-form-urlencoded; charset=iso-8859-1",
        "q=the+cat%20sl%E9eps&source=en&target=it&api_key=x",
    ),
    (
        "/v1/translate",
        "application/json",
        r#"{"q":"the cat. The dog.","source":"en","target":"it","stream":true}"#,
    ),
    (
        "/v2/translate",
        "application/json",
        r#"{"text":["<doc><p>the cat</p></doc>"],"target_lang":"IT","tag_handling":"xml","split_sentences":"0"}"#,
    ),
    (
        "/v2/models/en-it/infer",
        "application/json",
        r#"{"inputs":[{"name":"text","datatype":"BYTES","shape":[1],"data":["the cat"]}]}"#,
    ),
    ("/detect", "application/json", r#"{"q":["the cat","the dog"]}"#),
    ("/attention", "application/json", r#"{"q":"the cat","source":"en","target":"it"}"#),
];

const DOCX_BODY: &str = "<w:p><w:pPr><w:pStyle w:val=\"a\"/></w:pPr><w:r><w:rPr><w:b/></w:rPr><w:t xml:space=\"preserve\">the </w:t></w:r><w:hyperlink r:id=\"x\"><w:r><w:t>cat</w:t><w:tab/></w:r></w:hyperlink><w:r><w:fldChar w:fldCharType=\"begin\"/></w:r><w:r><w:instrText>PAGE</w:instrText></w:r><w:r><w:fldChar w:fldCharType=\"end\"/></w:r><w:r><w:pict><w:txbxContent><w:p><w:r><w:t>the dog</w:t></w:r></w:p></w:txbxContent></w:pict></w:r></w:p><w:tbl><w:tr><w:tc><w:p><w:r><w:t>42</w:t></w:r></w:p></w:tc></w:tr></w:tbl>";

const ODT_BODY: &str = "<text:h>the house</text:h><text:p>the <text:span text:style-name=\"b\">cat</text:span><text:tab/><text:s/>sleeps<text:note><text:note-body><text:p>the dog</text:p></text:note-body></text:note></text:p>";

const SRT: &str = "1\r\n00:00:01,000 --> 00:00:02,000\r\n{\\an8}<i>the cat</i>\r\n- yes\r\n\r\n2\r\n00:00:03,000 --> 00:00:04,000\r\n12\r\n";

const HTML: &str = "<!DOCTYPE html><html><head><title>the cat</title><script>a<b</script></head><body><ul><li translate=no>a<li>the <b>dog</b> &amp; <a href=x>house</a></ul><pre> the\n cat</pre></body></html>";

const PIECES: [&str; 22] = [
    "<",
    ">",
    "</b>",
    "<script>",
    "&#x0;",
    "{",
    "}",
    "\"",
    "\\u0000",
    "\u{202e}",
    "猫",
    "%",
    "]]>",
    "<!--",
    "\r\n--x-boundary",
    "0",
    "<w:p>",
    "</w:p>",
    "<w:r>",
    "<text:p>",
    " --> ",
    "[[[[",
];

fn mutate(body: &mut Vec<u8>, random: &mut ChaCha8Rng) {
    for _ in 0..random.random_range(0..4) {
        let at = random.random_range(0..=body.len());
        match random.random_range(0..5) {
            0 if at < body.len() => body[at] = (random.next_u32() & 0xff) as u8,
            1 => body.truncate(at),
            2 => {
                let count = [1, 1, 1, 200][random.random_range(0..4)];
                let piece = PIECES[random.random_range(0..PIECES.len())].repeat(count);
                body.splice(at..at, piece.into_bytes());
            }
            3 => {
                let end = random.random_range(at..=body.len());
                body.drain(at..end.min(at + 64));
            }
            _ => {
                let end = random.random_range(at..=body.len());
                let part = body[at..end].to_vec();
                body.splice(at..at, part);
            }
        }
    }
}

/// A request with the number of a case.
fn request(case: usize, random: &mut ChaCha8Rng) -> Vec<u8> {
    let kind = case % (REQUESTS.len() + 6);
    if let Some((path, content_type, body)) = REQUESTS.get(kind) {
        let mut body = body.as_bytes().to_vec();
        mutate(&mut body, random);
        return post(path, content_type, &body);
    }
    let source = if random.random_range(0..2) == 0 { "en" } else { "auto" };
    let office = |name: &str, xml: String, is_inner: bool, random: &mut ChaCha8Rng| {
        let mut xml = xml.into_bytes();
        if is_inner {
            mutate(&mut xml, random);
        }
        let mut document = archive(&[(name, &xml), ("other.xml", b"<a/>")]);
        if !is_inner {
            mutate(&mut document, random);
        }
        document
    };
    let (name, mut content, is_done) = match kind - REQUESTS.len() {
        0 => ("a.docx", office(DOCX, docx_xml(DOCX_BODY), true, random), true),
        1 => ("a.docx", office(DOCX, docx_xml(DOCX_BODY), false, random), true),
        2 => ("a.odt", office(ODT, odt_xml(ODT_BODY), true, random), true),
        3 => ("a.odt", office(ODT, odt_xml(ODT_BODY), false, random), true),
        4 => ("a.srt", SRT.as_bytes().to_vec(), false),
        _ => ("a.html", HTML.as_bytes().to_vec(), false),
    };
    if !is_done {
        mutate(&mut content, random);
    }
    file(name, source, &content)
}

#[test]
fn mutated_documents_and_requests() {
    let models = ["en-it", "de-it", "it-fr"].map(String::from).into();
    let mut server = Process::start(&Options { models, ..Options::default() });
    let monitor = server.monitor();
    let mut random = ChaCha8Rng::seed_from_u64(44);
    let (_, expected) = server.post("/translate", &text("the cat sleeps ."));
    let (mut slowest, mut answered) = (Duration::ZERO, 0);
    for case in 0..cases() {
        let request = request(case, &mut random);
        let started = Instant::now();
        let (status, body) = server.exchange(&request);
        slowest = slowest.max(started.elapsed());
        answered += usize::from(status == 200);
        assert!(
            [200, 400, 404, 413, 415].contains(&status),
            "{case}: {status} {}\n{}",
            String::from_utf8_lossy(&body),
            String::from_utf8_lossy(&request)
        );
        if case % 100 == 0 {
            assert_eq!(server.post("/translate", &text("the cat sleeps .")).1, expected, "{case}");
        }
    }
    let memory = server.memory() >> 20;
    println!("{} cases, {answered} translated, slowest {slowest:?}, {memory} MiB", cases());
    assert!(slowest < BOUND);
    monitor.end("mutated documents and requests");
}
