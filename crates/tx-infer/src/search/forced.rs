//! Forced decoding: the probability of given targets.

use tx_text::special::BOS;

use super::{decoder::Decoder, scores::log_softmax};
use crate::{cancellation::Cancellation, error::InferError};

/// The log-probability of each token of each target, given the source of its row and the tokens
/// before it. Targets have no `<bos>`.
pub(super) fn log_probabilities(
    mut decoder: Box<dyn Decoder + '_>,
    targets: &[&[u32]],
    cancellation: &Cancellation,
) -> Result<Vec<Vec<f32>>, InferError> {
    let mut found: Vec<Vec<f32>> = targets.iter().map(|_| Vec::new()).collect();
    // Targets that are not over, by number.
    let mut left: Vec<usize> = (0..targets.len()).collect();
    let mut tokens = vec![BOS; targets.len()];
    for place in 0.. {
        let going: Vec<usize> =
            (0..left.len()).filter(|&row| targets[left[row]].len() > place).collect();
        if going.is_empty() {
            break;
        }
        if going.len() < left.len() {
            decoder.select(&going);
            tokens = going.iter().map(|&row| tokens[row]).collect();
            left = going.iter().map(|&row| left[row]).collect();
        }
        if cancellation.is_cancelled() {
            return Err(InferError::Cancelled);
        }
        let mut scores = decoder.logits(&tokens);
        let width = (scores.len() / tokens.len().max(1)).max(1);
        tokens.clear();
        for (&target, scores) in left.iter().zip(scores.chunks_exact_mut(width)) {
            let token = targets[target][place];
            log_softmax(scores);
            let log_probability = scores[token as usize];
            if !log_probability.is_finite() {
                return Err(InferError::NotFinite { line: target as u64 + 1 });
            }
            found[target].push(log_probability);
            tokens.push(token);
        }
    }
    Ok(found)
}
