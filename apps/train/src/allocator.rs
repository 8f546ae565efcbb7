//! The allocator: one that keeps freed pages, as training allocates and frees the same large
//! tensors each step. Giving them back would make the system clear each page again, which took a
//! sixth of the time of a step.

use libmimalloc_sys::{mi_option_set, mi_option_t};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// `mi_option_purge_delay` of `mimalloc.h`, which the crate has no name for: milliseconds until a
/// freed page goes back to the system; -1 is never.
const PURGE_DELAY: mi_option_t = 15;

/// To be called before any other thread starts.
pub fn keep_freed_pages() {
    // SAFETY: the option exists in mimalloc 2 and 3, and setting it races with nothing: no other
    // thread runs yet.
    #[allow(unsafe_code)]
    unsafe {
        mi_option_set(PURGE_DELAY, -1);
    }
}
