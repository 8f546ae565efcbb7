//! Table of the weights of a bundle and the tensors that they come from, checked in both
//! directions: each weight of the bundle has a tensor of the expected shape, and each tensor is
//! used or known to be redundant.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    sync::Arc,
};

use tx_model::{Architecture, ModelConfig, Tying, VocabSizes};

use crate::{
    error::ConvertError,
    rows::{ABSENT_BIAS, RowOrder, transpose},
    tensors::Tensors,
};

/// Maximum number of problems that a message lists.
const MOST_PROBLEMS: usize = 100;

/// Reader of the values of a weight, in row-major order.
type Values = Box<dyn Fn() -> Result<Vec<f32>, ConvertError> + Send + Sync>;

/// A weight of a bundle, whose values are computed when it is written.
pub(crate) struct Weight {
    /// Name in the bundle.
    pub(crate) name: String,
    /// Size of each dimension.
    pub(crate) shape: Vec<usize>,
    values: Values,
}

impl Weight {
    /// Computes the values, in row-major order.
    ///
    /// # Errors
    ///
    /// If a file cannot be read, or a value is not finite.
    pub(crate) fn values(&self) -> Result<Vec<f32>, ConvertError> {
        (self.values)()
    }
}

/// Names of the tensors with a row or a value for each token.
#[derive(Debug, Clone, Copy)]
pub(crate) struct VocabularyNames<'a> {
    pub(crate) source_embedding: &'a str,
    pub(crate) target_embedding: &'a str,
    pub(crate) projection: &'a str,
    /// Bias of the projection, which may be absent.
    pub(crate) bias: &'a str,
}

/// Table under construction. Problems are collected and reported together by
/// [`finish`](Self::finish).
pub(crate) struct WeightMap {
    tensors: Arc<Tensors>,
    weights: BTreeMap<String, Weight>,
    used: BTreeSet<String>,
    problems: Vec<String>,
}

impl WeightMap {
    /// Starts an empty table.
    pub(crate) fn new(tensors: Arc<Tensors>) -> Self {
        Self { tensors, weights: BTreeMap::new(), used: BTreeSet::new(), problems: Vec::new() }
    }

    /// Tensors of the source model.
    pub(crate) fn tensors(&self) -> &Tensors {
        &self.tensors
    }

    /// Returns `true` if the source model has this tensor.
    pub(crate) fn has(&self, tensor: &str) -> bool {
        self.tensors.get(tensor).is_some()
    }

    /// Reports a problem.
    pub(crate) fn problem(&mut self, problem: String) {
        self.problems.push(problem);
    }

    /// Weight with the values of a tensor. Dimensions of size 1 of the tensor are ignored.
    pub(crate) fn copy(&mut self, name: &str, tensor: &str, shape: &[usize]) {
        if self.expect(tensor, shape) {
            self.insert_read(name, tensor, shape, |values| values);
        }
    }

    /// Weight `[rows, columns]` with the values of a tensor `[columns, rows]`.
    pub(crate) fn transposed(&mut self, name: &str, tensor: &str, [rows, columns]: [usize; 2]) {
        if self.expect(tensor, &[columns, rows]) {
            self.insert_read(name, tensor, &[rows, columns], move |values| {
                transpose(&values, columns, rows)
            });
        }
    }

    /// Weight `[columns, part.len()]`: the rows `part` of a tensor `[rows, columns]`, as columns.
    pub(crate) fn transposed_rows(
        &mut self,
        name: &str,
        tensor: &str,
        [rows, columns]: [usize; 2],
        part: Range<usize>,
    ) {
        if self.expect(tensor, &[rows, columns]) {
            self.insert_read(name, tensor, &[columns, part.len()], move |values| {
                let part = part.start * columns..part.end * columns;
                let rows = part.len() / columns.max(1);
                transpose(values.get(part).unwrap_or_default(), rows, columns)
            });
        }
    }

