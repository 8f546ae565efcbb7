//! Kernels of decoding step by step, which move no keys and values: rows refer to those of earlier steps
//! by a table.

mod kernels;

use burn::tensor::{DType, Shape};
use burn_cubecl::{ops::numeric::empty_device_contiguous_dtype, tensor::CubeTensor};

use self::kernels::{attend_past, attend_source, best_tokens, extend_beams, follow};
use super::{cubes, empty, rows as rows_of, units};

/// Units of a cube that computes one head of a row.
const UNITS: usize = 64;

/// Units of a cube that searches the vocabulary for a row.
const SEARCH_UNITS: usize = 256;

/// Maximum number of tokens of a source or target: their scores take 8 KiB of shared memory, of which the
/// smallest adapters have 16.
pub const MAX_LEN: usize = 2048;

/// Maximum number of tokens that [`best`] finds.
pub const MAX_BEST: usize = 32;

/// Id in place of all tokens of a row with a logit that is NaN or infinity.
pub const NOT_FINITE: i64 = -2;

/// Keys and values of the self-attention of a layer: `[2, len, rows, d_model]`.
#[derive(Debug, Clone)]
pub struct Cache {
    pub buffer: CubeTensor,
    pub len: usize,
    pub rows: usize,
}

/// Rows of a batch at one step.
#[derive(Debug, Clone)]
pub struct Rows {
    pub count: usize,
    /// Row that computed the keys and values of each position: `[count, max_len]`, 32-bit integers. Entries
    /// of positions to come have no meaning.
    pub table: CubeTensor,
    /// Source of each row: `[count]`, 32-bit integers.
    pub sources: CubeTensor,
}

/// Number and width of the heads of an attention.
#[derive(Debug, Clone, Copy)]
pub struct Heads {
    pub number: usize,
    pub width: usize,
}

impl Heads {
    fn scale(self) -> f32 {
        1.0 / (self.width as f32).sqrt()
    }
}

/// Positions inside self-attention.
#[derive(Debug, Clone)]
pub enum Positional {
    /// No positions: those of the embedding suffice.
    Absent,
    /// Cosines, then sines, of the angles of all positions: `[2, max_len, width / 2]`.
    Rotary(CubeTensor),
    /// Biases `[.., heads]`, the last for distance 0, the one before for distance 1, and the first for all
    /// distances from there on.
    Bias(CubeTensor),
}

/// Writes the keys and values at position `time` and mixes the values of all positions up to it.
///
/// # Shapes
///
/// - `qkv`: `[3, R, d_model]`, to which `bias` is added; its parts begin at multiples of a distance
/// - returns `[R, d_model]`
pub fn past(
    qkv: CubeTensor,
    bias: Option<(CubeTensor, usize)>,
    positional: &Positional,
    cache: &Cache,
    rows: &Rows,
    time: usize,
    heads: Heads,
) -> CubeTensor {
    let y = empty(&qkv, Shape::new([rows.count, heads.number * heads.width]));
    let client = qkv.client.clone();
    let (bias, pitch) = bias.unzip();
    let (positions, zero_distance, is_rotary) = match positional {
        Positional::Absent => (None, 0, false),
        Positional::Rotary(table) => (Some(table.clone()), 0, true),
        Positional::Bias(table) => (Some(table.clone()), rows_of(table)[0] - 1, false),
    };
    let count = rows.count * heads.number;
    if count > 0 {
        let (cubes, dim, units) = cubes(&y, count, UNITS);
        attend_past::launch(
            &client,
            cubes,
            dim,
            qkv.into_buffer_arg(),
            bias.into_iter().map(CubeTensor::into_buffer_arg).collect(),
            positions.into_iter().map(CubeTensor::into_buffer_arg).collect(),
            cache.buffer.clone().into_buffer_arg(),
            rows.table.clone().into_buffer_arg(),
            y.clone().into_buffer_arg(),
            rows.count,
            time,
            rows_of(&rows.table)[1],
            cache.rows,
            cache.len,
            pitch.unwrap_or(0),
            zero_distance,
            heads.scale(),
            heads.number,
            heads.width,
            (time + 1).next_power_of_two().max(UNITS),
            units,
            is_rotary,
        );
    }
    y
}

/// Keys and values of the sources.
#[derive(Debug, Clone)]
pub struct Memory {
    /// `[2, B, S, d_model]`
    pub keys_values: CubeTensor,
    /// Number of tokens of each source: `[B]`, 32-bit integers.
    pub lengths: CubeTensor,
}

/// Mixes the values of the source of each row.
///
/// # Shapes
///
/// - `q`: `[R, d_model]`, to which `bias` is added
/// - returns `[R, d_model]`
pub fn source(
    q: CubeTensor,
    bias: Option<CubeTensor>,
    memory: &Memory,
    rows: &Rows,
    heads: Heads,
) -> CubeTensor {
    let y = empty(&q, q.meta.shape().clone());
    let client = q.client.clone();
    let shape = memory.keys_values.meta.shape();
    let (batch, len) = (shape[1], shape[2]);
    let count = rows.count * heads.number;
    if count > 0 {
        let (cubes, dim, units) = cubes(&y, count, UNITS);
        attend_source::launch(
            &client,
            cubes,
            dim,
            q.into_buffer_arg(),
            bias.into_iter().map(CubeTensor::into_buffer_arg).collect(),
            memory.keys_values.clone().into_buffer_arg(),
            rows.sources.clone().into_buffer_arg(),
            memory.lengths.clone().into_buffer_arg(),
            y.clone().into_buffer_arg(),
            rows.count,
            batch,
            len,
            heads.scale(),
            heads.number,
            heads.width,
            len.next_power_of_two().max(UNITS),
            units,
        );
    }
    y
}

