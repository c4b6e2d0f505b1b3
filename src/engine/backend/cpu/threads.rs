//! Work shared out among threads, or kept on the caller's where it is too little to share.
//!
//! Main type: [`Threads`]. The thread that makes it is one of the pool's own, so that sharing costs a push
//! and a steal, not a hand-over. With one thread no pool exists. Refuses to know: what is computed;
//! results never depend on how it was shared.

use rayon::{ThreadPool, ThreadPoolBuilder};

use super::columns::Columns;
use crate::backend::BackendError;

pub struct Threads {
    /// Held for its life: `rayon::join` finds it through the current thread.
    _pool: Option<ThreadPool>,
    count: usize,
}

/// Multiply–adds below which a second thread brings nothing: one core does this many in some 6 µs on
/// weights in its cache (at the 45 GB/s measured for a single row), about what it takes to wake a thread
/// and wait for it.
const SHARE_FROM: usize = 128 << 10;

impl Threads {
    /// `count` threads, the calling one among them; 0 means one for each core.
    pub fn new(count: usize) -> Result<Self, BackendError> {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        let count = if count == 0 { cores() } else { count };
        if count == 1 {
            return Ok(Self { _pool: None, count });
        }
        let pool = ThreadPoolBuilder::new()
            .num_threads(count)
            .use_current_thread()
            .thread_name(|at| format!("engine-{at}"))
            .build()
            .map_err(|source| BackendError::Threads { count, source })?;
        Ok(Self {
            _pool: Some(pool),
            count,
        })
    }

    pub fn count(&self) -> usize {
        self.count
    }

    /// Calls `task` on parts of `columns` of even width, one a thread. `column_work`: multiply–adds of one
    /// column.
    pub fn columns<F>(&self, columns: Columns<'_>, column_work: usize, task: &F)
    where
        F: Fn(Columns<'_>) + Sync,
    {
        let parts = self.parts(columns.width().saturating_mul(column_work), columns.width());
        split_columns(columns, parts, task);
    }

    /// Calls `task(index of the first chunk, chunks)` on runs of whole chunks of `out`, each `chunk` long.
    /// `chunk_work`: multiply–adds of one chunk. Runs are finer than one a thread, since chunks may cost
    /// unevenly.
    pub fn chunks<T, F>(&self, out: &mut [T], chunk: usize, chunk_work: usize, task: &F)
    where
        T: Send,
        F: Fn(usize, &mut [T]) + Sync,
    {
        let count = out.len() / chunk;
        let parts = match self.parts(count.saturating_mul(chunk_work), count) {
            1 => 1,
            parts => (parts * 4).min(count),
        };
        split_chunks(0, out, chunk, parts, task);
    }

    /// Calls `task(index, chunk of a, chunk of b)` for each of the chunks that both have: so long, and `chunk_work`
    /// multiply–adds each.
    pub fn pairs<F>(
        &self,
        (a, a_chunk): (&mut [f32], usize),
        (b, b_chunk): (&mut [f32], usize),
        chunk_work: usize,
        task: &F,
    ) where
        F: Fn(usize, &mut [f32], &mut [f32]) + Sync,
    {
        let mut chunks: Vec<(&mut [f32], &mut [f32])> = a
            .chunks_exact_mut(a_chunk)
            .zip(b.chunks_exact_mut(b_chunk))
            .collect();
        self.chunks(&mut chunks, 1, chunk_work, &|first, run| {
            for (index, (a, b)) in (first..).zip(run) {
                task(index, a, b);
            }
        });
    }

    /// Copies bytes with every thread.
    pub fn copy(&self, from: &[u8], to: &mut [u8]) {
        split_copy(from, to, self.parts(from.len(), self.count));
    }

    fn parts(&self, work: usize, most: usize) -> usize {
        (work / SHARE_FROM + 1).min(self.count).min(most).max(1)
    }
}

fn split_columns<F: Fn(Columns<'_>) + Sync>(columns: Columns<'_>, parts: usize, task: &F) {
    if parts == 1 {
        return task(columns);
    }
    let width = columns.width() * (parts / 2) / parts;
    let (left, right) = columns.split_at(width);
    rayon::join(
        || split_columns(left, parts / 2, task),
        || split_columns(right, parts - parts / 2, task),
    );
}

fn split_chunks<T, F>(first: usize, out: &mut [T], chunk: usize, parts: usize, task: &F)
where
    T: Send,
    F: Fn(usize, &mut [T]) + Sync,
{
    if parts == 1 {
        return task(first, out);
    }
    let left_chunks = out.len() / chunk * (parts / 2) / parts;
    let (left, right) = out.split_at_mut(left_chunks * chunk);
    rayon::join(
        || split_chunks(first, left, chunk, parts / 2, task),
        || split_chunks(first + left_chunks, right, chunk, parts - parts / 2, task),
    );
}

fn split_copy(from: &[u8], to: &mut [u8], parts: usize) {
    if parts == 1 {
        return to.copy_from_slice(from);
    }
    let middle = from.len() / parts * (parts / 2);
    let ((from_left, from_right), (to_left, to_right)) =
        (from.split_at(middle), to.split_at_mut(middle));
    rayon::join(
        || split_copy(from_left, to_left, parts / 2),
        || split_copy(from_right, to_right, parts - parts / 2),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_chunk_and_column_is_done_once() {
        for count in [1, 2, 3, 5] {
            std::thread::spawn(move || {
                let threads = Threads::new(count).unwrap();
                for chunks in [1, 2, 7, 64] {
                    let mut out = vec![0.0; chunks * 3];
                    threads.chunks(&mut out, 3, SHARE_FROM, &|first, run| {
                        for (at, value) in run.iter_mut().enumerate() {
                            *value += (first * 3 + at) as f32;
                        }
                    });
                    let want: Vec<f32> = (0..chunks * 3).map(|at| at as f32).collect();
                    assert_eq!(out, want);
                    let columns = Columns::new(&mut out, 3, chunks, chunks);
                    let ones = vec![1.0; chunks];
                    threads.columns(columns, SHARE_FROM, &|mut columns| columns.add(&ones));
                    assert!(
                        out.iter()
                            .zip(&want)
                            .all(|(got, was)| (got - was - 1.0).abs() < 0.5)
                    );
                    let (from, mut to) = (vec![7u8; 1 << 20], vec![0u8; 1 << 20]);
                    threads.copy(&from, &mut to);
                    assert_eq!(from, to);
                }
            })
            .join()
            .unwrap();
        }
    }
}
