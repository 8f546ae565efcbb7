//! Lines as they come, some at a time.

use std::{
    io::{BufReader, stdin},
    path::Path,
    sync::mpsc::{Receiver, RecvTimeoutError, sync_channel},
    thread,
    time::{Duration, Instant},
};

use tx_infer::{
    tx_text::TextError,
    tx_text::{InvalidUtf8, Lines},
};

/// How long to wait for more lines once there is one: what is written at once comes at once.
const PATIENCE: Duration = Duration::from_millis(5);

/// Most lines of standard input that are read ahead: the channel allocates room for all of them.
const MOST_AHEAD: usize = 10_000;

/// The name of standard input in messages.
pub const STANDARD_INPUT: &str = "standard input";

type Line = Result<String, TextError>;

/// Where lines come from.
pub enum Input {
    /// One text, until it has been read.
    Text(Option<String>),
    /// A file, which is read as fast as wanted.
    File(Box<Lines>),
    /// Somebody who may take their time between two lines.
    Live(Receiver<Line>),
}

/// Lines that are there, and whether an error comes after them.
pub struct Window {
    pub lines: Vec<String>,
    /// What comes after them; none where there is nothing more to say.
    pub end: Option<Result<(), TextError>>,
}

impl Input {
    /// One text.
    pub fn text(text: String) -> Self {
        Self::Text(Some(text))
    }

    /// A file, plain or gzip.
    pub fn file(path: &Path, invalid: InvalidUtf8) -> Result<Self, TextError> {
        Ok(Self::File(Box::new(Lines::open(path)?.with_invalid_utf8(invalid))))
    }

    /// Standard input, of which at most `ahead` lines are read ahead, and at most [`MOST_AHEAD`].
    pub fn standard(invalid: InvalidUtf8, ahead: usize) -> Self {
        let (sender, receiver) = sync_channel(ahead.min(MOST_AHEAD));
        thread::spawn(move || {
            let reader = Box::new(BufReader::new(stdin()));
            for line in Lines::new(reader, STANDARD_INPUT).with_invalid_utf8(invalid) {
                let last = line.is_err();
                if sender.send(line).is_err() || last {
                    break;
                }
            }
        });
        Self::Live(receiver)
    }

    /// Bytes of the file that have been read; 0 where there is none.
    pub fn bytes_read(&self) -> u64 {
        match self {
            Self::File(lines) => lines.bytes_read(),
            Self::Text(_) | Self::Live(_) => 0,
        }
    }

    /// The next lines, at least one unless there is none, at most `most`: those that are there.
    pub fn window(&mut self, most: usize) -> Window {
        let mut window = Window { lines: Vec::new(), end: None };
        let mut until = None;
        while window.lines.len() < most {
            let line = match self {
                Self::Text(text) => text.take().map(Ok),
                Self::File(lines) => lines.next(),
                Self::Live(lines) => match until {
                    None => lines.recv().ok(),
                    Some(until) => match lines.recv_timeout(left(until)) {
                        Err(RecvTimeoutError::Timeout) => break,
                        line => line.ok(),
                    },
                },
            };
            until = until.or_else(|| Some(Instant::now() + PATIENCE));
            match line {
                Some(Ok(line)) => window.lines.push(line),
                Some(Err(error)) => {
                    window.end = Some(Err(error));
                    break;
                }
                None => {
                    window.end = Some(Ok(()));
                    break;
                }
            }
        }
        window
    }
}

fn left(until: Instant) -> Duration {
    until.saturating_duration_since(Instant::now())
}
