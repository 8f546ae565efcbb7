//! The program `txmt`: `train` and `translate` under one name, which no other package has.
//!
//! `txmt train …` and `txmt translate …` have the arguments of those programs. The commands of
//! `translate`, such as `score`, `models` and `serve`, are also commands of `txmt`.

mod args;

use std::ffi::OsString;

use args::{Cli, Command};
use clap::{CommandFactory, FromArgMatches};
use tx_cli::{called, failure, free_text};

/// Runs the program with `arguments`, of which the first is the name of the program, and exits on a
/// usage error. Returns the exit code. Call it before any other thread has started.
///
/// `start` is the command line that starts this program in another process, such as `python -m txmt`;
/// without words, it is the path of the executable file.
pub fn main(start: Vec<OsString>, arguments: impl IntoIterator<Item = OsString>) -> u8 {
    called::set_txmt(start);
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let exit = |error: clap::Error| -> ! {
        let hint = train::usage_hint(&error).or_else(|| translate::usage_hint(&error));
        failure::exit(&error, hint.as_deref())
    };
    let program = program();
    let matches =
        program.clone().try_get_matches_from(&arguments).unwrap_or_else(|error| exit(error));
    free_text::check(program.clone(), arguments.into_iter().skip(1))
        .unwrap_or_else(|error| exit(error));
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| exit(error));
    match (cli.command, matches.subcommand()) {
        (Command::Train(cli), _) => train::run(*cli),
        (Command::Translate(cli), Some((_, matches))) => translate::run(cli.with_matches(matches)),
        (Command::Translate(cli), None) => translate::run(*cli),
        (Command::OfTranslate(command), _) => translate::run_command(*command, program),
    }
}

/// Command line of the program. Commands that it has twice are listed once.
fn program() -> clap::Command {
    let hide = |command: clap::Command| command.hide(true);
    let train = |command: clap::Command| {
        command.mut_subcommand("completions", hide).mut_subcommand("manual", hide)
    };
    let translate = |command: clap::Command| command.mut_subcommands(hide);
    let program =
        Cli::command().mut_subcommand("train", train).mut_subcommand("translate", translate);
    called::in_help(program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_argument_definitions_are_consistent() {
        program().debug_assert();
    }

    /// Texts of a program, its arguments and commands.
    fn help(command: &mut clap::Command) -> String {
        let own = command.render_long_help().to_string();
        command.get_subcommands_mut().map(help).fold(own, |text, inner| text + &inner)
    }

    #[test]
    fn help_names_no_other_program() {
        let help = help(&mut program());
        for line in help.lines() {
            for name in ["`train ", "`translate ", "`train`", "`translate`"] {
                assert!(!line.contains(name), "{line}");
            }
            let is_example =
                ["  train ", "  translate "].iter().any(|start| line.starts_with(start));
            assert!(
                !is_example || line.contains("  Train a model") || line.contains("  Run a model"),
                "{line}"
            );
        }
    }
}
