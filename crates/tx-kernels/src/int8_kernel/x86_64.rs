//! Kernels with vectors of x86-64: the instruction `vpdpbusd`, or three instructions that do the same.
#![allow(unsafe_code)]

use std::arch::{
    asm,
    x86_64::{
        __m256, __m256i, __m512, __m512i, _CMP_LE_OQ, _CMP_NLE_UQ, _mm256_add_epi32, _mm256_add_ps,
        _mm256_and_ps, _mm256_cmp_ps, _mm256_cvtepi32_ps, _mm256_fmadd_ps, _mm256_loadu_ps,
        _mm256_loadu_si256, _mm256_mul_ps, _mm256_set1_epi16, _mm256_set1_epi32, _mm256_set1_ps,
        _mm256_setzero_si256, _mm256_storeu_ps, _mm512_add_epi32, _mm512_add_ps,
        _mm512_cmp_ps_mask, _mm512_cvtepi32_ps, _mm512_fmadd_ps, _mm512_loadu_ps,
        _mm512_loadu_si512, _mm512_maskz_mov_ps, _mm512_mul_ps, _mm512_set1_epi32, _mm512_set1_ps,
        _mm512_setzero_si512, _mm512_storeu_ps,
    },
};

use super::{
    Product,
    tile::{Panels, Vectors, tile},
};
use crate::layout::PANEL;

/// Proof that the CPU has `vpdpbusd` for vectors of 512 bits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Avx512Vnni(());

/// Proof that the CPU has `vpdpbusd` for vectors of 256 bits.
#[derive(Debug, Clone, Copy)]
pub(super) struct AvxVnni(());

/// Proof that the CPU has vectors of 256 bits. `vpmaddubsw` adds the products of two bytes in 16 bits, for which
/// the sums of two weights are small enough ([`LARGEST_PAIR`](crate::quantized_weight::LARGEST_PAIR)).
#[derive(Debug, Clone, Copy)]
pub(super) struct Avx2(());

/// Calls [`tile`] for all panels and rows with a number of rows that is a constant. `$v` is the number
/// of vectors of a tile, `$most` the maximum number of its rows; the tiles have similar heights,
/// because a low one does not fill the pipeline.
macro_rules! multiply {
    ($vectors:ty, $v:literal, $most:literal, $product:ident, $($rows:literal => $parts:literal),+) => {{
        let count = $product.rows();
        let tiles = count.div_ceil($most).max(1);
        let height = count.div_ceil(tiles).max(1);
        let panels = Panels::of($product);
        for index in 0..panels.len() {
            let mut first = 0;
            while first < count {
                let rows = height.min(count - first);
                let mut ahead = panels.ahead(index, first / height, tiles);
                for start in (0..PANEL / <$vectors>::LANES).step_by($v) {
                    // SAFETY: the caller has the proof that the CPU has the instructions.
                    unsafe {
                        match rows {
                            $($rows => tile::<$vectors, $v, $rows, $parts>(
                                $product, panels, index, start, first, ahead,
                            ),)+
                            _ => {}
                        }
                    }
                    // The first part of a panel has prefetched all of the next one.
                    ahead = panels.ahead(panels.len(), 0, 1);
                }
                first += rows;
            }
        }
    }};
}

impl Avx512Vnni {
    pub(super) fn new() -> Option<Self> {
        let found = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512vnni");
        found.then_some(Self(()))
    }

    pub(super) fn multiply(self, product: &mut Product<'_>) {
        #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
        fn run(product: &mut Product<'_>) {
            multiply!(
                Avx512Vnni, 2, 11, product,
                1 => 4, 2 => 4, 3 => 2, 4 => 2, 5 => 1, 6 => 1, 7 => 1, 8 => 1, 9 => 1, 10 => 1,
                11 => 1
            );
        }
        // SAFETY: `new` has found the instructions.
        unsafe { run(product) }
    }
}

impl AvxVnni {
    pub(super) fn new() -> Option<Self> {
        let found = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("avxvnni");
        found.then_some(Self(()))
    }

    pub(super) fn multiply(self, product: &mut Product<'_>) {
        #[target_feature(enable = "avx2,fma,avxvnni")]
        fn run(product: &mut Product<'_>) {
            // Tiles of few rows need more vectors, because each addition waits for the previous one to the same sum.
            if product.rows() <= 2 {
                multiply!(AvxVnni, 4, 2, product, 1 => 2, 2 => 1);
            } else {
                multiply!(AvxVnni, 2, 6, product, 1 => 2, 2 => 2, 3 => 2, 4 => 1, 5 => 1, 6 => 1);
            }
        }
        // SAFETY: `new` has found the instructions.
        unsafe { run(product) }
    }
}

