//! Hints and exit codes of errors.

#[cfg(feature = "models")]
use tx_catalogue::CatalogueError;
use tx_cli::Failure;
use tx_convert::ConvertError;
#[cfg(feature = "models")]
use tx_fetch::remedy::Remedy;
use tx_infer::{InferError, device::DeviceError};
use tx_text::TextError;

use crate::usage::Usage;

/// Returns the kind of `error`: wrong usage, or a failure at run time.
pub fn failure(error: &anyhow::Error) -> Failure {
    let is_usage = error.is::<Usage>()
        || error.is::<DeviceError>()
        || matches!(
            error.downcast_ref(),
            Some(
                InferError::Search { .. }
                    | InferError::UnknownLanguage { .. }
                    | InferError::NoLanguages
                    | InferError::LanguageNeeded { .. }
            )
        );
    if is_usage { Failure::Usage } else { Failure::Runtime }
}

/// Returns a hint about the next step, if one is known.
pub fn hint(error: &anyhow::Error) -> Option<String> {
    let infer = error.downcast_ref().and_then(of_inference);
    let conversion = error.downcast_ref().and_then(of_conversion);
    let text = || error.downcast_ref().and_then(TextError::hint);
    let usage = || error.downcast_ref().and_then(Usage::hint);
    let fixed = infer.or(conversion).or_else(text).or_else(usage).map(str::to_owned);
    #[cfg(feature = "models")]
    let fixed = fixed.or_else(|| error.downcast_ref().and_then(of_catalogue).map(str::to_owned));
    #[cfg(feature = "serve")]
    let fixed = fixed
        .or_else(|| error.downcast_ref().and_then(tx_serve::ServeError::hint).map(str::to_owned));
    fixed.or_else(|| error.downcast_ref().and_then(DeviceError::hint))
}

/// Returns the hint for an error of `tx-infer`, with the names of the programs.
fn of_inference(error: &InferError) -> Option<&'static str> {
    match error {
        InferError::NotABundle { .. } | InferError::Archive { .. } => Some(
            "pass the folder of a training run that has completed a validation, a file of \
                 `translate pack`, or the name of a model that `translate models get` has downloaded",
        ),
        InferError::Format { found, newest, .. } if found > newest => {
            Some("the bundle is newer than this build: update this program")
        }
        InferError::UnknownLanguage { .. } => {
            Some("`translate inspect --model DIR` lists the languages of a model")
        }
        InferError::LanguageNeeded { .. } => {
            Some("select a language with `--source-lang CODE` or `--target-lang CODE`")
        }
        InferError::Lexicon { .. } => Some("`translate lexicon` writes a lexicon into a bundle"),
        InferError::Shortlist { .. } | InferError::ShortlistVocabulary { .. } => {
            Some("`translate shortlist` writes a shortlist for a model")
        }
        InferError::NotFinite { .. } => {
            Some("use `--precision f32`, or test the bundle with `translate check`")
        }
        _ => error.hint(),
    }
}

/// Returns the hint for an error of `tx-convert`.
fn of_conversion(error: &ConvertError) -> Option<&'static str> {
    match error {
        ConvertError::OutputExists { .. } => Some("pass another folder as `--output`"),
        ConvertError::Bundle(error) => of_inference(error),
        _ => error.hint(),
    }
}

/// Returns the hint for an error of `tx-catalogue`.
#[cfg(feature = "models")]
fn of_catalogue(error: &CatalogueError) -> Option<&'static str> {
    match error {
        CatalogueError::UnknownModel { .. } => {
            Some("`translate models list` lists the models of the catalogue")
        }
        CatalogueError::NotDownloaded { .. } => {
            Some("`translate models list --downloaded` lists the downloaded models")
        }
        CatalogueError::OtherFile { .. } => Some("download the file again"),
        CatalogueError::Download { problem, .. } => Some(match problem.remedy() {
            Some(Remedy::TrustAnew) => {
                "the file has changed at its source; to accept that, pass `--refresh`"
            }
            Some(Remedy::OtherCache) => "set `TX_CACHE` to another folder",
            _ => {
                "try again later, which resumes the download, or download the files by other means \
                 and pass their folder: `translate models get NAME --from DIR`"
            }
        }),
        CatalogueError::Convert(error) => of_conversion(error),
        _ => None,
    }
}
