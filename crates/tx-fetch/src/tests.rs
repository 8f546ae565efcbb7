//! Fetcher against a misbehaving server: the result is the correct bytes or a clear error, and the
//! cache contains no other file.

mod resuming;

use std::{
    fs,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use flate2::{Compression, write::GzEncoder};
use sha2::{Digest, Sha256};
use tempfile::TempDir;
use tx_testing::server::{Act, Seen, Server, good, head, status, truncated};

use super::*;

/// Timeouts short enough for tests.
const HASTE: Patience = Patience {
    connect: Duration::from_secs(5),
    stall: Duration::from_millis(400),
    slowest: 2_000,
    retries: 3,
    backoff: Duration::from_millis(5),
    longest_wait: Duration::from_millis(50),
};

/// Server, cache and recorded progress events.
struct Bench {
    server: Server,
    folder: TempDir,
    events: Arc<std::sync::Mutex<Vec<Event>>>,
}

impl Bench {
    fn new() -> Self {
        Self { server: Server::new(), folder: tempfile::tempdir().unwrap(), events: Arc::default() }
    }

    fn fetcher(&self, mode: Mode) -> Fetcher {
        let events = self.events.clone();
        Fetcher::new(Cache::at(self.folder.path().join("cache")), mode)
            .patience(HASTE)
            .show(move |event| events.lock().unwrap().push(event))
    }

    fn remote(&self, path: &str) -> Remote {
        Remote::at(&format!("{}{path}", self.server.url))
    }

    fn get(&self, path: &str) -> Result<Vec<u8>, FetchError> {
        self.get_as(&self.remote(path), Mode::Online)
    }

    fn get_as(&self, remote: &Remote, mode: Mode) -> Result<Vec<u8>, FetchError> {
        self.fetcher(mode).get(remote).map(|cached| fs::read(cached.path).unwrap())
    }

    /// Expects a failure.
    ///
    /// # Panics
    ///
    /// If the download succeeds, its error lacks these words, or the cache contains a file.
    fn refused(&self, remote: &Remote, words: &str) -> FetchError {
        let error = self.get_as(remote, Mode::Online).unwrap_err();
        assert!(error.to_string().contains(words), "no `{words}` in: {error}");
        let entry = Cache::at(self.folder.path().join("cache")).entry(remote);
        assert!(!entry.data().exists(), "the cache is poisoned");
        let left = self.get_as(remote, Mode::Offline).unwrap_err();
        assert!(matches!(left, FetchError::NotCached { .. }), "{left}");
        error
    }

    fn requests(&self) -> usize {
        self.server.seen().len()
    }
}

/// 100,000 bytes that do not repeat.
fn body() -> Vec<u8> {
    let mut bytes = Vec::new();
    for number in 0_u32.. {
        bytes.extend(Sha256::digest(number.to_le_bytes()));
        if bytes.len() >= 100_000 {
            break;
        }
    }
    bytes.truncate(100_000);
    bytes
}

fn sha256(bytes: &[u8]) -> String {
    tx_text::hash::hexadecimal(&Sha256::digest(bytes))
}

#[test]
fn a_file_is_fetched_once() {
    let bench = Bench::new();
    bench.server.file("/a.txt", body());
    assert_eq!(bench.get("/a.txt").unwrap(), body());
    assert_eq!(bench.get("/a.txt").unwrap(), body());
    assert_eq!(bench.get_as(&bench.remote("/a.txt"), Mode::Offline).unwrap(), body());
    assert_eq!(bench.requests(), 1);
    let record = bench.fetcher(Mode::Offline).get(&bench.remote("/a.txt")).unwrap().record;
    assert_eq!((record.size, record.sha256), (100_000, sha256(&body())));
    assert_eq!(bench.server.seen()[0].header("accept-encoding"), Some("identity"));
}

#[test]
fn offline_fetches_nothing() {
    let bench = Bench::new();
    bench.server.file("/a.txt", body());
    let error = bench.get_as(&bench.remote("/a.txt"), Mode::Offline).unwrap_err();
    assert!(matches!(error, FetchError::NotCached { .. }), "{error}");
    assert_eq!(bench.requests(), 0);
    assert!(!bench.folder.path().join("cache").exists());
}

#[test]
fn a_server_that_never_answers_times_out() {
    let bench = Bench::new();
    bench.server.on("/a", |_, _| vec![Act::Wait(Duration::from_secs(20))]);
    let begun = Instant::now();
    bench.refused(&bench.remote("/a"), "timeout");
    assert!(begun.elapsed() < Duration::from_secs(10));
    assert_eq!(bench.requests(), 4);
}

#[test]
fn a_slow_transfer_counts_as_stalled() {
    let bench = Bench::new();
    bench.server.on("/a", |_, _| {
        let mut acts = truncated(&body(), 0, "\"v1\"");
        for byte in body().into_iter().take(500) {
            acts.extend([Act::Send(vec![byte]), Act::Wait(Duration::from_millis(40))]);
        }
        acts
    });
    let begun = Instant::now();
    bench.refused(&bench.remote("/a"), "slower than 2000 bytes per second");
    assert!(begun.elapsed() < Duration::from_secs(15));
}

#[test]
fn redirects_are_followed_and_loops_are_not() {
    let bench = Bench::new();
    bench.server.on("/old", |_, _| status("302 Found", "Location: /older\r\n"));
    bench.server.on("/older", |_, _| status("301 Moved Permanently", "Location: /new\r\n"));
    bench.server.file("/new", body());
    assert_eq!(bench.get("/old").unwrap(), body());
    bench.server.on("/loop", |_, _| status("307 Temporary Redirect", "Location: /loop\r\n"));
    bench.refused(&bench.remote("/loop"), "redirects");
    assert!(bench.requests() < 20);
    bench.server.on("/lost", |_, _| status("302 Found", ""));
    assert!(bench.get("/lost").is_err());
}

#[test]
fn a_token_is_not_forwarded_to_another_host() {
    let bench = Bench::new();
    let other = Server::new();
    other.file("/file", body());
    let elsewhere = other.url.replace("127.0.0.1", "localhost");
    bench
        .server
        .on("/a", move |_, _| status("302 Found", &format!("Location: {elsewhere}/file\r\n")));
    let remote = Remote { token: Some("secret".into()), ..bench.remote("/a") };
    assert_eq!(bench.get_as(&remote, Mode::Online).unwrap(), body());
    assert_eq!(bench.server.seen()[0].header("authorization"), Some("Bearer secret"));
    assert_eq!(other.seen()[0].header("authorization"), None);
}

#[test]
fn a_file_of_the_wrong_length_or_hash_is_refused() {
    let bench = Bench::new();
    bench.server.file("/a", body());
    let remote = bench.remote("/a");
    let longer = Remote { size: Some(100_001), ..remote.clone() };
    bench.refused(&longer, "the remote file has 100000 bytes, expected 100001");
    let wrong = Remote { sha256: Some("00".repeat(32)), ..remote.clone() };
    bench.refused(&wrong, &format!("SHA-256 {}, expected 0000", sha256(&body())));
    let published = Some(Published::Md5("0123"));
    bench.refused(&Remote { published, ..remote.clone() }, ", expected 0123");
    let right = Remote { size: Some(100_000), sha256: Some(sha256(&body())), ..remote };
    let cached = bench.fetcher(Mode::Online).get(&right).unwrap();
    assert!(cached.record.pinned && cached.fetched);
    assert_eq!(bench.requests(), 4);
}

#[test]
fn more_bytes_than_announced_are_rejected() {
    let bench = Bench::new();
    bench.server.on("/a", |_, _| {
        let mut acts = head("200 OK", "Transfer-Encoding: chunked\r\n");
        acts.push(Act::Send(b"A\r\n0123456789\r\nA\r\n0123456789\r\n0\r\n\r\n".to_vec()));
        acts
    });
    let remote = Remote { size: Some(15), ..bench.remote("/a") };
    bench.refused(&remote, "more than the 15 bytes expected");
    assert_eq!(bench.get("/a").unwrap(), b"01234567890123456789");
}

#[test]
fn a_file_above_the_limit_is_refused() {
    let limits = Limits { download_bytes: 50_000, unannounced_bytes: 15 };
    let bench = Bench::new();
    let get = |path: &str| {
        let error = bench.fetcher(Mode::Online).limits(limits).get(&bench.remote(path));
        error.unwrap_err().to_string()
    };
    bench.server.file("/large", body());
    assert!(get("/large").contains("the remote file has 100000 bytes, the limit is 50000"));
    bench.server.on("/endless", |_, _| {
        let mut acts = head("200 OK", "Transfer-Encoding: chunked\r\n");
        acts.extend(vec![Act::Send(b"A\r\n0123456789\r\n".to_vec()); 1_000]);
        acts
    });
    assert!(get("/endless").contains("received more than the 15 bytes allowed"));
    let entry = Cache::at(bench.folder.path().join("cache")).entry(&bench.remote("/endless"));
    assert!(!entry.part().exists());
    // More than 64 bits hold, together with the bytes received.
    bench.server.on("/absurd", |_, nth| match nth {
        0 => truncated(&body(), 40_000, "\"v1\""),
        _ => {
            let range = "ETag: \"v1\"\r\nContent-Range: bytes 40000-99999/*\r\n";
            head("206 Partial Content", &format!("{range}Content-Length: {}\r\n", u64::MAX))
        }
    });
    let error = bench.fetcher(Mode::Online).get(&bench.remote("/absurd")).unwrap_err();
    assert!(error.to_string().contains("after 4 attempts"), "{error}");
}

#[test]
fn a_token_is_not_sent_unencrypted() {
    let bench = Bench::new();
    let remote = Remote {
        token: Some("secret".into()),
        addresses: vec!["http://mirror.example/file".into()],
        ..bench.remote("/a")
    };
    let error = bench.refused(&remote, "a token is not sent over an unencrypted connection");
    assert_eq!(error.remedy(), Some(Remedy::EncryptOrDropToken));
}

#[test]
fn unknown_files_over_http_give_a_warning() {
    for (sha256, warned) in [(None, true), (Some("00".repeat(32)), false)] {
        let bench = Bench::new();
        let address = "http://me:secret@no-such-host.invalid/file";
        let remote = Remote { sha256, ..Remote::at(address) };
        let patience = Patience { retries: 0, ..HASTE };
        let fetched = bench.fetcher(Mode::Online).patience(patience).get(&remote);
        let error = fetched.unwrap_err().to_string();
        let events = bench.events.lock().unwrap();
        let warning = Event::Unprotected { address: "http://no-such-host.invalid/file".into() };
        assert_eq!(events.contains(&warning), warned);
        assert!(!format!("{error} {events:?} {remote:?}").contains("secret"));
    }
}

#[test]
fn a_missing_file_is_not_retried_but_requested_from_mirrors() {
    let bench = Bench::new();
    bench.server.file("/mirror", body());
    let error = bench.refused(&bench.remote("/gone"), "404");
    assert!(error.to_string().contains(&bench.server.url), "{error}");
    assert_eq!(bench.requests(), 1);
    let mut remote = bench.remote("/gone");
    remote.addresses.push("http://no-such-host.invalid/file".into());
    remote.addresses.push(format!("{}/mirror", bench.server.url));
    let cached = bench.fetcher(Mode::Online).get(&remote).unwrap();
    assert_eq!(cached.record.address, remote.addresses[2]);
    assert_eq!(cached.record.key, remote.key);
    let events = bench.events.lock().unwrap();
    let mirrors = events.iter().filter(|event| matches!(event, Event::Mirror { .. }));
    assert_eq!(mirrors.count(), 2);
}

#[test]
fn a_mirror_with_other_content_is_rejected() {
    let bench = Bench::new();
    bench.server.file("/mirror", "something else");
    let mut remote = bench.remote("/gone");
    remote.sha256 = Some(sha256(&body()));
    remote.addresses.push(format!("{}/mirror", bench.server.url));
    bench.refused(&remote, "SHA-256");
}

#[test]
fn the_wait_requested_by_a_busy_server_is_observed() {
    let bench = Bench::new();
    bench.server.on("/a", |seen, nth| match nth {
        0 => status("429 Too Many Requests", "Retry-After: 7\r\n"),
        1 => status("503 Service Unavailable", "Retry-After: 0\r\n"),
        2 => status("500 Internal Server Error", ""),
        _ => good(seen, &body(), "\"v1\""),
    });
    assert_eq!(bench.get("/a").unwrap(), body());
    let events = bench.events.lock().unwrap();
    let waits: Vec<u128> = events
        .iter()
        .filter_map(|event| match event {
            Event::Retry { wait, .. } => Some(wait.as_millis()),
            _ => None,
        })
        .collect();
    // Seven seconds exceed the maximum wait of 50 ms; zero; 5 ms doubled twice.
    assert_eq!(waits, [50, 0, 20]);
}

#[test]
fn persistent_errors_are_reported_with_their_status() {
    for (answer, words, requests) in [
        ("500 Internal Server Error", "500", 4),
        ("429 Too Many Requests", "429", 4),
        ("403 Forbidden", "403", 1),
        ("401 Unauthorized", "401", 1),
        ("410 Gone", "410", 1),
        ("204 No Content", "204", 1),
    ] {
        let bench = Bench::new();
        bench.server.on("/a", move |_, _| status(answer, ""));
        let error = bench.refused(&bench.remote("/a"), words);
        assert_eq!(bench.requests(), requests, "{answer}");
        // Permanent and invalid responses have no remedy.
        assert_eq!(error.remedy().is_none(), ["410", "204"].contains(&words), "{answer}");
    }
}

#[test]
fn connection_resets_are_retried() {
    let bench = Bench::new();
    bench.server.on("/a", |seen, nth| match nth {
        0 => vec![Act::Reset],
        1 => [truncated(&body(), 30_000, "\"v1\""), vec![Act::Reset]].concat(),
        _ => good(seen, &body(), "\"v1\""),
    });
    assert_eq!(bench.get("/a").unwrap(), body());
    bench.server.on("/b", |_, _| vec![Act::Reset]);
    bench.refused(&bench.remote("/b"), "after 4 attempts");
}

#[test]
fn a_response_that_is_not_http_is_an_error() {
    for garbage in [&b"\x00\x01\x02"[..], b"HTTP/1.1 abc\r\n\r\n", b"220 ftp ready\r\n\r\n", b""] {
        let bench = Bench::new();
        bench.server.on("/a", |_, _| vec![Act::Send(garbage.to_vec())]);
        bench.refused(&bench.remote("/a"), "cannot fetch");
    }
    let bench = Bench::new();
    let endless = format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "x".repeat(200_000));
    bench.server.on("/a", move |_, _| vec![Act::Send(endless.clone().into())]);
    bench.refused(&bench.remote("/a"), "cannot fetch");
}

