//! Progress of a running workload.
//!
//! Main type: [`Progress`]. Refuses to know: what is done with it.

use super::Stopped;
use std::future::Future;
use std::pin::Pin;
use verdict::record::{ClientHealth, Edge, Sample, Window};

/// Told as a workload runs, on the thread that drives [`run`](super::run), never on those that measure.
/// A closure over (done, of) is one that has no use for samples before the end.
pub trait Progress {
    /// `done` of `of` requests were answered or failed; `of` counts all of the workload's.
    fn request_done(&self, done: u32, of: u32);

    /// Samples of requests that are done, each handed over once, in the order in which answers came; those that are
    /// given back are kept for the [`LoadOutcome`]. Answers are read every
    /// few seconds while others are still in flight, and where the future of `run` is dropped, what had
    /// been answered by then is handed over before the drop is done.
    fn samples(&self, samples: Vec<Sample>) -> Vec<Sample> {
        samples
    }

    /// The future of `run` was dropped after some requests were done: what it would have brought had it ended
    /// there. Whoever wants the samples at the end alone need not keep copies meanwhile.
    fn cut_short(&self, outcome: LoadOutcome) {
        let _unused = outcome;
    }

    /// Whoever reads counters where the measured part begins and ends; `None` where no metric of the workload
    /// needs them. Where there is one, warm-up requests are all answered before the measured ones begin.
    fn counters(&self) -> Option<&dyn Counters> {
        None
    }

    /// The place among those that take turns, where another engine is measured at the same time. A workload of one stream
    /// passes the turn on after each request, every other one after its wave.
    fn turns(&self) -> Option<&dyn Turns> {
        None
    }
}

/// A place among clients that take turns.
pub trait Turns {
    /// Waits for the turn. Dropping it passes it on.
    fn take(&self) -> Pin<Box<dyn Future<Output = Box<dyn Turn + '_>> + '_>>;
}

/// In whose time its holder sends, and nobody else.
pub trait Turn {}

/// Reads the engine's counters.
pub trait Counters {
    /// What they are now; no request is in flight until the future is done.
    fn read(&self, side: Side) -> Pin<Box<dyn Future<Output = Edge> + '_>>;
}

/// An end of a measured part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Begin,
    End,
}

impl<F: Fn(u32, u32)> Progress for F {
    fn request_done(&self, done: u32, of: u32) {
        self(done, of);
    }
}

/// Outcome of a workload.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoadOutcome {
    /// One a request that was answered or failed, in the order of sending, but for those that [`Progress::samples`] took.
    pub samples: Vec<Sample>,
    /// Why not all requests were sent, if so.
    pub stopped: Option<Stopped>,
    /// Delays of the load client.
    pub client: ClientHealth,
    /// Where counters were read ([`Progress::counters`]).
    pub windows: Vec<Window>,
}
