//! All descendants of a process, by `/proc`: what a process group alone would miss (a server that called
//! `setsid`).

use std::collections::{HashMap, HashSet};
use std::fs;

/// A process that cannot be mistaken for a later one with the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Id {
    pub pid: i32,
    /// Clock ticks after boot, field 22 of `/proc/PID/stat`.
    started: u64,
}

struct Stat {
    parent: i32,
    zombie: bool,
    started: u64,
}

/// Fields of `/proc/PID/stat`; the command name may hold spaces and parentheses, so count from the last.
fn stat(pid: i32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = text.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split(' ').collect();
    Some(Stat {
        zombie: *fields.first()? == "Z",
        parent: fields.get(1)?.parse().ok()?,
        started: fields.get(19)?.parse().ok()?,
    })
}

/// Every living process below `root`, `root` included; but for those of `spared`, and whoever is below them.
pub fn below(root: i32, spared: &[Id]) -> Vec<Id> {
    let mut children: HashMap<i32, Vec<Id>> = HashMap::new();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|n| n.parse().ok()) else {
            continue;
        };
        let Some(stat) = stat(pid) else { continue };
        let id = Id {
            pid,
            started: stat.started,
        };
        if spared.contains(&id) {
            continue;
        }
        if pid == root {
            found.push(id);
        }
        children.entry(stat.parent).or_default().push(id);
    }
    let mut next = vec![root];
    let mut seen = HashSet::from([root]);
    while let Some(parent) = next.pop() {
        for id in children.remove(&parent).unwrap_or_default() {
            if seen.insert(id.pid) {
                found.push(id);
                next.push(id.pid);
            }
        }
    }
    found
}

/// Whether a process of this number runs; a zombie does not.
pub fn runs(pid: i32) -> bool {
    stat(pid).is_some_and(|stat| !stat.zombie)
}

/// Whether it still runs; a zombie does not.
pub fn is_alive(id: Id) -> bool {
    stat(id.pid).is_some_and(|stat| stat.started == id.started && !stat.zombie)
}
