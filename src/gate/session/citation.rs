//! The certificates that a session's reports cite.

use super::resume::has_further_args;
use super::{Error, Options, Project, baseline, now};
use crate::calibration::{Certificate, Certificates, Learned, Subject, recall, standing};
use crate::measure;
use jiff::{SignedDuration, Timestamp};
use std::path::Path;
use verdict::judge;
use verdict::plan::{Gate, Plan};
use verdict::record::{
    Citation, Comparison, Ending, LearnedNoise, RunRecord, RunVerdict, Standing, Verdict,
};

/// Why another calibration would not be cited either, and what to do.
const FURTHER_ARGS: &str = "and `gate calibrate` takes no further arguments: write those that both arms shall have \
                            into `engine.serve` first";

/// One citation a gate that has tests, of this machine and moment.
pub fn citations(project: &Project, options: &Options) -> Result<Vec<Citation>, Error> {
    let Project { plan, root, .. } = project;
    let (fingerprint, now) = (measure::machine().fingerprint, now());
    let has_further_args = !options.base_args.is_empty() || !options.head_args.is_empty();
    let cite = |gate: &Gate| {
        let (standing, _) = of_gate(plan, root, gate, &fingerprint, &now)?;
        Ok(Citation {
            gate: gate.name.clone(),
            standing: of_engine(standing, has_further_args),
            learned: learned(plan, root, gate, &fingerprint)
                .filter(|_| !has_further_args && !is_job()),
        })
    };
    of_tested(plan).map(cite).collect()
}

/// The gates that a calibration says something of: they have a check that is tested.
pub fn of_tested(plan: &Plan) -> impl Iterator<Item = &Gate> {
    let gates = plan.gates.iter();
    gates.filter(|gate| gate.checks.iter().any(judge::has_test))
}

/// Whether this is a job of GitHub Actions: another one judges its result again, where nothing was learned.
fn is_job() -> bool {
    std::env::var_os("GITHUB_ACTIONS").is_some_and(|is| is == "true")
}

/// How launches varied in earlier sessions of the gate here.
fn learned(plan: &Plan, root: &Path, gate: &Gate, fingerprint: &str) -> Option<LearnedNoise> {
    let config = &plan.calibration;
    let age = SignedDuration::from_hours(24 * i64::from(config.max_age_days));
    let since = Timestamp::now().checked_sub(age).ok()?;
    let key = baseline::key_on(plan, gate, fingerprint);
    let folder = root.join(&config.directory);
    let (sessions, noise) = recall(&folder, &key, &plan.design.profile, since);
    let learned = LearnedNoise {
        sessions: u32::try_from(sessions).unwrap_or(u32::MAX),
        noise,
    };
    (!learned.noise.is_empty()).then_some(learned)
}

/// Leaves what a session of two arms shows of its launches to later ones. What cannot be written is no reason to lose the
/// session's result.
pub fn remember(project: &Project, record: &RunRecord, verdict: &RunVerdict) {
    let Project { plan, root, .. } = project;
    let compares = matches!(
        record.comparison,
        Comparison::Interleaved | Comparison::SameBuild
    );
    let is_whole = matches!(
        record.ending,
        Ending::Decided | Ending::LastLook | Ending::Budget { .. }
    );
    if !compares || !is_whole || has_further_args(plan, record) {
        return;
    }
    let checks = verdict.gates.iter().flat_map(|gate| &gate.checks);
    let sound = checks.filter(|check| check.verdict != Verdict::Invalid);
    let sound: Vec<&str> = sound.map(|check| check.id.as_str()).collect();
    let folder = root.join(&plan.calibration.directory);
    for gate in &plan.gates {
        let key = baseline::key_on(plan, gate, &record.machine.fingerprint);
        let session = Learned::of(plan, record, gate, &sound);
        let _kept = crate::calibration::remember(&folder, &key, &plan.design.profile, &session);
    }
}

/// The standing of a session: a certificate is of the engine as it is configured, without further arguments.
pub fn of_engine(standing: Standing, has_further_args: bool) -> Standing {
    match standing {
        Standing::Valid(certified) if has_further_args => Standing::Void {
            created: certified.created,
            why: "is of another engine configuration (without further arguments)".to_owned(),
            remedy: Some(FURTHER_ARGS.to_owned()),
        },
        Standing::Void { created, why, .. } if has_further_args => Standing::Void {
            created,
            why,
            remedy: Some(FURTHER_ARGS.to_owned()),
        },
        standing => standing,
    }
}

/// How a gate stands on a machine, and the certificate that holds there.
pub fn of_gate(
    plan: &Plan,
    root: &Path,
    gate: &Gate,
    fingerprint: &str,
    now: &str,
) -> Result<(Standing, Option<Certificate>), Error> {
    let config = &plan.calibration;
    let certificates = Certificates::open(&root.join(&config.directory));
    let certificates = certificates.of_gate(&gate.name)?;
    let subject = Subject {
        key: baseline::key_on(plan, gate, fingerprint),
        design: &plan.design,
        now,
        max_age_days: config.max_age_days,
    };
    let (standing, valid) = standing(&subject, &certificates);
    Ok((standing, valid.cloned()))
}
