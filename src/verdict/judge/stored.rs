//! Main's stored sessions as a base: which of them may stand for it.

use crate::record::{RunRecord, StoredBase, machine_changes};
use jiff::Timestamp;

/// Fewer sessions cannot tell how far this machine moves from one to the next.
const SESSIONS: usize = 8;

/// The launch values of main's usable sessions for one check, or what is missing.
pub fn sessions(
    record: &RunRecord,
    check: &str,
    max_age_days: u32,
) -> Result<Vec<Vec<f64>>, String> {
    let (mut usable, mut elsewhere, mut old, mut without) = (Vec::new(), 0, 0, 0);
    let mut other = None;
    for session in &record.stored {
        let age = age_days(&session.created, &record.created);
        if session.fingerprint != record.machine.fingerprint {
            elsewhere += 1;
            other = Some(session.fingerprint.as_str());
        } else if age.is_none_or(|days| days > f64::from(max_age_days)) {
            old += 1;
        } else if let Some(values) = sound_values(session, check) {
            usable.push(values);
        } else {
            without += 1;
        }
    }
    if usable.len() >= SESSIONS {
        return Ok(usable);
    }
    let other = other.map_or_else(String::new, |then| {
        let changes = machine_changes(then, &record.machine.fingerprint).join(", ");
        format!("; a new series starts, since the machine has changed: {changes}")
    });
    Err(format!(
        "{} of the {SESSIONS} stored sessions of main that a stored comparison needs ({elsewhere} more of \
         another machine, {old} older than {max_age_days} days, {without} without this check): make one \
         with `gate baseline record` on main{other}",
        usable.len()
    ))
}

fn sound_values(session: &StoredBase, check: &str) -> Option<Vec<f64>> {
    let values = session.values.get(check)?;
    let sound = !values.is_empty() && values.iter().all(|v| v.is_finite());
    sound.then(|| values.clone())
}

/// Days from `then` to `now`, both RFC 3339; negative where `then` is later. `None` where one cannot be
/// read.
fn age_days(then: &str, now: &str) -> Option<f64> {
    let (then, now): (Timestamp, Timestamp) = (then.parse().ok()?, now.parse().ok()?);
    Some(now.duration_since(then).as_secs_f64() / 86_400.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages() {
        let table = [
            ("2025-01-01T00:00:00Z", "2025-01-15T00:00:00Z", Some(14.0)),
            ("2025-01-15T00:00:00Z", "2025-01-14T12:00:00Z", Some(-0.5)),
            (
                "2025-01-01T02:00:00+02:00",
                "2025-01-01T12:00:00Z",
                Some(0.5),
            ),
            ("yesterday", "2025-01-14T12:00:00Z", None),
            ("2025-01-14T12:00:00Z", "", None),
        ];
        for (then, now, expect) in table {
            assert_eq!(age_days(then, now), expect, "{then} {now}");
        }
    }
}
