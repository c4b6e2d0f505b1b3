//! Input of one step on the device: tokens, positions, cache slots and pages, in one write.
//!
//! Main type: [`DeviceStep`]. Its integers lie at places that follow from the counts of rows and of splits alone, so that a
//! graph finds them where they were. Refuses to know: heads, layers.

use std::iter;
use std::ops::Range;

use super::device::{Device, DeviceError, Memory, View};
use super::graphs::{CaptureSizes, Shape};
use super::launch::{
    CHUNK_INTS, CHUNK_ROWS, Chunks, SCAN_INTS, SPAN_INTS, SPLIT_INTS, Spans, TILE_INTS, TILE_ROWS,
};
use crate::backend::{Batch, Part, Room, Span, SpanState};
use crate::kv::{PAGE_TOKENS, StateId, Window, pages_for};

/// Lists with one integer a row: tokens, positions, places.
const ROW_LISTS: usize = 3;

/// Rows of each prompt of a dummy run, and their pages.
const PROMPT_ROWS: usize = TILE_ROWS;
const PROMPT_PAGES: usize = PROMPT_ROWS / PAGE_TOKENS;

/// A split with nothing to do.
const NO_SPLIT: [i32; SPLIT_INTS] = [-1, 0, 0, 0, 0, 0, 0, 0];

pub(super) struct DeviceStep<D: Device> {
    memory: D::Memory,
    /// Ahead of all others: what attends to what.
    splits: Vec<[i32; SPLIT_INTS]>,
    /// Behind them, where the model has recurrent layers: which rows move which state on.
    spans: Vec<[i32; SPAN_INTS]>,
    /// The same of long prompts, and the chunks that they consist of.
    scans: Vec<[i32; SCAN_INTS]>,
    chunks: Vec<[i32; CHUNK_INTS]>,
    /// The lists of the rows, pages, tiles.
    ints: Vec<i32>,
    /// Rows, those of padding among them.
    n: usize,
    pages: usize,
    tiles: usize,
    /// Rows that attend one by one.
    singles: Vec<Single>,
    /// Every row is its sequence's newest, and no sequence has two.
    pub(super) decodes: bool,
    /// What it can be repeated by.
    pub(super) shape: Option<Shape>,
    window: Option<Window>,
    /// Which rows of padding write to.
    spare_page: usize,
    recurrent: Option<Recurrent>,
    takes_tiles: bool,
}

/// What a step must know of recurrent layers.
#[derive(Clone, Copy)]
pub(super) struct Recurrent {
    /// The state that rows of padding have.
    pub(super) spare: usize,
    /// They have kernels for chunks of one sequence.
    pub(super) takes_chunks: bool,
}

/// Most chunks in so many rows: a span's last one and the one that ends where its state is kept are not full.
pub(super) fn most_chunks(rows: usize) -> usize {
    3 * rows.div_ceil(CHUNK_ROWS)
}

/// A row that attends by itself.
struct Single {
    row: usize,
    position: usize,
    first_page: usize,
    gap: usize,
}

impl<D: Device> DeviceStep<D> {
    /// `splits`: the most of one step. `takes_tiles`: attention has a kernel for many rows of one sequence.
    pub(super) fn new(
        device: &mut D,
        room: &Room,
        splits: usize,
        window: Option<Window>,
        (spare_page, recurrent): (usize, Option<Recurrent>),
        takes_tiles: bool,
    ) -> Result<Self, DeviceError> {
        let tables = PROMPT_PAGES + room.sequences * (pages_for(room.context) + 2);
        let most_spans = room.sequences.max(room.rows.div_ceil(PROMPT_ROWS));
        let spans = recurrent.map_or(0, |_| {
            (SPAN_INTS + SCAN_INTS) * most_spans + CHUNK_INTS * most_chunks(room.rows)
        });
        let ints = SPLIT_INTS * splits + spans + (ROW_LISTS + TILE_INTS) * room.rows + tables;
        Ok(Self {
            memory: device.allocate(ints * size_of::<i32>())?,
            splits: Vec::with_capacity(splits),
            spans: Vec::new(),
            scans: Vec::new(),
            chunks: Vec::new(),
            ints: Vec::with_capacity(ints),
            n: 0,
            pages: 0,
            tiles: 0,
            singles: Vec::new(),
            decodes: false,
            shape: None,
            window,
            spare_page,
            recurrent,
            takes_tiles,
        })
    }