    /// Linear layers `{ours}.{part}` of this size, `[d_in, d_out]`, from one layer `[d_out, d_in]` with
    /// the rows of all. `names` are those of its weight and its bias, which may be absent.
    pub(crate) fn linear_parts(
        &mut self,
        ours: &str,
        parts: &[&str],
        [weight, bias]: [String; 2],
        [d_in, d_out]: [usize; 2],
    ) {
        let rows = parts.len() * d_out;
        for (part, start) in parts.iter().zip((0..).step_by(d_out.max(1))) {
            let range = start..start + d_out;
            let name = format!("{ours}.{part}");
            self.transposed_rows(&format!("{name}.weight"), &weight, [rows, d_in], range.clone());
            if self.has(&bias) {
                self.part(&format!("{name}.bias"), &bias, rows, range);
            }
        }
    }

    /// Weight with the values `part` of a tensor `[size]`.
    pub(crate) fn part(&mut self, name: &str, tensor: &str, size: usize, part: Range<usize>) {
        if self.expect(tensor, &[size]) {
            self.insert_read(name, tensor, &[part.len()], move |values| {
                values.get(part.clone()).unwrap_or_default().to_vec()
            });
        }
    }

    /// Weight `[order.len(), columns]` with rows of a tensor `[rows, columns]`, and rows of zeros.
    pub(crate) fn rows(
        &mut self,
        name: &str,
        tensor: &str,
        [rows, columns]: [usize; 2],
        order: &RowOrder,
    ) {
        if self.expect(tensor, &[rows, columns]) {
            let (shape, order) = ([order.len(), columns], order.clone());
            self.insert_read(name, tensor, &shape, move |values| {
                select_rows(&values, columns, &order, 0.0)
            });
        }
    }

    /// Weight `[rows, order.len()]`: rows of a tensor `[ids, rows]` in this order as columns, and
    /// columns of zeros.
    pub(crate) fn rows_as_columns(
        &mut self,
        name: &str,
        tensor: &str,
        [ids, rows]: [usize; 2],
        order: &RowOrder,
    ) {
        if self.expect(tensor, &[ids, rows]) {
            let (shape, order) = ([rows, order.len()], order.clone());
            self.insert_read(name, tensor, &shape, move |values| {
                let selected = select_rows(&values, rows, &order, 0.0);
                transpose(&selected, order.len(), rows)
            });
        }
    }

    /// Weight `[rows, order.len()]` with columns of a tensor `[rows, ids]`, and columns of zeros.
    pub(crate) fn columns(
        &mut self,
        name: &str,
        tensor: &str,
        [rows, ids]: [usize; 2],
        order: &RowOrder,
    ) {
        if self.expect(tensor, &[rows, ids]) {
            let (shape, order) = ([rows, order.len()], order.clone());
            self.insert_read(name, tensor, &shape, move |values| {
                let selected = values.chunks_exact(ids.max(1)).flat_map(|row| {
                    let value = |id: u32| row.get(id as usize).copied().unwrap_or_default();
                    order.iter().map(move |id| id.map_or(0.0, value))
                });
                selected.collect()
            });
        }
    }

    /// Bias `[order.len()]` of the logits: a tensor with `ids` values in this order, or 0 without a
    /// tensor, and [`ABSENT_BIAS`] for tokens that the source model does not have.
    pub(crate) fn logit_bias(
        &mut self,
        name: &str,
        tensor: Option<&str>,
        ids: usize,
        order: &RowOrder,
    ) {
        let (shape, order) = ([order.len()], order.clone());
        let select = move |values: Vec<f32>| select_rows(&values, 1, &order, ABSENT_BIAS);
        match tensor {
            Some(tensor) if self.expect(tensor, &[ids]) => {
                self.insert_read(name, tensor, &shape, select);
            }
            Some(_) => {}
            None => self.computed(name, &shape, move || Ok(select(vec![0.0; ids]))),
        }
    }

