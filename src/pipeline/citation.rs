//! The certificates that a session's reports cite.

use super::{Error, Project, baseline, now};
use crate::calibration::{Certificate, Certificates, Subject, standing};
use crate::measure;
use crate::plan::{Gate, Plan};
use crate::record::{Citation, Standing};
use std::path::Path;

/// One citation a gate, of this machine and moment.
pub(super) fn citations(project: &Project) -> Result<Vec<Citation>, Error> {
    let Project { plan, root, .. } = project;
    let (fingerprint, now) = (measure::machine().fingerprint, now());
    let cite = |gate: &Gate| {
        let (standing, _) = of_gate(plan, root, gate, &fingerprint, &now)?;
        Ok(Citation {
            gate: gate.name.clone(),
            standing,
        })
    };
    plan.gates.iter().map(cite).collect()
}

/// How a gate stands on a machine, and the certificate that holds there.
pub(super) fn of_gate(
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
