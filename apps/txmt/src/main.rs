//! The program `txmt`; see the library.

use std::{env, process::ExitCode};

fn main() -> ExitCode {
    txmt::main(Vec::new(), env::args_os()).into()
}