    /// Embeddings, projection and logit bias in the orders of source and target; `logits` is that of the
    /// bias. Tensors that the tying
    /// of `config` makes redundant are ignored. A bias is added if the source model does not have a token
    /// of the bundle, which must not be generated then.
    pub(crate) fn vocabularies(
        &mut self,
        config: &mut ModelConfig,
        names: VocabularyNames<'_>,
        [source, target]: [&RowOrder; 2],
        logits: &RowOrder,
    ) {
        let VocabularyNames { source_embedding, target_embedding, projection, bias } = names;
        // A file may have a table that both sides share under one name.
        let target_table = match config.tying {
            Tying::All => source_embedding,
            Tying::Decoder | Tying::None => target_embedding,
        };
        let tables = [source_embedding, target_table].map(|name| {
            let rows = self.tensors.get(name).and_then(|table| table.shape.first().copied());
            [rows.unwrap_or_default(), config.d_model]
        });
        self.rows("source_embedding.weight", source_embedding, tables[0], source);
        match config.tying {
            Tying::All => self.ignore(target_embedding),
            Tying::Decoder | Tying::None => {
                self.rows("target_embedding.weight", target_embedding, tables[1], target);
            }
        }
        match config.tying {
            Tying::All | Tying::Decoder => self.ignore(projection),
            Tying::None => {
                self.rows_as_columns("projection.weight", projection, tables[1], target);
            }
        }
        self.projection_bias(config, bias, tables[1][0], logits);
    }

    /// Embedding, projection and logit bias of a model with one vocabulary, as [`vocabularies`](Self::vocabularies).
    pub(crate) fn vocabulary(
        &mut self,
        config: &mut ModelConfig,
        [embedding, projection, bias]: [&str; 3],
        tokens: &RowOrder,
        logits: &RowOrder,
    ) {
        let rows = self.tensors.get(embedding).and_then(|table| table.shape.first().copied());
        let table = [rows.unwrap_or_default(), config.d_model];
        self.rows("embedding.weight", embedding, table, tokens);
        match config.tying {
            Tying::All | Tying::Decoder => self.ignore(projection),
            Tying::None => self.rows_as_columns("projection.weight", projection, table, tokens),
        }
        self.projection_bias(config, bias, table[0], logits);
    }

    /// Bias of the projection to `ids` tokens, if the model has one or needs one.
    fn projection_bias(
        &mut self,
        config: &mut ModelConfig,
        bias: &str,
        ids: usize,
        logits: &RowOrder,
    ) {
        if config.output_bias || logits.iter().any(Option::is_none) {
            let bias = self.has(bias).then_some(bias);
            self.logit_bias("projection.bias", bias, ids, logits);
            config.output_bias = true;
        }
    }

    /// Weight `[size]` with the values of a tensor of this size, or the value of a tensor of size 1,
    /// multiplied by `factor`.
    pub(crate) fn scaled(&mut self, name: &str, tensor: &str, size: usize, factor: f64) {
        let is_number = self.tensors.get(tensor).is_some_and(|found| found.shape == [1]);
        if self.expect(tensor, &[if is_number { 1 } else { size }]) {
            self.insert_read(name, tensor, &[size], move |values| {
                let values = values.iter().cycle().take(size);
                values.map(|&value| (f64::from(value) * factor) as f32).collect()
            });
        }
    }

    /// Weight whose values are computed.
    fn computed(
        &mut self,
        name: &str,
        shape: &[usize],
        values: impl Fn() -> Result<Vec<f32>, ConvertError> + Send + Sync + 'static,
    ) {
        let weight =
            Weight { name: name.to_owned(), shape: shape.to_vec(), values: Box::new(values) };
        self.weights.insert(name.to_owned(), weight);
    }

    /// Marks a tensor as redundant, if there is one with this name.
    pub(crate) fn ignore(&mut self, tensor: &str) {
        self.used.insert(tensor.to_owned());
    }

