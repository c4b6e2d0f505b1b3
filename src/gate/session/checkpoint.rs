//! Checkpoints of a running session: `launches/NNN.json` for each finished launch, and
//! `launches/NNN.partial.json` from time to time for each that runs.
//!
//! Main type: [`Checkpoints`]. No file holds another launch than its own, so what is written does not grow with
//! the square of the launches. The running one is written whole each time: with the square of its own length
//! over the time between two writings. A thread of its own does that, which owns the samples so far; the
//! measuring thread only hands them over.

use super::files::{ResultsError, read_json, replace, sync};
use client::SessionClock;
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use std::{fs, io};
use verdict::record::{Launch, Sample};

const FOLDER: &str = "launches";
const FORMAT: &str = "infergate-launch/1";

/// The end of a file's name: a whole launch, and what there is of one.
const WHOLE: &str = ".json";
const PARTIAL: &str = ".partial.json";

/// One launch as its file holds it.
#[derive(Debug, Serialize, Deserialize)]
pub struct Saved<L> {
    format: String,
    /// Seconds of measuring in the whole session until this was written.
    pub elapsed_s: f64,
    pub launch: L,
}

pub struct Checkpoints {
    folder: PathBuf,
    every: Duration,
    clock: SessionClock,
    /// By position.
    running: RefCell<BTreeMap<u32, Running>>,
}

/// The thread that keeps a running launch.
struct Running {
    news: Sender<News>,
    writer: JoinHandle<Result<(), ResultsError>>,
}

enum News {
    Samples(Vec<Sample>),
    /// The launch is over: nothing partial is wanted any more.
    Over,
}

impl Checkpoints {
    /// Makes the folder in a result directory. A running launch is written `every` so often.
    pub fn open(
        directory: &Path,
        every: Duration,
        clock: SessionClock,
    ) -> Result<Self, ResultsError> {
        let folder = directory.join(FOLDER);
        let made = fs::create_dir_all(&folder).and_then(|()| sync(directory));
        made.map_err(|source| ResultsError::Write {
            path: folder.clone(),
            source,
        })?;
        Ok(Self {
            folder,
            every,
            clock,
            running: RefCell::default(),
        })
    }

    /// A launch begins to be measured.
    pub fn begin(&self, launch: &Launch) {
        let (news, heard) = mpsc::channel();
        let partial = Partial {
            folder: self.folder.clone(),
            name: name(launch.position, PARTIAL),
            clock: self.clock.clone(),
            launch: launch.clone(),
        };
        let every = self.every;
        let writer = thread::spawn(move || partial.keep(every, &heard));
        let running = Running { news, writer };
        self.running.borrow_mut().insert(launch.position, running);
    }

    pub fn samples(&self, position: u32, samples: &[Sample]) {
        if let Some(running) = self.running.borrow().get(&position) {
            // A writer that failed says so at the launch's end.
            let _ = running.news.send(News::Samples(samples.to_vec()));
        }
    }

    /// Writes a whole launch and drops what was partial. A writer that failed is told of after that: what was
    /// finished is not lost with what was not.
    pub fn finish(&self, launch: &Launch) -> Result<(), ResultsError> {
        save(
            &self.folder,
            &name(launch.position, WHOLE),
            &self.clock,
            launch,
        )?;
        let running = self.running.borrow_mut().remove(&launch.position);
        if let Some(running) = running {
            let _ = running.news.send(News::Over);
            running.join()?;
        }
        remove(&self.folder.join(name(launch.position, PARTIAL)))
    }

    /// The running launches were cut off: what there is of them is written.
    pub fn abandon(&self) -> Result<(), ResultsError> {
        let running = self.running.take();
        running.into_values().try_for_each(Running::join)
    }
}

