use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    documents,
    server::{BOUND, Options, Process, connect, exchange, file, get, post, text},
};

/// Statuses of refused and answered requests.
fn check(status: u16, name: &str) {
    assert!([200, 400, 413, 429, 503].contains(&status), "{name}: {status}");
}

/// A server that still translates.
fn translates(server: &mut Process) {
    assert_eq!(server.post("/translate", &text("the cat")).0, 200);
}

#[test]
fn nested_tags() {
    let mut server = Process::start(&Options::default());
    let monitor = server.monitor();
    for markup in [
        format!("{}the cat", "<b>".repeat(11_000)),
        format!("{}the cat", "<b>".repeat(33_000)),
        format!("{}the cat</b>", "<a>".repeat(12_000)),
        format!("{0}the cat{1}", "<b><i>".repeat(8_000), "</b></i>".repeat(4_000)),
        format!("{}the cat", "<div>".repeat(19_000)),
    ] {
        let requests: [(&str, Value); 7] = [
            (
                "/translate",
                json!({ "q": markup, "source": "en", "target": "it", "format": "html" }),
            ),
            ("/translate", text(&*markup)),
            (
                "/v1/translate",
                json!({ "q": markup, "source": "en", "target": "it", "stream": true }),
            ),
            (
                "/v2/translate",
                json!({ "text": [markup], "target_lang": "IT", "tag_handling": "html" }),
            ),
            (
                "/v2/translate",
                json!({ "text": [markup], "target_lang": "IT", "tag_handling": "xml" }),
            ),
            ("/attention", text(&*markup)),
            (
                "/v2/models/en-it/infer",
                json!({ "inputs": [
                { "name": "text", "datatype": "BYTES", "shape": [1], "data": [markup] },
            ] }),
            ),
        ];
        for (path, body) in &requests {
            check(server.post(path, body).0, path);
        }
        for name in ["a.html", "a.txt"] {
            check(server.exchange(&file(name, "en", markup.as_bytes())).0, name);
        }
        let cue = format!("1\n00:00:01,000 --> 00:00:02,000\n{markup}\n");
        check(server.exchange(&file("a.srt", "en", cue.as_bytes())).0, "a.srt");
    }
    translates(&mut server);
    monitor.end("nested tags");
}

#[test]
fn nested_text_boxes() {
    let mut server = Process::start(&Options::default());
    let monitor = server.monitor();
    for depth in [16, 22, 40, 120, 5_000] {
        check(server.exchange(&file("a.docx", "en", &documents::nested_boxes(depth))).0, "docx");
        check(server.exchange(&file("a.odt", "en", &documents::nested_frames(depth))).0, "odt");
    }
    // More than there are threads, by clients that leave.
    for _ in 0..6 {
        let mut stream = server.connect();
        stream.write_all(&file("a.docx", "en", &documents::nested_boxes(42))).unwrap();
    }
    translates(&mut server);
    assert_eq!(server.post("/detect", &json!({ "q": "the cat" })).0, 200);
    monitor.end("nested text boxes");
}

#[test]
fn documents_that_grow() {
    const LIMIT: usize = 2 << 30;
    let mut server = Process::start(&Options::default());
    let monitor = server.monitor();
    for (name, document) in [
        ("tabs", documents::tabs(300_000, 1_000)),
        ("many tabs", documents::tabs(10_000, 30_000)),
        ("overlap", documents::overlapping(3_000, 1_200 << 10)),
        ("some overlap", documents::overlapping(100, 1 << 20)),
        ("runs", documents::runs(40_000)),
    ] {
        check(server.exchange(&file("a.docx", "en", &document)).0, name);
        assert!(server.memory() < LIMIT, "{name}: {} bytes", server.memory());
    }
    translates(&mut server);
    monitor.end("documents that grow");
}

