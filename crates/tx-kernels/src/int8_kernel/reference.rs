//! Plain loops, with which all kernels are compared.

use super::Product;
use crate::layout::PANEL;

pub(super) fn multiply(product: &mut Product<'_>) {
    let (inputs, rows) = (product.inputs(), product.rows());
    for (index, panel) in product.panels.chunks_exact(PANEL * inputs).enumerate() {
        for row in 0..rows {
            let x = &product.x.bytes[row * inputs..][..inputs];
            let mut sums = [0; PANEL];
            sums.copy_from_slice(&product.offsets[index * PANEL..][..PANEL]);
            let groups = x.as_chunks::<4>().0.iter().zip(panel.as_chunks::<{ 4 * PANEL }>().0);
            for (x, weights) in groups {
                for (sum, weights) in sums.iter_mut().zip(weights.as_chunks::<4>().0) {
                    let products =
                        x.iter().zip(weights).map(|(&x, &w)| i32::from(x) * i32::from(w as i8));
                    *sum = sum.wrapping_add(products.sum());
                }
            }
            product.finish(row, index, &sums);
        }
    }
}