#[test]
fn content_encoding_is_decoded_if_the_result_can_be_checked() {
    let bench = Bench::new();
    bench.server.on("/a", |_, _| {
        let mut packer = GzEncoder::new(Vec::new(), Compression::default());
        std::io::Write::write_all(&mut packer, &body()).unwrap();
        let packed = packer.finish().unwrap();
        let headers = format!("Content-Encoding: gzip\r\nContent-Length: {}\r\n", packed.len());
        let mut acts = head("200 OK", &headers);
        acts.push(Act::Send(packed));
        acts
    });
    bench.refused(&bench.remote("/a"), "does not declare its length");
    let known = Remote { sha256: Some(sha256(&body())), ..bench.remote("/a") };
    assert_eq!(bench.get_as(&known, Mode::Online).unwrap(), body());
}

#[test]
fn a_body_that_ends_with_the_connection_needs_a_checksum() {
    let bench = Bench::new();
    bench.server.on("/a", |_, _| {
        let mut acts = head("200 OK", "");
        acts.push(Act::Send(body()));
        acts
    });
    bench.refused(&bench.remote("/a"), "does not declare its length");
    let known = Remote { size: Some(100_000), ..bench.remote("/a") };
    assert_eq!(bench.get_as(&known, Mode::Online).unwrap(), body());
}

