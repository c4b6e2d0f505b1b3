//! Vector registers as one interface, and the types that weights are stored in.
//!
//! Main type: the trait [`Lanes`], one function an instruction. Refuses to know: what is computed.

#![expect(unsafe_code, reason = "vector instructions and raw loads")]

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

use half::{bf16, f16};

/// A vector register of f32 lanes.
///
/// # Safety
/// Every function may be called only where the processor has the register's instructions; pointers must
/// be valid for `WIDTH` elements, of any alignment that their type allows.
pub unsafe trait Lanes: Copy {
    /// 16 or 8 lanes.
    const WIDTH: usize;
    /// Registers that hold 32 running sums.
    const PHASES: usize = 32 / Self::WIDTH;
    unsafe fn zero() -> Self;
    unsafe fn splat(value: f32) -> Self;
    unsafe fn load(from: *const f32) -> Self;
    unsafe fn load_f16(from: *const f16) -> Self;
    unsafe fn load_bf16(from: *const bf16) -> Self;
    unsafe fn store(self, to: *mut f32);
    /// `self * factor + addend`
    unsafe fn fma(self, factor: Self, addend: Self) -> Self;
    /// All 32 running sums: l + (l + 16), then l + (l + 8), then a fixed tree of 8. The same order for
    /// every width.
    unsafe fn total(phases: [Self; MAX_PHASES]) -> f32;
}

pub const MAX_PHASES: usize = 4;

/// A type in which weights are stored.
pub trait Stored: Copy {
    fn widen(self) -> f32;
    /// # Safety
    /// As [`Lanes`].
    unsafe fn load<L: Lanes>(from: *const Self) -> L;
}

impl Stored for f32 {
    fn widen(self) -> f32 {
        self
    }

    #[inline(always)]
    unsafe fn load<L: Lanes>(from: *const Self) -> L {
        // SAFETY: by the caller.
        unsafe { L::load(from) }
    }
}

impl Stored for f16 {
    fn widen(self) -> f32 {
        self.to_f32()
    }

    #[inline(always)]
    unsafe fn load<L: Lanes>(from: *const Self) -> L {
        // SAFETY: by the caller.
        unsafe { L::load_f16(from) }
    }
}

impl Stored for bf16 {
    fn widen(self) -> f32 {
        self.to_f32()
    }

    #[inline(always)]
    unsafe fn load<L: Lanes>(from: *const Self) -> L {
        // SAFETY: by the caller.
        unsafe { L::load_bf16(from) }
    }
}

// SAFETY: each function is the instruction that its name says.
#[cfg(target_arch = "x86_64")]
unsafe impl Lanes for __m512 {
    const WIDTH: usize = 16;

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: by the caller.
        unsafe { _mm512_setzero_ps() }
    }

    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        // SAFETY: by the caller.
        unsafe { _mm512_set1_ps(value) }
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: by the caller.
        unsafe { _mm512_loadu_ps(from) }
    }

    #[inline(always)]
    unsafe fn load_f16(from: *const f16) -> Self {
        // SAFETY: by the caller.
        unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(from.cast())) }
    }

    #[inline(always)]
    unsafe fn load_bf16(from: *const bf16) -> Self {
        // SAFETY: by the caller. A bf16 is the upper half of an f32.
        unsafe {
            let wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(from.cast()));
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(wide))
        }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: by the caller.
        unsafe { _mm512_storeu_ps(to, self) }
    }

    #[inline(always)]
    unsafe fn fma(self, factor: Self, addend: Self) -> Self {
        // SAFETY: by the caller.
        unsafe { _mm512_fmadd_ps(self, factor, addend) }
    }

    #[inline(always)]
    unsafe fn total([low, high, ..]: [Self; MAX_PHASES]) -> f32 {
        // SAFETY: by the caller.
        unsafe {
            let sum = _mm512_add_ps(low, high);
            let upper = _mm256_castpd_ps(_mm512_extractf64x4_pd::<1>(_mm512_castps_pd(sum)));
            tree_of_register(_mm256_add_ps(_mm512_castps512_ps256(sum), upper))
        }
    }
}

