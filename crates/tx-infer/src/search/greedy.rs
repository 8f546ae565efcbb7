//! One token at a time for each row, never looking back: the likeliest, or one that is drawn.

use tx_text::special::{BOS, EOS};

use super::{
    Hypothesis,
    hypothesis::Partial,
    job::{Job, Row},
    sample,
};
use crate::error::InferError;

/// A target under way.
struct Single {
    /// Which sentence of the batch.
    sentence: usize,
    /// Which sample of the sentence.
    sample: usize,
    partial: Partial,
}

pub(super) fn search(mut job: Job<'_>) -> Result<Vec<Vec<Hypothesis>>, InferError> {
    let samples = job.options.sampling.map_or(1, |sampling| sampling.samples);
    job.repeat(samples);
    let mut rows: Vec<Single> = (0..job.sentences.len() * samples)
        .map(|row| Single {
            sentence: row / samples,
            sample: row % samples,
            partial: Partial::default(),
        })
        .collect();
    let mut found: Vec<Vec<Option<Hypothesis>>> = vec![vec![None; samples]; job.sentences.len()];
    let mut tokens = vec![BOS; rows.len()];

    for len in 0.. {
        let row = |row: usize| {
            let Single { sentence, partial, .. } = &rows[row];
            Row { sentence: *sentence, ids: &partial.ids }
        };
        let best = match job.options.sampling {
            None => {
                let best = job.next(&tokens, len, 1, row)?;
                best.into_iter().map(|best| best.first().copied()).collect()
            }
            Some(sampling) => {
                let streams = rows.iter().map(|row| {
                    let number = job.sentences[row.sentence].number;
                    sample::Stream { number, sample: row.sample as u64 }
                });
                let streams: Vec<_> = streams.collect();
                sample::next(&mut job, &sampling, &streams, &tokens, len, row)?
            }
        };
        let (before, mut kept) = (rows.len(), Vec::new());
        let mut left = Vec::with_capacity(before);
        tokens.clear();
        for (index, (row, next)) in rows.into_iter().zip(best).enumerate() {
            let Single { sentence, sample, mut partial } = row;
            if let Some((token, log_probability)) = next {
                let log_probability = partial.log_probability + log_probability;
                partial.push(token, log_probability, job.decoder.attention(index));
            }
            match next {
                Some((token, _))
                    if token != EOS && partial.ids.len() < job.sentences[sentence].limit =>
                {
                    kept.push(index);
                    tokens.push(token);
                    left.push(Single { sentence, sample, partial });
                }
                // At its end, at its limit, or nothing can be said any more.
                _ => found[sentence][sample] = Some(partial.finish(job.options)),
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
    Ok(found.into_iter().map(|found| found.into_iter().flatten().collect()).collect())
}
