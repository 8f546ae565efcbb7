//! Positional encoding: section 3.5 of the paper and later variants.

use burn::{
    module::{Module, Param},
    nn::Initializer,
    tensor::{Device, Int, Tensor, TensorData},
};

use crate::{
    config::{ModelConfig, Positions},
    kernels::{self, launches::count_upload},
    position_formulas::{alibi_slopes, relative_row, rotary_wavelengths, sinusoids},
};

/// Positional encoding that is added to the embeddings, for the configurations that have one.
#[derive(Module, Debug)]
pub struct PositionalEncoding {
    /// Fixed sines and cosines `[max_len, d_model]`; computed, never saved.
    sinusoids: Option<Tensor<2>>,
    /// Learned vectors by position, `[max_len, d_model]`.
    learned: Option<Param<Tensor<2>>>,
}

impl PositionalEncoding {
    /// Builds the table; `config` must have been checked.
    pub(crate) fn new(config: &ModelConfig, device: &Device) -> Self {
        let shape = [config.max_len, config.d_model];
        match config.positions {
            Positions::Sinusoidal => {
                let table = sinusoids(config.max_len, config.d_model, config.sinusoids);
                let table = TensorData::new(table, shape);
                Self { sinusoids: Some(Tensor::from_data(table, device)), learned: None }
            }
            Positions::Learned => {
                let std = (config.d_model as f64).sqrt().recip();
                let initializer = Initializer::Normal { mean: 0.0, std };
                Self { sinusoids: None, learned: Some(initializer.init(shape, device)) }
            }
            Positions::Rotary | Positions::Relative | Positions::Alibi | Positions::None => {
                Self { sinusoids: None, learned: None }
            }
        }
    }

    /// Returns the vectors that are added to the embeddings at positions `offset..offset + len`, if
    /// any.
    ///
    /// # Shapes
    ///
    /// - returns `[len, d_model]`
    ///
    /// # Panics
    ///
    /// If `offset + len` exceeds the `max_len` of the configuration.
    pub fn rows(&self, offset: usize, len: usize) -> Option<Tensor<2>> {
        let table = self.table()?;
        let [max_len, _] = table.dims();
        assert!(offset + len <= max_len, "{} positions exceed `max_len` = {max_len}", offset + len);
        Some(table.narrow(0, offset, len))
    }

    /// Vectors that are added to the embeddings at these positions, if any.
    ///
    /// # Shapes
    ///
    /// - `positions`: `[N]`, each below the `max_len` of the configuration
    /// - returns `[N, d_model]`
    pub fn rows_at(&self, positions: Tensor<1, Int>) -> Option<Tensor<2>> {
        Some(self.table()?.select(0, positions))
    }

    /// `[max_len, d_model]`
    pub(crate) fn table(&self) -> Option<Tensor<2>> {
        match (&self.sinusoids, &self.learned) {
            (Some(table), _) => Some(table.clone()),
            (None, Some(table)) => Some(table.val()),
            (None, None) => None,
        }
    }
}

/// Positional encoding inside self-attention: tables of one forward pass, the same in every layer
/// of a stack.
#[derive(Debug, Clone)]
pub enum PositionTables {
    /// No encoding: cross-attention, and encodings that are added to the embeddings.
    None,
    /// Cosines of the angles, then sines: `[2, 1, L, D / 2]`.
    Rotary(Tensor<4>),
    /// Row of the bias table for each query `0..L` and each key `0..K`: `[L · K]`.
    Relative(Tensor<1, Int>),
    /// Bias of each query `0..L` for each key `0..K`: `[1, H, L, K]`.
    Alibi(Tensor<4>),
}

