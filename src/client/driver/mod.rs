//! Waves of requests, sent by the crew and read here: one driver for closed and open loops and for turns
//! of a conversation.
//!
//! Every request's JSON is made before the first is sent, but for what would take too much memory
//! ([`MOST_AHEAD`](super::workloads::request_plan::MOST_AHEAD)): that is made here, one or two requests for each
//! that was answered. Answers are read on this thread, after the wave
//! or, where that takes long, every few seconds: the threads that measure only move bytes. There is no
//! pause between warm-up and measurement, so that the first measured requests do not start all at once.
//!
//! Main type: [`Driver`]. Refuses to know: what the requests are about.

use super::samples::build;
use super::stop::Watchman;
use super::threads::health::Tally;
use super::threads::streams::{AHEAD, Due, Ends, Finished, Queue, Unanswered};
use super::threads::{Crew, MOST_IN_FLIGHT, Service, cpu_of_this_thread};
use super::workloads::request_plan::{Label, Pace, Planned, Wave};
use super::workloads::trace::next_turn;
use super::{Endpoint, LoadOutcome, Progress, SessionClock, Side, Turns, windows};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio::time::timeout;
use verdict::record::{Edge, Sample, Setting, Window};

/// Memory of unread answers above which they are read although others are still in flight.
const MOST_UNREAD: usize = 32 << 20;

/// Age of the oldest unread answer at which all are read, so that they can be handed over.
const READ_EVERY: Duration = Duration::from_secs(5);

/// Sends all waves, one after another.
pub async fn run(
    endpoint: &Endpoint,
    workload: &str,
    waves: Vec<Wave>,
    clock: &SessionClock,
    progress: &dyn Progress,
) -> LoadOutcome {
    let is_counted = progress.counters().is_some();
    let waves = match is_counted {
        true => waves.into_iter().flat_map(windows::apart).collect(),
        false => waves,
    };
    let streams = waves.iter().map(streams).max().unwrap_or(0);
    let requests = waves.iter().map(Wave::len).sum();
    let mut driver = Driver::start(endpoint, workload, clock, progress, (streams, requests));
    for wave in waves {
        let ends = windows::measured(&wave).filter(|_| is_counted);
        let begin = driver.begin_window(ends).await;
        driver.wave(wave).await;
        driver.end_window(begin).await;
        if driver.has_stopped() {
            break;
        }
    }
    driver.finish()
}

/// The most that a wave may have in flight.
fn streams(wave: &Wave) -> u32 {
    let most = match &wave.pace {
        Pace::Slots(slots) => *slots,
        Pace::At(_) => MOST_IN_FLIGHT,
        Pace::InTurn(_) => 1,
    };
    most.clamp(1, wave.len().max(1))
}

/// True if the wave sends one request at a time, each after the answer to the last, and has no time limit.
fn is_one_after_another(wave: &Wave) -> bool {
    let one = matches!(wave.pace, Pace::Slots(1));
    one && wave.until.is_none() && wave.ramp_up.is_none() && wave.talks.is_none()
}

/// Sends one workload's requests and reads what comes back. Where it is dropped, what was answered until
/// then is still handed over.
pub struct Driver<'a> {
    workload: &'a str,
    endpoint: &'a Endpoint,
    clock: &'a SessionClock,
    progress: &'a dyn Progress,
    crew: Crew,
    /// Of the wave under way.
    reports: mpsc::UnboundedReceiver<Finished>,
    watchman: Watchman,
    unread: Unread,
    /// Sums over all samples, from which the client's health is computed.
    tally: Tally,
    outcome: LoadOutcome,
    done: u32,
    requests: u32,
    begun: Instant,
    /// Most slots of a wave without due moments.
    slots: u32,
    /// CPU time of reading answers, and of making requests while others are in flight.
    own_cpu: Duration,
}

/// Answers kept for later.
#[derive(Default)]
struct Unread {
    held: Vec<Finished>,
    bytes: usize,
    /// Arrival of the oldest.
    since: Option<Instant>,
}

