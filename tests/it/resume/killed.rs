//! A session that is killed, twice: nothing that was finished is lost or measured again.

use super::{DEADLINE, cut_off, json, judge, launches, shorten, start};
use crate::judge::interleaved;
use client::SessionClock;
use fixture::Project;
use infergate::session::checkpoint::Checkpoints;
use infergate::session::results::read_record;
use nix::sys::signal::Signal;
use serde_json::Value;
use std::fs;
use std::time::Duration;

/// The launches that stand in files of their own.
fn kept(project: &Project) -> Vec<Value> {
    let mut names: Vec<String> = fs::read_dir(project.path("result/launches"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".json") && !name.contains("partial"))
        .collect();
    names.sort();
    names
        .iter()
        .map(|name| json(project, &format!("result/launches/{name}"))["launch"].clone())
        .collect()
}

#[test]
fn a_killed_session_goes_on_where_it_was() {
    let project = Project::without_build();
    shorten(&project);

    // Cut in the middle of a block.
    cut_off(
        &project,
        start(&project, &["--seed", "7"]),
        0,
        Signal::SIGKILL,
    );
    let first = kept(&project);
    assert!(!first.is_empty());
    assert_eq!(
        launches(&json(&project, "result/run.json")),
        [] as [Value; 0]
    );
    judge(&project, "; cut off before its end");

    let resume = start(&project, &["--resume", "result"]);
    let second = cut_off(&project, resume, 3, Signal::SIGKILL);
    assert!(
        second.stderr.contains("resuming after "),
        "{}",
        second.stderr
    );
    let between = json(&project, "result/run.json");
    assert_eq!(launches(&between), first);
    let later = kept(&project);
    assert_eq!(between["ending"]["why"], "unfinished");

    let ended = project.run(&["check", "--resume", "result"]);
    let judged = judge(&project, "8 launches");
    assert_eq!(ended.code, judged.code, "{ended:?}");
    assert!(!project.path("result/launches").exists());

    let record = json(&project, "result/run.json");
    assert_eq!(record["seed"], 7);
    assert_ne!(record["ending"]["why"], "unfinished");
    let all = launches(&record);
    assert_eq!(all[..first.len()], first);
    assert_eq!(all[first.len()..][..later.len()], later);
    let place = |l: &Value| (l["position"].as_u64(), l["block"].as_u64());
    let places: Vec<_> = all.iter().map(place).collect();
    let expect: Vec<_> = (0..8).map(|i| (Some(i), Some(i / 2))).collect();
    assert_eq!(places, expect);
    for block in all.chunks(2) {
        assert_ne!(block[0]["arm"], block[1]["arm"]);
    }
    // One clock for the whole session.
    let spawned = |l: &Value| l["startup"]["spawn_ns"].as_u64().unwrap();
    assert!(all.is_sorted_by_key(spawned));
    assert_eq!(project.leftovers(), [0; 0]);
}

#[test]
fn launches_hold_what_was_read_beside_them() {
    let project = Project::without_build();
    shorten(&project);
    let record = super::interrupt(&project, 0);
    let launch = &launches(&record)[0];
    let telemetry = &launch["telemetry"];
    assert_eq!(telemetry["every_ms"], 250);
    let readings = telemetry["readings"].as_array().unwrap();
    assert!(readings.len() >= 2, "{telemetry}");
    for reading in readings {
        assert!(reading["rss_bytes"].as_u64().unwrap() > 0, "{reading}");
        for name in ["kv_bytes", "kv_usage", "running", "waiting", "preemptions"] {
            assert!(reading["engine"][name].is_number(), "{name} in {reading}");
        }
    }
    let last = &readings[readings.len() - 1];
    assert!(
        last["engine"]["prefix_queries"].as_f64().unwrap() > 0.0,
        "{last}"
    );
    assert_eq!(launches(&record)[0]["clients"].as_array().unwrap().len(), 1);
}

/// A launch whose partner was cut off is measured again, and the record still holds its first measurement.
#[test]
fn a_launch_of_its_own_file_is_newer_than_the_record() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let launches = fixture::records::tpot_blocks(1, 0.0, 0.003);
    let record = interleaved(launches[..1].to_vec());
    let run = serde_json::to_string(&record).unwrap();
    std::fs::write(directory.join("run.json"), run).unwrap();
    let again = [0, 1].map(|position: usize| {
        let mut launch = launches[position].clone();
        launch.log = format!("the second engine of {position}");
        launch
    });
    let clock = SessionClock::resume(Duration::ZERO);
    let kept = Checkpoints::open(directory, DEADLINE, clock).unwrap();
    for launch in &again {
        kept.begin(launch);
        kept.finish(launch).unwrap();
    }
    let read = read_record(directory).unwrap();
    assert_eq!(read.launches, again);
}
