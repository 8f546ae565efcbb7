//! Selection of the best scores of a row.

/// Best `count` tokens among those offered, best first; on a tie, the one offered first.
#[derive(Debug)]
pub struct TopK {
    count: usize,
    best: Vec<(u32, f32)>,
}

impl TopK {
    /// Creates an empty list for the best `count` tokens.
    pub fn new(count: usize) -> Self {
        Self { count, best: Vec::new() }
    }

    /// Returns the score that a token must exceed to be listed. Minus infinity is never listed.
    #[inline(always)]
    pub fn threshold(&self) -> f32 {
        if self.best.len() < self.count {
            return f32::NEG_INFINITY;
        }
        self.best.last().map_or(f32::INFINITY, |(_, score)| *score)
    }

    /// Lists a token if its score exceeds the [`threshold`](Self::threshold).
    #[inline(always)]
    pub fn offer(&mut self, token: u32, score: f32) {
        if score > self.threshold() {
            let rank = self.best.partition_point(|(_, other)| *other >= score);
            self.best.truncate(self.count - 1);
            self.best.insert(rank, (token, score));
        }
    }

    /// Returns the listed tokens with their scores, best first.
    pub fn into_vec(self) -> Vec<(u32, f32)> {
        self.best
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_come_first_and_ties_go_to_the_earlier() {
        let scores = [-3.0, -0.5, f32::NEG_INFINITY, -2.0, -0.5, -3.0];
        let best = |count| {
            let mut best = TopK::new(count);
            (0..).zip(scores).for_each(|(token, score)| best.offer(token, score));
            best.into_vec()
        };
        let all = [(1, -0.5), (4, -0.5), (3, -2.0), (0, -3.0), (5, -3.0)];
        assert_eq!(best(9), all);
        assert_eq!(best(4), all[..4]);
        assert_eq!(best(0), []);
    }
}
