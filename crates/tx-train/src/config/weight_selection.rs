//! Selection of weights by group or by name.

use std::collections::BTreeSet;

use super::similar::nearest_of;

/// Group of weights: name, and whether a weight with these parts of its name belongs to it.
type Group = (&'static str, fn(&[&str]) -> bool);

const GROUPS: [Group; 4] = [
    ("embeddings", |parts| parts.first().is_some_and(|part| part.ends_with("embedding"))),
    ("positions", |parts| parts.contains(&"positions") || parts.contains(&"relative")),
    ("norms", |parts| parts.contains(&"norm")),
    ("biases", |parts| parts.last() == Some(&"bias")),
];

/// Matches any one part of a name.
const ANY: &str = "*";

/// Returns `true` if `pattern` selects the weight `name`. A pattern is a group, or one or more parts
/// of a name in a row: `decoder.layers.0`, `self_attention.query`. The part `*` stands for any part.
pub(crate) fn selects(pattern: &str, name: &str) -> bool {
    let parts: Vec<&str> = name.split('.').collect();
    if let Some((_, contains)) = GROUPS.iter().find(|(group, _)| *group == pattern) {
        return contains(&parts);
    }
    let pattern: Vec<&str> = pattern.split('.').collect();
    let matches = |window: &[&str]| {
        window.iter().zip(&pattern).all(|(part, wanted)| *wanted == ANY || part == wanted)
    };
    parts.windows(pattern.len()).any(matches)
}

/// Returns the problem with a `pattern` that selects none of the weights `names`; `None` if it
/// selects one. `key` is the configuration key that contains the pattern.
pub(crate) fn problem(key: &str, pattern: &str, names: &[String]) -> Option<String> {
    if names.iter().any(|name| selects(pattern, name)) {
        return None;
    }
    if pattern.split('.').next() == Some("projection") {
        return Some(format!(
            "`{key}`: the matrix of the projection is that of the embedding (`model.tying`), which \
             \"embeddings\" selects"
        ));
    }
    let groups = GROUPS.map(|(group, _)| group);
    let selecting =
        groups.into_iter().filter(|group| names.iter().any(|name| selects(group, name)));
    let selecting: Vec<&str> = selecting.collect();
    let parts: BTreeSet<&str> = names.iter().flat_map(|name| name.split('.')).collect();
    let parts: Vec<&str> =
        parts.into_iter().filter(|part| part.parse::<usize>().is_err()).collect();
    // Beginnings of names with as many parts as the pattern.
    let depth = pattern.split('.').count();
    let starts = names.iter().flat_map(|name| {
        name.match_indices('.').map(|(end, _)| &name[..end]).chain([name.as_str()])
    });
    let starts = starts.filter(|start| start.split('.').count() == depth);
    let known = selecting.iter().copied().chain(parts.iter().copied()).chain(starts);
    let nearest = nearest_of(pattern, known);
    Some(format!(
        "`{key}`: \"{pattern}\" selects no weight{nearest}; accepted are the groups {}, and names or \
         parts of names such as \"encoder.layers.0\", made of {}",
        selecting.join(", "),
        parts.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 8] = [
        "source_embedding.weight",
        "target_input.positions.learned",
        "encoder.layers.0.self_attention.query.weight",
        "encoder.layers.0.self_attention.query.bias",
        "encoder.layers.0.self_attention.relative",
        "encoder.layers.10.self_attention_residual.norm.gamma",
        "decoder.layers.0.cross_attention.query.weight",
        "projection.bias",
    ];

    #[test]
    fn groups_and_parts_of_names_select_weights() {
        for (pattern, expected) in [
            ("embeddings", &[0][..]),
            ("positions", &[1, 4]),
            ("norms", &[5]),
            ("biases", &[3, 7]),
            ("encoder", &[2, 3, 4, 5]),
            ("encoder.layers.1", &[]),
            ("layers.0", &[2, 3, 4, 6]),
            ("query", &[2, 3, 6]),
            ("self_attention.query", &[2, 3]),
            ("*.query.weight", &[2, 6]),
            ("encoder.layers.*.self_attention", &[2, 3, 4]),
            ("projection", &[7]),
            ("", &[]),
        ] {
            let found: Vec<usize> =
                (0..NAMES.len()).filter(|&index| selects(pattern, NAMES[index])).collect();
            assert_eq!(found, expected, "{pattern}");
        }
    }

    #[test]
    fn an_unknown_name_is_reported_with_the_nearest_and_the_list() {
        let names = NAMES.map(str::to_owned);
        assert_eq!(problem("freeze", "encoder", &names), None);
        let found = problem("freeze", "embedings", &names).unwrap();
        assert_eq!(
            found,
            "`freeze`: \"embedings\" selects no weight (did you mean \"embeddings\"?); accepted are \
             the groups embeddings, positions, norms, biases, and names or parts of names such as \
             \"encoder.layers.0\", made of bias, cross_attention, decoder, encoder, gamma, layers, \
             learned, norm, positions, projection, query, relative, self_attention, \
             self_attention_residual, source_embedding, target_input, weight"
        );
        let found = problem("freeze", "encoder.layers.3", &names).unwrap();
        assert!(found.contains("did you mean \"encoder.layers.0\"?"), "{found}");
        let found = problem("freeze", "projection.weight", &names).unwrap();
        assert!(found.contains("\"embeddings\" selects"), "{found}");
    }
}