/// The likeliest tokens of each row.
#[derive(Debug, Clone)]
pub struct Best {
    /// Log-probabilities, best first: `[R, count]`.
    pub values: CubeTensor,
    /// Their ids, `[R, count]`, 32-bit integers; -1 if there are fewer, [`NOT_FINITE`] in a row with a logit that is
    /// NaN or infinity.
    pub ids: CubeTensor,
    /// First of each row: `[R]`, 32-bit integers.
    pub tokens: CubeTensor,
}

/// Finds the `count` likeliest tokens of each row, of equal ones the smaller id first.
///
/// # Shapes
///
/// - `logits`: `[R, V]`, to which `bias` is added
/// - `suppressed`: `[V]`, 32-bit integers; not 0 for ids that are not found
pub fn best(
    logits: CubeTensor,
    bias: Option<CubeTensor>,
    suppressed: CubeTensor,
    count: usize,
) -> Best {
    let [rows, vocabulary] = rows_of(&logits);
    let values = empty(&logits, Shape::new([rows, count]));
    let ids = integers(&logits, Shape::new([rows, count]));
    let tokens = integers(&logits, Shape::new([rows]));
    let client = logits.client.clone();
    if rows > 0 {
        let (cubes, dim, units) = cubes(&logits, rows, SEARCH_UNITS);
        best_tokens::launch(
            &client,
            cubes,
            dim,
            logits.into_buffer_arg(),
            bias.into_iter().map(CubeTensor::into_buffer_arg).collect(),
            suppressed.into_buffer_arg(),
            values.clone().into_buffer_arg(),
            ids.clone().into_buffer_arg(),
            tokens.clone().into_buffer_arg(),
            rows,
            vocabulary,
            count,
            units,
        );
    }
    Best { values, ids, tokens }
}

/// Hypotheses that continue those of a step.
#[derive(Debug, Clone)]
pub struct Extended {
    /// Last token of each: `[R]`, 32-bit integers.
    pub tokens: CubeTensor,
    /// Row that it continues: `[R]`, 32-bit integers.
    pub parents: CubeTensor,
    /// Its log-probability: `[R]`
    pub scores: CubeTensor,
}

/// Keeps, of each group of rows, the best `beam` continuations that do not end with `end`, of the best
/// `2 · beam` continuations of the group; of equal ones, that of the earlier row first.
///
/// # Shapes
///
/// - `scores`: log-probabilities of the rows, `[R]`
pub fn extend(best: &Best, scores: &CubeTensor, groups: usize, beam: usize, end: u32) -> Extended {
    let [rows, count] = rows_of(&best.values);
    let shape = || Shape::new([groups * beam]);
    let [tokens, parents] = [(); 2].map(|()| integers(scores, shape()));
    let extended = Extended { tokens, parents, scores: empty(scores, shape()) };
    let (cubes, dim) = units(scores, groups);
    if groups > 0 {
        extend_beams::launch(
            &scores.client,
            cubes,
            dim,
            best.values.clone().into_buffer_arg(),
            best.ids.clone().into_buffer_arg(),
            scores.clone().into_buffer_arg(),
            extended.tokens.clone().into_buffer_arg(),
            extended.parents.clone().into_buffer_arg(),
            extended.scores.clone().into_buffer_arg(),
            groups,
            end as i32,
            rows / groups,
            beam,
            count,
        );
    }
    extended
}

impl Rows {
    /// Returns the rows whose row `i` continues row `parents[i]` of these, which have `len` positions.
    pub fn following(&self, parents: &CubeTensor, len: usize) -> Self {
        let count = parents.meta.num_elements();
        let [_, max_len] = rows_of(&self.table);
        let table = integers(&self.table, Shape::new([count, max_len]));
        let sources = integers(&self.table, Shape::new([count]));
        let (cubes, dim) = units(&self.table, count * (len + 1));
        if count > 0 {
            follow::launch(
                &self.table.client,
                cubes,
                dim,
                self.table.clone().into_buffer_arg(),
                self.sources.clone().into_buffer_arg(),
                parents.clone().into_buffer_arg(),
                table.clone().into_buffer_arg(),
                sources.clone().into_buffer_arg(),
                count,
                len,
                max_len,
            );
        }
        Self { count, table, sources }
    }
}

/// Allocates 32-bit integers without values on the device of `x`.
pub fn integers(x: &CubeTensor, shape: Shape) -> CubeTensor {
    empty_device_contiguous_dtype(x.client.clone(), x.device.clone(), shape, DType::I32)
}
