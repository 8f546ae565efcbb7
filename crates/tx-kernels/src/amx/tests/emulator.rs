//! Emulation of the matrix unit, so that its assembly can be tested on CPUs without it.
//!
//! A CPU without the unit raises a signal at each of its instructions. The handler decodes the
//! instruction (Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2), computes
//! its result on tiles in memory, and continues after it. Every rule of the manual on shapes that
//! the unit would refuse is an abort.
#![allow(unsafe_code)]

use std::{cell::UnsafeCell, ffi::c_void, sync::Once};

/// `struct sigaction` of Linux's C libraries for x86-64.
#[repr(C)]
struct SigAction {
    handler: extern "C" fn(i32, *mut c_void, *mut c_void),
    mask: [u64; 16],
    flags: i32,
    restorer: usize,
}

unsafe extern "C" {
    fn sigaction(signal: i32, new: *const SigAction, old: *mut SigAction) -> i32;
}

const SIGILL: i32 = 4;
const SA_SIGINFO: i32 = 4;

/// Installs the handler, once.
pub(super) fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let action = SigAction { handler: handle, mask: [0; 16], flags: SA_SIGINFO, restorer: 0 };
        // SAFETY: the structure has the layout of the C library, and the handler its signature.
        assert_eq!(unsafe { sigaction(SIGILL, &action, std::ptr::null_mut()) }, 0);
    });
}

/// Tiles of one thread.
struct State {
    /// Operand of the last `ldtilecfg`; zeros after `tilerelease`.
    configuration: [u8; 64],
    tiles: [[[u8; 64]; 16]; 8],
}

thread_local! {
    static STATE: UnsafeCell<State> =
        const { UnsafeCell::new(State { configuration: [0; 64], tiles: [[[0; 64]; 16]; 8] }) };
}

impl State {
    /// Rows of a tile, and bytes of each.
    fn shape(&self, tile: usize) -> (usize, usize) {
        let c = &self.configuration;
        let bytes = u16::from_le_bytes([c[16 + 2 * tile], c[17 + 2 * tile]]);
        let shape = (usize::from(c[48 + tile]), usize::from(bytes));
        check(c[0] == 1 && shape.0 > 0 && shape.1 > 0);
        shape
    }
}

/// Aborts if the unit would raise an exception.
fn check(allowed: bool) {
    if !allowed {
        std::process::abort();
    }
}

/// Indices of the general registers 0 to 15 of instructions in `gregs` of `ucontext_t`.
const REGISTERS: [usize; 16] = [13, 14, 12, 11, 15, 10, 9, 8, 0, 1, 2, 3, 4, 5, 6, 7];
const RIP: usize = 16;

extern "C" fn handle(_signal: i32, _info: *mut c_void, context: *mut c_void) {
    // SAFETY: the kernel passes a `ucontext_t`, whose general registers are at byte 40, and the
    // instruction pointer is at a mapped instruction.
    let (registers, code) = unsafe {
        let registers = &mut *context.cast::<u8>().add(40).cast::<[u64; 23]>();
        let code = std::slice::from_raw_parts(registers[RIP] as *const u8, 10);
        (registers, code)
    };
    STATE.with(|state| {
        // SAFETY: instructions of the unit are not executed while one is emulated.
        let state = unsafe { &mut *state.get() };
        registers[RIP] += emulate(state, code, registers) as u64;
    });
}

