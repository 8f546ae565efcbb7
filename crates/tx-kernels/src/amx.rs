//! Products of blocks in the matrix unit of x86-64 processors (Advanced Matrix Extensions, AMX).
//!
//! The unit has eight tile registers of 16 rows of 64 bytes, and instructions that multiply two
//! tiles of bytes or of bf16 numbers and add the products to a third. Their intrinsics are not
//! stable in Rust, so this file contains them as inline assembly, with all `unsafe` code that they
//! need. The interface is safe: [`Amx`] proves that the unit exists and that the operating system
//! lets this process use it, and the functions of [`Tiles`] check the sizes of their slices.
//!
//! A block has up to [`MAX_ROWS`] rows and [`COLUMNS`] columns. Its second factor is a panel: the
//! inputs are grouped by 4 bytes or 2 bf16 numbers, so that the numbers that one instruction adds
//! up for a column lie side by side.

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
use std::cell::Cell;
use std::marker::PhantomData;

/// Maximum number of rows of a block: two tiles.
pub const MAX_ROWS: usize = 32;

/// Columns of a block: two tiles.
pub const COLUMNS: usize = 32;

/// Inputs that a step adds up in [`Tiles::multiply_i8`]; their number must be divisible by it.
pub const I8_STEP: usize = 64;

/// Inputs that a step adds up in [`Tiles::multiply_bf16`]; their number must be divisible by it.
pub const BF16_STEP: usize = 32;

/// Proof that this process may use the matrix unit, with products of bytes and of bf16 numbers.
#[derive(Debug, Clone, Copy)]
pub struct Amx(());

impl Amx {
    /// Returns the proof if the CPU has tiles and both kinds of products, and the operating system
    /// enables them. On Linux, this requests the permission for the whole process, once; elsewhere,
    /// the result is `None`.
    pub fn new() -> Option<Self> {
        platform::is_usable().then_some(Self(()))
    }

    /// Runs `work` with tiles for blocks of `rows` rows. The tiles of this thread are released
    /// afterwards, because a thread with tiles in use costs 8 KiB for each switch to another thread.
    ///
    /// # Panics
    ///
    /// If `rows` is 0 or exceeds [`MAX_ROWS`].
    pub fn with_tiles<R>(self, rows: usize, work: impl FnOnce(&Tiles) -> R) -> R {
        assert!((1..=MAX_ROWS).contains(&rows), "rows of a block: {rows}");
        let tiles = Tiles { rows, thread: PhantomData };
        work(&tiles)
    }
}

/// Tile registers of this thread, for blocks of a fixed number of rows.
#[derive(Debug)]
pub struct Tiles {
    rows: usize,
    /// Tiles belong to one thread.
    thread: PhantomData<*const ()>,
}

/// First factor of a product: rows in parts of 64 bytes, the inputs of a step.
#[derive(Debug, Clone, Copy)]
pub struct Rows<'a, T> {
    /// The elements of all rows.
    pub values: &'a [T],
    /// Distance from the start of a row to the start of the next.
    pub stride: usize,
    /// Distance from the start of a part of a row to the start of the next.
    pub step: usize,
}

impl<'a, T> Rows<'a, T> {
    /// Creates rows without gaps that are `stride` elements apart.
    pub fn new(values: &'a [T], stride: usize) -> Self {
        Self { values, stride, step: 64 / size_of::<T>() }
    }

    /// Returns the inputs of a row, in parts of a step.
    fn parts(self, row: usize) -> impl Iterator<Item = &'a [T]> {
        let width = 64 / size_of::<T>();
        (0..).map(move |part| {
            let row = &self.values[row * self.stride + part * self.step..];
            &row[..width.min(row.len())]
        })
    }
}

/// Result of a product: rows of [`COLUMNS`] elements that are `stride` elements apart.
#[derive(Debug)]
pub struct RowsMut<'a, T> {
    /// The elements of all rows.
    pub values: &'a mut [T],
    /// Distance from the start of a row to the start of the next.
    pub stride: usize,
}

/// Result of a product that is addressed by pointers, because other threads write other columns of the
/// same rows.
#[derive(Debug, Clone, Copy)]
pub struct RowsPointer {
    /// First element of the first row.
    pub first: *mut f32,
    /// Distance from the start of a row to the start of the next, in elements.
    pub stride: usize,
}

