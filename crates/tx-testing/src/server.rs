//! Local web server for tests, with configurable misbehavior.

use std::{
    collections::HashMap,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

/// Received request.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// Path and query.
    pub path: String,
    headers: HashMap<String, String>,
}

impl Seen {
    /// Returns the value of a header, whose name is in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }
}

/// Action of the server on a connection, which is closed at the end.
#[derive(Debug, Clone)]
pub enum Act {
    /// Sends bytes.
    Send(Vec<u8>),
    /// Waits before the next action.
    Wait(Duration),
    /// Resets the connection.
    Reset,
}

/// Handler of the nth request (from 0) for a path.
type Handler = Arc<dyn Fn(&Seen, usize) -> Vec<Act> + Send + Sync>;

#[derive(Clone, Default)]
struct State {
    handlers: Arc<Mutex<HashMap<String, Handler>>>,
    seen: Arc<Mutex<Vec<Seen>>>,
}

/// Running server; it stops at the end of the test.
pub struct Server {
    /// Address, without a slash at its end.
    pub url: String,
    state: State,
}

impl Default for Server {
    fn default() -> Self {
        Self::new()
    }
}

impl Server {
    /// Starts a server on a free port, which answers 404 to every path.
    ///
    /// # Panics
    ///
    /// If no port is free.
    pub fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let state = State::default();
        let shared = state.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = shared.clone();
                thread::spawn(move || state.answer(stream));
            }
        });
        Self { url, state }
    }

    /// Serves `body` at `path` correctly.
    pub fn file(&self, path: &str, body: impl Into<Vec<u8>>) {
        let body = body.into();
        self.on(path, move |seen, _| good(seen, &body, "\"v1\""));
    }

    /// Answers requests for `path` by `handler`, which gets the request and the number of those before it.
    pub fn on(
        &self,
        path: &str,
        handler: impl Fn(&Seen, usize) -> Vec<Act> + Send + Sync + 'static,
    ) {
        self.state.handlers.lock().unwrap().insert(path.into(), Arc::new(handler));
    }

    /// Requests received so far.
    pub fn seen(&self) -> Vec<Seen> {
        self.state.seen.lock().unwrap().clone()
    }
}

impl State {
    fn answer(&self, mut stream: TcpStream) {
        // Peeks first and reads later, because closing a connection with unread bytes resets it.
        let mut head = vec![0; 64 << 10];
        let mut len = 0;
        for _ in 0..1_000 {
            len = stream.peek(&mut head).unwrap_or(0);
            if len == 0 || head[..len].windows(4).any(|end| end == b"\r\n\r\n") {
                break;
            }
            thread::sleep(Duration::from_millis(1));
        }
        if len == 0 {
            return;
        }
        let text = String::from_utf8_lossy(&head[..len]).into_owned();
        let mut lines = text.lines();
        let path = lines.next().and_then(|line| line.split(' ').nth(1)).unwrap_or("/").to_owned();
        let headers = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()))
            .collect();
        let seen = Seen { path: path.clone(), headers };
        let nth = {
            let mut all = self.seen.lock().unwrap();
            all.push(seen.clone());
            all.iter().filter(|other| other.path == path).count() - 1
        };
        let handler = self.handlers.lock().unwrap().get(&path).cloned();
        let acts = match handler {
            Some(handler) => handler(&seen, nth),
            None => status("404 Not Found", ""),
        };
        if !acts.iter().any(|act| matches!(act, Act::Reset)) {
            let _ = stream.read_exact(&mut head[..len]);
        }
        for act in acts {
            match act {
                Act::Send(bytes) => {
                    if stream.write_all(&bytes).is_err() {
                        return;
                    }
                }
                Act::Wait(time) => thread::sleep(time),
                Act::Reset => thread::sleep(Duration::from_millis(50)),
            }
        }
    }
}

/// Response with a status line, headers and an empty body.
pub fn status(status: &str, headers: &str) -> Vec<Act> {
    head(status, &format!("Content-Length: 0\r\n{headers}"))
}

/// Status line and headers of a response.
pub fn head(status: &str, headers: &str) -> Vec<Act> {
    vec![Act::Send(format!("HTTP/1.1 {status}\r\nConnection: close\r\n{headers}\r\n").into())]
}

/// Correct response: the complete file, or the requested range.
pub fn good(seen: &Seen, body: &[u8], etag: &str) -> Vec<Act> {
    let total = body.len();
    let range = seen.header("range").and_then(|range| range.strip_prefix("bytes="));
    let start = range.and_then(|range| range.strip_suffix('-')).and_then(|text| text.parse().ok());
    let mut acts = match start {
        Some(start) if start < total && seen.header("if-range") == Some(etag) => {
            let headers = format!(
                "ETag: {etag}\r\nContent-Range: bytes {start}-{}/{total}\r\nContent-Length: {}\r\n",
                total - 1,
                total - start
            );
            let mut acts = head("206 Partial Content", &headers);
            acts.push(Act::Send(body[start..].to_vec()));
            return acts;
        }
        _ => head("200 OK", &format!("ETag: {etag}\r\nContent-Length: {total}\r\n")),
    };
    acts.push(Act::Send(body.to_vec()));
    acts
}

/// Beginning of a correct response.
pub fn truncated(body: &[u8], after: usize, etag: &str) -> Vec<Act> {
    let headers = format!("ETag: {etag}\r\nContent-Length: {}\r\n", body.len());
    let mut acts = head("200 OK", &headers);
    acts.push(Act::Send(body[..after].to_vec()));
    acts
}
