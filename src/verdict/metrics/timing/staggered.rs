//! Numbers of staggered users: both modes count from one origin, the first user's arrival.

use super::request;
use crate::metrics::{LaunchMeasure, Place, Undefined, Why, reduced};
use crate::record::{Sample, Setting, Statistic};
use crate::stats;
use std::collections::BTreeMap;

/// First token of each user since the first user's arrival, users together. What the same users wait one
/// after another stands in the remarks.
pub fn wall_ttft(at: &Place<'_>, statistic: Statistic) -> Result<LaunchMeasure, Undefined> {
    let modes = Modes::read(at)?;
    let together = modes.wall_ttfts(at, &modes.together)?;
    let sequential = modes.wall_ttfts(at, &modes.sequential)?;
    let n = together.len();
    let mut measure = reduced(at, statistic, together, n)?;
    if let Some(alone) = stats::median(&sequential) {
        measure.remarks.push(format!(
            "one after another: {alone:.3} ms in the middle, from the same origin"
        ));
    }
    Ok(measure)
}

/// Wall time of the users one after another over their wall time together; the median over passes. 1 says
/// that serving them together brings nothing.
pub fn benefit(at: &Place<'_>) -> Result<LaunchMeasure, Undefined> {
    let modes = Modes::read(at)?;
    let sequential = modes.walls(at, &modes.sequential)?;
    let together = modes.walls(at, &modes.together)?;
    let mut ratios = Vec::new();
    for (pass, wall) in &together {
        let alone = sequential
            .get(pass)
            .ok_or_else(|| at.undefined(Why::NoMode, None))?;
        ratios.push(alone / wall);
    }
    let value = stats::median(&ratios).ok_or_else(|| at.undefined(Why::NoSamples, None))?;
    Ok(LaunchMeasure::single(value, count(&modes.together)))
}

/// Output tokens per second of all users together, from the first user's arrival to the last token of each pass. The
/// same of the users one after another stands in the remarks.
pub fn throughput(at: &Place<'_>) -> Result<LaunchMeasure, Undefined> {
    let modes = Modes::read(at)?;
    let together = modes.tokens_per_s(at, &modes.together)?;
    let alone = modes.tokens_per_s(at, &modes.sequential)?;
    let mut measure = LaunchMeasure::single(together, count(&modes.together));
    let remark = format!("one after another: {alone:.4} tokens/s");
    measure.remarks.push(remark);
    Ok(measure)
}

/// Of each pass together, the longest time between two events of one user's stream while another user's prompt was being
/// prefilled: between that request's send and its first token. Agrawal et al., "Taming Throughput-Latency Tradeoff in
/// LLM Inference with Sarathi-Serve" (OSDI 2024), name it a generation stall.
pub fn stall(at: &Place<'_>, statistic: Statistic) -> Result<LaunchMeasure, Undefined> {
    let modes = Modes::read(at)?;
    let stalls: Result<Vec<f64>, Undefined> = modes
        .together
        .iter()
        .map(|(pass, users)| {
            longest_stall_ms(users).ok_or_else(|| at.undefined(Why::NeverMet(*pass), None))
        })
        .collect();
    reduced(at, statistic, stalls?, count(&modes.together))
}

/// `None` where no stream was under way during another's prefill.
fn longest_stall_ms(users: &[(u64, &Sample)]) -> Option<f64> {
    let mut longest: Option<f64> = None;
    for (_, waiting) in users {
        let events = waiting.stamps.events_ns.windows(2);
        for (begin, end) in events.map(|pair| (pair[0], pair[1])) {
            let prefilled_meanwhile = |(_, other): &&(u64, &Sample)| {
                let first = other.stamps.events_ns.first();
                other.index != waiting.index
                    && first.is_some_and(|&first| other.stamps.send_ns < end && begin < first)
            };
            if users.iter().find(prefilled_meanwhile).is_some() {
                let gap = request::ms_between(begin, end);
                longest = Some(longest.map_or(gap, |most| most.max(gap)));
            }
        }
    }
    longest
}

/// Samples by pass, each with its origin.
type ByPass<'a> = BTreeMap<u32, Vec<(u64, &'a Sample)>>;

fn count(mode: &ByPass<'_>) -> usize {
    mode.values().map(Vec::len).sum()
}

struct Modes<'a> {
    sequential: ByPass<'a>,
    together: ByPass<'a>,
}

impl<'a> Modes<'a> {
    fn read(at: &Place<'a>) -> Result<Self, Undefined> {
        let mut modes = Self {
            sequential: BTreeMap::new(),
            together: BTreeMap::new(),
        };
        for sample in at.measured()? {
            let (mode, pass, origin) = match sample.setting {
                Some(Setting::Sequential {
                    pass, origin_ns, ..
                }) => (&mut modes.sequential, pass, origin_ns),
                Some(Setting::Together {
                    pass, origin_ns, ..
                }) => (&mut modes.together, pass, origin_ns),
                _ => return Err(at.undefined(Why::NoMode, Some(sample))),
            };
            mode.entry(pass).or_default().push((origin, sample));
        }
        Ok(modes)
    }

    fn wall_ttfts(&self, at: &Place<'_>, mode: &ByPass<'_>) -> Result<Vec<f64>, Undefined> {
        let all = mode.values().flatten();
        all.map(|(origin, sample)| {
            let first = sample.stamps.events_ns.first();
            let first = first.ok_or_else(|| at.undefined(Why::NoEvents, Some(sample)))?;
            Ok(request::ms_between(*origin, *first))
        })
        .collect()
    }