/// Value to which a product is added.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Start<'a, T> {
    /// Zero: the product replaces the content of the result.
    Zero,
    /// The content of the result.
    Content,
    /// The same row of [`COLUMNS`] elements for all rows.
    Row(&'a [T]),
    /// Rows of [`COLUMNS`] elements, one after the other.
    Block(&'a [T]),
}

impl Tiles {
    /// Number of rows of a block.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Computes `y = x w` or `y += x w` exactly, with wrapping sums of 32 bits.
    ///
    /// # Shapes
    ///
    /// - `x`: `[rows, inputs]`
    /// - `panel`: `w` as `[inputs / 4, COLUMNS, 4]` signed bytes, given by their bits
    /// - `y`: `[rows, COLUMNS]`
    ///
    /// # Panics
    ///
    /// If `inputs` is not divisible by [`I8_STEP`], or a slice is too short.
    pub fn multiply_i8(
        &self,
        x: Rows<'_, u8>,
        panel: &[u8],
        y: RowsMut<'_, i32>,
        start: Start<'_, i32>,
    ) {
        self.check(x, panel, I8_STEP);
        let fits = self.fits(y.values.len(), y.stride, COLUMNS);
        assert!(y.stride >= COLUMNS && fits, "length of y");
        let (first, stride) = (y.values.as_mut_ptr(), y.stride);
        platform::multiply_i8(self.rows, [(x, panel)].into_iter(), first, stride, start);
    }

    /// Computes `y = start + Σ x w` over all `factors`, for bf16 numbers, given by their bits, in single
    /// precision.
    ///
    /// Products of an even and of an odd input are summed separately over 32 inputs; the sum of the
    /// two is added to `y`. Subnormal numbers count as zero.
    ///
    /// # Shapes
    ///
    /// - each of `factors`: `x`, `[rows, inputs]`, and `w` as `[inputs / 2, COLUMNS, 2]`
    /// - `y`: `[rows, COLUMNS]`
    ///
    /// # Safety
    ///
    /// All rows of `y` must be valid for writing, and with [`Start::Content`] for reading. Nothing else
    /// may use them meanwhile.
    ///
    /// # Panics
    ///
    /// If a number of inputs is not divisible by [`BF16_STEP`], or a slice is too short.
    #[allow(unsafe_code)]
    #[inline]
    pub unsafe fn multiply_bf16<'a>(
        &self,
        factors: impl Iterator<Item = (Rows<'a, u16>, &'a [u16])>,
        y: RowsPointer,
        start: Start<'_, f32>,
    ) {
        let factors = factors.inspect(|&(x, panel)| self.check(x, panel, BF16_STEP));
        platform::multiply_bf16(self.rows, factors, y.first, y.stride, start);
    }

    /// Checks the sizes of the factors of a product.
    fn check<T>(&self, x: Rows<'_, T>, panel: &[T], step: usize) {
        let steps = panel.len() / (COLUMNS * step);
        assert!(panel.len() == steps * COLUMNS * step, "panel");
        let Some(last) = steps.checked_sub(1) else { return };
        let width = last.checked_mul(x.step).and_then(|last| last.checked_add(step));
        let fits = width.is_some_and(|width| self.fits(x.values.len(), x.stride, width));
        assert!(fits, "length of x");
    }

    /// Returns `true` if rows of `width` elements are within a slice of `len` elements.
    fn fits(&self, len: usize, stride: usize, width: usize) -> bool {
        let last = (self.rows - 1).checked_mul(stride);
        last.and_then(|last| last.checked_add(width)).is_some_and(|end| end <= len)
    }
}

impl Drop for Tiles {
    fn drop(&mut self) {
        platform::release();
    }
}

/// Writes the initial value of a row.
fn begin<T: Copy + Default>(y: &mut [T], row: usize, start: Start<'_, T>) {
    match start {
        Start::Zero => y.fill(T::default()),
        Start::Content => {}
        Start::Row(row) => y.copy_from_slice(&row[..COLUMNS]),
        Start::Block(block) => y.copy_from_slice(&block[row * COLUMNS..][..COLUMNS]),
    }
}

