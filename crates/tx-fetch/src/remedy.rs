//! Remedies for errors, which a program expresses with its own options.

/// Suggested next step after an error.
///
/// A library cannot name the options of the program that calls it, so the program words the
/// suggestion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Remedy {
    /// Download the file.
    Fetch,
    /// Download the damaged file again.
    FetchAgain,
    /// Download in [`Mode::Refresh`](crate::Mode::Refresh), because the file has changed at
    /// its source.
    TrustAnew,
    /// Download the list in [`Mode::Refresh`](crate::Mode::Refresh).
    AskAgain,
    /// Try again later, which resumes the transfer; use a proxy; or download the file by other
    /// means.
    TryLater,
    /// Set a token (`HF_TOKEN`).
    GiveToken,
    /// Set another token (`HF_TOKEN`).
    OtherToken,
    /// Use an encrypted address (`HF_ENDPOINT`), or remove the token (`HF_TOKEN`).
    EncryptOrDropToken,
    /// Move the cache (`TX_CACHE`).
    OtherCache,
    /// Specify the languages of source and target.
    NameLanguages,
    /// Specify one of the subsets of the dataset.
    NameSubset,
    /// Specify the split to train on.
    NameSplit,
    /// Specify a member of the archive, or the stem of two.
    NameMember,
    /// Specify the format of the file.
    NameFormat,
    /// Specify the columns of source and target.
    NameColumns,
    /// Use one file per side.
    GiveFilePerSide,
    /// Use the option for a file with both sides.
    GiveFileOfBothSides,
    /// Convert the file to UTF-8.
    ConvertText,
    /// Convert the line ends to line feeds.
    ConvertLineEnds,
    /// Unpack the outer one of two nested archives.
    UnpackOuter,
    /// Choose a dataset with files in a supported format.
    ChooseReadable,
    /// Choose `opus:Tatoeba`, which contains pairs without English.
    ChooseTatoeba,
    /// Check the list of OPUS, including upper and lower case.
    SeeOpus,
}
