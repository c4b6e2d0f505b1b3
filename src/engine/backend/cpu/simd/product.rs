//! Dot products of rows with rows, in blocks of registers.
//!
//! Main type: [`Product`], a matrix product by address. The order of summation is told in the module
//! above. Refuses to know: which instruction set it is compiled for.

#![expect(unsafe_code, reason = "raw loads and stores, checked by the caller")]

use std::hint::black_box;
use std::mem::MaybeUninit;
use std::ops::Range;

use super::lanes::{Lanes, MAX_PHASES, Stored, TOTALS, prefetch};

/// A matrix product by address: `x` `[n, k]`, `w` `[m, k]`, `out` `[n, m]` with rows `stride` apart.
#[derive(Clone, Copy)]
pub struct Product<W> {
    pub x: *const f32,
    pub w: *const W,
    pub k: usize,
    pub n: usize,
    pub m: usize,
    pub stride: usize,
    pub out: *mut f32,
}

/// Running sums of one dot product: element e is added to sum e mod 32.
const SUMS: usize = 32;

/// Elements beyond the last whole block of this size are added one by one, after the running sums.
const WHOLE: usize = 16;

/// Elements after which phases and groups take turns: so few that what a block holds (x, one group of w
/// and all running sums) is still in the first-level cache at the next turn.
const TURN: usize = 1024;

/// Groups of columns in a block.
const GROUPS: usize = 2;

/// Rows of x that stay in the second-level cache while the weights stream by, in bytes.
const BLOCK_BYTES: usize = 512 << 10;

/// Bytes of a cache line.
const LINE: usize = 64;

/// One phase's running sums of `N × M` dot products, in registers: phase p holds the sums from p · `WIDTH`
/// on. Wider registers need fewer phases.
type Sums<L, const N: usize, const M: usize> = [[L; M]; N];

#[expect(
    clippy::needless_range_loop,
    reason = "indices name registers: the loops are unrolled"
)]
impl<W: Stored> Product<W> {
    /// Short rows and few of them (attention's queries with a page of keys): one row of w after the other.
    ///
    /// # Safety
    /// The matrices must be valid at the stated sizes, and the processor must have `L`.
    #[inline(always)]
    pub unsafe fn run_rows<L: Lanes>(self) {
        // SAFETY: rows and columns are within the sizes that the caller vouches for.
        unsafe { self.columns::<L>(0..self.n, 0..self.m) }
    }

    /// # Safety
    /// As `run_rows`, for rows and columns within bounds.
    #[inline(always)]
    unsafe fn columns<L: Lanes>(self, rows: Range<usize>, columns: Range<usize>) {
        let mut row = rows.start;
        while row + 2 <= rows.end {
            for column in columns.clone() {
                // SAFETY: by the caller.
                unsafe { self.row_tile::<L, 2, 1>(row, column, 0) };
            }
            row += 2;
        }
        if row < rows.end {
            for column in columns {
                // SAFETY: by the caller.
                unsafe { self.row_tile::<L, 1, 1>(row, column, 0) };
            }
        }
    }

    /// True where one row after the other is faster than blocks: at most `rows` short rows, or few elements.
    pub fn is_small(&self, rows: usize) -> bool {
        self.n <= rows && self.k < TURN / 2 || self.n * self.k < 256
    }

    /// One row of x with many rows of w, as one token has it: two rows of w side by side, half of all apart, so that their
    /// sums stay in registers and w is two long streams. Those the processor fetches ahead by itself, sooner than rows
    /// beside each other that are asked for: 32 GB/s against 23 on two threads of a Zen 3 that reads 30 as one stream each.
    ///
    /// # Safety
    /// As `run_rows`; there is one row.
    #[inline(always)]
    pub unsafe fn run_row<L: Lanes>(self) {
        let half = self.m / 2;
        for column in 0..half {
            // SAFETY: columns are within the sizes that the caller vouches for.
            unsafe { self.row_tile::<L, 1, 2>(0, column, half) };
        }
        // SAFETY: as above.
        unsafe { self.columns::<L>(0..1, 2 * half..self.m) };
    }

