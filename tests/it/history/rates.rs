//! How often a history tells what is so, and what is not: printed, and held against what docs/history.md says.

use super::machine::{NOISY, Noise, QUIET, TYPICAL, WILD, history, nights};
use fixture::is_nightly;
use infergate::history::{History, Outcome};
use verdict::stats;

/// `12 of 300 (4.0 % [2.3, 6.9])`.
fn rate(count: usize, of: usize) -> String {
    let (low, high) = stats::wilson(count as u64, of as u64, 0.95).unwrap();
    let percent = |x: f64| format!("{:.1}", 100.0 * x);
    format!(
        "{count} of {of} ({} % [{}, {}])",
        percent(count as f64 / of as f64),
        percent(low),
        percent(high)
    )
}

/// The first night after which `is_alarm` holds, from 1.
fn first(
    seed: u64,
    noise: Noise,
    levels: &[f64],
    from: usize,
    is_alarm: fn(&History) -> bool,
) -> Option<usize> {
    let all = nights(seed, noise, levels, true);
    (from..=all.len()).find(|&night| is_alarm(&history(&all[..night])))
}

fn is_worse(history: &History) -> bool {
    history.outcome() == Outcome::Worse
}

/// By the sum of small steps alone.
fn is_creep(history: &History) -> bool {
    let creep = history.checks[0].series[0].creep;
    creep.is_some_and(|creep| creep.is_alarm)
}

/// Ten steps of 0.9 %, none beyond the margin of 1 %: each morning the history is read.
#[test]
fn ten_small_steps_are_told_with_their_commits() {
    let series: u64 = if is_nightly() { 200 } else { 60 };
    for plateau in [12, 6] {
        let levels: Vec<f64> = (0..11 * plateau)
            .map(|night| 0.009_f64.ln_1p() * (night / plateau) as f64)
            .collect();
        let is_step = |first: usize, last: usize| {
            (1..=10).any(|step| (first..=last).contains(&(step * plateau)))
        };
        let (mut told, mut steps, mut right, mut total) = (0, 0, 0, Vec::new());
        for seed in 0..series {
            let found = history(&nights(seed, TYPICAL, &levels, true));
            let series = &found.checks[0].series[0];
            told += usize::from(is_worse(&found));
            steps += series.steps.len();
            let places = series.steps.iter().map(|step| step.change.place);
            right += places.filter(|&(first, last)| is_step(first, last)).count();
            total.push(series.level() - series.steps[0].change.before);
        }
        let alarms: Vec<f64> = (0..40)
            .filter_map(|seed| first(seed, TYPICAL, &levels, 10, is_worse))
            .map(|night| night as f64)
            .collect();
        println!(
            "ten steps of 0.9 %, {plateau} nights each: told {}, {:.1} steps a series, {} hold a true one; \
             first alarm at night {} (middle of {}), total {:+.1} %",
            rate(told, total.len()),
            steps as f64 / series as f64,
            rate(right, steps),
            stats::median(&alarms).unwrap(),
            alarms.len(),
            100.0 * stats::median(&total).unwrap().exp_m1()
        );
        assert_eq!((told, alarms.len()), (series as usize, 40));
        assert!(right as f64 >= 0.9 * steps as f64, "{right} of {steps}");
    }
}

/// 0.3 % a night, twenty times, after thirty quiet nights.
#[test]
fn a_creep_is_found_within_twenty_sessions() {
    let series: usize = if is_nightly() { 150 } else { 40 };
    for noise in [QUIET, TYPICAL, NOISY, WILD] {
        let creeping = |night: usize| 0.003_f64.ln_1p() * night.saturating_sub(30).min(20) as f64;
        let levels: Vec<f64> = (1..=70).map(creeping).collect();
        for (what, is_alarm) in [
            ("creep alone", is_creep as fn(&History) -> bool),
            ("any alarm", is_worse),
        ] {
            let alarms: Vec<f64> = (0..series as u64)
                .filter_map(|seed| first(seed, noise, &levels, 31, is_alarm))
                .map(|night| night as f64 - 30.0)
                .collect();
            let within = alarms.iter().filter(|&&night| night <= 20.0).count();
            println!(
                "20 × 0.3 %, {}, {what}: within 20 sessions of its begin {}, in the middle after {}, at the latest {}",
                noise.name,
                rate(within, series),
                stats::median(&alarms).unwrap(),
                alarms.iter().copied().fold(0.0, f64::max),
            );
            assert!(within as f64 >= 0.93 * series as f64, "{within}");
        }
    }
}

/// 120 nights in which main does not change, read every morning: a single alarm counts. By day one of three noises.
#[test]
fn main_that_stands_still_raises_no_alarm() {
    const SERIES: usize = 300;
    let noises: &[Noise] = match is_nightly() {
        true => &[TYPICAL, NOISY, WILD],
        false => &[TYPICAL],
    };
    for &noise in noises {
        let (mut alarms, mut creeps) = (0, 0);
        for seed in 0..SERIES as u64 {
            let all = nights(seed, noise, &[0.0; 120], true);
            let mornings: Vec<History> = (8..=120).map(|night| history(&all[..night])).collect();
            alarms += usize::from(mornings.iter().any(is_worse));
            creeps += usize::from(mornings.iter().any(is_creep));
        }
        println!(
            "120 quiet nights, {}: series with an alarm {}, by creep {}",
            noise.name,
            rate(alarms, SERIES),
            rate(creeps, SERIES)
        );
        assert_eq!(creeps, 0);
        // One in a hundred.
        assert!(alarms * 100 <= SERIES, "{alarms}");
    }
}

/// The same machine without an anchor: its own walk makes steps, and none of them is an alarm.
#[test]
fn raw_values_give_hints_only() {
    const SERIES: u64 = 100;
    let (mut steps, mut worse) = (0, 0);
    for seed in 0..SERIES {
        let found = history(&nights(seed, TYPICAL, &[0.0; 120], false));
        steps += found.checks[0].series[0].steps.len();
        worse += usize::from(found.outcome() == Outcome::Worse);
        assert_eq!(found.outcome(), Outcome::Unknown);
    }
    println!(
        "120 quiet nights without an anchor: {:.1} false steps a series",
        steps as f64 / SERIES as f64
    );
    assert!(worse == 0 && steps as u64 > SERIES);
}
