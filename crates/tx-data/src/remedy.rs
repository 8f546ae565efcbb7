//! Remedies for errors, which a program words in its own options.

/// The next thing to try against an error.
///
/// A library does not know the options of the program that calls it: a program says these in its own
/// terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Remedy {
    /// Fetch the file.
    Fetch,
    /// Fetch the damaged file again.
    FetchAgain,
    /// Fetch in [`Mode::Refresh`](crate::fetch::Mode::Refresh): the file has changed at its source.
    TrustAnew,
    /// Fetch the list in [`Mode::Refresh`](crate::fetch::Mode::Refresh).
    AskAgain,
    /// Try later, when what has come is continued; use a proxy; or fetch the file by other means.
    TryLater,
    /// Give a token (`HF_TOKEN`).
    GiveToken,
    /// Give another token (`HF_TOKEN`).
    OtherToken,
    /// Use an encrypted address (`HF_ENDPOINT`), or no token (`HF_TOKEN`).
    EncryptOrDropToken,
    /// Put the cache elsewhere (`TX_CACHE`).
    OtherCache,
    /// Name the languages of source and target.
    NameLanguages,
    /// Name one of the subsets of the dataset.
    NameSubset,
    /// Name the split to train on.
    NameSplit,
    /// Name a member of the archive, or the stem of two.
    NameMember,
    /// Name the format of the file.
    NameFormat,
    /// Name the columns of source and target.
    NameColumns,
    /// Give a file for each side.
    GiveFilePerSide,
    /// Give the file as one that holds both sides.
    GiveFileOfBothSides,
    /// Convert the file to UTF-8.
    ConvertText,
    /// Unpack the outer one of two nested archives.
    UnpackOuter,
    /// Choose a dataset with files of a format that is read.
    ChooseReadable,
    /// Choose `opus:Tatoeba`, which has pairs without English.
    ChooseTatoeba,
    /// Look at the list of OPUS, with attention to upper and lower case.
    SeeOpus,
}
