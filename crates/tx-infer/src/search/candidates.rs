//! The best continuations of each sentence's hypotheses.

use super::decoder::Next;

/// Continuation of a hypothesis by one token.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Candidate {
    /// Index of the hypothesis of the sentence.
    pub beam: usize,
    /// The token.
    pub token: u32,
    /// Log-probability of the hypothesis with the token.
    pub log_probability: f32,
}

/// Returns the `count` best continuations of one sentence's hypotheses, best first; fewer if fewer
/// are possible. On a tie, that of the earlier hypothesis comes first.
///
/// `next` has, for each hypothesis, its log-probability so far and its `count` likeliest next
/// tokens, best first: no other can be among the best of the sentence.
pub(super) fn best<'a>(
    next: impl Iterator<Item = (f32, &'a [Next])>,
    count: usize,
) -> Vec<Candidate> {
    let mut candidates: Vec<Candidate> = next
        .enumerate()
        .flat_map(|(beam, (so_far, next))| {
            next.iter().map(move |&(token, log_probability)| Candidate {
                beam,
                token,
                log_probability: so_far + log_probability,
            })
        })
        .collect();
    candidates.sort_by(|a, b| b.log_probability.total_cmp(&a.log_probability));
    candidates.truncate(count);
    candidates
}

/// Reorders `candidates` by log-probability less `strength` for each occurrence of the token in
/// `taken` (Vijayakumar et al. 2016, equation 4, with the Hamming distance). Log-probabilities do
/// not change.
pub(super) fn apply_diversity_penalty(candidates: &mut [Candidate], taken: &[u32], strength: f32) {
    let rank = |candidate: &Candidate| {
        let times = taken.iter().filter(|&&token| token == candidate.token).count();
        candidate.log_probability - strength * times as f32
    };
    candidates.sort_by(|a, b| rank(b).total_cmp(&rank(a)));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two hypotheses with log-probabilities -1 and -2:
    ///
    /// ```text
    /// beam 0   -1 + (-0.5, -3)     = -1.5, -4
    /// beam 1   -2 + (-0.5, -1, -2) = -2.5, -3, -4
    /// ```
    #[test]
    fn the_best_come_first_and_ties_go_to_the_earlier() {
        let next: [(f32, &[Next]); 2] =
            [(-1.0, &[(1, -0.5), (0, -3.0)]), (-2.0, &[(0, -0.5), (2, -1.0), (1, -2.0)])];
        let candidate = |beam, token, log_probability| Candidate { beam, token, log_probability };
        let all = [
            candidate(0, 1, -1.5),
            candidate(1, 0, -2.5),
            candidate(1, 2, -3.0),
            candidate(0, 0, -4.0),
            candidate(1, 1, -4.0),
        ];
        assert_eq!(best(next.into_iter(), 9), all);
        assert_eq!(best(next.into_iter(), 4), all[..4]);
    }

    /// Token 1 was taken twice and token 2 once: -1.5 - 2 · 0.75 = -3 and -2.6 - 0.75 = -3.35.
    #[test]
    fn tokens_of_other_groups_rank_lower() {
        let candidate = |token, log_probability| Candidate { beam: 0, token, log_probability };
        let mut found = [candidate(1, -1.5), candidate(2, -2.6), candidate(3, -3.1)];
        apply_diversity_penalty(&mut found, &[1, 2, 1], 0.75);
        assert_eq!(found, [candidate(1, -1.5), candidate(3, -3.1), candidate(2, -2.6)]);
        apply_diversity_penalty(&mut found, &[], 0.75);
        assert_eq!(found, [candidate(1, -1.5), candidate(2, -2.6), candidate(3, -3.1)]);
    }
}
