//! The likeliest token at each step.

use tx_data::special::{BOS, EOS};

use super::{Hypothesis, engine::Job};

/// A target under way.
struct Row {
    /// Which sentence of the batch.
    sentence: usize,
    ids: Vec<u32>,
    log_probability: f32,
}

pub(super) fn search(mut job: Job<'_>) -> Vec<Vec<Hypothesis>> {
    let mut rows: Vec<Row> = (0..job.limits.len())
        .map(|sentence| Row { sentence, ids: Vec::new(), log_probability: 0.0 })
        .collect();
    let mut found: Vec<Vec<Hypothesis>> = vec![Vec::new(); rows.len()];
    let mut tokens = vec![BOS; rows.len()];

    for len in 0.. {
        let best = job.decoder.step(&tokens, job.options.never(len), 1);
        let (before, mut kept) = (rows.len(), Vec::new());
        let mut left = Vec::with_capacity(before);
        tokens.clear();
        for (index, (mut row, best)) in rows.into_iter().zip(best).enumerate() {
            let next = best.first().copied();
            if let Some((token, log_probability)) = next {
                row.ids.push(token);
                row.log_probability += log_probability;
            }
            match next {
                Some((token, _)) if token != EOS && row.ids.len() < job.limits[row.sentence] => {
                    kept.push(index);
                    tokens.push(token);
                    left.push(row);
                }
                // At its end, at its limit, or nothing can be said any more.
                _ => {
                    let Row { sentence, ids, log_probability } = row;
                    found[sentence].push(Hypothesis::new(ids, log_probability, job.options));
                }
            }
        }
        rows = left;
        if rows.is_empty() {
            break;
        }
        if rows.len() < before {
            job.decoder.select(&kept);
        }
    }
    found
}