    /// Output tokens over the walls of all passes.
    fn tokens_per_s(&self, at: &Place<'_>, mode: &ByPass<'_>) -> Result<f64, Undefined> {
        let mut tokens = 0_u64;
        for (_, sample) in mode.values().flatten() {
            let n = sample.tokens.completion;
            tokens += u64::from(n.ok_or_else(|| at.undefined(Why::NoUsage, Some(sample)))?);
        }
        let wall_ms: f64 = self.walls(at, mode)?.values().sum();
        if wall_ms <= 0.0 {
            return Err(at.undefined(Why::NoSpan, None));
        }
        Ok(tokens as f64 / (wall_ms / 1e3))
    }

    /// From the origin to the last event, by pass, in ms.
    fn walls(&self, at: &Place<'_>, mode: &ByPass<'_>) -> Result<BTreeMap<u32, f64>, Undefined> {
        let mut walls = BTreeMap::new();
        for (pass, samples) in mode {
            let ends = samples
                .iter()
                .filter_map(|(_, s)| s.stamps.events_ns.last());
            let origins = samples.iter().map(|(origin, _)| origin);
            let (Some(begin), Some(end)) = (origins.min(), ends.max()) else {
                return Err(at.undefined(Why::NoEvents, None));
            };
            walls.insert(*pass, request::ms_between(*begin, *end));
        }
        Ok(walls)
    }
}

#[cfg(test)]
mod tests {
    use crate::metrics::testing::{check, launch, steady, streamed};
    use crate::metrics::{Why, measure};
    use crate::plan::{Staggered, Workload, WorkloadKind};
    use crate::record::{Metric, Sample, Setting, Statistic};
    use std::time::Duration;

    const ORIGIN_NS: u64 = 1_000_000_000;

    fn sequential(user: u32) -> Setting {
        Setting::Sequential {
            user,
            pass: 0,
            origin_ns: ORIGIN_NS,
        }
    }

    fn together(user: u32) -> Setting {
        Setting::Together {
            user,
            pass: 0,
            origin_ns: ORIGIN_NS,
        }
    }

    /// A user who sends and whose answer's events come so many ms after the origin.
    fn streaming(index: u32, setting: Setting, send: u64, events: &[u64]) -> Sample {
        let mut s = streamed("w", index, 1.0, 1.0, 2);
        let at = |ms: &u64| ORIGIN_NS + ms * 1_000_000;
        s.setting = Some(setting);
        s.stamps.send_ns = at(&send);
        s.stamps.events_ns = events.iter().map(at).collect();
        s.tokens.completion = Some(events.len() as u32);
        s
    }

    /// A user who sends when the first one arrives.
    fn user(index: u32, setting: Setting, first: u64, last: u64) -> Sample {
        streaming(index, setting, 0, &[first, last])
    }

    fn workload() -> Workload {
        let mut workload = steady("w");
        workload.kind = WorkloadKind::Staggered(Staggered {
            users: 2,
            offset: Duration::from_millis(100),
            prompt_tokens: 8,
            output_tokens: 2,
            passes: 1,
            warmup: 0,
        });
        workload
    }

    fn value(samples: Vec<Sample>, metric: Metric, statistic: Statistic) -> Result<f64, Why> {
        let measured = measure(&check(metric, statistic), &workload(), &launch(0, samples));
        measured.map(|m| m.value).map_err(|undefined| undefined.why)
    }

    #[track_caller]
    fn close(got: Result<f64, Why>, expect: f64) {
        let got = got.unwrap();
        assert!((got - expect).abs() < 1e-9 * expect, "{got} {expect}");
    }

    #[test]
    fn both_modes_count_from_the_first_arrival() {
        // Alone: A 50 to 500 ms, then B, whose first token is at 550. Together: B's is at 160.
        let samples = || {
            vec![
                user(0, sequential(0), 50, 500),
                user(1, sequential(1), 550, 1_000),
                user(2, together(0), 50, 700),
                user(3, together(1), 160, 800),
            ]
        };
        let of = |metric, statistic| value(samples(), metric, statistic);
        close(of(Metric::WallTtft, Statistic::Max), 160.0);
        close(of(Metric::InterleavingBenefit, Statistic::Single), 1.25);
        // 4 tokens in the 0.8 s together.
        close(of(Metric::Throughput, Statistic::Single), 5.0);
    }

    #[test]
    fn a_stall_is_the_longest_pause_while_another_is_prefilled() {
        // B is prefilled from 100 to 160 ms, within A's gap from 90 to 170; A's longer gap comes later.
        let a = streaming(0, together(0), 0, &[50, 90, 170, 400]);
        let b = streaming(1, together(1), 100, &[160, 180]);
        close(
            value(vec![a, b], Metric::GenerationStall, Statistic::Median),
            80.0,
        );
    }

    #[test]
    fn users_who_never_meet_have_no_stall() {
        let a = streaming(0, together(0), 0, &[50, 90]);
        let b = streaming(1, together(1), 100, &[160, 180]);
        let stall = value(vec![a, b], Metric::GenerationStall, Statistic::Median);
        assert_eq!(stall, Err(Why::NeverMet(0)));
    }
}
