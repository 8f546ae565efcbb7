//! Interrupted transfers are resumed with the same file only.

use super::*;

#[test]
fn a_broken_transfer_resumes_where_it_ended() {
    let bench = Bench::new();
    bench.server.on("/a", |seen, nth| match nth {
        0 => truncated(&body(), 40_000, "\"v1\""),
        _ => good(seen, &body(), "\"v1\""),
    });
    assert_eq!(bench.get("/a").unwrap(), body());
    let seen = bench.server.seen();
    assert_eq!(seen.len(), 2);
    assert_eq!(seen[1].header("range"), Some("bytes=40000-"));
    assert_eq!(seen[1].header("if-range"), Some("\"v1\""));
}

#[test]
fn an_interrupted_program_resumes_where_it_ended() {
    let bench = Bench::new();
    bench.server.on("/a", |seen, nth| match nth {
        0..4 => truncated(&body(), 40_000, "\"v1\""),
        _ => good(seen, &body(), "\"v1\""),
    });
    // Each attempt receives the complete file from the start and is interrupted.
    bench.refused(&bench.remote("/a"), "after 4 attempts");
    assert_eq!(bench.get("/a").unwrap(), body());
    assert_eq!(bench.server.seen()[4].header("range"), Some("bytes=40000-"));
}

#[test]
fn a_server_that_ignores_the_range_sends_the_whole_file() {
    let bench = Bench::new();
    bench.server.on("/a", |_, nth| match nth {
        0 => truncated(&body(), 40_000, "\"v1\""),
        _ => truncated(&body(), 100_000, "\"v1\""),
    });
    assert_eq!(bench.get("/a").unwrap(), body());
    assert_eq!(bench.server.seen()[1].header("range"), Some("bytes=40000-"));
}

#[test]
fn a_file_that_changed_meanwhile_is_fetched_from_the_start() {
    let bench = Bench::new();
    let newer: Vec<u8> = body().iter().map(|byte| byte ^ 1).collect();
    let expected = newer.clone();
    bench.server.on("/a", move |seen, nth| match nth {
        0 => truncated(&body(), 40_000, "\"v1\""),
        _ => good(seen, &newer, "\"v2\""),
    });
    assert_eq!(bench.get("/a").unwrap(), expected);
}

/// Rest of another file of the same length, sent in spite of `If-Range`.
fn rest_of(other: &[u8], headers: &str) -> Vec<Act> {
    let headers =
        format!("{headers}Content-Range: bytes 40000-99999/100000\r\nContent-Length: 60000\r\n");
    let mut acts = head("206 Partial Content", &headers);
    acts.push(Act::Send(other[40_000..].to_vec()));
    acts
}

const OLD: &str = "Last-Modified: Mon, 02 Jan 2023 10:00:00 GMT\r\n";
const NEW: &str = "Last-Modified: Mon, 02 Jan 2023 11:00:00 GMT\r\n";
const LATER: &str = "Date: Tue, 03 Jan 2023 10:00:00 GMT\r\n";

#[test]
fn parts_of_two_files_are_not_combined() {
    let newer: Vec<u8> = body().iter().map(|byte| byte ^ 1).collect();
    for (first, second, header) in [
        ("ETag: \"v1\"\r\n".to_owned(), "ETag: \"v2\"\r\n", "ETag"),
        ("ETag: \"v1\"\r\n".to_owned(), "", "ETag"),
        (format!("ETag: \"v1\"\r\n{OLD}"), "ETag: \"v2\"\r\n", "ETag"),
        (format!("{OLD}{LATER}"), NEW, "Last-Modified"),
        (format!("{OLD}{LATER}"), "ETag: \"v2\"\r\n", "ETag"),
    ] {
        let bench = Bench::new();
        let (expected, newer) = (newer.clone(), newer.clone());
        let is_tag = first.starts_with("ETag");
        bench.server.on("/a", move |_, nth| match nth {
            0 => {
                let mut acts = head("200 OK", &format!("{first}Content-Length: 100000\r\n"));
                acts.push(Act::Send(body()[..40_000].to_vec()));
                acts
            }
            1 => rest_of(&newer, second),
            _ => good(&Seen::default(), &newer, "\"v2\""),
        });
        assert_eq!(bench.get("/a").unwrap(), expected, "{second}");
        let seen = bench.server.seen();
        let validator =
            if is_tag { "\"v1\"" } else { &OLD["Last-Modified: ".len()..OLD.len() - 2] };
        assert_eq!(seen[1].header("if-range"), Some(validator));
        assert_eq!((seen.len(), seen[2].header("range")), (3, None), "{second}");
        let events = bench.events.lock().unwrap();
        let told = events.iter().any(|event| {
            matches!(event, Event::Retry { problem, .. } if problem.contains("has changed")
                && problem.contains(header))
        });
        assert!(told, "{second}: {events:?}");
    }
}