#[test]
fn chunks_without_their_end_are_a_broken_transfer() {
    let bench = Bench::new();
    bench.server.on("/a", |_, nth| {
        let mut acts = head("200 OK", "Transfer-Encoding: chunked\r\n");
        acts.push(Act::Send(b"5\r\nwhole\r\n".to_vec()));
        if nth == 1 {
            acts.push(Act::Send(b"0\r\n\r\n".to_vec()));
        }
        acts
    });
    assert_eq!(bench.get("/a").unwrap(), b"whole");
    assert_eq!(bench.requests(), 2);
}

#[test]
fn empty_files_and_web_pages_are_rejected() {
    let bench = Bench::new();
    bench.server.file("/empty", "");
    bench.refused(&bench.remote("/empty"), "empty");
    bench.server.on("/a.zip", |_, _| {
        let page = "<!DOCTYPE html><title>Please log in</title>";
        let headers = format!("Content-Type: text/html\r\nContent-Length: {}\r\n", page.len());
        let mut acts = head("200 OK", &headers);
        acts.push(Act::Send(page.into()));
        acts
    });
    bench.refused(&bench.remote("/a.zip"), "received an HTML page");
}

#[test]
fn a_file_trusted_on_first_use_must_not_change() {
    let bench = Bench::new();
    bench.server.file("/a", "first");
    let remote = bench.remote("/a");
    let path = bench.fetcher(Mode::Online).get(&remote).unwrap().path;
    fs::remove_file(&path).unwrap();
    bench.server.file("/a", "other");
    let error = bench.refused(&remote, "at the first download");
    assert_eq!(error.remedy(), Some(Remedy::TrustAnew));
    assert_eq!(bench.get_as(&remote, Mode::Refresh).unwrap(), b"other");
    assert_eq!(bench.get_as(&remote, Mode::Offline).unwrap(), b"other");
    // A file with a known checksum is downloaded again only in refresh mode.
    bench.server.file("/a", "third");
    assert_eq!(bench.get("/a").unwrap(), b"other");
    assert_eq!(bench.get_as(&remote, Mode::Refresh).unwrap(), b"third");
}

