//! Commands printed for the user to run next.

use std::{
    env,
    ffi::OsStr,
    path::{Path, PathBuf},
};

use tx_cli::called;

/// Returns the command that runs the program `name` (`train` or `translate`) from the current folder:
/// its path or a `cargo run` command if this program is in a build folder of Cargo, and `name` if it is
/// installed. If this program is `txmt`, it is the command of `txmt`.
pub fn command(name: &str) -> String {
    if called::is_txmt() { format!("{} {name}", program("txmt")) } else { program(name) }
}

fn program(name: &str) -> String {
    let Ok(executable) = env::current_exe() else { return name.to_owned() };
    let search = env::var_os("PATH").unwrap_or_default();
    command_beside(name, &executable, &search, &env::current_dir().unwrap_or_default())
}

fn command_beside(name: &str, executable: &Path, search: &OsStr, here: &Path) -> String {
    let Some(folder) = executable.parent() else { return name.to_owned() };
    let program = folder.join(format!("{name}{}", env::consts::EXE_SUFFIX));
    let is_installed = env::split_paths(search).any(|path| path == folder);
    // `target/release`, or `target/TRIPLE/release`.
    let is_build =
        folder.ancestors().skip(1).take(2).any(|path| path.join("CACHEDIR.TAG").is_file());
    if program.is_file() && (is_build || !is_installed) {
        path_from(&program, here)
    } else if is_build {
        let profile = match folder.file_name().and_then(OsStr::to_str) {
            Some("debug") | None => String::new(),
            Some("release") => " --release".into(),
            Some(profile) => format!(" --profile {profile}"),
        };
        format!("cargo run{profile} --bin {name} --")
    } else {
        name.to_owned()
    }
}

/// Returns the shortest path of a program that works in the folder `here`.
fn path_from(program: &Path, here: &Path) -> String {
    let short = match program.strip_prefix(here) {
        // A shell searches a name without a slash in PATH.
        Ok(path) if path.components().count() == 1 => PathBuf::from(".").join(path),
        Ok(path) => path.into(),
        Err(_) => program.into(),
    };
    quoted(&short.to_string_lossy())
}

/// Returns an option with its value. A value that begins with a dash is attached with `=`, because it
/// would be read as another option.
pub fn option(name: &str, value: &str) -> String {
    let separator = if value.starts_with('-') { '=' } else { ' ' };
    format!("{name}{separator}{}", quoted(value))
}

/// Quotes a word of a shell command if necessary.
pub fn quoted(word: &str) -> String {
    let plain = if cfg!(windows) { "/._-+=:,@\\" } else { "/._-+=:,@%" };
    if !word.is_empty() && word.chars().all(|c| c.is_alphanumeric() || plain.contains(c)) {
        word.to_owned()
    } else if cfg!(windows) {
        format!("\"{}\"", word.replace('"', "\\\""))
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Creates a folder with empty files.
    fn tree(files: &[&str]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for file in files {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        root
    }

    fn program(folder: &str, name: &str) -> String {
        format!("{folder}/{name}{}", env::consts::EXE_SUFFIX)
    }

    #[test]
    fn a_build_folder_gives_a_path_or_cargo() {
        let train = program("target/release", "train");
        let root = tree(&["target/CACHEDIR.TAG", &train]);
        let executable = root.path().join(&train);
        let found = |name, here: &Path| command_beside(name, &executable, OsStr::new(""), here);
        assert_eq!(found("train", root.path()), train);
        assert_eq!(found("translate", root.path()), "cargo run --release --bin translate --");
        let translate = program("target/release", "translate");
        fs::write(root.path().join(&translate), "").unwrap();
        assert_eq!(found("translate", root.path()), translate);
        let there = root.path().join(&translate);
        assert_eq!(found("translate", Path::new("/elsewhere")), there.to_string_lossy());
        let folder = executable.parent().unwrap();
        assert_eq!(found("translate", folder), program(".", "translate"));
    }

    #[test]
    fn other_profiles_and_targets_are_builds_too() {
        let root = tree(&["target/CACHEDIR.TAG", "target/triple/fast/train", "target/debug/train"]);
        for (folder, expected) in [
            ("target/triple/fast", "cargo run --profile fast --bin translate --"),
            ("target/debug", "cargo run --bin translate --"),
        ] {
            let executable = root.path().join(folder).join("train");
            let found = command_beside("translate", &executable, OsStr::new(""), root.path());
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn an_installed_program_gives_its_name_and_an_unpacked_one_its_path() {
        let (train, translate) = (program("bin", "train"), program("bin", "translate"));
        let root = tree(&[&train, &translate]);
        let executable = root.path().join(&train);
        let bin = executable.parent().unwrap();
        let found = |search: &OsStr| command_beside("translate", &executable, search, root.path());
        assert_eq!(found(bin.as_os_str()), "translate");
        assert_eq!(found(OsStr::new("/usr/bin")), translate);
        fs::remove_file(root.path().join(&translate)).unwrap();
        assert_eq!(found(OsStr::new("/usr/bin")), "translate");
    }

    #[cfg(unix)]
    #[test]
    fn words_are_quoted_where_a_shell_would_split_them() {
        assert_eq!(quoted("runs/de-en"), "runs/de-en");
        assert_eq!(quoted("my run"), "'my run'");
        assert_eq!(quoted("it's"), "'it'\\''s'");
        assert_eq!(quoted("$HOME"), "'$HOME'");
        assert_eq!(quoted(""), "''");
        assert_eq!(option("--text", "- It's me."), "--text='- It'\\''s me.'");
        assert_eq!(option("--text", "-5"), "--text=-5");
        assert_eq!(option("--text", "@a b"), "--text '@a b'");
    }
}
