//! What one step brings to the device: tokens, positions, places in the cache, pages, all in one write.
//!
//! Main type: [`Step`]. Its integers lie at places that follow from the count of rows alone, so that a
//! recording finds them where they were. Refuses to know: heads, layers.

use std::ops::Range;

use super::device::{Device, DeviceError, Memory, View};
use super::graphs::{Ladder, Shape};
use super::launch::{TILE_INTS, TILE_ROWS};
use crate::engine::backend::{Batch, Part, Room, Span};
use crate::engine::kv::{PAGE_TOKENS, pages_for};
use crate::engine::options::Window;

/// Lists with one integer a row: tokens, positions, places, first pages, gaps.
const ROW_LISTS: usize = 5;

pub(super) struct Step<D: Device> {
    memory: D::Memory,
    ints: Vec<i32>,
    /// Rows, those of padding among them.
    n: usize,
    pages: usize,
    tiles: usize,
    /// Rows that attend one by one.
    pub(super) singles: Vec<Range<usize>>,
    /// Most positions that one of them attends to.
    pub(super) longest: usize,
    /// Every row is its sequence's newest, and no sequence has two.
    pub(super) decodes: bool,
    /// What it can be repeated by.
    pub(super) shape: Option<Shape>,
    window: Option<Window>,
    /// Which rows of padding write to.
    spare_page: usize,
    takes_tiles: bool,
}

impl<D: Device> Step<D> {
    /// `takes_tiles`: attention has a kernel for many rows of one sequence.
    pub(super) fn new(
        device: &mut D,
        room: &Room,
        window: Option<Window>,
        spare_page: usize,
        takes_tiles: bool,
    ) -> Result<Self, DeviceError> {
        let tables = 1 + room.sequences * (pages_for(room.context) + 2);
        let ints = (ROW_LISTS + TILE_INTS) * room.rows + tables;
        Ok(Self {
            memory: device.allocate(ints * size_of::<i32>())?,
            ints: Vec::with_capacity(ints),
            n: 0,
            pages: 0,
            tiles: 0,
            singles: Vec::new(),
            longest: 0,
            decodes: false,
            shape: None,
            window,
            spare_page,
            takes_tiles,
        })
    }

    /// Takes a batch, filled up where it can be repeated then.
    pub(super) fn load(
        &mut self,
        device: &mut D,
        batch: &Batch<'_>,
        ladder: &Ladder,
    ) -> Result<(), DeviceError> {
        let count = batch.tokens.len();
        self.decodes = batch.spans.iter().all(|span| span.positions().len() == 1);
        let bucket = ladder.bucket(Part::Network, count).filter(|_| self.decodes);
        self.lay_out(bucket.unwrap_or(count));
        for (row, token) in batch.tokens.iter().enumerate() {
            self.ints[row] = *token as i32;
        }
        let (mut row, mut tiles) = (0, Vec::new());
        for span in batch.spans {
            let rows = row..row + span.positions().len();
            let first_page = self.add_span(rows.clone(), span);
            if rows.len() > 1 && self.takes_tiles {
                add_tiles(&mut tiles, rows.clone(), span.positions.0, first_page);
            } else {
                self.add_singles(rows.clone());
            }
            row = rows.end;
        }
        self.pages = self.ints.len() - ROW_LISTS * self.n;
        self.tiles = tiles.len() / TILE_INTS;
        self.ints.extend(tiles);
        self.longest = self.longest.max(1);
        self.shape = bucket.map(|rows| Shape {
            part: Part::Network,
            rows,
            splits: ladder.splits(rows, self.longest),
        });
        if bucket.is_some() {
            self.singles = std::iter::once(0..self.n).collect();
        }
        self.write(device)
    }

    /// Rows of padding alone.
    pub(super) fn load_padding(&mut self, device: &mut D, shape: Shape) -> Result<(), DeviceError> {
        self.lay_out(shape.rows);
        self.pages = 1;
        self.tiles = 0;
        self.singles = std::iter::once(0..self.n).collect();
        self.longest = 1;
        self.decodes = true;
        self.shape = Some(shape);
        self.write(device)
    }