// SAFETY: each function is the instruction that its name says.
#[cfg(target_arch = "x86_64")]
unsafe impl Lanes for __m256 {
    const WIDTH: usize = 8;

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: by the caller.
        unsafe { _mm256_setzero_ps() }
    }

    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        // SAFETY: by the caller.
        unsafe { _mm256_set1_ps(value) }
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: by the caller.
        unsafe { _mm256_loadu_ps(from) }
    }

    #[inline(always)]
    unsafe fn load_f16(from: *const f16) -> Self {
        // SAFETY: by the caller.
        unsafe { _mm256_cvtph_ps(_mm_loadu_si128(from.cast())) }
    }

    #[inline(always)]
    unsafe fn load_bf16(from: *const bf16) -> Self {
        // SAFETY: by the caller. A bf16 is the upper half of an f32.
        unsafe {
            let wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(from.cast()));
            _mm256_castsi256_ps(_mm256_slli_epi32::<16>(wide))
        }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: by the caller.
        unsafe { _mm256_storeu_ps(to, self) }
    }

    #[inline(always)]
    unsafe fn fma(self, factor: Self, addend: Self) -> Self {
        // SAFETY: by the caller.
        unsafe { _mm256_fmadd_ps(self, factor, addend) }
    }

    #[inline(always)]
    unsafe fn total([a, b, c, d]: [Self; MAX_PHASES]) -> f32 {
        // SAFETY: by the caller.
        unsafe { tree_of_register(_mm256_add_ps(_mm256_add_ps(a, c), _mm256_add_ps(b, d))) }
    }
}

// SAFETY: plain arithmetic.
unsafe impl Lanes for [f32; 8] {
    const WIDTH: usize = 8;

    #[inline(always)]
    unsafe fn zero() -> Self {
        [0.0; 8]
    }

    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        [value; 8]
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: by the caller.
        unsafe { from.cast::<Self>().read_unaligned() }
    }

    #[inline(always)]
    unsafe fn load_f16(from: *const f16) -> Self {
        // SAFETY: by the caller.
        unsafe { from.cast::<[f16; 8]>().read_unaligned() }.map(f16::to_f32)
    }

    #[inline(always)]
    unsafe fn load_bf16(from: *const bf16) -> Self {
        // SAFETY: by the caller.
        unsafe { from.cast::<[bf16; 8]>().read_unaligned() }
            .map(|value| f32::from_bits(u32::from(value.to_bits()) << 16))
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: by the caller.
        unsafe { to.cast::<Self>().write_unaligned(self) }
    }

    #[inline(always)]
    unsafe fn fma(self, factor: Self, addend: Self) -> Self {
        std::array::from_fn(|lane| self[lane] * factor[lane] + addend[lane])
    }

    #[inline(always)]
    unsafe fn total([a, b, c, d]: [Self; MAX_PHASES]) -> f32 {
        tree(std::array::from_fn(|lane| {
            (a[lane] + c[lane]) + (b[lane] + d[lane])
        }))
    }
}

#[inline(always)]
fn tree(lanes: [f32; 8]) -> f32 {
    let [a, b, c, d, e, f, g, h] = lanes;
    ((a + e) + (c + g)) + ((b + f) + (d + h))
}

/// `tree` without leaving the registers.
///
/// # Safety
/// The processor must have AVX.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn tree_of_register(lanes: __m256) -> f32 {
    // SAFETY: by the caller.
    unsafe {
        let four = _mm_add_ps(
            _mm256_castps256_ps128(lanes),
            _mm256_extractf128_ps::<1>(lanes),
        );
        let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
        _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps::<1>(two, two)))
    }
}

/// Asks for the cache line at `from`, which may be any address.
#[inline(always)]
pub fn prefetch<T>(from: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch of an address that is not mapped does nothing.
    unsafe {
        _mm_prefetch::<_MM_HINT_T0>(from.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = from;
}
