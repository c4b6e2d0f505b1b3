//! Everything measured in one session. This is what `run.json` holds.
//!
//! The types of this module are the file format `infergate-run/1`: they are frozen by
//! `tests/data/run-v1.json`, which must keep reading to the same verdict. A change that breaks it needs
//! a new format number (docs/ARCHITECTURE.md).

use super::{Arm, Citation, Launch};
use serde::{Deserialize, Serialize};

/// Name and version of the format.
pub const RUN_FORMAT: &str = "infergate-run/1";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// [`RUN_FORMAT`], or [`MERGED_FORMAT`] where several machines measured.
    pub format: String,
    /// Name and version of the program that measured.
    pub tool: String,
    /// RFC 3339, UTC.
    pub created: String,
    pub profile: String,
    /// Seed of the arms' order and of all generated prompts.
    pub seed: u64,
    pub comparison: Comparison,
    pub machine: Machine,
    /// What was measured as each arm; one entry in an A/A run's arms is repeated.
    pub builds: Vec<Build>,
    /// Names of the gates that were measured, in plan order.
    pub gates: Vec<String>,
    /// Every file that defines the plan, as it was read, so that the record judges alone.
    pub inputs: Vec<Input>,
    /// Gates that are not base's; `None`: they are, or base was not built, or an older gate measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed_gates: Option<ChangedGates>,
    /// Main's stored sessions of this machine: the base of a stored comparison, else for a remark alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stored: Vec<StoredBase>,
    /// The machine's certificates when the session began, one a gate; empty where nobody looked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calibration: Vec<Citation>,
    /// In order of execution.
    pub launches: Vec<Launch>,
    pub ending: Ending,
    /// Seconds spent measuring, builds not counted.
    pub elapsed_s: f64,
    /// The engine as gates/engines.toml describes it, where it was measured to be compared with others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub described: Option<Described>,
    /// All gates of the run, or some.
    #[serde(default, skip_serializing_if = "Extent::is_whole")]
    pub extent: Extent,
}

/// What stands for the fingerprint of the machine, and all else that nobody recorded, in a session made of another
/// tool's results.
pub const UNKNOWN_MACHINE: &str = "unknown: imported";

impl RunRecord {
    /// Whether another tool measured it.
    pub fn is_imported(&self) -> bool {
        self.machine.fingerprint == UNKNOWN_MACHINE
    }
}

/// What the head was compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Comparison {
    /// Base and head launched in turn on this machine.
    Interleaved,
    /// The same, but both arms are one build with one set of arguments: an A/A run.
    SameBuild,
    /// Head launches against main's stored sessions of this machine.
    Stored,
    /// Head alone: a baseline recording.
    Alone,
    /// A baseline recording beside a frozen release, launched in turn with head as `base`. The two are not
    /// judged against one another: their ratio is main's history.
    Anchored,
}

impl Comparison {
    /// The arms that are launched.
    pub fn arms(self) -> &'static [Arm] {
        match self {
            Self::Interleaved | Self::SameBuild | Self::Anchored => &Arm::BOTH,
            Self::Stored | Self::Alone => &[Arm::Head],
        }
    }

    /// Whether main is recorded, so that absolute rules alone are judged.
    pub fn is_recording(self) -> bool {
        matches!(self, Self::Alone | Self::Anchored)
    }
}

/// The machine that a session ran on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// One line that changes whenever results stop being comparable: hardware, driver, kernel.
    pub fingerprint: String,
    pub cpu: String,
    pub cores: u32,
    pub memory_bytes: u64,
    pub kernel: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<String>,
    /// Isolation of builds and engines; `None`: an older gate or another tool measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation: Option<Isolation>,
}

/// How builds and engines were kept from the gate's files and processes, and from each other's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Isolation {
    /// In force; empty: none.
    pub layers: Vec<Layer>,
    /// Why a layer was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// One layer of a sandbox (docs/sandbox.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layer {
    /// Landlock: the paths, signals and sockets that a process may use.
    Landlock,
    /// User, mount and pid namespaces.
    Namespaces,
    /// Another user than the gate's.
    User,
}

impl Layer {
    pub fn name(self) -> &'static str {
        match self {
            Self::Landlock => "landlock",
            Self::Namespaces => "namespaces",
            Self::User => "another user",
        }
    }
}

impl Isolation {
    /// `landlock, namespaces`, or `none`.
    pub fn names(&self) -> String {
        let names: Vec<&str> = self.layers.iter().map(|layer| layer.name()).collect();
        match names.is_empty() {
            true => "none".to_owned(),
            false => names.join(", "),
        }
    }
}

