//! The faults that a proxy can plant, before a project's own engine and against the project's own gates.
//!
//! A fault that no check of the project can see is told without measuring: GPU minutes are dear. Where any is
//! measured, a session without a fault comes first, asked for or not: what is red in it proves nothing.

use super::{Selftest, SelftestOptions, behind_proxy, measured, two_arms};
use crate::launch::Artifact;
use crate::selftest::{self, Abroad, Caught, FAULTS, Fault, Plant, Row, Side, Spec};
use crate::session::arms::command;
use crate::session::project::{Place, Project};
use crate::session::results::Results;
use crate::session::{Error, Event};
use std::fs;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use verdict::plan::{self, Plan, Selection};
use verdict::record::{CheckVerdict, Comparison};

pub async fn run<C: Future<Output = ()>>(
    options: &SelftestOptions,
    (start, selection): (&Path, &Selection),
    faults: &[&'static Fault],
    on_event: &dyn Fn(Event),
    mut cancel: Pin<&mut C>,
) -> Result<Selftest, Error> {
    let time = jiff::Timestamp::now().strftime("%Y%m%d-%H%M%S");
    let folder = plan::find_root(start)?.join(format!(".gate/selftest/{time}"));
    let place = |fault: &Fault| folder.join(fault.name);
    let trials: Vec<_> = faults.iter().filter_map(|fault| Trial::of(fault)).collect();
    if trials.is_empty() {
        return Err(Error::Usage(
            "no proxy can plant these faults: leave --fault out, or see --list".into(),
        ));
    }
    let place_of_first = place(Trial::clean().fault);
    let first = Place::New(Some(&place_of_first));
    let comparison = Comparison::Interleaved;
    let project = Project::open((start, selection), comparison, first, cancel.as_mut()).await?;
    let mut project = project.without_waivers();
    let trials = clean_first(trials, &project.plan);
    let artifact = tokio::select! {
        artifact = built(&project, on_event) => artifact?,
        () = cancel.as_mut() => return Err(Error::Interrupted),
    };
    let path = artifact.as_ref().map(|artifact| artifact.path.as_path());
    let serve = command(&project.plan.engine, path, &[]);
    let mut done = Selftest::new(options.keep.then(|| folder.clone()));
    let mut red_when_clean: Vec<CheckVerdict> = Vec::new();
    for (number, trial) in (1..).zip(&trials) {
        let specs = match trial.specs(&project.plan) {
            Ok(specs) => specs,
            Err(row) => {
                on_event(Event::Planted((*row).clone()));
                done.rows.push(*row);
                continue;
            }
        };
        let (what, of) = (trial.what(), trials.len());
        on_event(Event::Planting { what, number, of });
        if number > 1 {
            let place = place(trial.fault);
            project.results = Results::create(Some(&place), &project.workspace, "selftest")?;
        }
        let base = behind_proxy(options, &[], &serve);
        let head = behind_proxy(options, &specs, &serve);
        let arms = two_arms((base, head), artifact.as_ref());
        let outcome = measured(options, &project, &arms, on_event, cancel.as_mut()).await?;
        let row = trial.grade(&outcome, &red_when_clean);
        if row.outcome == Caught::Clean {
            red_when_clean.clone_from(&row.wrong);
        }
        if !done.goes_on(row, &outcome, on_event) {
            break;
        }
    }
    if !options.keep {
        drop(project);
        let _ = fs::remove_dir_all(&folder);
        // Where others were kept, it stays.
        let _ = folder.parent().map(fs::remove_dir);
    }
    Ok(done)
}

/// The trials with the clean one first, where any is measured.
fn clean_first(mut trials: Vec<Trial>, plan: &Plan) -> Vec<Trial> {
    let is_measured = trials.iter().any(|trial| trial.specs(plan).is_ok());
    trials.retain(|trial| trial.abroad.is_some());
    if is_measured {
        trials.insert(0, Trial::clean());
    }
    trials
}

/// One fault before the project's engine.
struct Trial {
    fault: &'static Fault,
    /// `None`: both arms stand behind clean proxies.
    abroad: Option<&'static Abroad>,
}

impl Trial {
    /// `None` where no proxy can plant it.
    fn of(fault: &'static Fault) -> Option<Self> {
        let abroad = fault.abroad.as_ref();
        let is_clean = fault.plant == Plant::Nothing(Side::Proxy);
        (is_clean || abroad.is_some()).then_some(Self { fault, abroad })
    }

    fn clean() -> Self {
        let mut trials = FAULTS.iter().filter_map(Self::of);
        let clean = trials.find(|trial| trial.abroad.is_none());
        clean.expect("the catalogue has a clean session behind proxies")
    }

    fn what(&self) -> &'static str {
        self.abroad.map_or(self.fault.what, |abroad| abroad.what)
    }

    /// What the proxy before head is told; the row where no check would see it.
    fn specs(&self, plan: &Plan) -> Result<Vec<String>, Box<Row>> {
        let Some(abroad) = self.abroad else {
            return Ok(Vec::new());
        };
        let checks = || plan.gates.iter().flat_map(|gate| &gate.checks);
        let is_seen = abroad.metrics.is_empty()
            || checks().any(|check| abroad.metrics.contains(&check.metric));
        if !is_seen {
            return Err(Box::new(selftest::not_covered(self.fault, abroad)));
        }
        match abroad.spec {
            Spec::Fixed(spec) => Ok(vec![spec.to_owned()]),
            Spec::KvGauges(fault) => {
                let metrics = &plan.engine.metrics;
                let names = [&metrics.kv_bytes, &metrics.kv_usage].into_iter().flatten();
                Ok(names.map(|name| format!("{fault}={name}")).collect())
            }
        }
    }

    fn grade(&self, outcome: &crate::session::Outcome, clean: &[CheckVerdict]) -> Row {
        let (launches, elapsed_s) = (outcome.record.launches.len(), outcome.record.elapsed_s);
        let verdict = &outcome.verdict;
        match self.abroad {
            None => selftest::grade(self.fault, verdict, launches, elapsed_s),
            Some(abroad) => {
                let fault = (self.fault, abroad);
                selftest::grade_abroad(fault, verdict, clean, launches, elapsed_s)
            }
        }
    }
}

/// The engine's files, built from the working tree where the project builds them.
async fn built(project: &Project, on_event: &dyn Fn(Event)) -> Result<Option<Artifact>, Error> {
    let Some(build) = &project.plan.engine.build else {
        return Ok(None);
    };
    let what = "head".to_owned();
    on_event(Event::Building { what: what.clone() });
    let artifact = project.workspace.build_head(build).await?;
    let seconds = artifact.build_s;
    on_event(Event::Built { what, seconds });
    Ok(Some(artifact))
}
