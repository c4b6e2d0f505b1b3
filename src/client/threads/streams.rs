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
use crate::workloads::request_plan::{Expect, Label, MOST_AHEAD, Planned};
use crate::workloads::talk::Talk;
use crate::{Endpoint, SessionClock};
use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use verdict::record::Phase;

/// How long before its due moment a watch ends: time for further slots to come and to connect.
pub const AHEAD: Duration = Duration::from_millis(50);

/// A request, and when it is to be sent: at once where no moment is set.
#[derive(Debug)]
pub struct Due {
    pub planned: Planned,
    pub at_ns: Option<u64>,
    /// The conversation that it is a turn of. Few requests have one.
    pub talk: Option<Box<Talk>>,
}

/// A request that was answered, or failed, and was not read yet.
#[derive(Debug)]
pub struct Finished {
    pub label: Label,
    pub expect: Expect,
    pub exchange: Exchange,
    pub talk: Option<Unanswered>,
}

/// A conversation whose last turn was answered, and who waits for its next one.
#[derive(Debug)]
pub struct Unanswered {
    pub talk: Box<Talk>,
    /// Gets the next turn; where it is dropped the conversation is over.
    pub next: oneshot::Sender<Due>,
}

impl Due {
    /// Memory that it takes until it is sent.
    fn bytes(&self) -> usize {
        size_of::<Self>() - size_of::<Planned>() + self.planned.bytes()
    }
}

/// What is left of a wave, in the order of sending; all threads take from it.
#[derive(Clone)]
pub struct Queue {
    left: Arc<Mutex<Left>>,
    /// Requests that are made while the wave runs, after those of `left`. A thread that makes one holds this lock until the
    /// request is in its place.
    later: Arc<Mutex<Later>>,
    ends: Ends,
}

/// Requests that are not made yet.
type Later = Box<dyn Iterator<Item = Due> + Send>;

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue")
            .field("ends", &self.ends)
            .finish_non_exhaustive()
    }
}

/// Moments up to which something holds.
#[derive(Clone, Copy, Debug)]
pub struct Ends {
    /// Requests are sent.
    pub requests_ns: u64,
    /// Conversations that were begun go on.
    pub turns_ns: u64,
    /// What is sent is warm-up, since the load rises.
    pub ramp_ns: u64,
}

impl Ends {
    /// All is sent, and nothing rises.
    pub const NONE: Self = Self {
        requests_ns: u64::MAX,
        turns_ns: u64::MAX,
        ramp_ns: 0,
    };
}

struct Left {
    made: VecDeque<Due>,
    /// Memory that they take.
    bytes: usize,
    /// Turns sent, of which so many first ones are warm-up.
    turns: u32,
    warmup: u32,
}

impl Left {
    fn next(&mut self) -> Option<Due> {
        let due = self.made.pop_front()?;
        self.bytes -= due.bytes();
        Some(self.number(due))
    }

    fn put(&mut self, due: Due) {
        self.bytes += due.bytes();
        self.made.push_back(due);
    }

    /// Turns are numbered as they are sent: which comes when depends on the answers.
    fn number(&mut self, mut due: Due) -> Due {
        if due.talk.is_some() {
            let label = &mut due.planned.label;
            label.index = self.turns;
            label.phase = match self.turns < self.warmup {
                true => Phase::Warmup,
                false => Phase::Measured,
            };
            self.turns += 1;
        }
        due
    }
}

impl Queue {
    /// `warmup`: first turns of conversations that are.
    pub fn new(wave: Vec<Due>, ends: Ends, warmup: u32) -> Self {
        Self::of((wave.into(), Box::new(std::iter::empty())), ends, warmup)
    }

    /// The same with requests that are made later.
    pub fn of((wave, later): (VecDeque<Due>, Later), ends: Ends, warmup: u32) -> Self {
        Self {
            left: Arc::new(Mutex::new(Left {
                bytes: wave.iter().map(Due::bytes).sum(),
                made: wave,
                turns: 0,
                warmup,
            })),
            later: Arc::new(Mutex::new(later)),
            ends,
        }
    }