/// Emulates one instruction, and returns its length.
fn emulate(state: &mut State, code: &[u8], registers: &[u64; 23]) -> usize {
    // VEX prefix of three bytes, opcode map 0F38, W0, vectors of 128 bits.
    let [0xc4, first, second, opcode, modrm, ..] = *code else { std::process::abort() };
    check(first & 0x1f == 2 && second & 0x84 == 0);
    let extend = |bit: u8| if first & bit == 0 { 8 } else { 0 };
    let prefix = second & 3;
    let third = usize::from(!second >> 3 & 15);
    let (mode, reg, rm) = (modrm >> 6, usize::from(modrm >> 3 & 7), usize::from(modrm & 7));
    let register = |index: usize| registers[REGISTERS[index]];
    // Address of a memory operand: its base, its index, and the length of the instruction.
    let address = || {
        let (base, index, displacement) = if rm == 4 {
            let sib = code[5];
            check(sib >> 6 == 0);
            (usize::from(sib & 7) + extend(0x20), usize::from(sib >> 3 & 7) + extend(0x40), 6)
        } else {
            (rm + extend(0x20), 4, 5)
        };
        let base = register(base);
        let stride = if index == 4 { 0 } else { register(index) };
        match mode {
            0 => (base, stride, displacement),
            1 => (
                base.wrapping_add_signed(i64::from(code[displacement] as i8)),
                stride,
                displacement + 1,
            ),
            _ => std::process::abort(),
        }
    };
    match (opcode, prefix, mode == 3) {
        // tilerelease
        (0x49, 0, true) if modrm == 0xc0 => {
            *state = State { configuration: [0; 64], tiles: [[[0; 64]; 16]; 8] };
            5
        }
        // ldtilecfg
        (0x49, 0, false) if reg == 0 => {
            let (from, _, length) = address();
            // SAFETY: the instruction would read the same bytes.
            state.configuration = unsafe { *(from as *const [u8; 64]) };
            state.tiles = [[[0; 64]; 16]; 8];
            let c = &state.configuration;
            check(c[0] == 1 && c[1..16].iter().all(|&byte| byte == 0));
            for tile in 0..8 {
                check((c[16 + 2 * tile] == 0) == (c[48 + tile] == 0));
                check(c[16 + 2 * tile] <= 64 && c[17 + 2 * tile] == 0 && c[48 + tile] <= 16);
            }
            length
        }
        // tilezero
        (0x49, 3, true) => {
            state.shape(reg);
            state.tiles[reg] = [[0; 64]; 16];
            5
        }
        // tileloadd and tilestored
        (0x4b, 3 | 2, false) => {
            check(rm == 4);
            let (rows, bytes) = state.shape(reg);
            let (base, stride, length) = address();
            for (row, content) in state.tiles[reg][..rows].iter_mut().enumerate() {
                let at = base.wrapping_add(stride.wrapping_mul(row as u64)) as *mut u8;
                // SAFETY: the instruction would access the same bytes.
                unsafe {
                    if prefix == 3 {
                        at.copy_to_nonoverlapping(content.as_mut_ptr(), bytes);
                    } else {
                        at.copy_from_nonoverlapping(content.as_ptr(), bytes);
                    }
                }
            }
            length
        }
        // tdpbusd and tdpbf16ps
        (0x5e, 1, true) | (0x5c, 2, true) => {
            check(reg != rm && rm != third && reg != third);
            let (sum, x, w) = (state.shape(reg), state.shape(rm), state.shape(third));
            check(sum.0 == x.0 && sum.1 == w.1 && x.1 == 4 * w.0);
            let (x, w) = (state.tiles[rm], state.tiles[third]);
            for (row, x) in x.iter().enumerate().take(sum.0) {
                for column in 0..sum.1 / 4 {
                    let y = &mut state.tiles[reg][row].as_chunks_mut::<4>().0[column];
                    let pairs = (0..w.len()).map(|group| {
                        let at = |row: &[u8; 64], place: usize| row.as_chunks::<4>().0[place];
                        (at(x, group), at(&w[group], column))
                    });
                    *y = if opcode == 0x5e { bytes(*y, pairs) } else { bf16(*y, pairs) };
                }
            }
            5
        }
        _ => std::process::abort(),
    }
}

fn bytes(y: [u8; 4], pairs: impl Iterator<Item = ([u8; 4], [u8; 4])>) -> [u8; 4] {
    let mut sum = i32::from_le_bytes(y);
    for (x, w) in pairs {
        for (x, w) in x.into_iter().zip(w) {
            sum = sum.wrapping_add(i32::from(x) * i32::from(w as i8));
        }
    }
    sum.to_le_bytes()
}

fn bf16(y: [u8; 4], pairs: impl Iterator<Item = ([u8; 4], [u8; 4])>) -> [u8; 4] {
    let value = |low: u8, high: u8| f32::from_le_bytes([0, 0, low, high]);
    let (mut even, mut odd) = (0.0_f32, 0.0_f32);
    for (x, w) in pairs {
        even = value(x[0], x[1]).mul_add(value(w[0], w[1]), even);
        odd = value(x[2], x[3]).mul_add(value(w[2], w[3]), odd);
    }
    (f32::from_le_bytes(y) + (even + odd)).to_le_bytes()
}
