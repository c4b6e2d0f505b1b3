//! Delays of the load client, from its threads' gauges and from the samples' own stamps.
//!
//! Main type: [`Tally`].

use super::Service;
use super::lag_histogram::Lags;
use std::time::Duration;
use verdict::record::{ClientHealth, Phase, Sample, Stamps};

/// Sums over a client's samples, from which its health is computed without keeping them.
#[derive(Debug, Default)]
pub struct Tally {
    send_lags: Lags,
    events: u64,
    ambiguous: u64,
    answered: u64,
    by_kernel: u64,
    /// Sends and last outputs of all, warm-up included.
    begins_ns: Vec<u64>,
    ends_ns: Vec<u64>,
}

impl Tally {
    pub fn add(&mut self, sample: &Sample) {
        let stamps = &sample.stamps;
        self.begins_ns.push(stamps.send_ns);
        self.ends_ns.push(end_ns(stamps).max(stamps.send_ns + 1));
        if sample.phase != Phase::Measured {
            return;
        }
        let lag_ns = stamps.send_ns.saturating_sub(stamps.intended_ns);
        self.send_lags.note(lag_ns);
        self.events += u64::from(sample.tokens.events);
        self.ambiguous += u64::from(stamps.ambiguous_events);
        if stamps.first_byte_ns.is_some() {
            self.answered += 1;
            self.by_kernel += u64::from(stamps.kernel_stamps);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.begins_ns.is_empty()
    }

    /// The health of a client that took these samples with at most `slots` slots in its closed loops.
    pub fn health(
        self,
        workload: &str,
        slots: u32,
        service: &Service,
        wall: Duration,
    ) -> ClientHealth {
        let reached = most_at_once(self.begins_ns, self.ends_ns);
        ClientHealth {
            workload: workload.to_owned(),
            send_lag_ms: self.send_lags.spread(),
            read_lag_ms: service.gauges.reads.spread(),
            loop_delay_ms: service.gauges.ticks.spread(),
            ambiguous_share: share(self.ambiguous, self.events),
            kernel_share: share(self.by_kernel, self.answered),
            // An open loop asks for moments, not for streams: what it could not send in time is late.
            streams_asked: slots.max(reached),
            streams_reached: reached,
            resent: service.gauges.resent(),
            cpu_s: service.cpu.as_secs_f64(),
            threads: service.threads,
            wall_s: wall.as_secs_f64(),
            steal_share: service.steal_share,
        }
    }
}

/// The last output event; without one, the last that was heard of the request.
fn end_ns(stamps: &Stamps) -> u64 {
    let heard = || [stamps.done_ns, stamps.headers_ns].into_iter().flatten();
    let last = stamps.events_ns.last().copied();
    last.or_else(|| heard().max()).unwrap_or(stamps.send_ns)
}

/// The most requests in flight at once, from sending to the last output, by a sweep over their ends. A late goodbye is
/// no stream.
fn most_at_once(mut begins_ns: Vec<u64>, mut ends_ns: Vec<u64>) -> u32 {
    begins_ns.sort_unstable();
    ends_ns.sort_unstable();
    let (mut ended, mut most) = (0, 0);
    for (begun, begin_ns) in (1..).zip(begins_ns) {
        // At one moment, what ends makes room for what begins.
        ended += ends_ns[ended..]
            .iter()
            .take_while(|end_ns| **end_ns <= begin_ns)
            .count();
        most = most.max(begun - ended);
    }
    u32::try_from(most).unwrap_or(u32::MAX)
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 / whole as f64
    }
}

#[cfg(test)]
mod tests {
    use super::Tally;
    use crate::threads::Service;
    use std::time::Duration;
    use verdict::record::ClientHealth;
    use verdict::record::{Phase, Sample, Stamps, TokenCounts};

    fn sample(intended_ns: u64, send_ns: u64, events_ns: &[u64]) -> Sample {
        Sample {
            workload: "g/w".into(),
            index: 0,
            phase: Phase::Measured,
            case: None,
            turn: None,
            streamed: true,
            setting: None,
            stamps: Stamps {
                intended_ns,
                send_ns,
                first_byte_ns: events_ns.first().copied(),
                events_ns: events_ns.to_vec(),
                done_ns: events_ns.last().map(|last| last + 50),
                kernel_stamps: true,
                ..Stamps::default()
            },
            tokens: TokenCounts {
                events: events_ns.len() as u32,
                ..TokenCounts::default()
            },
            finish_reason: None,
            status: None,
            fields: Default::default(),
            timings: None,
            text: None,
            text_sha256: String::new(),
            logprobs: Vec::new(),
            void: None,
        }
    }

    fn health(samples: &[Sample], slots: u32, service: &Service) -> ClientHealth {
        let mut tally = Tally::default();
        samples.iter().for_each(|sample| tally.add(sample));
        tally.health("g/w", slots, service, Duration::from_secs(2))
    }

    fn check(spans: &[(u64, u64)], expect: u32) {
        let samples: Vec<Sample> = spans.iter().map(|(a, b)| sample(*a, *a, &[*b])).collect();
        let reached = health(&samples, 0, &Service::default()).streams_reached;
        assert_eq!(reached, expect, "{spans:?}");
    }

    #[test]
    fn the_sweep_counts_what_overlaps() {
        check(&[], 0);
        check(&[(0, 10)], 1);
        check(&[(5, 5)], 1);
        check(&[(0, 10), (10, 20)], 1);
        check(&[(0, 10), (9, 20), (9, 12), (15, 16)], 3);
    }

    #[test]
    fn lateness_and_shares_are_of_measured_samples() {
        let mut samples = vec![
            sample(0, 2_000_000, &[3_000_000, 4_000_000]),
            sample(0, 1_000_000, &[5_000_000, 5_000_000]),
            sample(0, 900_000_000, &[]),
        ];
        samples[1].stamps.ambiguous_events = 1;
        samples[1].stamps.kernel_stamps = false;
        samples[2].phase = Phase::Warmup;
        let service = Service {
            steal_share: Some(0.125),
            ..Service::default()
        };
        let health = health(&samples, 3, &service);
        assert_eq!(health.send_lag_ms.n, 2);
        assert!((health.send_lag_ms.max - 2.0).abs() < 1e-12);
        assert!((health.ambiguous_share - 0.25).abs() < 1e-12);
        assert!((health.kernel_share - 0.5).abs() < 1e-12);
        assert_eq!((health.streams_asked, health.streams_reached), (3, 2));
        assert!((health.wall_s - 2.0).abs() < 1e-12);
        assert_eq!(health.steal_share, Some(0.125));
    }

    #[test]
    fn a_late_goodbye_is_no_stream_and_an_open_loop_asks_for_none() {
        // One request each 10 ms, each answered in 5 ms; the goodbyes come 200 ms later.
        let mut samples: Vec<Sample> = (0..40)
            .map(|i| {
                sample(
                    i * 10_000_000,
                    i * 10_000_000,
                    &[i * 10_000_000 + 5_000_000],
                )
            })
            .collect();
        for sample in &mut samples {
            let last = sample.stamps.events_ns[0];
            sample.stamps.done_ns = Some(last + 200_000_000);
        }
        let reached = |samples: &[Sample]| {
            let health = health(samples, 0, &Service::default());
            (health.streams_asked, health.streams_reached)
        };
        assert_eq!(reached(&samples), (1, 1));
        // Of an answer without output the goodbye is all that is known.
        for sample in &mut samples {
            sample.stamps.events_ns.clear();
        }
        assert_eq!(reached(&samples), (21, 21));
    }
}
