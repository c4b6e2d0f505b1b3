//! Validity of a certificate for the present machine, with the differences.

use super::Certificate;
use crate::baseline::{Key, age_days};
use verdict::plan::Design;
use verdict::record::{Certified, Standing};
use verdict::stats;

/// Confidence of the false-alarm rate's interval.
const CONFIDENCE: f64 = 0.95;

/// What is measured now.
pub struct Subject<'a> {
    pub key: Key,
    pub design: &'a Design,
    /// RFC 3339, UTC.
    pub now: &'a str,
    pub max_age_days: u32,
}

/// How the subject stands with a gate's certificates, oldest first: the newest that holds counts; where none
/// does, the one that differs in the least, the newest of those.
pub fn standing<'c>(
    subject: &Subject<'_>,
    certificates: &'c [Certificate],
) -> (Standing, Option<&'c Certificate>) {
    let differences = certificates
        .iter()
        .rev()
        .map(|c| (c, differences(subject, c)));
    // The first of several least ones is given: the newest.
    match differences.min_by_key(|(_, differences)| differences.len()) {
        None => (Standing::Missing, None),
        Some((certificate, none)) if none.is_empty() => {
            (Standing::Valid(certificate.certified()), Some(certificate))
        }
        Some((certificate, differences)) => (
            Standing::Void {
                created: certificate.created.clone(),
                why: differences.join(", "),
                remedy: None,
            },
            None,
        ),
    }
}

impl Certificate {
    /// What a report cites of it.
    pub fn certified(&self) -> Certified {
        let effect =
            |check: &super::CheckCertificate| Some((check.id.clone(), check.effect_at_cap()?));
        let noise = |check: &super::CheckCertificate| Some((check.id.clone(), check.launch_noise?));
        Certified {
            created: self.created.clone(),
            sessions: self.sessions.verdicts.judged(),
            false_alarms: self.sessions.verdicts.fail,
            interval: self.false_alarm_interval(),
            blocks: self.looks.last().copied().unwrap_or_default(),
            effects: self.checks.iter().filter_map(effect).collect(),
            noise: self.checks.iter().filter_map(noise).collect(),
        }
    }

    /// Wilson's 95 % interval of the measured false-alarm rate; everything is possible without a session.
    pub fn false_alarm_interval(&self) -> (f64, f64) {
        let verdicts = self.sessions.verdicts;
        let (alarms, judged) = (u64::from(verdicts.fail), u64::from(verdicts.judged()));
        stats::wilson(alarms, judged, CONFIDENCE).unwrap_or((0.0, 1.0))
    }
}

/// Clauses that follow "the certificate of DATE".
fn differences(subject: &Subject<'_>, certificate: &Certificate) -> Vec<String> {
    let (then, now) = (&certificate.key, &subject.key);
    let mut found = Vec::new();
    if then.fingerprint != now.fingerprint {
        let parts = parts(&then.fingerprint, &now.fingerprint);
        found.push(format!("is of another machine ({parts})"));
    }
    if then.model != now.model {
        found.push(format!("is of the model {}", then.model));
    }
    if then.engine != now.engine {
        found.push("is of another engine configuration".to_owned());
    }
    let Design {
        profile,
        looks,
        alpha,
        beta,
        spending,
        ..
    } = subject.design;
    if certificate.profile != *profile {
        found.push(format!("is of the profile {}", certificate.profile));
    } else if then.gate_hash != now.gate_hash {
        found.push("is of another definition of the gate".to_owned());
    }
    let budgets = (certificate.alpha.to_bits(), certificate.beta.to_bits());
    if certificate.looks != *looks || budgets != (alpha.to_bits(), beta.to_bits()) {
        found.push("is of other looks or error budgets".to_owned());
    }
    if certificate.spending != *spending {
        let (then, now) = (certificate.spending.name(), spending.name());
        found.push(format!(
            "spends its error budgets otherwise ({then} → {now})"
        ));
    }
    match age_days(&certificate.created, subject.now) {
        Some(days) if days <= f64::from(subject.max_age_days) => {}
        Some(days) => found.push(format!(
            "is {days:.0} days old, more than the {} that it holds",
            subject.max_age_days
        )),
        None => found.push("has no date that can be read".to_owned()),
    }
    found
}

