//! Interfaces of the measuring protocol: starting engines, and following events.

use std::time::Duration;
use verdict::plan::{Gate, Suite, Workload};
use verdict::record::{Arm, Exit, Interleave, Launch, PageCache, Sample, Startup, SuiteRun};

/// How a gate wants its engine started; gates with equal ones share launches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Configuration {
    /// Further arguments to the engine.
    pub args: Vec<String>,
    /// State of the page cache that the engine's files must have.
    pub page_cache: Option<PageCache>,
    pub interleave: Interleave,
}

impl Configuration {
    pub fn of(gate: &Gate) -> Self {
        Self {
            args: gate.engine_args.clone(),
            page_cache: gate.page_cache,
            interleave: gate.interleave,
        }
    }

    /// Whether the launch was one of this configuration.
    pub fn is_of(&self, launch: &Launch) -> bool {
        launch.engine_args == self.args
            && launch.page_cache == self.page_cache
            && launch.interleave == self.interleave
    }
}

/// Starts and stops engines; the pipeline gives one that knows builds and processes.
pub trait Host {
    /// Starts an engine of `arm` in a configuration, beside one that runs if there is one, and waits until it is ready. An engine that never is
    /// gives an [`Exit`]; an `Err` is a failure of our own (no port, no disk).
    fn start(
        &mut self,
        arm: Arm,
        configuration: &Configuration,
        log: &str,
    ) -> impl Future<Output = Result<Result<Started, Exit>, Self::Error>>;

    /// The error of an engine of `arm` that starts alone and did not, for `exit`, beside the other arm's.
    fn no_room(&self, arm: Arm, exit: &Exit) -> Self::Error;

    /// Runs the project's own tests in the tree of `launch`'s arm, beside its engine.
    fn suite(
        &mut self,
        launch: &Launch,
        started: &Started,
        workload: &Workload,
        suite: &Suite,
    ) -> impl Future<Output = Result<SuiteRun, Self::Error>>;

    /// Stops the engine that was started last, of those that run, and says how it ended. `silent`: why it is taken to
    /// answer no more, if it is.
    fn stop(&mut self, silent: Option<String>) -> impl Future<Output = Result<Ended, Self::Error>>;

    type Error;
}

/// The end of a stopped engine.
#[derive(Clone, Debug)]
pub struct Ended {
    pub exit: Exit,
    /// SIGTERM did not end it.
    pub killed: bool,
}

impl Ended {
    pub fn by_itself(exit: Exit) -> Self {
        Self {
            exit,
            killed: false,
        }
    }
}

/// A ready engine.
#[derive(Clone, Debug)]
pub struct Started {
    pub endpoint: client::Endpoint,
    pub startup: Startup,
    /// Root of its process tree; `None` where it is no child of ours.
    pub pid: Option<i32>,
}

/// What the session does at the moment, for whoever shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    Starting {
        arm: Arm,
        position: u32,
    },
    /// The engine is warmed up or probed, or the machine left to cool, before the launch is measured.
    Resting {
        arm: Arm,
        position: u32,
        /// Waited for this launch so far, and left for all that follow.
        waited: Duration,
        left: Duration,
    },
    /// The project's own tests run.
    Testing {
        arm: Arm,
        position: u32,
        workload: String,
    },
    Running {
        arm: Arm,
        position: u32,
        workload: String,
        done: u32,
        of: u32,
    },
}

/// Follows a session: shows it, and keeps what was measured.
pub trait Follower {
    fn progress(&self, progress: Progress);

    /// The engine of this launch is ready; its samples follow.
    fn begun(&self, launch: &Launch);

    /// Samples of the launch of this position, which runs, each once, in the order in which answers came.
    fn samples(&self, position: u32, samples: &[Sample]);

    /// The launch is over, and whole.
    fn finished(&self, launch: &Launch) -> Result<(), Self::Error>;

    type Error;
}
