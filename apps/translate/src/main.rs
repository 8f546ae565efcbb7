//! The program `translate`; see the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    translate::main().into()
}
