//! Name under which the programs were called: their own names, or `txmt`, which has the commands of
//! both. Commands in help texts, errors and hints follow it.

use std::{env, ffi::OsString, io, process::Command, sync::OnceLock};

/// Command line that starts `txmt`, if this process is `txmt`.
static TXMT: OnceLock<Vec<OsString>> = OnceLock::new();

/// Declares that this process is `txmt`. `start` is the command line that starts it, without
/// arguments, such as `/usr/bin/txmt` or `python -m txmt`. Without a command line, it is the path of
/// this program. A second call has no effect.
pub fn set_txmt(start: Vec<OsString>) {
    let _ = TXMT.set(start);
}

/// Returns `true` if this process is `txmt`.
pub fn is_txmt() -> bool {
    TXMT.get().is_some()
}

/// Returns a command that starts the program `name`, which this process is or contains, in another
/// process.
///
/// # Errors
///
/// If the path of this program is not known.
pub fn start(name: &str) -> io::Result<Command> {
    let start = TXMT.get();
    let mut words = start.into_iter().flatten();
    let mut command = match words.next() {
        Some(program) => Command::new(program),
        None => Command::new(env::current_exe()?),
    };
    command.args(words);
    if start.is_some() {
        command.arg(name);
    }
    Ok(command)
}

/// Replaces the commands of a text by those of `txmt`, if this process is `txmt`. Commands are quoted
/// with backticks, or lines that are indented by two spaces.
pub fn in_text(text: &str) -> String {
    if is_txmt() { with_txmt(text) } else { text.to_owned() }
}

/// Replaces the commands in the help texts of a program and its commands by those of `txmt`.
pub fn in_help(command: clap::Command) -> clap::Command {
    let replaced = |text: &clap::builder::StyledStr| with_txmt(&text.to_string());
    let [about, long_about, after] =
        [command.get_about(), command.get_long_about(), command.get_after_help()]
            .map(|text| text.map(replaced));
    let mut command = command;
    if let Some(text) = about {
        command = command.about(text);
    }
    if let Some(text) = long_about {
        command = command.long_about(text);
    }
    if let Some(text) = after {
        command = command.after_help(text);
    }
    let commands = command.mut_args(|argument| {
        let help = argument.get_help().map(replaced);
        let long = argument.get_long_help().map(replaced);
        let argument = if let Some(help) = help { argument.help(help) } else { argument };
        if let Some(long) = long { argument.long_help(long) } else { argument }
    });
    commands.mut_subcommands(in_help)
}

/// Replaces `train …` by `txmt train …`, `translate COMMAND …` by `txmt COMMAND …`, and other uses of
/// `translate …` by `txmt translate …`.
fn with_txmt(text: &str) -> String {
    let mut replaced = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((at, name)) = next_command(rest) {
        let (before, from) = rest.split_at(at);
        let after = &from[name.len()..];
        let is_shared = name == "translate" && after[1..].starts_with(|c: char| c.is_lowercase());
        replaced += before;
        replaced += "txmt";
        if !is_shared {
            replaced.push(' ');
            replaced += name;
        }
        rest = after;
    }
    replaced + rest
}

/// Finds the first command of `train` or `translate`: its byte offset and the name of the program.
fn next_command(text: &str) -> Option<(usize, &'static str)> {
    let starts = ["train", "translate"].into_iter().flat_map(|name| {
        text.match_indices(name).filter_map(move |(at, _)| {
            let before = &text[..at];
            let line = before.rsplit('\n').next().unwrap_or_default();
            let is_start = before.ends_with('`') || line == "  ";
            let is_command = is_start && text[at + name.len()..].starts_with(' ');
            is_command.then_some((at, name))
        })
    });
    starts.min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_of_a_text_begin_with_txmt() {
        for (own, txmt) in [
            ("download it with `train fetch`", "download it with `txmt train fetch`"),
            (
                "`translate models list` or `translate --text`",
                "`txmt models list` or `txmt translate --text`",
            ),
            (
                "update `translate`; train more, translate more",
                "update `translate`; train more, translate more",
            ),
            (
                "Examples:\n  train --recipe a   b\n  translate score --reference a\n  translate --model m",
                "Examples:\n  txmt train --recipe a   b\n  txmt score --reference a\n  txmt translate --model m",
            ),
            ("[data] `train`: é `train é", "[data] `train`: é `txmt train é"),
        ] {
            assert_eq!(with_txmt(own), txmt);
        }
    }

    #[test]
    fn help_of_commands_and_options_begins_with_txmt() {
        let option = clap::Arg::new("a").long("a").help("see `translate inspect`");
        let inner = clap::Command::new("inner").about("like `train config`").arg(option);
        let program = clap::Command::new("outer").after_help("  train --a").subcommand(inner);
        let mut program = in_help(program);
        assert!(program.render_help().to_string().contains("  txmt train --a"));
        let help = program.find_subcommand_mut("inner").unwrap().render_help().to_string();
        assert!(help.contains("see `txmt inspect`") && help.contains("like `txmt train config`"));
    }
}
