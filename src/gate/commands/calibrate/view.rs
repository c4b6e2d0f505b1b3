//! A calibration for a terminal: what was measured, what the gates can find here, what they cannot.

use crate::calibration::{Certificate, CheckCertificate, Noise, Tally, Warmup};
use crate::report::citation::{day, percent, points};
use crate::report::terminal;
use std::fmt::Write;
use verdict::plural::count;
use verdict::record::Build;

/// Header over [`verdicts`].
pub const VERDICTS: [&str; 6] = [
    "check",
    "pass",
    "fail",
    "open",
    "invalid",
    "drawn: pass/fail/open",
];
/// Header over [`noises`].
pub const NOISE: [&str; 8] = [
    "check",
    "launch sd",
    "session sd",
    "request sd",
    "ρ",
    "warm-up",
    "requests",
    "R*",
];
/// Above [`effects`].
pub const EFFECTS: &str = "smallest change found in 95 of 100 sessions that look after so many blocks (minutes of this \
                           gate's launches):";

/// Calibrations in 80 columns. `certificates` are those of one calibration, one a gate.
pub fn calibration_text(certificates: &[Certificate]) -> String {
    let mut out = String::new();
    let Some(first) = certificates.first() else {
        return out;
    };
    for line in head(first) {
        say(&mut out, "", &line);
    }
    let _ = writeln!(out);
    let checks = || certificates.iter().flat_map(|c| &c.checks);
    let rows = checks().map(verdicts).collect();
    let _ = writeln!(out, "{}\n", table(&VERDICTS, rows));
    for check in checks().filter(|check| !check.invalid.is_empty()) {
        let rules = invalid(check).join(", ");
        say(&mut out, "", &format!("{} was invalid: {rules}", check.id));
    }
    if checks().any(|check| !check.invalid.is_empty()) {
        let _ = writeln!(out);
    }
    let rows = noises(certificates);
    if !rows.is_empty() {
        let _ = writeln!(out, "{}\n", table(&NOISE, rows));
    }
    if let Some((header, rows)) = effects(certificates) {
        say(&mut out, "", EFFECTS);
        let _ = writeln!(out, "{}\n", terminal::columns(header, rows));
    }
    for certificate in certificates {
        for line in refusals(certificate) {
            say(&mut out, "refused       ", &line);
        }
    }
    if let Some(line) = too_many_alarms(first) {
        say(&mut out, "too many      ", &line);
    }
    out
}

/// What is said of the false alarms where even the least rate that they allow is above the promised one.
pub fn too_many_alarms(certificate: &Certificate) -> Option<String> {
    let (low, high) = certificate.false_alarm_interval();
    (low > certificate.alpha).then(|| {
        format!(
            "false alarms: between {} and {}, where at most {} are promised: on this machine a failing gate is no \
             proof of a regression",
            percent(low),
            percent(high),
            percent(certificate.alpha)
        )
    })
}

/// The checks that cannot find their ceiling here, and what would help; empty where all can.
pub fn refusals(certificate: &Certificate) -> Vec<String> {
    let checks = certificate.checks.iter();
    let refused = checks.filter(|check| check.is_resolved() == Some(false));
    refused.map(refusal).collect()
}

fn refusal(check: &CheckCertificate) -> String {
    let ceiling = check.ceiling.map(percent).unwrap_or_default();
    let id = &check.id;
    let Some(last) = check.effects.last() else {
        let why = invalid(check);
        let why = if why.is_empty() {
            "no two launches gave it different values".to_owned()
        } else {
            why.join(", ")
        };
        return format!("{id} cannot be resolved on this machine: {why}");
    };
    let mut helps = vec!["a quieter machine".to_owned()];
    if let Some(blocks) = check.blocks_for_ceiling {
        helps.push(format!("{blocks} blocks"));
    }
    if let Some(Noise {
        requests,
        requests_wanted: Some(wanted),
        ..
    }) = check.noise
        && wanted > requests
    {
        helps.push(format!(
            "{wanted:.0} requests a launch instead of {requests:.0}"
        ));
    }
    let wider = percent(round_up(last.effect));
    helps.push(format!("a ceiling of {wider} or more"));
    if check.blocks_for_ceiling.is_none() {
        helps.push("not more launches, of which even 2000 would not do".to_owned());
    }
    format!(
        "{id} cannot be resolved on this machine: after {} blocks it finds {}, its ceiling is {ceiling}; what would \
         help: {}",
        last.blocks,
        percent(last.effect),
        helps.join("; "),
    )
}

/// By which rules a check was invalid, and in how many sessions.
fn invalid(check: &CheckCertificate) -> Vec<String> {
    let rules = check.invalid.iter();
    rules
        .map(|(rule, times)| format!("{rule} in {}", count(*times, "session")))
        .collect()
}

/// To half a percentage point.
fn round_up(effect: f64) -> f64 {
    (effect * 200.0).ceil() / 200.0
}

