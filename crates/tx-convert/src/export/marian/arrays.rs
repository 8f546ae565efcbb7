//! Arrays of Marian with the weights of a bundle.

use std::{
    borrow::Cow,
    io::{self, Seek, Write},
};

use tx_infer::Bundle;
use tx_model::{ModelConfig, Tying};

use super::{
    ArchiveWriter, ArrayNames, EMBEDDING, EMBEDDINGS, LOGIT_BIAS, Layers, PROJECTION_ROWS,
};
use crate::rows::transpose;

/// Weights in the order in which they are written.
pub(super) struct Arrays<'a> {
    pub(super) bundle: &'a Bundle,
    pub(super) names: ArrayNames,
    /// For each id of Marian, the id of the bundle; of source and target.
    pub(super) orders: &'a [Vec<u32>; 2],
}

impl Arrays<'_> {
    /// Writes all arrays.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub(super) fn write<W: Write + Seek>(&self, archive: &mut ArchiveWriter<W>) -> io::Result<()> {
        let config = &self.bundle.config;
        let [source, target] = self.orders;
        let d_model = config.d_model;
        // With all biases: those that the model lacks are zeros.
        let biased =
            ModelConfig { attention_bias: true, feed_forward_bias: true, ..config.clone() };
        for weight in biased.weight_shapes(config.padded(self.bundle.vocabulary())) {
            let Some(name) = self.names.name(&weight.name) else { continue };
            let count = weight.shape.iter().product();
            let values = match self.bundle.weight(&weight.name) {
                Some((_, values)) => values,
                None => Cow::Owned(vec![0.0; count]),
            };
            let shape = match (weight.shape.as_slice(), self.names.layers) {
                (&[size], Layers::Legacy) => vec![1, size],
                (shape, _) => shape.to_vec(),
            };
            archive.array(&name, &shape, &values)?;
        }
        let rows = |weight, order: &[u32]| select(&self.values(weight), d_model, order);
        match config.tying {
            Tying::All => {
                let values = rows("source_embedding.weight", target);
                archive.array(EMBEDDING, &[target.len(), d_model], &values)?;
            }
            Tying::Decoder | Tying::None => {
                let sides = ["source_embedding.weight", "target_embedding.weight"];
                for ((array, weight), order) in EMBEDDINGS.iter().zip(sides).zip([source, target]) {
                    archive.array(array, &[order.len(), d_model], &rows(weight, order))?;
                }
            }
        }
        if config.tying == Tying::None {
            let values = self.values("projection.weight");
            let by_id = transpose(&values, d_model, values.len() / d_model.max(1));
            let selected = select(&by_id, d_model, target);
            archive.array(PROJECTION_ROWS, &[target.len(), d_model], &selected)?;
        }
        if config.output_bias {
            let values = select(&self.values("projection.bias"), 1, target);
            archive.array(LOGIT_BIAS, &[1, target.len()], &values)?;
        }
        Ok(())
    }

    fn values(&self, weight: &str) -> Cow<'_, [f32]> {
        self.bundle.weight(weight).map_or(Cow::Borrowed(&[]), |(_, values)| values)
    }
}

/// Rows of a matrix in this order.
fn select(values: &[f32], columns: usize, order: &[u32]) -> Vec<f32> {
    let mut selected = Vec::with_capacity(order.len() * columns);
    for &row in order {
        let start = row as usize * columns;
        selected.extend_from_slice(values.get(start..start + columns).unwrap_or_default());
    }
    selected
}
