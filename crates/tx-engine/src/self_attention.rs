//! Self-attention in its residual connection, over whole texts or one more token of each.

use std::ops::Range;

use crate::{
    Sublayer,
    attention::{Memory, PackedAttention, Rotation},
    history::History,
    residual::PackedResidual,
    scratch::Scratch,
    source::Packer,
};

/// Number of steps for which memory of keys and values is reserved at once.
const RESERVED: usize = 32;

/// Self-attention with its positional encoding and residual connection.
#[derive(Debug, Clone)]
pub(crate) struct PackedSelfAttention {
    attention: PackedAttention,
    residual: PackedResidual,
}

impl PackedSelfAttention {
    /// Packs the self-attention of the layer at path `layer`.
    pub(crate) fn pack(packer: &Packer<'_>, layer: &str) -> Self {
        let positions = packer.config.positions;
        Self {
            attention: PackedAttention::pack(packer, &format!("{layer}.self_attention"), positions),
            residual: PackedResidual::pack(packer, &format!("{layer}.self_attention_residual")),
        }
    }

    /// Number of heads.
    pub(crate) fn n_heads(&self) -> usize {
        self.attention.n_heads()
    }

    /// Angles for rows at these positions; empty if positions are not rotary.
    pub(crate) fn rotation(&self, positions: impl Iterator<Item = usize>) -> Rotation {
        self.attention.rotation(positions)
    }

    /// Lets every token attend to all tokens of its sentence.
    ///
    /// # Shapes
    ///
    /// - `x`: `[tokens of all sentences, d_model]`; replaced by the result
    /// - `sentences`: the rows of each; `slots`: `0, 1, …` up to the longest
    pub(crate) fn forward(
        &self,
        x: &mut [f32],
        sentences: &[Range<usize>],
        slots: &[u32],
        rotation: &Rotation,
        scratch: &mut Scratch,
    ) {
        let Scratch { normalized, attention, keys_values, output, probe, .. } = scratch;
        let y = self.residual.enter(Sublayer::SelfAttention, x, normalized, probe);
        keys_values.resize(2 * y.len(), 0.0);
        self.attention.project(y, attention, keys_values);
        self.attention.rotate(&mut attention.queries, keys_values, rotation);
        self.attention.record(&attention.queries, keys_values, probe);
        let width = self.attention.keys_values.outputs();
        for rows in sentences {
            let memory = Memory {
                keys_values: &keys_values[rows.start * width..rows.end * width],
                slots: &slots[..rows.len()],
            };
            for (position, row) in rows.clone().enumerate() {
                // All queries of a sentence have the same keys.
                self.attention.attend(attention, row, position, [memory, Memory::EMPTY], probe);
            }
        }
        self.attention.silence(attention, probe);
        self.residual.leave(x, &attention.context, &self.attention.output, output, probe);
    }

    /// Lets the newest token of every row attend to itself and to the earlier ones.
    ///
    /// # Shapes
    ///
    /// - `x`: `[rows, d_model]`; replaced by the result
    /// - `past`: `[slots in use before this step, 2 d_model]`, to which keys and values of the newest
    ///   tokens are appended
    /// - `history`: the slots of each row, the newest included
    pub(crate) fn step(
        &self,
        x: &mut [f32],
        past: &mut Vec<f32>,
        history: &History,
        rotation: &Rotation,
        scratch: &mut Scratch,
    ) {
        let Scratch { normalized, attention, output, probe, .. } = scratch;
        let y = self.residual.enter(Sublayer::SelfAttention, x, normalized, probe);
        let newest = past.len();
        let len = history.used() * self.attention.keys_values.outputs();
        if len > past.capacity() {
            // The system provides reserved memory when it is used, and a vector that grows is copied.
            past.reserve((len - newest) * RESERVED);
        }
        past.resize(len, 0.0);
        let newest = &mut past[newest..];
        self.attention.project(y, attention, newest);
        self.attention.rotate(&mut attention.queries, newest, rotation);
        self.attention.record(&attention.queries, newest, probe);
        let position = history.newest();
        let memory = |slots| Memory { keys_values: past, slots };
        let mut rows = history.rows().enumerate().peekable();
        while let Some((row, slots)) = rows.next() {
            let next = rows.peek().map_or(Memory::EMPTY, |&(_, slots)| memory(slots));
            self.attention.attend(attention, row, position, [memory(slots), next], probe);
        }
        self.attention.silence(attention, probe);
        self.residual.leave(x, &attention.context, &self.attention.output, output, probe);
    }
}
