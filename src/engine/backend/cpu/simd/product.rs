//! Dot products of rows with rows, in tiles of registers.
//!
//! Main type: [`Product`], a matrix product by address. The order of summation is told in the module
//! above. Refuses to know: which instruction set it is compiled for.

#![expect(unsafe_code, reason = "raw loads and stores, checked by the caller")]

use std::ops::Range;

use super::lanes::{Lanes, MAX_PHASES, Stored};

/// A matrix product by address: `x` `[n, k]`, `w` `[m, k]`, `out` `[n, m]` with rows `stride` apart.
#[derive(Clone, Copy)]
pub(super) struct Product<W> {
    pub(super) x: *const f32,
    pub(super) w: *const W,
    pub(super) k: usize,
    pub(super) n: usize,
    pub(super) m: usize,
    pub(super) stride: usize,
    pub(super) out: *mut f32,
}

/// Running sums of one dot product: element e is added to sum e mod 32.
const SUMS: usize = 32;

/// Elements beyond the last whole block of this size are added one by one, after the running sums.
const WHOLE: usize = 16;

/// Rows of x that a tile takes together.
const TILE_ROWS: usize = 4;

/// Elements after which the phases take turns: so few that x and w are still in the first-level cache at
/// the next turn.
const TURN: usize = 1024;

/// Rows of x that stay in the second-level cache while the weights stream by, in bytes.
const BLOCK_BYTES: usize = 256 << 10;

/// Running sums of `N × M` dot products in registers: phase p holds the sums from p · `WIDTH` on. Wider
/// registers need fewer phases.
type Sums<L, const N: usize, const M: usize> = [[[L; M]; N]; MAX_PHASES];

#[expect(
    clippy::needless_range_loop,
    reason = "indices name registers: the loops are unrolled"
)]
impl<W: Stored> Product<W> {
    /// Few rows (decoding): one row of w after the other, so that memory is read as one stream. 16-byte
    /// loads in four independent chains came nearest to a plain streaming read (92–97 %); full cache
    /// lines at once, two rows side by side or prefetch instructions all fell to a half or two thirds.
    ///
    /// # Safety
    /// The matrices must be valid at the stated sizes, and the processor must have `L`.
    #[inline(always)]
    pub(super) unsafe fn run_rows<L: Lanes>(self) {
        // SAFETY: rows and columns are within the sizes that the caller vouches for.
        unsafe {
            for column in 0..self.m {
                let mut row = 0;
                while row + 2 <= self.n {
                    self.row_tile::<L, 2>(row, column);
                    row += 2;
                }
                if row < self.n {
                    self.row_tile::<L, 1>(row, column);
                }
            }
        }
    }

    /// Many rows (prefill): tiles of `TILE_ROWS × M`, every running sum of a phase in a register.
    ///
    /// # Safety
    /// As `run_rows`.
    #[inline(always)]
    pub(super) unsafe fn run_tiles<L: Lanes, const M: usize>(self) {
        let rows = (BLOCK_BYTES / (4 * self.k.max(1)))
            .max(1)
            .next_multiple_of(TILE_ROWS);
        let mut first = 0;
        while first < self.n {
            let last = (first + rows).min(self.n);
            let mut column = 0;
            // SAFETY: rows and columns are within the sizes that the caller vouches for.
            unsafe {
                while column + M <= self.m {
                    self.strip::<L, M>(first, last, column);
                    column += M;
                }
                while column < self.m {
                    self.strip::<L, 1>(first, last, column);
                    column += 1;
                }
            }
            first = last;
        }
    }

    pub(super) fn is_few_rows(&self) -> bool {
        self.n <= TILE_ROWS
    }

    /// Rows `first..last` of x with `M` rows of w.
    ///
    /// # Safety
    /// As `run_rows`.
    #[inline(always)]
    unsafe fn strip<L: Lanes, const M: usize>(self, first: usize, last: usize, column: usize) {
        let mut row = first;
        // SAFETY: by the caller.
        unsafe {
            while row + TILE_ROWS <= last {
                self.tile::<L, TILE_ROWS, M>(row, column);
                row += TILE_ROWS;
            }
            match last - row {
                3 => self.tile::<L, 3, M>(row, column),
                2 => self.tile::<L, 2, M>(row, column),
                1 => self.tile::<L, 1, M>(row, column),
                _ => {}
            }
        }
    }

