//! Numbers of many requests together: tokens a second, requests within bounds, requests that failed.

use super::occupancy::Timeline;
use super::request;
use crate::metrics::correctness::answers::Answers;
use crate::metrics::{LaunchMeasure, Place, Undefined, Why};
use crate::plan::{Arrivals, Bound, RequestBounds, Slo, WorkloadKind};
use crate::record::{Phase, Sample, Setting};
use crate::stats;
use std::collections::BTreeMap;

/// Output tokens of all requests over the time from the first send to the last event. The passes of a
/// cell are runs of their own: what lies between them is nobody's time.
pub fn whole(at: &Place<'_>) -> Result<LaunchMeasure, Undefined> {
    let samples = at.measured()?;
    let value = of_runs(&samples).map_err(|(why, s)| at.undefined(why, s))?;
    Ok(LaunchMeasure::single(value, samples.len()))
}

/// Tokens per second over all runs of these samples; on failure the reason and the sample at fault.
pub fn of_runs<'a>(samples: &[&'a Sample]) -> Result<f64, (Why, Option<&'a Sample>)> {
    let mut spans = RunSpans::default();
    for sample in samples {
        spans.add(sample).map_err(|why| (why, Some(*sample)))?;
    }
    spans.rate().map_err(|why| (why, None))
}

/// Times of runs, each from its first send to its last output, and the tokens of all.
#[derive(Clone, Debug, Default)]
pub struct RunSpans {
    runs: BTreeMap<Option<(bool, Setting)>, (u64, u64)>,
    tokens: u64,
}

impl RunSpans {
    /// Adds a request to its run.
    ///
    /// # Errors
    /// Nothing tells when it ended, or how many tokens it had.
    pub fn add(&mut self, sample: &Sample) -> Result<(), Why> {
        let (begin, end) = (sample.stamps.send_ns, request::last_ns(sample)?);
        self.tokens += u64::from(sample.tokens.completion.ok_or(Why::NoUsage)?);
        let (first, last) = self.runs.entry(run_of(sample)).or_insert((begin, end));
        (*first, *last) = ((*first).min(begin), (*last).max(end));
        Ok(())
    }

    /// Tokens per second.
    ///
    /// # Errors
    /// No time went by.
    pub fn rate(&self) -> Result<f64, Why> {
        let spans = self.runs.values();
        match spans.map(|(first, last)| last.saturating_sub(*first)).sum() {
            0_u64 => Err(Why::NoSpan),
            ns => Ok(self.tokens as f64 / (ns as f64 / 1e9)),
        }
    }
}

/// The same over the time in which as many streams as asked for were in flight ([`Timeline`]).
pub fn full(at: &Place<'_>) -> Result<LaunchMeasure, Undefined> {
    let samples = at.measured()?;
    let (mut tokens, mut ns) = (0.0, 0_u64);
    let mut wanted = 0;
    for run in runs(&samples).values() {
        wanted = streams_asked(at, run)?;
        let mut timeline = Timeline::default();
        for sample in run {
            let added = timeline.add(sample);
            added.map_err(|why| at.undefined(why, Some(sample)))?;
        }
        let (of_run, length) = timeline.while_full(wanted);
        tokens += of_run;
        ns += length;
    }
    if ns == 0 {
        return Err(at.undefined(Why::NeverFull(wanted), None));
    }
    let value = tokens / (ns as f64 / 1e9);
    Ok(LaunchMeasure::single(value, samples.len()))
}

/// Share of requests within every bound of the SLO. A void request is not, nor is one whose answer is wrong beside
/// the other answers to its prompt.
pub fn goodput(at: &Place<'_>) -> Result<LaunchMeasure, Undefined> {
    let bounds = at.part.slo.unwrap_or_default();
    let sound = at.requests.measured.iter().copied();
    let slo = slo(bounds, &sound.collect::<Vec<_>>())
        .map_err(|(why, sample)| at.undefined(why, Some(sample)))?;
    let answers = Answers::of(at);
    let (mut n, mut kept) = (0_usize, 0_usize);
    for sample in measured_or_void(at)? {
        let good = is_good(sample, slo).map_err(|why| at.undefined(why, Some(sample)))?;
        n += 1;
        kept += usize::from(good && answers.wrong(sample).is_none());
    }
    let mut measure = LaunchMeasure::single(kept as f64 / n as f64, n);
    measure
        .remarks
        .push(format!("{kept} of {n} requests within the SLO"));
    Ok(measure)
}

/// The bounds in milliseconds, where some are told in medians of these sound samples.
///
/// # Errors
/// A number that such a bound is about is undefined in a sample.
pub fn slo<'a>(bounds: RequestBounds, sound: &[&'a Sample]) -> Result<Slo, (Why, &'a Sample)> {
    let ms = |bound: Option<Bound>, value: fn(&Sample) -> Result<f64, Why>| match bound {
        None => Ok(None),
        Some(Bound::Ms(ms)) => Ok(Some(ms)),
        Some(Bound::Medians(times)) => {
            let values = sound.iter().map(|&s| value(s).map_err(|why| (why, s)));
            // An answer of one token has no time per token.
            let values =
                values.filter(|v| !matches!(v, Err((Why::TooFewTokens { n: 0 | 1, .. }, _))));
            let values = values.collect::<Result<Vec<f64>, _>>()?;
            Ok(stats::median(&values).map(|median| times * median))
        }
    };
    Ok(Slo {
        ttft_ms: ms(bounds.ttft, request::ttft_ms)?,
        tpot_ms: ms(bounds.tpot, request::tpot_ms)?,
        e2e_ms: ms(bounds.e2e, request::e2e_ms)?,
    })
}

