//! Requests for memory that is read soon.
#![allow(unsafe_code)]

/// Bytes of a line of the cache.
#[cfg(target_arch = "x86_64")]
const LINE: usize = 64;

/// Asks the CPU to read `values` into its second-level cache, without waiting for them. Does nothing on
/// other architectures than x86-64.
#[inline(always)]
pub fn prefetch<T>(values: &[T]) {
    prefetch_ahead(values, 0);
}

/// Same as [`prefetch`], for as many bytes that start `distance` bytes after those of `values`, whether they
/// exist or not.
#[inline(always)]
pub fn prefetch_ahead<T>(values: &[T], distance: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};

        let start = values.as_ptr().cast::<i8>().wrapping_add(distance);
        for offset in (0..size_of_val(values)).step_by(LINE) {
            // SAFETY: the instruction reads nothing that the program can observe, at any address.
            unsafe { _mm_prefetch::<_MM_HINT_T1>(start.wrapping_add(offset)) }
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (values, distance);
}