    /// Blocks of `rows` × `GROUPS` · M, the rows as even as can be, so that a row more never costs less.
    /// Within a block x is read from the first-level cache; blocks of the same columns follow one another,
    /// so that w comes from memory once, asked for ahead of its use.
    ///
    /// # Safety
    /// As `run_rows`; `rows` is 6 at the most.
    #[inline(always)]
    pub unsafe fn run_blocks<L: Lanes, const M: usize>(self, rows: usize) {
        let most = (BLOCK_BYTES / (4 * self.k.max(1))).max(rows);
        for rows_in_cache in even_parts(0..self.n, most) {
            let mut column = 0;
            while column + M <= self.m {
                let groups = ((self.m - column) / M).min(GROUPS);
                let mut ahead = true;
                for part in even_parts(rows_in_cache.clone(), rows) {
                    // SAFETY: rows and columns are within the sizes that the caller vouches for.
                    unsafe { self.block_of::<L, M>(part, column, groups, ahead) };
                    ahead = false;
                }
                column += groups * M;
            }
            // SAFETY: as above.
            unsafe { self.columns::<L>(rows_in_cache, column..self.m) };
        }
    }

    /// # Safety
    /// As `block`.
    #[inline(always)]
    unsafe fn block_of<L: Lanes, const M: usize>(
        self,
        rows: Range<usize>,
        column: usize,
        groups: usize,
        ahead: bool,
    ) {
        let row = rows.start;
        // SAFETY: by the caller.
        unsafe {
            match rows.len() {
                1 => self.block::<L, 1, M>(row, column, groups, ahead),
                2 => self.block::<L, 2, M>(row, column, groups, ahead),
                3 => self.block::<L, 3, M>(row, column, groups, ahead),
                4 => self.block::<L, 4, M>(row, column, groups, ahead),
                5 => self.block::<L, 5, M>(row, column, groups, ahead),
                _ => self.block::<L, 6, M>(row, column, groups, ahead),
            }
        }
    }

    /// `N` rows of x with `M` rows of w, `apart` from each other, all phases side by side.
    ///
    /// # Safety
    /// As `run_rows`; the rows must be within bounds.
    #[inline(always)]
    unsafe fn row_tile<L: Lanes, const N: usize, const M: usize>(
        self,
        row: usize,
        column: usize,
        apart: usize,
    ) {
        // SAFETY: by the caller; blocks end at or before `whole`.
        unsafe {
            let (x, w) = (self.x.add(row * self.k), self.w.add(column * self.k));
            let mut sums: [Sums<L, N, M>; MAX_PHASES] = [[[L::zero(); M]; N]; MAX_PHASES];
            let whole = self.k - self.k % WHOLE;
            let mut at = 0;
            while at + SUMS <= whole {
                for phase in 0..L::PHASES {
                    let start = at + phase * L::WIDTH;
                    self.step(x, w, apart * self.k, start, &mut sums[phase]);
                }
                at += SUMS;
            }
            if at < whole {
                for phase in 0..L::PHASES / 2 {
                    let start = at + phase * L::WIDTH;
                    self.step(x, w, apart * self.k, start, &mut sums[phase]);
                }
            }
            for at in 0..N * M {
                let column = column + at % M * apart;
                let out = self.out.add((row + at / M) * self.stride + column);
                *out = L::total(phases(sums.as_ptr(), at));
                self.tail(row + at / M..row + at / M + 1, column..column + 1);
            }
        }
    }

