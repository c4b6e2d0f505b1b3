//! Values become what a session measures; what is wrong with a file is named with its line.

use super::*;
use verdict::record::{Arm, Phase, RunRecord};

const MANIFEST: &str = r#"{"format": "gate-replay/1", "cases": ["a"], "gate": {"margin": 0.01,
    "ceiling": 0.03, "alpha": 0.02, "beta": 0.05, "looks": [4, 6], "warmup_requests": 1}}"#;
const LAUNCHES: &str =
    "launch,block,arm,fingerprint,throttle_bits,exit\n0,0,pr,m,4,0\n1,0,main,m,0,139\n";
const SAMPLES: &str = "{\"launch\":0,\"metrics\":{\"tpot_us\":[90,20,null,-5]}}\n\
    {\"launch\":1,\"metrics\":{\"kv_bytes\":[7,8]}}\n";
const HISTORY: &str =
    "session,launch,fingerprint,tpot_us_median\n0,0,m,20.0\n0,1,m,21.0\n1,0,m,22.0\n";

fn read(launches: &str, samples: &str, history: &str) -> Result<RunRecord, ReplayError> {
    let files = CaseFiles {
        launches,
        samples,
        history,
        noise: None,
    };
    case(&manifest(MANIFEST).unwrap(), &files)
}

#[test]
fn values_become_what_a_session_measures() {
    let record = read(LAUNCHES, SAMPLES, HISTORY).unwrap();
    let [head, base] = &record.launches[..] else {
        panic!("two launches");
    };
    assert_eq!((head.arm, base.arm), (Arm::Head, Arm::Base));
    assert_eq!((head.throttle_bits, head.exit.is_clean()), (Some(4), true));
    assert!(!base.exit.is_clean());
    let events: Vec<_> = head
        .samples
        .iter()
        .map(|s| &s.stamps.events_ns[..])
        .collect();
    assert_eq!(events, [[0, 90_000], [0, 20_000], [0, 0], [5_000, 0]]);
    let phases = head.samples.iter().filter(|s| s.phase == Phase::Warmup);
    assert_eq!(phases.count(), 1);
    assert_eq!(head.samples[2].tokens.completion, None);
    let gauge = &base.telemetry.as_ref().unwrap().readings;
    let gauge: Vec<_> = gauge.iter().filter_map(|r| r.engine.kv_bytes).collect();
    assert_eq!(gauge, [7.0, 8.0]);
    let stored: Vec<_> = record
        .stored
        .iter()
        .map(|s| &s.values["replay/tpot"][..])
        .collect();
    assert_eq!(stored, [&[0.02, 0.021][..], &[0.022]]);
}

#[test]
fn what_is_wrong_is_named_with_its_line() {
    let check = |launches: &str, samples: &str, history: &str, place: &str, cause: &str| {
        let error = read(launches, samples, history).unwrap_err().to_string();
        assert!(error.starts_with(place) && error.contains(cause), "{error}");
    };
    let edit = |text: &str, from: &str, to: &str| text.replacen(from, to, 1);
    let launches = |from, to| edit(LAUNCHES, from, to);
    check(
        &launches(",pr,", ",head,"),
        SAMPLES,
        HISTORY,
        "launches.csv:2: ",
        "`pr` and `main`",
    );
    check(
        &launches("1,0,main", "1,x,main"),
        SAMPLES,
        HISTORY,
        "launches.csv:3: ",
        "block",
    );
    check(
        &launches("1,0,main", "0,0,main"),
        SAMPLES,
        HISTORY,
        "launches.csv:3: ",
        "order",
    );
    check(
        &launches(",139", ""),
        SAMPLES,
        HISTORY,
        "launches.csv:3: ",
        "5 fields",
    );
    check(
        &launches("arm,", "side,"),
        SAMPLES,
        HISTORY,
        "launches.csv:1: ",
        "`arm`",
    );
    check("", SAMPLES, HISTORY, "launches.csv: ", "empty");
    check(
        &launches("\n1,0,main,m,0,139", ""),
        SAMPLES,
        HISTORY,
        "launches.csv: ",
        "1 launches",
    );
    let samples = |from, to| edit(SAMPLES, from, to);
    check(
        LAUNCHES,
        &samples("20,", "20"),
        HISTORY,
        "samples.jsonl:1: ",
        "expected",
    );
    check(
        LAUNCHES,
        &samples("kv_bytes", "ttft"),
        HISTORY,
        "samples.jsonl:2: ",
        "ttft",
    );
    check(
        LAUNCHES,
        &samples(":1,", ":0,"),
        HISTORY,
        "samples.jsonl:2: ",
        "launch 0",
    );
    check(
        LAUNCHES,
        &samples(":1,", ":2,"),
        HISTORY,
        "launches.csv:3: ",
        "no line",
    );
    check(
        LAUNCHES,
        SAMPLES,
        &edit(HISTORY, "21.0", "fast"),
        "history.csv:3: ",
        "fast",
    );
}

#[test]
fn a_manifest_of_another_format_is_refused() {
    let check = |from: &str, to: &str, part: &str| {
        let error = manifest(&MANIFEST.replacen(from, to, 1)).unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
    };
    check("replay/1", "replay/2", "gate-replay/2");
    check("\"a\"", "\"../a\"", "no name");
    check(
        "margin",
        "margins",
        "manifest.json:2: missing field `margin`",
    );
}