/// Legal documents at once: those in progress are limited before they are read.
#[test]
fn documents_in_progress() {
    const LIMIT: usize = 3 << 30;
    let mut server = Process::start(&Options::default());
    let monitor = server.monitor();
    let request = file("a.docx", "en", &documents::large());
    let (address, mut highest) = (server.address, 0);
    thread::scope(|scope| {
        let translate = || {
            let (status, body) = exchange(address, &request).unwrap();
            assert!([200, 429, 503].contains(&status), "{}", String::from_utf8_lossy(&body));
            status
        };
        let clients: Vec<_> = (0..60).map(|_| scope.spawn(translate)).collect();
        while clients.iter().any(|client| !client.is_finished()) {
            highest = highest.max(server.memory());
            thread::sleep(Duration::from_millis(20));
        }
        let statuses: Vec<u16> = clients.into_iter().map(|client| client.join().unwrap()).collect();
        assert!(statuses.contains(&429), "{statuses:?}");
    });
    println!("documents in progress: {} MiB", highest >> 20);
    assert!(highest < LIMIT, "{highest}");
    server.check_alive();
    translates(&mut server);
    monitor.end("documents in progress");
}

#[cfg(unix)]
#[test]
fn a_truncated_file_of_keys_opens_no_server() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.toml");
    fs::write(&path, "[[key]]\nname = 'a'\nkey = 'first-secret-key-1'\n").unwrap();
    let mut server = Process::start(&Options { keys: Some(path.clone()), ..Options::default() });
    assert_eq!(server.post("/translate", &text("the cat")).0, 403);
    for content in ["", "# no key\n"] {
        fs::write(&path, content).unwrap();
        server.signal("HUP");
        thread::sleep(Duration::from_secs(1));
        assert_eq!(server.post("/translate", &text("the cat")).0, 403);
        let mut body = text("the cat");
        body["api_key"] = "first-secret-key-1".into();
        assert_eq!(server.post("/translate", &body).0, 200);
    }
}

/// 110 languages: detection takes what it takes with two, and short requests do not block the network.
#[test]
fn detection_with_many_languages() {
    let mut codes = Vec::new();
    for row in include_str!("../../src/languages.csv").lines() {
        let code = row.split(',').next().unwrap();
        if code != "it" && codes.len() < 110 {
            codes.push(code);
        }
    }
    let models = codes.iter().map(|code| format!("{code}-it")).collect();
    let mut server = Process::start(&Options { models, ..Options::default() });
    let monitor = server.monitor();
    let texts = vec!["The weather is nice today, and we are going to the beach."; 300];
    let started = Instant::now();
    assert_eq!(server.post("/detect", &json!({ "q": texts })).0, 200);
    println!("300 texts among 110 languages: {:?}", started.elapsed());
    let (address, short) = (server.address, vec!["The weather is nice."; 16]);
    thread::scope(|scope| {
        for _ in 0..8 {
            let body = json!({ "q": short, "source": "auto", "target": "it" }).to_string();
            scope.spawn(move || {
                let request = post("/translate", "application/json", body.as_bytes());
                assert_eq!(exchange(address, &request).unwrap().0, 200);
            });
        }
    });
    let many = json!({ "q": vec!["a"; 400_000] });
    check(server.post("/detect", &many).0, "many texts");
    let (status, languages) = server.exchange(&get("/languages", &[]));
    assert_eq!((status, languages.is_empty()), (200, false));
    monitor.end("detection");
}

/// Many short lines as a stream.
#[test]
fn streams_of_short_lines() {
    let mut server = Process::start(&Options { timeout: Some(10), ..Options::default() });
    let monitor = server.monitor();
    let body = |lines: usize| json!({ "q": "a\n".repeat(lines), "source": "en", "target": "it", "stream": true });
    let started = Instant::now();
    assert_eq!(server.post("/v1/translate", &body(4_000)).0, 200);
    check(server.post("/v1/translate", &body(49_000)).0, "49,000 lines");
    println!("streams of short lines: {:?}", started.elapsed());
    translates(&mut server);
    monitor.end("streams of short lines");
}

