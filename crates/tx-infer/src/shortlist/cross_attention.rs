//! Cross-attention of a batch of pairs of ids.

use tx_engine::PackedTransformer;

/// Decodes each target for its source, and calls `each` for each target token with the number of its
/// pair, the token, and its attention to the tokens of the source in decoder layer `layer`, counted
/// from 0: the mean over the heads.
pub(super) fn cross_attention(
    model: &PackedTransformer,
    start: u32,
    layer: usize,
    pairs: &[(&[u32], &[u32])],
    mut each: impl FnMut(usize, u32, &[f32]),
) {
    let sources: Vec<&[u32]> = pairs.iter().map(|(source, _)| *source).collect();
    let mut decoding = model.start(&sources);
    decoding.watch(layer);
    // Index of the pair of each row.
    let mut rows: Vec<usize> = (0..pairs.len()).collect();
    let mut tokens = vec![start; pairs.len()];
    for position in 0.. {
        let live = |row: &usize| pairs[rows[*row]].1.len() > position;
        let live: Vec<usize> = (0..rows.len()).filter(live).collect();
        if live.is_empty() {
            break;
        }
        if live.len() < rows.len() {
            decoding.select(&live);
            tokens = live.iter().map(|&row| tokens[row]).collect();
            rows = live.iter().map(|&row| rows[row]).collect();
        }
        decoding.read(&tokens);
        for (row, (&pair, token)) in rows.iter().zip(&mut tokens).enumerate() {
            *token = pairs[pair].1[position];
            each(pair, *token, decoding.attention(row));
        }
    }
}
