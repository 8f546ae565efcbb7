//! Formulas of the positional encodings (section 3.5 of the paper and later ones), without tensors.

use crate::config::{ModelConfig, SinusoidFormula, SinusoidLayout, Sinusoids};

/// The longest wavelength of the sinusoids is `2π` times this (section 3.5).
const WAVELENGTH_BASE: f64 = 10_000.0;

/// Distances beyond this share one bias of relative positions (`k` of Shaw et al. 2018, section
/// 3.2).
pub const MAX_RELATIVE_DISTANCE: usize = 16;

/// Rows of the table of relative biases: one for each clipped distance.
pub(crate) const RELATIVE_DISTANCES: usize = 2 * MAX_RELATIVE_DISTANCE + 1;

/// Sinusoidal positional encodings: for the wavelength `2π w` of each pair of features, the sine
/// and the cosine of `position / w`. They are computed in double precision.
///
/// # Shapes
///
/// - returns `[max_len, d_model]`, row `i` for position `first + i`; `d_model` is even
pub fn sinusoids(max_len: usize, d_model: usize, variant: Sinusoids) -> Vec<f32> {
    let Sinusoids { layout, formula, first } = variant;
    let pairs = d_model / 2;
    let wavelengths: Vec<f64> = (0..pairs)
        .map(|pair| match formula {
            SinusoidFormula::Paper => wavelength(pair, d_model),
            SinusoidFormula::Tensor2tensor => {
                WAVELENGTH_BASE.powf(pair as f64 / (pairs as f64 - 1.0))
            }
        })
        .collect();
    let mut table = Vec::with_capacity(max_len * d_model);
    for position in first..first + max_len {
        let angles = wavelengths.iter().map(|wavelength| position as f64 / wavelength);
        match layout {
            SinusoidLayout::Interleaved => {
                let pairs = angles.map(f64::sin_cos);
                table.extend(pairs.flat_map(|(sine, cosine)| [sine as f32, cosine as f32]));
            }
            SinusoidLayout::Halves => {
                table.extend(angles.clone().map(|angle| angle.sin() as f32));
                table.extend(angles.map(|angle| angle.cos() as f32));
            }
        }
    }
    table
}

impl ModelConfig {
    /// Sinusoidal positional encodings of this configuration, which must have been
    /// [checked](Self::check); other positional encodings do not use them.
    ///
    /// # Shapes
    ///
    /// - returns `[max_len, d_model]`
    pub fn sinusoid_table(&self) -> Vec<f32> {
        sinusoids(self.max_len, self.d_model, self.sinusoids)
    }
}

/// Wavelengths of rotary positions (Su et al. 2021), divided by 2π: `10000^(2 i / d_head)` for pair `i`
/// of the features of a head. A position rotates the pair by `position / wavelength` radians.
pub fn rotary_wavelengths(d_head: usize) -> Vec<f64> {
    (0..d_head / 2).map(|pair| wavelength(pair, d_head)).collect()
}

/// Slopes of ALiBi (Press et al. 2022, section 3), one for each head: `2^(−8 i / n)` for `i` in `1..=n`.
/// If `n` is no power of two, the slopes of the next lower power come first, then every other
/// one of the next higher power, as in the authors' code.
pub fn alibi_slopes(n_heads: usize) -> Vec<f32> {
    let slopes = |heads: usize| {
        (1..=heads).map(move |head| (-8.0 * head as f64 / heads as f64).exp2() as f32)
    };
    let higher = n_heads.next_power_of_two();
    match higher == n_heads {
        true => slopes(n_heads).collect(),
        false => slopes(higher / 2).chain(slopes(higher).step_by(2)).take(n_heads).collect(),
    }
}

/// Row of the table of relative biases for a query and a key at these positions.
pub fn relative_row(query: usize, key: usize) -> usize {
    let furthest = MAX_RELATIVE_DISTANCE as i64;
    let distance = key as i64 - query as i64;
    (distance.clamp(-furthest, furthest) + furthest) as usize
}