/// A server may omit the modification time from a partial response.
#[test]
fn a_modification_time_is_enough_to_resume() {
    for repeated in [OLD, ""] {
        let bench = Bench::new();
        bench.server.on("/a", move |_, nth| match nth {
            0 => {
                let mut acts = head("200 OK", &format!("{OLD}{LATER}Content-Length: 100000\r\n"));
                acts.push(Act::Send(body()[..40_000].to_vec()));
                acts
            }
            _ => rest_of(&body(), repeated),
        });
        assert_eq!(bench.get("/a").unwrap(), body());
        assert_eq!(bench.requests(), 2);
    }
}

/// A file may change twice within the second of its modification time; a weak tag is even less
/// precise.
#[test]
fn a_weak_validator_does_not_resume() {
    let now = OLD.replace("Last-Modified", "Date");
    for weak in [format!("{OLD}{now}"), OLD.to_owned(), "ETag: W/\"v1\"\r\n".to_owned()] {
        let bench = Bench::new();
        bench.server.on("/a", move |_, nth| {
            let mut acts = head("200 OK", &format!("{weak}Content-Length: 100000\r\n"));
            acts.push(Act::Send(if nth == 0 { body()[..40_000].to_vec() } else { body() }));
            acts
        });
        assert_eq!(bench.get("/a").unwrap(), body());
        assert_eq!(bench.server.seen()[1].header("range"), None);
    }
}

#[test]
fn a_part_without_a_validator_does_not_resume() {
    let bench = Bench::new();
    bench.server.on("/a", |_, nth| {
        let body = body();
        let mut acts = head("200 OK", &format!("Content-Length: {}\r\n", body.len()));
        acts.push(Act::Send(if nth == 0 { body[..10].to_vec() } else { body }));
        acts
    });
    assert_eq!(bench.get("/a").unwrap(), body());
    assert_eq!(bench.server.seen()[1].header("range"), None);
}

#[test]
fn another_range_than_the_requested_one_is_refused() {
    for range in [
        "bytes 39999-99999/100000",
        "bytes 40000-99999/100001",
        "bytes 40000-99998/100000",
        "bytes 40000-18446744073709551615/*",
        "bytes oh dear",
        "",
    ] {
        let bench = Bench::new();
        bench.server.on("/a", move |seen, nth| match nth {
            0 => truncated(&body(), 40_000, "\"v1\""),
            1 => {
                let headers =
                    format!("ETag: \"v1\"\r\nContent-Range: {range}\r\nContent-Length: 60000\r\n");
                let mut acts = head("206 Partial Content", &headers);
                acts.push(Act::Send(body()[39_999..99_999].to_vec()));
                acts
            }
            _ => good(seen, &body(), "\"v1\""),
        });
        assert_eq!(bench.get("/a").unwrap(), body(), "{range}");
        assert_eq!(bench.server.seen()[2].header("range"), None, "{range}");
    }
}

#[test]
fn a_range_without_a_request_is_refused() {
    let bench = Bench::new();
    bench.server.on("/a", |_, _| {
        let headers = "Content-Range: bytes 0-9/100000\r\nContent-Length: 10\r\n";
        let mut acts = head("206 Partial Content", headers);
        acts.push(Act::Send(body()[..10].to_vec()));
        acts
    });
    bench.refused(&bench.remote("/a"), "expected the bytes from 0");
}

#[test]
fn a_part_longer_than_the_file_is_dropped() {
    let bench = Bench::new();
    bench.server.on("/a", |seen, nth| match nth {
        0 => truncated(&body(), 40_000, "\"v1\""),
        1 => status("416 Range Not Satisfiable", "Content-Range: bytes */30000\r\n"),
        _ => good(seen, &body(), "\"v1\""),
    });
    assert_eq!(bench.get("/a").unwrap(), body());
    assert_eq!(bench.server.seen()[2].header("range"), None);
}

#[test]
fn a_stalled_transfer_ends_and_resumes() {
    let bench = Bench::new();
    bench.server.on("/a", |seen, nth| match nth {
        0 => {
            let mut acts = truncated(&body(), 50_000, "\"v1\"");
            acts.push(Act::Wait(Duration::from_secs(20)));
            acts
        }
        _ => good(seen, &body(), "\"v1\""),
    });
    let begun = Instant::now();
    assert_eq!(bench.get("/a").unwrap(), body());
    assert!(begun.elapsed() < Duration::from_secs(10));
    assert_eq!(bench.server.seen()[1].header("range"), Some("bytes=50000-"));
}

#[test]
fn a_transfer_resumes_after_a_redirect() {
    let bench = Bench::new();
    bench.server.on("/a", |_, _| status("302 Found", "Location: /store?signed=1\r\n"));
    bench.server.on("/store?signed=1", |seen, nth| match nth {
        0 => truncated(&body(), 40_000, "\"v1\""),
        _ => good(seen, &body(), "\"v1\""),
    });
    assert_eq!(bench.get("/a").unwrap(), body());
    assert_eq!(bench.server.seen()[3].header("range"), Some("bytes=40000-"));
}
