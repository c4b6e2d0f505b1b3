//! `interleave = "requests"`: the engines of a block run at the same time, and never answer both at once.

use fixture::Project;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;

fn short() -> Project {
    let project = Project::without_build();
    project.shorten();
    project.take_turns();
    project
}

/// A request, from its sending to its end, and its launch's arm.
type Flight = (u64, u64, String);

fn launches(project: &Project) -> Vec<Value> {
    let record: Value = serde_json::from_str(&project.read("result/run.json")).unwrap();
    record["launches"].as_array().unwrap().clone()
}

/// All requests of this workload by block, in the order of their sending.
fn flights(launches: &[Value], workload: &str) -> BTreeMap<u64, Vec<Flight>> {
    let mut blocks: BTreeMap<u64, Vec<Flight>> = BTreeMap::new();
    for launch in launches {
        let samples = launch["samples"].as_array().unwrap().iter();
        for sample in samples.filter(|sample| sample["workload"] == workload) {
            let stamp = |name: &str| sample["stamps"][name].as_u64().unwrap();
            let flight = (
                stamp("send_ns"),
                stamp("done_ns"),
                launch["arm"].as_str().unwrap().to_owned(),
            );
            let block = launch["block"].as_u64().unwrap();
            blocks.entry(block).or_default().push(flight);
        }
    }
    blocks.values_mut().for_each(|flights| flights.sort());
    blocks
}

#[test]
fn engines_of_a_block_answer_in_turn() {
    let project = short();
    let gates = [
        "check",
        "--same-build",
        "--gate",
        "tpot",
        "--gate",
        "prefill-drift",
        "--gate",
        "cold-start",
        "--out",
        "result",
    ];
    project.run(&gates);
    let launches = launches(&project);
    let (by_turns, alone): (Vec<Value>, Vec<Value>) = launches
        .into_iter()
        .partition(|launch| launch["interleave"] == "requests");
    for workload in ["tpot/decode", "prefill-drift/session"] {
        let blocks = flights(&by_turns, workload);
        assert!(!blocks.is_empty(), "{workload}");
        for flights in blocks.values() {
            // One client may ask for its first turns before the other one has made its prompts.
            let begun = flights.iter().position(|(.., arm)| *arm != flights[0].2);
            let begun = begun.expect("both arms send");
            assert!(begun <= 4, "{workload}: the other arm is late: {flights:?}");
            for (n, pair) in flights.windows(2).enumerate() {
                let [(_, done, first), (send, _, second)] = pair else {
                    unreachable!()
                };
                assert!(send >= done, "{workload}: two requests at once");
                // And then has its last ones to itself.
                let is_over = flights[n..].iter().all(|(.., arm)| arm == second);
                assert!(
                    first != second || n + 1 < begun || is_over,
                    "{workload}: no turn was passed on: {flights:?}"
                );
            }
        }
    }
    // What an engine takes to start is measured with the machine to itself.
    let is_start = |sample: &Value| sample["workload"] == "cold-start/first";
    let samples = |launch: &Value| launch["samples"].as_array().unwrap().clone();
    let of_starts = |launch: &Value| samples(launch).iter().all(is_start);
    assert!(
        !by_turns
            .iter()
            .any(|launch| samples(launch).iter().any(is_start))
    );
    assert!(!alone.is_empty() && alone.iter().all(of_starts));
    assert_eq!(project.leftovers(), [0; 0]);
}

#[test]
fn a_machine_without_room_for_two_is_told_what_helps() {
    let project = short();
    project.wrap_engine("exec 9>lock; flock -n 9 || { echo no room >&2; exit 1; }; exec \"$@\"");
    let check = ["check", "--same-build", "--gate", "tpot", "--out", "result"];
    project.run(&check).expect(5).says(&[
        "engine starts alone, and not beside the other arm's",
        "Leave `interleave` out of gates/gate.toml",
        "no room",
    ]);
    assert_eq!(project.leftovers(), [0; 0]);
    project.edit("gates/gate.toml", "interleave = \"requests\"", "");
    fs::remove_dir_all(project.path("result")).unwrap();
    let ended = project.run(&check);
    assert!(matches!(ended.code, Some(0 | 3 | 4)), "{ended:?}");
    assert!(
        launches(&project)
            .iter()
            .all(|launch| launch["interleave"].is_null())
    );
}

/// What slows base in its turns would hide that head is slower.
#[test]
fn an_engine_that_works_out_of_turn_decides_nothing() {
    let project = short();
    project.wrap_engine("(while :; do :; done) & exec \"$@\"");
    let check = [
        "check",
        "--same-build",
        "--gate",
        "tpot",
        "--format",
        "json",
    ];
    let verdict = project.run(&check).expect(4).json();
    let check = &verdict["gates"][0]["checks"][0];
    assert_eq!(check["rule"], "busy-beside", "{check}");
    assert_eq!(project.leftovers(), [0; 0]);
}
