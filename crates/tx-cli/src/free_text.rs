//! Options whose value is any text, which can begin with a dash, such as `--text '- Thank you.'`.
//!
//! Such an option takes the next argument, whatever it is. If that is an option of the command, the
//! text was forgotten.

use std::ffi::OsString;

use clap::{Command, Error, error::ErrorKind};

/// Checks that no option for free text of `program` has another option as its value. `arguments` are
/// those of the command line without the name of the program. A text that is an option is written as
/// `--text=--json`.
///
/// # Errors
///
/// An error of clap that names both options.
pub fn check(
    mut program: Command,
    arguments: impl IntoIterator<Item = OsString>,
) -> Result<(), Error> {
    program.build();
    let mut command = &program;
    let mut open: Option<String> = None;
    for argument in arguments {
        let argument = argument.to_string_lossy();
        if let Some(name) = open.take() {
            if is_option(command, &argument) {
                let problem = format!(
                    "the value of `--{name}` is the option `{argument}`; write \
                     `--{name}={argument}` if it is the text\n"
                );
                return Err(Error::raw(ErrorKind::InvalidValue, problem).with_cmd(command));
            }
            continue;
        }
        if argument == "--" {
            return Ok(());
        }
        if let Some(inner) = command.find_subcommand(&*argument) {
            command = inner;
            continue;
        }
        let takes_text = |name: &&str| {
            let mut options = command.get_arguments();
            options.any(|it| it.get_long() == Some(name) && it.is_allow_hyphen_values_set())
        };
        open = argument.strip_prefix("--").filter(takes_text).map(str::to_owned);
    }
    Ok(())
}

/// Whether an argument is an option of the command: `--json`, `--beam=4` or `-q`.
fn is_option(command: &Command, argument: &str) -> bool {
    let mut options = command.get_arguments();
    if let Some(name) = argument.strip_prefix("--") {
        let name = name.split_once('=').map_or(name, |(name, _)| name);
        return options.any(|option| option.get_long() == Some(name));
    }
    let mut letters = argument.strip_prefix('-').unwrap_or_default().chars();
    match (letters.next(), letters.next()) {
        (Some(letter), None) => options.any(|option| option.get_short() == Some(letter)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use clap::{Arg, ArgAction};

    use super::*;

    fn program() -> Command {
        let text = || Arg::new("text").long("text").allow_hyphen_values(true);
        let flag = |name: &'static str, short| {
            Arg::new(name).long(name).short(short).action(ArgAction::SetTrue)
        };
        let inner = Command::new("inner").args([text(), flag("other", 'o')]);
        let beam = Arg::new("beam").long("beam");
        Command::new("program").args([text(), flag("json", 'j'), beam]).subcommand(inner)
    }

    fn problem(arguments: &[&str]) -> Option<String> {
        let result = check(program(), arguments.iter().map(OsString::from));
        // Each accepted command line is also one for clap.
        match result {
            Ok(()) => {
                let all = [&["program"], arguments].concat();
                program().try_get_matches_from(all).unwrap();
                None
            }
            Err(error) => Some(error.to_string()),
        }
    }

    #[test]
    fn any_text_is_a_value() {
        for text in ["- Thank you.", "-5 degrees", "--", "-- no", "--jsons", "-x", "inner", ""] {
            assert_eq!(problem(&["--text", text, "--json"]), None, "{text}");
            assert_eq!(problem(&["inner", "--text", text, "-o"]), None, "{text}");
        }
        assert_eq!(problem(&["--text=--json"]), None);
        assert_eq!(problem(&["--text", "--other"]), None);
        assert_eq!(problem(&["--beam", "4", "--json"]), None);
    }

    #[test]
    fn a_forgotten_text_is_named() {
        for arguments in [
            &["--text", "--json"][..],
            &["--text", "--beam=4"],
            &["--text", "-j"],
            &["--text", "--help"],
            &["inner", "--text", "--other"],
        ] {
            let problem = problem(arguments).unwrap_or_default();
            assert!(problem.contains("the value of `--text` is the option"), "{problem}");
        }
    }
}