/// The sessions, machine and outcomes, a line each.
pub fn head(certificate: &Certificate) -> Vec<String> {
    let sessions = certificate.sessions;
    let verdicts = sessions.verdicts;
    let (low, high) = certificate.false_alarm_interval();
    let rate = f64::from(verdicts.fail) / f64::from(verdicts.judged()).max(1.0);
    let broken = match sessions.broken_limits {
        0 => String::new(),
        n => format!(", {n} ended by a broken limit"),
    };
    let drawn = certificate.drawn;
    let build = Build {
        arm: verdict::record::Arm::Head,
        commit: certificate.commit.clone(),
        subject: None,
        dirty: certificate.dirty,
        artifact_sha256: None,
        command: Vec::new(),
        files: Vec::new(),
        build_s: 0.0,
        on_ci: None,
    };
    let mut lines = vec![
        format!(
            "calibration of {}, profile {}, gates {}",
            day(&certificate.created),
            certificate.profile,
            certificate.gates.join(", ")
        ),
        format!(
            "{}, measured against itself",
            crate::report::commit_name(&build)
        ),
        certificate.key.fingerprint.clone(),
        format!(
            "measured: {}, {}, {:.1} min: {} pass, {} fail, {} inconclusive, {} invalid{broken}",
            count(sessions.measured(), "A/A session"),
            count(sessions.launches, "launch"),
            f64::from(sessions.elapsed_s) / 60.0,
            verdicts.pass,
            verdicts.fail,
            verdicts.inconclusive,
            verdicts.invalid,
        ),
        format!(
            "false alarms: {} of {}, {} [{}, {}] (Wilson, 95 %); promised: at most {}",
            verdicts.fail,
            verdicts.judged(),
            percent(rate),
            points(low),
            points(high),
            percent(certificate.alpha)
        ),
    ];
    if drawn.stored + drawn.kept > 0 {
        lines.push(format!(
            "drawn from history, counted apart, each check alone: null sessions out of {} stored sessions of main and \
             {} kept A/A sessions",
            drawn.stored, drawn.kept
        ));
    }
    lines
}

/// A check's verdicts, under [`VERDICTS`].
pub fn verdicts(check: &CheckCertificate) -> Vec<String> {
    let Tally {
        pass,
        fail,
        inconclusive,
        invalid,
    } = check.measured;
    let drawn = check.drawn;
    let mut row = vec![check.id.clone()];
    row.extend([pass, fail, inconclusive, invalid].map(|n| n.to_string()));
    row.push(match drawn.judged() {
        0 => "–".to_owned(),
        _ => format!("{}/{}/{}", drawn.pass, drawn.fail, drawn.inconclusive),
    });
    row
}

/// A row for each check that has one, under [`NOISE`].
pub fn noises(certificates: &[Certificate]) -> Vec<Vec<String>> {
    let checks = certificates.iter().flat_map(|c| &c.checks);
    let rows = checks.filter_map(|check| Some(noise(&check.id, check.noise.as_ref()?)));
    rows.collect()
}

fn noise(id: &str, noise: &Noise) -> Vec<String> {
    let optional = |x: Option<f64>| x.map_or("–".to_owned(), sd);
    let warm_up = match noise.warm_up {
        None => "–".to_owned(),
        Some(Warmup::Ends(requests)) => requests.to_string(),
        Some(Warmup::BeyondHalf) => "> half".to_owned(),
    };
    let has_requests = noise.request_sd.is_some();
    let requests = |x: f64| {
        if has_requests {
            format!("{x:.0}")
        } else {
            "–".to_owned()
        }
    };
    vec![
        id.to_owned(),
        sd(noise.launch_sd),
        optional(noise.session_sd),
        optional(noise.request_sd),
        noise
            .autocorrelation
            .map_or("–".to_owned(), |rho| format!("{rho:.2}")),
        warm_up,
        requests(noise.requests),
        noise.requests_wanted.map_or("–".to_owned(), requests),
    ]
}

/// A standard deviation of logarithms, as a percentage.
fn sd(x: f64) -> String {
    format!("{:.2} %", x * 100.0)
}

/// The smallest change that each comparison finds at each look, as header and rows; `None` without comparisons.
pub fn effects(certificates: &[Certificate]) -> Option<(Vec<String>, Vec<Vec<String>>)> {
    let has_effects = |check: &&CheckCertificate| !check.effects.is_empty();
    let with_effects = |c: &&Certificate| c.checks.iter().any(|check| has_effects(&check));
    let first = certificates.iter().find(with_effects)?;
    let checks = certificates.iter().flat_map(|c| &c.checks);
    let rows = checks.filter(has_effects).map(|check| {
        let found = first.looks.iter().map(|look| {
            let found = check.effects.iter().find(|effect| effect.blocks == *look);
            found.map_or("–".to_owned(), |found| percent(found.effect))
        });
        let row = std::iter::once(check.id.clone()).chain(found);
        row.chain([check.ceiling.map(percent).unwrap_or_default()])
            .collect()
    });
    let looks = first.looks.iter().map(|&blocks| {
        let minutes = f64::from(2 * blocks) * first.launch_s / 60.0;
        format!("{blocks} ({minutes:.1})")
    });
    let header = std::iter::once("check".to_owned())
        .chain(looks)
        .chain(["ceiling".to_owned()]);
    Some((header.collect(), rows.collect()))
}

fn table(header: &[&str], rows: Vec<Vec<String>>) -> String {
    terminal::columns(header.iter().map(|h| (*h).to_owned()).collect(), rows)
}

/// A paragraph, its further lines under the first one's text.
fn say(out: &mut String, mark: &str, text: &str) {
    let width = usize::from(terminal::WIDTH) - mark.chars().count();
    for (i, line) in terminal::wrap(text, width).into_iter().enumerate() {
        let mark = if i == 0 {
            mark.to_owned()
        } else {
            " ".repeat(mark.chars().count())
        };
        let _ = writeln!(out, "{mark}{line}");
    }
}
