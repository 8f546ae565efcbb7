//! Standard output that was closed before the program started, as by `>&-`.
//!
//! On Unix, the runtime of Rust opens `/dev/null` in place of a closed stream, so that every write
//! succeeds and the output is lost. The state of the stream is therefore recorded before the runtime
//! starts.

/// Returns `true` if the program was started without standard output.
pub(crate) fn is_closed() -> bool {
    #[cfg(unix)]
    {
        unix::IS_CLOSED.load(std::sync::atomic::Ordering::Relaxed)
    }
    #[cfg(windows)]
    {
        use std::os::windows::io::AsRawHandle;

        std::io::stdout().as_raw_handle().is_null()
    }
    #[cfg(not(any(unix, windows)))]
    {
        false
    }
}

#[cfg(unix)]
mod unix {
    use std::sync::atomic::{AtomicBool, Ordering};

    use rustix::io::{Errno, fcntl_getfd};

    pub(super) static IS_CLOSED: AtomicBool = AtomicBool::new(false);

    /// Runs before `main`.
    // The function neither allocates nor depends on the runtime: it is one system call and a store.
    #[allow(unsafe_code)]
    #[ctor::ctor(unsafe)]
    fn record() {
        let is_closed = fcntl_getfd(rustix::stdio::stdout()) == Err(Errno::BADF);
        IS_CLOSED.store(is_closed, Ordering::Relaxed);
    }
}
