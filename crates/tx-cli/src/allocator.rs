//! The allocator: one that keeps freed pages, as training allocates and frees the same large
//! tensors each step. Giving them back would make the system clear each page again, which took a
//! sixth of the time of a step.

use libmimalloc_sys::{_mi_option_last, mi_option_set, mi_option_t, mi_option_use_numa_nodes};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// `mi_option_purge_delay` of `mimalloc.h`, for which the crate has no name: milliseconds until a
/// freed page goes back to the system; -1 is never.
const PURGE_DELAY: mi_option_t = 15;

// It stands before `mi_option_use_numa_nodes`. A version of the crate that counts in another way does
// not compile; its `mimalloc.h` has the number.
const _: () = assert!(mi_option_use_numa_nodes == PURGE_DELAY + 1 && _mi_option_last == 47);

/// To be called before any other thread starts.
pub fn keep_freed_pages() {
    // SAFETY: the option exists in mimalloc 2 and 3, and setting it races with nothing: no other
    // thread runs yet.
    #[allow(unsafe_code)]
    unsafe {
        mi_option_set(PURGE_DELAY, -1);
    }
}