    /// Takes a batch, filled up where it can be repeated then.
    pub(super) fn load(
        &mut self,
        device: &mut D,
        batch: &Batch<'_>,
        ladder: &CaptureSizes,
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
            self.add_state(&rows, span);
            if rows.len() > 1 && self.takes_tiles {
                add_tiles(&mut tiles, rows.clone(), span.positions.0, first_page);
            } else {
                self.add_singles(rows.clone(), span, first_page);
            }
            row = rows.end;
        }
        self.pages = self.ints.len() - ROW_LISTS * self.n;
        self.tiles = tiles.len() / TILE_INTS;
        self.ints.extend(tiles);
        self.pad(count);
        // Positions that each attends to.
        let keys = |single: &Single| (single.position + 1).min(ladder.longest);
        let keys: Vec<usize> = self.singles.iter().map(keys).collect();
        let most = ladder.most_splits(keys.len());
        self.divide(ladder.slots.parts(&keys, most));
        self.shape = bucket.map(|rows| Shape {
            part: Part::Network,
            rows,
            splits: ladder.split_bucket(rows, self.splits.len()),
        });
        if let Some(shape) = self.shape {
            self.splits.resize(shape.splits, NO_SPLIT);
        }
        self.write(device)
    }

    /// Prompts of padding, n rows in all: what a first prompt runs has run then.
    pub(super) fn load_prompts(&mut self, device: &mut D, n: usize) -> Result<(), DeviceError> {
        self.lay_out(n);
        self.ints.extend([self.spare_page as i32; PROMPT_PAGES - 1]);
        self.pages = PROMPT_PAGES;
        let mut tiles = Vec::new();
        for start in (0..n).step_by(PROMPT_ROWS) {
            let rows = start..n.min(start + PROMPT_ROWS);
            let span = Span {
                positions: (0, rows.len()),
                pages: &[],
                gap: 0,
                state: SpanState {
                    own: self.recurrent.map_or(0, |it| it.spare) as StateId,
                    snapshot: None,
                },
            };
            for (position, row) in rows.clone().enumerate() {
                self.ints[n + row] = position as i32;
                self.ints[2 * n + row] += (position % PAGE_TOKENS) as i32;
            }
            self.add_state(&rows, &span);
            if self.takes_tiles {
                add_tiles(&mut tiles, rows, 0, 0);
            } else {
                self.add_singles(rows, &span, 0);
            }
        }
        self.tiles = tiles.len() / TILE_INTS;
        self.ints.extend(tiles);
        self.divide(iter::repeat_n(1, self.singles.len()));
        self.decodes = false;
        self.shape = None;
        self.write(device)
    }

    /// Rows of padding alone, as in a step that decodes.
    pub(super) fn load_padding(&mut self, device: &mut D, shape: Shape) -> Result<(), DeviceError> {
        self.lay_out(shape.rows);
        self.pages = 1;
        self.tiles = 0;
        self.pad(0);
        self.divide(iter::repeat(1));
        self.splits.resize(shape.splits, NO_SPLIT);
        self.decodes = true;
        self.shape = Some(shape);
        self.write(device)
    }

    /// n rows of padding: token 0 at position 0, on the page that nobody owns.
    fn lay_out(&mut self, n: usize) {
        self.n = n;
        self.singles.clear();
        self.splits.clear();
        self.spans.clear();
        self.scans.clear();
        self.chunks.clear();
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

    fn add_state(&mut self, rows: &Range<usize>, span: &Span<'_>) {
        let Some(recurrent) = self.recurrent else {
            return;
        };
        if recurrent.takes_chunks && rows.len() >= CHUNK_ROWS {
            self.add_chunks(rows, span);
            return;
        }
        let start = span.positions.0;
        let kept = span.state.snapshot.and_then(|(position, state)| {
            Some((position.checked_sub(start + 1)? as i32, state as i32))
        });
        let (after, into) = kept.unwrap_or((-1, 0));
        let [first, count, start] = [rows.start, rows.len(), start].map(|int| int as i32);
        let own = span.state.own as i32;
        self.spans
            .push([first, count, start, own, after, into, 0, 0]);
    }

    fn add_chunks(&mut self, rows: &Range<usize>, span: &Span<'_>) {
        let start = span.positions.0;
        let snapshot = span.state.snapshot;
        // Its chunk ends there.
        let (kept, into) = snapshot.map_or((0, 0), |(position, into)| (position - start, into));
        let first_chunk = self.chunks.len();
        let ints = |ints: [usize; 8]| ints.map(|int| int as i32);
        let own = span.state.own as usize;
        for part in [0..kept, kept..rows.len()] {
            for before in part.clone().step_by(CHUNK_ROWS) {
                let count = CHUNK_ROWS.min(part.end - before);
                let first = rows.start + before;
                let chunk = ints([first, count, before, start, own, 0, 0, 0]);
                self.chunks.push(chunk);
            }
        }
        let count = self.chunks.len() - first_chunk;
        let (first, all) = (rows.start, rows.len());
        let scan = [
            first_chunk,
            count,
            start,
            own,
            kept,
            into as usize,
            first,
            all,
        ];
        self.scans.push(ints(scan));
    }

    fn add_singles(&mut self, rows: Range<usize>, span: &Span<'_>, first_page: usize) {
        let rows = rows.zip(span.positions());
        self.singles.extend(rows.map(|(row, position)| Single {
            row,
            position,
            first_page,
            gap: span.gap,
        }));
    }

    /// Rows from `first` on are padding: each attends to itself, on the page that nobody owns.
    fn pad(&mut self, first: usize) {
        self.singles.extend((first..self.n).map(|row| Single {
            row,
            position: 0,
            first_page: 0,
            gap: 0,
        }));
        if let Some(Recurrent { spare, .. }) = self.recurrent {
            // No row of theirs is computed: nobody reads it.
            let span = |row| [row as i32, 0, 0, spare as i32, -1, 0, 0, 0];
            self.spans.extend((first..self.n).map(span));
        }
    }

    /// Gives each single row so many parts.
    fn divide(&mut self, parts: impl IntoIterator<Item = usize>) {
        for (single, parts) in self.singles.iter().zip(parts) {
            let first = self.splits.len();
            self.splits
                .extend((0..parts).map(|part| single.split(part, parts, first)));
        }
    }

    /// A step's first work is this copy, never a graph's or a kernel's: kernels that begin before those ahead
    /// of them have ended do not begin before it, and may read what earlier steps wrote without waiting.
    fn write(&mut self, device: &mut D) -> Result<(), DeviceError> {
        let lists = [&self.splits, &self.spans, &self.scans, &self.chunks];
        let ints = lists.into_iter().flatten().flatten().chain(&self.ints);
        let bytes: Vec<u8> = ints.flat_map(|int| int.to_ne_bytes()).collect();
        device.write(self.memory.view(), &bytes)
    }

    /// Integers ahead of the rows' lists.
    fn ahead(&self) -> usize {
        let states = SPAN_INTS * self.spans.len() + SCAN_INTS * self.scans.len();
        SPLIT_INTS * self.splits.len() + states + CHUNK_INTS * self.chunks.len()
    }

    /// A list ahead of the rows', from this integer on.
    fn list_ahead(&self, first: usize, ints: usize) -> View {
        let all = self.memory.view();
        all.part(first, ints, size_of::<i32>())
    }

    /// So many integers, of those behind the splits and spans.
    fn part(&self, first: usize, ints: usize) -> View {
        let all = self.memory.view();
        all.part(self.ahead() + first, ints, size_of::<i32>())
    }

    fn list(&self, list: usize) -> View {
        self.part(list * self.n, self.n)
    }

    pub(super) fn tokens(&self) -> View {
        self.list(0)
    }

    pub(super) fn positions(&self) -> View {
        self.list(1)
    }

    pub(super) fn places(&self) -> View {
        self.list(2)
    }

    /// As many pages as a graph's later steps may bring.
    pub(super) fn pages(&self) -> View {
        let first = self.ahead() + ROW_LISTS * self.n;
        self.memory.view().after(first * size_of::<i32>())
    }

    /// Who does what of single rows' attention, and how many they are.
    pub(super) fn splits(&self) -> (View, usize) {
        let count = self.splits.len();
        (
            self.memory
                .view()
                .part(0, SPLIT_INTS * count, size_of::<i32>()),
            count,
        )
    }

    /// Which rows move which state on, one by one.
    pub(super) fn spans(&self) -> Spans {
        let (first, count) = (SPLIT_INTS * self.splits.len(), self.spans.len());
        Spans {
            ints: self.list_ahead(first, SPAN_INTS * count),
            count,
        }
    }

    /// Which do in chunks.
    pub(super) fn chunks(&self) -> Chunks {
        let first = SPLIT_INTS * self.splits.len() + SPAN_INTS * self.spans.len();
        let (scan_count, count) = (self.scans.len(), self.chunks.len());
        let scans = SCAN_INTS * scan_count;
        Chunks {
            ints: self.list_ahead(first + scans, CHUNK_INTS * count),
            count,
            scans: self.list_ahead(first, scans),
            scan_count,
        }
    }

    /// Whether attention of single rows has more splits than rows: of a graph, in any step.
    pub(super) fn is_split(&self) -> bool {
        self.splits.len() > self.singles.len()
    }

    pub(super) fn tiles(&self) -> (View, usize) {
        let first = ROW_LISTS * self.n + self.pages;
        (self.part(first, self.tiles * TILE_INTS), self.tiles)
    }
}

impl Single {
    /// The `part`th of so many; `first`: the split with the row's first.
    fn split(&self, part: usize, parts: usize, first: usize) -> [i32; SPLIT_INTS] {
        let Self {
            row,
            position,
            first_page,
            gap,
        } = *self;
        [row, position, first_page, gap, part, parts, first, 0].map(|int| int as i32)
    }
}

/// Up to [`TILE_ROWS`] rows of one sequence each: first row, rows, position of the first, first page.
fn add_tiles(tiles: &mut Vec<i32>, rows: Range<usize>, position: usize, first_page: usize) {
    for start in rows.clone().step_by(TILE_ROWS) {
        let count = TILE_ROWS.min(rows.end - start);
        let at = position + start - rows.start;
        tiles.extend([start, count, at, first_page].map(|int| int as i32));
    }
}
