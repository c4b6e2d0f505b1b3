//! Positions of a batch's rows, and the positions that each attends to.
//!
//! Main type: [`Rows`]. What a row attends to follows from its position and the window's rule alone; pages
//! are only looked up. Refuses to know: keys, values, heads.

use std::ops::Range;

use crate::backend::Batch;
use crate::kv::Window;
use crate::kv::{PAGE_TOKENS, PageId};

#[derive(Default)]
pub struct Rows {
    /// Position of each row, and its sequence's index.
    rows: Vec<(usize, usize)>,
    tables: Vec<Table>,
    /// Of all sequences, one after another.
    pages: Vec<PageId>,
    window: Option<Window>,
    /// Most positions that a row attends to.
    longest: usize,
}

/// A sequence's pages.
struct Table {
    first: usize,
    gap: usize,
}

/// Slots of one page that some rows attend to.
pub struct Run {
    pub page: PageId,
    pub slots: Range<usize>,
    /// The position of the first of them.
    first: usize,
    /// They hold the window's sink.
    pub sink: bool,
}

impl Rows {
    pub fn load(&mut self, batch: &Batch<'_>, window: Option<Window>) {
        self.rows.clear();
        self.tables.clear();
        self.pages.clear();
        self.window = window;
        for (at, span) in batch.spans.iter().enumerate() {
            let rows = span.positions().map(|position| (position, at));
            self.rows.extend(rows);
            self.tables.push(Table {
                first: self.pages.len(),
                gap: span.gap,
            });
            self.pages.extend_from_slice(span.pages);
        }
        let rows = 0..self.rows.len();
        self.longest = rows.map(|row| self.length(row)).max().unwrap_or(0);
    }

    pub fn len(&self) -> usize {
        self.rows.len()
    }

    pub fn positions(&self) -> impl Iterator<Item = usize> {
        self.rows.iter().map(|(position, _)| *position)
    }

    pub fn longest(&self) -> usize {
        self.longest
    }

    /// Page and slot of a row's own token.
    pub fn place(&self, row: usize) -> (PageId, usize) {
        let (position, table) = self.rows[row];
        (self.page(table, position), position % PAGE_TOKENS)
    }

    /// The position as from which sinks are seen by rows that do not see all that lies between; `None`
    /// where every row of the batch sees everything.
    pub fn sink_view(&self) -> Option<usize> {
        let window = self.window.filter(|window| window.sink > 0)?;
        let any = (0..self.len()).any(|row| self.is_far(row));
        any.then(|| window.sink + window.window - 1)
    }

    /// Whether positions between the sink and the window are hidden from the row.
    pub fn is_far(&self, row: usize) -> bool {
        let (position, _) = self.rows[row];
        self.window
            .is_some_and(|window| position >= window.sink + window.window)
    }

    /// How many positions a row attends to.
    pub fn length(&self, row: usize) -> usize {
        self.reach(row).iter().map(Range::len).sum()
    }

    /// The rows from `row` to `end` that are one sequence's.
    pub fn of_one_sequence(&self, row: usize, end: usize) -> Range<usize> {
        let table = self.rows[row].1;
        let others = self.rows[row..end].iter().position(|(_, at)| *at != table);
        row..others.map_or(end, |count| row + count)
    }

    /// What any of one sequence's consecutive rows attends to, by page, in the order of positions.
    pub fn runs(&self, rows: Range<usize>) -> impl Iterator<Item = Run> {
        let (_, table) = self.rows[rows.start];
        let (first, last) = (self.reach(rows.start), self.reach(rows.end - 1));
        let parts = [0, 1].map(|at| first[at].start..last[at].end);
        parts
            .into_iter()
            .zip([true, false])
            .flat_map(move |(part, sink)| {
                let pages = part.start / PAGE_TOKENS..part.end.div_ceil(PAGE_TOKENS);
                pages.filter_map(move |index| {
                    let page_start = index * PAGE_TOKENS;
                    let start = part.start.max(page_start);
                    let end = part.end.min(page_start + PAGE_TOKENS);
                    (start < end).then(|| Run {
                        page: self.page(table, page_start),
                        slots: start - page_start..end - page_start,
                        first: start,
                        sink,
                    })
                })
            })
    }

    /// Of a run's slots, counted from its first, those that this row attends to.
    pub fn seen(&self, row: usize, run: &Run) -> Range<usize> {
        let part = &self.reach(row)[usize::from(!run.sink)];
        let end = run.first + run.slots.len();
        let start = part.start.clamp(run.first, end);
        start - run.first..part.end.clamp(start, end) - run.first
    }

    /// Positions of the sink and of the window; without one, all are of the window.
    fn reach(&self, row: usize) -> [Range<usize>; 2] {
        let end = self.rows[row].0 + 1;
        match self.window {
            None => [0..0, 0..end],
            Some(Window { sink, window }) => {
                let sink = sink.min(end);
                [0..sink, sink.max(end.saturating_sub(window))..end]
            }
        }
    }

    fn page(&self, table: usize, position: usize) -> PageId {
        let Table { first, gap } = self.tables[table];
        let index = position / PAGE_TOKENS;
        let sink = self.window.map_or(0, |window| window.sink);
        let missing = if index < sink.div_ceil(PAGE_TOKENS) {
            0
        } else {
            gap
        };
        self.pages[first + index - missing]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::{Span, SpanState};

    /// The positions attended to, by the rule's own words, and the page and slot of each.
    #[test]
    fn runs_follow_the_rule() {
        for (sink, size) in [
            (0, 1),
            (0, 20),
            (1, 16),
            (4, 33),
            (16, 16),
            (21, 40),
            (40, 3),
        ] {
            let window = Window { sink, window: size };
            for position in 0..200usize {
                let wanted: Vec<usize> = (0..=position)
                    .filter(|at| *at < sink || at + size > position)
                    .collect();
                let sink_pages = sink.div_ceil(PAGE_TOKENS);
                let gap =
                    ((position + 1).saturating_sub(size) / PAGE_TOKENS).saturating_sub(sink_pages);
                let held = (0..=position / PAGE_TOKENS)
                    .filter(|index| *index < sink_pages || *index >= sink_pages + gap);
                let pages: Vec<PageId> = held.map(|index| 100 + index as PageId).collect();
                let spans = [Span {
                    positions: (position, position + 1),
                    pages: &pages,
                    gap,
                    state: SpanState::default(),
                }];
                let mut rows = Rows::default();
                rows.load(
                    &Batch {
                        tokens: &[],
                        spans: &spans,
                    },
                    Some(window),
                );
                let mut got = Vec::new();
                for run in rows.runs(0..1) {
                    assert_eq!(rows.seen(0, &run), 0..run.slots.len());
                    let first = (run.page as usize - 100) * PAGE_TOKENS;
                    assert!(
                        run.slots
                            .clone()
                            .all(|slot| run.sink == (first + slot < sink))
                    );
                    got.extend(run.slots.map(|slot| first + slot));
                }
                assert_eq!(got, wanted, "{window:?} {position}");
                assert_eq!(rows.length(0), wanted.len());
                assert_eq!(rows.is_far(0), wanted.len() <= position);
                let seen_from = (sink > 0 && wanted.len() <= position).then_some(sink + size - 1);
                assert_eq!(rows.sink_view(), seen_from);
                let page = 100 + (position / PAGE_TOKENS) as PageId;
                assert_eq!(rows.place(0), (page, position % PAGE_TOKENS));
            }
        }
    }
}