/// True if a request was answered within every bound. A void one never is.
///
/// # Errors
/// A number that a bound is about is undefined.
pub fn is_good(sample: &Sample, slo: Slo) -> Result<bool, Why> {
    if sample.void.is_some() {
        return Ok(false);
    }
    let within = |bound: Option<f64>, value: fn(&Sample) -> Result<f64, Why>| match bound {
        Some(bound) => value(sample).map(|ms| ms <= bound),
        None => Ok(true),
    };
    // Without a second token there is no gap that could be too long.
    let tpot_ms = slo.tpot_ms.filter(|_| !request::has_one_token(sample));
    Ok(within(slo.ttft_ms, request::ttft_ms)?
        && within(tpot_ms, request::tpot_ms)?
        && within(slo.e2e_ms, request::e2e_ms)?)
}

/// Measured requests that are void, or whose answer is wrong beside the other answers to its prompt, and first attempts that
/// got no answer over a kept connection.
pub fn failed_requests(at: &Place<'_>) -> Result<LaunchMeasure, Undefined> {
    let measured = measured_or_void(at)?;
    let answers = Answers::of(at);
    let mut by_rule: BTreeMap<&str, (u32, String)> = BTreeMap::new();
    for sample in &measured {
        let (rule, detail) = match (&sample.void, answers.wrong(sample)) {
            (Some(void), _) => (void.rule.name(), void.detail.clone()),
            (None, Some(wrong)) => ("wrong-answer", wrong),
            (None, None) => continue,
        };
        let first = || (0, format!("request {}: {detail}", sample.index));
        by_rule.entry(rule).or_insert_with(first).0 += 1;
    }
    // The first attempt got no answer: a connection that was closed in time looks like a crash.
    let client = at.launch.client(&at.workload.id);
    if let Some(resent) = client.map(|client| client.resent).filter(|n| *n > 0) {
        let detail =
            "answered at the second attempt; keep_alive = false opens a connection for each";
        by_rule.insert("resent", (resent, detail.to_owned()));
    }
    let failed: f64 = by_rule.values().map(|(n, _)| f64::from(*n)).sum();
    let mut measure = LaunchMeasure::single(failed, measured.len());
    let remarks = by_rule
        .iter()
        .map(|(rule, (n, first))| format!("{n} × {rule}, first {first}"));
    measure.remarks.extend(remarks);
    Ok(measure)
}

/// Every measured sample, void ones included; at least one.
fn measured_or_void<'a>(at: &Place<'a>) -> Result<Vec<&'a Sample>, Undefined> {
    let mut measured = at.all();
    measured.retain(|s| s.phase == Phase::Measured);
    match measured.is_empty() {
        true => Err(at.undefined(Why::NoSamples, None)),
        false => Ok(measured),
    }
}

/// Requests that were in flight together: one run a cell and pass; all of a workload without cells.
fn runs<'a>(samples: &[&'a Sample]) -> BTreeMap<Option<(bool, Setting)>, Vec<&'a Sample>> {
    let mut runs: BTreeMap<_, Vec<&Sample>> = BTreeMap::new();
    for sample in samples {
        runs.entry(run_of(sample)).or_default().push(*sample);
    }
    runs
}

fn run_of(sample: &Sample) -> Option<(bool, Setting)> {
    let cell = matches!(sample.setting, Some(Setting::Cell { .. }));
    let setting = sample.setting.filter(|_| cell)?;
    Some((sample.streamed, setting))
}

fn streams_asked(at: &Place<'_>, run: &[&Sample]) -> Result<u32, Undefined> {
    if let Some(Setting::Cell { batch, .. }) = run.first().and_then(|s| s.setting) {
        return Ok(batch);
    }
    let arrivals = match &at.workload.kind {
        WorkloadKind::Steady(steady) => Some(&steady.arrivals),
        WorkloadKind::Mixed(mixed) => Some(&mixed.arrivals),
        _ => None,
    };
    match arrivals {
        Some(Arrivals::Closed { concurrency }) => Ok(*concurrency),
        _ => Err(at.undefined(Why::OpenLoop, None)),
    }
}

#[cfg(test)]
mod tests {
    use crate::metrics::testing::{check, launch, steady, streamed};
    use crate::metrics::{LaunchMeasure, Undefined, Why, measure};
    use crate::plan::{Arrivals, Bound, RequestBounds, Slo, WorkloadKind};
    use crate::record::{ClientHealth, Metric, Sample, Statistic, Void, VoidRule};

