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
use nix::fcntl::OFlag;
use nix::libc::{WNOHANG, waitpid};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal, kill, raise};
use nix::unistd::{
    ForkResult, Gid, Pid, Uid, User, fork, getppid, initgroups, pipe2, setgid, setpgid, setsid,
    setuid,
};
use std::env;
use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use verdict::record::Layer;

/// The newest rights that this program knows; an older kernel keeps those that it knows.
const RIGHTS: ABI = ABI::V9;

/// Offset of a signal's number in a shell's exit code.
const BY_SIGNAL: i32 = 128;

/// Starts `command` under the policy, and returns its exit code. Forks a keeper where it can, so it may return in two
/// processes: both have nothing left to do.
///
/// # Errors
/// A layer that the policy names could not be put in force, or the command cannot be started.
pub fn enter(policy: &Policy, command: &[String]) -> io::Result<i32> {
    let Some(program) = command.first() else {
        return Err(io::Error::other("no command"));
    };
    let mut child = Command::new(program);
    child.args(&command[1..]).stdin(Stdio::null());
    if has_keeper(policy) {
        return outside(policy, child);
    }
    become_user(policy)?;
    restrict(policy)?;
    Err(child.exec())
}

fn has_keeper(policy: &Policy) -> bool {
    policy.has(Layer::Namespaces) || policy.has(Layer::Landlock) && scopes_signals()
}

/// Makes the namespaces, where they are asked for, and stays outside as the child that the gate knows.
fn outside(policy: &Policy, command: Command) -> io::Result<i32> {
    let ids = (Uid::effective(), Gid::effective());
    if policy.has(Layer::Namespaces) {
        // System V's shared memory, semaphores and queues would outlive the session, for others to find.
        let apart = CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWPID | CloneFlags::CLONE_NEWIPC;
        unshare(CloneFlags::CLONE_NEWUSER | apart)?;
        // Root in there, so that the next process may mount.
        map_ids(ROOT, ids)?;
    }
    let (alive, held) = pipe2(OFlag::O_CLOEXEC)?;
    #[expect(unsafe_code, reason = "this process has one thread")]
    // SAFETY: no other thread can hold a lock that the child waits for.
    let forked = unsafe { fork() }?;
    match forked {
        ForkResult::Parent { child } => {
            drop(alive);
            // A signal to its group does not end it: the command's end does.
            SigSet::all().thread_block()?;
            let (_, status) = wait_for(child, 0)?;
            drop(held);
            end_like(code_of(status))
        }
        ForkResult::Child => {
            drop(held);
            let outside = Outside { ids, alive };
            match policy.has(Layer::Namespaces) {
                true => first_of_namespace(policy, command, &outside),
                false => keeper_of_domain(policy, command, &outside),
            }
        }
    }
}

/// The process outside, as the keeper sees it.
struct Outside {
    ids: (Uid, Gid),
    /// A pipe's end that is read; the process outside holds the other one as long as it lives.
    alive: OwnedFd,
}

impl Outside {
    /// True if it has ended. A parent that ends before `PR_SET_PDEATHSIG` is set sends no signal, so this is asked
    /// after it.
    fn is_gone(&self) -> io::Result<bool> {
        let mut ends = [PollFd::new(self.alive.as_fd(), PollFlags::empty())];
        poll(&mut ends, PollTimeout::ZERO)?;
        Ok(ends[0].revents() != Some(PollFlags::empty()))
    }
}

/// For waitpid(2) and kill(2).
const EVERYONE: Pid = Pid::from_raw(-1);
/// waitpid(2) returns it if no child has ended.
const NOBODY: Pid = Pid::from_raw(0);

/// The user and group that a new namespace begins with.
const ROOT: (Uid, Gid) = (Uid::from_raw(0), Gid::from_raw(0));

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
fn first_of_namespace(policy: &Policy, mut child: Command, outside: &Outside) -> io::Result<i32> {
    // Signals without a handler do not reach the first process of a pid namespace.
    step_aside(policy)?;
    let folder = env::current_dir()?;
    mounts::arrange(policy)?;
    // Until now it was a folder of the mounts below, which are read-only: what a build makes there by a relative path.
    env::set_current_dir(folder)?;
    // A second user namespace: it cannot undo the mounts of the first, and its user has the id that it had outside.
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS)?;
    map_ids(outside.ids, ROOT)?;
    // Set after the ids, which clear it.
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    if outside.is_gone()? {
        return Ok(1);
    }
    restrict(policy)?;
    let child = child.spawn()?;
    let pid = Pid::from_raw(child.id().cast_signed());
    loop {
        let (ended, status) = wait_for(EVERYONE, 0)?;
        if ended == pid {
            return Ok(code_of(status));
        }
    }
}

/// The keeper of a Landlock domain.
fn keeper_of_domain(policy: &Policy, mut child: Command, outside: &Outside) -> io::Result<i32> {
    // Sent by the kernel when the process outside ends.
    const ABANDONED: Signal = Signal::SIGUSR1;
    let parent = getppid();
    setsid()?;
    prctl::set_child_subreaper(true)?;
    become_user(policy)?;
    restrict(policy)?;
    // A kill(-1) that reached further would end everything of the user's.
    let answer = kill(parent, None);
    if outside.is_gone()? {
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
        child.spawn()
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
    let mut code = None;
    loop {
        if code.is_some() || outside.is_gone()? {
            let _ = kill(EVERYONE, Signal::SIGKILL);
        }
        match wait_for(EVERYONE, WNOHANG) {
            Ok((NOBODY, _)) => {
                woken_by.wait()?;
            }
            Ok((ended, status)) => code = code.or((ended == pid).then(|| code_of(status))),
            Err(Errno::ECHILD) => return Ok(code.unwrap_or(1)),
            Err(error) => return Err(error.into()),
        }
    }
}

/// waitpid(2). nix's own refuses the status of a process that died by a real-time signal.
fn wait_for(pid: Pid, options: i32) -> nix::Result<(Pid, ExitStatus)> {
    let mut status = 0;
    #[expect(unsafe_code, reason = "a number is written")]
    // SAFETY: the pointer is that of a variable.
    let ended = Errno::result(unsafe { waitpid(pid.as_raw(), &raw mut status, options) })?;
    Ok((Pid::from_raw(ended), ExitStatus::from_raw(status)))
}

/// The exit code, as a shell gives it.
fn code_of(status: ExitStatus) -> i32 {
    let by_signal = status.signal().map(|signal| BY_SIGNAL + signal);
    status.code().or(by_signal).unwrap_or(1)
}

/// Maps one user and one group of the new namespace to those outside.
fn map_ids(inner: (Uid, Gid), outer: (Uid, Gid)) -> io::Result<()> {
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{} {} 1", inner.0, outer.0))?;
    fs::write("/proc/self/gid_map", format!("{} {} 1", inner.1, outer.1))
}

/// Ends as the command did: by its signal, or with its exit code.
fn end_like(code: i32) -> io::Result<i32> {
    let stops = [
        Signal::SIGSTOP,
        Signal::SIGTSTP,
        Signal::SIGTTIN,
        Signal::SIGTTOU,
    ];
    if let Ok(signal) = Signal::try_from(code - BY_SIGNAL)
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
