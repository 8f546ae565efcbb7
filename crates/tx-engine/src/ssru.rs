//! Simpler simple recurrent unit in its residual connection, for one more token of each text.

use tx_kernels::vector::{exp, vectorized};

use crate::{
    Sublayer, history::History, linear::Linear, residual::PackedResidual, scratch::Scratch,
    source::Packer,
};

/// Recurrent unit in place of the decoder's self-attention, as `Ssru` on tensors.
#[derive(Debug, Clone)]
pub(crate) struct PackedSsru {
    /// `W` and `W_f` side by side, `[d_model, 2 d_model]`, with `b_f`.
    candidate_and_gate: Linear,
    residual: PackedResidual,
}

impl PackedSsru {
    /// Packs the unit of the layer at path `layer`.
    pub(crate) fn pack(packer: &Packer<'_>, layer: &str) -> Self {
        let d_model = packer.config.d_model;
        let [candidate, gate] = ["candidate", "gate"].map(|part| format!("{layer}.ssru.{part}"));
        let mut bias = vec![0.0; d_model];
        bias.extend_from_slice(&packer.weight(&format!("{gate}.bias")));
        let names = [format!("{candidate}.weight"), format!("{gate}.weight")];
        Self {
            candidate_and_gate: packer.matrix(d_model, &[&names[0], &names[1]], bias, 1.0),
            residual: PackedResidual::pack(packer, &format!("{layer}.ssru_residual")),
        }
    }

    /// Advances every row by its newest token.
    ///
    /// # Shapes
    ///
    /// - `x`: `[rows, d_model]`; replaced by the result
    /// - `past`: `[slots in use before this step, d_model]`: states after each token of each row, to
    ///   which those after the newest tokens are appended
    /// - `history`: the slots of each row, the newest included
    pub(crate) fn step(
        &self,
        x: &mut [f32],
        past: &mut Vec<f32>,
        history: &History,
        scratch: &mut Scratch,
    ) {
        let Scratch { normalized, hidden, output, probe, .. } = scratch;
        let d_model = self.candidate_and_gate.inputs();
        let y = self.residual.enter(Sublayer::Ssru, x, normalized, probe);
        output.resize(2 * y.len(), 0.0);
        self.candidate_and_gate.product_of(y, output);

        let before = past.len();
        past.resize(before + y.len(), 0.0);
        let (earlier, newest) = past.split_at_mut(before);
        let rows = newest.chunks_exact_mut(d_model).zip(output.chunks_exact(2 * d_model));
        for ((states, parts), slots) in rows.zip(history.rows()) {
            let (candidates, gates) = parts.split_at(d_model);
            states.copy_from_slice(candidates);
            let previous = slots.len().checked_sub(2).and_then(|last| slots.get(last));
            let previous = previous.map(|&slot| &earlier[slot as usize * d_model..][..d_model]);
            vectorized(
                #[inline(always)]
                || advance(states, gates, previous),
            );
        }
        hidden.values.clear();
        hidden.values.extend(newest.iter().map(|state| state.max(0.0)));
        self.residual.add(x, &mut hidden.values, probe);
    }
}

/// Replaces candidates by states: `f ⊙ previous + (1 - f) ⊙ candidate` with `f = σ(gate)`; the state
/// before the first token is 0.
#[inline(always)]
fn advance(states: &mut [f32], gates: &[f32], previous: Option<&[f32]>) {
    match previous {
        Some(previous) => {
            for ((state, gate), previous) in states.iter_mut().zip(gates).zip(previous) {
                *state += (previous - *state) / (1.0 + exp(-gate));
            }
        }
        None => {
            for (state, gate) in states.iter_mut().zip(gates) {
                *state -= *state / (1.0 + exp(-gate));
            }
        }
    }
}