    /// `N` dot products with one row of w, all phases side by side.
    ///
    /// # Safety
    /// As `run_rows`; the rows must be within bounds.
    #[inline(always)]
    unsafe fn row_tile<L: Lanes, const N: usize>(self, row: usize, column: usize) {
        // SAFETY: by the caller; blocks end at or before `whole`.
        unsafe {
            let (x, w) = (self.x.add(row * self.k), self.w.add(column * self.k));
            let mut sums: Sums<L, N, 1> = [[[L::zero(); 1]; N]; MAX_PHASES];
            let whole = self.k - self.k % WHOLE;
            let mut at = 0;
            while at + SUMS <= whole {
                for phase in 0..L::PHASES {
                    self.step(x, w, at + phase * L::WIDTH, &mut sums[phase]);
                }
                at += SUMS;
            }
            if at < whole {
                for phase in 0..L::PHASES / 2 {
                    self.step(x, w, at + phase * L::WIDTH, &mut sums[phase]);
                }
            }
            self.finish(row, column, &sums);
        }
    }

    /// `N × M` dot products, the phases in turns.
    ///
    /// # Safety
    /// As `row_tile`.
    #[inline(always)]
    unsafe fn tile<L: Lanes, const N: usize, const M: usize>(self, row: usize, column: usize) {
        // SAFETY: by the caller; blocks end at or before `whole`.
        unsafe {
            let (x, w) = (self.x.add(row * self.k), self.w.add(column * self.k));
            let mut sums: Sums<L, N, M> = [[[L::zero(); M]; N]; MAX_PHASES];
            let whole = self.k - self.k % WHOLE;
            for first in (0..whole).step_by(TURN) {
                let last = (first + TURN).min(whole);
                for (phase, sums) in sums.iter_mut().take(L::PHASES).enumerate() {
                    *sums = self.turn(x, w, first + phase * L::WIDTH..last, *sums);
                }
            }
            self.finish(row, column, &sums);
        }
    }

    /// One phase's share of a range of elements.
    ///
    /// # Safety
    /// As `step`, for each block that begins in `range`.
    #[inline(always)]
    unsafe fn turn<L: Lanes, const N: usize, const M: usize>(
        self,
        x: *const f32,
        w: *const W,
        range: Range<usize>,
        mut sums: [[L; M]; N],
    ) -> [[L; M]; N] {
        let mut at = range.start;
        while at < range.end {
            // SAFETY: by the caller.
            unsafe { self.step(x, w, at, &mut sums) };
            at += SUMS;
        }
        sums
    }

    /// Adds the products of one block of `WIDTH` elements.
    ///
    /// # Safety
    /// `x` and `w` must begin `N` and `M` rows of k elements, and the block must end within them.
    #[inline(always)]
    unsafe fn step<L: Lanes, const N: usize, const M: usize>(
        self,
        x: *const f32,
        w: *const W,
        at: usize,
        sums: &mut [[L; M]; N],
    ) {
        // SAFETY: by the caller.
        unsafe {
            let mut xs = [L::zero(); N];
            for (i, xs) in xs.iter_mut().enumerate() {
                *xs = L::load(x.add(i * self.k + at));
            }
            for j in 0..M {
                let ws: L = W::load(w.add(j * self.k + at));
                for (xs, sums) in xs.iter().zip(sums.iter_mut()) {
                    sums[j] = xs.fma(ws, sums[j]);
                }
            }
        }
    }

    /// Adds up the running sums and writes the results.
    ///
    /// # Safety
    /// As `row_tile`.
    #[inline(always)]
    unsafe fn finish<L: Lanes, const N: usize, const M: usize>(
        self,
        row: usize,
        column: usize,
        sums: &Sums<L, N, M>,
    ) {
        // SAFETY: by the caller.
        unsafe {
            let out = self.out.add(row * self.stride + column);
            for i in 0..N {
                for j in 0..M {
                    let phases = [sums[0][i][j], sums[1][i][j], sums[2][i][j], sums[3][i][j]];
                    *out.add(i * self.stride + j) = L::total(phases);
                }
            }
            let whole = self.k - self.k % WHOLE;
            if whole < self.k {
                self.tail(row..row + N, column..column + M, whole);
            }
        }
    }

    /// Adds the products of the elements from `whole` on, one after another.
    ///
    /// # Safety
    /// As `row_tile`.
    #[inline(never)]
    unsafe fn tail(self, rows: Range<usize>, columns: Range<usize>, whole: usize) {
        for row in rows {
            for column in columns.clone() {
                // SAFETY: row and column are within bounds, by the caller; `at` is below k.
                unsafe {
                    let mut sum = 0.0;
                    for at in whole..self.k {
                        let w = (*self.w.add(column * self.k + at)).widen();
                        sum += *self.x.add(row * self.k + at) * w;
                    }
                    *self.out.add(row * self.stride + column) += sum;
                }
            }
        }
    }
}
