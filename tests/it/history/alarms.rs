//! Alarms of histories in which a night may depend on the night before: how many there are while main stands still,
//! and after how many nights a change raises one. Printed for docs/history.md.

use super::machine::{history, nights_at};
use fixture::is_nightly;
use fixture::random::Random;
use infergate::history::Outcome;

/// Standard deviation of a night's ratio to the anchor: four launches of 0.75 % on either side.
const SD: f64 = 0.0053;

const NIGHTS: usize = 120;

/// The first night of a change, counted from 0.
const CHANGE: usize = 40;

/// A night's noise: an AR(1) process, its innovations normal or with the tails of Student's t.
#[derive(Clone, Copy)]
struct Nights {
    rho: f64,
    is_wild: bool,
}

const fn nights(rho: f64, is_wild: bool) -> Nights {
    Nights { rho, is_wild }
}

const INDEPENDENT: Nights = nights(0.0, false);
const WILD: Nights = nights(0.0, true);
const SOME: Nights = nights(0.3, false);
const MUCH: Nights = nights(0.6, false);

/// Logarithms of main's ratio to the anchor, night by night.
fn values(seed: u64, nights: Nights, levels: fn(usize) -> f64) -> Vec<f64> {
    let mut random = Random(seed.wrapping_mul(7_919).wrapping_add(20_251));
    let mut state = 0.0;
    let mut next = || {
        let new = match nights.is_wild {
            true => random.wild(),
            false => random.normal(),
        };
        state = nights.rho * state + (1.0 - nights.rho.powi(2)).sqrt() * new;
        SD * state
    };
    for _ in 0..30 {
        next();
    }
    (0..NIGHTS).map(|night| next() + levels(night)).collect()
}

/// The number of nights, at least `from`, after which there is an alarm for the first time.
fn first_alarm(values: &[f64], from: usize) -> Option<usize> {
    let entries = nights_at(values);
    (from..=entries.len()).find(|&night| history(&entries[..night]).outcome() == Outcome::Worse)
}

/// 120 nights, read every morning: a single alarm counts.
#[test]
fn main_that_stands_still_raises_few_alarms() {
    for (name, nights, series, most) in [
        ("independent", INDEPENDENT, 400, 4),
        ("tails t3", WILD, 200, 6),
        ("AR(1) .3", SOME, 200, 10),
        ("AR(1) .6", MUCH, 200, 30),
    ] {
        // By day a third of them.
        let (series, most) = match is_nightly() {
            true => (series, most),
            false => (series / 3, most / 2),
        };
        let alarms = (0..series)
            .filter(|&seed| first_alarm(&values(seed, nights, |_| 0.0), 8).is_some())
            .count();
        println!("{name}, no change: {alarms} of {series} series with an alarm");
        assert!(alarms <= most, "{name}: {alarms}");
    }
}

/// The middle and the slowest tenth of the series.
#[test]
fn a_change_raises_an_alarm_after_few_nights() {
    let all: u64 = if is_nightly() { 100 } else { 50 };
    fn one_percent(night: usize) -> f64 {
        if night < CHANGE { 0.0 } else { 0.01 }
    }
    fn three_percent(night: usize) -> f64 {
        3.0 * one_percent(night)
    }
    fn slope(night: usize) -> f64 {
        0.003 * (night + 1).saturating_sub(CHANGE) as f64
    }
    fn stairs(night: usize) -> f64 {
        0.01 * ((night + 6).saturating_sub(CHANGE) / 6) as f64
    }
    type Level = fn(usize) -> f64;
    let changes: [(&str, Nights, Level, (f64, f64)); 6] = [
        ("one step of 1 %", INDEPENDENT, one_percent, (9.0, 17.0)),
        ("one step of 3 %", INDEPENDENT, three_percent, (2.0, 3.0)),
        ("0.3 % a night", INDEPENDENT, slope, (7.0, 9.0)),
        ("1 % each 6 nights", INDEPENDENT, stairs, (8.0, 10.0)),
        ("AR(1) .3, 1 %", SOME, one_percent, (12.0, 30.0)),
        ("AR(1) .6, 3 %", MUCH, three_percent, (4.0, 8.0)),
    ];
    let mut late = Vec::new();
    for (name, nights, levels, most) in changes {
        let mut delays: Vec<f64> = (0..all)
            .map(|seed| {
                let first = first_alarm(&values(1_000 + seed, nights, levels), CHANGE + 1);
                first.map_or(f64::INFINITY, |night| (night - CHANGE) as f64)
            })
            .collect();
        delays.sort_by(f64::total_cmp);
        let (middle, slow) = (delays[delays.len() / 2], delays[delays.len() * 9 / 10]);
        println!("{name}: an alarm after {middle} nights, nine in ten within {slow}");
        if middle > most.0 || slow > most.1 {
            late.push(name);
        }
    }
    assert!(late.is_empty(), "{late:?}");
}
