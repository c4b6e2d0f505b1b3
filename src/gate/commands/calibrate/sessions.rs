//! A/A sessions one after another, and the certificates that they and earlier ones make.
//!
//! Each session is one of `gate check`, through the same protocol, judge and files, in a directory of its own
//! below the calibration's. Called again on that directory, whatever is whole is kept and the rest is measured.

use crate::calibration::{Certificate, Certificates, Evidence, MeasuredSession, certify};
use crate::measure;
use crate::session;
use crate::session::arms::Arms;
use crate::session::project::{Place, Project, new_record};
use crate::session::results::{Results, has_run, read_record};
use crate::session::sources::build_arms;
use crate::session::{Base, Error, Event, Options, Outcome, baseline, null_sessions, resume};
use std::fs;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use verdict::judge;
use verdict::plan::{self, Selection};
use verdict::record::{Comparison, Ending, Exit, RunRecord, RunVerdict, Verdict};

/// What to calibrate.
#[derive(Clone, Debug)]
pub struct CalibrateOptions {
    /// Where the search for the project begins.
    pub start: PathBuf,
    pub selection: Selection,
    /// How many A/A sessions.
    pub sessions: u32,
    /// Where they go; `None`: a new directory under `.gate/runs`. One that holds sessions is continued.
    pub out: Option<PathBuf>,
}

/// How a calibration ended.
#[derive(Clone, Debug)]
pub struct Calibration {
    pub directory: PathBuf,
    /// A signal ended it before the last session.
    pub is_interrupted: bool,
    /// One for each measured session, in order.
    pub verdicts: Vec<RunVerdict>,
    pub result: CalibrationResult,
}

#[derive(Clone, Debug)]
pub enum CalibrationResult {
    /// One a gate, with its file.
    Certified(Vec<(PathBuf, Certificate)>),
    /// No session said anything about the gates' comparisons. The last whole one says why; there is none where
    /// a signal came before.
    Nothing(Option<Box<Outcome>>),
}

/// Measures so many sessions of the working tree against itself, built once, and stores a certificate for each
/// gate. `cancel` ends it early: what was measured until then is certified, and says how much it is.
pub async fn calibrate(
    options: &CalibrateOptions,
    on_event: &dyn Fn(Event),
    cancel: impl Future<Output = ()>,
) -> Result<Calibration, Error> {
    let directory = directory(options)?;
    let done = measure_in(&directory, options, on_event, std::pin::pin!(cancel)).await;
    // Where nothing was measured nothing is left behind: only an empty folder can be removed so.
    let _ = fs::remove_dir(&directory);
    done
}

async fn measure_in<C: Future<Output = ()>>(
    directory: &Path,
    options: &CalibrateOptions,
    on_event: &dyn Fn(Event),
    mut cancel: Pin<&mut C>,
) -> Result<Calibration, Error> {
    let first = session_path(directory, 1);
    let place = match has_run(&first) {
        true => Place::Old(&first),
        false => Place::New(Some(&first)),
    };
    let of = (options.start.as_path(), &options.selection);
    let project = Project::open(of, Comparison::SameBuild, place, cancel.as_mut()).await?;
    let mut project = project.without_waivers();
    let of_each = each(options);
    let arms = tokio::select! {
        arms = build_arms(&of_each, &project, on_event) => arms?.against_itself(),
        () = cancel.as_mut() => return Err(Error::Interrupted),
    };
    let mut series = Series {
        directory,
        arms: &arms,
        options: &of_each,
        of: options.sessions.max(there_are(directory)),
        measured: Vec::new(),
        verdicts: Vec::new(),
        last: None,
    };
    let is_interrupted = series.measure(&mut project, on_event, cancel).await?;
    let Series {
        measured,
        verdicts,
        last,
        ..
    } = series;
    let judged = |session: &MeasuredSession| {
        let verdict = session.verdict();
        verdict.is_some_and(|verdict| verdict != Verdict::Invalid)
    };
    let result = match last {
        Some(last) if measured.iter().any(judged) => {
            CalibrationResult::Certified(store(&project, directory, &last.record, &measured)?)
        }
        last => CalibrationResult::Nothing(last.map(Box::new)),
    };
    Ok(Calibration {
        directory: directory.to_path_buf(),
        is_interrupted,
        verdicts,
        result,
    })
}

/// The sessions of one calibration.
struct Series<'a> {
    directory: &'a Path,
    arms: &'a Arms,
    options: &'a Options,
    of: u32,
    measured: Vec<MeasuredSession>,
    verdicts: Vec<RunVerdict>,
    last: Option<Outcome>,
}

