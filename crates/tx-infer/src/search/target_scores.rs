//! Forced decoding: the probability of given targets.

use tx_kernels::formulas::log_softmax;

use super::decoder::IncrementalDecoder;
use crate::{cancellation::Cancellation, error::InferError};

/// Returns the log-probability of each token of each target, given the source of its row and the tokens
/// before it. The decoder reads `start` before each target.
pub(super) fn log_probabilities(
    mut decoder: Box<dyn IncrementalDecoder + '_>,
    start: u32,
    targets: &[&[u32]],
    cancellation: &Cancellation,
) -> Result<Vec<Vec<f32>>, InferError> {
    let mut found: Vec<Vec<f32>> = targets.iter().map(|_| Vec::new()).collect();
    // Index of the target of each row.
    let mut rows: Vec<usize> = (0..targets.len()).collect();
    let mut tokens = vec![start; targets.len()];
    for position in 0.. {
        let live: Vec<usize> =
            (0..rows.len()).filter(|&row| targets[rows[row]].len() > position).collect();
        if live.is_empty() {
            break;
        }
        if live.len() < rows.len() {
            decoder.select(&live);
            tokens = live.iter().map(|&row| tokens[row]).collect();
            rows = live.iter().map(|&row| rows[row]).collect();
        }
        if cancellation.is_cancelled() {
            return Err(InferError::Cancelled);
        }
        let mut scores = decoder.logits(&tokens);
        let width = (scores.len() / tokens.len().max(1)).max(1);
        tokens.clear();
        for (&target, scores) in rows.iter().zip(scores.chunks_exact_mut(width)) {
            let token = targets[target][position];
            log_softmax(scores);
            let log_probability = scores[token as usize];
            if !log_probability.is_finite() {
                return Err(decoder.not_finite(target as u64 + 1));
            }
            found[target].push(log_probability);
            tokens.push(token);
        }
    }
    Ok(found)
}