    /// n rows of padding: token 0 at position 0, on the page that nobody owns.
    fn lay_out(&mut self, n: usize) {
        self.n = n;
        self.singles.clear();
        self.longest = 0;
        self.ints.clear();
        self.ints.resize(ROW_LISTS * n, 0);
        self.ints[2 * n..3 * n].fill((self.spare_page * PAGE_TOKENS) as i32);
        self.ints.push(self.spare_page as i32);
    }

    /// Writes down where a sequence's rows are; gives the index of its first page.
    fn add_span(&mut self, rows: Range<usize>, span: &Span<'_>) -> usize {
        let n = self.n;
        let first_page = self.ints.len() - ROW_LISTS * n;
        self.ints.extend(span.pages.iter().map(|page| *page as i32));
        for (row, position) in rows.zip(span.positions()) {
            let place = self.place(span, position);
            self.ints[n + row] = position as i32;
            self.ints[2 * n + row] = place as i32;
            self.ints[3 * n + row] = first_page as i32;
            self.ints[4 * n + row] = span.gap as i32;
        }
        first_page
    }

    /// Page and slot of a position, as one number.
    fn place(&self, span: &Span<'_>, position: usize) -> usize {
        let index = position / PAGE_TOKENS;
        let sink = self.window.map_or(0, |window| window.sink);
        let is_sink = index < sink.div_ceil(PAGE_TOKENS);
        let missing = if is_sink { 0 } else { span.gap };
        span.pages[index - missing] as usize * PAGE_TOKENS + position % PAGE_TOKENS
    }

    fn add_singles(&mut self, rows: Range<usize>) {
        let last = self.ints[self.n + rows.end - 1] as usize;
        let attended = match self.window {
            None => last + 1,
            Some(window) => (last + 1).min(window.sink + window.window),
        };
        self.longest = self.longest.max(attended);
        match self.singles.last_mut() {
            Some(before) if before.end == rows.start => before.end = rows.end,
            _ => self.singles.push(rows),
        }
    }

    /// A step's first work is this copy, never a recording's or a kernel's: kernels that begin before those ahead
    /// of them have ended do not begin before it, and may read what earlier steps wrote without waiting.
    fn write(&mut self, device: &mut D) -> Result<(), DeviceError> {
        let bytes: Vec<u8> = self.ints.iter().flat_map(|int| int.to_ne_bytes()).collect();
        device.write(self.memory.view(), &bytes)
    }

    /// One list's integers from `row` on.
    fn list(&self, list: usize, row: usize) -> View {
        let first = list * self.n + row;
        self.memory
            .view()
            .part(first, self.n - row, size_of::<i32>())
    }

    pub(super) fn tokens(&self) -> View {
        self.list(0, 0)
    }

    pub(super) fn positions(&self, row: usize) -> View {
        self.list(1, row)
    }

    pub(super) fn places(&self) -> View {
        self.list(2, 0)
    }

    pub(super) fn first_pages(&self, row: usize) -> View {
        self.list(3, row)
    }

    pub(super) fn gaps(&self, row: usize) -> View {
        self.list(4, row)
    }

    /// As many pages as a recording's later steps may bring.
    pub(super) fn pages(&self) -> View {
        self.memory
            .view()
            .after(ROW_LISTS * self.n * size_of::<i32>())
    }

    pub(super) fn tiles(&self) -> (View, usize) {
        let first = ROW_LISTS * self.n + self.pages;
        let ints = self.tiles * TILE_INTS;
        (
            self.memory.view().part(first, ints, size_of::<i32>()),
            self.tiles,
        )
    }
}

/// Up to [`TILE_ROWS`] rows of one sequence each: first row, rows, position of the first, first page, gap.
fn add_tiles(tiles: &mut Vec<i32>, rows: Range<usize>, position: usize, first_page: usize) {
    for start in rows.clone().step_by(TILE_ROWS) {
        let count = TILE_ROWS.min(rows.end - start);
        let at = position + start - rows.start;
        tiles.extend([start, count, at, first_page, 0].map(|int| int as i32));
    }
}
