//! A project's own test suite, run beside the engine of one launch: how it ended and what each test said.

use serde::{Deserialize, Serialize};

/// One run of a workload of the kind `command`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SuiteRun {
    /// `gate/workload`.
    pub workload: String,
    /// Start and end, in nanoseconds from the session's start.
    pub begun_ns: u64,
    pub ended_ns: u64,
    pub ending: SuiteEnding,
    /// Output of the command, relative to the result directory.
    pub log: String,
    /// The end of that output; empty where the command succeeded.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub log_tail: String,
    /// Tests of the JUnit file, in its order; empty where the gate names none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tests: Vec<Test>,
    /// Why the JUnit file could not be read, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unread: Option<String>,
}

/// How the command ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "how", rename_all = "kebab-case")]
pub enum SuiteEnding {
    /// Exit status 0.
    Succeeded,
    /// Another exit status, or a signal, in the system's words.
    Failed { status: String },
    /// Killed with all its children at the time limit.
    TimedOut { limit_s: f64 },
    /// The program could not be started.
    NotStarted { detail: String },
}

/// One test of a suite.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Test {
    /// Class and name, `::` between them; a second test of the same name ends in ` (2)`.
    pub id: String,
    pub outcome: TestOutcome,
    /// The first line of what a test that did not pass said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TestOutcome {
    Passed,
    /// JUnit's `failure` and `error`.
    Failed,
    Skipped,
}
