//! A machine that measures main every night, with the noise that the replay set assumes.

use fixture::random::Random;
use infergate::baseline::{Anchor, Entry, Key};
use infergate::history::{Age, History, Watched, tell};
use verdict::record::Metric;

pub(crate) const CHECK: &str = "tpot/regression";

/// Noise of the logarithm: of a launch, of the machine from one session to the next (a random walk) and from
/// one launch to the next, and its warming up within a session.
#[derive(Clone, Copy)]
pub(crate) struct Noise {
    pub(crate) name: &'static str,
    pub(crate) launch: f64,
    pub(crate) session: f64,
    pub(crate) walk: f64,
    pub(crate) soak: f64,
    pub(crate) is_wild: bool,
}

pub(crate) const TYPICAL: Noise = Noise {
    name: "typical",
    launch: 0.007,
    session: 0.003,
    walk: 0.001,
    soak: 0.008,
    is_wild: false,
};

pub(crate) const QUIET: Noise = Noise {
    name: "quiet",
    launch: 0.003,
    session: 0.0015,
    walk: 0.0005,
    soak: 0.003,
    is_wild: false,
};

pub(crate) const NOISY: Noise = Noise {
    name: "noisy",
    launch: 0.015,
    session: 0.006,
    walk: 0.002,
    soak: 0.015,
    is_wild: false,
};

pub(crate) const WILD: Noise = Noise {
    name: "typical, heavy tails",
    is_wild: true,
    ..TYPICAL
};

/// One session a night; `levels` are the logarithms of main's cost over the release's. With an anchor
/// four blocks of both, else main's four launches alone.
pub(crate) fn nights(seed: u64, noise: Noise, levels: &[f64], has_anchor: bool) -> Vec<Entry> {
    let mut random = Random(seed.wrapping_mul(7_919).wrapping_add(20_251));
    let mut mood = 0.0;
    let night = |(i, level): (usize, &f64)| {
        mood += noise.session * random.normal();
        let (main, release) = session(&mut random, noise, mood, *level);
        let mut entry = entry(i, main);
        entry.anchor = has_anchor.then(|| anchor(release));
        entry
    };
    levels.iter().enumerate().map(night).collect()
}

fn anchor(launches: Vec<f64>) -> Anchor {
    Anchor {
        name: "v0.3.0".into(),
        commit: "4f1c2d3e5a6b7c8d".into(),
        values: [(CHECK.to_owned(), launches)].into(),
    }
}

/// The launches of main and of the release, in milliseconds.
fn session(random: &mut Random, noise: Noise, mood: f64, level: f64) -> (Vec<f64>, Vec<f64>) {
    let (mut main, mut release) = (Vec::new(), Vec::new());
    let (mut walk, warm) = (0.0, noise.soak * (0.3 + 0.7 * random.uniform()));
    for block in 0..4 {
        let main_first = random.uniform() < 0.5;
        for place in 0..2 {
            walk += noise.walk * random.normal();
            let position = f64::from(2 * block + place);
            let soaked = warm * (1.0 - (-position / 3.0).exp());
            let own = if noise.is_wild {
                random.wild()
            } else {
                random.normal()
            };
            let machine = mood + walk + soaked + noise.launch * own;
            if (place == 0) == main_first {
                main.push(20.0 * (machine + level).exp());
            } else {
                release.push(20.0 * machine.exp());
            }
        }
    }
    (main, release)
}

fn entry(night: usize, values: Vec<f64>) -> Entry {
    let day = jiff::civil::date(2026, 1, 1)
        .checked_add(jiff::Span::new().days(i64::try_from(night).unwrap()))
        .unwrap();
    Entry {
        key: Key {
            fingerprint: "cpu | 2 cores | 8 GiB | 6.8.0".into(),
            model: "tiny".into(),
            gate: "tpot".into(),
            gate_hash: "abc".into(),
            engine: Vec::new(),
        },
        session: format!("night-{night:03}"),
        created: format!("{day}T03:00:00Z"),
        commit: Some(format!("{night:012x}")),
        profile: Some("full".into()),
        values: [(CHECK.to_owned(), values)].into(),
        anchor: None,
        spent: None,
        sign_off: None,
    }
}

/// One session a night whose ratio of main to the release has these logarithms.
pub(crate) fn nights_at(ratios: &[f64]) -> Vec<Entry> {
    let night = |(i, ratio): (usize, &f64)| Entry {
        anchor: Some(anchor(vec![20.0])),
        ..entry(i, vec![20.0 * ratio.exp()])
    };
    ratios.iter().enumerate().map(night).collect()
}

/// Logarithms of main's ratio to the release, a night each.
pub(crate) fn ratios(seed: u64, noise: Noise, levels: &[f64]) -> Vec<f64> {
    let found = history(&nights(seed, noise, levels, true));
    let points = &found.checks[0].series[0].points;
    points.iter().map(|point| point.value).collect()
}

/// The history on the morning after the last night.
pub(crate) fn history(entries: &[Entry]) -> History {
    let watched = Watched {
        id: CHECK.into(),
        gate: "tpot".into(),
        metric: Metric::Tpot,
        margin: 0.01,
    };
    let now = entries.last().map_or(String::new(), |e| e.created.clone());
    let age = Age { now, most_days: 14 };
    tell(entries, &[watched], &age, usize::MAX)
}
