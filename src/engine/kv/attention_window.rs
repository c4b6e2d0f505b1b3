//! Positions that a token attends to, in pages.
//!
//! Main type: [`Reach`]. Refuses to know: who holds a page.

use super::{PAGE_TOKENS, pages_for};

/// All positions up to one's own, or a sink and a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    window: Option<Window>,
}

impl Reach {
    pub fn new(window: Option<Window>) -> Self {
        Self { window }
    }

    pub fn is_bounded(self) -> bool {
        self.window.is_some()
    }

    /// Leading pages that are never let go: those that hold a position of the sink.
    pub fn sink_pages(self) -> usize {
        self.window.map_or(0, |window| pages_for(window.sink))
    }

    /// The first page after the sink's that a token at `position` or any later one attends to. Pages
    /// between the sink's and this one are of no more use to its sequence.
    pub fn first_page(self, position: usize) -> usize {
        let Some(window) = self.window else {
            return 0;
        };
        let first = (position + 1).saturating_sub(window.window);
        (first / PAGE_TOKENS).max(self.sink_pages())
    }

    /// The most pages that a sequence of `length` tokens holds at once, where at most `chunk` of them are
    /// computed in a step.
    pub fn most_pages(self, length: usize, chunk: usize) -> usize {
        let all = pages_for(length);
        match self.window {
            None => all,
            // The first position of the chunk sees `window - 1` before it, which may begin in mid-page.
            Some(window) => {
                let seen = pages_for(window.window + chunk) + 1;
                all.min(self.sink_pages() + seen)
            }
        }
    }
}

/// Attention to the first `sink` positions and to the last `window` ones, one's own among them. A query
/// at position p sees the sink as from position min(p, sink + window − 1): as if what lies between were
/// not there (arXiv:2309.17453).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    pub sink: usize,
    pub window: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_moves_by_pages_and_the_sink_stays() {
        let check = |sink, window, position, expect| {
            let reach = Reach::new(Some(Window { sink, window }));
            assert_eq!(
                reach.first_page(position),
                expect,
                "{sink} {window} {position}"
            );
        };
        check(4, 32, 0, 1);
        check(4, 32, 47, 1);
        check(4, 32, 62, 1);
        check(4, 32, 63, 2);
        check(20, 16, 40, 2);
        check(0, 16, 14, 0);
        check(0, 16, 31, 1);
        assert_eq!(Reach::default().first_page(1000), 0);
    }

    #[test]
    fn what_a_sequence_holds_is_bounded_by_window_and_chunk() {
        let reach = Reach::new(Some(Window {
            sink: 4,
            window: 40,
        }));
        assert_eq!(reach.most_pages(10, 8), 1);
        assert_eq!(reach.most_pages(100_000, 8), 1 + 3 + 1);
        assert_eq!(Reach::default().most_pages(100, 8), 7);
        // Every position of every chunk finds what it attends to within that bound.
        for chunk in 1..40 {
            for start in 0..400 {
                let last = (start + chunk - 1) / PAGE_TOKENS;
                let held = reach.sink_pages() + (last + 1 - reach.first_page(start).min(last + 1));
                assert!(
                    held <= reach
                        .most_pages(start + chunk, chunk)
                        .max(reach.sink_pages())
                );
            }
        }
    }
}
