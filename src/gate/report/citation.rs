//! The report's line about the machine's calibration.

use verdict::plural::count;
use verdict::record::{Certified, Citation, RunRecord, Standing};

/// One line for all gates that share it; none where nobody looked for certificates.
pub fn citations(record: &RunRecord) -> Vec<String> {
    let mut lines: Vec<(String, Vec<&str>)> = Vec::new();
    let certified = merged(record);
    for citation in &record.calibration {
        let line = match &citation.standing {
            Standing::Valid(one) => certified
                .iter()
                .find(|all| is_of_one_calibration(all, one))
                .map(of_certificate)
                .unwrap_or_default(),
            Standing::Void {
                created,
                why,
                remedy,
            } => format!(
                "the certificate of {} {why}: not calibrated, {}",
                day(created),
                remedy.as_deref().unwrap_or("`gate calibrate`")
            ),
            Standing::Missing => {
                "not calibrated on this machine (`gate calibrate` saves launches)".to_owned()
            }
        };
        let line = match judged_by(citation) {
            Some(judged) => format!("{line}; {judged}"),
            None => line,
        };
        match lines.iter_mut().find(|(known, _)| *known == line) {
            Some((_, gates)) => gates.push(&citation.gate),
            None => lines.push((line, vec![&citation.gate])),
        }
    }
    let is_one = lines.len() == 1;
    let name = |(line, gates): (String, Vec<&str>)| match is_one {
        true => line,
        false => format!("{}: {line}", gates.join(", ")),
    };
    lines.into_iter().map(name).collect()
}

/// By what a gate's comparisons are judged beside their own launches.
fn judged_by(citation: &Citation) -> Option<String> {
    let (noise, source) = match (&citation.standing, &citation.learned) {
        (Standing::Valid(certified), _) if !certified.noise.is_empty() => {
            (&certified.noise, "its launches".to_owned())
        }
        (_, Some(learned)) => {
            let sessions = count(learned.sessions, "earlier session");
            (&learned.noise, format!("{sessions} here"))
        }
        _ => return None,
    };
    let paired: Vec<&str> = noise
        .iter()
        .filter(|(_, n)| n.paired)
        .map(|(c, _)| c.as_str())
        .collect();
    let pairs = match paired.is_empty() {
        true => String::new(),
        false => format!("; compared in pairs: {}", paired.join(", ")),
    };
    Some(format!("noise known from {source}{pairs}"))
}

/// The certificates that hold, those of one calibration in one, with the effects of all its gates.
fn merged(record: &RunRecord) -> Vec<Certified> {
    let mut all: Vec<Certified> = Vec::new();
    for citation in &record.calibration {
        let Standing::Valid(one) = &citation.standing else {
            continue;
        };
        match all
            .iter_mut()
            .find(|known| is_of_one_calibration(known, one))
        {
            Some(known) => known.effects.extend(one.effects.clone()),
            None => all.push(one.clone()),
        }
    }
    all
}

fn is_of_one_calibration(a: &Certified, b: &Certified) -> bool {
    (&a.created, a.sessions, a.false_alarms) == (&b.created, b.sessions, b.false_alarms)
}

/// `calibrated 2026-11-21: 0 false alarms in 10 A/A sessions (0 %, 0 to 28); finds …`.
fn of_certificate(certified: &Certified) -> String {
    let Certified {
        sessions,
        false_alarms,
        interval: (low, high),
        blocks,
        ..
    } = certified;
    let rate = f64::from(*false_alarms) / f64::from(*sessions).max(1.0);
    let effects: Vec<String> = certified
        .effects
        .iter()
        .map(|(check, effect)| format!("{} ({check})", percent(*effect)))
        .collect();
    let finds = if effects.is_empty() {
        String::new()
    } else {
        format!("; {blocks} blocks find {}", effects.join(", "))
    };
    format!(
        "calibrated {}: {} in {} ({} [{}, {}]){finds}",
        day(&certified.created),
        count(*false_alarms, "false alarm"),
        count(*sessions, "A/A session"),
        percent(rate),
        points(*low),
        points(*high),
    )
}

/// The date of an RFC 3339 moment.
pub fn day(moment: &str) -> &str {
    moment.split('T').next().unwrap_or(moment)
}

/// `2.5 %`.
pub fn percent(fraction: f64) -> String {
    format!("{} %", points(fraction))
}

/// Percentage points, with one decimal below 10.
pub fn points(fraction: f64) -> String {
    let points = fraction * 100.0;
    let text = if points.abs() < 9.95 {
        format!("{points:.1}")
    } else {
        format!("{points:.0}")
    };
    text.strip_suffix(".0").unwrap_or(&text).to_owned()
}
