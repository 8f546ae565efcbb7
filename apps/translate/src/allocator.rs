//! The allocator: one that soon gives back what reading a model has freed, for the weights are
//! copied on their way to where they are used. It would keep those pages while a sentence is
//! translated, and they are more than the model itself.

use libmimalloc_sys::{_mi_option_last, mi_option_set, mi_option_t, mi_option_use_numa_nodes};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// `mi_option_purge_delay` of `mimalloc.h`, for which the crate has no name: milliseconds until a
/// freed page goes back to the system.
const PURGE_DELAY: mi_option_t = 15;

// It stands before `mi_option_use_numa_nodes`. A version of the crate that counts in another way does
// not compile; its `mimalloc.h` has the number.
const _: () = assert!(mi_option_use_numa_nodes == PURGE_DELAY + 1 && _mi_option_last == 47);

/// To be called before any other thread starts.
pub fn give_back_soon() {
    // SAFETY: the option exists in mimalloc 2 and 3, and setting it races with nothing: no other
    // thread runs yet.
    #[allow(unsafe_code)]
    unsafe {
        mi_option_set(PURGE_DELAY, 1);
    }
}
