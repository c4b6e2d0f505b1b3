//! `gate history` through the binary, on stores that the tests write.

use fixture::random::Random;
use fixture::{Ended, Project, workflow};
use serde_json::{Value, json};
use std::fs;

/// A store of one gate's sessions, a night each, the newest last night.
pub(super) struct Store {
    pub(super) project: Project,
    random: Random,
    gate: &'static str,
    check: &'static str,
    nights: i64,
    written: i64,
}

/// What a session is beside its values.
#[derive(Clone)]
pub(super) struct Kind {
    fingerprint: &'static str,
    anchor: Option<&'static str>,
    profile: &'static str,
}

pub(super) const PLAIN: Kind = Kind {
    fingerprint: "Xeon 8480 | 16 cores | 128 GiB | 6.8.0 | NVIDIA H100 (driver 570.86)",
    anchor: Some("v0.3.0"),
    profile: "full",
};

impl Store {
    fn new(gate: &'static str, check: &'static str, nights: i64) -> Self {
        let project = Project::without_build();
        fs::create_dir_all(project.path(".gate/baseline/series")).unwrap();
        Self {
            project,
            random: Random(20_251),
            gate,
            check,
            nights,
            written: 0,
        }
    }

    pub(super) fn tpot(nights: i64) -> Self {
        Self::new("tpot", "tpot/regression", nights)
    }

    /// Sessions in which main costs `factor` times what the release does.
    pub(super) fn write(&mut self, count: i64, factor: f64, kind: &Kind) -> &mut Self {
        for _ in 0..count {
            let entry = self.entry(factor, kind);
            let path = format!(".gate/baseline/series/{:03}.json", self.written);
            self.project.write(&path, &entry.to_string());
            self.written += 1;
        }
        self
    }

    fn entry(&mut self, factor: f64, kind: &Kind) -> Value {
        let random = &mut self.random;
        let mut launches = |level: f64| -> Vec<f64> {
            (0..4)
                .map(|_| 20.0 * level * (0.007 * random.normal()).exp())
                .collect()
        };
        let night = self.written;
        let ago = jiff::SignedDuration::from_hours(24 * (self.nights - night));
        let created = jiff::Timestamp::now() - ago;
        let (main, release) = (launches(factor), launches(1.0));
        let mut entry = json!({
            "format": "infergate-baseline/2",
            "session": format!("night-{night:03}"),
            "created": created.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            "commit": format!("c0{night:010}aaaa"),
            "profile": kind.profile,
            "fingerprint": kind.fingerprint,
            "model": "tiny-qwen3",
            "gate": self.gate,
            "gate_hash": "abc",
            "engine": ["serve"],
            "values": { self.check: main },
        });
        if let Some(name) = kind.anchor {
            let values = json!({ self.check: release });
            entry["anchor"] =
                json!({ "name": name, "commit": "4f1c2d3e5a6b7c8d", "values": values });
        }
        entry
    }

    pub(super) fn history(&self, arguments: &[&str]) -> fixture::Ended {
        let profile = ["history", "--profile", "full", "--check", self.check];
        self.project.run(&[&profile, arguments].concat())
    }
}

#[track_caller]
pub(super) fn holds(text: &str, parts: &[&str]) {
    // Sentences are wrapped to the terminal's width.
    let flat = fixture::unwrapped(text);
    for part in parts {
        assert!(flat.contains(part), "`{part}` is missing in:\n{text}");
    }
    let widest = text.lines().map(|line| line.chars().count()).max();
    assert!(widest <= Some(80), "{widest:?} columns:\n{text}");
}

