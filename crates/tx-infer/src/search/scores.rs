//! Constraints and selection on the scores of all next tokens of one hypothesis.

use tx_kernels::top_k::TopK;

use super::decoder::Next;

/// Sets the scores of tokens to minus infinity; ids beyond the vocabulary are ignored.
pub(super) fn suppress<'a>(x: &mut [f32], tokens: impl IntoIterator<Item = &'a u32>) {
    for &token in tokens {
        if let Some(x) = x.get_mut(token as usize) {
            *x = f32::NEG_INFINITY;
        }
    }
}

/// Makes the tokens of `ids` less likely: divides scores above 0 by `penalty` and multiplies those
/// below (Keskar et al. 2019, section 4.1, with the distinction by sign of other implementations).
pub(super) fn penalize(x: &mut [f32], ids: &[u32], penalty: f32) {
    for (position, id) in ids.iter().enumerate() {
        // Each token is penalized once, no matter how often it was generated.
        if !ids[..position].contains(id)
            && let Some(x) = x.get_mut(*id as usize)
        {
            *x = if *x < 0.0 { *x * penalty } else { *x / penalty };
        }
    }
}

/// Returns the tokens that would complete an n-gram that `ids` already has.
pub(super) fn repeating(ids: &[u32], n: usize) -> Vec<u32> {
    let Some(start) = (ids.len() + 1).checked_sub(n).filter(|_| n > 0) else { return Vec::new() };
    let begun = &ids[start..];
    let sequences = ids.windows(n).filter(|window| window.starts_with(begun));
    sequences.filter_map(|window| window.last().copied()).collect()
}

/// Returns the tokens that would repeat a sequence at the end of `ids` more than `max_repeats`
/// times in a row; 0 allows every repetition.
pub(super) fn looping(ids: &[u32], max_repeats: usize) -> impl Iterator<Item = u32> {
    let longest = if max_repeats == 0 { 0 } else { (ids.len() + 1) / (max_repeats + 1) };
    (1..=longest).filter_map(move |unit| {
        // The token and the `unit * (max_repeats + 1) - 1` before it would be the same `unit`
        // tokens.
        let start = ids.len() + 1 - unit * (max_repeats + 1);
        let mut positions = (start + unit..ids.len()).rev();
        let repeats = positions.all(|position| ids[position] == ids[position - unit]);
        repeats.then(|| ids[ids.len() - unit])
    })
}

/// Returns the largest number of times in a row that a sequence occurs in `ids`.
pub(super) fn longest_run(ids: &[u32]) -> usize {
    let mut longest = 1;
    for unit in 1..=ids.len() / 2 {
        let mut same = 0;
        for position in unit..ids.len() {
            same = if ids[position] == ids[position - unit] { same + 1 } else { 0 };
            longest = longest.max(same / unit + 1);
        }
    }
    longest
}

/// Returns the best `count` tokens of a row, best first; on a tie the first wins, as in `argmax`.
pub(super) fn best_of_row(log_probs: &[f32], count: usize) -> Vec<Next> {
    let mut best = TopK::new(count);
    for (token, &log_prob) in (0..).zip(log_probs) {
        best.offer(token, log_prob);
    }
    best.into_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_tokens_are_penalized_once() {
        let mut x = [4.0, -3.0, 1.0, 0.5];
        penalize(&mut x, &[0, 1, 0, 9], 2.0);
        assert_eq!(x, [2.0, -6.0, 1.0, 0.5]);
    }

    /// After `1 2 3 1 2`, token 3 would repeat the trigram `1 2 3` and the bigram `2 3`.
    #[test]
    fn n_grams_are_not_repeated() {
        let ids = [1, 2, 3, 1, 2];
        assert_eq!(repeating(&ids, 3), [3]);
        assert_eq!(repeating(&ids, 2), [3]);
        assert_eq!(repeating(&ids, 1), ids);
        assert_eq!(repeating(&ids, 4), [0; 0]);
        assert_eq!(repeating(&ids, 6), [0; 0]);
        assert_eq!(repeating(&ids, 9), [0; 0]);
        assert_eq!(repeating(&[], 1), [0; 0]);
        assert_eq!(repeating(&ids, 0), [0; 0]);
        // A pair may overlap itself.
        assert_eq!(repeating(&[5, 5], 2), [5]);
    }

    /// With at most two repetitions: a third `7`, a third `5 6`, and both at once.
    #[test]
    fn sequences_repeat_a_limited_number_of_times_in_a_row() {
        let next = |ids: &[u32], max| looping(ids, max).collect::<Vec<_>>();
        assert_eq!(next(&[4, 7, 7], 2), [7]);
        assert_eq!(next(&[4, 7], 2), [0; 0]);
        assert_eq!(next(&[7, 7, 4, 7], 2), [0; 0]);
        assert_eq!(next(&[5, 6, 5, 6, 5], 2), [6]);
        assert_eq!(next(&[9, 5, 6, 5, 6], 2), [0; 0]);
        assert_eq!(next(&[7, 7, 7, 7, 7], 2), [7, 7]);
        assert_eq!(next(&[7], 1), [7]);
        assert_eq!(next(&[7; 9], 0), [0; 0]);
        assert_eq!(next(&[], 1), [0; 0]);
    }

    #[test]
    fn runs_are_counted_in_repetitions() {
        for (ids, expected) in [
            (&[][..], 1),
            (&[5], 1),
            (&[5, 6, 7], 1),
            (&[5, 5, 7], 2),
            (&[1, 5, 6, 5, 6, 5, 6, 5, 2], 3),
            (&[5, 5, 6, 5, 5, 6], 2),
            (&[9, 0, 0, 0, 0, 0, 0, 2], 6),
        ] {
            assert_eq!(longest_run(ids), expected, "{ids:?}");
        }
    }

    #[test]
    fn the_best_come_first_and_ties_go_to_the_earlier() {
        let log_probs = [-3.0, -0.5, f32::NEG_INFINITY, -2.0, -0.5, -3.0];
        let all = [(1, -0.5), (4, -0.5), (3, -2.0), (0, -3.0), (5, -3.0)];
        assert_eq!(best_of_row(&log_probs, 9), all);
        assert_eq!(best_of_row(&log_probs, 4), all[..4]);
    }
}