/// `kernel 6.1 → 6.2`: the parts of a fingerprint that changed, in their places.
fn parts(then: &str, now: &str) -> String {
    let (then, now): (Vec<&str>, Vec<&str>) =
        (then.split(" | ").collect(), now.split(" | ").collect());
    let changed: Vec<String> = (0..then.len().max(now.len()))
        .filter_map(|i| {
            let [then, now] = [&then, &now].map(|parts| parts.get(i).copied().unwrap_or("none"));
            (then != now).then(|| format!("{then} → {now}"))
        })
        .collect();
    changed.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use verdict::plan::Spending;
    use verdict::record::Interleave;

    fn certificate() -> Certificate {
        serde_json::from_str(include_str!("../../../tests/data/calibration-v1.json")).unwrap()
    }

    fn design() -> Design {
        Design {
            profile: "quick".into(),
            spending: Spending::Bonferroni,
            gates: Vec::new(),
            looks: vec![4, 6, 8, 10],
            alpha: 0.02,
            beta: 0.05,
            budget: Duration::from_secs(75),
            checkpoint_every: Duration::from_secs(60),
            cooldown: None,
            interleave: Interleave::Launches,
        }
    }

    /// What the report says of the frozen certificate after `change`, nine days later.
    #[track_caller]
    fn check(change: impl Fn(&mut Certificate), expect: Option<&str>) {
        let mut one = certificate();
        change(&mut one);
        let subject = Subject {
            key: certificate().key,
            design: &design(),
            now: "2026-11-30T12:00:00Z",
            max_age_days: 90,
        };
        let certificates = [one];
        let (standing, valid) = standing(&subject, &certificates);
        assert_eq!(valid.is_some(), expect.is_none());
        match (standing, expect) {
            (Standing::Valid(_), None) => {}
            (Standing::Void { why, .. }, Some(expect)) => assert_eq!(why, expect),
            (standing, expect) => panic!("{standing:?} where {expect:?} was expected"),
        }
    }

    #[test]
    fn what_differs_is_said() {
        check(|_| {}, None);
        check(
            |c| c.key.fingerprint = c.key.fingerprint.replace("6.18", "6.12"),
            Some("is of another machine (6.12 → 6.18)"),
        );
        check(
            |c| c.key.model = "other".into(),
            Some("is of the model other"),
        );
        check(
            |c| c.key.engine.push("--slow".into()),
            Some("is of another engine configuration"),
        );
        check(
            |c| c.key.gate_hash = "0".into(),
            Some("is of another definition of the gate"),
        );
        check(
            |c| c.profile = "full".into(),
            Some("is of the profile full"),
        );
        check(
            |c| c.looks = vec![4],
            Some("is of other looks or error budgets"),
        );
        check(
            |c| c.alpha = 0.01,
            Some("is of other looks or error budgets"),
        );
        check(
            |c| c.spending = Spending::ObrienFleming,
            Some("spends its error budgets otherwise (obrien-fleming → bonferroni)"),
        );
        check(
            |c| c.created = "2026-08-01T12:00:00Z".into(),
            Some("is 121 days old, more than the 90 that it holds"),
        );
        check(
            |c| c.created = "yesterday".into(),
            Some("has no date that can be read"),
        );
    }

    #[test]
    fn the_newest_of_those_that_hold_counts() {
        let mut older = certificate();
        older.created = "2026-11-01T00:00:00Z".into();
        let mut elsewhere = certificate();
        elsewhere.created = "2026-11-29T00:00:00Z".into();
        elsewhere.key.fingerprint = "another".into();
        let subject = Subject {
            key: certificate().key,
            design: &design(),
            now: "2026-11-30T12:00:00Z",
            max_age_days: 90,
        };
        let all = [older, certificate(), elsewhere];
        let (found, valid) = standing(&subject, &all);
        assert_eq!(found, Standing::Valid(certificate().certified()));
        assert_eq!(valid, Some(&all[1]));
        assert_eq!(standing(&subject, &[]), (Standing::Missing, None));
    }
}
