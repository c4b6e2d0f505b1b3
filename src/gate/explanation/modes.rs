//! Launches that fall into two modes: what was read beside the one and the other, and what only one of them logged.
//!
//! Main functions: [`Case::modes`], [`ModeSplit::compare_logs`]. Looked at in hindsight: what differs may be the cause, or follow from it.

use super::case::{Case, Ran};
use super::model::{Mode, ModeLine, ModeReading, ModeSplit};
use std::collections::BTreeSet;
use verdict::metrics;
use verdict::record::{Arm, Launch, MetricKind};
use verdict::stats;

/// A reading is shown where chance alone parts it as far in one of twenty sessions, all other readings aside.
const SHOWN: f64 = 0.05;
/// Most readings that are shown, and most lines of logs.
const ROWS: usize = 6;
const LINES: usize = 5;
/// Launches whose logs are compared at most, lines of a log, and characters of a line.
const LAUNCHES: usize = 128;
const LOGGED: usize = 20_000;
const LONGEST: usize = 400;
/// Words at the beginning of a line among which a stamp may stand.
const STAMPED: usize = 6;

impl Case<'_> {
    /// The launches' two modes, if they have two and if these are not just the arms.
    pub fn modes(&self) -> Option<ModeSplit> {
        if self.check.metric.kind() != MetricKind::Latency {
            return None;
        }
        let value = |ran: &Ran<'_>| ran.measure.as_ref().map(|measure| measure.value);
        let ran: Vec<(usize, f64)> = (0..self.ran.len())
            .filter_map(|place| Some((place, value(&self.ran[place])?)))
            .collect();
        if ran.iter().any(|(_, value)| *value <= 0.0) {
            return None;
        }
        let logs: Vec<f64> = ran.iter().map(|(_, value)| value.ln()).collect();
        let last_low = stats::two_modes(&logs)?.last_low;
        let is_high = |(_, value): &&(usize, f64)| value.ln() > last_low;
        let (high, low): (Vec<_>, Vec<_>) = ran.iter().partition(is_high);
        let (low, high) = (self.mode(&low)?, self.mode(&high)?);
        let is_mixed = |low: usize, high: usize| low > 0 && high > 0;
        if !is_mixed(low.0.base, high.0.base) && !is_mixed(low.0.head, high.0.head) {
            return None;
        }
        let (compared, readings) = self.apart(&low.1, &high.1);
        Some(ModeSplit {
            low: low.0,
            high: high.0,
            compared,
            readings,
            logged: Vec::new(),
        })
    }

    /// A mode and its launches' places.
    fn mode(&self, ran: &[&(usize, f64)]) -> Option<(Mode, Vec<usize>)> {
        let values: Vec<f64> = ran.iter().map(|(_, value)| *value).collect();
        let places: Vec<usize> = ran.iter().map(|(place, _)| *place).collect();
        let of = |arm| {
            let arms = places.iter().map(|place| self.ran[*place].launch.arm);
            arms.filter(|of| *of == arm).count()
        };
        let launches = places.iter().map(|place| self.ran[*place].launch.position);
        let mode = Mode {
            value: stats::median(&values)?,
            base: of(Arm::Base),
            head: of(Arm::Head),
            launches: launches.collect(),
        };
        Some((mode, places))
    }

    /// Number of readings that both modes have and that vary, and the ones that differ most.
    fn apart(&self, low: &[usize], high: &[usize]) -> (usize, Vec<ModeReading>) {
        let facts: Vec<Vec<(String, f64)>> =
            (0..self.ran.len()).map(|place| self.facts(place)).collect();
        let names: BTreeSet<&str> = facts.iter().flatten().map(|(n, _)| n.as_str()).collect();
        let of = |places: &[usize], name: &str| -> Vec<f64> {
            let rows = places.iter().filter_map(|place| {
                let mut row = facts[*place].iter();
                row.find(|(of, _)| of == name).map(|(_, value)| *value)
            });
            rows.collect()
        };
        let row = |name: &str| {
            let (low, high) = (of(low, name), of(high, name));
            let first = *low.first().or(high.first())?;
            let mut all = low.iter().chain(&high);
            if all.all(|value| value.to_bits() == first.to_bits()) {
                return None;
            }
            Some(ModeReading {
                name: name.to_owned(),
                low: stats::median(&low)?,
                high: stats::median(&high)?,
                p: stats::mann_whitney(&low, &high).ok()?.p_two_sided(),
                p_of_all: 1.0,
            })
        };
        let mut rows: Vec<ModeReading> = names.into_iter().filter_map(row).collect();
        let compared = rows.len();
        for row in &mut rows {
            row.p_of_all = (row.p * compared as f64).min(1.0);
        }
        rows.retain(|row| row.p <= SHOWN);
        rows.sort_by(|a, b| a.p.total_cmp(&b.p));
        rows.truncate(ROWS);
        (compared, rows)
    }

    /// Readings beside a launch's requests, and facts of its start.
    fn facts(&self, place: usize) -> Vec<(String, f64)> {
        let launch = self.ran[place].launch;
        let beside = metrics::beside(launch, &self.workload.id).into_iter();
        let mut facts: Vec<(String, f64)> = beside.map(|(n, v)| (n.to_owned(), v)).collect();
        let ms = |ns: u64| ns as f64 / 1e6;
        let startup = &launch.startup;
        let is_after = |other: &Ran<'_>| {
            other.launch.block == launch.block && other.launch.position < launch.position
        };
        let is_second = self.ran.iter().any(is_after);
        let started = startup
            .ready_ns
            .map(|at| ms(at.saturating_sub(startup.spawn_ns)));
        let known = [
            ("second of its block", Some(f64::from(is_second))),
            ("begun after, min", Some(ms(startup.spawn_ns) / 60_000.0)),
            ("start, ms", started),
            (
                "files in memory, %",
                startup.resident_share.map(|s| s * 100.0),
            ),
            (
                "rest before it, ms",
                launch.rest.as_ref().map(|rest| rest.waited_ms),
            ),
        ];
        let known = known
            .into_iter()
            .filter_map(|(name, v)| Some((name.to_owned(), v?)));
        facts.extend(known);
        let stages = startup.stages.iter();
        facts.extend(stages.map(|stage| (format!("start: {}, ms", stage.name), stage.ms)));
        facts
    }
}

