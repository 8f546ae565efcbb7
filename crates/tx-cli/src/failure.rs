//! Error reports and exit codes of the programs.

use std::io::{self, Write};

use crate::{called, closed_output, terminal::stderr};

/// Reason of a failure, which decides the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// The command was correct, but could not be completed: exit code 1.
    Runtime,
    /// Arguments or configuration were wrong: exit code 2, as for errors that clap reports.
    Usage,
}

impl Failure {
    /// Prints `error` with its chain of causes, and `hint` on a line of its own, to standard error. Returns
    /// the exit code.
    pub fn report(self, error: &anyhow::Error, hint: Option<&str>) -> u8 {
        // Standard error may be closed, and there is no other place to report to.
        drop(writeln!(stderr(), "error: {}", called::in_text(&format!("{error:#}"))));
        print_hint(hint);
        self.code()
    }

    /// Returns the exit code.
    pub fn code(self) -> u8 {
        match self {
            Self::Runtime => 1,
            Self::Usage => 2,
        }
    }
}

/// Prints an error of clap, or the help that was requested, followed by `hint`, and exits with the
/// code of clap: 2 for an error, 0 for help that was printed.
pub fn exit(error: &clap::Error, hint: Option<&str>) -> ! {
    let printed = error.print();
    print_hint(hint);
    let code = match error.exit_code() {
        // Standard error may be closed, and there is no other place to report to.
        0 if printed.is_err() || closed_output::is_closed() => Failure::Runtime.code().into(),
        code => code,
    };
    std::process::exit(code)
}

/// Prints the next thing to try to standard error.
pub fn print_hint(hint: Option<&str>) {
    if let Some(hint) = hint {
        drop(writeln!(stderr(), "hint: {}", called::in_text(hint)));
    }
}

/// Returns `true` if `error` is a write to a pipe whose reader has exited, as in
/// `translate … | head`.
///
/// Rust ignores SIGPIPE, so such a write returns an error instead of ending the process. By Unix
/// convention it is no failure.
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;

    #[test]
    fn a_broken_pipe_is_recognized_below_a_context() {
        let error = || io::Error::from(io::ErrorKind::BrokenPipe);
        assert!(is_broken_pipe(&error().into()));
        assert!(is_broken_pipe(&Err::<(), _>(error()).context("cannot write").unwrap_err()));
        assert!(!is_broken_pipe(&io::Error::from(io::ErrorKind::NotFound).into()));
        assert!(!is_broken_pipe(&anyhow::anyhow!("broken pipe")));
    }

    #[test]
    fn wrong_usage_has_the_exit_code_of_clap() {
        assert_eq!((Failure::Runtime.code(), Failure::Usage.code()), (1, 2));
    }
}
