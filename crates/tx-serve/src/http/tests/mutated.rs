//! Mutated requests: no panic, no mixed-up answer, no leak.

use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;

/// Number of requests; `TX_CASES` changes it.
fn cases() -> usize {
    std::env::var("TX_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(300)
}

const BODIES: [(&str, &str, &str); 7] = [
    (
        "/translate",
        "application/json",
        r#"{"q":"the <b>cat</b> {name}","source":"en","target":"it","format":"html","alternatives":2}"#,
    ),
    (
        "/translate",
        "application/json",
        r#"{"q":["the cat","%s dog"],"source":"auto","target":"it"}"#,
    ),
    (
        "/translate",
        "application/x-www-form-urlencoded",
        "q=the+cat%20sleeps&source=en&target=it&api_key=x",
    ),
    (
        "/v1/translate",
        "application/json",
        r#"{"q":"the cat. The dog.","source":"en","target":"it","stream":true,"tokens":true}"#,
    ),
    (
        "/v2/translate",
        "application/json",
        r#"{"text":["the cat"],"target_lang":"IT","tag_handling":"html"}"#,
    ),
    (
        "/v2/models/en-it/infer",
        "application/json",
        r#"{"inputs":[{"name":"text","datatype":"BYTES","shape":[1],"data":["the cat"]}]}"#,
    ),
    (
        "/translate_file",
        "multipart/form-data; boundary=x",
        "--x\r\nContent-Disposition: form-data; name=\"source\"\r\n\r\nen\r\n--x\r\nContent-Disposition: form-data; name=\"target\"\r\n\r\nit\r\n--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.html\"\r\n\r\n<p>the <i>cat</i>\r\n--x--\r\n",
    ),
];

const PIECES: [&str; 16] = [
    "<", ">", "</b>", "<script>", "&#x0;", "{", "}", "\"", "\\u0000", "\u{202e}", "猫", "%", "]]>",
    "<!--", "\r\n--x", "0",
];

fn mutate(body: &mut Vec<u8>, random: &mut ChaCha8Rng) {
    for _ in 0..random.random_range(0..4) {
        let at = random.random_range(0..=body.len());
        match random.random_range(0..4) {
            0 if at < body.len() => body[at] = (random.next_u32() & 0xff) as u8,
            1 => body.truncate(at),
            2 => {
                let piece = PIECES[random.random_range(0..PIECES.len())].as_bytes();
                body.splice(at..at, piece.iter().copied());
            }
            _ => {
                let end = random.random_range(at..=body.len());
                let part = body[at..end].to_vec();
                body.splice(at..at, part);
            }
        }
    }
}

/// Texts whose translations are known, translated while the mutated requests are.
const PROBES: [&str; 5] =
    ["the cat", "The dog eats.", "the red house\nthe cat", "a man sleeps .", "the dog and the cat"];

/// Number of requests from which on memory is checked: smaller numbers do not fill the caches.
const MANY: usize = 10_000;

/// Bytes by which memory may grow in the last three quarters of many requests.
const GROWTH: usize = 32 << 20;

/// Resident memory of this process in bytes; 0 where it is not known.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let row = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = row.and_then(|row| row.trim().trim_end_matches(" kB").parse::<usize>().ok());
    kilobytes.unwrap_or(0) * 1_024
}

/// With each mutated request, a valid one of another client.
#[tokio::test]
async fn mutated_requests_are_answered_or_refused() {
    let service = service(|_| {});
    let mut random = ChaCha8Rng::seed_from_u64(21);
    let translations = PROBES.map(expected);
    let mut before = 0;
    for case in 0..cases() {
        if case == cases() / 4 {
            before = resident();
        }
        let (path, content_type, body) = BODIES[case % BODIES.len()];
        let mut body = body.as_bytes().to_vec();
        mutate(&mut body, &mut random);
        let shown = String::from_utf8_lossy(&body).into_owned();
        let mutated = router(service.clone()).oneshot(request("POST", path, content_type, body));
        let probe = json!({ "q": PROBES[case % PROBES.len()], "source": "en", "target": "it" });
        let (response, probe) = tokio::join!(mutated, post(&service, "/translate", probe));
        assert_eq!(
            probe.json()["translatedText"],
            translations[case % PROBES.len()],
            "{case} {path} {shown}"
        );
        let response = response.unwrap();
        let status = response.status().as_u16();
        let body = to_bytes(response.into_body(), 10 << 20).await.unwrap();
        assert!(
            [200, 400, 404, 413, 415].contains(&status),
            "{case} {path} {status}: {shown}\n{}",
            String::from_utf8_lossy(&body)
        );
    }
    assert_eq!(service.pool.waiting(), 0);
    if cases() >= MANY {
        let after = resident();
        println!(
            "{} requests: resident {before} bytes after a quarter, {after} at the end",
            cases()
        );
        assert!(after < before + GROWTH, "{before} {after}");
    }
}
