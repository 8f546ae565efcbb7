use std::{
    env,
    fmt::Write as _,
    fs,
    io::{self, BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tx_serve::{ModelSpec, Server, ServerOptions};

/// Time in which each request must be answered: the time limit of requests, and what a busy machine
/// takes besides.
pub const BOUND: Duration = Duration::from_secs(40);

/// Options of a process.
#[derive(Debug, Default)]
pub struct Options {
    /// Names of models; all have the same folder.
    pub models: Vec<String>,
    /// File of keys.
    pub keys: Option<PathBuf>,
    /// Time limit in seconds; 30 without it.
    pub timeout: Option<u64>,
    /// Soft and hard limit of open files.
    pub files: Option<u64>,
}

/// A running server.
pub struct Process {
    child: Child,
    pub address: SocketAddr,
}

fn bundle() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/bundle-v1")
}

/// Serves with the arguments in the environment, in the process that a test started.
pub fn serve() {
    let Ok(arguments) = env::var("TX_TEST_SERVER") else { return };
    let arguments: Vec<String> = serde_json::from_str(&arguments).unwrap();
    let mut options = ServerOptions::new(Vec::new());
    for pair in arguments.chunks(2) {
        match (&*pair[0], &pair[1]) {
            ("--model", value) => options.models.push(value.parse::<ModelSpec>().unwrap()),
            ("--listen", value) => options.listen = value.parse().unwrap(),
            ("--threads", value) => options.execution.threads = value.parse().unwrap(),
            ("--timeout", value) => {
                options.limits.timeout = Duration::from_secs(value.parse().unwrap());
            }
            ("--keys", value) => options.keys = Some(value.into()),
            (other, _) => panic!("{other}"),
        }
    }
    let server = Server::bind(options).unwrap();
    eprintln!("\"url\":\"http://{}/\"", server.address().unwrap());
    server.run(None).unwrap();
}

impl Process {
    /// Starts a server with two threads.
    pub fn start(options: &Options) -> Self {
        let mut arguments: Vec<String> = Vec::new();
        let mut argument = |name: &str, value: String| arguments.extend([name.to_owned(), value]);
        let names = if options.models.is_empty() { &vec!["en-it".into()] } else { &options.models };
        for name in names {
            argument("--model", format!("{name}={}", bundle().display()));
        }
        argument("--listen", "127.0.0.1:0".into());
        argument("--threads", "2".into());
        if let Some(keys) = &options.keys {
            argument("--keys", keys.display().to_string());
        }
        if let Some(timeout) = options.timeout {
            argument("--timeout", timeout.to_string());
        }
        let (program, arguments) = match env::var("TX_PROGRAM") {
            Ok(program) => (program, [vec!["serve".into()], arguments].concat()),
            Err(_) => {
                let program = env::current_exe().unwrap().display().to_string();
                let fixed = ["--exact", "serve", "--ignored", "--nocapture"].map(String::from);
                let json = Value::from(arguments).to_string();
                (program, [vec![json], fixed.into()].concat())
            }
        };
        let mut command = match options.files {
            Some(files) => {
                let mut command = Command::new("sh");
                command.args(["-c", &format!("ulimit -n {files}; exec \"$0\" \"$@\""), &program]);
                command
            }
            None => Command::new(&program),
        };
        let arguments = if env::var("TX_PROGRAM").is_err() {
            command.env("TX_TEST_SERVER", &arguments[0]);
            &arguments[1..]
        } else {
            &arguments[..]
        };
        command.args(arguments).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let url = lines.find_map(|line| {
            let line = line.unwrap();
            Some(line.split_once("\"url\":\"http://")?.1.split_once('/')?.0.to_owned())
        });
        let address = url.expect("the server listens").parse().unwrap();
        // A full pipe would block the server.
        thread::spawn(move || lines.for_each(drop));
        Self { child, address }
    }

    pub fn connect(&self) -> TcpStream {
        connect(self.address)
    }

    /// Sends bytes and returns status and body of the answer.
    ///
    /// # Panics
    ///
    /// If the process has ended, or the answer takes longer than [`BOUND`].
    pub fn exchange(&mut self, request: &[u8]) -> (u16, Vec<u8>) {
        let started = Instant::now();
        let result = exchange(self.address, request);
        self.check_alive();
        let (status, body) = result.unwrap();
        assert!(started.elapsed() < BOUND, "{:?}", started.elapsed());
        (status, body)
    }

    pub fn post(&mut self, path: &str, body: &Value) -> (u16, Value) {
        let (status, body) =
            self.exchange(&post(path, "application/json", body.to_string().as_bytes()));
        let value =
            serde_json::from_slice(&body).unwrap_or_else(|_| String::from_utf8_lossy(&body).into());
        (status, value)
    }

    /// Sends a signal.
    #[cfg(unix)]
    pub fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([&format!("-{name}"), &id]).status().unwrap().success());
    }

    /// # Panics
    ///
    /// If the process has ended.
    pub fn check_alive(&mut self) {
        assert_eq!(self.child.try_wait().unwrap(), None, "the server has ended");
    }

    /// Resident memory in bytes; 0 where it is not known.
    pub fn memory(&self) -> usize {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let status = status.unwrap_or_default();
        let row = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes =
            row.and_then(|row| row.trim().trim_end_matches(" kB").parse::<usize>().ok());
        kilobytes.unwrap_or(0) << 10
    }

    /// Starts to measure the time of `/health`.
    pub fn monitor(&self) -> Monitor {
        let (address, is_over) = (self.address, Arc::new(AtomicBool::new(false)));
        let over = is_over.clone();
        let thread = thread::spawn(move || {
            let mut times = Vec::new();
            while !over.load(Ordering::SeqCst) {
                let started = Instant::now();
                let answer = exchange(address, &get("/health", &[]));
                assert!(answer.is_ok_and(|(status, _)| status == 200), "/health");
                times.push(started.elapsed());
                thread::sleep(Duration::from_millis(20));
            }
            times
        });
        Monitor { is_over, thread }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Requests for `/health` in the background.
pub struct Monitor {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Duration>>,
}

impl Monitor {
    /// Prints the times of `/health`, and tests that all were answered. `TX_HEALTH` is the limit of the
    /// slowest one in milliseconds, on a machine without other work.
    pub fn end(self, name: &str) {
        self.is_over.store(true, Ordering::SeqCst);
        let mut times = self.thread.join().unwrap();
        times.sort_unstable();
        let at = |percent: usize| times[(times.len() - 1) * percent / 100];
        let (median, high, max) = (at(50), at(99), at(100));
        println!(
            "{name}: /health {} times, p50 {median:?}, p99 {high:?}, max {max:?}",
            times.len()
        );
        let limit = env::var("TX_HEALTH").ok().and_then(|text| text.parse().ok());
        assert!(max < limit.map_or(BOUND, Duration::from_millis), "{name}: {max:?}");
    }
}

pub fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(2 * BOUND)).unwrap();
    stream.set_write_timeout(Some(2 * BOUND)).unwrap();
    stream
}

