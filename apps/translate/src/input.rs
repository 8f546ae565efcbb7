//! Input of lines, read in windows.

use std::{
    io::{BufReader, stdin},
    path::Path,
    sync::mpsc::{Receiver, RecvTimeoutError, sync_channel},
    thread,
    time::{Duration, Instant},
};

use tx_text::{InvalidUtf8, Lines, TextError};

/// Time to wait for further lines after the first of a window, so that lines written together are
/// translated together.
const PATIENCE: Duration = Duration::from_millis(5);

/// Maximum number of lines that are read ahead from standard input; the channel allocates memory for
/// all of them.
const MOST_AHEAD: usize = 10_000;

/// Name of standard input in messages.
pub const STANDARD_INPUT: &str = "standard input";

type Line = Result<String, TextError>;

/// Input of lines.
pub enum Input {
    /// A text; none after it has been read.
    Text(Option<String>),
    /// A file, whose lines are available at once.
    File(Box<Lines>),
    /// Standard input, whose writer may pause between two lines.
    Live(Receiver<Line>),
}

/// Lines read together.
pub struct Window {
    pub lines: Vec<String>,
    /// End of the input after these lines, or the error that ends it; none if lines may follow.
    pub end: Option<Result<(), TextError>>,
}

impl Input {
    /// Reads one text.
    pub fn text(text: String) -> Self {
        Self::Text(Some(text))
    }

    /// Opens a file, plain or compressed.
    pub fn file(path: &Path, invalid: InvalidUtf8) -> Result<Self, TextError> {
        Ok(Self::File(Box::new(Lines::open(path)?.with_invalid_utf8(invalid))))
    }

    /// Reads standard input, at most `ahead` lines and at most [`MOST_AHEAD`] in advance.
    pub fn standard(invalid: InvalidUtf8, ahead: usize) -> Self {
        let (sender, receiver) = sync_channel(ahead.min(MOST_AHEAD));
        thread::spawn(move || {
            let stream = Box::new(BufReader::new(stdin()));
            let lines = match Lines::from_stream(stream, STANDARD_INPUT) {
                Ok(lines) => lines.with_invalid_utf8(invalid),
                Err(error) => {
                    // Nobody receives it if the program has ended.
                    let _ = sender.send(Err(error));
                    return;
                }
            };
            for line in lines {
                let last = line.is_err();
                if sender.send(line).is_err() || last {
                    break;
                }
            }
        });
        Self::Live(receiver)
    }

    /// Bytes read from the file; 0 for other inputs.
    pub fn bytes_read(&self) -> u64 {
        match self {
            Self::File(lines) => lines.bytes_read(),
            Self::Text(_) | Self::Live(_) => 0,
        }
    }

    /// Reads the lines that are available, at most `most`; waits for the first.
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
