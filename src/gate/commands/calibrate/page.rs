//! A calibration as one HTML page: each session's change against the margin, and what the gates can find.
//!
//! Main function: [`page`]. Refuses to know: measuring, HTML.

use super::view;
use crate::calibration::{Certificate, CheckCertificate};
use crate::report::citation::percent;
use crate::report::sheet::{self, Bar, Bars, Mark, Picture, ScaleKind, Sheet, SheetTable, Tone};
use crate::report::{limits, numbers};
use verdict::plural::count;
use verdict::record::{CheckVerdict, RunVerdict, Verdict};

/// Most sessions that are drawn one by one; of more, the last.
const DRAWN: usize = 40;

/// `certificates`: those of one calibration. `sessions`: verdicts of its sessions, in their order.
pub fn page(certificates: &[Certificate], sessions: &[RunVerdict], command: String) -> String {
    let first = certificates.first();
    let alarms = first.and_then(view::too_many_alarms);
    let refusals: Vec<String> = certificates.iter().flat_map(view::refusals).collect();
    let (tone, word) = match (&alarms, refusals.is_empty()) {
        (Some(_), _) => (Tone::Fail, "too many false alarms"),
        (None, false) => (Tone::Inconclusive, "not resolved"),
        (None, true) => (Tone::Pass, "resolved"),
    };
    let has_comparisons = checks(certificates).any(|check| check.is_resolved().is_some());
    let changes = checks(certificates).filter_map(|check| changes(check, sessions));
    sheet::page(&Sheet {
        title: "gate calibrate".to_owned(),
        badge: has_comparisons.then(|| (tone, word.to_owned())),
        headline: headline(certificates),
        about: first.map_or(Vec::new(), view::head),
        notices: alarms.into_iter().chain(refusals).collect(),
        pictures: smallest(certificates).into_iter().chain(changes).collect(),
        tables: tables(certificates),
        command,
        tool: first.map_or(String::new(), |first| first.tool.clone()),
        ..Sheet::default()
    })
}

fn checks(certificates: &[Certificate]) -> impl Iterator<Item = &CheckCertificate> {
    certificates
        .iter()
        .flat_map(|certificate| &certificate.checks)
}

fn headline(certificates: &[Certificate]) -> String {
    let verdicts = certificates.first().map(|first| first.sessions.verdicts);
    let (fail, judged) = verdicts.map_or((0, 0), |of| (of.fail, of.judged()));
    let alarms = format!(
        "{} in {}",
        count(fail as usize, "false alarm"),
        count(judged as usize, "judged A/A session")
    );
    let found = checks(certificates).filter_map(|check| Some((check.effect_at_cap()?, &check.id)));
    match found.max_by(|a, b| a.0.total_cmp(&b.0)) {
        Some((effect, id)) => format!(
            "{alarms}; a full session finds changes from {} ({id})",
            percent(effect)
        ),
        None => alarms,
    }
}

/// The smallest change that each comparison finds at its last look, beside its ceiling.
fn smallest(certificates: &[Certificate]) -> Option<Picture> {
    let row = |check: &CheckCertificate| {
        let effect = check.effect_at_cap()?;
        let ceiling = check.ceiling?;
        Some(Bar {
            label: check.id.clone(),
            value: format!("{}, ceiling {}", percent(effect), percent(ceiling)),
            tone: match check.is_resolved() {
                Some(true) => Tone::Pass,
                _ => Tone::Inconclusive,
            },
            bar: Some((0.0, effect)),
            dots: vec![(ceiling, format!("ceiling: {}", percent(ceiling)))],
            ..Bar::default()
        })
    };
    let bars = Bars {
        title: "Smallest change found in 95 of 100 sessions that go to the last look".to_owned(),
        note: "Bar: the smallest change. Dot: the ceiling, the change that the check has to find. Green: the bar ends \
               before the dot."
            .to_owned(),
        kind: ScaleKind::FromZero,
        shown: percent,
        marks: Vec::new(),
        rows: checks(certificates).filter_map(row).collect(),
    };
    bars.drawn().map(Picture::Bars)
}

/// A comparison's change in each session.
fn changes(check: &CheckCertificate, sessions: &[RunVerdict]) -> Option<Picture> {
    let of = |session: &RunVerdict| {
        let checks = session.gates.iter().flat_map(|gate| gate.checks.clone());
        checks.into_iter().find(|judged| judged.id == check.id)
    };
    let judged = (1..)
        .zip(sessions)
        .filter_map(|(number, s)| Some((number, of(s)?)));
    let judged: Vec<(usize, CheckVerdict)> = judged.collect();
    let (margin, _) = judged.iter().find_map(|(_, judged)| limits(judged))?;
    let worse = margin * judged.first()?.1.metric.direction().sign();
    let skipped = judged.len().saturating_sub(DRAWN);
    let rows = judged
        .iter()
        .skip(skipped)
        .map(|(number, judged)| row(*number, judged));
    let more = match skipped {
        0 => String::new(),
        n => format!(" Of {} sessions the last {} are drawn.", n + DRAWN, DRAWN),
    };
    let mark = |at: f64, name: String, tone| Mark { at, name, tone };
    let bars = Bars {
        title: format!(
            "{}: change in each session, one build against itself",
            check.id
        ),
        note: format!("Dot: the change; line: its repeated 95 % interval.{more}"),
        kind: ScaleKind::Linear,
        shown: numbers::signed_percent,
        marks: vec![
            mark(0.0, "no change".to_owned(), Tone::Base),
            mark(worse, format!("margin {}", percent(margin)), Tone::Fail),
        ],
        rows: rows.collect(),
    };
    bars.drawn().map(Picture::Bars)
}

fn row(number: usize, judged: &CheckVerdict) -> Bar {
    let change = numbers::interval(judged.change, judged.interval);
    Bar {
        label: format!("session {number}"),
        value: match judged.verdict {
            Verdict::Pass => change.clone(),
            verdict => format!("{change}  {}", verdict.name()),
        },
        tone: match judged.verdict {
            Verdict::Pass => Tone::Pass,
            Verdict::Fail => Tone::Fail,
            Verdict::Inconclusive => Tone::Inconclusive,
            Verdict::Invalid => Tone::Invalid,
        },
        span: judged.interval,
        dots: judged.change.map(|at| (at, change)).into_iter().collect(),
        ..Bar::default()
    }
}

fn tables(certificates: &[Certificate]) -> Vec<SheetTable> {
    let owned = |header: &[&str]| header.iter().map(|word| (*word).to_owned()).collect();
    let table = |title: &str, header: Vec<String>, rows: Vec<Vec<String>>| SheetTable {
        title: title.to_owned(),
        header,
        rows,
    };
    let verdicts = checks(certificates).map(view::verdicts).collect();
    let effects = view::effects(certificates).map(|(header, rows)| {
        let title =
            "Smallest change found, by blocks at the look (minutes of this gate's launches)";
        table(title, header, rows)
    });
    let noise = view::noises(certificates);
    let noise =
        (!noise.is_empty()).then(|| table("How much launches vary", owned(&view::NOISE), noise));
    let verdicts = table("Verdicts", owned(&view::VERDICTS), verdicts);
    [effects, Some(verdicts), noise]
        .into_iter()
        .flatten()
        .collect()
}
