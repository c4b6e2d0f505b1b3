//! Numbers of staggered users: both modes count from one origin, the first user's arrival.

use super::{LaunchMeasure, Place, Undefined, Why, reduced, request};
use crate::record::{Sample, Setting, Statistic};
use crate::stats;
use std::collections::BTreeMap;

/// First token of each user since the first user's arrival, users together. What the same users wait one
/// after another stands in the remarks.
pub(super) fn wall_ttft(at: &Place<'_>, statistic: Statistic) -> Result<LaunchMeasure, Undefined> {
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
pub(super) fn benefit(at: &Place<'_>) -> Result<LaunchMeasure, Undefined> {
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
    let samples = modes.together.values().map(Vec::len).sum();
    Ok(LaunchMeasure::single(value, samples))
}

/// Samples by pass, each with its origin.
type ByPass<'a> = BTreeMap<u32, Vec<(u64, &'a Sample)>>;

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
    use super::super::measure;
    use super::super::testing::{check, launch, steady, streamed};
    use crate::plan::{Staggered, WorkloadKind};
    use crate::record::{Metric, Sample, Setting, Statistic};
    use std::time::Duration;

    /// A user whose answer begins `first` ms and ends `last` ms after the origin, which is at 1 s.
    fn user(index: u32, setting: Setting, first: u64, last: u64) -> Sample {
        let mut s = streamed("w", index, 1.0, 1.0, 2);
        s.setting = Some(setting);
        s.stamps.events_ns = [first, last]
            .map(|ms| 1_000_000_000 + ms * 1_000_000)
            .to_vec();
        s
    }

    #[test]
    fn both_modes_count_from_the_first_arrival() {
        let origin_ns = 1_000_000_000;
        let sequential = |user| Setting::Sequential {
            user,
            pass: 0,
            origin_ns,
        };
        let together = |user| Setting::Together {
            user,
            pass: 0,
            origin_ns,
        };
        // Alone: A 50 to 500 ms, then B, whose first token is at 550. Together: B's is at 160.
        let samples = vec![
            user(0, sequential(0), 50, 500),
            user(1, sequential(1), 550, 1_000),
            user(2, together(0), 50, 700),
            user(3, together(1), 160, 800),
        ];
        let mut workload = steady("w");
        workload.kind = WorkloadKind::Staggered(Staggered {
            users: 2,
            offset: Duration::from_millis(100),
            prompt_tokens: 8,
            output_tokens: 2,
            passes: 1,
            warmup: 0,
        });
        let l = launch(0, samples);
        let value = |metric, statistic| {
            let m = measure(&check(metric, statistic), &workload, &l);
            m.map(|m| m.value).unwrap()
        };
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a}");
        close(value(Metric::WallTtft, Statistic::Max), 160.0);
        close(value(Metric::InterleavingBenefit, Statistic::Single), 1.25);
    }
}
