//! Hints for arguments that earlier versions had.

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Removed arguments and their replacements.
const REMOVED: [(&str, &str); 6] = [
    ("--tsv", "--file FILE"),
    ("--valid-tsv", "--valid-file FILE"),
    ("--seed", "--set train.seed=N"),
    ("--prepared", "--set data.prepared=DIR"),
    ("--checkpoint-every", "--set checkpoint.every=INTERVAL"),
    ("--on-nonfinite", "--set train.on_nonfinite=ACTION"),
];

/// Returns a hint if `error` reports a removed argument, or one that has another meaning now.
pub fn hint(error: &clap::Error) -> Option<String> {
    match error.kind() {
        ErrorKind::UnknownArgument => {}
        ErrorKind::ArgumentConflict => {
            let is_from = error.context().any(|(_, value)| value.to_string().contains("--from"));
            let hint = "`--step STEP` selects the checkpoint to resume from; `--from` is a bundle";
            return is_from.then(|| hint.to_owned());
        }
        _ => return None,
    }
    let Some(ContextValue::String(found)) = error.get(ContextKind::InvalidArg) else { return None };
    let (_, replacement) = REMOVED.iter().find(|(removed, _)| removed == found)?;
    Some(format!("`{found}` was removed; use `{replacement}`"))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::Cli;

    #[test]
    fn the_hint_for_a_removed_argument_names_its_replacement() {
        for (removed, replacement) in REMOVED {
            for value in [&[removed, "1"][..], &[&format!("{removed}=1")]] {
                let error = Cli::try_parse_from([&["train"], value].concat()).unwrap_err();
                let hint = hint(&error).unwrap_or_else(|| panic!("no hint for {removed}"));
                assert!(hint.contains(replacement), "{hint}");
            }
        }
        let error = Cli::try_parse_from(["train", "--no-such-option"]).unwrap_err();
        assert_eq!(hint(&error), None);
    }
}