impl ModeSplit {
    /// Adds the lines that every launch of one mode logged and none of the other; `log` gives a launch's log, as far as it
    /// is there. With a log missing nothing is added: the line may stand in it.
    pub fn compare_logs(&mut self, launches: &[Launch], log: impl Fn(&Launch) -> Option<String>) {
        if self.low.launches.len() + self.high.launches.len() > LAUNCHES {
            return;
        }
        let of = |mode: &Mode| -> Option<Vec<Logged>> {
            let launches = mode.launches.iter().map(|position| {
                let mut all = launches.iter();
                log(all.find(|launch| launch.position == *position)?)
            });
            launches.map(|text| Logged::of(&text?)).collect()
        };
        let Some((low, high)) = of(&self.low).zip(of(&self.high)) else {
            return;
        };
        let mut lines = only_in(&low, &high, false);
        lines.extend(only_in(&high, &low, true));
        lines.truncate(LINES);
        self.logged = lines;
    }
}

/// The lines of one log: as they are, and with `#` for numbers.
struct Logged {
    plain: BTreeSet<String>,
    masked: BTreeSet<String>,
    /// Both of each line, in the order of the log.
    order: Vec<(String, String)>,
}

impl Logged {
    /// `None` for a log of too many lines: those that were left out may be any.
    fn of(text: &str) -> Option<Self> {
        if text.lines().nth(LOGGED).is_some() {
            return None;
        }
        let lines = text.lines().map(|line| {
            let line: String = line.chars().take(LONGEST).collect();
            let line = without_stamps(&line);
            let masked = masked(&line);
            (line, masked)
        });
        let order: Vec<(String, String)> = lines.filter(|(line, _)| !line.is_empty()).collect();
        Some(Self {
            plain: order.iter().map(|(plain, _)| plain.clone()).collect(),
            masked: order.iter().map(|(_, masked)| masked.clone()).collect(),
            order,
        })
    }
}

