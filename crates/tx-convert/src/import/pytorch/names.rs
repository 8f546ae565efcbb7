//! Names of the tensors of a model around `nn.Transformer`.

use super::mapping::TensorNames;
use crate::tensors::Tensors;

/// Tensor of the first layer, behind the prefix of `nn.Transformer`.
pub(super) const FIRST: &str = "encoder.layers.0.self_attn.in_proj_weight";
/// Parts of the names of embeddings and positions of each side.
const SIDES: [&[&str]; 2] =
    [&["src", "source", "encoder", "enc"], &["tgt", "trg", "target", "decoder", "dec"]];
/// Parts of the names of projections without a bias.
const PROJECTIONS: [&str; 7] = ["generator", "projection", "proj", "fc", "head", "out", "output"];

/// Names of tensors.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Names {
    /// Start of the names of the weights of `nn.Transformer`.
    pub(super) prefix: String,
    pub(super) d_model: usize,
    pub(super) source_embedding: String,
    pub(super) target_embedding: String,
    /// Name of the projection without `.weight`.
    pub(super) projection: String,
    /// Tables of the positions of each side.
    pub(super) positions: Option<[String; 2]>,
}

impl Names {
    /// Finds the tensors by their shapes and names; `given` names are used as they are.
    ///
    /// # Errors
    ///
    /// The purposes for which no tensor or several are found, with all candidates.
    pub(super) fn find(tensors: &Tensors, given: &TensorNames) -> Result<Self, Vec<String>> {
        let (prefix, d_model) = prefix(tensors).map_err(|problem| vec![problem])?;
        let stacks = ["encoder", "decoder"].map(|stack| format!("{prefix}{stack}."));
        let is_around = |name: &&str| {
            let inner = stacks.iter().find_map(|stack| name.strip_prefix(stack.as_str()));
            !inner.is_some_and(|name| name.starts_with("layers.") || name.starts_with("norm."))
        };
        let around: Vec<(&str, &[usize])> = { tensors.names() }
            .filter(is_around)
            .filter_map(|name| Some((name, tensors.get(name)?.shape.as_slice())))
            .filter(|(_, shape)| shape.len() > 1 && shape.last() == Some(&d_model))
            .collect();
        let is_position = |(name, shape): &&(&str, &[usize])| {
            shape.len() > 2 || has_part(name, |part| part.starts_with("pos"))
        };
        let (positions, tables): (Vec<_>, Vec<_>) = around.iter().partition(is_position);
        let is_projection = |(name, _): &&(&str, &[usize])| {
            let bias = name.strip_suffix("weight").map(|name| format!("{name}bias"));
            bias.is_some_and(|bias| tensors.get(&bias).is_some())
                || has_part(name, |part| PROJECTIONS.contains(&part))
        };
        let (projections, embeddings): (Vec<_>, Vec<_>) = tables.iter().partition(is_projection);

        let mut problems = Vec::new();
        let mut choose = |purpose: &str, given: &Option<String>, candidates: &[_], side| {
            let found = match given {
                Some(name) => tensors.get(name).map(|_| name.clone()),
                None => only(candidates, side),
            };
            found.unwrap_or_else(|| {
                problems.push(problem(purpose, given.as_deref(), &tables));
                String::new()
            })
        };
        let source_embedding =
            choose("source_embedding", &given.source_embedding, &embeddings, Some(0));
        let target_embedding =
            choose("target_embedding", &given.target_embedding, &embeddings, Some(1));
        let projection = match (&given.projection, projections.is_empty()) {
            // It shares the weights of the embedding.
            (None, true) => target_embedding.clone(),
            (given, _) => choose("projection", given, &projections, None),
        };
        let given_positions = [&given.source_positions, &given.target_positions];
        let positions = match (positions.is_empty(), given_positions) {
            (true, [None, None]) => None,
            (_, [source, target]) => Some([
                choose("source_positions", source, &positions, Some(0)),
                choose("target_positions", target, &positions, Some(1)),
            ]),
        };
        let projection = projection.strip_suffix(".weight").unwrap_or(&projection).to_owned();
        match problems.is_empty() {
            true => Ok(Self {
                prefix,
                d_model,
                source_embedding,
                target_embedding,
                projection,
                positions,
            }),
            false => Err(problems),
        }
    }
}

/// Prefix of `nn.Transformer`, and its `d_model`.
fn prefix(tensors: &Tensors) -> Result<(String, usize), String> {
    let mut found = tensors.names().filter_map(|name| Some((name, name.strip_suffix(FIRST)?)));
    let Some((name, prefix)) = found.next() else {
        return Err(format!("it has no tensor `{FIRST}`, as `nn.Transformer` has"));
    };
    if let Some((other, _)) = found.next() {
        return Err(format!("it has several models: `{name}` and `{other}`"));
    }
    match tensors.get(name).map(|tensor| tensor.shape.as_slice()) {
        Some([rows, d_model]) if *d_model > 0 && *rows == d_model.saturating_mul(3) => {
            Ok((prefix.to_owned(), *d_model))
        }
        shape => Err(format!("`{name}` has shape {shape:?}, expected [3 d_model, d_model]")),
    }
}

/// The only candidate, or the only one whose name has a part for the side.
fn only(candidates: &[(&str, &[usize])], side: Option<usize>) -> Option<String> {
    let is_of_side = |name: &str| {
        let words = side.and_then(|side| SIDES.get(side));
        words.is_some_and(|words| has_part(name, |part| words.contains(&part)))
    };
    let mut of_side = candidates.iter().filter(|(name, _)| is_of_side(name));
    match (candidates, of_side.next(), of_side.next()) {
        ([(name, _)], _, _) | (_, Some((name, _)), None) => Some((*name).to_owned()),
        _ => None,
    }
}

/// Returns `true` if a part of a name, between points and underscores, has a property.
fn has_part(name: &str, property: impl Fn(&str) -> bool) -> bool {
    name.to_lowercase().split(['.', '_']).any(property)
}

fn problem(purpose: &str, given: Option<&str>, candidates: &[(&str, &[usize])]) -> String {
    if let Some(name) = given {
        return format!("`mapping.toml` names `{name}` as `{purpose}`, which is no tensor of it");
    }
    let names: Vec<String> =
        candidates.iter().take(20).map(|(name, shape)| format!("`{name}` {shape:?}")).collect();
    format!(
        "`{purpose}` is not certain; name it under `[tensors]` in `mapping.toml`: one of {}",
        names.join(", ")
    )
}
