//! Thermal honesty: launches against a server whose speed depends on what it had to do before.
//!
//! Tokens leave at absolute moments, so that a probe's time per token is off by a small part of one late
//! write; what is asserted are counts of probes, and sums.

use super::server::{Answer, Server};
use client::{Endpoint, SessionClock};
use fixture::records;
use infergate::measure::{Configuration, Ended, Follower, Host, Progress, Protocol, Started};
use std::convert::Infallible;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use verdict::plan::{Arrivals, Cooldown, Plan, Steady, Suite, Workload, WorkloadKind};
use verdict::record::{Arm, Exit, Launch, Rest, Sample, Startup, SuiteRun};

/// Requests of one probe, its warm-up counted.
const PROBE: usize = 6;

/// Time between tokens, by launch and by request within it.
type Speed = dyn Fn(usize, usize) -> Duration + Send + Sync;

/// A machine that launches run on, one after another.
struct Oven {
    address: SocketAddr,
    /// The launch that runs, from 1, and its requests so far.
    now: Arc<Mutex<(usize, usize)>>,
}

impl Oven {
    fn heat(speed: impl Fn(usize, usize) -> Duration + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let now = Arc::new(Mutex::new((0, 0)));
        let (asked, speed) = (Arc::clone(&now), Arc::new(speed));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (asked, speed) = (Arc::clone(&asked), Arc::clone(&speed));
                // A client that goes away ends its connection.
                std::thread::spawn(move || _ = answer(stream, &asked, &*speed));
            }
        });
        Self { address, now }
    }
}