/// The answer that was read last.
struct Last {
    reply: String,
    is_sound: bool,
}

impl<'a> Driver<'a> {
    /// `streams` in flight at the most, `requests` in all.
    pub fn start(
        endpoint: &'a Endpoint,
        workload: &'a str,
        clock: &'a SessionClock,
        progress: &'a dyn Progress,
        (streams, requests): (u32, u32),
    ) -> Self {
        Self {
            workload,
            endpoint,
            clock,
            progress,
            crew: Crew::start(endpoint, clock, streams),
            reports: mpsc::unbounded_channel().1,
            watchman: Watchman::default(),
            unread: Unread::default(),
            tally: Tally::default(),
            outcome: LoadOutcome::default(),
            done: 0,
            requests,
            begun: Instant::now(),
            slots: 0,
            own_cpu: Duration::ZERO,
        }
    }

    /// Whether the engine is gone, so that nothing more need be sent.
    pub fn has_stopped(&self) -> bool {
        self.outcome.stopped.is_some()
    }

    /// Reads the counters before measured requests with these least and greatest indices, where some are needed.
    pub async fn begin_window(&self, ends: Option<(u32, u32)>) -> Option<Window> {
        let (first, last) = ends?;
        Some(Window {
            workload: self.workload.to_owned(),
            first,
            last,
            begin: self.edge(Side::Begin).await?,
            end: Edge::default(),
        })
    }

    /// Reads them again when every one of those requests was answered.
    pub async fn end_window(&mut self, begun: Option<Window>) {
        let Some(mut window) = begun.filter(|_| !self.has_stopped()) else {
            return;
        };
        window.end = self.edge(Side::End).await.unwrap_or_default();
        self.outcome.windows.push(window);
    }

    async fn edge(&self, side: Side) -> Option<Edge> {
        Some(self.progress.counters()?.read(side).await)
    }

    /// Sends a wave and waits until every request of it was answered.
    pub async fn wave(&mut self, wave: Wave) {
        let turns = self.progress.turns();
        if let (Some(turns), true) = (turns, is_one_after_another(&wave)) {
            let later = wave.later.map(|later| later.requests).into_iter().flatten();
            let requests = wave.requests.into_iter().chain(later);
            return self.by_turns(requests, turns).await;
        }
        let _turn = match turns {
            Some(turns) => Some(turns.take().await),
            None => None,
        };
        let slots = streams(&wave);
        let now_ns = self.clock.now_ns();
        let (origin_ns, moments) = match wave.pace {
            Pace::Slots(_) => {
                self.slots = self.slots.max(slots);
                (now_ns, None)
            }
            // So much later, so that the first connection is there in time.
            Pace::At(moments) => (now_ns + nanos(AHEAD), Some(moments)),
            Pace::InTurn(moments) => return self.in_turn(wave.requests, moments).await,
        };
        // Of moments none lies behind it: one that is sent late is sent all the same.
        let until = wave.until.filter(|_| moments.is_none()).map(nanos);
        let until_ns = until.map_or(u64::MAX, |until| origin_ns.saturating_add(until));
        let after = |time: Duration| origin_ns.saturating_add(nanos(time));
        let ends = Ends {
            requests_ns: until_ns,
            turns_ns: wave.until.map_or(u64::MAX, after),
            ramp_ns: wave.ramp_up.map_or(0, after),
        };
        let rises = match moments {
            None => (origin_ns, ends.ramp_ns),
            Some(_) => (0, 0),
        };
        let (talks, warmup) = match wave.talks {
            Some(talks) => (talks.talks, talks.warmup),
            None => (Vec::new(), 0),
        };
        let mut talks = talks.into_iter();
        let mut moments = moments.map(Vec::into_iter);
        let (made, later) = (wave.requests.len(), wave.later.map(|later| later.requests));
        let requests = wave.requests.into_iter().chain(later.into_iter().flatten());
        let mut due = requests.map_while(move |mut planned| {
            count_from(origin_ns, &mut planned.label);
            let at_ns = match &mut moments {
                None => None,
                Some(moments) => Some(origin_ns.saturating_add(nanos(moments.next()?))),
            };
            let talk = talks.next().map(Box::new);
            Some(Due {
                planned,
                at_ns,
                talk,
            })
        });
        let made = due.by_ref().take(made).collect();
        let queue = Queue::of((made, Box::new(due)), ends, warmup);
        self.send(&queue, slots, rises).await;
    }

