//! Recognition of tables of positions that are sinusoids.

use tx_model::{ModelConfig, SinusoidFormula, SinusoidLayout, Sinusoids};

use crate::tensors::Tensors;

/// Sinusoids that all tables `[max_len, d_model]` have, to the precision of their type.
pub(super) fn sinusoids_of(
    tensors: &Tensors,
    config: &ModelConfig,
    names: &[String],
) -> Option<Sinusoids> {
    let mut candidates = Vec::new();
    for layout in [SinusoidLayout::Halves, SinusoidLayout::Interleaved] {
        for formula in [SinusoidFormula::Paper, SinusoidFormula::Tensor2tensor] {
            candidates.extend((0..=2).map(|first| Sinusoids { layout, formula, first }));
        }
    }
    let tables: Vec<_> = names
        .iter()
        .filter_map(|name| {
            let table = tensors.get(name)?;
            Some((table.values().ok()?, table.element))
        })
        .collect();
    candidates.retain(|&sinusoids| {
        let expected = ModelConfig { sinusoids, ..config.clone() }.sinusoid_table();
        tables.iter().all(|(values, element)| {
            let rows = expected.chunks_exact(config.d_model.max(1)).zip(0..);
            let expected =
                rows.flat_map(|(row, position)| row.iter().map(move |&it| (it, position)));
            // Angles at position p have an error of p · 2⁻²³ in single precision.
            let close = |(&value, (expected, position)): (&f32, (f32, usize))| {
                let tolerance = element.tolerance(expected) + position as f32 * 1e-6 + 1e-6;
                (value - expected).abs() <= tolerance
            };
            values.len() == config.max_len * config.d_model
                && values.iter().zip(expected).all(close)
        })
    });
    candidates.first().copied().filter(|_| tables.len() == names.len())
}