impl Avx2 {
    pub(super) fn new() -> Option<Self> {
        let found = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
        found.then_some(Self(()))
    }

    pub(super) fn multiply(self, product: &mut Product<'_>) {
        #[target_feature(enable = "avx2,fma")]
        fn run(product: &mut Product<'_>) {
            multiply!(Avx2, 2, 4, product, 1 => 2, 2 => 1, 3 => 1, 4 => 1);
        }
        // SAFETY: `new` has found the instructions.
        unsafe { run(product) }
    }
}

/// Dot products of four bytes in vectors of 256 bits.
///
/// # Safety of the methods
///
/// That of [`Vectors`].
pub(super) trait Dot256: Copy {
    unsafe fn multiply_add(sums: __m256i, x: __m256i, weights: __m256i) -> __m256i;
}

impl Dot256 for AvxVnni {
    #[inline(always)]
    unsafe fn multiply_add(sums: __m256i, x: __m256i, weights: __m256i) -> __m256i {
        unsafe { add_dot_products(sums, x, weights) }
    }
}

impl Dot256 for Avx2 {
    #[inline(always)]
    unsafe fn multiply_add(sums: __m256i, x: __m256i, weights: __m256i) -> __m256i {
        unsafe { add_products(sums, x, weights) }
    }
}

// The products are in assembly, because the compiler would change the order of the additions, or load operands of
// later products before it uses those of earlier ones, and keep what exceeds the registers in memory.