/// Lines of all of these logs and of none of those, in the order of the first log.
fn only_in(these: &[Logged], those: &[Logged], is_high: bool) -> Vec<ModeLine> {
    let Some(first) = these.first() else {
        return Vec::new();
    };
    let mut seen = BTreeSet::new();
    let mut lines = Vec::new();
    for (plain, masked) in &first.order {
        let is_plain = these.iter().all(|log| log.plain.contains(plain))
            && !those.iter().any(|log| log.plain.contains(plain));
        let is_masked = these.iter().all(|log| log.masked.contains(masked))
            && !those.iter().any(|log| log.masked.contains(masked));
        let text = match (is_plain, is_masked) {
            (true, _) => plain,
            (false, true) => masked,
            (false, false) => continue,
        };
        if seen.insert(masked) {
            let text = text.clone();
            lines.push(ModeLine { is_high, text });
        }
    }
    lines
}

/// A line without dates, times and process numbers among its first words, and without the numbers that it begins with.
fn without_stamps(line: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    for (place, word) in line.split_whitespace().enumerate() {
        let is_number = word.chars().any(|c| c.is_ascii_digit())
            && word
                .chars()
                .all(|c| !c.is_alphabetic() || matches!(c, 'T' | 'Z'));
        let is_time = is_number && word.contains([':', '-']);
        let is_stamp = (is_number && kept.is_empty()) || is_time || word.starts_with("pid=");
        if place >= STAMPED || !is_stamp {
            kept.push(word);
        }
    }
    kept.join(" ")
}

/// `#` for each number.
fn masked(line: &str) -> String {
    let mut masked = String::new();
    for c in line.chars() {
        match c.is_ascii_digit() {
            true if masked.ends_with('#') => {}
            true => masked.push('#'),
            false => masked.push(c),
        }
    }
    masked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_one_mode_are_found_whatever_their_stamps() {
        let log = |kernel: &str, n: u32| {
            let text = format!(
                "2026-11-27T03:14:{n:02}Z [{n}] INFO port {}\n\n{n}.5 using kernel {kernel}\nready in {n} ms\n",
                8000 + n
            );
            Logged::of(&text).unwrap()
        };
        let (low, high) = ([log("a4", 1), log("a4", 2)], [log("a5", 3), log("a5", 4)]);
        let line = |is_high, text: &str| ModeLine {
            is_high,
            text: text.into(),
        };
        assert_eq!(
            only_in(&low, &high, false),
            [line(false, "using kernel a4")]
        );
        assert_eq!(only_in(&high, &low, true), [line(true, "using kernel a5")]);
        let warned = [
            Logged::of("0.1 took 17 ms: slow path").unwrap(),
            Logged::of("0.2 took 19 ms: slow path").unwrap(),
        ];
        assert_eq!(
            only_in(&warned, &low, true),
            [line(true, "took # ms: slow path")]
        );
        assert_eq!(only_in(&low, &low, true), []);
    }

    #[test]
    fn stamps_are_dates_times_and_first_numbers() {
        let cases = [
            ("2026-11-27 03:14:16,123 INFO x", "INFO x"),
            (
                "INFO 11-27 03:14:16 [core.py:58] kernel 5",
                "INFO [core.py:58] kernel 5",
            ),
            ("(EngineCore pid=77) INFO x", "(EngineCore INFO x"),
            ("[12] 0.5 x 3", "x 3"),
            ("12", ""),
            ("a b c d e f 03:14", "a b c d e f 03:14"),
            ("", ""),
        ];
        for (line, expect) in cases {
            assert_eq!(without_stamps(line), expect);
        }
    }
}