#[test]
fn the_workflow_shows_whatever_the_history_is() {
    let step = |store: &Store| {
        let mut command = store.project.command(&[]);
        command.env("GITHUB_STEP_SUMMARY", store.project.path("summary"));
        let mut step = workflow::step("baseline.yml", "How did main move?", &command);
        Ended::of(&step.output().unwrap())
    };
    // Too few sessions to say anything.
    let mut few = Store::tpot(3);
    few.write(3, 1.0, &PLAIN);
    assert_eq!(step(&few).expect(0).stdout, "");
    assert!(few.project.read("summary").contains("tpot/regression"));
    // An alarm.
    let mut worse = Store::tpot(30);
    worse.write(20, 1.0, &PLAIN).write(10, 1.05, &PLAIN);
    let ended = step(&worse).expect(0);
    assert!(ended.stdout.starts_with("::warning::"), "{}", ended.stdout);
    assert!(worse.project.read("summary").contains("v0.3.0"));
    // What could not be told fails.
    worse.project.write("gates/gate.toml", "[");
    step(&worse).expect(2);
}

#[test]
fn ten_steps_under_the_margin_are_told_with_their_commits() {
    let mut store = Store::tpot(110);
    for step in 0..11 {
        store.write(10, 1.009_f64.powi(step), &PLAIN);
    }
    let ended = store.history(&[]).expect(1);
    holds(
        &ended.stdout,
        &[
            "main over v0.3.0 (4f1c2d3e5a6b), 110 sessions",
            "CREEP: the last 10 sessions are 9.",
            "worse in c0",
            "main became worse: tpot/regression",
        ],
    );
    let json = store.history(&["--format", "json"]).expect(1).json();
    assert_eq!(json["format"], "infergate-history/1");
    assert_eq!(json["outcome"], "worse");
    let steps = json["checks"][0]["series"][0]["steps"].as_array().unwrap();
    assert!(steps.len() >= 4, "{steps:?}");
    for step in steps {
        let night = |key: &str| -> i64 { step[key].as_str().unwrap()[2..12].parse().unwrap() };
        let (from, to) = (night("from_commit"), night("to_commit"));
        // A commit after `from` up to `to` raised the cost: one of the nights 10, 20, … is among them.
        assert!((from + 1..=to).any(|night| night % 10 == 0), "{step}");
        assert_eq!(step["is_worse"], true);
    }
    let markdown = store.history(&["--format", "markdown"]).expect(1).stdout;
    assert!(markdown.starts_with("**WORSE**: "), "{markdown}");
}

#[test]
fn main_that_stands_still_is_quiet() {
    let mut store = Store::tpot(30);
    store.write(30, 1.0, &PLAIN);
    let ended = store.history(&[]).expect(0);
    holds(&ended.stdout, &["QUIET", "no creep", "trend"]);
}

#[test]
fn what_became_better_is_told_and_no_alarm() {
    let mut store = Store::tpot(30);
    store.write(15, 1.0, &PLAIN).write(15, 0.96, &PLAIN);
    let ended = store.history(&[]).expect(0);
    holds(&ended.stdout, &["better in c0"]);
}

#[test]
fn what_was_mended_is_told_and_no_alarm() {
    let mut store = Store::tpot(40);
    for factor in [1.0, 1.04, 1.0] {
        store.write(13, factor, &PLAIN);
    }
    let ended = store.history(&[]).expect(0);
    holds(&ended.stdout, &["worse in c0", "made good since"]);
}

#[test]
fn of_a_throughput_less_is_worse() {
    for (factor, code) in [(0.9, 1), (1.1, 0)] {
        let mut store = Store::new("throughput", "throughput/at-16", 30);
        store.write(15, 1.0, &PLAIN).write(15, factor, &PLAIN);
        store.history(&[]).expect(code);
    }
}

