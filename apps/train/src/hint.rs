//! Hints and exit codes of errors.

use tx_cli::{Failure, usage::Usage};
use tx_infer::device::DeviceError;
use tx_train::{TrainError, tx_data::source::named::Request};

use crate::command::{command, quoted};

/// Returns the kind of `error`: wrong usage or configuration, or a failure at run time.
pub fn failure(error: &anyhow::Error) -> Failure {
    let is_configuration = matches!(
        error.downcast_ref(),
        Some(
            TrainError::UnknownRecipe { .. }
                | TrainError::Config { .. }
                | TrainError::Problems { .. }
                | TrainError::NoTerminal
        )
    );
    let is_usage = is_configuration || error.is::<DeviceError>() || error.is::<Usage>();
    if is_usage { Failure::Usage } else { Failure::Runtime }
}

/// Returns a hint about the next step, as a command where possible.
pub fn hint(error: &anyhow::Error) -> Option<String> {
    let train = error.downcast_ref().and_then(of_training);
    let usage = || error.downcast_ref().and_then(Usage::hint).map(str::to_owned);
    train.or_else(|| error.downcast_ref().and_then(DeviceError::hint)).or_else(usage)
}

/// Returns the hint for an error of `tx-train`, with the names of the programs.
fn of_training(error: &TrainError) -> Option<String> {
    match error {
        TrainError::RunExists { path, resumable: true } => Some(format!(
            "resume it with `{} --resume {}`, or choose another folder with `--run`",
            command("train"),
            quoted(&path.to_string_lossy())
        )),
        TrainError::DeviceFailed { run, saved: Some(_), .. } => Some(format!(
            "continue with `{} --resume {}`",
            command("train"),
            quoted(&run.to_string_lossy())
        )),
        TrainError::RunExists { resumable: false, .. } => {
            Some("choose another folder with `--run`".into())
        }
        TrainError::NotFetched { request, .. } => {
            let mut fetch = format!("{} fetch {}", command("train"), quoted(&request.name));
            let Request { source, target, subset, split, revision, .. } = &**request;
            for (name, value) in [
                ("source", Some(source)),
                ("target", Some(target)),
                ("subset", subset.as_ref()),
                ("split", split.as_ref()),
                ("revision", revision.as_ref()),
            ] {
                if let Some(value) = value {
                    fetch += &format!(" --{name} {}", quoted(value));
                }
            }
            Some(format!("fetch it with `{fetch}`, or add `--fetch`"))
        }
        error => error.hint(),
    }
}