/// Sends bytes on a new connection, and reads the answer until the server closes it.
pub fn exchange(address: SocketAddr, request: &[u8]) -> io::Result<(u16, Vec<u8>)> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(2 * BOUND))?;
    stream.set_write_timeout(Some(2 * BOUND))?;
    // A server that refuses a request does not read its body.
    let _ = stream.write_all(request);
    let mut answer = Vec::new();
    let read = stream.read_to_end(&mut answer);
    if answer.is_empty() {
        read?;
    }
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n");
    let invalid = || io::Error::other("the answer is not complete");
    let (head, body) = answer.split_at(end.ok_or_else(invalid)? + 4);
    let head = String::from_utf8_lossy(head);
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    Ok((status.ok_or_else(invalid)?, body.to_owned()))
}

pub fn get(path: &str, headers: &[(&str, &str)]) -> Vec<u8> {
    let mut text = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
    for (name, value) in headers {
        write!(text, "{name}: {value}\r\n").unwrap();
    }
    (text + "\r\n").into_bytes()
}

pub fn post(path: &str, content_type: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

/// A request to translate a file.
pub fn file(name: &str, source: &str, content: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    for (key, value) in [("source", source), ("target", "it")] {
        let part = format!(
            "--x-boundary\r\nContent-Disposition: form-data; name=\"{key}\"\r\n\r\n{value}\r\n"
        );
        body.extend_from_slice(part.as_bytes());
    }
    let head = format!(
        "--x-boundary\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\r\n"
    );
    body.extend_from_slice(head.as_bytes());
    body.extend_from_slice(content);
    body.extend_from_slice(b"\r\n--x-boundary--\r\n");
    post("/translate_file", "multipart/form-data; boundary=x-boundary", &body)
}

/// A request for `/translate`.
pub fn text(q: impl Into<Value>) -> Value {
    json!({ "q": q.into(), "source": "en", "target": "it" })
}
