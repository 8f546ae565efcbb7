//! Commands that describe a program: completions of shells, and manual pages.

use std::{io::Write, path::PathBuf};

use anyhow::Context;
use clap::{Args, Command, ValueHint};
use clap_complete::Shell;

use crate::terminal::stdout;

/// Arguments of the command `completions`.
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// Shell
    #[arg(value_enum, value_name = "SHELL")]
    shell: Shell,
}

/// Arguments of the command `manual`.
#[derive(Debug, Args)]
pub struct ManualArgs {
    /// Folder for the pages, which is created: `PROGRAM.1`, and `PROGRAM-COMMAND.1` for each command
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    output: PathBuf,
}

impl CompletionsArgs {
    /// Prints the completions of `program`.
    ///
    /// # Errors
    ///
    /// If standard output cannot be written.
    pub fn print(&self, mut program: Command) -> anyhow::Result<()> {
        let name = program.get_name().to_owned();
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut program, name, &mut script);
        Ok(stdout().write_all(&script)?)
    }
}

impl ManualArgs {
    /// Writes the manual pages of `program` and prints the folder.
    ///
    /// # Errors
    ///
    /// If the folder cannot be written.
    pub fn write(&self, program: Command) -> anyhow::Result<()> {
        let folder = self.output.display();
        std::fs::create_dir_all(&self.output)
            .and_then(|()| {
                clap_mangen::generate_to(program.disable_help_subcommand(true), &self.output)
            })
            .with_context(|| format!("cannot write `{folder}`"))?;
        Ok(writeln!(stdout(), "{folder}")?)
    }
}