    /// Checks that a tensor exists and has this shape, and marks it as used. Dimensions of size 1
    /// are ignored.
    pub(crate) fn expect(&mut self, tensor: &str, shape: &[usize]) -> bool {
        self.used.insert(tensor.to_owned());
        let Some(found) = self.tensors.get(tensor) else {
            self.problems.push(format!("`{tensor}` is missing, expected {shape:?}"));
            return false;
        };
        let long = |shape: &[usize]| -> Vec<usize> {
            shape.iter().copied().filter(|&size| size != 1).collect()
        };
        if long(&found.shape) != long(shape) {
            let found = &found.shape;
            self.problems.push(format!("`{tensor}` has shape {found:?}, expected {shape:?}"));
            return false;
        }
        true
    }

    /// Returns the problems so far as an error, before numbers of the configuration are used.
    ///
    /// # Errors
    ///
    /// [`ConvertError::Weights`] if there are any.
    pub(crate) fn check(&mut self) -> Result<(), ConvertError> {
        match self.problems.is_empty() {
            true => Ok(()),
            false => Err(self.error()),
        }
    }

    fn error(&mut self) -> ConvertError {
        let mut problems = std::mem::take(&mut self.problems);
        let more = problems.len().saturating_sub(MOST_PROBLEMS);
        problems.truncate(MOST_PROBLEMS);
        if more > 0 {
            problems.push(format!("{more} more"));
        }
        ConvertError::Weights { path: self.tensors.path().to_owned(), problems }
    }

    /// Returns the weights of a bundle with this configuration, in its order.
    ///
    /// # Errors
    ///
    /// [`ConvertError::Weights`] with all problems: tensors that are missing, left over or of
    /// another shape.
    pub(crate) fn finish(
        self,
        config: &ModelConfig,
        vocab: VocabSizes,
    ) -> Result<Vec<Weight>, ConvertError> {
        self.finish_of(Architecture::EncoderDecoder, config, vocab)
    }

    /// Does the work of [`finish`](Self::finish) for another architecture.
    pub(crate) fn finish_of(
        mut self,
        architecture: Architecture,
        config: &ModelConfig,
        vocab: VocabSizes,
    ) -> Result<Vec<Weight>, ConvertError> {
        let expected = config.weight_shapes_of(architecture, config.padded(vocab));
        if self.problems.is_empty() {
            for weight in &expected {
                match self.weights.get(&weight.name) {
                    None => {
                        self.problems.push(format!("no tensor provides `{}`", weight.name));
                    }
                    Some(found) if found.shape != weight.shape => self.problems.push(format!(
                        "`{}` has shape {:?}, expected {:?}",
                        weight.name, found.shape, weight.shape
                    )),
                    Some(_) => {}
                }
            }
            if expected.len() < self.weights.len() {
                let names: BTreeSet<&str> =
                    expected.iter().map(|weight| weight.name.as_str()).collect();
                let others = self.weights.keys().filter(|name| !names.contains(name.as_str()));
                self.problems.extend(
                    others.map(|name| format!("`{name}` is not part of the model of the bundle")),
                );
            }
        }
        for name in self.tensors.names().filter(|name| !self.used.contains(*name)) {
            self.problems.push(format!("`{name}` is not part of the model"));
        }
        self.check()?;
        Ok(expected.iter().filter_map(|weight| self.weights.remove(&weight.name)).collect())
    }

    fn insert_read(
        &mut self,
        name: &str,
        tensor: &str,
        shape: &[usize],
        change: impl Fn(Vec<f32>) -> Vec<f32> + Send + Sync + 'static,
    ) {
        let (tensors, tensor) = (self.tensors.clone(), tensor.to_owned());
        self.computed(name, shape, move || tensors.finite_values(&tensor).map(&change));
    }
}