/// Product of bytes in plain loops, for any number of inputs that is divisible by 4; see
/// [`Tiles::multiply_i8`].
///
/// # Panics
///
/// If a slice is too short.
pub fn reference_i8(
    rows: usize,
    x: Rows<'_, u8>,
    panel: &[u8],
    y: RowsMut<'_, i32>,
    start: Start<'_, i32>,
) {
    for row in 0..rows {
        let y = &mut y.values[row * y.stride..][..COLUMNS];
        begin(y, row, start);
        let x = x.parts(row).flat_map(|part| part.as_chunks::<4>().0);
        for (weights, x) in panel.chunks_exact(4 * COLUMNS).zip(x) {
            for (y, weights) in y.iter_mut().zip(weights.as_chunks::<4>().0) {
                let products =
                    x.iter().zip(weights).map(|(&x, &w)| i32::from(x) * i32::from(w as i8));
                *y = y.wrapping_add(products.sum());
            }
        }
    }
}

/// Product of bf16 numbers in plain loops, for any number of inputs that is divisible by 2; see
/// [`Tiles::multiply_bf16`]. It equals that of the unit up to rounding.
///
/// # Panics
///
/// If a slice is too short.
pub fn reference_bf16(
    rows: usize,
    x: Rows<'_, u16>,
    panel: &[u16],
    y: RowsMut<'_, f32>,
    start: Start<'_, f32>,
) {
    let value = |bits: u16| f32::from_bits(u32::from(bits) << 16);
    for row in 0..rows {
        let y = &mut y.values[row * y.stride..][..COLUMNS];
        begin(y, row, start);
        let x = x.parts(row).flat_map(|part| part.as_chunks::<2>().0);
        for (weights, x) in panel.chunks_exact(2 * COLUMNS).zip(x) {
            for (y, weights) in y.iter_mut().zip(weights.as_chunks::<2>().0) {
                *y += value(x[0]) * value(weights[0]) + value(x[1]) * value(weights[1]);
            }
        }
    }
}

/// The unit on Linux. The functions on rows must be called with sizes that [`Tiles`] has checked.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
#[allow(unsafe_code)]
mod platform {
    use std::{
        arch::{asm, x86_64::__cpuid, x86_64::__cpuid_count},
        sync::OnceLock,
    };

    use super::{COLUMNS, Cell, Rows, Start};

    /// Rows of a tile.
    const TILE_ROWS: usize = 16;

    /// Bytes of a row of a tile.
    const TILE_BYTES: usize = 64;

    /// Bytes from one row of a tile to the next in a panel, which is two tiles wide.
    const PANEL_STRIDE: usize = 2 * TILE_BYTES;

    thread_local! {
        /// Rows of the blocks that the tiles of this thread are configured for; 0 if they are
        /// released.
        static CONFIGURED: Cell<usize> = const { Cell::new(0) };
    }

    pub(super) fn is_usable() -> bool {
        static USABLE: OnceLock<bool> = OnceLock::new();
        *USABLE.get_or_init(|| has_amx() && request_permission())
    }

    /// Returns `true` if the CPU has the instructions, and the operating system saves the tiles when
    /// it switches threads.
    fn has_amx() -> bool {
        const OSXSAVE: u32 = 1 << 27;
        const BF16: u32 = 1 << 22;
        const TILE: u32 = 1 << 24;
        const INT8: u32 = 1 << 25;
        /// Configuration and data of tiles in the extended control register.
        const STATE: u32 = 1 << 17 | 1 << 18;
        // SAFETY: all processors with 64 bits have the instruction `cpuid`, and the leaf 7 is read
        // only if it exists.
        #[allow(unused_unsafe)]
        let (features, extended) = unsafe {
            if __cpuid(0).eax < 7 {
                return false;
            }
            (__cpuid(1).ecx, __cpuid_count(7, 0).edx)
        };
        if features & OSXSAVE == 0 || extended & (TILE | BF16 | INT8) != TILE | BF16 | INT8 {
            return false;
        }
        let state: u32;
        // SAFETY: the bit OSXSAVE says that the instruction exists. It changes no memory.
        unsafe {
            asm!(
                "xgetbv",
                in("ecx") 0,
                out("eax") state,
                out("edx") _,
                options(nomem, nostack, preserves_flags),
            );
        }
        state & STATE == STATE
    }