    /// `N` rows of x with `groups` times `M` rows of w. The phases take turns, and so do the groups: a
    /// turn's part of x is used by all of them while it is in the first-level cache. `ahead`: w comes from
    /// memory, so ask for the next piece while this one is computed.
    ///
    /// # Safety
    /// As `row_tile`.
    #[inline(always)]
    unsafe fn block<L: Lanes, const N: usize, const M: usize>(
        self,
        row: usize,
        column: usize,
        groups: usize,
        ahead: bool,
    ) {
        // SAFETY: by the caller; the first turn writes all sums that are read.
        unsafe {
            // Not zeroed: clearing sums in memory takes a good part of a short product's time.
            let mut sums =
                [const { [const { MaybeUninit::<Sums<L, N, M>>::uninit() }; MAX_PHASES] }; GROUPS];
            let place = (row, column);
            self.turns::<L, N, M, true>(place, groups, ahead, 0, &mut sums);
            for first in (TURN..self.k - self.k % WHOLE).step_by(TURN) {
                self.turns::<L, N, M, false>(place, groups, ahead, first, &mut sums);
            }
            for (group, sums) in sums.iter().enumerate().take(groups) {
                self.finish::<L, N, M>(row, column + group * M, sums.as_ptr().cast());
            }
        }
    }

    /// Each group's and phase's turn with the elements from `first` on. `BEGIN`: the sums do not exist yet.
    ///
    /// # Safety
    /// As `row_tile`; unless `BEGIN`, the sums must have been written.
    #[inline(always)]
    unsafe fn turns<L: Lanes, const N: usize, const M: usize, const BEGIN: bool>(
        self,
        (row, column): (usize, usize),
        groups: usize,
        ahead: bool,
        first: usize,
        sums: &mut [[MaybeUninit<Sums<L, N, M>>; MAX_PHASES]; GROUPS],
    ) {
        // SAFETY: by the caller; turns end at or before `whole`.
        unsafe {
            let x = self.x.add(row * self.k);
            let whole = self.k - self.k % WHOLE;
            let last = (first + TURN).min(whole);
            for (group, sums) in sums.iter_mut().enumerate().take(groups) {
                let w = self.w.add((column + group * M) * self.k);
                let next = match (group + 1 < groups, last < whole) {
                    (true, _) => w.wrapping_add(M * self.k),
                    (_, true) => self.w.wrapping_add(column * self.k + TURN),
                    _ => w.wrapping_add(M * self.k).wrapping_sub(first),
                };
                // A loop that the compiler cannot unroll: unrolled, the phases compete for registers.
                for (phase, sums) in sums.iter_mut().enumerate().take(black_box(L::PHASES)) {
                    let start = phase * L::WIDTH;
                    let before = match BEGIN {
                        true => [[L::zero(); M]; N],
                        false => sums.assume_init_read(),
                    };
                    let range = first + start..last;
                    sums.write(if ahead && (start * size_of::<W>()).is_multiple_of(LINE) {
                        self.turn::<L, N, M, true>(x, w, next, range, before)
                    } else {
                        self.turn::<L, N, M, false>(x, w, next, range, before)
                    });
                }
            }
        }
    }

    /// One phase's share of a range of elements.
    ///
    /// # Safety
    /// As `step`, for each piece that begins in `range`.
    #[inline(always)]
    unsafe fn turn<L: Lanes, const N: usize, const M: usize, const AHEAD: bool>(
        self,
        x: *const f32,
        w: *const W,
        next: *const W,
        range: Range<usize>,
        mut sums: Sums<L, N, M>,
    ) -> Sums<L, N, M> {
        let mut at = range.start;
        while at < range.end {
            if AHEAD {
                for j in 0..M {
                    prefetch(next.wrapping_add(j * self.k + at));
                }
            }
            // SAFETY: by the caller.
            unsafe { self.step(x, w, self.k, at, &mut sums) };
            at += SUMS;
        }
        sums
    }