impl Running {
    /// Waits for the writer, which ends when nobody can send any more, or was told to.
    fn join(self) -> Result<(), ResultsError> {
        drop(self.news);
        match self.writer.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

/// A launch that grows.
struct Partial {
    folder: PathBuf,
    name: String,
    clock: SessionClock,
    launch: Launch,
}

impl Partial {
    fn keep(mut self, every: Duration, news: &Receiver<News>) -> Result<(), ResultsError> {
        let mut due = Instant::now() + every;
        let mut is_new = false;
        loop {
            match news.recv_timeout(due.saturating_duration_since(Instant::now())) {
                Ok(News::Samples(samples)) => {
                    self.launch.samples.extend(samples);
                    is_new = true;
                }
                Ok(News::Over) => return Ok(()),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) if is_new => return self.save(),
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
            if Instant::now() >= due {
                if std::mem::take(&mut is_new) {
                    self.save()?;
                }
                due = Instant::now() + every;
            }
        }
    }

    fn save(&self) -> Result<(), ResultsError> {
        save(&self.folder, &self.name, &self.clock, &self.launch)
    }
}

fn name(position: u32, end: &str) -> String {
    format!("{position:03}{end}")
}

fn save(
    folder: &Path,
    name: &str,
    clock: &SessionClock,
    launch: &Launch,
) -> Result<(), ResultsError> {
    let saved = Saved {
        format: FORMAT.into(),
        elapsed_s: clock.elapsed().as_secs_f64(),
        launch,
    };
    replace(folder, name, |file| {
        serde_json::to_writer(file, &saved).map_err(io::Error::from)
    })
}

/// Every whole launch that a result directory keeps in files of their own, by position.
pub fn whole(directory: &Path) -> Result<Vec<Saved<Launch>>, ResultsError> {
    let names = names(directory)?;
    let whole = names.iter().filter(|name| !name.ends_with(PARTIAL));
    let mut saved = whole
        .map(|name| read_json(&directory.join(FOLDER).join(name), FORMAT))
        .collect::<Result<Vec<Saved<Launch>>, _>>()?;
    saved.sort_by_key(|saved| saved.launch.position);
    Ok(saved)
}

/// Whether something is kept of a launch that was cut off.
pub fn has_partial(directory: &Path) -> Result<bool, ResultsError> {
    Ok(names(directory)?.iter().any(|name| name.ends_with(PARTIAL)))
}

/// Removes whole launches, which the record holds by now; and the folder, unless something is kept in it
/// of a launch that was cut off.
pub fn clear(directory: &Path, keep_partial: bool) -> Result<(), ResultsError> {
    let folder = directory.join(FOLDER);
    let names = names(directory)?;
    let (kept, gone): (Vec<_>, Vec<_>) = names
        .iter()
        .partition(|name| keep_partial && name.ends_with(PARTIAL));
    for name in gone {
        remove(&folder.join(name))?;
    }
    if kept.is_empty() && folder.exists() {
        // Somebody else's file in there stays, and the folder with it.
        let _ = fs::remove_dir(&folder);
    }
    Ok(())
}

/// Names of our files in the folder; none where it is not there.
fn names(directory: &Path) -> Result<Vec<String>, ResultsError> {
    let folder = directory.join(FOLDER);
    let entries = match fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => {
            return Err(ResultsError::Read {
                path: folder,
                source,
            });
        }
    };
    let names = entries
        .flatten()
        .filter_map(|e| e.file_name().into_string().ok());
    Ok(names.filter(|name| name.ends_with(WHOLE)).collect())
}

fn remove(path: &Path) -> Result<(), ResultsError> {
    match fs::remove_file(path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => Err(ResultsError::Write {
            path: path.to_path_buf(),
            source,
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use verdict::record::{Arm, Exit, Interleave, Phase, Stamps, Startup, TokenCounts};

    fn launch(position: u32) -> Launch {
        Launch {
            position,
            block: 0,
            arm: Arm::Head,
            engine_args: Vec::new(),
            page_cache: None,
            interleave: Interleave::Launches,
            fingerprint: String::new(),
            startup: Startup::default(),
            exit: Exit::Stopped,
            throttle_bits: None,
            log: String::new(),
            samples: Vec::new(),
            clients: Vec::new(),
            telemetry: None,
            rest: None,
            beside: None,
            killed: false,
            suites: Vec::new(),
        }
    }

    fn sample(index: u32) -> Sample {
        Sample {
            workload: "gate/work".into(),
            index,
            phase: Phase::Measured,
            case: None,
            turn: None,
            streamed: true,
            setting: None,
            stamps: Stamps::default(),
            tokens: TokenCounts::default(),
            finish_reason: None,
            status: None,
            fields: Default::default(),
            timings: None,
            text: None,
            text_sha256: String::new(),
            logprobs: Vec::new(),
            void: None,
        }
    }

    const NEVER: Duration = Duration::from_secs(3_600);

    fn open(directory: &Path, every: Duration) -> Checkpoints {
        Checkpoints::open(directory, every, SessionClock::resume(NEVER)).unwrap()
    }

    #[test]
    fn what_was_cut_off_is_kept_but_is_no_launch() {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path();
        let checkpoints = open(directory, NEVER);
        checkpoints.begin(&launch(0));
        checkpoints.samples(0, &[sample(0)]);
        let mut first = launch(0);
        first.samples.push(sample(0));
        checkpoints.finish(&first).unwrap();
        assert!(!has_partial(directory).unwrap());

        checkpoints.begin(&launch(1));
        checkpoints.samples(1, &[sample(0), sample(1)]);
        checkpoints.abandon().unwrap();
        let path = directory.join(FOLDER).join("001.partial.json");
        let partial: Saved<Launch> = read_json(&path, FORMAT).unwrap();
        assert_eq!(partial.launch.samples, [sample(0), sample(1)]);
        assert!(partial.elapsed_s >= NEVER.as_secs_f64());

        let whole = whole(directory).unwrap();
        let launches: Vec<&Launch> = whole.iter().map(|saved| &saved.launch).collect();
        assert_eq!(launches, [&first]);

        clear(directory, true).unwrap();
        assert!(path.exists() && !directory.join(FOLDER).join("000.json").exists());
        checkpoints.begin(&launch(1));
        checkpoints.finish(&launch(1)).unwrap();
        assert!(!path.exists());
        clear(directory, false).unwrap();
        assert!(!directory.join(FOLDER).exists());
    }

    #[test]
    fn a_running_launch_is_written_while_it_runs() {
        let directory = tempfile::tempdir().unwrap();
        let checkpoints = open(directory.path(), Duration::from_millis(1));
        checkpoints.begin(&launch(0));
        for index in 0.. {
            if has_partial(directory.path()).unwrap() {
                break;
            }
            checkpoints.samples(0, &[sample(index)]);
            std::thread::yield_now();
        }
        checkpoints.abandon().unwrap();
    }

    #[test]
    fn a_writer_that_failed_takes_no_finished_launch_with_it() {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path();
        let checkpoints = open(directory, Duration::from_millis(1));
        // Nothing can be renamed to where a folder stands.
        fs::create_dir(directory.join(FOLDER).join("000.partial.json")).unwrap();
        checkpoints.begin(&launch(0));
        let has_failed = || {
            let running = checkpoints.running.borrow();
            running[&0].writer.is_finished()
        };
        for index in 0.. {
            if has_failed() {
                break;
            }
            checkpoints.samples(0, &[sample(index)]);
            std::thread::yield_now();
        }
        let error = checkpoints.finish(&launch(0)).unwrap_err().to_string();
        assert!(error.contains("000.partial.json"), "{error}");
        let whole = whole(directory).unwrap();
        let launches: Vec<&Launch> = whole.iter().map(|saved| &saved.launch).collect();
        assert_eq!(launches, [&launch(0)]);
    }

    #[test]
    fn a_disk_that_takes_nothing_is_told_of_at_the_launchs_end() {
        let directory = tempfile::tempdir().unwrap();
        let checkpoints = open(directory.path(), NEVER);
        checkpoints.begin(&launch(0));
        checkpoints.samples(0, &[sample(0)]);
        fs::remove_dir(directory.path().join(FOLDER)).unwrap();
        let error = checkpoints.abandon().unwrap_err().to_string();
        assert!(error.contains("000.partial.json"), "{error}");
    }
}
