//! Functions for the host.
//!
//! | function | |
//! |---|---|
//! | `allocate(length) → buffer` | adds a buffer, and returns its number |
//! | `pointer(buffer)`, `length(buffer)` | first byte and number of bytes |
//! | `answer(request) → response` | see [`Session::answer`] |
//! | `release(buffer)` | removes a buffer |
//!
//! The host provides `txmt.part(pointer, length) → 0 | 1`, which receives text while it is generated and
//! returns whether to go on, `txmt.random(pointer, length)`, which fills memory with random bytes, and
//! `txmt.panic(pointer, length)`, which receives the message of a fault of this program before it ends.
// Names that the host calls, and functions of the host.
#![allow(unsafe_code)]

use std::{cell::RefCell, panic, slice, sync::Once};

use crate::Session;

thread_local! {
    static SESSION: RefCell<Session> = RefCell::default();
}

#[link(wasm_import_module = "txmt")]
unsafe extern "C" {
    safe fn part(text: *const u8, length: usize) -> u32;
    safe fn random(bytes: *mut u8, length: usize);
    #[link_name = "panic"]
    safe fn report(text: *const u8, length: usize);
}

/// Adds a buffer of `length` bytes, and returns its number.
#[unsafe(no_mangle)]
extern "C" fn allocate(length: usize) -> u32 {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        panic::set_hook(Box::new(|panic| {
            let text = panic.to_string();
            report(text.as_ptr(), text.len());
        }));
    });
    SESSION.with_borrow_mut(|session| session.buffers.add(vec![0; length]))
}

/// First byte of a buffer.
#[unsafe(no_mangle)]
extern "C" fn pointer(buffer: u32) -> *const u8 {
    SESSION
        .with_borrow(|session| session.buffers.get(buffer).map_or(std::ptr::null(), <[u8]>::as_ptr))
}

/// Number of bytes of a buffer.
#[unsafe(no_mangle)]
extern "C" fn length(buffer: u32) -> usize {
    SESSION.with_borrow(|session| session.buffers.get(buffer).map_or(0, <[u8]>::len))
}

/// Answers a request, and returns the buffer of the response.
#[unsafe(no_mangle)]
extern "C" fn answer(request: u32) -> u32 {
    SESSION.with_borrow_mut(|session| {
        session.answer(request, &mut |text| part(text.as_ptr(), text.len()) != 0)
    })
}

/// Removes a buffer.
#[unsafe(no_mangle)]
extern "C" fn release(buffer: u32) {
    SESSION.with_borrow_mut(|session| drop(session.buffers.take(buffer)));
}

/// Source of random numbers of `getrandom`.
#[unsafe(no_mangle)]
unsafe extern "Rust" fn __getrandom_v03_custom(
    bytes: *mut u8,
    length: usize,
) -> Result<(), getrandom::Error> {
    // SAFETY: `getrandom` passes a slice.
    let bytes = unsafe { slice::from_raw_parts_mut(bytes, length) };
    random(bytes.as_mut_ptr(), bytes.len());
    Ok(())
}
