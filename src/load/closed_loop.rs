//! Requests that do not depend on each other, a fixed number of them in flight: each slot sends its
//! next as soon as its last was answered.
//!
//! Slots are tasks of the caller's runtime, each with a connection of its own, so that a runtime of
//! several threads spreads them. Every request's JSON is made before the first is sent, and answers
//! are read after the last has come: while the engine works, the client only moves bytes.
//!
//! There is no pause between warm-up and measurement, so that the first measured requests do not start
//! all at once.
//!
//! Refuses to know: what the requests are about.

use super::connection::Client;
use super::exchange::Exchange;
use super::planned::{Expect, Label, Planned};
use super::sampling;
use super::stop::Watchman;
use super::{Endpoint, Outcome, Progress, SessionClock};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinSet};

/// Bytes of unread answers above which they are read although others are still in flight.
const MOST_UNREAD: usize = 256 << 20;

type Queue = Arc<Mutex<std::vec::IntoIter<Planned>>>;

/// A request that was answered, or failed, and was not read yet.
struct Finished {
    label: Label,
    expect: Expect,
    exchange: Exchange,
}

/// Sends all `requests`, `concurrency` at a time; samples come back in the order of sending.
pub(super) async fn run(
    endpoint: &Endpoint,
    workload: &str,
    requests: Vec<Planned>,
    concurrency: u32,
    clock: &SessionClock,
    progress: Progress<'_>,
) -> Outcome {
    let total = u32::try_from(requests.len()).unwrap_or(u32::MAX);
    let queue: Queue = Arc::new(Mutex::new(requests.into_iter()));
    let (report, mut reports) = mpsc::unbounded_channel();
    let mut slots = JoinSet::new();
    for _ in 0..concurrency.clamp(1, total.max(1)) {
        slots.spawn(slot(
            Client::new(endpoint, clock),
            Arc::clone(&queue),
            report.clone(),
        ));
    }
    drop(report);

    let mut outcome = Outcome::default();
    let mut unread = Unread {
        workload,
        held: Vec::new(),
        bytes: 0,
    };
    let mut watchman = Watchman::default();
    let mut done = 0;
    while let Some(finished) = reports.recv().await {
        done += 1;
        progress(done, total);
        outcome.stopped = watchman.note(&finished.exchange.ending);
        unread.hold(finished, &mut outcome);
        if outcome.stopped.is_some() {
            slots.abort_all();
            break;
        }
    }
    while let Some(ended) = slots.join_next().await {
        if let Some(panic) = ended.err().filter(JoinError::is_panic) {
            std::panic::resume_unwind(panic.into_panic());
        }
    }
    // What was answered before the slots were stopped counts.
    while let Ok(finished) = reports.try_recv() {
        unread.hold(finished, &mut outcome);
    }
    unread.read(&mut outcome);
    outcome.samples.sort_by_key(|sample| sample.index);
    outcome
}

async fn slot(mut client: Client, queue: Queue, report: mpsc::UnboundedSender<Finished>) {
    loop {
        let next = queue.lock().unwrap_or_else(PoisonError::into_inner).next();
        let Some(Planned { label, expect, ask }) = next else {
            return;
        };
        let exchange = client.exchange(&ask).await;
        if report
            .send(Finished {
                label,
                expect,
                exchange,
            })
            .is_err()
        {
            return;
        }
    }
}

/// Answers kept for later.
struct Unread<'a> {
    workload: &'a str,
    held: Vec<Finished>,
    bytes: usize,
}

impl Unread<'_> {
    fn hold(&mut self, finished: Finished, outcome: &mut Outcome) {
        self.bytes += finished.exchange.body.len();
        self.held.push(finished);
        if self.bytes > MOST_UNREAD {
            self.read(outcome);
        }
    }

    fn read(&mut self, outcome: &mut Outcome) {
        self.bytes = 0;
        let samples = self.held.drain(..).map(|finished| {
            let Finished {
                label,
                expect,
                exchange,
            } = finished;
            sampling::read(self.workload, label, &expect, &exchange).sample
        });
        outcome.samples.extend(samples);
    }
}
