//! Similar names, for hints about misspelled keys and recipes.

/// Returns a remark for a message that names the most similar of the `known` names, if any is.
pub(crate) fn nearest_of<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    most_similar(name, known)
        .map_or_else(String::new, |nearest| format!(" (did you mean \"{nearest}\"?)"))
}

/// Returns the most similar of the `known` names, if any is similar enough for a hint.
pub(super) fn most_similar<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    known
        .map(|candidate| (strsim::jaro_winkler(name, candidate), candidate))
        .filter(|(similarity, _)| *similarity > 0.7)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate.to_owned())
}