    /// Requests the permission to use tiles for this process. Linux refuses it if a thread has a
    /// stack for signals that is too small for the state of the tiles.
    fn request_permission() -> bool {
        /// System call `arch_prctl`, its request `ARCH_REQ_XCOMP_PERM`, and the data of tiles.
        const ARCH_PRCTL: i64 = 158;
        const REQUEST: u64 = 0x1023;
        const TILE_DATA: u64 = 18;
        let result: i64;
        // SAFETY: the system call has no pointers; it clobbers `rcx` and `r11`. A kernel that does
        // not know the request returns an error.
        unsafe {
            asm!(
                "syscall",
                inlateout("rax") ARCH_PRCTL => result,
                in("rdi") REQUEST,
                in("rsi") TILE_DATA,
                out("rcx") _,
                out("r11") _,
                options(nostack),
            );
        }
        result == 0
    }

    /// Operand of `ldtilecfg`.
    #[repr(C, align(64))]
    struct Configuration([u8; 64]);

    /// Configures the tiles for blocks of `rows` rows, if they are not already.
    ///
    /// Tiles 0 to 3 are the sums: two for the first 16 rows, two for the others. Tiles 4 and 5 are
    /// the rows, tiles 6 and 7 the panel.
    fn configure(rows: usize) {
        if CONFIGURED.get() == rows {
            return;
        }
        let (first, second) = (rows.min(TILE_ROWS), rows.saturating_sub(TILE_ROWS));
        let mut configuration = Configuration([0; 64]);
        configuration.0[0] = 1;
        let heights = [first, first, second, second, first, second, TILE_ROWS, TILE_ROWS];
        for (tile, height) in heights.into_iter().enumerate() {
            // A tile that is not used has neither rows nor bytes.
            configuration.0[16 + 2 * tile] = if height == 0 { 0 } else { TILE_BYTES as u8 };
            configuration.0[48 + tile] = height as u8;
        }
        // SAFETY: an `Amx` exists, so the instruction exists and is permitted. It reads 64 bytes.
        unsafe {
            asm!("ldtilecfg [{}]", in(reg) &configuration, options(nostack, preserves_flags));
        }
        CONFIGURED.set(rows);
    }

    pub(super) fn release() {
        if CONFIGURED.replace(0) != 0 {
            // SAFETY: tiles are configured, so the instruction exists and is permitted.
            unsafe { asm!("tilerelease", options(nomem, nostack, preserves_flags)) };
        }
    }

