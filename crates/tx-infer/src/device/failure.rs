//! Results of a device of Burn that may have failed.

use burn::tensor::{Device, Tensor};
use tx_model::kernels::launches::count_readback;

use crate::error::InferError;

/// Returns the problem of a device that has failed, such as a GPU whose driver was restarted. Such a device
/// fails for the rest of the process. Waits for queued work.
pub fn failure(device: &Device) -> Option<String> {
    let problem = device.sync().err()?.to_string();
    // The causes, without backtraces.
    let lines = problem.lines().map(str::trim).take_while(|line| *line != "Backtrace:");
    let mut lines: Vec<_> =
        lines.filter(|line| !line.is_empty() && *line != "Caused by:").collect();
    lines.dedup();
    Some(lines.join(": "))
}

/// Waits for a tensor and returns its values; NaN if the device has failed.
pub(crate) fn read<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    count_readback();
    let count = tensor.shape().num_elements();
    let data = tensor.try_into_data();
    data.map_or_else(|_| vec![f32::NAN; count], |data| data.iter::<f32>().collect())
}

/// Returns the error of a text, with this line number, whose scores are not finite.
pub(crate) fn not_finite(device: &Device, line: u64) -> InferError {
    match failure(device) {
        Some(problem) => InferError::DeviceFailed { problem },
        None => InferError::NotFinite { line },
    }
}