/// Wavelength of a feature pair, divided by 2π: positions until its angle grows by one radian.
fn wavelength(pair: usize, features: usize) -> f64 {
    WAVELENGTH_BASE.powf(2.0 * pair as f64 / features as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For `d_model` 4 the wavelengths are 2π and 2π · 100.
    #[test]
    fn sinusoids_follow_the_paper() {
        let expected = [
            [0.0_f64, 1.0, 0.0, 1.0],
            [1.0_f64.sin(), 1.0_f64.cos(), 0.01_f64.sin(), 0.01_f64.cos()],
        ];
        for (found, expected) in
            sinusoids(2, 4, Sinusoids::default()).iter().zip(expected.as_flattened())
        {
            assert!((f64::from(*found) - expected).abs() < 1e-7, "{found} {expected}");
        }
    }

    /// By hand: 8 heads as in section 3 of the paper; of 6 heads, those of 4 and the first and third of
    /// 8.
    #[test]
    fn slopes_of_alibi() {
        let halves = |exponents: &[i32]| exponents.iter().map(|&it| 0.5_f32.powi(it)).collect();
        let cases: [(usize, Vec<f32>); 3] = [
            (1, halves(&[8])),
            (8, halves(&[1, 2, 3, 4, 5, 6, 7, 8])),
            (6, halves(&[2, 4, 6, 8, 1, 3])),
        ];
        for (heads, expected) in cases {
            assert_eq!(alibi_slopes(heads), expected);
        }
    }

    /// Both wavelengths of `d_model` 4 are 2π times a power of ten: 1 and 100 by the paper's
    /// formula, 1 and 10,000 by that of Tensor2Tensor.
    #[test]
    fn every_variant_by_hand() {
        for first in 0..=2 {
            for (formula, second) in
                [(SinusoidFormula::Paper, 1e2), (SinusoidFormula::Tensor2tensor, 1e4)]
            {
                for layout in [SinusoidLayout::Interleaved, SinusoidLayout::Halves] {
                    let variant = Sinusoids { layout, formula, first };
                    let table = sinusoids(3, 4, variant);
                    for (row, found) in table.chunks_exact(4).enumerate() {
                        let (short, long) = ((row + first) as f64, (row + first) as f64 / second);
                        let expected = match layout {
                            SinusoidLayout::Interleaved => {
                                [short.sin(), short.cos(), long.sin(), long.cos()]
                            }
                            SinusoidLayout::Halves => {
                                [short.sin(), long.sin(), short.cos(), long.cos()]
                            }
                        };
                        assert_eq!(table.len(), 12);
                        for (found, expected) in found.iter().zip(expected) {
                            let gap = (f64::from(*found) - expected).abs();
                            assert!(gap < 1e-7, "{variant:?}: {found} {expected}");
                        }
                    }
                }
            }
        }
    }

    /// `tests/fixtures/sinusoids.py` describes the tables.
    #[test]
    fn tables_are_those_of_other_programs() {
        #[derive(serde::Deserialize)]
        struct Reference {
            program: String,
            variant: Sinusoids,
            table: Vec<Vec<f32>>,
        }
        let references = include_str!("../tests/fixtures/sinusoids.json");
        let references: Vec<Reference> = serde_json::from_str(references).unwrap();
        assert_eq!(references.len(), 12);
        for Reference { program, variant, table } in references {
            let found = sinusoids(table.len(), table[0].len(), variant);
            assert_eq!(found.len(), table.concat().len());
            for (found, expected) in found.iter().zip(table.concat()) {
                assert!((found - expected).abs() < 1e-6, "{program}: {found} {expected}");
            }
        }
    }

    #[test]
    fn distances_beyond_the_limit_share_a_row() {
        assert_eq!(relative_row(5, 5), MAX_RELATIVE_DISTANCE);
        assert_eq!(relative_row(5, 4), MAX_RELATIVE_DISTANCE - 1);
        assert_eq!((relative_row(100, 0), relative_row(16, 0)), (0, 0));
        assert_eq!(relative_row(0, 100), RELATIVE_DISTANCES - 1);
    }
}