/// Bodies that arrive a byte at a time, or never.
#[test]
fn slow_bodies() {
    const LIMIT: usize = 700 << 20;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.toml");
    fs::write(&path, "[[key]]\nname = 'a'\nkey = 'first-secret-key-1'\n").unwrap();
    for keys in [None, Some(path)] {
        let needs_key = keys.is_some();
        let mut server = Process::start(&Options { keys, timeout: Some(3), ..Options::default() });
        let monitor = server.monitor();
        let before = server.memory();
        let paths = ["/v2/languages", "/translate", "/detect", "/v2/translate", "/translate_file"];
        let mut streams: Vec<(TcpStream, &str)> = (0..300)
            .map(|number| {
                let (mut stream, path) = (server.connect(), paths[number % paths.len()]);
                let head = format!(
                    "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2000000\r\n\r\n"
                );
                stream.write_all(head.as_bytes()).unwrap();
                // The server may refuse it at any byte.
                let _ = stream.write_all(&vec![b' '; 1_900_000]);
                (stream, path)
            })
            .collect();
        let memory = server.memory();
        println!("slow bodies: {} MiB, {} MiB before", memory >> 20, before >> 20);
        assert!(memory < LIMIT, "{memory}");
        let started = Instant::now();
        for (stream, path) in &mut streams {
            let mut answer = String::new();
            // A refused connection may be reset, because its body was not read.
            if stream.read_to_string(&mut answer).is_ok() && !answer.is_empty() {
                let expected = ["413", "429", "503", if needs_key { "403" } else { "503" }];
                let status = answer.split(' ').nth(1).unwrap();
                assert!(expected.contains(&status), "{path} {answer}");
            }
        }
        assert!(started.elapsed() < BOUND, "{:?}", started.elapsed());
        if !needs_key {
            translates(&mut server);
        }
        server.check_alive();
        monitor.end("slow bodies");
    }
}

/// Clients that request much and read nothing: more than the soft limit of files.
#[cfg(unix)]
#[test]
fn deaf_clients() {
    let mut server = Process::start(&Options::default());
    let monitor = server.monitor();
    let content = vec![b'1'; 96 << 10];
    let (status, answer) = server.exchange(&file("a.txt", "en", &content));
    assert_eq!(status, 200, "{}", String::from_utf8_lossy(&answer));
    let answer: Value = serde_json::from_slice(&answer).unwrap();
    let url = answer["translatedFileUrl"].as_str().unwrap();
    let path = &url[url.find("/download_file").unwrap()..];
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").repeat(40);
    let deaf: Vec<TcpStream> = (0..400)
        .map(|_| {
            let mut stream = connect(server.address);
            stream.write_all(request.as_bytes()).unwrap();
            stream
        })
        .collect();
    translates(&mut server);
    let connections = |server: &mut Process| {
        let metrics = String::from_utf8(server.exchange(&get("/metrics", &[])).1).unwrap();
        let row = metrics.lines().find_map(|line| line.strip_prefix("tx_connections ")).unwrap();
        row.parse::<usize>().unwrap()
    };
    assert!(connections(&mut server) > 300);
    let started = Instant::now();
    while connections(&mut server) > 10 {
        assert!(started.elapsed() < 2 * BOUND, "deaf clients hold their connections");
        thread::sleep(Duration::from_millis(500));
    }
    println!("deaf clients: closed after {:?}", started.elapsed());
    monitor.end("deaf clients");
    drop(deaf);
}

/// A process that may open few files leaves the connections above its limit in the queue of the system.
#[cfg(unix)]
#[test]
fn few_open_files() {
    let mut server = Process::start(&Options { files: Some(128), ..Options::default() });
    let idle: Vec<TcpStream> = (0..120).map(|_| connect(server.address)).collect();
    // Idle connections are closed, and the next ones take their slots.
    let started = Instant::now();
    assert_eq!(server.exchange(&get("/health", &[])).0, 200);
    println!("few open files: {:?}", started.elapsed());
    drop(idle);
    translates(&mut server);
}

#[test]
fn a_stream_of_a_text_in_the_target_language() {
    let models = ["en-it", "de-it"].map(String::from).into();
    let mut server = Process::start(&Options { models, ..Options::default() });
    for q in ["la casa", "Il tempo è bello oggi e il gatto dorme sul divano in salotto."] {
        let body = json!({ "q": q, "source": "auto", "target": "it", "stream": true });
        let (status, answer) = server.post("/v1/translate", &body);
        assert!(status == 200 && answer.to_string().contains("event: done"), "{answer}");
    }
}
