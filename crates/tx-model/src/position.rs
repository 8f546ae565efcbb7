//! Where a token stands: section 3.5 of the paper and later ways to say it.

use burn::{
    module::{Module, Param},
    nn::Initializer,
    tensor::{Device, Int, Tensor, TensorData},
};

use crate::config::{ModelConfig, Positions};
#[cfg(feature = "cpu")]
use crate::packed;

/// The longest wavelength is `2π` times this (section 3.5).
const WAVELENGTH_BASE: f64 = 10_000.0;

/// A vector for each place, to be added to the embedding, where the configuration asks for one.
#[derive(Module, Debug)]
pub struct PositionalEncoding {
    /// Fixed sines and cosines `[max_len, d_model]`; computed, never saved.
    sinusoids: Option<Tensor<2>>,
    /// A learned vector per place `[max_len, d_model]`.
    learned: Option<Param<Tensor<2>>>,
}

impl PositionalEncoding {
    /// Builds the table; `config` must have been checked.
    pub(crate) fn new(config: &ModelConfig, device: &Device) -> Self {
        let shape = [config.max_len, config.d_model];
        let std = (config.d_model as f64).sqrt().recip();
        Self {
            sinusoids: (config.positions == Positions::Sinusoidal)
                .then(|| sinusoids(config.max_len, config.d_model, device)),
            learned: (config.positions == Positions::Learned)
                .then(|| Initializer::Normal { mean: 0.0, std }.init(shape, device)),
        }
    }

    /// What is added to the embeddings of the places `offset..offset + len`, if anything.
    ///
    /// # Shapes
    ///
    /// - returns `[len, d_model]`
    ///
    /// # Panics
    ///
    /// When `offset + len` is more than the `max_len` of the configuration.
    pub fn rows(&self, offset: usize, len: usize) -> Option<Tensor<2>> {
        let table = match (&self.sinusoids, &self.learned) {
            (Some(table), _) => table.clone(),
            (None, Some(table)) => table.val(),
            (None, None) => return None,
        };
        let [max_len, _] = table.dims();
        assert!(offset + len <= max_len, "place {} is beyond `max_len` = {max_len}", offset + len);
        Some(table.narrow(0, offset, len))
    }

    /// The vectors that are added, for decoding without tensors: `[max_len, d_model]`.
    #[cfg(feature = "cpu")]
    pub(crate) fn packed(&self) -> Option<Vec<f32>> {
        let table = match (&self.sinusoids, &self.learned) {
            (Some(table), _) => table.clone(),
            (None, learned) => learned.as_ref()?.val(),
        };
        Some(packed::values(table))
    }
}

/// The paper's table: `PE(pos, 2i) = sin(pos / 10000^(2i/d_model))`, and the cosine at `2i + 1`.
///
/// # Shapes
///
/// - returns `[max_len, d_model]`; `d_model` is even
pub fn sinusoids(max_len: usize, d_model: usize, device: &Device) -> Tensor<2> {
    let wavelengths: Vec<f64> = (0..d_model / 2).map(|pair| wavelength(pair, d_model)).collect();
    let mut table = Vec::with_capacity(max_len * d_model);
    for place in 0..max_len {
        for wavelength in &wavelengths {
            let (sine, cosine) = (place as f64 / wavelength).sin_cos();
            table.extend([sine as f32, cosine as f32]);
        }
    }
    Tensor::from_data(TensorData::new(table, [max_len, d_model]), device)
}

/// `place / 10000^(2 pair / features)`, in radians.
pub(crate) fn angle(place: usize, pair: usize, features: usize) -> f64 {
    place as f64 / wavelength(pair, features)
}

/// Over 2π: places until the angle is a radian further.
fn wavelength(pair: usize, features: usize) -> f64 {
    WAVELENGTH_BASE.powf(2.0 * pair as f64 / features as f64)
}

/// Distances further than this share one bias when positions are relative (Shaw et al. 2018,
/// section 3.2, call it `k`).
pub(crate) const MAX_RELATIVE_DISTANCE: usize = 16;

/// Position tables of self-attention: tables of one forward pass, the same
/// in every layer of a stack.
#[derive(Debug, Clone)]
pub enum PositionTables {
    /// Nothing: cross-attention, and positions that the embedding carries.
    None,
    /// Cosines of the angles, then sines: `[2, 1, L, D / 2]`.
    Rotary(Tensor<4>),
    /// The row of the bias table for each query `0..L` and each key `0..K`: `[L · K]`.
    Relative(Tensor<1, Int>),
}