impl PositionTables {
    /// Computes the tables of the positions `offset..offset + len`, which attend to the keys at
    /// `0..offset + len`, on the device and in the dtype of `x`; `d_head` is the number of features
    /// per head.
    pub fn new<const D: usize>(
        positions: Positions,
        [n_heads, d_head]: [usize; 2],
        offset: usize,
        len: usize,
        x: &Tensor<D>,
    ) -> Self {
        let (queries, keys) = (offset..offset + len, 0..offset + len);
        match positions {
            Positions::Sinusoidal | Positions::Learned | Positions::None => Self::None,
            Positions::Rotary => {
                let wavelengths = rotary_wavelengths(d_head);
                let angles: Vec<f64> = queries
                    .flat_map(|query| wavelengths.iter().map(move |length| query as f64 / length))
                    .collect();
                let cosines = angles.iter().map(|angle| angle.cos() as f32);
                let sines = angles.iter().map(|angle| angle.sin() as f32);
                let table =
                    TensorData::new(cosines.chain(sines).collect(), [2, 1, len, d_head / 2]);
                count_upload();
                Self::Rotary(Tensor::from_data(table, (&x.device().inner(), x.dtype())))
            }
            Positions::Relative => {
                let rows: Vec<i64> = queries
                    .flat_map(|query| keys.clone().map(move |key| relative_row(query, key) as i64))
                    .collect();
                let count = rows.len();
                count_upload();
                Self::Relative(Tensor::from_data(TensorData::new(rows, [count]), &x.device()))
            }
            Positions::Alibi => {
                let distances = queries
                    .flat_map(|query| keys.clone().map(move |key| query.abs_diff(key) as f32));
                let distances: Vec<f32> = distances.collect();
                let slopes = alibi_slopes(n_heads).into_iter();
                let bias = slopes.flat_map(|slope| distances.iter().map(move |it| -slope * it));
                let bias = TensorData::new(bias.collect(), [1, n_heads, len, keys.len()]);
                count_upload();
                Self::Alibi(Tensor::from_data(bias, (&x.device().inner(), x.dtype())))
            }
        }
    }

    /// Rotates each pair of features `(x_i, x_{i + D/2})` by an angle proportional to the token's
    /// position, so that the product of a query and a key depends only on their distance (Su et al.
    /// 2021). Other encodings return `x`.
    ///
    /// # Shapes
    ///
    /// - `x_bhld`: `[B, H, L, D]`, D even
    pub(crate) fn rotate(&self, x_bhld: Tensor<4>) -> Tensor<4> {
        let table = match self {
            Self::Rotary(table) => table,
            Self::None | Self::Relative(_) | Self::Alibi(_) => return x_bhld,
        };
        kernels::rotate(x_bhld, table.clone())
    }

    /// Bias of every query for every key, `[1, H, Q, K]`: looked up in the learned table
    /// `[2k + 1, H]` of relative positions, or that of ALiBi. Other encodings have none.
    pub(crate) fn bias(&self, learned: Option<Tensor<2>>, n_queries: usize) -> Option<Tensor<4>> {
        match self {
            Self::None | Self::Rotary(_) => None,
            Self::Relative(rows) => {
                let [count] = rows.dims();
                let n_keys = count / n_queries.max(1);
                let table = learned?;
                let [_, n_heads] = table.dims();
                let bias_qkh = table.select(0, rows.clone()).reshape([n_queries, n_keys, n_heads]);
                Some(bias_qkh.permute([2, 0, 1]).unsqueeze())
            }
            Self::Alibi(bias) => Some(bias.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_selects_a_later_part_of_the_table() {
        let device = Device::flex();
        for positions in [Positions::Sinusoidal, Positions::Learned] {
            let config =
                ModelConfig { d_model: 6, max_len: 9, positions, ..ModelConfig::default() };
            let encoding = PositionalEncoding::new(&config, &device);
            let whole = encoding.rows(0, 9).unwrap();
            let part = encoding.rows(5, 2).unwrap();
            part.into_data().assert_eq(&whole.clone().narrow(0, 5, 2).into_data(), true);
            let chosen = encoding.rows_at(Tensor::from_data([6, 0, 6], &device)).unwrap();
            let six = whole.clone().narrow(0, 6, 1);
            let expected = Tensor::cat(vec![six.clone(), whole.narrow(0, 0, 1), six], 0);
            chosen.into_data().assert_eq(&expected.into_data(), true);
        }
    }

    /// Moving both tokens by the same number of positions changes no product.
    #[test]
    fn rotated_products_depend_on_the_distance_alone() {
        let device = Device::flex();
        let q = Tensor::<4>::from_data([[[[0.3, -1.2, 0.7, 0.4]]]], &device);
        let k = Tensor::<4>::from_data([[[[1.1, 0.2, -0.5, 0.9]]]], &device);
        let rotate = |x: &Tensor<4>, position| {
            PositionTables::new(Positions::Rotary, [1, 4], position, 1, x).rotate(x.clone())
        };
        let product = |q_position, k_position| {
            (rotate(&q, q_position) * rotate(&k, k_position)).sum().into_scalar::<f32>()
        };
        assert!((product(7, 3) - product(104, 100)).abs() < 1e-5);
        assert!((product(7, 3) - product(7, 4)).abs() > 1e-2);
        // Position 0 rotates nothing: 0.33 - 0.24 - 0.35 + 0.36.
        assert!((product(0, 0) - 0.1).abs() < 1e-6);
    }
}
