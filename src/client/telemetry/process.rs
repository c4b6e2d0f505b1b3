//! Memory and CPU time of a process tree, from one pass over `/proc/PID/stat`.
//!
//! Whoever left the tree by losing its parent is no longer seen. Resident memory is the kernel's running
//! count, which may lag by some pages a core.

use nix::unistd::{SysconfVar, sysconf};
use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::sync::LazyLock;

/// What the living processes of a tree use together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tree {
    pub pids: BTreeSet<i32>,
    pub rss_bytes: u64,
    /// Page faults that waited for a disk.
    pub major_faults: u64,
    /// Ended children that were waited for are counted with whoever waited.
    pub cpu_s: f64,
}

/// Clock ticks a second in `/proc`.
pub static TICKS_PER_S: LazyLock<f64> = LazyLock::new(|| system(SysconfVar::CLK_TCK, 100));
static PAGE_BYTES: LazyLock<f64> = LazyLock::new(|| system(SysconfVar::PAGE_SIZE, 4096));

/// A limit of the system; `usual` where it cannot be asked.
fn system(variable: SysconfVar, usual: i64) -> f64 {
    sysconf(variable).ok().flatten().unwrap_or(usual) as f64
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Stat {
    parent: i32,
    ticks: u64,
    major_faults: u64,
    rss_pages: u64,
}

/// The tree below `root`, `root` included; `None` where it does not live.
pub fn tree(root: i32) -> Option<Tree> {
    let all = all();
    all.get(&root)?;
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for (pid, stat) in &all {
        children.entry(stat.parent).or_default().push(*pid);
    }
    let mut tree = Tree::default();
    let (mut ticks, mut pages) = (0, 0);
    let mut next = vec![root];
    while let Some(pid) = next.pop() {
        let Some(stat) = all.get(&pid).filter(|_| tree.pids.insert(pid)) else {
            continue;
        };
        ticks += stat.ticks;
        pages += stat.rss_pages;
        tree.major_faults += stat.major_faults;
        next.extend(children.remove(&pid).unwrap_or_default());
    }
    tree.cpu_s = ticks as f64 / *TICKS_PER_S;
    tree.rss_bytes = (pages as f64 * *PAGE_BYTES) as u64;
    Some(tree)
}

/// Bytes of these processes' memory that lie on huge pages: anonymous, shared and of files, by their `smaps_rollup`. `None`
/// where not one of them may be read. Reading takes the kernel's lock of a process's map: not while it is measured.
pub fn huge_bytes(pids: &BTreeSet<i32>) -> Option<u64> {
    let of = |pid: &i32| {
        let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
        Some(huge_kib(&text) * 1024)
    };
    let read: Vec<u64> = pids.iter().filter_map(of).collect();
    (!read.is_empty()).then(|| read.iter().sum())
}

fn huge_kib(rollup: &str) -> u64 {
    let names = ["AnonHugePages:", "ShmemPmdMapped:", "FilePmdMapped:"];
    let values = rollup.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        words.next().filter(|name| names.contains(name))?;
        words.next()?.parse::<u64>().ok()
    });
    values.sum()
}

/// Whether a process of this number is there, in our view of the machine.
pub fn exists(pid: i32) -> bool {
    fs::exists(format!("/proc/{pid}")).unwrap_or(false)
}

/// Every living process.
fn all() -> HashMap<i32, Stat> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let text = fs::read_to_string(entry.path().join("stat")).ok()?;
            Some((pid, stat(&text)?))
        })
        .collect()
}

/// Fields as proc(5) numbers them; the command's name may hold spaces and parentheses, so count from its
/// end. `None` for a zombie.
fn stat(text: &str) -> Option<Stat> {
    const STATE: usize = 3;
    let (_, rest) = text.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let field = |number: usize| fields.get(number - STATE);
    if *field(STATE)? == "Z" {
        return None;
    }
    let number = |at: usize| field(at)?.parse::<u64>().ok();
    // Its own and those of children that it waited for.
    let sum = |at: &[usize]| at.iter().copied().map(number).sum::<Option<u64>>();
    Some(Stat {
        parent: field(4)?.parse().ok()?,
        ticks: sum(&[14, 15, 16, 17])?,
        major_faults: sum(&[12, 13])?,
        rss_pages: number(24)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_after_the_commands_name() {
        let line = "7 (a) b) c) S 3 7 7 0 -1 4194560 1 0 2 3 10 20 3 4 20 0 1 0 99 1000 250 18446744073709551615";
        let read = stat(line);
        assert_eq!(
            read,
            Some(Stat {
                parent: 3,
                ticks: 37,
                major_faults: 5,
                rss_pages: 250
            })
        );
        assert_eq!(stat(&line.replace(") S ", ") Z ")), None);
        assert_eq!(stat("7 (x) S 3"), None);
    }

    #[test]
    fn memory_on_huge_pages_is_added_up() {
        let text =
            "Rss: 9 kB\nAnonHugePages:      4096 kB\nShmemPmdMapped: 2 kB\nFilePmdMapped:  1 kB\n";
        assert_eq!(huge_kib(text), 4099);
        let ourselves = std::process::id().cast_signed();
        assert!(huge_bytes(&BTreeSet::from([ourselves])).is_some());
        assert_eq!(huge_bytes(&BTreeSet::from([i32::MAX])), None);
    }

    #[test]
    fn our_own_tree_is_there_and_nobodys_is_not() {
        let ourselves = std::process::id().cast_signed();
        let tree = tree(ourselves).unwrap();
        assert!(
            tree.pids.contains(&ourselves) && tree.rss_bytes > 0,
            "{tree:?}"
        );
        assert_eq!(super::tree(i32::MAX), None);
        assert!(exists(ourselves) && !exists(i32::MAX));
    }
}
