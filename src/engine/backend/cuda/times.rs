//! Times of the kernels in CUDA graphs, over all replays.
//!
//! Main type: [`KernelTimes`], which who starts an engine keeps a hand on; a [`Device`](super::device::Device)
//! that was given one adds to it. Refuses to know: how time is taken.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Whose time it is: the kernel at one place of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Started {
    /// A kernel's name, `library product`, or [`MARK`].
    pub name: &'static str,
    /// A kernel's grid; n, rows and columns of a product.
    pub size: [usize; 3],
}

/// Nothing: what taking the time costs by itself.
pub const MARK: Started = Started {
    name: "(a mark)",
    size: [0; 3],
};

/// All starts that were the same.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KernelTime {
    pub started: Started,
    pub starts: u64,
    pub total: Duration,
}

/// By whom it was started, in the order of their first start.
#[derive(Debug, Default)]
pub struct KernelTimes {
    seen: Mutex<Vec<KernelTime>>,
}

impl KernelTimes {
    pub(super) fn add(&self, started: Started, time: Duration) {
        let mut seen = self.seen();
        match seen.iter_mut().find(|known| known.started == started) {
            Some(known) => {
                known.starts += 1;
                known.total += time;
            }
            None => seen.push(KernelTime {
                started,
                starts: 1,
                total: time,
            }),
        }
    }

    /// What was added since the last time that it was asked for.
    pub fn take(&self) -> Vec<KernelTime> {
        std::mem::take(&mut self.seen())
    }

    fn seen(&self) -> MutexGuard<'_, Vec<KernelTime>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
