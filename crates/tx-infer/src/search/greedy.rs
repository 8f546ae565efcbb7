//! Greedy search and sampling: one hypothesis a row, extended by the likeliest or a sampled token.

use tx_text::special::EOS;

use super::{
    Hypothesis,
    hypothesis::Partial,
    sample,
    state::{PartialTarget, SearchState},
};
use crate::error::InferError;

/// A live hypothesis.
struct Single {
    /// Index of the sentence in the batch.
    sentence: usize,
    /// Index of the sample of the sentence.
    sample: usize,
    partial: Partial,
}

/// Searches with one hypothesis per sentence, or per sample. After each token that is not part of a
/// prefix, `observe` gets the ids of its hypothesis so far.
pub(super) fn search(
    mut state: SearchState<'_>,
    observe: &mut dyn FnMut(&[u32]),
) -> Result<Vec<Vec<Hypothesis>>, InferError> {
    let samples = state.options.sampling.map_or(1, |sampling| sampling.samples);
    state.repeat(samples);
    let mut rows: Vec<Single> = (0..state.sentences.len() * samples)
        .map(|row| Single {
            sentence: row / samples,
            sample: row % samples,
            partial: Partial::default(),
        })
        .collect();
    let mut found: Vec<Vec<Option<Hypothesis>>> = vec![vec![None; samples]; state.sentences.len()];
    let mut tokens = vec![state.start; rows.len()];

    for len in 0.. {
        let target = |row: usize| {
            let Single { sentence, partial, .. } = &rows[row];
            PartialTarget { sentence: *sentence, partial }
        };
        let best = match state.options.sampling {
            None => {
                let mut scores = rows.iter().map(|row| row.partial.log_probability);
                state.decoder.expect(rows.len(), 1, &mut scores);
                let best = state.next(&tokens, len, 1, target)?;
                best.into_iter().map(|best| best.first().copied()).collect()
            }
            Some(sampling) => {
                let streams = rows.iter().map(|row| {
                    let number = state.sentences[row.sentence].number;
                    sample::Stream { number, sample: row.sample as u64 }
                });
                let streams: Vec<_> = streams.collect();
                sample::next(&mut state, &sampling, &streams, &tokens, len, target)?
            }
        };
        state.check_sentences();
        let (before, mut kept) = (rows.len(), Vec::new());
        let mut live = Vec::with_capacity(before);
        tokens.clear();
        for (index, (row, next)) in rows.into_iter().zip(best).enumerate() {
            let Single { sentence, sample, mut partial } = row;
            if state.sentences[sentence].is_cancelled {
                continue;
            }
            if let Some((token, log_probability)) = next {
                let log_probability = partial.log_probability + log_probability;
                partial.push(token, log_probability, state.decoder.attention(index));
                if len >= state.sentences[sentence].given_tokens() {
                    observe(&partial.ids);
                }
            }
            match next {
                Some((token, _))
                    if token != EOS && partial.ids.len() < state.sentences[sentence].max_len =>
                {
                    kept.push(index);
                    tokens.push(token);
                    live.push(Single { sentence, sample, partial });
                }
                // At `<eos>`, at the length limit, or without an allowed token.
                _ => found[sentence][sample] = Some(partial.finish(state.options)),
            }
        }
        rows = live;
        if rows.is_empty() {
            break;
        }
        if rows.len() < before {
            state.decoder.select(&kept);
        }
    }
    state.without_cancelled(&mut found);
    Ok(found.into_iter().map(|found| found.into_iter().flatten().collect()).collect())
}
