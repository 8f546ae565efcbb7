//! A server on a socket: connections, clients that leave or are slow, and the end of the server.

#![allow(clippy::unwrap_used)]

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    path::PathBuf,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tx_serve::{ModelSpec, Server, ServerOptions, Stop};

struct Running {
    address: SocketAddr,
    stop: Stop,
    thread: JoinHandle<()>,
}

fn start(change: impl FnOnce(&mut ServerOptions)) -> Running {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/bundle-v1");
    let mut options = ServerOptions::new(vec![ModelSpec { name: "en-it".into(), folder }]);
    options.listen = SocketAddr::from(([127, 0, 0, 1], 0));
    options.execution.threads = 1;
    change(&mut options);
    let server = Server::bind(options).unwrap();
    let address = server.address().unwrap();
    let (stop, stopped) = Server::stop_handle();
    let thread = thread::spawn(move || server.run(Some(stopped)).unwrap());
    Running { address, stop, thread }
}

impl Running {
    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream
    }

    fn stop(self) {
        self.stop.stop();
        self.thread.join().unwrap();
    }
}

fn request(path: &str, body: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

/// Status and body of the answer of a connection that the server closes.
fn answer(mut stream: TcpStream) -> (u16, String) {
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let status = text.split(' ').nth(1).unwrap().parse().unwrap();
    (status, text.split_once("\r\n\r\n").unwrap().1.to_owned())
}

fn body(sentences: usize) -> String {
    let q: Vec<&str> = vec!["the cat sleeps . the dog eats"; sentences];
    json!({ "q": q, "source": "en", "target": "it" }).to_string()
}

fn translate(server: &Running, sentences: usize) -> (u16, Value) {
    let mut stream = server.connect();
    stream.write_all(request("/translate", &body(sentences)).as_bytes()).unwrap();
    let (status, text) = answer(stream);
    (status, serde_json::from_str(&text).unwrap())
}

fn waiting(server: &Running) -> f64 {
    let mut stream = server.connect();
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .unwrap();
    let (_, text) = answer(stream);
    let line = text.lines().find(|line| line.starts_with("tx_queue_sentences ")).unwrap();
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

#[test]
fn a_stopping_server_finishes_requests_and_refuses_connections() {
    let server = start(|_| {});
    let (status, expected) = translate(&server, 1);
    assert_eq!(status, 200);
    let streams: Vec<TcpStream> = (0..4)
        .map(|_| {
            let mut stream = server.connect();
            stream.write_all(request("/translate", &body(200)).as_bytes()).unwrap();
            stream
        })
        .collect();
    thread::sleep(Duration::from_millis(30));
    let address = server.address;
    server.stop.stop();
    for stream in streams {
        let (status, text) = answer(stream);
        assert_eq!(status, 200, "{text}");
        let found: Value = serde_json::from_str(&text).unwrap();
        let found = found["translatedText"].as_array().unwrap();
        assert!(
            found.len() == 200 && found.iter().all(|text| *text == expected["translatedText"][0])
        );
    }
    server.thread.join().unwrap();
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn sentences_of_clients_that_leave_are_dropped() {
    let server = start(|options| options.queue = 100_000);
    for _ in 0..10 {
        let mut stream = server.connect();
        stream.write_all(request("/translate", &body(900)).as_bytes()).unwrap();
        thread::sleep(Duration::from_millis(20));
    }
    // All connections are closed; 9,000 sentences would take far longer than this.
    let started = Instant::now();
    while waiting(&server) > 0.0 {
        // A sentence of a client that has left is dropped when a batch would take it.
        translate(&server, 1);
        assert!(started.elapsed() < Duration::from_secs(30), "{} sentences wait", waiting(&server));
    }
    assert_eq!(translate(&server, 1).0, 200);
    server.stop();
}

#[test]
fn slow_and_half_open_connections_do_not_block_others() {
    let server = start(|options| options.limits.timeout = Duration::from_secs(1));
    let mut half: Vec<TcpStream> = (0..200).map(|_| server.connect()).collect();
    for (number, stream) in half.iter_mut().enumerate() {
        let text = request("/translate", &body(1));
        // Nothing, a part of the headers, or a part of the body.
        let end = [0, 20, text.len() - 5][number % 3];
        stream.write_all(&text.as_bytes()[..end]).unwrap();
    }
    assert_eq!(translate(&server, 1).0, 200);
    // The time of a body that does not arrive is limited.
    let slow = half.swap_remove(2);
    assert_eq!(answer(slow).0, 503);
    drop(half);
    assert_eq!(translate(&server, 1).0, 200);
    server.stop();
}

#[test]
fn large_bodies_are_refused_while_they_arrive() {
    let server = start(|_| {});
    let mut stream = server.connect();
    let large = "a".repeat(10 << 20);
    // The server may close the connection before it has read everything.
    let _ = stream.write_all(request("/translate", &large).as_bytes());
    let mut text = Vec::new();
    let _ = stream.read_to_end(&mut text);
    let text = String::from_utf8_lossy(&text);
    assert!(text.is_empty() || text.starts_with("HTTP/1.1 413"), "{text}");
    assert_eq!(translate(&server, 1).0, 200);
    server.stop();
}

/// Connections whose first request has not been sent, as those of a client that connects in advance, and
/// those that the system has accepted and the server has not.
#[test]
fn a_stopping_server_answers_the_first_requests_of_open_connections() {
    let server = start(|_| {});
    assert_eq!(translate(&server, 1).0, 200);
    let mut streams: Vec<TcpStream> = (0..50).map(|_| server.connect()).collect();
    server.stop.stop();
    thread::sleep(Duration::from_millis(100));
    for stream in &mut streams {
        stream.write_all(request("/translate", &body(1)).as_bytes()).unwrap();
    }
    for stream in streams {
        let (status, text) = answer(stream);
        assert_eq!(status, 200, "{text}");
    }
    let started = Instant::now();
    server.thread.join().unwrap();
    assert!(started.elapsed() < Duration::from_secs(20));
}
