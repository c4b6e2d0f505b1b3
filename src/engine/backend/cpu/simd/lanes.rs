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
    /// `total` of several dot products, in fewer instructions.
    #[inline(always)]
    unsafe fn totals(products: [[Self; MAX_PHASES]; TOTALS]) -> [f32; TOTALS] {
        // SAFETY: by the caller.
        products.map(|phases| unsafe { Self::total(phases) })
    }
}

pub const MAX_PHASES: usize = 4;

/// Dot products whose running sums are added up together.
pub const TOTALS: usize = 8;

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
        unsafe { tree_of_register(halves(_mm512_add_ps(low, high))) }
    }

    #[inline(always)]
    unsafe fn totals(products: [[Self; MAX_PHASES]; TOTALS]) -> [f32; TOTALS] {
        // SAFETY: by the caller.
        unsafe {
            let mut sums = [_mm256_setzero_ps(); TOTALS];
            for (sum, [low, high, ..]) in sums.iter_mut().zip(products) {
                *sum = halves(_mm512_add_ps(low, high));
            }
            trees_of_registers(sums)
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
            let twice = _mm256_broadcastsi128_si256(_mm_loadu_si128(from.cast()));
            let places = _mm256_setr_epi8(
                -1, -1, 0, 1, -1, -1, 2, 3, -1, -1, 4, 5, -1, -1, 6, 7, //
                -1, -1, 8, 9, -1, -1, 10, 11, -1, -1, 12, 13, -1, -1, 14, 15,
            );
            _mm256_castsi256_ps(_mm256_shuffle_epi8(twice, places))
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

    #[inline(always)]
    unsafe fn totals(products: [[Self; MAX_PHASES]; TOTALS]) -> [f32; TOTALS] {
        // SAFETY: by the caller.
        unsafe {
            let mut sums = [_mm256_setzero_ps(); TOTALS];
            for (sum, [a, b, c, d]) in sums.iter_mut().zip(products) {
                *sum = _mm256_add_ps(_mm256_add_ps(a, c), _mm256_add_ps(b, d));
            }
            trees_of_registers(sums)
        }
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

/// The upper eight lanes added to the lower.
///
/// # Safety
/// The processor must have AVX-512.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn halves(lanes: __m512) -> __m256 {
    // SAFETY: by the caller.
    unsafe {
        let upper = _mm256_castpd_ps(_mm512_extractf64x4_pd::<1>(_mm512_castps_pd(lanes)));
        _mm256_add_ps(_mm512_castps512_ps256(lanes), upper)
    }
}

/// `tree` of each register: registers are added to one another transposed, so that no lane is idle.
///
/// # Safety
/// The processor must have AVX.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn trees_of_registers([a, b, c, d, e, f, g, h]: [__m256; TOTALS]) -> [f32; TOTALS] {
    // SAFETY: by the caller.
    unsafe {
        let four = [
            add_halves(a, e),
            add_halves(b, f),
            add_halves(c, g),
            add_halves(d, h),
        ];
        let two = [add_pairs(four[0], four[1]), add_pairs(four[2], four[3])];
        let one = _mm256_add_ps(
            _mm256_shuffle_ps::<0b10_00_10_00>(two[0], two[1]),
            _mm256_shuffle_ps::<0b11_01_11_01>(two[0], two[1]),
        );
        let mut totals = [0.0; TOTALS];
        _mm256_storeu_ps(totals.as_mut_ptr(), one);
        totals
    }
}

/// Lanes l and l + 4 added: of `a` below, of `b` above.
///
/// # Safety
/// As `trees_of_registers`.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn add_halves(a: __m256, b: __m256) -> __m256 {
    // SAFETY: by the caller.
    unsafe {
        _mm256_add_ps(
            _mm256_permute2f128_ps::<0x20>(a, b),
            _mm256_permute2f128_ps::<0x31>(a, b),
        )
    }
}

/// In each half, lanes l and l + 2 added: of `a` below, of `b` above.
///
/// # Safety
/// As `trees_of_registers`.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn add_pairs(a: __m256, b: __m256) -> __m256 {
    // SAFETY: by the caller.
    unsafe {
        _mm256_add_ps(
            _mm256_shuffle_ps::<0b01_00_01_00>(a, b),
            _mm256_shuffle_ps::<0b11_10_11_10>(a, b),
        )
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