#[test]
fn a_damaged_file_is_noticed_and_fetched_again() {
    let bench = Bench::new();
    bench.server.file("/a", body());
    let remote = bench.remote("/a");
    let path = bench.fetcher(Mode::Online).get(&remote).unwrap().path;
    for damage in [&body()[..50_000], &[0; 100_000], b""] {
        fs::write(&path, damage).unwrap();
        let error = bench.get_as(&remote, Mode::Offline).unwrap_err();
        assert!(matches!(error, FetchError::Damaged { .. }), "{error}");
        assert_eq!(bench.get("/a").unwrap(), body());
    }
    // A file without its record counts as absent.
    fs::remove_file(path.with_file_name("record.json")).unwrap();
    assert!(matches!(bench.get_as(&remote, Mode::Offline), Err(FetchError::NotCached { .. })));
    assert_eq!(bench.get("/a").unwrap(), body());
}

#[test]
fn concurrent_fetchers_download_once() {
    let bench = Bench::new();
    bench.server.on("/a", |seen, _| {
        [vec![Act::Wait(Duration::from_millis(200))], good(seen, &body(), "\"v1\"")].concat()
    });
    thread::scope(|scope| {
        let all: Vec<_> = (0..8).map(|_| scope.spawn(|| bench.get("/a"))).collect();
        for one in all {
            assert_eq!(one.join().unwrap().unwrap(), body());
        }
    });
    assert_eq!(bench.requests(), 1);
    let events = bench.events.lock().unwrap();
    assert_eq!(events.iter().filter(|event| matches!(event, Event::Done { .. })).count(), 1);
}

