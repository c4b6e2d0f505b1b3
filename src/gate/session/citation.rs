//! The certificates that a session's reports cite.

use super::{Error, Options, Project, baseline, now};
use crate::calibration::{Certificate, Certificates, Subject, standing};
use crate::measure;
use std::path::Path;
use verdict::plan::{Gate, Plan};
use verdict::record::{Citation, Standing};

/// Why another calibration would not be cited either, and what to do.
const FURTHER_ARGS: &str = "and `gate calibrate` takes no further arguments: write those that both arms shall have \
                            into `engine.serve` first";

/// One citation a gate, of this machine and moment.
pub fn citations(project: &Project, options: &Options) -> Result<Vec<Citation>, Error> {
    let Project { plan, root, .. } = project;
    let (fingerprint, now) = (measure::machine().fingerprint, now());
    let has_further_args = !options.base_args.is_empty() || !options.head_args.is_empty();
    let cite = |gate: &Gate| {
        let (standing, _) = of_gate(plan, root, gate, &fingerprint, &now)?;
        Ok(Citation {
            gate: gate.name.clone(),
            standing: of_engine(standing, has_further_args),
        })
    };
    plan.gates.iter().map(cite).collect()
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
