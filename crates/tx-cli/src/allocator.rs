//! mimalloc as the global allocator, and the policies for its memory that the programs choose.

use libmimalloc_sys::{_mi_option_last, mi_option_set, mi_option_t, mi_option_use_numa_nodes};

#[cfg(target_os = "linux")]
use rustix::thread;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// `mi_option_purge_delay` of `mimalloc.h`, which `libmimalloc-sys` does not define.
const PURGE_DELAY: mi_option_t = 15;

// `mi_option_purge_delay` precedes `mi_option_use_numa_nodes`. A version of the crate with another
// numbering does not compile; its `mimalloc.h` has the new number.
const _: () = assert!(mi_option_use_numa_nodes == PURGE_DELAY + 1 && _mi_option_last == 47);

/// Bytes of weights of a model whose matrices fill huge pages.
const LARGE: usize = 1 << 25;

/// Sets the time until a freed page returns to the system, in milliseconds; `None` keeps freed
/// pages.
///
/// Call it before any other thread starts.
pub fn set_purge_delay(milliseconds: Option<u16>) {
    // SAFETY: the option exists in mimalloc 2 and 3, and no other thread runs yet that could read
    // it while it is set.
    #[allow(unsafe_code)]
    unsafe {
        mi_option_set(PURGE_DELAY, milliseconds.map_or(-1, Into::into));
    }
}

/// Disables transparent huge pages for this process while it exists. Reading a bundle fills huge
/// pages only in part, and so does packing a small model. Packing a large model is faster with huge
/// pages, and so is decoding.
///
/// Only memory that is used for the first time is affected. On systems other than Linux, it has no
/// effect.
#[must_use]
#[derive(Debug)]
pub struct SmallPages {
    /// Whether huge pages were allowed before.
    #[cfg(target_os = "linux")]
    were_huge: bool,
}

impl SmallPages {
    /// Disables huge pages.
    #[cfg(target_os = "linux")]
    pub fn new() -> Self {
        // A failure costs memory, not correctness.
        let were_huge = matches!(thread::transparent_huge_pages_are_disabled(), Ok(false))
            && thread::disable_transparent_huge_pages(true).is_ok();
        Self { were_huge }
    }

    /// Does nothing on this system.
    #[cfg(not(target_os = "linux"))]
    pub fn new() -> Self {
        Self {}
    }

    /// Keeps huge pages disabled while a model with so many bytes of weights is packed, unless its
    /// matrices fill huge pages.
    pub fn while_packing(self, bytes: usize) -> Option<Self> {
        (bytes < LARGE).then_some(self)
    }
}

impl Default for SmallPages {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(target_os = "linux")]
impl Drop for SmallPages {
    fn drop(&mut self) {
        if self.were_huge {
            let _ = thread::disable_transparent_huge_pages(false);
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn huge_pages_are_disabled_while_it_exists() {
        let disabled = || thread::transparent_huge_pages_are_disabled().unwrap();
        let before = disabled();
        let outer = SmallPages::new();
        drop(SmallPages::new());
        assert!(disabled(), "an inner value must not end the effect of the outer one");
        drop(outer);
        assert_eq!(disabled(), before);
    }
}