#[test]
fn too_few_too_old_or_no_sessions_are_no_verdict() {
    let empty = Store::tpot(0);
    let ended = empty.project.run(&["history"]).expect(3);
    holds(
        &ended.stdout,
        &["nothing is stored yet: `gate baseline record --profile quick` on main"],
    );
    // Only where commits are built is there one to launch beside main.
    let built = Project::with_commits().run(&["history"]).expect(3);
    holds(
        &built.stdout,
        &["nothing is stored yet: `gate baseline record --anchor RELEASE --profile quick` on main"],
    );
    let mut few = Store::tpot(5);
    few.write(5, 1.0, &PLAIN);
    let ended = few.history(&[]).expect(3);
    holds(
        &ended.stdout,
        &[
            "5 of the 10 sessions that creep is judged by",
            "UNKNOWN",
            "`gate baseline record --profile full --gate tpot` on main stores one more",
        ],
    );
    let mut old = Store::tpot(60);
    old.write(30, 1.0, &PLAIN);
    let ended = old.history(&[]).expect(3);
    holds(&ended.stdout, &["too old to say how main is today"]);
    // What is known to be worse stays so.
    old.write(12, 1.05, &PLAIN);
    old.history(&[]).expect(1);
}

#[test]
fn another_machine_begins_a_new_series_and_says_what_changed() {
    let raw = Kind {
        anchor: None,
        ..PLAIN
    };
    let newer = Kind {
        fingerprint: "Xeon 8480 | 16 cores | 128 GiB | 6.8.0 | NVIDIA H100 (driver 580.12)",
        ..raw.clone()
    };
    let mut store = Store::tpot(40);
    store.write(12, 1.0, &raw).write(12, 1.04, &newer);
    let ended = store.history(&[]).expect(3);
    holds(
        &ended.stdout,
        &[
            "driver 570.86 → 580.12",
            "main alone, 12 sessions",
            "raw values cannot tell main from the machine",
        ],
    );
    // With an anchor, the series from then on can raise an alarm; the machine's own step is in neither.
    store.write(16, 1.0, &PLAIN);
    let ended = store.history(&[]).expect(0);
    holds(
        &ended.stdout,
        &[
            "anchor none → v0.3.0 (4f1c2d3e5a6b)",
            "driver 580.12 → 570.86",
        ],
    );
    let ended = store
        .history(&["--last", "10", "--format", "json"])
        .expect(0);
    let series = ended.json()["checks"][0]["series"].clone();
    assert_eq!(series[2]["points"].as_array().unwrap().len(), 10);
    assert_eq!(series[0]["is_live"], false);
}

#[test]
fn other_profiles_and_gates_that_are_gone_are_named() {
    let quick = Kind {
        profile: "quick",
        ..PLAIN
    };
    let mut store = Store::new("tpot", "tpot/regression", 40);
    store.write(12, 1.0, &PLAIN).write(3, 1.5, &quick);
    store.gate = "gone";
    store.write(1, 1.0, &PLAIN);
    let ended = store
        .project
        .run(&["history", "--profile", "full", "--last", "10"])
        .expect(3);
    holds(
        &ended.stdout,
        &[
            "sessions of other profiles are not shown: --profile quick",
            "gone: stored sessions, but no such gate any more",
            "tpot/ceiling no stored session holds it",
        ],
    );
}

#[test]
fn wrong_questions_are_refused() {
    let mut store = Store::tpot(20);
    store.write(12, 1.0, &PLAIN);
    let refuses = |arguments: &[&str], parts: &[&str]| {
        let all = [&["history"], arguments].concat();
        store.project.run(&all).expect(2).says(parts);
    };
    refuses(
        &["--check", "tpot/none"],
        &["unknown check `tpot/none`", "tpot/regression"],
    );
    refuses(
        &["--check", "tpt/none"],
        &["unknown gate `tpt`", "did you mean `tpot`"],
    );
    refuses(
        &["--gate", "tpt"],
        &["unknown gate `tpt`", "did you mean `tpot`"],
    );
    refuses(&["--last", "3"], &["--last"]);
    refuses(&["--profile", "fast"], &["unknown profile `fast`"]);
    store.project.write(".gate/baseline/series/000.json", "{}");
    let ended = store.project.run(&["history"]).expect(5);
    ended.says(&["000.json", "move the file away"]);
}