    fn next(&self, now_ns: u64) -> Option<Due> {
        if now_ns > self.ends.requests_ns {
            return None;
        }
        let made = self.left().next();
        // A slot makes its request itself where nobody came to it.
        let due = made.or_else(|| {
            let mut later = lock(&self.later);
            // Somebody may have made one meanwhile.
            let made = self.left().next();
            made.or_else(|| later.next())
        })?;
        Some(self.labelled(due, now_ns))
    }

    /// Makes a further request, where there is room for it. False where none is left to be made.
    pub fn make_one(&self) -> bool {
        let mut later = lock(&self.later);
        if self.left().bytes >= MOST_AHEAD {
            return true;
        }
        let made = later.next();
        let is_one = made.is_some();
        made.into_iter().for_each(|due| self.left().put(due));
        is_one
    }

    /// A conversation's next turn, if it is still to be sent.
    fn goes_on(&self, due: Due, now_ns: u64) -> Option<Due> {
        if now_ns > self.ends.turns_ns {
            return None;
        }
        let due = self.left().number(due);
        Some(self.labelled(due, now_ns))
    }

    fn labelled(&self, mut due: Due, now_ns: u64) -> Due {
        if due.at_ns.unwrap_or(now_ns) < self.ends.ramp_ns {
            due.planned.label.phase = Phase::Warmup;
        }
        due
    }

    /// Leaves nothing for the others.
    fn clear(&self) {
        *lock(&self.later) = Box::new(std::iter::empty());
        let mut left = self.left();
        left.made.clear();
        left.bytes = 0;
    }

    fn left(&self) -> MutexGuard<'_, Left> {
        lock(&self.left)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A wave as one thread sees it.
#[derive(Debug)]
pub struct Shift {
    pub queue: Queue,
    /// The most slots of this thread.
    pub limit: u32,
    /// When its first slot comes, and the time from each to the next; 0: at once.
    pub first_ns: u64,
    pub step_ns: u64,
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
    let mut come = 0;
    loop {
        while let Ok(()) = called.try_recv() {
            slots.spawn(slot(
                bench.client(),
                Arc::clone(&shared),
                shared.start_ns(come),
            ));
            come += 1;
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
                slots.spawn(slot(bench.client(), Arc::clone(&shared), shared.start_ns(come)));
                come += 1;
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
    /// When the slot of this number comes.
    fn start_ns(&self, number: u64) -> u64 {
        let Shift {
            first_ns, step_ns, ..
        } = self.shift;
        first_ns.saturating_add(step_ns.saturating_mul(number))
    }

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

    /// The next turn of a conversation, once the answer to the last was read.
    async fn turn(&self, turn: oneshot::Receiver<Due>) -> Option<Due> {
        let due = turn.await.ok()?;
        self.shift.queue.goes_on(due, self.clock.now_ns())
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

/// Takes requests until none is left, each conversation to its end; gives its client back.
async fn slot(mut client: Client, shared: Arc<Shared>, start_ns: u64) -> Client {
    precise_sleep::until(&shared.clock, start_ns).await;
    let mut next = shared.watch().await;
    while let Some(due) = next {
        let Due {
            planned,
            at_ns,
            talk,
        } = due;
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
        let (talk, turn) = talk
            .map(|talk| {
                let (next, turn) = oneshot::channel();
                (Unanswered { talk, next }, turn)
            })
            .unzip();
        let finished = Finished {
            label,
            expect,
            exchange,
            talk,
        };
        if shared.shift.report.send(finished).is_err() {
            break;
        }
        next = match turn {
            Some(turn) => shared.turn(turn).await,
            None => None,
        };
        if next.is_none() {
            shared.on_watch.fetch_add(1, Relaxed);
            next = shared.watch().await;
        }
    }
    client
}

/// Never completes: the connection stays open until the moment has come.
async fn prepared(client: &mut Client) {
    client.prepare().await;
    std::future::pending().await
}
