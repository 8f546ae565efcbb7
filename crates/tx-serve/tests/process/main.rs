//! The server as a process of its own, under hostile requests: each is answered or refused within a
//! bounded time, the process lives, and `/health` answers meanwhile.
//!
//! `TX_PROGRAM` names another program `translate` to test; otherwise this test binary is the server.
//! `TX_CASES` is the number of mutated documents and requests.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "clippy recognizes test functions as tests, but not the functions they call"
)]

// A server as a process, its clients, and a monitor of `/health`.
mod server;
// Documents and archives.
mod documents;
// Requests that once ended, blocked or opened a server.
mod hostile;
// Mutated documents and requests.
mod mutated;

/// The process of the server: see [`server::Process::start`].
#[test]
#[ignore = "the process that other tests start"]
fn serve() {
    server::serve();
}
