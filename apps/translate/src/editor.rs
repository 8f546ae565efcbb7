//! `translate --interactive`: a line editor with a history.

use std::{
    env, fs,
    io::{IsTerminal, Write, stdin},
    ops::ControlFlow,
    path::PathBuf,
};

use rustyline::{DefaultEditor, error::ReadlineError};
use tx_cli::terminal::stderr;
use tx_text::is_blank;

use crate::usage::Usage;

const HELP: &str = "\
Type a text to use the model. A line that starts with a colon is a command:

  :help   show this list
  :quit   exit, as Ctrl-D does

Arrow up recalls earlier lines, Ctrl-R searches them, Ctrl-C discards the line.
";

/// Model that answers each typed text.
pub trait Answer {
    /// Sentence that invites to type a text.
    fn prompt(&self) -> &'static str;

    /// Prints the result of a text.
    fn answer(&mut self, text: &str) -> anyhow::Result<()>;
}

/// Answers typed texts until the user quits.
pub fn answer_texts(mut session: impl Answer) -> anyhow::Result<()> {
    let greeting = format!("{} :help for commands, Ctrl-D to exit.", session.prompt());
    converse(&greeting, |line| {
        let text = line.trim();
        match line.strip_prefix(':').map(str::trim) {
            None if text.is_empty() => {}
            None => session.answer(text)?,
            Some("help" | "h" | "?") => write!(stderr(), "{HELP}")?,
            Some("quit" | "q" | "exit") => return Ok(ControlFlow::Break(())),
            Some(command) => anyhow::bail!(
                "unknown command `:{command}`; `:help` lists the commands, and a space before the \
                 colon makes the line a text"
            ),
        }
        Ok(ControlFlow::Continue(()))
    })
}

/// Passes typed lines to `answer` until it breaks or the input ends. Its errors are printed.
pub fn converse(
    greeting: &str,
    mut answer: impl FnMut(&str) -> anyhow::Result<ControlFlow<()>>,
) -> anyhow::Result<()> {
    if !stdin().is_terminal() {
        let error =
            Usage::new("`--interactive` needs a terminal, but standard input is not a terminal");
        return Err(error
            .with_hint("omit `--interactive` to read lines from a file or a pipe")
            .into());
    }
    let mut editor = DefaultEditor::new()?;
    let mut history = history_file();
    if let Some(path) = &history {
        // The history does not exist before the first session, and an unreadable one is not fatal.
        let _ = editor.load_history(path);
    }
    writeln!(stderr(), "{greeting}")?;
    loop {
        match editor.readline("> ") {
            Ok(line) => {
                if !is_blank(&line) {
                    editor.add_history_entry(&line)?;
                    // Saved before the answer, because Ctrl-C during a computation ends the program.
                    if let Some(path) = &history
                        && let Err(error) = editor.save_history(path)
                    {
                        let path = path.display();
                        writeln!(
                            stderr(),
                            "warning: cannot save the history in `{path}`: {error}"
                        )?;
                        history = None;
                    }
                }
                match answer(&line) {
                    Ok(ControlFlow::Break(())) => break,
                    Ok(ControlFlow::Continue(())) => {}
                    Err(error) => writeln!(stderr(), "error: {error:#}")?,
                }
            }
            Err(ReadlineError::Interrupted) => {
                writeln!(stderr(), "(Ctrl-D or :quit to exit)")?;
            }
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Returns the path of the history: `TX_HISTORY`, or else `tx/translate.history` in the user's state
/// folder. An empty `TX_HISTORY` disables the history.
fn history_file() -> Option<PathBuf> {
    if let Some(path) = env::var_os("TX_HISTORY") {
        return (!path.is_empty()).then(|| path.into());
    }
    let state = env::var_os("XDG_STATE_HOME").filter(|path| !path.is_empty()).map(PathBuf::from);
    let folder = state.or_else(|| Some(env::home_dir()?.join(".local/state")))?.join("tx");
    fs::create_dir_all(&folder).ok()?;
    Some(folder.join("translate.history"))
}
