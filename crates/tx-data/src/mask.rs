//! Attention masks. Mask polarity is decided here and nowhere else: `true` = blocked.

use burn::tensor::{Bool, Device, Int, Tensor, TensorData};
use tx_text::special::PAD;

/// Padding mask: blocks padding for every query.
///
/// # Shapes
///
/// - `ids`: `[B, L]`
/// - returns `[B, 1, 1, L]`, which broadcasts over heads and queries
pub fn padding(ids: &Tensor<2, Int>) -> Tensor<4, Bool> {
    ids.clone().equal_elem(PAD).unsqueeze_dims(&[1, 1])
}

/// Padding mask of ids in memory; equal to [`padding`] of the same ids on a device.
///
/// # Shapes
///
/// - `ids`: `[B, L]`, row by row
/// - returns `[B, 1, 1, L]`
pub(crate) fn padding_of(
    ids: &[i32],
    [batch, len]: [usize; 2],
    device: &Device,
) -> Tensor<4, Bool> {
    let blocked: Vec<bool> = ids.iter().map(|&id| id == PAD as i32).collect();
    Tensor::from_data(TensorData::new(blocked, [batch, 1, 1, len]), device)
}

/// Causal mask: position `q` attends to `0..=q`.
///
/// Targets are padded on the right, so the mask also blocks their padding for every real position.
///
/// # Shapes
///
/// - returns `[1, 1, len, len]`, which broadcasts over batch and heads
pub fn causal(len: usize, device: &Device) -> Tensor<4, Bool> {
    // Computed in memory, so that the thread that constructs batches runs no operation of the backend of
    // the device.
    let blocked = (0..len).flat_map(|query| (0..len).map(move |key| key > query)).collect();
    Tensor::from_data(TensorData::new::<bool, _>(blocked, [1, 1, len, len]), device)
}

/// Causal mask of rows with several segments: position `q` attends to the positions of its segment up to
/// itself.
///
/// # Shapes
///
/// - `segments`: number of the segment at each position, `[B, L]`, row by row
/// - returns `[B, 1, L, L]`, which broadcasts over heads
pub(crate) fn causal_within(
    segments: &[u32],
    [batch, len]: [usize; 2],
    device: &Device,
) -> Tensor<4, Bool> {
    let mut blocked = Vec::with_capacity(batch * len * len);
    for row in segments.chunks(len.max(1)) {
        for (query, segment) in row.iter().enumerate() {
            blocked.extend((0..len).map(|key| key > query || row[key] != *segment));
        }
    }
    Tensor::from_data(TensorData::new(blocked, [batch, 1, len, len]), device)
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::TensorData;

    #[test]
    fn padding_is_blocked_and_nothing_else() {
        let ids = Tensor::<2, Int>::from_data([[5, 2, 0], [7, 8, 2]], &Device::flex());
        let of_host = padding_of(&[5, 2, 0, 7, 8, 2], [2, 3], &Device::flex());
        for mask in [padding(&ids), of_host] {
            assert_eq!(mask.dims(), [2, 1, 1, 3]);
            mask.into_data().assert_eq(
                &TensorData::from([[[[false, false, true]]], [[[false, false, false]]]]),
                true,
            );
        }
    }

    #[test]
    fn the_future_is_blocked_and_nothing_else() {
        let expected = TensorData::from([[[
            [false, true, true],
            [false, false, true],
            [false, false, false],
        ]]]);
        causal(3, &Device::flex()).into_data().assert_eq(&expected, true);
        assert_eq!(causal(0, &Device::flex()).dims(), [1, 1, 0, 0]);
    }

    #[test]
    fn other_segments_are_blocked_and_one_segment_is_causal() {
        let mask = causal_within(&[1, 1, 2, 7, 7, 7], [2, 3], &Device::flex());
        let expected = TensorData::from([
            [[[false, true, true], [false, false, true], [true, true, false]]],
            [[[false, true, true], [false, false, true], [false, false, false]]],
        ]);
        mask.into_data().assert_eq(&expected, true);
        assert_eq!(causal_within(&[], [1, 0], &Device::flex()).dims(), [1, 1, 0, 0]);
    }
}
