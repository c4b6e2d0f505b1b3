//! A verdict as gauges in OpenMetrics' text format 1.0, which Prometheus' node exporter reads as a text file, too.
//!
//! No sample has a time of its own, and no family a type but `gauge`: the node exporter takes neither. Main function:
//! [`openmetrics`]. Refuses to know: files.

use super::json_v1::comparison;
use super::redaction::redact;
use super::{row, word};
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use verdict::record::{
    Arm, Build, CheckVerdict, Extent, Rule, RunRecord, RunVerdict, Unit, is_ignorable,
};

/// Characters of a label's value.
const MOST: usize = 300;
/// What a check can be, what a gate can be, and what a session can be.
const OF_CHECK: [&str; 5] = ["pass", "inconclusive", "invalid", "fail", "waived"];
const OF_GATE: [&str; 4] = ["pass", "inconclusive", "invalid", "fail"];
const OF_SESSION: [&str; 5] = ["pass", "inconclusive", "invalid", "fail", "A/A"];

type Labels = Vec<(&'static str, String)>;

/// Samples of one name and unit.
#[derive(Default)]
struct Family {
    unit: &'static str,
    help: &'static str,
    samples: Vec<(Labels, f64)>,
}

/// Families by their names.
#[derive(Default)]
struct Families(BTreeMap<String, Family>);

impl Families {
    /// Adds a sample of `infergate_{name}_{unit}`; not one without a finite value.
    fn add(
        &mut self,
        (name, help): (&str, &'static str),
        unit: &'static str,
        labels: Labels,
        value: Option<f64>,
    ) {
        let Some(value) = value.filter(|value| value.is_finite()) else {
            return;
        };
        let unit_after = if unit.is_empty() { "" } else { "_" };
        let name = format!("infergate_{name}{unit_after}{unit}");
        let family = self.0.entry(name).or_default();
        (family.unit, family.help) = (unit, help);
        family.samples.push((labels, value));
    }

    /// Adds 1 for the verdict that holds and 0 for each other.
    fn add_verdict(
        &mut self,
        family: (&str, &'static str),
        states: &[&str],
        labels: &Labels,
        verdict: &str,
    ) {
        for state in states {
            let mut labels = labels.clone();
            labels.push(("verdict", (*state).to_owned()));
            let value = f64::from(u8::from(*state == verdict));
            self.add(family, "", labels, Some(value));
        }
    }
}

/// The verdict as text, ended by `# EOF`. Deterministic.
pub fn openmetrics(record: &RunRecord, verdict: &RunVerdict) -> String {
    let mut families = Families::default();
    let session = labels(record, &record.machine.fingerprint);
    let begun: Option<Timestamp> = record.created.parse().ok();
    let begun = begun.map(|at| at.as_millisecond() as f64 / 1e3);
    families.add(
        (
            "session_start_timestamp",
            "When the session began, since 1970-01-01 UTC.",
        ),
        "seconds",
        session.clone(),
        begun,
    );
    families.add(
        (
            "session_elapsed",
            "Time spent measuring, builds not counted.",
        ),
        "seconds",
        session.clone(),
        Some(record.elapsed_s),
    );
    families.add_verdict(
        (
            "session_verdict",
            "1 for the session's verdict, 0 for every other.",
        ),
        &OF_SESSION,
        &session,
        word(record, verdict),
    );
    for gate in &verdict.gates {
        let mut of_gate = labels(record, machine_of(record, &gate.gate));
        of_gate.insert(0, ("gate", gate.gate.clone()));
        families.add_verdict(
            (
                "gate_verdict",
                "1 for the gate's verdict, 0 for every other.",
            ),
            &OF_GATE,
            &of_gate,
            gate.verdict.name(),
        );
        for check in &gate.checks {
            add_check(&mut families, &of_gate, check);
        }
    }
    written(&families)
}

fn add_check(families: &mut Families, of_gate: &Labels, check: &CheckVerdict) {
    let mut labels = of_gate.clone();
    labels.insert(1, ("check", check.id.clone()));
    labels.insert(2, ("metric", check.metric.name().to_owned()));
    labels.insert(3, ("statistic", check.statistic.name().to_owned()));
    families.add_verdict(
        (
            "check_verdict",
            "1 for the check's verdict, 0 for every other.",
        ),
        &OF_CHECK,
        &labels,
        check.word(),
    );
    let (unit, scale) = base_unit(check.metric.unit());
    let mut value = |family, value: Option<f64>| {
        let scaled = value.map(|value| value * scale);
        families.add(family, unit, labels.clone(), scaled);
    };
    value(
        ("head", "Value of head, or of main that is recorded."),
        check.head,
    );
    value(("base", "Value of base."), check.base);
    let interval = check.interval.unzip();
    match check.rule {
        Rule::Ceiling { limit } | Rule::Floor { limit } => {
            value(("limit", "Limit of head's value."), Some(limit));
            value(
                (
                    "head_low",
                    "Lower end of the 95 % interval of head's value.",
                ),
                interval.0,
            );
            value(
                (
                    "head_high",
                    "Upper end of the 95 % interval of head's value.",
                ),
                interval.1,
            );
        }
        Rule::Regression { .. } => {
            let limits = row::limits(check).unzip();
            let mut share = |family, value| families.add(family, "ratio", labels.clone(), value);
            share(
                ("change", "Head against base: 0.03 is 3 % more."),
                check.change,
            );
            share(
                (
                    "change_low",
                    "Lower end of the 95 % interval of the change.",
                ),
                interval.0,
            );
            share(
                (
                    "change_high",
                    "Upper end of the 95 % interval of the change.",
                ),
                interval.1,
            );
            share(
                (
                    "change_margin",
                    "Change for the worse, without a sign, beyond which the check fails.",
                ),
                limits.0,
            );
            share(
                (
                    "change_ceiling",
                    "Change for the worse, without a sign, within which the check passes.",
                ),
                limits.1,
            );
        }
    }
}

/// What tells one session from another: a machine's files of several profiles must not hold the same series.
fn labels(record: &RunRecord, machine: &str) -> Labels {
    let head = Build::of(&record.builds, Arm::Head);
    let commit = head.and_then(|build| {
        let changes = if build.dirty { "+changes" } else { "" };
        Some(format!("{}{changes}", build.commit.as_ref()?))
    });
    vec![
        ("machine", machine.to_owned()),
        ("profile", record.profile.clone()),
        ("comparison", comparison(record).to_owned()),
        ("commit", commit.unwrap_or_default()),
    ]
}

/// Fingerprint of the machine that measured a gate.
fn machine_of<'a>(record: &'a RunRecord, gate: &str) -> &'a str {
    let machine = match &record.extent {
        Extent::Merged { shards } => {
            let mut shards = shards.iter();
            let own = shards.find(|shard| shard.gates.iter().any(|name| name == gate));
            own.map_or(&record.machine, |shard| &shard.machine)
        }
        Extent::Whole | Extent::Shard { .. } => &record.machine,
    };
    &machine.fingerprint
}

/// A unit's name in OpenMetrics, and what a value is multiplied by.
fn base_unit(unit: Unit) -> (&'static str, f64) {
    match unit {
        Unit::Milliseconds | Unit::MillisecondsPerToken => ("seconds", 1e-3),
        Unit::MicrosecondsPerToken => ("seconds", 1e-6),
        Unit::Tokens => ("tokens", 1.0),
        Unit::TokensPerSecond => ("tokens_per_second", 1.0),
        Unit::Ratio | Unit::Fraction => ("ratio", 1.0),
        Unit::Cases => ("cases", 1.0),
        Unit::Nats => ("nats", 1.0),
        Unit::Bytes => ("bytes", 1.0),
        Unit::Number => ("", 1.0),
        Unit::PerToken => ("per_token", 1.0),
        Unit::PerRequest => ("per_request", 1.0),
        Unit::JoulesPerToken => ("joules_per_token", 1.0),
    }
}

fn written(families: &Families) -> String {
    let mut out = String::new();
    for (
        name,
        Family {
            unit,
            help,
            samples,
        },
    ) in &families.0
    {
        let _ = writeln!(out, "# TYPE {name} gauge");
        if !unit.is_empty() {
            let _ = writeln!(out, "# UNIT {name} {unit}");
        }
        let _ = writeln!(out, "# HELP {name} {help}");
        for (labels, value) in samples {
            let labels = labels
                .iter()
                .map(|(name, value)| format!("{name}=\"{}\"", label(value)));
            let labels = labels.collect::<Vec<_>>().join(",");
            let _ = writeln!(out, "{name}{{{labels}}} {value}");
        }
    }
    out + "# EOF\n"
}

/// A label's value without secrets, of bounded length, escaped.
fn label(value: &str) -> String {
    let value = redact(value);
    let kept = value.chars().filter(|c| !is_ignorable(*c)).take(MOST);
    kept.fold(String::new(), |mut out, c| {
        match c {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::label;

    #[test]
    fn a_label_stays_within_its_quotes() {
        for (given, expect) in [
            ("plain", "plain"),
            ("a\"} 1\nb", "a\\\"} 1\\nb"),
            ("c:\\d", "c:\\\\d"),
            ("e\r\u{1b}f", "e  f"),
        ] {
            assert_eq!(label(given), expect);
        }
    }
}