fn answer(stream: TcpStream, now: &Mutex<(usize, usize)>, speed: &Speed) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut writer = stream.try_clone()?;
    let mut reader = BufReader::new(stream);
    loop {
        let mut length = 0;
        for line in reader.by_ref().lines() {
            let line = line?;
            if let Some(value) = line.strip_prefix("content-length: ") {
                length = value.parse().unwrap();
            }
            if line.is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let request: serde_json::Value = serde_json::from_slice(&body)?;
        let gap = {
            let mut now = now.lock().unwrap();
            now.1 += 1;
            speed(now.0 - 1, now.1 - 1)
        };
        let tokens = request["max_tokens"].as_u64().unwrap();
        write!(
            writer,
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
        )?;
        let begun = Instant::now();
        for i in 0..tokens {
            let due = begun + gap * (i as u32);
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            chunk(&mut writer, r#"{"choices":[{"text":" x"}]}"#)?;
        }
        chunk(
            &mut writer,
            r#"{"choices":[{"text":"","finish_reason":"length"}]}"#,
        )?;
        let usage = format!(
            r#"{{"choices":[],"usage":{{"prompt_tokens":16,"completion_tokens":{tokens}}}}}"#
        );
        chunk(&mut writer, &usage)?;
        chunk(&mut writer, "[DONE]")?;
        write!(writer, "0\r\n\r\n")?;
    }
}

fn chunk(writer: &mut TcpStream, data: &str) -> std::io::Result<()> {
    let event = format!("data: {data}\n\n");
    writer.write_all(format!("{:x}\r\n{event}\r\n", event.len()).as_bytes())
}

impl Host for Oven {
    type Error = Infallible;

    async fn start(
        &mut self,
        _: Arm,
        _: &Configuration,
        _: &str,
    ) -> Result<Result<Started, Exit>, Infallible> {
        let mut now = self.now.lock().unwrap();
        *now = (now.0 + 1, 0);
        Ok(Ok(Started {
            endpoint: Endpoint {
                prompt_ids: Some((100, 200)),
                ..Endpoint::usual(self.address, "m")
            },
            startup: Startup::default(),
            pid: None,
        }))
    }

    fn no_room(&self, _: Arm, _: &Exit) -> Infallible {
        panic!("launches are measured one after another")
    }

    async fn suite(
        &mut self,
        _: &Launch,
        _: &Started,
        _: &Workload,
        _: &Suite,
    ) -> Result<SuiteRun, Infallible> {
        panic!("no suite is planned")
    }

    async fn stop(&mut self, _: Option<String>) -> Result<Ended, Infallible> {
        Ok(Ended::by_itself(Exit::Stopped))
    }
}

/// Keeps what it is told of rests.
#[derive(Default)]
struct Told(Mutex<Vec<(u32, Duration)>>);

impl Follower for Told {
    type Error = Infallible;

    fn progress(&self, progress: Progress) {
        if let Progress::Resting {
            position, waited, ..
        } = progress
        {
            self.0.lock().unwrap().push((position, waited));
        }
    }

    fn begun(&self, _: &Launch) {}

    fn samples(&self, _: u32, _: &[Sample]) {}

    fn finished(&self, _: &Launch) -> Result<(), Infallible> {
        Ok(())
    }
}

fn plan(cooldown: Cooldown) -> Plan {
    let few = WorkloadKind::Steady(Steady {
        requests: 1,
        warmup: 0,
        prompt_tokens: 16,
        output_tokens: 2,
        arrivals: Arrivals::Closed { concurrency: 1 },
    });
    let mut plan = records::plan(vec![records::workload(None, few)], vec![]);
    plan.design.cooldown = Some(cooldown);
    plan
}

/// Three launches of head; their rests, and what was told of waiting.
fn rests(oven: Oven, cooldown: Cooldown) -> (Vec<Rest>, Vec<(u32, Duration)>) {
    let (done, told) = launches(oven, &plan(cooldown));
    let rests = done.into_iter().map(|launch| launch.rest.unwrap());
    (rests.collect(), told)
}

/// Three launches of head, and what was told of waiting.
fn launches(mut oven: Oven, plan: &Plan) -> (Vec<Launch>, Vec<(u32, Duration)>) {
    let clock = SessionClock::start();
    let protocol = Protocol {
        plan,
        seed: 1,
        arms: &[Arm::Head],
        clock: &clock,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let (mut done, told) = (Vec::new(), Told::default());
    for block in 0..3 {
        let block = protocol.block(block, &mut oven, &mut done, &told);
        runtime.block_on(block).unwrap();
    }
    (done, told.0.into_inner().unwrap())
}

fn rule(within: f64, budget_ms: u64) -> Cooldown {
    Cooldown {
        budget: Duration::from_millis(budget_ms),
        burst: Duration::from_millis(20),
        within,
        pause: Duration::from_millis(10),
    }
}

fn waits(rests: &[Rest]) -> Vec<usize> {
    rests.iter().map(|rest| rest.probes_ms.len() - 1).collect()
}

/// Incident 17: sustained speed is 88 % of a fresh machine's. Compared with the fresh one, every launch
/// would wait for what can never come.
#[test]
fn sustained_speed_is_not_taken_for_heat() {
    const FRESH: Duration = Duration::from_micros(12_000);
    let oven = Oven::heat(|launch, request| match (launch, request) {
        (0, 0..3) => FRESH,
        _ => FRESH.mul_f64(1.0 / 0.88),
    });
    let (rests, _) = rests(oven, rule(0.10, 60_000));
    assert_eq!(waits(&rests), [0, 0, 0], "{rests:?}");
    let fresh_ms = FRESH.as_secs_f64() * 1e3;
    for rest in &rests {
        assert!(rest.reference_ms > fresh_ms * 1.10, "{rest:?}");
        assert!(
            rest.waited_ms <= 0.0 && rest.budget_left_ms >= 60_000.0,
            "{rest:?}"
        );
    }
}

#[test]
fn a_hot_machine_is_waited_for_until_it_is_cool() {
    let oven = Oven::heat(|launch, request| match (launch, request < 2 * PROBE) {
        (1, true) => Duration::from_millis(12),
        _ => Duration::from_millis(4),
    });
    let (rests, told) = rests(oven, rule(0.5, 60_000));
    assert_eq!(waits(&rests), [0, 2, 0], "{rests:?}");
    let [_, hot, next] = &rests[..] else {
        panic!("{rests:?}")
    };
    assert!(hot.waited_ms >= 20.0, "{hot:?}");
    let rest_of_budget = 60_000.0 - hot.waited_ms;
    assert!(
        (hot.budget_left_ms - rest_of_budget).abs() < 1e-3,
        "{hot:?}"
    );
    assert!(
        (next.budget_left_ms - hot.budget_left_ms).abs() < 1e-3,
        "{next:?}"
    );
    let waited = told.iter().filter(|(_, waited)| !waited.is_zero());
    assert_eq!(
        waited.map(|(position, _)| *position).collect::<Vec<_>>(),
        [1, 1]
    );
}

/// The GPU throttles through the first launch, and in the second until its last probe.
#[test]
fn heat_that_was_waited_out_is_not_held_against_the_launch() {
    const THROTTLES: &str = "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS{gpu=\"0\"} 32\n";
    const RUNS: &str = "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS{gpu=\"0\"} 0\n";
    let is_hot = Arc::new(AtomicBool::new(true));
    let asked = Arc::clone(&is_hot);
    let exporter = Arc::new(Server::start(move |_, _| {
        Answer::Text(match asked.load(Ordering::SeqCst) {
            true => THROTTLES,
            false => RUNS,
        })
    }));
    let mut plan = plan(rule(0.5, 60_000));
    plan.telemetry.every = Duration::from_millis(5);
    plan.telemetry.gpu_exporter = Some(format!("{}/metrics", exporter.address));
    let oven = Oven::heat(move |launch, request| {
        if (launch, request) == (1, PROBE - 1) {
            // A reading begins when the one before it is done.
            exporter.await_requests(exporter.requests() + 2);
            is_hot.store(false, Ordering::SeqCst);
        }
        Duration::from_millis(4)
    });
    let (done, _) = launches(oven, &plan);
    let saw = |launch: &Launch| {
        let telemetry = launch.telemetry.as_ref().unwrap();
        let mut gpus = telemetry.readings.iter().flat_map(|r| &r.gpus);
        gpus.any(|gpu| gpu.throttle_bits == Some(32))
    };
    let throttled = |launch: &Launch| launch.throttle_bits.is_some_and(|bits| bits != 0);
    let found: Vec<_> = done.iter().map(|l| (saw(l), throttled(l))).collect();
    assert_eq!(found, [(true, true), (true, false), (false, false)]);
}

#[test]
fn waiting_ends_with_the_sessions_budget() {
    let oven = Oven::heat(|launch, _| Duration::from_millis(if launch == 0 { 2 } else { 6 }));
    let (rests, _) = rests(oven, rule(0.5, 25));
    let [_, hot, next] = &rests[..] else {
        panic!("{rests:?}")
    };
    assert!((1..=3).contains(&(hot.probes_ms.len() - 1)), "{hot:?}");
    assert!(
        hot.waited_ms >= 25.0 && hot.budget_left_ms <= 0.0,
        "{hot:?}"
    );
    assert_eq!(next.probes_ms.len(), 1, "{next:?}");
    assert!(next.waited_ms <= 0.0, "{next:?}");
}
