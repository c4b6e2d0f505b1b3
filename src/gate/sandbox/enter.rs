//! Puts a policy in force and becomes the child: what `gate sandbox POLICY -- COMMAND` does.
//!
//! It is three processes: this one, which waits and ends as the command did; the *keeper*, which is restricted, buries
//! orphans and ends with all that is in the sandbox; and the command. With namespaces the keeper is the first process of
//! its pid namespace, so the kernel ends everything in there with it. With Landlock alone it may signal the processes of
//! its own domain and no others, so one `kill(-1)` ends them all, however fast they start others; the command is in a
//! domain within the keeper's, and cannot signal that one. Where the kernel knows no scope for signals (before Linux
//! 6.12) there is one process: it restricts itself and executes the command.

use super::{mounts, policy::Policy};
use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreatedAttr, RulesetStatus, Scope,
};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal, kill, raise};
use nix::sys::wait::{WaitPidFlag, WaitStatus, wait, waitpid};
use nix::unistd::{Gid, Pid, Uid, User, getppid, initgroups, setgid, setpgid, setsid, setuid};
use std::env;
use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use verdict::record::Layer;

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
    match (has_keeper(&policy), policy.is_keeper) {
        (true, false) => outside(policy, command),
        (true, true) if policy.has(Layer::Namespaces) => first_of_namespace(&policy, child),
        (true, true) => keeper_of_domain(&policy, child),
        (false, _) => {
            become_user(&policy)?;
            restrict(&policy)?;
            Err(child.exec())
        }
    }
}

fn has_keeper(policy: &Policy) -> bool {
    policy.has(Layer::Namespaces) || policy.has(Layer::Landlock) && scopes_signals()
}

/// Makes the namespaces, where they are asked for, and stays outside as the child that the gate knows.
fn outside(policy: Policy, command: &[String]) -> io::Result<i32> {
    let (uid, gid) = (Uid::effective(), Gid::effective());
    if policy.has(Layer::Namespaces) {
        // System V's shared memory, semaphores and queues would outlive the session, for others to find.
        let apart = CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWPID | CloneFlags::CLONE_NEWIPC;
        unshare(CloneFlags::CLONE_NEWUSER | apart)?;
        // Root in there, so that the next process may mount.
        map_ids("0", &uid.to_string(), "0", &gid.to_string())?;
    }
    let inside = Policy {
        is_keeper: true,
        ..policy
    };
    let words = inside.wrap(command);
    let ids = format!("{uid}:{gid}");
    let mut child = Command::new(&words[0])
        .args(&words[1..])
        .env(IDS, ids)
        .stdin(Stdio::piped())
        .spawn()?;
    // Held until the end: see `is_abandoned`.
    let _alive = child.stdin.take();
    // Ends with the command, not by what its group is told. Not earlier: a child inherits the mask.
    SigSet::all().thread_block()?;
    end_like(child.wait()?)
}

/// True if the process outside, which holds the other end of this one's standard input, has ended. A parent that ends
/// before `PR_SET_PDEATHSIG` is set sends no signal, so this is asked after it.
fn is_abandoned() -> io::Result<bool> {
    let stdin = io::stdin();
    let mut ends = [PollFd::new(stdin.as_fd(), PollFlags::empty())];
    poll(&mut ends, PollTimeout::ZERO)?;
    Ok(ends[0].revents() != Some(PollFlags::empty()))
}

/// Carries the ids outside of the user namespace to the process within.
const IDS: &str = "INFERGATE_SANDBOX_IDS";

nix::ioctl_none_bad!(give_up_terminal, nix::libc::TIOCNOTTY);

/// Leaves the terminal and the gate's process group, whose signals are not for the keeper in a pid namespace.
///
/// Under both layers it stays in the gate's session: Linux divides processors among sessions (sched(7), "The autogroup feature"),
/// and beside other work an engine in another session is scheduled apart from its client, which makes launches differ
/// (docs/performance.md). Under one layer it takes a session of its own. Without a pid namespace a process could join the gate's
/// group and leave it orphaned, for which the kernel hangs that group up (setpgid(2), `_exit(2)`); without Landlock it could
/// change the priority that the session shares (/proc/self/autogroup).
fn step_aside(policy: &Policy) -> io::Result<()> {
    if !policy.has(Layer::Landlock) {
        return Ok(setsid().map(drop)?);
    }
    match File::open("/dev/tty") {
        Ok(terminal) => {
            #[expect(unsafe_code, reason = "the request has no argument")]
            // SAFETY: TIOCNOTTY reads and writes no memory (ioctl_tty(2)).
            unsafe { give_up_terminal(terminal.as_raw_fd()) }?;
        }
        Err(error) if error.raw_os_error() == Some(Errno::ENXIO as i32) => {}
        // Perhaps there is a terminal: a session of its own has none.
        Err(_) => return Ok(setsid().map(drop)?),
    }
    let myself = Pid::from_raw(0);
    Ok(setpgid(myself, myself)?)
}

