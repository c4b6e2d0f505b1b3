//! The server's own times against the stream's, over a whole workload of a launch.
//!
//! One request says little: a stall between a token's making and its sending, on either side, moves one of
//! the two clocks. A server whose clocks are wrong (phases swapped, a phase counted twice) is wrong in every
//! request, so the middle of all requests is looked at.
//!
//! Main function: [`contradiction`]; [`ServerTimes`], of a run whose samples are not kept. Refuses to know: what follows from it.

use crate::record::Sample;
use crate::stats;

/// The two may differ by this factor or by this many milliseconds: neither knows what the network and the
/// other's scheduling took.
const TIMES: f64 = 2.0;
const TIMES_MS: f64 = 20.0;

/// Fewer requests have no middle that one stall cannot move.
const LEAST: usize = 3;

/// How the server's `timings` contradict the streams that they are about; `None` where they agree, or where
/// fewer than three sound streams of [`Phase::Measured`](crate::record::Phase::Measured) have them.
pub fn contradiction<'a>(samples: impl IntoIterator<Item = &'a Sample>) -> Option<String> {
    let mut times = ServerTimes::default();
    samples.into_iter().for_each(|sample| times.add(sample));
    times.contradiction()
}

/// The server's times and the streams': a sample that was added need not be kept.
#[derive(Clone, Debug, Default)]
pub struct ServerTimes {
    rows: Vec<Times>,
}

impl ServerTimes {
    pub fn add(&mut self, sample: &Sample) {
        self.rows.extend(Times::of(sample));
    }

    /// As [`contradiction`].
    pub fn contradiction(&self) -> Option<String> {
        contradiction_of(&self.rows)
    }
}

fn contradiction_of(rows: &[Times]) -> Option<String> {
    if rows.len() < LEAST {
        return None;
    }
    let middle = |time: fn(&Times) -> f64| {
        let all: Vec<f64> = rows.iter().map(time).collect();
        stats::median(&all)
    };
    let (decoding, span) = middle(|t| t.decoding).zip(middle(|t| t.span))?;
    let (prefill, ttft) = middle(|t| t.prefill).zip(middle(|t| t.ttft))?;
    let apart = |a: f64, b: f64| a > TIMES * b && a - b > TIMES_MS;
    if apart(decoding, span) || apart(span, decoding) {
        let text =
            format!("the server says {decoding:.1} ms of decoding, the streams took {span:.1} ms");
        return Some(text);
    }
    // Prefill is a part of the TTFT: it may be shorter by any queue, and cannot be longer.
    apart(prefill, ttft).then(|| {
        format!("the server says {prefill:.1} ms of prefill, first tokens came after {ttft:.1} ms")
    })
}

/// One request's, ms.
#[derive(Clone, Debug)]
struct Times {
    prefill: f64,
    ttft: f64,
    decoding: f64,
    span: f64,
}

impl Times {
    fn of(sample: &Sample) -> Option<Self> {
        let timings = sample.timings.as_ref().filter(|_| sample.may_enter())?;
        let stamps = &sample.stamps;
        let (first, last) = stamps.events_ns.first().zip(stamps.events_ns.last())?;
        Some(Self {
            prefill: timings.prompt_ms,
            ttft: ms(stamps.send_ns, *first),
            decoding: timings.predicted_ms,
            span: ms(*first, *last),
        })
    }
}

fn ms(from_ns: u64, to_ns: u64) -> f64 {
    to_ns.saturating_sub(from_ns) as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::testing::streamed;
    use crate::record::{ServerTimings, Void, VoidRule};

    /// A stream that took 30 ms after a TTFT of 50, and what the server says of it.
    fn says(prompt_ms: f64, predicted_ms: f64) -> Sample {
        let mut sample = streamed("w", 0, 50.0, 10.0, 4);
        sample.timings = Some(ServerTimings {
            prompt_n: 8,
            prompt_ms,
            predicted_n: 4,
            predicted_ms,
        });
        sample
    }

    #[test]
    fn twice_the_time_and_20_ms_more_are_needed_both() {
        let check = |prompt_ms: f64, predicted_ms: f64, expect: Option<&str>| {
            let found = contradiction(&vec![says(prompt_ms, predicted_ms); LEAST]);
            match expect {
                None => assert_eq!(found, None, "{prompt_ms} {predicted_ms}"),
                Some(part) => assert!(
                    found.as_ref().is_some_and(|f| f.contains(part)),
                    "{found:?}"
                ),
            }
        };
        check(50.0, 30.0, None);
        check(1.0, 59.0, None);
        check(99.0, 30.0, None);
        check(50.0, 12.0, None);
        check(50.0, 61.0, Some("61.0 ms of decoding"));
        check(50.0, 9.0, Some("9.0 ms of decoding"));
        check(101.0, 30.0, Some("101.0 ms of prefill"));
    }

    #[test]
    fn a_stall_in_some_requests_is_no_contradiction() {
        let (good, stalled) = (says(50.0, 30.0), says(50.0, 90.0));
        let mix = |stalls: usize, sound: usize| {
            let mut all = vec![stalled.clone(); stalls];
            all.extend(vec![good.clone(); sound]);
            all
        };
        assert_eq!(contradiction(&mix(2, 3)), None);
        assert!(contradiction(&mix(3, 2)).is_some());
        assert_eq!(contradiction(&mix(2, 0)), None);
        assert_eq!(contradiction(&[]), None);
        let mut void = mix(3, 2);
        void[0].void = Some(Void {
            rule: VoidRule::Status,
            detail: String::new(),
        });
        assert_eq!(contradiction(&void), None);
    }
}
