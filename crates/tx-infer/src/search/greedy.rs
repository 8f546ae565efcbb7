//! The likeliest token at each step.

use burn::tensor::Tensor;
use tx_data::special::{BOS, EOS};

use super::{Hypothesis, Job, candidates::read};

/// A target under way.
struct Row {
    /// Which sentence of the batch.
    sentence: usize,
    ids: Vec<u32>,
    log_probability: f32,
}

pub(super) fn search(job: Job<'_>) -> Vec<Vec<Hypothesis>> {
    let mut cache = job.model.start_decoding(job.memory.clone(), job.blocked.clone());
    let mut rows: Vec<Row> = (0..job.limits.len())
        .map(|sentence| Row { sentence, ids: Vec::new(), log_probability: 0.0 })
        .collect();
    let mut found: Vec<Vec<Hypothesis>> = vec![Vec::new(); rows.len()];
    let mut tokens = vec![BOS; rows.len()];

    while !rows.is_empty() {
        let (best, index) = job.step(&tokens, &mut cache).max_dim_with_indices(1);
        // Both in one read: ids are exact in f32 up to 2^24.
        let best = read(Tensor::cat(vec![best, index.float()], 1));
        let mut stay = Vec::new();
        tokens.clear();
        for (index, (row, best)) in rows.iter_mut().zip(best.chunks_exact(2)).enumerate() {
            let token = best[1] as u32;
            row.ids.push(token);
            row.log_probability += best[0];
            if token == EOS || row.ids.len() == job.limits[row.sentence] {
                let ids = std::mem::take(&mut row.ids);
                found[row.sentence].push(Hypothesis::new(ids, row.log_probability, job.options));
            } else {
                stay.push(index as u32);
                tokens.push(token);
            }
        }
        if stay.len() < rows.len() && !stay.is_empty() {
            cache = cache.select(&job.indices(&stay));
        }
        // Finished rows had their ids taken.
        rows.retain(|row| !row.ids.is_empty());
    }
    found
}
