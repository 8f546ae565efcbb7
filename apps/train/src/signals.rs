//! Signals that interrupt a run.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use signal_hook::{
    consts::{SIGINT, SIGTERM},
    flag,
};

/// Offset of exit codes: shells report a process ended by signal N as 128 + N.
const SIGNALED: i32 = 128;

/// Handlers of SIGINT, SIGTERM and, on Linux, SIGHUP.
///
/// The first signal stops the run with a checkpoint; the second ends the process at once.
pub struct Signals {
    stop: Arc<AtomicBool>,
    /// Number of the last signal; 0 before the first.
    last: Arc<AtomicUsize>,
}

impl Signals {
    /// Installs the handlers; `notify` prints a line when the first signal arrives.
    pub fn listen(notify: bool) -> io::Result<Self> {
        let signals = Self { stop: Arc::default(), last: Arc::default() };
        let mut handled = vec![SIGINT, SIGTERM];
        handled.extend(hangup());
        for &signal in &handled {
            // Registered before the handler that sets `stop`, so that only the second signal exits.
            flag::register_conditional_shutdown(signal, SIGNALED + signal, signals.stop.clone())?;
            flag::register_usize(signal, signals.last.clone(), signal.unsigned_abs() as usize)?;
            flag::register(signal, signals.stop.clone())?;
        }
        if notify {
            announce(&handled)?;
        }
        Ok(signals)
    }

    /// Flag that the first signal sets.
    pub fn stop(&self) -> Arc<AtomicBool> {
        self.stop.clone()
    }

    /// Exit code of an interrupted run: 130 after SIGINT, 143 after SIGTERM, 129 after SIGHUP. A run
    /// interrupted in the dashboard counts as SIGINT.
    pub fn exit_code(&self) -> u8 {
        let signal = match self.last.load(Ordering::Relaxed) {
            0 => SIGINT.unsigned_abs() as usize,
            signal => signal,
        };
        u8::try_from(SIGNALED.unsigned_abs() as usize + signal).unwrap_or(u8::MAX)
    }
}

/// Prints a line when the first of `signals` arrives.
#[cfg(unix)]
fn announce(signals: &[i32]) -> io::Result<()> {
    use std::io::Write;

    use tx_cli::terminal::stderr;

    let mut received = signal_hook::iterator::Signals::new(signals)?;
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        if received.forever().next().is_some() {
            // After a hangup the terminal is closed.
            drop(writeln!(
                stderr(),
                "interrupted: stopping with a checkpoint; interrupt again to exit at once"
            ));
        }
    })?;
    Ok(())
}

/// Does nothing, because Windows has no iterator over signals. The run still prints where it stopped.
#[cfg(not(unix))]
fn announce(_: &[i32]) -> io::Result<()> {
    Ok(())
}

/// Returns SIGHUP, unless the process was started with it ignored, as by `nohup`.
#[cfg(target_os = "linux")]
fn hangup() -> Option<i32> {
    use signal_hook::consts::SIGHUP;

    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    (!ignores(&status, SIGHUP)?).then_some(SIGHUP)
}

/// Returns none: on this system, reading the disposition of SIGHUP needs unsafe code, so SIGHUP is not
/// handled.
#[cfg(not(target_os = "linux"))]
fn hangup() -> Option<i32> {
    None
}

/// Whether a process ignores `signal`, from its `/proc/PID/status`; none if the file has no mask.
#[cfg(target_os = "linux")]
fn ignores(status: &str, signal: i32) -> Option<bool> {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
    let mask = u64::from_str_radix(mask.trim(), 16).ok()?;
    Some(mask & 1 << (signal - 1) != 0)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use signal_hook::consts::SIGHUP;

    use super::*;

    /// Bit N - 1 represents signal N: SIGHUP is 1, SIGPIPE is 13.
    #[test]
    fn ignored_signals_are_read_from_the_status() {
        let status =
            |mask: &str| format!("SigBlk:\t0000000000000001\nSigIgn:\t{mask}\nSigCgt:\t0\n");
        assert_eq!(ignores(&status("0000000000001001"), SIGHUP), Some(true));
        assert_eq!(ignores(&status("0000000000001000"), SIGHUP), Some(false));
        assert_eq!(ignores("Name:\ttrain\n", SIGHUP), None);
        assert_eq!(ignores(&status("zero"), SIGHUP), None);
    }
}
