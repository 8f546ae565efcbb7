//! Processes that end with the process that started them.

use std::process::Command;

/// Variable that tells a process to end with its parent.
const VARIABLE: &str = "TX_END_WITH_PARENT";

/// Makes the process of `command`, which is this program, end with a checkpoint when this process ends,
/// even if it is killed. On systems other than Unix, it continues.
pub fn end_with_this_process(command: &mut Command) {
    command.env(VARIABLE, std::process::id().to_string());
}

/// Raises SIGTERM when the parent ends, if the parent asked for it.
pub fn watch() {
    let parent = std::env::var(VARIABLE).ok().and_then(|id| id.parse::<u32>().ok());
    if let Some(parent) = parent {
        watch_process(parent);
    }
}

#[cfg(unix)]
fn watch_process(parent: u32) {
    use std::{os::unix::process::parent_id, thread, time::Duration};

    use signal_hook::{consts::SIGTERM, low_level::raise};

    let watch = move || {
        // An orphan has another parent.
        while parent_id() == parent {
            thread::sleep(Duration::from_millis(200));
        }
        drop(raise(SIGTERM));
    };
    // Without the thread, the process continues as if it had been started from a shell.
    drop(thread::Builder::new().name("parent".into()).spawn(watch));
}

#[cfg(not(unix))]
fn watch_process(_parent: u32) {}