impl Series<'_> {
    /// Whether a signal ended it.
    async fn measure<C: Future<Output = ()>>(
        &mut self,
        project: &mut Project,
        on_event: &dyn Fn(Event),
        mut cancel: Pin<&mut C>,
    ) -> Result<bool, Error> {
        for number in 1..=self.of {
            on_event(Event::Session {
                number,
                of: self.of,
            });
            let outcome = self
                .session(project, number, on_event, cancel.as_mut())
                .await?;
            if outcome.record.ending == Ending::Interrupted {
                return Ok(true);
            }
            let session = MeasuredSession::of(&project.plan, &outcome.record, &outcome.verdict);
            on_event(Event::SessionDone {
                number,
                of: self.of,
                verdict: outcome.verdict.verdict,
            });
            self.measured.push(session);
            self.verdicts.push(outcome.verdict.clone());
            let never_ready = |exit: &Exit| matches!(exit, Exit::NeverReady { .. });
            let is_hopeless = outcome.record.launches.iter().any(|l| never_ready(&l.exit));
            self.last = Some(outcome);
            // An engine that does not start will not start in the next session either.
            if is_hopeless {
                break;
            }
        }
        Ok(false)
    }

    /// A whole session that is there, or one that is measured now, from where it stopped.
    async fn session<C: Future<Output = ()>>(
        &self,
        project: &mut Project,
        number: u32,
        on_event: &dyn Fn(Event),
        cancel: Pin<&mut C>,
    ) -> Result<Outcome, Error> {
        let path = session_path(self.directory, number);
        let is_new = !has_run(&path);
        // The first one's directory was opened with the project.
        if number > 1 {
            let profile = &project.plan.design.profile;
            project.results = if is_new {
                Results::create(Some(&path), &project.workspace, profile)?
            } else {
                Results::reopen(&path, &project.workspace)?
            };
        }
        if is_new {
            let record = new_record(self.options, project, self.arms);
            return session::run(project, self.arms, record, on_event, cancel).await;
        }
        let mut record = read_record(&path)?;
        self.refuse_another(project, &record, &path)?;
        if matches!(record.ending, Ending::Unfinished | Ending::Interrupted) {
            record.ending = Ending::Unfinished;
            return session::run(project, self.arms, record, on_event, cancel).await;
        }
        Ok(Outcome {
            verdict: judge::judge(&project.plan, &record),
            record,
            directory: path,
        })
    }

    /// A session of something else must not be counted with these.
    fn refuse_another(
        &self,
        project: &Project,
        record: &RunRecord,
        path: &Path,
    ) -> Result<(), Error> {
        let changes = resume::differences(self.options, project, record, &self.arms.builds);
        if changes.is_empty() {
            return Ok(());
        }
        Err(Error::Usage(format!(
            "the session in {} cannot be counted, since what it measured was not this:\n{}\nput it back as it \
             was, or calibrate in another directory (--out)",
            path.display(),
            changes.join("\n")
        )))
    }
}

fn directory(options: &CalibrateOptions) -> Result<PathBuf, Error> {
    if let Some(out) = &options.out {
        return Ok(out.clone());
    }
    let root = plan::find_root(&options.start)?;
    let time = jiff::Timestamp::now().strftime("%Y%m%d-%H%M%S");
    let (profile, process) = (&options.selection.profile, std::process::id());
    let name = format!("{time}-{profile}-calibration-{process}");
    Ok(root.join(".gate/runs").join(name))
}

fn session_path(directory: &Path, number: u32) -> PathBuf {
    directory.join(format!("session-{number:03}"))
}

/// Sessions that an earlier call left, counted up to the first that is not there.
fn there_are(directory: &Path) -> u32 {
    let is_there = |number: &u32| has_run(&session_path(directory, *number));
    (1..).take_while(is_there).last().unwrap_or_default()
}

/// Head alone; [`Arms::against_itself`] makes two arms of it.
fn each(options: &CalibrateOptions) -> Options {
    Options {
        start: options.start.clone(),
        selection: options.selection.clone(),
        base: Base::Stored,
        head: None,
        out: None,
        seed: None,
        base_args: Vec::new(),
        head_args: Vec::new(),
        same_build: true,
        together: Vec::new(),
    }
}

fn store(
    project: &Project,
    directory: &Path,
    record: &RunRecord,
    measured: &[MeasuredSession],
) -> Result<Vec<(PathBuf, Certificate)>, Error> {
    let evidence = Evidence {
        plan: &project.plan,
        record,
        measured,
        past: &null_sessions::sessions(project, record, directory)?,
        seed: record.seed,
        created: crate::session::project::now(),
    };
    let certificates = Certificates::open(&project.root.join(&project.plan.calibration.directory));
    let gates = project.plan.gates.iter();
    gates
        .map(|gate| {
            let key = baseline::key_on(&project.plan, gate, &measure::machine().fingerprint);
            let certificate = certify(&evidence, gate, key);
            Ok((certificates.put(&certificate)?, certificate))
        })
        .collect()
}
