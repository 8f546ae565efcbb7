//! The allocator: one that soon gives back what reading a model has freed, for the weights are
//! copied on their way to where they are used. It would keep those pages while a sentence is
//! translated, and they are more than the model itself.

use libmimalloc_sys::{mi_option_set, mi_option_t};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// `mi_option_purge_delay` of `mimalloc.h`, which the crate has no name for: milliseconds until a
/// freed page goes back to the system.
const PURGE_DELAY: mi_option_t = 15;

/// To be called before any other thread starts.
pub fn give_back_soon() {
    // SAFETY: the option exists in mimalloc 2 and 3, and setting it races with nothing: no other
    // thread runs yet.
    #[allow(unsafe_code)]
    unsafe {
        mi_option_set(PURGE_DELAY, 1);
    }
}