    /// Adds the products of one block of `WIDTH` elements. Rows of w are `apart` elements from each other.
    ///
    /// # Safety
    /// `x` and `w` must begin `N` and `M` rows of k elements, and the block must end within them.
    #[inline(always)]
    unsafe fn step<L: Lanes, const N: usize, const M: usize>(
        self,
        x: *const f32,
        w: *const W,
        apart: usize,
        at: usize,
        sums: &mut Sums<L, N, M>,
    ) {
        // SAFETY: by the caller.
        unsafe {
            let mut ws = [L::zero(); M];
            for (j, ws) in ws.iter_mut().enumerate() {
                *ws = W::load(w.add(j * apart + at));
            }
            for (i, sums) in sums.iter_mut().enumerate() {
                let xs = L::load(x.add(i * self.k + at));
                for (ws, sum) in ws.iter().zip(sums) {
                    *sum = xs.fma(*ws, *sum);
                }
            }
        }
    }

    /// Adds up the running sums and writes the results.
    ///
    /// # Safety
    /// As `row_tile`; `sums` must begin as many phases as `L` has.
    #[inline(always)]
    unsafe fn finish<L: Lanes, const N: usize, const M: usize>(
        self,
        row: usize,
        column: usize,
        sums: *const Sums<L, N, M>,
    ) {
        // SAFETY: by the caller.
        unsafe {
            let out = self.out.add(row * self.stride + column);
            self.write::<L, N, M, 0>(out, sums);
            self.write::<L, N, M, 8>(out, sums);
            self.write::<L, N, M, 16>(out, sums);
            self.tail(row..row + N, column..column + M);
        }
    }

    /// Writes eight results of a block from `FIRST` on, or those that it has.
    ///
    /// # Safety
    /// As `finish`; `M` divides 8.
    #[inline(always)]
    unsafe fn write<L: Lanes, const N: usize, const M: usize, const FIRST: usize>(
        self,
        out: *mut f32,
        sums: *const Sums<L, N, M>,
    ) {
        if FIRST >= N * M {
            return;
        }
        // SAFETY: by the caller; rows end at N.
        unsafe {
            let mut products = [[L::zero(); MAX_PHASES]; TOTALS];
            for (at, product) in products.iter_mut().enumerate() {
                *product = phases(sums, (FIRST + at).min(N * M - 1));
            }
            let totals = L::totals(products);
            for row in FIRST / M..N.min((FIRST + TOTALS) / M) {
                let from = totals.as_ptr().add(row * M - FIRST);
                out.add(row * self.stride).copy_from_nonoverlapping(from, M);
            }
        }
    }

    /// Adds the products of the elements beyond the last whole block, if there are any, one after another.
    ///
    /// # Safety
    /// As `row_tile`.
    #[inline(always)]
    unsafe fn tail(self, rows: Range<usize>, columns: Range<usize>) {
        let whole = self.k - self.k % WHOLE;
        if whole < self.k {
            // SAFETY: by the caller.
            unsafe { self.add_tail(rows, columns, whole) };
        }
    }

    /// # Safety
    /// As `tail`.
    #[inline(never)]
    unsafe fn add_tail(self, rows: Range<usize>, columns: Range<usize>, whole: usize) {
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

/// All phases of one dot product of a block. Phases that `L` lacks repeat those that it has.
///
/// # Safety
/// `sums` must begin as many phases as `L` has.
#[inline(always)]
unsafe fn phases<L: Lanes, const N: usize, const M: usize>(
    sums: *const Sums<L, N, M>,
    at: usize,
) -> [L; MAX_PHASES] {
    let (i, j) = (at / M, at % M);
    // SAFETY: by the caller.
    unsafe {
        [
            (*sums)[i][j],
            (*sums.add(1 % L::PHASES))[i][j],
            (*sums.add(2 % L::PHASES))[i][j],
            (*sums.add(3 % L::PHASES))[i][j],
        ]
    }
}

/// Divides `range` into as few parts of at most `most` as can be, as even as can be.
fn even_parts(range: Range<usize>, most: usize) -> impl Iterator<Item = Range<usize>> {
    let (start, count) = (range.start, range.len());
    let parts = count.div_ceil(most);
    (0..parts).map(move |part| start + count * part / parts..start + count * (part + 1) / parts)
}