impl PositionTables {
    /// Tables of the positions `offset..offset + len`, which attend to the keys at
    /// `0..offset + len`, for tensors like `x`; `d_head` features per head.
    pub fn new<const D: usize>(
        positions: Positions,
        d_head: usize,
        offset: usize,
        len: usize,
        x: &Tensor<D>,
    ) -> Self {
        match positions {
            Positions::Sinusoidal | Positions::Learned | Positions::None => Self::None,
            Positions::Rotary => {
                let half = d_head / 2;
                let angles: Vec<f64> = (offset..offset + len)
                    .flat_map(|place| (0..half).map(move |pair| angle(place, pair, d_head)))
                    .collect();
                let cosines = angles.iter().map(|angle| angle.cos() as f32);
                let sines = angles.iter().map(|angle| angle.sin() as f32);
                let table = TensorData::new(cosines.chain(sines).collect(), [2, 1, len, half]);
                Self::Rotary(Tensor::from_data(table, (&x.device().inner(), x.dtype())))
            }
            Positions::Relative => {
                let k = MAX_RELATIVE_DISTANCE as i64;
                let rows: Vec<i64> = (offset as i64..(offset + len) as i64)
                    .flat_map(|query| {
                        (0..(offset + len) as i64).map(move |key| (key - query).clamp(-k, k) + k)
                    })
                    .collect();
                let count = rows.len();
                Self::Relative(Tensor::from_data(TensorData::new(rows, [count]), &x.device()))
            }
        }
    }

    /// Rotates each pair of features `(x_i, x_{i + D/2})` by an angle proportional to the token's
    /// position, so that the product of a query and a key depends on their distance alone
    /// (Su et al. 2021). Other kinds of positions leave `x` as it is.
    ///
    /// # Shapes
    ///
    /// - `x_bhld`: `[B, H, L, D]`, D even
    pub(crate) fn rotate(&self, x_bhld: Tensor<4>) -> Tensor<4> {
        let Self::Rotary(table) = self else { return x_bhld };
        let [cos, sin] = [0, 1].map(|function| table.clone().narrow(0, function, 1));
        let [_, _, _, half] = cos.dims();
        let first = x_bhld.clone().narrow(3, 0, half);
        let second = x_bhld.narrow(3, half, half);
        Tensor::cat(
            vec![
                first.clone() * cos.clone() - second.clone() * sin.clone(),
                first * sin + second * cos,
            ],
            3,
        )
    }

    /// The learned bias of every query to every key, from the table `[2k + 1, H]`: `[1, H, Q, K]`.
    /// Only relative positions have one.
    pub(crate) fn bias(&self, table: Tensor<2>, n_queries: usize) -> Option<Tensor<4>> {
        let Self::Relative(rows) = self else { return None };
        let [count] = rows.dims();
        let [_, n_heads] = table.dims();
        let n_keys = count / n_queries.max(1);
        let bias_qkh = table.select(0, rows.clone()).reshape([n_queries, n_keys, n_heads]);
        Some(bias_qkh.permute([2, 0, 1]).unsqueeze())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Tolerance;

    /// d_model 4: the wavelengths are 2π and 2π · 100.
    #[test]
    fn sinusoids_are_the_papers() {
        let table = sinusoids(2, 4, &Device::flex());
        let expected = TensorData::from([
            [0.0_f64, 1.0, 0.0, 1.0],
            [1.0_f64.sin(), 1.0_f64.cos(), 0.01_f64.sin(), 0.01_f64.cos()],
        ]);
        table.into_data().assert_approx_eq::<f32>(&expected.convert::<f32>(), Tolerance::default());
    }

    #[test]
    fn an_offset_is_a_later_part_of_the_same_table() {
        let device = Device::flex();
        for positions in [Positions::Sinusoidal, Positions::Learned] {
            let config =
                ModelConfig { d_model: 6, max_len: 9, positions, ..ModelConfig::default() };
            let encoding = PositionalEncoding::new(&config, &device);
            let whole = encoding.rows(0, 9).unwrap();
            let part = encoding.rows(5, 2).unwrap();
            part.into_data().assert_eq(&whole.narrow(0, 5, 2).into_data(), true);
        }
    }

    /// Moving both tokens by the same number of places changes no product.
    #[test]
    fn rotated_products_depend_on_the_distance_alone() {
        let device = Device::flex();
        let q = Tensor::<4>::from_data([[[[0.3, -1.2, 0.7, 0.4]]]], &device);
        let k = Tensor::<4>::from_data([[[[1.1, 0.2, -0.5, 0.9]]]], &device);
        let rotate = |x: &Tensor<4>, position| {
            PositionTables::new(Positions::Rotary, 4, position, 1, x).rotate(x.clone())
        };
        let product = |q_place, k_place| {
            (rotate(&q, q_place) * rotate(&k, k_place)).sum().into_scalar::<f32>()
        };
        assert!((product(7, 3) - product(104, 100)).abs() < 1e-5);
        assert!((product(7, 3) - product(7, 4)).abs() > 1e-2);
        // Place 0 turns nothing: 0.33 - 0.24 - 0.35 + 0.36.
        assert!((product(0, 0) - 0.1).abs() < 1e-6);
    }
}
