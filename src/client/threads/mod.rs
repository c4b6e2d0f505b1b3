//! The client's own threads. A connection is opened, used and closed by one of them and never moves.
//!
//! Each thread runs a runtime of its own, so that a segment's arrival wakes the very thread that reads it.
//! How many there are, and why, stands in docs/decisions/0010-threads-of-the-client.md.
//!
//! Main type: [`Crew`]. Dropping it ends its threads and with them every request. Refuses to know: what is
//! sent, what came back.

pub mod cpu_steal;
pub mod gauges;
pub mod health;
pub mod lag_histogram;
pub mod precise_sleep;
pub mod streams;
mod time_slice;

use self::cpu_steal::HostTime;
use self::gauges::Gauges;
use self::streams::{Bench, Finished, Queue, Shift};
use super::{Endpoint, SessionClock};
use nix::time::{ClockId, clock_gettime};
use std::any::Any;
use std::num::NonZero;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// Streams that one thread takes before a further one is started.
const STREAMS_PER_THREAD: u32 = 256;

/// Time between two looks of a thread at its own lateness. A look costs more than reading a token: every
/// 10 ms they trebled the CPU time of a token at one stream.
const TICK: Duration = Duration::from_millis(200);

/// The same where a single stream has the thread and the kernel stamps its reads: each read tells how late the
/// thread is.
const TICK_ALONE: Duration = Duration::from_secs(5);

/// Open files that a client of the most streams needs, and as many that its engine does.
const OPEN_FILES: u64 = 2 * MOST_IN_FLIGHT as u64 + 256;

/// Threads that send and receive.
#[derive(Debug)]
pub struct Crew {
    lanes: Vec<Lane>,
    host_at_start: Option<HostTime>,
}

#[derive(Debug)]
struct Lane {
    shifts: mpsc::UnboundedSender<Shift>,
    /// Its drop ends the thread.
    stop: oneshot::Sender<()>,
    /// Gives the thread's CPU time.
    thread: JoinHandle<Duration>,
    gauges: Arc<Gauges>,
}

/// What a dismissed crew leaves.
#[derive(Debug, Default)]
pub struct Service {
    pub gauges: Gauges,
    /// Of all threads together.
    pub cpu: Duration,
    pub threads: u32,
    /// What the host took of the machine's CPU time meanwhile.
    pub steal_share: Option<f64>,
}

type Panic = Box<dyn Any + Send>;

impl Crew {
    /// Threads for so many streams in flight.
    pub fn start(endpoint: &Endpoint, clock: &SessionClock, streams: u32) -> Self {
        allow_files();
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        let lanes = threads(streams, u32::try_from(cores).unwrap_or(u32::MAX));
        Self {
            lanes: (0..lanes).map(|_| Lane::start(endpoint, clock)).collect(),
            host_at_start: HostTime::now(),
        }
    }

    /// Sends a wave with so many slots at the most; the answers come as they end, and the channel closes
    /// after the last. Slots come from the first moment to the second, one after another.
    pub fn send(
        &self,
        queue: &Queue,
        slots: u32,
        (from_ns, to_ns): (u64, u64),
    ) -> mpsc::UnboundedReceiver<Finished> {
        let step_ns = to_ns.saturating_sub(from_ns) / u64::from(slots.max(1));
        let (report, reports) = mpsc::unbounded_channel();
        let lanes = u32::try_from(self.lanes.len()).unwrap_or(1);
        for (lane, number) in self.lanes.iter().zip(0..) {
            let limit = slots / lanes + u32::from(number < slots % lanes);
            // A thread that is gone has panicked, which shows when it is joined.
            let _gone = lane.shifts.send(Shift {
                queue: queue.clone(),
                limit,
                first_ns: from_ns + step_ns * u64::from(number),
                step_ns: step_ns * u64::from(lanes),
                report: report.clone(),
            });
        }
        reports
    }

    /// Ends all threads, whatever they are doing.
    ///
    /// # Errors
    /// The panic of a thread.
    pub fn dismiss(&mut self) -> Result<Service, Panic> {
        let lanes = std::mem::take(&mut self.lanes);
        let mut service = Service::default();
        // All are told before the first is waited for.
        let told = lanes.into_iter().map(|lane| {
            lane.gauges.end();
            drop((lane.shifts, lane.stop));
            (lane.thread, lane.gauges)
        });
        for (thread, gauges) in told.collect::<Vec<_>>() {
            service.cpu += thread.join()?;
            service.threads += 1;
            service.gauges.absorb(&gauges);
        }
        let host = HostTime::now().zip(self.host_at_start);
        service.steal_share = host.and_then(|(now, before)| now.share_since(before));
        Ok(service)
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        // Who drops it in the middle no longer asks how it went.
        let _unasked = self.dismiss();
    }
}

/// How many threads carry so many streams.
fn threads(streams: u32, cores: u32) -> u32 {
    streams.div_ceil(STREAMS_PER_THREAD).clamp(1, cores.max(1))
}

