//! When things were, by the sample and by the server. Nothing here depends on how fast the machine is:
//! on the loopback device the receiver's kernel stamps a segment while the sender writes it, so an
//! event's true moment lies between the server's readings of the clock before and after its write.
//!
//! Main function: [`check`]. Refuses to know: quirks.

use super::{Seen, workload};
use fixture::records;
use fixture::truth::{Truth, Written};
use verdict::metrics::measure;
use verdict::plan::Rule;
use verdict::record::{Arm, Metric, Sample, Statistic};

/// For the distance between real and monotonic time, which the system may adjust by 0.5 ms in a second.
const SLACK_MS: f64 = 1.0;

/// A span in which something must have happened, in ms; open above where the client says itself that
/// it knows an upper bound only.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    low: f64,
    high: Option<f64>,
}

/// Holds all samples' moments and the metrics made of them against the server's record. `first`: the
/// tokens of the first event, as far as the stream tells; TPOT leaves them out.
pub(crate) fn check(seen: &Seen, first: u32) {
    let pairs = seen.pairs();
    let distance = seen.distance_ns as f64 / 1e6;
    let mut exact = 0;
    for (sample, truth) in &pairs {
        let bounds = bounds(sample, truth, distance);
        let events = &sample.stamps.events_ns;
        assert_eq!(events.len(), bounds.len(), "{sample:?}");
        for (event, bounds) in events.iter().zip(&bounds) {
            within(ms(*event) + distance, *bounds);
            exact += usize::from(bounds.high.is_some());
        }
        let sent = ms(sample.stamps.send_ns) + distance;
        assert!(sent <= ms(truth.arrived_ns) + SLACK_MS, "{sample:?}");
        let done = ms(sample.stamps.done_ns.unwrap()) + distance;
        assert!(done >= ms(truth.end.unwrap().from_ns) - SLACK_MS);
    }
    let stamped = pairs.iter().any(|(sample, _)| sample.stamps.kernel_stamps);
    assert!(exact > 0 || !stamped, "every single event is ambiguous");
    check_metrics(&pairs, distance, first);
}

fn check_metrics(pairs: &[(&Sample, &Truth)], distance: f64, first: u32) {
    let samples: Vec<Sample> = pairs.iter().map(|(sample, _)| (*sample).clone()).collect();
    let ttft = values(&samples, Metric::Ttft);
    let tpot = values(&samples, Metric::Tpot);
    let e2e = values(&samples, Metric::E2e);
    for (at, (sample, truth)) in pairs.iter().enumerate() {
        let bounds = bounds(sample, truth, distance);
        let (begin, end) = (bounds[0], bounds[bounds.len() - 1]);
        let sent = ms(sample.stamps.send_ns) + distance;
        within(ttft[at] + sent, begin);
        within(e2e[at] + sent, end);
        let rest = f64::from(truth.tokens() - first);
        if let (Some(begin_high), Some(end_high)) = (begin.high, end.high) {
            let spread = Bounds {
                low: end.low - begin_high,
                high: Some(end_high - begin.low),
            };
            within(tpot[at] * rest, spread);
        }
    }
}

/// The metric of every sample, as the gate computes it.
fn values(samples: &[Sample], metric: Metric) -> Vec<f64> {
    let rule = Rule::Ceiling { limit: 1.0 };
    let check = records::check("any", metric, Statistic::Median, rule);
    let launch = records::launch(0, 0, Arm::Head, samples.to_vec());
    measure(&check, &workload(), &launch)
        .unwrap()
        .series
        .to_vec()
}

/// Where each event's stamp must lie. `distance`: from the sample's clock to the server's, ms.
fn bounds(sample: &Sample, truth: &Truth, distance: f64) -> Vec<Bounds> {
    let events = &sample.stamps.events_ns;
    let shared = |at: usize| events.get(at + 1) == events.get(at);
    let followed = (0..events.len()).filter(|at| shared(*at)).count();
    // Of a read with several events all have the last one's stamp. Others shared theirs with bytes that
    // hold no output: the client says how many, not which, so only so many may be late.
    let mut others = sample.stamps.ambiguous_events as usize - followed;
    let mut bound = |(at, write): (usize, &Written)| {
        let high = ms(write.until_ns);
        let is_late = |event: &u64| ms(*event) + distance > high + SLACK_MS;
        let late = !shared(at) && events.get(at).is_some_and(is_late);
        let excused = late && others > 0;
        others -= usize::from(excused);
        let exact = !shared(at) && !excused && sample.stamps.kernel_stamps;
        Bounds {
            low: ms(write.from_ns),
            high: exact.then_some(high),
        }
    };
    truth.writes.iter().enumerate().map(&mut bound).collect()
}

#[track_caller]
fn within(value: f64, bounds: Bounds) {
    let high = bounds.high.unwrap_or(f64::INFINITY);
    assert!(
        value >= bounds.low - SLACK_MS && value <= high + SLACK_MS,
        "{value} outside of {bounds:?}"
    );
}

fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}
