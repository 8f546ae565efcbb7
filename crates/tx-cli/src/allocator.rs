//! mimalloc as the global allocator, and the one option that the programs set.

use libmimalloc_sys::{_mi_option_last, mi_option_set, mi_option_t, mi_option_use_numa_nodes};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// `mi_option_purge_delay` of `mimalloc.h`, which `libmimalloc-sys` does not define.
const PURGE_DELAY: mi_option_t = 15;

// `mi_option_purge_delay` precedes `mi_option_use_numa_nodes`. A version of the crate with another
// numbering does not compile; its `mimalloc.h` has the new number.
const _: () = assert!(mi_option_use_numa_nodes == PURGE_DELAY + 1 && _mi_option_last == 47);

/// Sets the time until a freed page returns to the system, in milliseconds; none keeps freed pages.
///
/// Call it before any other thread starts.
pub fn set_purge_delay(milliseconds: Option<u16>) {
    // SAFETY: the option exists in mimalloc 2 and 3, and no other thread runs yet that could read it
    // while it is set.
    #[allow(unsafe_code)]
    unsafe {
        mi_option_set(PURGE_DELAY, milliseconds.map_or(-1, Into::into));
    }
}