/// What one arm ran.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Build {
    pub arm: Arm,
    /// Full commit id; `None` outside a repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// First line of the commit's message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// The working tree had uncommitted changes.
    pub dirty: bool,
    /// Hex SHA-256 of the built artifact, where the configuration names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_sha256: Option<String>,
    /// The command line that starts the engine, port left open as `{port}`.
    pub command: Vec<String>,
    /// What else the engine is made of: its program where that is not the artifact, `engine.files` and the
    /// tokenizer, as they were when the session began or went on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<EngineFile>,
    /// Seconds that the build took; 0 where an earlier one was reused.
    pub build_s: f64,
    /// True if CI built the artifact, in this session or an earlier one; `None`: nothing was built, or an older gate
    /// measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_ci: Option<bool>,
}

/// A file of the engine, or a folder with everything in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineFile {
    /// As the configuration names it.
    pub name: String,
    pub bytes: u64,
    /// Hex SHA-256 over the names and contents; a file beyond 64 MiB counts by its size, the time of its last
    /// change, and its first and last MiB.
    pub sha256: String,
}

impl Build {
    /// True if two builds of different sources are one engine: equal artifacts, started alike.
    pub fn is_same_engine(&self, other: &Self) -> bool {
        // Where an artifact is kept says nothing about it.
        let name = |word: &String| word.rsplit('/').next().unwrap_or_default().to_owned();
        let words = |build: &Self| build.command.iter().map(name).collect::<Vec<_>>();
        let are_of_one_commit = self.commit == other.commit && self.dirty == other.dirty;
        !are_of_one_commit
            && self.artifact_sha256.is_some()
            && self.artifact_sha256 == other.artifact_sha256
            && words(self) == words(other)
    }

    /// What `arm` ran, among a session's builds.
    pub fn of(builds: &[Self], arm: Arm) -> Option<&Self> {
        builds.iter().find(|build| build.arm == arm)
    }
}

/// What a reader of a comparison must know of an engine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Described {
    /// The model's name in requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How its weights are quantised; `None`: they are not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quantised: Option<String>,
    /// `plausible.tpot_floor`, ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tpot_floor_ms: Option<f64>,
    /// Hex SHA-256 of all that its prompts are made from: where two are equal, request for request has one prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompts: Option<String>,
    /// The precision that it computes in; `None`: not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub precision: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
}

/// A file of the plan, with its path relative to the project's root.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Input {
    pub path: String,
    pub text: String,
}

/// Files in `gates/` in which the working tree differs from base.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedGates {
    /// Paths from the repository's root, the first few.
    pub files: Vec<String>,
    /// Number of all.
    pub count: u32,
}

/// One launch-level value series of a stored session of main: enough to judge against.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoredBase {
    /// Identity of the stored record.
    pub id: String,
    /// RFC 3339, UTC.
    pub created: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    pub fingerprint: String,
    /// Check id → one value a launch (median, slope and so on), raw scale.
    pub values: std::collections::BTreeMap<String, Vec<f64>>,
}

/// Why the session stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "why", rename_all = "kebab-case")]
pub enum Ending {
    /// Every gate had its verdict.
    Decided,
    /// The last look was reached.
    LastLook,
    /// The profile's time budget was spent.
    Budget {
        /// Of an engine that it cut off at its start: which launch, and what its server had said until then.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        starting: Option<String>,
    },
    /// Ctrl-C or SIGTERM.
    Interrupted,
    /// An engine failed in a way that more launches cannot mend.
    EngineFailed { detail: String },
    /// Still being written: the process died before it could say more.
    Unfinished,
}

/// Name and version of the format of a record of several machines. A gate that knows shards no more than it
/// knows this name would take their launches for one session.
pub const MERGED_FORMAT: &str = "infergate-run/2";

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "kebab-case")]
pub enum Extent {
    /// The session is the run.
    #[default]
    Whole,
    /// Some of the run's gates; other machines measure the others.
    Shard {
        /// The gates of the whole run, these among them, in plan order.
        together: Vec<String>,
        /// Their checks that are tested: the family that shares the error budget.
        checks: u32,
    },
    /// Every gate, measured on one machine or several. `launches` holds those of the first shard, then those of the
    /// second, and so on.
    Merged { shards: Vec<Shard> },
}

impl Extent {
    pub fn is_whole(&self) -> bool {
        *self == Self::Whole
    }
}

/// What one machine measured, but for its launches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Shard {
    pub gates: Vec<String>,
    /// RFC 3339, UTC.
    pub created: String,
    pub seed: u64,
    pub comparison: Comparison,
    pub machine: Machine,
    pub builds: Vec<Build>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stored: Vec<StoredBase>,
    pub ending: Ending,
    pub elapsed_s: f64,
    /// How many of the record's launches are its own.
    pub launches: u32,
}