    #[test]
    fn a_request_that_was_sent_again_failed_once() {
        let failed = |resent: u32| {
            let (check, workload) = (
                check(Metric::FailedRequests, Statistic::Single),
                steady("w"),
            );
            let mut launch = launch(0, vec![request(0, 0, 4), request(1, 500, 4)]);
            launch.clients = vec![ClientHealth {
                workload: workload.id.clone(),
                resent,
                ..ClientHealth::default()
            }];
            measure(&check, &workload, &launch).unwrap().value
        };
        for resent in [0, 3, u32::MAX] {
            assert!((failed(resent) - f64::from(resent)).abs() < 0.5, "{resent}");
        }
    }

    /// Sent at `from` ms, first token 100 ms later, then one every 100 ms.
    fn request(index: u32, from: u64, tokens: u32) -> Sample {
        let mut s = streamed("w", index, 100.0, 100.0, tokens);
        let from = from * 1_000_000;
        s.stamps.send_ns += from;
        s.stamps.intended_ns += from;
        s.stamps.events_ns.iter_mut().for_each(|at| *at += from);
        s
    }

    fn of(
        metric: Metric,
        samples: Vec<Sample>,
        slo: Option<RequestBounds>,
    ) -> Result<LaunchMeasure, Undefined> {
        let mut c = check(metric, Statistic::Single);
        c.part.slo = slo;
        let mut workload = steady("w");
        if let WorkloadKind::Steady(steady) = &mut workload.kind {
            steady.arrivals = Arrivals::Closed { concurrency: 2 };
        }
        measure(&c, &workload, &launch(0, samples))
    }

    #[test]
    fn throughput_is_over_all_and_over_the_full_window() {
        // 0 to 1000 ms with 10 tokens, 500 to 900 ms with 4: full from 500 to 900.
        let samples = vec![request(0, 0, 10), request(1, 500, 4)];
        let whole = of(Metric::Throughput, samples.clone(), None).unwrap();
        assert!((whole.value - 14.0).abs() < 1e-9, "{}", whole.value);
        // Events of the first within: 500, 600, 700, 800, 900; of the second: four; over 0.4 s.
        let full = of(Metric::ThroughputFull, samples, None).unwrap();
        assert!((full.value - 9.0 / 0.4).abs() < 1e-9, "{}", full.value);
        let never = of(Metric::ThroughputFull, vec![request(0, 0, 10)], None);
        assert_eq!(never.unwrap_err().why, Why::NeverFull(2));
    }

    #[test]
    fn goodput_needs_every_bound_and_an_answer() {
        let slo = Slo {
            ttft_ms: Some(150.0),
            e2e_ms: Some(600.0),
            ..Slo::default()
        };
        let slo = Some(slo.into());
        let mut failed = request(2, 0, 4);
        failed.void = Some(Void {
            rule: VoidRule::Status,
            detail: String::new(),
        });
        let mut no_word = request(3, 0, 4);
        no_word.void = Some(Void {
            rule: VoidRule::TokenCounts,
            detail: String::new(),
        });
        let samples = vec![request(0, 0, 4), request(1, 0, 9), failed, no_word];
        let m = of(Metric::Goodput, samples.clone(), slo).unwrap();
        assert!((m.value - 1.0 / 4.0).abs() < 1e-12);
        assert_eq!(m.remarks, ["1 of 4 requests within the SLO"]);
        let failures = of(Metric::FailedRequests, samples, None).unwrap();
        assert!((failures.value - 2.0).abs() < 1e-12);
        assert_eq!(
            failures.remarks,
            [
                "1 × status, first request 2: ",
                "1 × token-counts, first request 3: "
            ]
        );
    }

    #[test]
    fn a_bound_in_medians_is_of_the_launchs_own_requests() {
        let medians = |times| {
            let e2e = Some(Bound::Medians(times));
            Some(RequestBounds {
                e2e,
                ..RequestBounds::default()
            })
        };
        let good = |launch: &[u32], times| {
            let samples = (0..).zip(launch).map(|(i, &tokens)| request(i, 0, tokens));
            of(Metric::Goodput, samples.collect(), medians(times)).map(|m| m.value)
        };
        // An answer of n tokens takes 100 n ms: of four, the median is 2.5 tokens' time.
        assert_eq!(good(&[2, 2, 3, 4], 1.5), Ok(0.75));
        assert_eq!(good(&[2, 2, 3, 4], 1.6), Ok(1.0));
        // Twice as slow as a whole: a median's business.
        assert_eq!(good(&[4, 4, 6, 8], 1.5), Ok(0.75));
        // A void request keeps no bound, and its time is in no median.
        let mut samples = vec![request(0, 0, 2), request(1, 0, 2), request(2, 0, 90)];
        samples[2].void = Some(Void {
            rule: VoidRule::TokenCounts,
            detail: String::new(),
        });
        let m = of(Metric::Goodput, samples.clone(), medians(1.5)).unwrap();
        assert!((m.value - 2.0 / 3.0).abs() < 1e-12);
        samples[1].stamps.events_ns.clear();
        let undefined = of(Metric::Goodput, samples, medians(1.5)).unwrap_err();
        assert_eq!((undefined.why, undefined.sample), (Why::NoEvents, Some(1)));
    }
}
