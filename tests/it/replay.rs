//! `gate dev replay`: stored sessions through the judge, case by case.
//!
//! The bars of docs/verdict.md are held on the set in the directory of INFERGATE_REPLAY_DIR (made by
//! `scripts/replay/gen.py`); without it that test is skipped.

use fixture::{Ended, gate};
use infergate::import::{self, CaseFiles, Manifest};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use verdict::judge::judge;
use verdict::plan::{Selection, from_inputs};
use verdict::record::{Decision, RunRecord};

/// A set of these cases, each a change of head against base in percent and how to spoil its launches.
struct Set(TempDir);

impl Set {
    fn of(cases: &[&str]) -> Self {
        let set = Self(tempfile::tempdir().unwrap());
        let manifest = json!({
            "format": "gate-replay/1",
            "cases": cases,
            "gate": {"margin": 0.01, "ceiling": 0.03, "alpha": 0.02, "beta": 0.05,
                     "looks": [4, 6, 8], "warmup_requests": 2, "max_blocks": 8},
            "metrics": {"tpot_us": {"kind": "latency", "better": "lower", "statistic": "median"},
                        "kv_bytes": {"kind": "counter", "better": "lower"}},
        });
        set.write("manifest.json", &manifest.to_string());
        set
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Eight blocks; what `values` says is measured in the launch of this arm and block.
    fn case(&self, name: &str, metric: &str, values: impl Fn(&str, u32) -> Vec<f64>) {
        let mut launches =
            "launch,block,pos,arm,t_start_s,fingerprint,throttle_bits,exit\n".to_owned();
        let mut samples = String::new();
        for launch in 0..16_u32 {
            let block = launch / 2;
            let arm = ["main", "pr"][((launch + block) % 2) as usize];
            launches += &format!("{launch},{block},{},{arm},0,machine,4,0\n", launch % 2);
            let values = values(arm, block);
            samples += &format!(
                "{}\n",
                json!({"launch": launch, "metrics": {metric: values}})
            );
        }
        self.write(&format!("cases/{name}/launches.csv"), &launches);
        self.write(&format!("cases/{name}/samples.jsonl"), &samples);
        let history =
            "session,launch,fingerprint,tpot_us_mean,tpot_us_median\n0,0,machine,20000,20000\n";
        self.write(&format!("cases/{name}/history.csv"), history);
    }

    fn latency(&self, name: &str, change: f64) {
        self.case(name, "tpot_us", |arm, block| {
            let shift = if arm == "pr" { 1.0 + change } else { 1.0 };
            let wobble = |n: u32| f64::from((n * 7) % 15) - 7.0;
            let launch = 1.0 + 4e-4 * wobble(block * 3 + u32::from(arm == "pr"));
            (0..42)
                .map(|i| (2e4 * shift * launch * (1.0 + 1e-3 * wobble(i))).round())
                .collect()
        });
    }

    fn replay(&self) -> Ended {
        replay(self.0.path())
    }
}

fn replay(directory: &Path) -> Ended {
    Ended::of(
        &gate(&["dev", "replay", directory.to_str().unwrap()])
            .output()
            .unwrap(),
    )
}

fn lines(ended: &Ended) -> Vec<Value> {
    let lines = ended.stdout.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn one_line_a_case_in_the_manifests_order() {
    let set = Set::of(&["slow", "same", "zero", "more", "moved"]);
    set.latency("slow", 0.05);
    set.latency("same", 0.0);
    set.latency("moved", 0.0);
    let launches = fs::read_to_string(set.path("cases/moved/launches.csv")).unwrap();
    let moved = launches.replace("15,7,1,main,0,machine", "15,7,1,main,0,another");
    assert_ne!(moved, launches);
    set.write("cases/moved/launches.csv", &moved);
    set.case("zero", "kv_bytes", |_, _| vec![0.0; 8]);
    set.case("more", "kv_bytes", |arm, _| {
        vec![if arm == "pr" { 103.0 } else { 100.0 }; 8]
    });
    let ended = set.replay().expect(0);
    let got: Vec<String> = lines(&ended)
        .iter()
        .map(|line| {
            let rule = line["reason"].as_str().unwrap().split(':').next().unwrap();
            let word = |key: &str| line[key].as_str().unwrap().to_owned();
            format!(
                "{} {} {} {rule}",
                word("case"),
                word("verdict"),
                line["launches"]
            )
        })
        .collect();
    assert_eq!(
        got,
        [
            "slow fail 12 regression",
            "same pass 8 regression",
            "zero invalid 2 vacuous",
            "more fail 8 regression",
            "moved invalid 2 fingerprint-changed",
        ]
    );
    let slow = &lines(&ended)[0];
    let number = |value: &Value| value.as_f64().unwrap();
    let (est, low, high) = (
        number(&slow["est"]),
        number(&slow["ci"][0]),
        number(&slow["ci"][1]),
    );
    assert!(
        low < 0.05 && 0.05 < high && (est - 0.05).abs() < 0.005,
        "{slow}"
    );
    assert!(lines(&ended)[4]["ci"].is_null());
}

/// One answer of ten is twice as slow in head: the median does not see it, p95 does.
#[test]
fn a_launch_is_reduced_as_the_manifest_says() {
    let set = Set::of(&["tail"]);
    set.case("tail", "tpot_us", |arm, block| {
        let launch = 1.0 + 1e-3 * f64::from((block * 7 + u32::from(arm == "pr") * 4) % 11);
        let slow = |i| arm == "pr" && i % 10 == 0;
        let value =
            |i| 2e4 * launch * (1.0 + 1e-3 * f64::from(i % 7)) * [1.0, 2.0][usize::from(slow(i))];
        (0..102).map(|i: u32| value(i).round()).collect()
    });
    let manifest = fs::read_to_string(set.path("manifest.json")).unwrap();
    let verdict = |declared: &str| {
        let edited = manifest.replace("\"statistic\":\"median\"", declared);
        assert!(edited.contains(declared));
        set.write("manifest.json", &edited);
        let ended = set.replay().expect(0);
        lines(&ended)[0]["verdict"].as_str().unwrap().to_owned()
    };
    for (declared, expect) in [
        ("\"statistic\":\"median\"", "pass"),
        ("\"statistic\":\"p95\"", "fail"),
        ("\"statistic\":\"p99\"", "fail"),
        ("\"slo\":\"1.5 ×\"", "fail"),
        ("\"slo\":\"2.5 ×\"", "pass"),
        ("\"slo\":\"30 ms\"", "fail"),
    ] {
        assert_eq!(verdict(declared), expect, "{declared}");
    }
}

#[test]
fn a_set_that_cannot_be_read_says_where_why_and_what_to_do() {
    let check = |name: &str, from: &str, to: &str, parts: &[&str]| {
        let set = Set::of(&["first", "second"]);
        set.latency("first", 0.0);
        set.latency("second", 0.0);
        let text = fs::read_to_string(set.path(name)).unwrap();
        assert!(text.contains(from), "`{from}` in {name}");
        set.write(name, &text.replacen(from, to, 1));
        let ended = set.replay().expect(2).says(parts);
        // What came before the place is judged.
        assert_eq!(lines(&ended).len(), usize::from(name.contains("second")));
    };
    check(
        "manifest.json",
        "gate-replay/1",
        "gate-replay/9",
        &["manifest.json: ", "\"gate-replay/1\" can be read"],
    );
    check(
        "manifest.json",
        "\"looks\":[4,6,8]",
        "\"looks\":[8,6]",
        &["manifest.json: ", "`looks` must be rising"],
    );
    check(
        "manifest.json",
        "\"statistic\":\"median\"",
        "\"statistic\":\"p90\"",
        &[
            "manifest.json: `metrics.tpot_us.statistic` is \"p90\"",
            "use one of median, mean, p95, p99, max",
        ],
    );
    check(
        "manifest.json",
        "\"statistic\":\"median\"",
        "\"statistic\":\"p99\",\"slo\":\"1.5 ×\"",
        &[
            "manifest.json: `metrics.tpot_us.slo`",
            "leave one of them out",
        ],
    );
    check(
        "manifest.json",
        "\"statistic\":\"median\"",
        "\"slo\":\"1 ×\"",
        &["manifest.json: ", "must be above 1 ×"],
    );
    check(
        "manifest.json",
        "\"second\"",
        "\"../x\"",
        &["manifest.json: ", "no name of a case's folder"],
    );
    let place = |file: &str| format!("cases/second/{file}");
    check(
        &place("launches.csv"),
        "3,1,1,main",
        "3,1,1,mian",
        &["second: launches.csv:5: ", "mian", "`pr` and `main`"],
    );
    check(
        &place("samples.jsonl"),
        "[",
        "[NaN,",
        &["second: samples.jsonl:1: ", "expected value"],
    );
    check(
        &place("history.csv"),
        "0,0,machine,20000,",
        "0,0,machine,",
        &["second: history.csv:2: ", "4 fields"],
    );
    let nowhere = Ended::of(&gate(&["dev", "replay", "nowhere"]).output().unwrap());
    nowhere
        .expect(2)
        .says(&["nowhere is no replay set", "manifest.json", "gen.py"]);
}

fn directory() -> Option<PathBuf> {
    let directory = std::env::var_os("INFERGATE_REPLAY_DIR").map(PathBuf::from);
    if directory.is_none() {
        fixture::skip::say("INFERGATE_REPLAY_DIR names no replay set");
    }
    directory
}

fn record(directory: &Path, manifest: &Manifest, case: &str) -> RunRecord {
    let read = |name| fs::read_to_string(directory.join("cases").join(case).join(name)).unwrap();
    let files = CaseFiles {
        launches: &read("launches.csv"),
        samples: &read("samples.jsonl"),
        history: &read("history.csv"),
        noise: None,
    };
    import::case(manifest, &files).unwrap()
}

/// A session judges after each of its blocks; judging the whole record afterwards must say the same, but
/// where the machine changed after the session's end.
#[test]
fn live_and_afterwards_agree() {
    let Some(directory) = directory() else { return };
    let text = fs::read_to_string(directory.join("manifest.json")).unwrap();
    let manifest = import::manifest(&text).unwrap();
    for case in &manifest.cases {
        let mut record = record(&directory, &manifest, case);
        let selection = Selection {
            profile: record.profile.clone(),
            gates: record.gates.clone(),
        };
        let plan = from_inputs(&record.inputs, &selection).unwrap();
        let whole = judge(&plan, &record);
        let all = std::mem::take(&mut record.launches);
        let live = all.chunks(2).find_map(|block| {
            record.launches.extend_from_slice(block);
            Some(judge(&plan, &record)).filter(|v| v.decision == Decision::Stop)
        });
        let changed = all.iter().any(|l| l.fingerprint != all[0].fingerprint);
        if let Some(live) = live.filter(|_| !changed) {
            assert_eq!(live, whole, "{case}");
        }
    }
}

/// Verdicts by suite, and those that the suite expects.
struct Graded(Vec<(String, Vec<String>, String)>);

impl Graded {
    fn share(&self, suites: &[&str], verdict: &str) -> f64 {
        let mine = self
            .0
            .iter()
            .filter(|(suite, ..)| suites.contains(&suite.as_str()));
        let (mut hits, mut all) = (0.0, 0.0);
        for (_, _, got) in mine {
            all += 1.0;
            hits += f64::from(u8::from(got == verdict));
        }
        hits / all
    }
}

#[test]
fn the_bars_hold() {
    let Some(directory) = directory() else { return };
    let verdicts = lines(&replay(&directory).expect(0));
    let truth = fs::read_to_string(directory.join("truth.jsonl")).unwrap();
    let word = |value: &Value| value.as_str().unwrap().to_owned();
    let graded = truth.lines().map(|line| {
        let truth: Value = serde_json::from_str(line).unwrap();
        let verdict = verdicts
            .iter()
            .find(|v| v["case"] == truth["case"])
            .unwrap();
        let expect = truth["expect"]
            .as_array()
            .unwrap()
            .iter()
            .map(word)
            .collect();
        (word(&truth["suite"]), expect, word(&verdict["verdict"]))
    });
    let graded = Graded(graded.collect());
    let nulls = ["null_quiet", "null_typical", "null_noisy"];
    let table: [(&str, bool); 7] = [
        ("fails at 0", graded.share(&nulls, "fail") <= 0.01),
        (
            "fails at 0 after a step",
            graded.share(&["envstep_null"], "fail") <= 0.0,
        ),
        (
            "fails at the margin",
            graded.share(&["reg1_typical"], "fail") <= 0.05,
        ),
        (
            "finds 3 %",
            graded.share(&["reg3_quiet", "reg3_typical"], "fail") >= 0.95,
        ),
        (
            "finds a hidden 3 %",
            graded.share(&["envmask_reg3"], "fail") >= 0.90,
        ),
        (
            "inconclusive at 0",
            graded.share(&nulls[..2], "inconclusive") <= 0.02,
        ),
        ("invalid and counters", special(&graded) >= 0.98),
    ];
    for (bar, holds) in table {
        assert!(holds, "{bar}");
    }
}

/// Share of the invalid and the counter suites that got what they expect.
fn special(graded: &Graded) -> f64 {
    let special = |suite: &str| suite.starts_with("inv_") || suite.starts_with("cnt_");
    let mine: Vec<_> = graded
        .0
        .iter()
        .filter(|(suite, ..)| special(suite))
        .collect();
    let right = mine
        .iter()
        .filter(|(_, expect, got)| expect.contains(got))
        .count();
    right as f64 / mine.len() as f64
}