/// Adds to each sum the products of four unsigned bytes of `x` and four signed bytes of `weights`.
#[inline]
#[target_feature(enable = "avx2")]
fn add_products(mut sums: __m256i, x: __m256i, weights: __m256i) -> __m256i {
    // SAFETY: the function is compiled for CPUs with the instructions, which change the outputs only.
    unsafe {
        asm!(
            "vpmaddubsw {products}, {x}, {weights}",
            "vpmaddwd {products}, {products}, {ones}",
            "vpaddd {sums}, {sums}, {products}",
            sums = inout(ymm_reg) sums,
            products = out(ymm_reg) _,
            x = in(ymm_reg) x,
            weights = in(ymm_reg) weights,
            ones = in(ymm_reg) _mm256_set1_epi16(1),
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    sums
}

/// [`add_products`] with AVX-VNNI.
#[inline]
#[target_feature(enable = "avx2,avxvnni")]
fn add_dot_products(mut sums: __m256i, x: __m256i, weights: __m256i) -> __m256i {
    // SAFETY: the function is compiled for CPUs with the instruction, which changes the output only.
    unsafe {
        asm!(
            "{{vex}} vpdpbusd {sums}, {x}, {weights}",
            sums = inout(ymm_reg) sums,
            x = in(ymm_reg) x,
            weights = in(ymm_reg) weights,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    sums
}

/// [`add_products`] with AVX-512 VNNI.
#[inline]
#[target_feature(enable = "avx512f,avx512vnni")]
fn add_wide_dot_products(mut sums: __m512i, x: __m512i, weights: __m512i) -> __m512i {
    // SAFETY: the function is compiled for CPUs with the instruction, which changes the output only.
    unsafe {
        asm!(
            "vpdpbusd {sums}, {x}, {weights}",
            sums = inout(zmm_reg) sums,
            x = in(zmm_reg) x,
            weights = in(zmm_reg) weights,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    sums
}

/// Checks the length of a vector in memory; the compiler removes the check where it is known.
#[inline(always)]
fn check<T>(slice: &[T], len: usize) {
    assert!(slice.len() >= len);
}

impl Vectors for Avx512Vnni {
    type Sums = __m512i;
    type Bytes = __m512i;
    type Floats = __m512;
    const LANES: usize = 16;

    #[inline(always)]
    unsafe fn zero() -> __m512i {
        unsafe { _mm512_setzero_si512() }
    }

    #[inline(always)]
    unsafe fn load_sums(sums: &[i32]) -> __m512i {
        check(sums, 16);
        unsafe { _mm512_loadu_si512(sums.as_ptr().cast()) }
    }

    #[inline(always)]
    unsafe fn splat_bytes(bytes: [u8; 4]) -> __m512i {
        unsafe { _mm512_set1_epi32(i32::from_le_bytes(bytes)) }
    }

    #[inline(always)]
    unsafe fn multiply_add(sums: __m512i, x: __m512i, weights: &[u8]) -> __m512i {
        check(weights, 64);
        unsafe { add_wide_dot_products(sums, x, _mm512_loadu_si512(weights.as_ptr().cast())) }
    }

    #[inline(always)]
    unsafe fn add_sums(a: __m512i, b: __m512i) -> __m512i {
        unsafe { _mm512_add_epi32(a, b) }
    }

    #[inline(always)]
    unsafe fn splat(x: f32) -> __m512 {
        unsafe { _mm512_set1_ps(x) }
    }

    #[inline(always)]
    unsafe fn load(x: &[f32]) -> __m512 {
        check(x, 16);
        unsafe { _mm512_loadu_ps(x.as_ptr()) }
    }

    #[inline(always)]
    unsafe fn store(x: __m512, to: &mut [f32]) {
        check(to, 16);
        unsafe { _mm512_storeu_ps(to.as_mut_ptr(), x) }
    }

    #[inline(always)]
    unsafe fn multiply(a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_mul_ps(a, b) }
    }

    #[inline(always)]
    unsafe fn add(a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_add_ps(a, b) }
    }

    #[inline(always)]
    unsafe fn scale(sums: __m512i, scale: __m512, bias: __m512) -> __m512 {
        unsafe { _mm512_fmadd_ps(_mm512_cvtepi32_ps(sums), scale, bias) }
    }

    #[inline(always)]
    unsafe fn relu(x: __m512) -> __m512 {
        unsafe {
            let is_negative = _mm512_cmp_ps_mask::<_CMP_LE_OQ>(x, _mm512_set1_ps(0.0));
            _mm512_maskz_mov_ps(!is_negative, x)
        }
    }
}

impl<T: Dot256> Vectors for T {
    type Sums = __m256i;
    type Bytes = __m256i;
    type Floats = __m256;
    const LANES: usize = 8;

    #[inline(always)]
    unsafe fn zero() -> __m256i {
        unsafe { _mm256_setzero_si256() }
    }

    #[inline(always)]
    unsafe fn load_sums(sums: &[i32]) -> __m256i {
        check(sums, 8);
        unsafe { _mm256_loadu_si256(sums.as_ptr().cast()) }
    }

    #[inline(always)]
    unsafe fn splat_bytes(bytes: [u8; 4]) -> __m256i {
        unsafe { _mm256_set1_epi32(i32::from_le_bytes(bytes)) }
    }

    #[inline(always)]
    unsafe fn multiply_add(sums: __m256i, x: __m256i, weights: &[u8]) -> __m256i {
        check(weights, 32);
        let weights = unsafe { _mm256_loadu_si256(weights.as_ptr().cast()) };
        unsafe { <T as Dot256>::multiply_add(sums, x, weights) }
    }

    #[inline(always)]
    unsafe fn add_sums(a: __m256i, b: __m256i) -> __m256i {
        unsafe { _mm256_add_epi32(a, b) }
    }

    #[inline(always)]
    unsafe fn splat(x: f32) -> __m256 {
        unsafe { _mm256_set1_ps(x) }
    }

    #[inline(always)]
    unsafe fn load(x: &[f32]) -> __m256 {
        check(x, 8);
        unsafe { _mm256_loadu_ps(x.as_ptr()) }
    }

    #[inline(always)]
    unsafe fn store(x: __m256, to: &mut [f32]) {
        check(to, 8);
        unsafe { _mm256_storeu_ps(to.as_mut_ptr(), x) }
    }

    #[inline(always)]
    unsafe fn multiply(a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_mul_ps(a, b) }
    }

    #[inline(always)]
    unsafe fn add(a: __m256, b: __m256) -> __m256 {
        unsafe { _mm256_add_ps(a, b) }
    }

    #[inline(always)]
    unsafe fn scale(sums: __m256i, scale: __m256, bias: __m256) -> __m256 {
        unsafe { _mm256_fmadd_ps(_mm256_cvtepi32_ps(sums), scale, bias) }
    }

    #[inline(always)]
    unsafe fn relu(x: __m256) -> __m256 {
        unsafe { _mm256_and_ps(_mm256_cmp_ps::<_CMP_NLE_UQ>(x, _mm256_set1_ps(0.0)), x) }
    }
}
