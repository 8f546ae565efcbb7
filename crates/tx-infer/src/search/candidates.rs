//! The best continuations of each sentence's hypotheses.

use burn::tensor::{Device, Tensor};

/// One more token for one hypothesis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Candidate {
    /// Which hypothesis of the sentence, from 0.
    pub beam: usize,
    /// The token.
    pub token: u32,
    /// Log-probability of the hypothesis with the token.
    pub log_probability: f32,
}

/// For each sentence, the `count` best continuations of its `beam` hypotheses, best first; fewer
/// where there are fewer possible ones.
///
/// # Shapes
///
/// - `log_probs`: `[sentences · beam, V]`
/// - `scores`: one per row: the log-probability of the hypothesis so far
pub(super) fn best(
    log_probs: Tensor<2>,
    scores: &[f32],
    beam: usize,
    count: usize,
) -> Vec<Vec<Candidate>> {
    let [_, vocabulary] = log_probs.dims();
    if in_host_memory(&log_probs.device()) {
        let log_probs = read(log_probs);
        return log_probs
            .chunks_exact(beam * vocabulary)
            .zip(scores.chunks_exact(beam))
            .map(|(log_probs, scores)| best_of_slice(log_probs, scores, count))
            .collect();
    }
    let rows = scores.len();
    let device = log_probs.device();
    let scores = Tensor::<1>::from_floats(scores, &device).reshape([rows, 1]);
    let total = (log_probs + scores).reshape([rows / beam, beam * vocabulary]);
    let count = count.min(beam * vocabulary);
    let (values, indices) = total.topk_with_indices(count, 1);
    let values = read(values);
    let indices = indices.into_data().iter::<u32>().collect::<Vec<_>>();
    values
        .chunks_exact(count)
        .zip(indices.chunks_exact(count))
        .map(|(values, indices)| {
            values
                .iter()
                .zip(indices)
                .filter(|(value, _)| value.is_finite())
                .map(|(&log_probability, &index)| Candidate {
                    beam: index as usize / vocabulary,
                    token: index % vocabulary as u32,
                    log_probability,
                })
                .collect()
        })
        .collect()
}

/// One pass over the slice; among equals the first wins, as in `argmax`.
fn best_of_slice(log_probs: &[f32], scores: &[f32], count: usize) -> Vec<Candidate> {
    let vocabulary = log_probs.len() / scores.len();
    let mut best: Vec<Candidate> = Vec::with_capacity(count + 1);
    // What a candidate must beat once the list is full. Impossible ones are never listed.
    let mut bar = f32::NEG_INFINITY;
    for (beam, (row, score)) in log_probs.chunks_exact(vocabulary).zip(scores).enumerate() {
        for (token, log_prob) in row.iter().enumerate() {
            let log_probability = score + log_prob;
            if log_probability > bar {
                let place = best.partition_point(|c| c.log_probability >= log_probability);
                best.insert(place, Candidate { beam, token: token as u32, log_probability });
                best.truncate(count);
                if best.len() == count {
                    bar = best[count - 1].log_probability;
                }
            }
        }
    }
    best
}

/// All values, row by row.
pub(super) fn read(tensor: Tensor<2>) -> Vec<f32> {
    tensor.into_data().iter::<f32>().collect()
}

/// Whether reading a tensor is a copy in memory, not a trip to another device. Burn's CPU backends
/// keep no memory pool.
fn in_host_memory(device: &Device) -> bool {
    device.memory_pool_usage().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two hypotheses with scores -1 and -2 over three tokens:
    ///
    /// ```text
    /// beam 0   -1 + (-3, -0.5, -∞) = -4, -1.5, -∞
    /// beam 1   -2 + (-0.5, -2, -1) = -2.5, -4, -3
    /// ```
    #[test]
    fn the_best_come_first_and_ties_go_to_the_earlier() {
        let log_probs = [-3.0, -0.5, f32::NEG_INFINITY, -0.5, -2.0, -1.0];
        let candidate = |beam, token, log_probability| Candidate { beam, token, log_probability };
        let all = [
            candidate(0, 1, -1.5),
            candidate(1, 0, -2.5),
            candidate(1, 2, -3.0),
            candidate(0, 0, -4.0),
            candidate(1, 1, -4.0),
        ];
        assert_eq!(best_of_slice(&log_probs, &[-1.0, -2.0], 9), all);
        assert_eq!(best_of_slice(&log_probs, &[-1.0, -2.0], 4), all[..4]);

        let tensor = Tensor::<1>::from_floats(&log_probs[..], &Device::flex()).reshape([2, 3]);
        assert_eq!(best(tensor, &[-1.0, -2.0], 2, 4), [all[..4].to_vec()]);
    }
}
