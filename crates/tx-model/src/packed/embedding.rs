//! From token ids to vectors.

use std::sync::Arc;

/// Looks a token up, scales it and adds its place, as
/// [`TokenEmbedding`](crate::embedding::TokenEmbedding) does.
#[derive(Debug, Clone)]
pub(crate) struct PackedEmbedding {
    /// `[vocabulary, d_model]`
    pub(crate) table: Arc<Vec<f32>>,
    /// 1 where there is no scale.
    pub(crate) scale: f32,
    /// A vector per place `[max_len, d_model]`, where vectors tell the places.
    pub(crate) places: Option<Vec<f32>>,
    pub(crate) d_model: usize,
}

impl PackedEmbedding {
    /// Adds a row to `x` for a token at a place of its sequence.
    ///
    /// # Panics
    ///
    /// When the vocabulary has no such token, or the place is beyond `max_len`.
    pub(super) fn push(&self, x: &mut Vec<f32>, token: u32, place: usize) {
        let row = |row: usize| row * self.d_model..(row + 1) * self.d_model;
        let token = &self.table[row(token as usize)];
        match &self.places {
            Some(places) => {
                let place = &places[row(place)];
                x.extend(token.iter().zip(place).map(|(x, place)| x * self.scale + place));
            }
            None => x.extend(token.iter().map(|x| x * self.scale)),
        }
    }
}