/// Rows of a matrix with `columns` columns in this order; `absent` for rows that it does not have.
fn select_rows(values: &[f32], columns: usize, order: &[Option<u32>], absent: f32) -> Vec<f32> {
    let mut selected = Vec::with_capacity(order.len() * columns);
    for row in order {
        let row = row.and_then(|row| values.chunks_exact(columns).nth(row as usize));
        match row {
            Some(row) => selected.extend_from_slice(row),
            None => selected.resize(selected.len() + columns, absent),
        }
    }
    selected
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::tensors::{ElementType, Tensor};

    fn tensors(names: &[(&str, &[usize])]) -> Arc<Tensors> {
        let mut tensors = Tensors::new(Path::new("model.safetensors"));
        for (name, shape) in names {
            let count = shape.iter().product::<usize>();
            let bytes: Vec<u8> =
                (0..count).flat_map(|value| (value as f32).to_le_bytes()).collect();
            let file = Path::new("model.safetensors").into();
            let read = move || Ok(bytes.clone());
            let tensor = Tensor::new(&file, shape.to_vec(), ElementType::F32, read);
            tensors.insert((*name).to_owned(), tensor).unwrap();
        }
        Arc::new(tensors)
    }

    /// The tensor `[3, 2]` is 0 1 / 2 3 / 4 5.
    #[test]
    fn rows_columns_and_biases_in_another_order() {
        let mut map =
            WeightMap::new(tensors(&[("matrix", &[3, 2]), ("bias", &[1, 3]), ("number", &[1])]));
        let order: RowOrder = vec![Some(2), None, Some(0), Some(1)].into();
        map.transposed("transposed", "matrix", [2, 3]);
        map.rows("rows", "matrix", [3, 2], &order);
        map.rows_as_columns("columns", "matrix", [3, 2], &order);
        map.columns("two of two", "matrix", [3, 2], &vec![Some(1), None, Some(0)].into());
        map.logit_bias("bias", Some("bias"), 3, &order);
        map.logit_bias("no bias", None, 3, &order);
        map.scaled("scaled", "bias", 3, 0.5);
        map.scaled("number", "number", 2, 3.0);
        assert_eq!(map.problems, Vec::<String>::new());
        let values = |name: &str| map.weights[name].values().unwrap();
        assert_eq!(values("transposed"), [0.0, 2.0, 4.0, 1.0, 3.0, 5.0]);
        assert_eq!(values("rows"), [4.0, 5.0, 0.0, 0.0, 0.0, 1.0, 2.0, 3.0]);
        assert_eq!(values("columns"), [4.0, 0.0, 0.0, 2.0, 5.0, 0.0, 1.0, 3.0]);
        assert_eq!(values("two of two"), [1.0, 0.0, 0.0, 3.0, 0.0, 2.0, 5.0, 0.0, 4.0]);
        assert_eq!(values("bias"), [2.0, ABSENT_BIAS, 0.0, 1.0]);
        assert_eq!(values("no bias"), [0.0, ABSENT_BIAS, 0.0, 0.0]);
        assert_eq!(values("scaled"), [0.0, 0.5, 1.0]);
        assert_eq!(values("number"), [0.0, 0.0]);
    }

    /// A matrix of more than one block.
    #[test]
    fn a_matrix_transposed_twice_is_itself() {
        let values: Vec<f32> = (0..70 * 45).map(|value| value as f32).collect();
        let transposed = transpose(&values, 70, 45);
        assert_eq!(transposed[1], values[45]);
        assert_eq!(transpose(&transposed, 45, 70), values);
    }

    #[test]
    fn every_problem_is_reported() {
        let mut map = WeightMap::new(tensors(&[("a", &[2]), ("left", &[1]), ("alias", &[2])]));
        map.copy("a", "a", &[3]);
        map.copy("b", "b", &[2]);
        map.ignore("alias");
        let vocab = VocabSizes { source: 5, target: 5 };
        let error = map.finish(&ModelConfig::default(), vocab).err().unwrap();
        let ConvertError::Weights { problems, .. } = error else { panic!("{error}") };
        assert_eq!(
            problems,
            [
                "`a` has shape [2], expected [3]",
                "`b` is missing, expected [2]",
                "`left` is not part of the model",
            ]
        );
    }
}