/// The keeper that is the first process of a pid namespace.
fn first_of_namespace(policy: &Policy, mut child: Command) -> io::Result<i32> {
    // Signals without a handler do not reach the first process of a pid namespace.
    step_aside(policy)?;
    let folder = env::current_dir()?;
    mounts::arrange(policy)?;
    // Until now it was a folder of the mounts below, which are read-only: what a build makes there by a relative path.
    env::set_current_dir(folder)?;
    // A second user namespace: it cannot undo the mounts of the first, and its user has the id that it had outside.
    let ids = env::var(IDS).unwrap_or_default();
    let (uid, gid) = ids.split_once(':').unwrap_or(("0", "0"));
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS)?;
    map_ids(uid, "0", gid, "0")?;
    // Set after the ids, which clear it.
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    if is_abandoned()? {
        return Ok(1);
    }
    restrict(policy)?;
    let child = child.env_remove(IDS).stdin(Stdio::null()).spawn()?;
    let pid = Pid::from_raw(child.id().cast_signed());
    loop {
        if let Some(code) = code_of(pid, wait()?) {
            return Ok(code);
        }
    }
}

/// The keeper of a Landlock domain.
fn keeper_of_domain(policy: &Policy, mut child: Command) -> io::Result<i32> {
    // Sent by the kernel when the process outside ends.
    const ABANDONED: Signal = Signal::SIGUSR1;
    let outside = getppid();
    setsid()?;
    prctl::set_child_subreaper(true)?;
    become_user(policy)?;
    restrict(policy)?;
    // A kill(-1) that reached further would end everything of the user's.
    let answer = kill(outside, None);
    if is_abandoned()? {
        return Ok(1);
    }
    if answer != Err(Errno::EPERM) {
        return Err(io::Error::other(
            "Landlock lets a signal out of the sandbox",
        ));
    }
    let scoped = |child: &mut Command| {
        SigSet::all().thread_unblock()?;
        let own = Ruleset::default().scope(Scope::Signal);
        let own = own.and_then(Ruleset::create);
        own.and_then(|rules| rules.restrict_self())
            .map_err(io::Error::other)?;
        child.env_remove(IDS).stdin(Stdio::null()).spawn()
    };
    SigSet::all().thread_block()?;
    // A domain is a thread's, and a child has that of the thread that starts it.
    let spawned = thread::scope(|scope| scope.spawn(|| scoped(&mut child)).join());
    let child = spawned.unwrap_or_else(|_| Err(io::Error::other("a thread panicked")))?;
    let pid = Pid::from_raw(child.id().cast_signed());
    prctl::set_pdeathsig(ABANDONED)?;
    let mut woken_by = SigSet::empty();
    woken_by.add(Signal::SIGCHLD);
    woken_by.add(ABANDONED);
    let everyone = Pid::from_raw(-1);
    let mut code = None;
    loop {
        if code.is_some() || is_abandoned()? {
            let _ = kill(everyone, Signal::SIGKILL);
        }
        match waitpid(everyone, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) => {
                woken_by.wait()?;
            }
            Ok(ended) => code = code.or(code_of(pid, ended)),
            Err(Errno::ECHILD) => return Ok(code.unwrap_or(1)),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Exit code of the process `pid`, if it is the one that ended.
fn code_of(pid: Pid, status: WaitStatus) -> Option<i32> {
    match status {
        WaitStatus::Exited(ended, code) if ended == pid => Some(code),
        WaitStatus::Signaled(ended, signal, _) if ended == pid => Some(BY_SIGNAL + signal as i32),
        _ => None,
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

/// Another user's rights, where the policy names one.
fn become_user(policy: &Policy) -> io::Result<()> {
    let Some(name) = &policy.user else {
        return Ok(());
    };
    let name = name.as_str();
    let unknown = || io::Error::other(format!("there is no user {name}"));
    let user = User::from_name(name)?.ok_or_else(unknown)?;
    initgroups(&CString::new(name)?, user.gid)?;
    setgid(user.gid)?;
    setuid(user.uid)?;
    prctl::set_no_new_privs()?;
    Ok(())
}

/// True if the kernel can keep a process from signalling those outside of its domain.
fn scopes_signals() -> bool {
    let asked = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    asked.scope(Scope::Signal).is_ok()
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
