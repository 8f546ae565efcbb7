//! What must not be seen. Mask polarity is decided here and nowhere else: `true` = blocked.

use burn::tensor::{Bool, Device, Int, Tensor};

use crate::special::PAD;

/// Blocks padding, for every query: no token may look at it.
///
/// # Shapes
///
/// - `ids`: `[B, L]`
/// - returns `[B, 1, 1, L]`, which broadcasts over heads and queries
pub fn padding(ids: &Tensor<2, Int>) -> Tensor<4, Bool> {
    ids.clone().equal_elem(PAD).unsqueeze_dims(&[1, 1])
}

/// Blocks the future: position `q` may look at `0..=q`.
///
/// Targets are padded on the right, so this blocks their padding for every real position too.
///
/// # Shapes
///
/// - returns `[1, 1, len, len]`, which broadcasts over batch and heads
pub fn causal(len: usize, device: &Device) -> Tensor<4, Bool> {
    if len == 0 {
        // Burn 0.22.1's `tril_mask` reshapes to the sizes given, where 0 means "as it was", and
        // panics.
        return Tensor::empty([1, 1, 0, 0], device);
    }
    Tensor::<2, Bool>::tril_mask([len, len], 0, device).unsqueeze()
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::TensorData;

    #[test]
    fn padding_is_blocked_and_nothing_else() {
        let ids = Tensor::<2, Int>::from_data([[5, 2, 0], [7, 8, 2]], &Device::flex());
        let mask = padding(&ids);
        assert_eq!(mask.dims(), [2, 1, 1, 3]);
        mask.into_data().assert_eq(
            &TensorData::from([[[[false, false, true]]], [[[false, false, false]]]]),
            true,
        );
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
}
