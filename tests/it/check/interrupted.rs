//! Ways out in the middle: signals, a full disk, a second session.

use fixture::{Ended, Project};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, mkfifo};
use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const DEADLINE: Duration = Duration::from_secs(60);

/// The kernel's flag for opening a pipe without waiting for its other end.
const O_NONBLOCK: i32 = nix::fcntl::OFlag::O_NONBLOCK.bits();

/// Starts a check that will not end by itself soon.
fn start(project: &Project) -> Child {
    project
        .command(&[
            "check",
            "--profile",
            "full",
            "--gate",
            "tpot",
            "--out",
            "result",
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Waits until a launch is kept: the session is then in its second one or later.
fn await_first_launch(project: &Project) {
    let begun = Instant::now();
    while !project.path("result/launches/000.json").exists() {
        assert!(begun.elapsed() < DEADLINE, "no launch was recorded");
        std::thread::sleep(fixture::TICK);
    }
}

#[test]
fn a_signal_ends_the_session_and_keeps_what_was_measured() {
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let project = Project::without_build();
        let child = start(&project);
        await_first_launch(&project);
        kill(Pid::from_raw(child.id() as i32), signal).unwrap();
        let ended = Ended::of(&child.wait_with_output().unwrap()).expect(130);
        assert!(ended.stdout.contains("interrupted"), "{}", ended.stdout);
        assert_eq!(project.leftovers(), [0; 0]);
        project.run(&["report", "result"]).expect(3);
    }
}

/// Where a program that a dead session started still holds the lock, nobody must sit the wait for it out.
#[test]
fn a_signal_ends_the_wait_for_what_a_dead_session_left() {
    let project = Project::without_build();
    let mut dead = Command::new("true").spawn().unwrap();
    dead.wait().unwrap();
    fs::create_dir(project.path(".gate")).unwrap();
    project.write(".gate/lock", &dead.id().to_string());
    let left = fs::File::open(project.path(".gate/lock")).unwrap();
    left.try_lock().unwrap();
    let child = start(&project);
    let begun = Instant::now();
    // It is written right before the lock is asked for, and signals are heard before that.
    while !project.path(".gate/.gitignore").exists() {
        assert!(begun.elapsed() < DEADLINE, "the session did not begin");
        std::thread::sleep(fixture::TICK);
    }
    kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM).unwrap();
    let ended = Ended::of(&child.wait_with_output().unwrap()).expect(130);
    ended.says(&["interrupted before anything was measured"]);
    drop(left);
}

#[test]
fn a_recording_that_is_cut_short_is_not_stored() {
    let project = Project::without_build();
    let record = ["baseline", "record", "--profile", "full", "--gate", "tpot"];
    let mut command = project.command(&[&record[..], &["--out", "result"]].concat());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    await_first_launch(&project);
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
    let ended = Ended::of(&child.wait_with_output().unwrap()).expect(130);
    ended.says(&["not stored"]);
    let list = project.run(&["baseline", "list"]).expect(0).stdout;
    assert!(list.contains("nothing is stored yet"), "{list}");
    assert_eq!(project.leftovers(), [0; 0]);
}

#[test]
fn a_second_session_is_refused_while_one_measures() {
    let project = Project::without_build();
    let child = start(&project);
    await_first_launch(&project);
    let pid = child.id().to_string();
    project
        .run(&["check"])
        .expect(5)
        .says(&["another session is measuring", &pid]);
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
    child.wait_with_output().unwrap();
}

/// Writes into a pipe until more was read of it than it holds.
fn feed(pipe: &mut fs::File) {
    let (begun, mut written) = (Instant::now(), 0);
    while written < 4 << 20 {
        assert!(begun.elapsed() < DEADLINE, "nobody reads");
        // Where it is full, or nobody has it open, there is nothing to do but to try again.
        match pipe.write(&[7; 4096]) {
            Ok(bytes) => written += bytes,
            Err(_) => std::thread::sleep(fixture::TICK),
        }
    }
}

#[test]
fn a_signal_is_heard_while_files_are_read() {
    let project = Project::without_build();
    // A file that ends only when its writer is gone, which is this test.
    let weights = project.path("weights");
    mkfifo(&weights, Mode::S_IRWXU).unwrap();
    let files = format!("files = [{:?}]", env!("CARGO_BIN_EXE_gate"));
    project.edit("gates/gate.toml", &files, "files = [\"weights\"]");
    let warm = "page_cache = \"warm\"\n[workload.decode]";
    project.edit("gates/tpot.toml", "[workload.decode]", warm);
    let mut child = start(&project);
    let begun = Instant::now();
    let mut pipe = loop {
        assert!(begun.elapsed() < DEADLINE, "nobody opened the file");
        let mut writing = fs::File::options();
        match writing.write(true).custom_flags(O_NONBLOCK).open(&weights) {
            Ok(pipe) => break pipe,
            Err(_) => std::thread::sleep(fixture::TICK),
        }
    };
    feed(&mut pipe);
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
    let begun = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if begun.elapsed() > DEADLINE {
            child.kill().unwrap();
        }
        std::thread::sleep(fixture::TICK);
    }
    drop(pipe);
    Ended::of(&child.wait_with_output().unwrap()).expect(130);
    assert_eq!(project.leftovers(), [0; 0]);
}

#[test]
fn a_full_disk_ends_with_its_name_and_leaves_nothing_running() {
    let project = Project::without_build();
    let disk = project.path("disk");
    fs::create_dir(&disk).unwrap();
    let size = Some("size=128k");
    if let Err(error) = mount(Some("tmpfs"), &disk, Some("tmpfs"), MsFlags::empty(), size) {
        return fixture::skip::skip(&format!("a small tmpfs cannot be mounted: {error}"));
    }
    let ended = project.run(&["check", "--gate", "tpot", "--out", "disk/result"]);
    umount2(&disk, MntFlags::MNT_DETACH).unwrap();
    ended
        .expect(5)
        .says(&["cannot write", "disk/result", "the disk is full"]);
    assert_eq!(project.leftovers(), [0; 0]);
}
