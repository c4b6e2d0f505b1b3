//! The slots of one thread: each takes a request, waits until it is due, and exchanges it.
//!
//! There is one way for every pace. A slot is on watch from taking a request until shortly before its due
//! moment; when its watch ends and nobody else of the thread is on watch, it calls a further slot, as long
//! as the limit allows. So
//!
//! - in a closed loop, where every request is due at once, all slots come one after another and each sends
//!   its next request as soon as its last was answered;
//! - in an open loop somebody always waits for the next due moment, with a connection that is open
//!   already, and slots that are done are used again.
//!
//! Main function: [`run`]. Refuses to know: other threads, what answers say.

use super::gauges::Gauges;
use super::precise_sleep;
use crate::response::exchange::Exchange;
use crate::socket::connection::Client;
use crate::workloads::request_plan::{Expect, Label, Planned};
use crate::{Endpoint, SessionClock};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// How long before its due moment a watch ends: time for further slots to come and to connect.
pub const AHEAD: Duration = Duration::from_millis(50);

/// A request, and when it is to be sent: at once where no moment is set.
#[derive(Debug)]
pub struct Due {
    pub planned: Planned,
    pub at_ns: Option<u64>,
}

/// A request that was answered, or failed, and was not read yet.
#[derive(Debug)]
pub struct Finished {
    pub label: Label,
    pub expect: Expect,
    pub exchange: Exchange,
}

/// What is left of a wave, in the order of sending; all threads take from it.
#[derive(Clone, Debug)]
pub struct Queue {
    left: Arc<Mutex<std::vec::IntoIter<Due>>>,
    until_ns: u64,
}

impl Queue {
    /// No request is taken after `until_ns`.
    pub fn new(wave: Vec<Due>, until_ns: u64) -> Self {
        Self {
            left: Arc::new(Mutex::new(wave.into_iter())),
            until_ns,
        }
    }

    fn next(&self, now_ns: u64) -> Option<Due> {
        let left = || {
            self.left
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .next()
        };
        (now_ns <= self.until_ns).then(left).flatten()
    }

    /// Leaves nothing for the others.
    fn clear(&self) {
        *self.left.lock().unwrap_or_else(PoisonError::into_inner) = Vec::new().into_iter();
    }
}

/// A wave as one thread sees it.
#[derive(Debug)]
pub struct Shift {
    pub queue: Queue,
    /// The most slots of this thread.
    pub limit: u32,
    pub report: mpsc::UnboundedSender<Finished>,
}

/// What a thread keeps between waves.
#[derive(Debug)]
pub struct Bench {
    pub endpoint: Endpoint,
    pub clock: SessionClock,
    pub gauges: Arc<Gauges>,
    /// Clients that no slot uses at the moment, with their connections.
    pub idle: Vec<Client>,
}

/// Runs one thread's part of a wave to its end.
pub async fn run(shift: Shift, bench: &mut Bench) {
    let (calls, mut called) = mpsc::unbounded_channel();
    bench.gauges.begin_wave(shift.limit);
    let queue = shift.queue.clone();
    let shared = Arc::new(Shared {
        shift,
        calls,
        clock: bench.clock.clone(),
        started: AtomicU32::new(0),
        on_watch: AtomicU32::new(0),
    });
    shared.call();
    let mut slots = JoinSet::new();
    loop {
        while let Ok(()) = called.try_recv() {
            slots.spawn(slot(bench.client(), Arc::clone(&shared)));
        }
        if slots.is_empty() {
            return;
        }
        tokio::select! {
            Some(ended) = slots.join_next() => match ended {
                Ok(client) => bench.idle.push(client),
                Err(error) => {
                    queue.clear();
                    if let Ok(panic) = error.try_into_panic() {
                        std::panic::resume_unwind(panic);
                    }
                }
            },
            Some(()) = called.recv() => {
                slots.spawn(slot(bench.client(), Arc::clone(&shared)));
            }
        }
    }
}

impl Bench {
    fn client(&mut self) -> Client {
        let idle = self.idle.pop();
        idle.unwrap_or_else(|| Client::new(&self.endpoint, &self.clock, &self.gauges))
    }
}

/// What the slots of one thread share during a wave.
struct Shared {
    shift: Shift,
    calls: mpsc::UnboundedSender<()>,
    clock: SessionClock,
    started: AtomicU32,
    on_watch: AtomicU32,
}

impl Shared {
    /// Has a further slot come, if there may be one; it counts as on watch from now on.
    fn call(&self) {
        if self.started.load(Relaxed) < self.shift.limit {
            self.started.fetch_add(1, Relaxed);
            self.on_watch.fetch_add(1, Relaxed);
            // Nobody hears it when the wave is being dropped.
            let _dropped = self.calls.send(());
        }
    }

    fn end_watch(&self) {
        if self.on_watch.fetch_sub(1, Relaxed) == 1 {
            self.call();
        }
    }

    /// The next request, shortly before it is due.
    async fn watch(&self) -> Option<Due> {
        let next = self.shift.queue.next(self.clock.now_ns());
        if let Some(Due {
            at_ns: Some(at_ns), ..
        }) = next
        {
            let ahead_ns = AHEAD.as_nanos() as u64;
            precise_sleep::until(&self.clock, at_ns.saturating_sub(ahead_ns)).await;
        }
        if next.is_some() {
            self.end_watch();
        }
        next
    }
}

/// Takes requests until none is left; gives its client back.
async fn slot(mut client: Client, shared: Arc<Shared>) -> Client {
    while let Some(Due { planned, at_ns }) = shared.watch().await {
        let Planned { label, expect, ask } = planned;
        if let Some(at_ns) = at_ns {
            tokio::select! {
                biased;
                () = precise_sleep::until(&shared.clock, at_ns) => {}
                // Whatever the connecting does, the moment is kept.
                () = prepared(&mut client) => {}
            }
        }
        let mut exchange = client.exchange(&ask).await;
        exchange.due_ns = at_ns;
        let finished = Finished {
            label,
            expect,
            exchange,
        };
        if shared.shift.report.send(finished).is_err() {
            break;
        }
        shared.on_watch.fetch_add(1, Relaxed);
    }
    client
}

/// Never completes: the connection stays open until the moment has come.
async fn prepared(client: &mut Client) {
    client.prepare().await;
    std::future::pending().await
}