impl Lane {
    fn start(endpoint: &Endpoint, clock: &SessionClock) -> Self {
        let (shifts, next) = mpsc::unbounded_channel();
        let (stop, stopped) = oneshot::channel();
        let gauges = Arc::new(Gauges::default());
        let bench = Bench {
            endpoint: endpoint.clone(),
            clock: clock.clone(),
            gauges: Arc::clone(&gauges),
            idle: Vec::new(),
        };
        let thread = thread::Builder::new()
            .name("load".to_owned())
            .spawn(move || work(bench, next, stopped))
            .expect("the system starts a thread");
        Self {
            shifts,
            stop,
            thread,
            gauges,
        }
    }
}

/// The thread's whole life.
fn work(
    mut bench: Bench,
    mut shifts: mpsc::UnboundedReceiver<Shift>,
    stopped: oneshot::Receiver<()>,
) -> Duration {
    // Without it the thread reads later on a busy processor, which its own lateness tells.
    let _ = time_slice::shorten();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("the system gives a runtime its poller");
    let (clock, gauges) = (bench.clock.clone(), Arc::clone(&bench.gauges));
    runtime.block_on(async {
        let serve = async {
            while let Some(shift) = shifts.recv().await {
                streams::run(shift, &mut bench).await;
            }
        };
        tokio::select! {
            () = serve => {}
            _ = stopped => {}
            () = tick(&clock, &gauges) => {}
        }
    });
    // Ends every request that is still under way.
    drop(runtime);
    cpu_of_this_thread()
}

/// Notes, without end, how late this thread comes to a moment that it waits for.
async fn tick(clock: &SessionClock, gauges: &Gauges) {
    let mut due_ns = u64::MAX;
    loop {
        // Another pace may bring the next look nearer, never put it off: waves can be shorter than a pause.
        due_ns = due_ns.min(clock.now_ns() + pause(gauges).as_nanos() as u64);
        gauges.look_at(due_ns);
        tokio::select! {
            biased;
            () = precise_sleep::until(clock, due_ns) => {
                gauges.ticks.note(clock.now_ns().saturating_sub(due_ns));
                due_ns = u64::MAX;
            }
            () = gauges.changed() => {}
        }
    }
}

fn pause(gauges: &Gauges) -> Duration {
    if gauges.is_alone() && gauges.is_stamped() {
        TICK_ALONE
    } else {
        TICK
    }
}

/// CPU time that the calling thread has taken so far; zero where the system does not say.
pub fn cpu_of_this_thread() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

/// Raises this process's limit of open files, as far as it may, to what the most streams need that a workload can have:
/// not those of one workload, so that every engine that is started afterwards inherits the same. Where the system's
/// limit is too low, the requests say so.
pub fn allow_files() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < OPEN_FILES
    {
        let _refused = setrlimit(Resource::RLIMIT_NOFILE, OPEN_FILES.min(hard), hard);
    }
}

/// Most requests of an open loop in flight; what is due beyond them is sent late, and its lag says so.
pub const MOST_IN_FLIGHT: u32 = 4_096;

#[cfg(test)]
mod tests {
    use super::{Crew, Endpoint, Gauges, SessionClock, TICK, TICK_ALONE, pause, threads, tick};
    use std::future::Future;
    use std::pin::pin;
    use std::sync::Arc;
    use std::task::{Context, Waker};

    #[test]
    fn looks_are_rare_only_where_reads_tell_as_much() {
        let gauges = Gauges::default();
        for (slots, stamped, expect) in [
            (0, false, TICK),
            (1, false, TICK),
            (1, true, TICK_ALONE),
            (16, true, TICK),
        ] {
            gauges.begin_wave(slots);
            if stamped {
                gauges.note_stamped_read(0);
            }
            assert_eq!(pause(&gauges), expect, "{slots} {stamped}");
        }
    }

    #[test]
    fn a_thread_that_is_dismissed_is_kept_by_no_connection() {
        let endpoint = Endpoint::usual(([127, 0, 0, 1], 9).into(), "none");
        let mut crew = Crew::start(&endpoint, &SessionClock::start(), 1);
        let gauges = Arc::clone(&crew.lanes[0].gauges);
        gauges.begin_wave(1);
        gauges.look_at(u64::MAX);
        assert!(gauges.alone_until_ns().is_some());
        crew.dismiss().unwrap();
        assert_eq!(gauges.alone_until_ns(), None);
    }

    /// Waves that come faster than looks must not put the looks off.
    #[tokio::test]
    async fn a_change_of_pace_puts_no_look_off() {
        let (clock, gauges) = (SessionClock::start(), Gauges::default());
        let mut looking = pin!(tick(&clock, &gauges));
        let mut cx = Context::from_waker(Waker::noop());
        let mut look_at = |slots| {
            gauges.begin_wave(slots);
            assert!(looking.as_mut().poll(&mut cx).is_pending());
            gauges.next_look_ns()
        };
        let first_ns = look_at(16);
        for slots in [1, 4, 1, 16] {
            assert_eq!(look_at(slots), first_ns, "{slots}");
        }
    }

    #[test]
    fn one_thread_for_every_256_streams_up_to_the_cores() {
        for (streams, cores, expect) in [
            (0, 2, 1),
            (1, 2, 1),
            (256, 2, 1),
            (257, 2, 2),
            (1_000, 2, 2),
            (1_000, 64, 4),
            (512, 1, 1),
            (5, 0, 1),
        ] {
            assert_eq!(threads(streams, cores), expect, "{streams} {cores}");
        }
    }
}
