//! Request for a corpus by name.

use tx_fetch::without_login;

/// Request for a named source.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Request {
    /// Name of the source.
    pub name: String,
    /// Language code of the source side.
    pub source: String,
    /// Language code of the target side.
    pub target: String,
    /// Subset of a dataset ("config" on Hugging Face); derived from the languages if `None`.
    pub subset: Option<String>,
    /// Split to train on. Default: `train`.
    pub split: Option<String>,
    /// Branch, tag or commit of a dataset, or version of a corpus. Default: the newest.
    pub revision: Option<String>,
}

impl Request {
    /// Name and languages, for people.
    pub(super) fn title(&self) -> String {
        format!("{} {}-{}", without_login(&self.name), self.source, self.target)
    }
}
