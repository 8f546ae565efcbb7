//! Embeddings of token ids.

use std::sync::Arc;

use tx_kernels::quantized_weight::QuantizedTable;
use tx_model::{
    config::{ModelConfig, Positions, Side},
    position_formulas,
};

use crate::{linear::Linear, probe::Probe, source::Packer};

/// Tied tables in single precision with at least this many weights are stored once, as the columns of the output
/// projection. Smaller ones are stored as rows too, because these are faster to look up.
const LARGE: usize = 1 << 20;

/// Embedding of one side: looks tokens up, scales them and adds a vector for their position, as
/// `TokenEmbedding` does.
#[derive(Debug, Clone)]
pub(crate) struct PackedEmbedding {
    table: Table,
    /// Factor of the table's rows.
    scale: f32,
    /// Vectors by position, `[max_len, d_model]`, for the encodings that add one.
    positions: Option<Arc<Vec<f32>>>,
    /// Whether the zero vector takes the place of the first token's row.
    zero_first: bool,
    d_model: usize,
}

/// Table of embeddings.
#[derive(Debug, Clone)]
enum Table {
    /// `[vocabulary, d_model]`
    Rows(Arc<Vec<f32>>),
    /// `[vocabulary, d_model]` of bytes.
    Bytes(Arc<QuantizedTable>),
    /// `[d_model, vocabulary]`
    Columns(Arc<Linear>),
}

impl PackedEmbedding {
    /// Embeds texts, one after another.
    ///
    /// # Shapes
    ///
    /// - returns `[tokens of all texts, d_model]`
    ///
    /// # Panics
    ///
    /// If the vocabulary has no such token, or a text is longer than `max_len`.
    pub(crate) fn embed(&self, texts: &[&[u32]], probe: &mut Probe) -> Vec<f32> {
        let mut x = Vec::new();
        for text in texts {
            for (position, &token) in text.iter().enumerate() {
                self.push(&mut x, token, position, probe);
            }
        }
        x
    }

    /// Adds a row to `x` for a token at `position` of its sequence.
    ///
    /// # Panics
    ///
    /// If the vocabulary has no such token, or `position` is not below `max_len`.
    pub(crate) fn push(&self, x: &mut Vec<f32>, token: u32, position: usize, probe: &mut Probe) {
        let row = |row: usize| row * self.d_model..(row + 1) * self.d_model;
        let start = x.len();
        match &self.table {
            _ if self.zero_first && position == 0 => x.resize(start + self.d_model, 0.0),
            Table::Rows(table) => {
                let weights = &table[row(token as usize)];
                x.extend(weights.iter().map(|weight| weight * self.scale));
            }
            Table::Bytes(table) => {
                let weights = table.row(self.d_model, token as usize);
                x.extend(weights.map(|weight| weight * self.scale));
            }
            Table::Columns(projection) => {
                projection.push_column(x, token as usize, self.scale);
            }
        }
        let position = self.positions.as_ref().map(|positions| &positions[row(position)]);
        probe.embedding(&x[start..], position);
        if let Some(position) = position {
            x[start..].iter_mut().zip(position).for_each(|(x, position)| *x += position);
        }
    }
}

/// Embeddings of both sides and the output projection, which may share one table.
pub(crate) struct Vocabularies {
    pub(crate) source_input: PackedEmbedding,
    pub(crate) target_input: PackedEmbedding,
    /// `[d_model, target vocabulary]`
    pub(crate) projection: Arc<Linear>,
}

impl Vocabularies {
    pub(crate) fn pack(packer: &Packer<'_>) -> Self {
        let ties_source = packer.config.tying.ties_source();
        let target_name = match ties_source {
            true => "source_embedding.weight",
            false => "target_embedding.weight",
        };
        let (target_table, projection) = table_and_projection(packer, target_name);
        let source_table = match ties_source {
            true => target_table.clone(),
            false => rows(packer, "source_embedding.weight"),
        };
        let [source_positions, target_positions] =
            position_vectors(packer, ["source_input", "target_input"]);
        let embedding = |side, table, positions| PackedEmbedding {
            table,
            scale: packer.config.embedding_factor(side),
            positions,
            zero_first: false,
            d_model: packer.config.d_model,
        };
        Self {
            source_input: embedding(Side::Source, source_table, source_positions),
            target_input: PackedEmbedding {
                zero_first: packer.config.decoder_start.is_zero(),
                ..embedding(Side::Target, target_table, target_positions)
            },
            projection,
        }
    }
}

impl PackedEmbedding {
    /// Packs the embedding of an encoder without a projection.
    pub(crate) fn pack(packer: &Packer<'_>) -> Self {
        Self::of_one_vocabulary(packer, Side::Source, rows(packer, "embedding.weight"))
    }

    /// Packs the embedding of a model with one vocabulary, and its output projection.
    pub(crate) fn pack_with_projection(packer: &Packer<'_>, side: Side) -> (Self, Arc<Linear>) {
        let (table, projection) = table_and_projection(packer, "embedding.weight");
        (Self::of_one_vocabulary(packer, side, table), projection)
    }

    fn of_one_vocabulary(packer: &Packer<'_>, side: Side, table: Table) -> Self {
        let [positions] = position_vectors(packer, ["input"]);
        let scale = packer.config.embedding_factor(side);
        Self { table, scale, positions, zero_first: false, d_model: packer.config.d_model }
    }
}

/// Packs a table of which no other matrix uses the weights.
fn rows(packer: &Packer<'_>, name: &str) -> Table {
    match packer.quantized_table(name) {
        Some(table) => Table::Bytes(Arc::new(table)),
        None => Table::Rows(Arc::new(packer.weight(name).into_owned())),
    }
}

/// Packs the table `name` and the output projection, which shares its weights if they are tied.
fn table_and_projection(packer: &Packer<'_>, name: &str) -> (Table, Arc<Linear>) {
    let ModelConfig { d_model, tying, output_bias, .. } = *packer.config;
    let bias = packer.optional("projection.bias", output_bias);
    if tying.ties_projection() {
        let projection = Arc::new(packer.transposed(d_model, name, bias));
        let table = match &*projection {
            Linear::F32(matrix) if matrix.inputs() * matrix.outputs() < LARGE => {
                Table::Rows(Arc::new(packer.weight(name).into_owned()))
            }
            Linear::F32(_) | Linear::Int8(_) => Table::Columns(projection.clone()),
        };
        (table, projection)
    } else {
        let (table, projection) = packer.both(
            || rows(packer, name),
            || packer.matrix(d_model, &["projection.weight"], bias, 1.0),
        );
        (table, Arc::new(projection))
    }
}

/// Vectors added to the embeddings at these paths, `[max_len, d_model]` each.
fn position_vectors<const N: usize>(
    packer: &Packer<'_>,
    inputs: [&str; N],
) -> [Option<Arc<Vec<f32>>>; N] {
    let ModelConfig { positions, sinusoids, max_len, d_model, .. } = *packer.config;
    match positions {
        Positions::Sinusoidal => {
            let table = Arc::new(position_formulas::sinusoids(max_len, d_model, sinusoids));
            inputs.map(|_| Some(table.clone()))
        }
        Positions::Learned => inputs.map(|input| {
            let table = packer.weight(&format!("{input}.positions.learned"));
            Some(Arc::new(table.into_owned()))
        }),
        Positions::Rotary | Positions::Relative | Positions::Alibi | Positions::None => {
            inputs.map(|_| None)
        }
    }
}