    /// Sends each when the one before was answered and the turn has come.
    async fn by_turns(&mut self, requests: impl Iterator<Item = Planned>, turns: &dyn Turns) {
        self.slots = self.slots.max(1);
        for planned in requests {
            let _turn = turns.take().await;
            self.alone(planned, None).await;
            if self.has_stopped() {
                return;
            }
        }
        // Reading them would disturb the other one's request.
        let _turn = turns.take().await;
        self.read();
    }

    /// Sends each at its moment, or where the one before was not answered by then, at once.
    async fn in_turn(&mut self, requests: Vec<Planned>, moments: Vec<Duration>) {
        self.slots = self.slots.max(1);
        let origin_ns = self.clock.now_ns() + nanos(AHEAD);
        for (mut planned, moment) in requests.into_iter().zip(moments) {
            count_from(origin_ns, &mut planned.label);
            let arrives_ns = origin_ns.saturating_add(nanos(moment));
            let at_ns = Some(arrives_ns).filter(|at| *at > self.clock.now_ns());
            self.alone(planned, at_ns).await;
            if self.has_stopped() {
                return;
            }
        }
    }

    /// Sends one request, at a moment if one is given, and gives the text of its answer, empty where there
    /// is none.
    pub async fn one(&mut self, planned: Planned, at_ns: Option<u64>) -> String {
        self.slots = self.slots.max(1);
        let (turn, at_ns) = match self.progress.turns() {
            Some(turns) => {
                // Whose moment is still to come holds nobody up.
                self.sleep_until(at_ns).await;
                (Some(turns.take().await), None)
            }
            None => (None, at_ns),
        };
        self.alone(planned, at_ns).await;
        let reply = self.read().map(|read| read.reply).unwrap_or_default();
        drop(turn);
        reply
    }

    async fn sleep_until(&self, at_ns: Option<u64>) {
        let left = at_ns.map_or(0, |at_ns| at_ns.saturating_sub(self.clock.now_ns()));
        tokio::time::sleep(Duration::from_nanos(left)).await;
    }

    async fn alone(&mut self, planned: Planned, at_ns: Option<u64>) {
        let due = Due {
            planned,
            at_ns,
            talk: None,
        };
        let queue = Queue::new(vec![due], Ends::NONE, 0);
        self.send(&queue, 1, (0, 0)).await;
    }

    /// `rises`: from when until when slots come one after another.
    async fn send(&mut self, queue: &Queue, slots: u32, rises: (u64, u64)) {
        self.reports = self.crew.send(queue, slots, rises);
        let mut is_all_made = false;
        while !self.has_stopped() {
            match timeout(READ_EVERY, self.reports.recv()).await {
                Ok(None) => break,
                Ok(Some(mut finished)) => {
                    is_all_made = is_all_made || self.make(queue);
                    self.done += 1;
                    self.progress.request_done(self.done, self.requests);
                    // A server may drop the connection of a bad request.
                    if !finished.expect.refused || !finished.exchange.is_dropped() {
                        self.outcome.stopped = self.watchman.note(&finished.exchange);
                    }
                    let talk = finished.talk.take();
                    self.unread.hold(finished);
                    if let Some(talk) = talk {
                        self.go_on(talk);
                    }
                }
                Err(_elapsed) => {}
            }
            if self.unread.is_due() {
                self.read();
            }
        }
    }

