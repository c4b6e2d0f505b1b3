//! Records and artifacts for tests of what is published: the frozen session, with other commits, times and texts.

use fixture::records;
use fixture::{Ended, Project, gate, repository};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;
use verdict::record::{Arm, CacheState, Comparison, Input, Sample, Setting, Stamps, TokenCounts};

pub(crate) const HEAD: &str = "6dcb09b5b57875f334f61aebed695e2e4193db5e";
pub(crate) const BASE: &str = "c3d0be41ecbe669545ee3e94d31ed9a4bc91ee3c";

/// The frozen session as one of head against base, both commits named.
pub(crate) fn record() -> Value {
    let text = fs::read_to_string(repository().join("tests/data/run-v1.json")).unwrap();
    let mut record: Value = serde_json::from_str(&text).unwrap();
    record["comparison"] = json!("interleaved");
    for (build, commit) in record["builds"]
        .as_array_mut()
        .unwrap()
        .iter_mut()
        .zip([BASE, HEAD])
    {
        build["commit"] = json!(commit);
        build["artifact_sha256"] = json!(commit.repeat(2)[..64]);
        build["on_ci"] = json!(true);
    }
    record
}

/// The time between events of head's answers times `factor` of the block.
pub(crate) fn stretched(mut record: Value, factor: impl Fn(u64) -> f64) -> Value {
    for launch in record["launches"].as_array_mut().unwrap() {
        let factor = factor(launch["block"].as_u64().unwrap());
        if launch["arm"] != "head" {
            continue;
        }
        for sample in launch["samples"].as_array_mut().unwrap() {
            let first = sample["stamps"]["events_ns"][0]
                .as_u64()
                .unwrap_or_default();
            let stretch = |at: &mut Value| {
                if let Some(ns) = at.as_u64().filter(|ns| *ns >= first) {
                    *at = json!(first + ((ns - first) as f64 * factor) as u64);
                }
            };
            sample["stamps"]["events_ns"]
                .as_array_mut()
                .unwrap()
                .iter_mut()
                .for_each(stretch);
            stretch(&mut sample["stamps"]["done_ns"]);
            let served = &mut sample["timings"]["predicted_ms"];
            if let Some(ms) = served.as_f64() {
                *served = json!(ms * factor);
            }
        }
    }
    record
}

/// Nobody could take this for noise.
pub(crate) fn regressed() -> Value {
    stretched(record(), |_| 40.0)
}

/// Head is twice as slow in every other block, and as fast in the others.
pub(crate) fn noisy() -> Value {
    stretched(record(), |block| if block % 2 == 0 { 1.0 } else { 6.0 })
}

/// Half of each launch's answers are missing.
pub(crate) fn short() -> Value {
    let mut record = record();
    for launch in record["launches"].as_array_mut().unwrap() {
        launch["samples"].as_array_mut().unwrap().truncate(7);
    }
    record
}

/// Three contexts, two users at once: a token takes 10 ms and 5 µs for each of its context, 6 in head.
pub(crate) fn over_contexts() -> Value {
    const GRID: &str = r#"
title = "TPOT over context"

[workload.grid]
kind = "matrix"
batches = [2]
caches = ["cold"]
contexts = [100, 600, 1100]
output_tokens = 20
passes = 1
warmup = 0

[[check]]
name = "slope"
metric = "tpot_slope"
rule = "regression"
margin = "2 %"
ceiling = "5 %"
"#;
    let ns = |ms: f64| (ms * 1e6) as u64;
    let launches = records::blocks(6, |arm, block| {
        let slope = if arm == Arm::Head { 0.006 } else { 0.005 };
        let requests = (0..6_u32).map(|index| {
            let context = 100 + index / 2 * 500;
            // The middle token's context.
            let tpot = 10.0 + slope * f64::from(context + 10);
            let tpot = tpot * (1.0 + 0.001 * records::noise(arm, block));
            let sent = ns(f64::from(index / 2) * 1_000.0);
            let first = sent + ns(20.0 + f64::from(context) * 0.1);
            let events_ns: Vec<u64> = (0..20).map(|i| first + ns(tpot * f64::from(i))).collect();
            Sample {
                workload: "grid/grid".into(),
                setting: Some(Setting::Cell {
                    batch: 2,
                    cache: CacheState::Cold,
                    context,
                    pass: 0,
                }),
                stamps: Stamps {
                    intended_ns: sent,
                    send_ns: sent + ns(1.0),
                    done_ns: events_ns.last().copied(),
                    events_ns,
                    kernel_stamps: true,
                    ..Stamps::default()
                },
                tokens: TokenCounts {
                    prompt: Some(context),
                    completion: Some(20),
                    events: 20,
                    ..TokenCounts::default()
                },
                ..records::sample(index)
            }
        });
        requests.collect()
    });
    let mut session = records::record(Comparison::Interleaved, launches);
    session.gates = vec!["grid".into()];
    let frozen = record();
    let config = frozen["inputs"].as_array().unwrap().iter();
    let mut config = config.filter(|input| input["path"] == "gates/gate.toml");
    session.profile = "quick".into();
    session.inputs = vec![
        serde_json::from_value(config.next().unwrap().clone()).unwrap(),
        Input {
            path: "gates/grid.toml".into(),
            text: GRID.into(),
        },
    ];
    serde_json::to_value(session).unwrap()
}

/// Main's checkout with the gates of the frozen session, and an artifact beside it.
pub(crate) struct Site {
    pub(crate) main: Project,
    artifact: TempDir,
}

impl Site {
    pub(crate) fn require_sandbox(&self, is_required: bool) {
        let config = self.main.read("gates/gate.toml");
        let config = config.split("\n[github]").next().unwrap();
        let config = format!("{config}\n[github]\nrequire_sandbox = {is_required}\n");
        self.main.write("gates/gate.toml", &config);
    }

    pub(crate) fn new(record: &Value) -> Self {
        let site = Self {
            main: Project::empty(),
            artifact: tempfile::tempdir().unwrap(),
        };
        for input in self::record()["inputs"].as_array().unwrap() {
            site.main.write(
                input["path"].as_str().unwrap(),
                input["text"].as_str().unwrap(),
            );
        }
        if !record.is_null() {
            site.put("run.json", &record.to_string());
        }
        site
    }

    pub(crate) fn artifact(&self) -> &Path {
        self.artifact.path()
    }

    pub(crate) fn put(&self, name: &str, text: &str) {
        let path = self.artifact.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// `gate github publish --from ARTIFACT` of the authorised commits, in main's checkout, with further arguments.
    pub(crate) fn command(&self, further: &[&str]) -> Command {
        let from = self.artifact.path().to_str().unwrap().to_owned();
        let mut command = gate(&["github", "publish", "--from", &from]);
        command
            .args([
                "--pr",
                "12",
                "--head-sha",
                HEAD,
                "--base-sha",
                BASE,
                "--profile",
                "quick",
            ])
            .args(further)
            .current_dir(self.main.path("."));
        command
    }

    pub(crate) fn dry(&self) -> Ended {
        Ended::of(&self.command(&["--dry-run"]).output().unwrap())
    }

    pub(crate) fn kept(&self, name: &str) -> PathBuf {
        self.main.path(&format!(".gate/publish/{HEAD}/{name}"))
    }
}
