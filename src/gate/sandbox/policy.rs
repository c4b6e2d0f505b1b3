//! The rights of one child, as plain data: made by the gate, put in force by [`enter()`](super::enter()) in the child.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use verdict::record::Layer;

/// Name of the hidden command that starts a child under a policy.
pub const SUBCOMMAND: &str = "sandbox";

/// The rights of one child. Paths are absolute.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    pub layers: Vec<Layer>,
    /// Runs as this user, whom the gate, being root, becomes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Folders and files that it may read, with all below them.
    pub read: Vec<PathBuf>,
    /// … and write.
    pub write: Vec<PathBuf>,
    /// Folders of which it may read the names alone.
    pub list: Vec<PathBuf>,
    /// Not to be seen, where mounts are its own.
    pub hidden: Vec<PathBuf>,
}

impl Policy {
    pub fn has(&self, layer: Layer) -> bool {
        self.layers.contains(&layer)
    }

    /// The command line that starts `command` under this policy by the running program itself.
    pub fn wrap(&self, command: &[String]) -> Vec<String> {
        let policy = serde_json::to_string(self).unwrap_or_default();
        let launcher = ["/proc/self/exe", SUBCOMMAND, &policy, "--"];
        let launcher = launcher.into_iter().map(str::to_owned);
        launcher.chain(command.iter().cloned()).collect()
    }
}