    /// Makes further requests for one that was answered. True where none is left to be made.
    fn make(&mut self, queue: &Queue) -> bool {
        let before = cpu_of_this_thread();
        // One more than were answered, since reading held this up.
        let has_more = (0..2).all(|_| queue.make_one());
        self.own_cpu += cpu_of_this_thread().saturating_sub(before);
        !has_more
    }

    /// Reads the answer that came last and hands the conversation's next turn out. A void answer ends it: what would
    /// follow is no longer the same conversation.
    fn go_on(&mut self, Unanswered { mut talk, next }: Unanswered) {
        let Some(Last {
            reply,
            is_sound: true,
        }) = self.read()
        else {
            return;
        };
        talk.answered(reply);
        if let Some(planned) = next_turn(self.endpoint, &mut talk) {
            // Nobody waits for it where the run is being ended.
            let _ended = next.send(Due {
                planned,
                at_ns: None,
                talk: Some(talk),
            });
        }
    }

    /// Reads what is held and hands it over; gives what the last one said.
    fn read(&mut self) -> Option<Last> {
        let before = cpu_of_this_thread();
        let mut last = None;
        self.clock.look();
        let held = std::mem::take(&mut self.unread).held.into_iter();
        let samples = held.map(|mut finished| {
            let exchange = &mut finished.exchange;
            exchange.clock_set_ns = self.clock.set_within(exchange.send_ns, exchange.last_ns());
            let reading = build::read(self.workload, finished, self.endpoint);
            last = Some(Last {
                reply: reading.reply,
                is_sound: reading.sample.void.is_none(),
            });
            reading.sample
        });
        let samples: Vec<Sample> = samples.collect();
        samples.iter().for_each(|sample| self.tally.add(sample));
        self.own_cpu += cpu_of_this_thread().saturating_sub(before);
        if !samples.is_empty() {
            let kept = self.progress.samples(samples);
            self.outcome.samples.extend(kept);
        }
        last
    }

    /// Ends the threads, and says what came and how well the client did.
    pub fn finish(mut self) -> LoadOutcome {
        match self.crew.dismiss() {
            Ok(service) => self.outcome(service),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }

    /// What came, and how well the client did whose threads left this.
    fn outcome(&mut self, mut service: Service) -> LoadOutcome {
        self.drain();
        service.cpu += self.own_cpu;
        let mut outcome = std::mem::take(&mut self.outcome);
        outcome.samples.sort_by_key(|sample| sample.index);
        let (tally, wall) = (std::mem::take(&mut self.tally), self.begun.elapsed());
        outcome.client = tally.health(self.workload, self.slots, &service, wall);
        outcome
    }

    /// What was answered before the threads ended counts.
    fn drain(&mut self) {
        while let Ok(finished) = self.reports.try_recv() {
            self.unread.hold(finished);
        }
        self.read();
    }
}

impl Drop for Driver<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        // Whoever drops it in the middle does not want to hear of a thread's panic.
        let service = self.crew.dismiss().unwrap_or_default();
        self.drain();
        if !self.tally.is_empty() {
            let outcome = self.outcome(service);
            self.progress.cut_short(outcome);
        }
    }
}

impl Unread {
    fn hold(&mut self, finished: Finished) {
        self.bytes += size_of::<Finished>() + finished.exchange.bytes();
        self.since.get_or_insert_with(Instant::now);
        self.held.push(finished);
    }

    fn is_due(&self) -> bool {
        let old = |since: Instant| since.elapsed() >= READ_EVERY;
        self.bytes > MOST_UNREAD || self.since.is_some_and(old)
    }
}

/// Staggered users count from their wave's start.
fn count_from(moment_ns: u64, label: &mut Label) {
    if let Some(Setting::Sequential { origin_ns, .. } | Setting::Together { origin_ns, .. }) =
        &mut label.setting
    {
        *origin_ns = moment_ns;
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