    /// Defines a function that multiplies a block with an instruction for bytes or bf16 numbers.
    macro_rules! multiply {
        ($name:ident, $instruction:literal, $x:ty, $y:ty) => {
            #[inline]
            pub(super) fn $name<'a>(
                rows: usize,
                factors: impl Iterator<Item = (Rows<'a, $x>, &'a [$x])>,
                y: *mut $y,
                y_stride: usize,
                start: Start<'_, $y>,
            ) {
                configure(rows);
                let y_stride = y_stride.wrapping_mul(size_of::<$y>());
                let second = |first: *mut u8, stride: usize| first.wrapping_add(TILE_ROWS * stride);
                let is_high = rows > TILE_ROWS;
                // A row that is repeated has the stride 0.
                let content = match start {
                    Start::Zero => None,
                    Start::Content => Some((y, y_stride)),
                    Start::Row(row) => Some((row[..COLUMNS].as_ptr().cast_mut(), 0)),
                    Start::Block(block) => {
                        let block = block[..rows * COLUMNS].as_ptr().cast_mut();
                        Some((block, COLUMNS * size_of::<$y>()))
                    }
                };
                // SAFETY: the tiles are configured for `rows` rows of 64 bytes. The caller guarantees
                // rows of two tiles in `y`, and a row or block of two tiles has been sliced. The second
                // tiles of rows are accessed only if there are more than 16 rows.
                unsafe {
                    match content {
                        None => asm!(
                            "tilezero tmm0",
                            "tilezero tmm1",
                            options(nostack, preserves_flags, nomem),
                        ),
                        Some((content, stride)) => asm!(
                            "tileloadd tmm0, [{y} + {stride}*1]",
                            "tileloadd tmm1, [{y} + {stride}*1 + 64]",
                            y = in(reg) content,
                            stride = in(reg) stride,
                            options(nostack, preserves_flags, readonly),
                        ),
                    }
                    if is_high {
                        match content {
                            None => asm!(
                                "tilezero tmm2",
                                "tilezero tmm3",
                                options(nostack, preserves_flags, nomem),
                            ),
                            Some((content, stride)) => asm!(
                                "tileloadd tmm2, [{y} + {stride}*1]",
                                "tileloadd tmm3, [{y} + {stride}*1 + 64]",
                                y = in(reg) second(content.cast(), stride),
                                stride = in(reg) stride,
                                options(nostack, preserves_flags, readonly),
                            ),
                        }
                    }
                }
                for (x, panel) in factors {
                    // Strides in bytes. That of `x` is not used for a single row, and may be anything then.
                    let x_stride = x.stride.wrapping_mul(size_of::<$x>());
                    let x_step = x.step.wrapping_mul(size_of::<$x>());
                    let steps = size_of_val(panel) / (TILE_ROWS * PANEL_STRIDE);
                    let (x, panel) = (x.values.as_ptr(), panel.as_ptr());
                    if steps == 0 {
                        continue;
                    }
                    // SAFETY: as above. The caller has checked that `x` has `steps` tiles of that
                    // height side by side, and that the panel has `steps` pairs of tiles.
                    unsafe {
                        if is_high {
                            asm!(
                                "2:",
                                "tileloadd tmm4, [{x} + {x_stride}*1]",
                                "tileloadd tmm6, [{panel} + {panel_stride}*1]",
                                "tileloadd tmm7, [{panel} + {panel_stride}*1 + 64]",
                                concat!($instruction, " tmm0, tmm4, tmm6"),
                                concat!($instruction, " tmm1, tmm4, tmm7"),
                                "tileloadd tmm5, [{second} + {x_stride}*1]",
                                concat!($instruction, " tmm2, tmm5, tmm6"),
                                concat!($instruction, " tmm3, tmm5, tmm7"),
                                "add {x}, {x_step}",
                                "add {second}, {x_step}",
                                "add {panel}, 2048",
                                "dec {steps}",
                                "jnz 2b",
                                x = inout(reg) x => _,
                                second = inout(reg) second(x.cast_mut().cast(), x_stride) => _,
                                panel = inout(reg) panel => _,
                                steps = inout(reg) steps => _,
                                x_stride = in(reg) x_stride,
                                x_step = in(reg) x_step,
                                panel_stride = in(reg) PANEL_STRIDE,
                                options(nostack, readonly),
                            );
                        } else {
                            asm!(
                                "2:",
                                "tileloadd tmm4, [{x} + {x_stride}*1]",
                                "tileloadd tmm6, [{panel} + {panel_stride}*1]",
                                "tileloadd tmm7, [{panel} + {panel_stride}*1 + 64]",
                                concat!($instruction, " tmm0, tmm4, tmm6"),
                                concat!($instruction, " tmm1, tmm4, tmm7"),
                                "add {x}, {x_step}",
                                "add {panel}, 2048",
                                "dec {steps}",
                                "jnz 2b",
                                x = inout(reg) x => _,
                                panel = inout(reg) panel => _,
                                steps = inout(reg) steps => _,
                                x_stride = in(reg) x_stride,
                                x_step = in(reg) x_step,
                                panel_stride = in(reg) PANEL_STRIDE,
                                options(nostack, readonly),
                            );
                        }
                    }
                }
                // SAFETY: as above.
                unsafe {
                    asm!(
                        "tilestored [{y} + {stride}*1], tmm0",
                        "tilestored [{y} + {stride}*1 + 64], tmm1",
                        y = in(reg) y,
                        stride = in(reg) y_stride,
                        options(nostack, preserves_flags),
                    );
                    if is_high {
                        asm!(
                            "tilestored [{y} + {stride}*1], tmm2",
                            "tilestored [{y} + {stride}*1 + 64], tmm3",
                            y = in(reg) second(y.cast(), y_stride),
                            stride = in(reg) y_stride,
                            options(nostack, preserves_flags),
                        );
                    }
                }
            }
        };
    }

    multiply!(multiply_i8, "tdpbusd", u8, i32);
    multiply!(multiply_bf16, "tdpbf16ps", u16, f32);
}

/// Other platforms, which have no [`Amx`].
#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
mod platform {
    use super::{Rows, Start};

    pub(super) fn is_usable() -> bool {
        false
    }

    pub(super) fn release() {}

    /// Is never called, because there is no [`Amx`](super::Amx).
    pub(super) fn multiply<'a, X: 'a, Y>(
        _rows: usize,
        _factors: impl Iterator<Item = (Rows<'a, X>, &'a [X])>,
        _y: *mut Y,
        _stride: usize,
        _start: Start<'_, Y>,
    ) {
    }

    pub(super) use {multiply as multiply_i8, multiply as multiply_bf16};
}

#[cfg(test)]
pub(crate) mod tests;