#[test]
fn a_name_cannot_escape_the_cache() {
    let bench = Bench::new();
    bench.server.file("/a", body());
    let root = bench.folder.path().join("cache");
    for name in ["../../evil", "/etc/passwd", "..", "", "record.json", "a\0b", "ü.txt"] {
        let remote =
            Remote { name: name.into(), key: format!("../../{name}"), ..bench.remote("/a") };
        let path = bench.fetcher(Mode::Online).get(&remote).unwrap().path;
        let relative = path.strip_prefix(&root).unwrap();
        assert_eq!(relative.components().count(), 3, "{}", path.display());
        assert!(path.canonicalize().unwrap().starts_with(root.canonicalize().unwrap()));
    }
}

#[test]
fn a_cache_that_cannot_be_written_is_named() {
    let bench = Bench::new();
    bench.server.file("/a", body());
    fs::write(bench.folder.path().join("cache"), "in the way").unwrap();
    let error = bench.get("/a").unwrap_err();
    assert!(matches!(error, FetchError::Cache { .. }), "{error}");
    assert_eq!(error.remedy(), Some(Remedy::OtherCache));
}

#[test]
fn the_next_page_of_a_list_is_recorded() {
    let bench = Bench::new();
    bench.server.on("/list", |seen, _| {
        let link = "Link: <http://x/list?p=2>; rel=\"next\", <http://x/l>; rel=\"last\"\r\n";
        let mut acts = good(seen, b"[]", "\"v1\"");
        acts[0] = Act::Send(format!("HTTP/1.1 200 OK\r\n{link}Content-Length: 2\r\n\r\n").into());
        acts
    });
    let record = bench.fetcher(Mode::Online).get(&bench.remote("/list")).unwrap().record;
    assert_eq!(record.next.as_deref(), Some("http://x/list?p=2"));
}
