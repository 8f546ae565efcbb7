//! Sizes of packed weights that several kernels share.

/// Columns per panel: two vectors of AVX-512, four of AVX2, eight of NEON.
pub const PANEL: usize = 32;

/// Inputs that the widest kernel of bytes adds up at once. The inputs of a quantized matrix are padded to a
/// multiple.
pub const STEP: usize = 64;
