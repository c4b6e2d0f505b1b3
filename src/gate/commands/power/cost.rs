//! Launches and minutes that an effect needs on this machine, from its known noise.

use crate::baseline::{Entry, Store};
use crate::calibration::{Certificate, NoiseSource, PowerPlan, PowerRow, Test, stored_sd, test_of};
use crate::measure;
use crate::session::project::now;
use crate::session::{Error, baseline, citation};
use std::path::{Path, PathBuf};
use verdict::judge;
use verdict::plan::{self, Check, Gate, Plan, Selection};
use verdict::record::Standing;
use verdict::stats::Spread;

/// What to plan for.
#[derive(Clone, Debug)]
pub struct PowerOptions {
    /// Where the search for the project begins.
    pub start: PathBuf,
    pub selection: Selection,
    /// The change to find, a fraction; `None`: each check's ceiling.
    pub effect: Option<f64>,
    /// The chance to find it.
    pub power: f64,
    /// Standard deviation of a launch's logarithm, a fraction; `None`: what was measured.
    pub sd: Option<f64>,
}

/// Plans for every check of the selected gates that is compared by t.
pub fn power(options: &PowerOptions) -> Result<PowerPlan, Error> {
    let root = plan::find_root(&options.start)?;
    let (plan, _) = plan::from_directory(&root, &options.selection)?;
    let checks = judge::family(&plan);
    let mut rows = Vec::new();
    // Checks without a known noise, by the reason.
    let mut unknown: Vec<(String, Vec<&str>)> = Vec::new();
    for gate in &plan.gates {
        let known = Known::of(&plan, &root, gate)?;
        for check in &gate.checks {
            let of = known.spread(options, check);
            let is_calibrated = of.as_ref().is_some_and(|(spread, _)| spread.known_df > 0.0);
            let Some(test) = test_of(check, &plan.design, checks, is_calibrated) else {
                continue;
            };
            match of {
                Some(of) => rows.push(row(options, check, &test, of, &known)),
                None => {
                    let why = known.uncertified();
                    match unknown.iter_mut().find(|(of, _)| *of == why) {
                        Some((_, checks)) => checks.push(&check.id),
                        None => unknown.push((why, vec![&check.id])),
                    }
                }
            }
        }
    }
    let unknown: Vec<String> = unknown
        .into_iter()
        .map(|(why, checks)| {
            format!(
                "the noise of {} is unknown: {why}, and too few stored sessions of main; run `gate calibrate`, or give --sd",
                checks.join(", ")
            )
        })
        .collect();
    if rows.is_empty() && !unknown.is_empty() {
        return Err(Error::Usage(unknown.join("\n")));
    }
    Ok(PowerPlan {
        power: options.power,
        profile: plan.design.profile,
        looks: plan.design.looks,
        checks,
        rows,
        unknown,
    })
}

/// What is known of a gate's noise on this machine.
struct Known {
    standing: Standing,
    certificate: Option<Certificate>,
    stored: Vec<Entry>,
}

impl Known {
    fn of(plan: &Plan, root: &Path, gate: &Gate) -> Result<Self, Error> {
        let fingerprint = measure::machine().fingerprint;
        let (standing, certificate) = citation::of_gate(plan, root, gate, &fingerprint, &now())?;
        let store = Store::open(&root.join(&plan.baseline.directory));
        Ok(Self {
            standing,
            certificate,
            stored: store.find(&baseline::key_on(plan, gate, &fingerprint))?,
        })
    }

    /// From launch to launch: as given, else by the certificate, else by main's stored sessions.
    fn spread(&self, options: &PowerOptions, check: &Check) -> Option<(Spread, NoiseSource)> {
        if let Some(sd) = options.sd {
            return Some((Spread::unknown(sd), NoiseSource::Given));
        }
        let certified = self.certificate.as_ref().and_then(|certificate| {
            let check = certificate.checks.iter().find(|c| c.id == check.id)?;
            let source = NoiseSource::Certificate(certificate.created.clone());
            Some((check.spread()?, source))
        });
        certified.or_else(|| {
            let values = self.stored.iter().filter_map(|s| s.values.get(&check.id));
            let values: Vec<Vec<f64>> = values.cloned().collect();
            let source = NoiseSource::Stored(values.len());
            Some((Spread::unknown(stored_sd(check, &values)?), source))
        })
    }

    /// Why no certificate gives the standard deviation, as a clause.
    fn uncertified(&self) -> String {
        match &self.standing {
            Standing::Missing => "not calibrated on this machine".to_owned(),
            Standing::Void { created, why, .. } => format!("the certificate of {created} {why}"),
            Standing::Valid(of) => format!("the certificate of {} does not have it", of.created),
        }
    }
}

fn row(
    options: &PowerOptions,
    check: &Check,
    test: &Test,
    (spread, source): (Spread, NoiseSource),
    known: &Known,
) -> PowerRow {
    let effect = options.effect.unwrap_or(test.ceiling);
    PowerRow {
        check: check.id.clone(),
        sd: spread.sd,
        paired: spread.paired,
        source,
        effect,
        margin: test.margin,
        wanted: test.blocks_to_find(spread, effect, options.power),
        to_pass: test.blocks_to_pass(spread, options.power),
        launch_s: known.certificate.as_ref().map(|c| c.launch_s),
    }
}
