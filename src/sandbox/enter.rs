//! Puts a policy in force and becomes the child: what `gate sandbox POLICY -- COMMAND` does.
//!
//! Without namespaces it is one process: it restricts itself and executes the command. With them it is three: this
//! one, which makes the namespaces, waits and ends as the command did; the first process of the pid namespace, which
//! arranges the mounts, restricts itself and buries orphans; and the command. When the second ends, the kernel ends
//! everything in its namespace.

use super::{mounts, policy::Policy};
use crate::record::Layer;
use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreatedAttr, RulesetStatus, Scope,
};
use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal, raise};
use nix::sys::wait::{WaitStatus, wait};
use nix::unistd::{Gid, Pid, Uid, User, initgroups, setgid, setuid};
use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Command, ExitStatus};

/// The newest rights that this program knows; an older kernel keeps those that it knows.
const RIGHTS: ABI = ABI::V9;

/// Offset of a signal's number in a shell's exit code.
const BY_SIGNAL: i32 = 128;

/// Starts `command` under the policy. Returns where it could not be started, or with the exit code of a command
/// that ran in namespaces of its own.
///
/// # Errors
/// A layer that the policy names could not be put in force, or the command cannot be started.
pub fn enter(policy: Policy, command: &[String]) -> io::Result<i32> {
    let Some(program) = command.first() else {
        return Err(io::Error::other("no command"));
    };
    let mut child = Command::new(program);
    child.args(&command[1..]);
    match (policy.has(Layer::Namespaces), policy.is_init) {
        (true, false) => outside(policy, command),
        (true, true) => first_inside(&policy, child),
        (false, _) => {
            if let Some(user) = &policy.user {
                become_user(user)?;
            }
            restrict(&policy)?;
            Err(child.exec())
        }
    }
}

/// Makes the namespaces, and stays outside of the pid namespace as the child that the gate knows.
fn outside(policy: Policy, command: &[String]) -> io::Result<i32> {
    let (uid, gid) = (Uid::effective(), Gid::effective());
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWPID)?;
    // Root in there, so that the next process may mount.
    map_ids("0", &uid.to_string(), "0", &gid.to_string())?;
    let inside = Policy {
        is_init: true,
        ..policy
    };
    let words = inside.wrap(command);
    let ids = format!("{uid}:{gid}");
    let mut child = Command::new(&words[0])
        .args(&words[1..])
        .env(IDS, ids)
        .spawn()?;
    // Ends with the command, not by what its group is told. Not earlier: a child inherits the mask.
    SigSet::all().thread_block()?;
    end_like(child.wait()?)
}

/// Carries the ids outside of the user namespace to the process within.
const IDS: &str = "INFERGATE_SANDBOX_IDS";

/// The first process of the pid namespace.
fn first_inside(policy: &Policy, mut child: Command) -> io::Result<i32> {
    // Signals without a handler do not reach the first process of a pid namespace.
    mounts::arrange(policy)?;
    // A second user namespace: it cannot undo the mounts of the first, and its user has the id that it had outside.
    let ids = std::env::var(IDS).unwrap_or_default();
    let (uid, gid) = ids.split_once(':').unwrap_or(("0", "0"));
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS)?;
    map_ids(uid, "0", gid, "0")?;
    // Set after the ids, which clear it.
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    restrict(policy)?;
    let child = child.env_remove(IDS).spawn()?;
    let pid = Pid::from_raw(child.id().cast_signed());
    loop {
        match wait()? {
            WaitStatus::Exited(ended, code) if ended == pid => return Ok(code),
            WaitStatus::Signaled(ended, signal, _) if ended == pid => {
                return Ok(BY_SIGNAL + signal as i32);
            }
            _ => {}
        }
    }
}

/// Maps one user and one group of the new namespace to those outside.
fn map_ids(uid: &str, outer_uid: &str, gid: &str, outer_gid: &str) -> io::Result<()> {
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{uid} {outer_uid} 1"))?;
    fs::write("/proc/self/gid_map", format!("{gid} {outer_gid} 1"))
}

/// Ends as the command did: by its signal, or with its exit code.
fn end_like(status: ExitStatus) -> io::Result<i32> {
    let code = status.code().unwrap_or(1);
    let signal = status.signal().unwrap_or(code - BY_SIGNAL);
    let stops = [
        Signal::SIGSTOP,
        Signal::SIGTSTP,
        Signal::SIGTTIN,
        Signal::SIGTTOU,
    ];
    if let Ok(signal) = Signal::try_from(signal)
        && !stops.contains(&signal)
    {
        // No core of this process, which did nothing wrong.
        prctl::set_dumpable(false)?;
        SigSet::all().thread_unblock()?;
        // The standard library catches the first SIGSEGV and SIGBUS.
        raise(signal)?;
        raise(signal)?;
    }
    Ok(code)
}

fn become_user(name: &str) -> io::Result<()> {
    let unknown = || io::Error::other(format!("there is no user {name}"));
    let user = User::from_name(name)?.ok_or_else(unknown)?;
    initgroups(&CString::new(name)?, user.gid)?;
    setgid(user.gid)?;
    setuid(user.uid)?;
    Ok(())
}

/// Landlock, where the policy names it.
fn restrict(policy: &Policy) -> io::Result<()> {
    if !policy.has(Layer::Landlock) {
        return Ok(());
    }
    let all = AccessFs::from_all(RIGHTS);
    // A device made in a folder of one's own is a way around the rule for /dev.
    let write = all & !(AccessFs::MakeChar | AccessFs::MakeBlock);
    let restricted = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(all)
        .and_then(|rules| rules.scope(Scope::from_all(RIGHTS)))
        .and_then(Ruleset::create)
        .and_then(|rules| rules.add_rules(rules_for(&policy.read, AccessFs::from_read(RIGHTS))))
        .and_then(|rules| rules.add_rules(rules_for(&policy.write, write)))
        .and_then(|rules| rules.add_rules(rules_for(&policy.list, AccessFs::ReadDir.into())))
        .and_then(|rules| rules.restrict_self());
    let status = restricted.map_err(io::Error::other)?;
    match status.ruleset {
        RulesetStatus::NotEnforced => Err(io::Error::other("Landlock is not in force")),
        RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => Ok(()),
    }
}

/// A path that is not there cannot be granted, and needs no grant.
fn rules_for(
    paths: &[PathBuf],
    access: BitFlags<AccessFs>,
) -> impl Iterator<Item = Result<PathBeneath<PathFd>, landlock::RulesetError>> {
    landlock::path_beneath_rules(paths, access)
}
