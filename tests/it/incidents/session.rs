//! A session through the binary: a project of one gate, whose engine is this program's own.
//!
//! Main types: [`Story`], what is measured, and [`Told`], what `gate check` made of it. Refuses to know: which
//! incident it is.

use fixture::{Ended, Project};
use serde_json::Value;

/// Time enough for all blocks on any machine. The looks come before it.
const CONFIG: &str = r#"
budget = "10 min"
[errors]
false_alarm = "2 %"
false_pass = "5 %"
[baseline]
directory = ".gate/baseline"
max_age = "14 days"
"#;

/// What is measured. Knobs: `engine/mod.rs`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Story<'a> {
    /// Of both arms.
    pub(crate) knobs: &'a [&'a str],
    pub(crate) base: &'a [&'a str],
    pub(crate) head: &'a [&'a str],
    /// How long an engine may take until it generates; long, where nothing is said.
    pub(crate) ready: &'a str,
    /// After how many blocks the results are tested; after four, where nothing is said.
    pub(crate) looks: &'a [u32],
    /// Further keys of `[engine]`, and sub-tables of it.
    pub(crate) engine: &'a str,
    /// The table `[telemetry]`.
    pub(crate) telemetry: &'a str,
    /// Of the session; 0: 1.
    pub(crate) seed: u32,
    /// The gate's workload, called `work`, and its checks.
    pub(crate) gate: &'a str,
}

impl Story<'_> {
    pub(crate) fn check(&self) -> Told {
        let project = Project::empty();
        project.write("gates/gate.toml", &self.config());
        let gate = format!("title = \"An incident\"\n[workload.work]\n{}", self.gate);
        project.write("gates/incident.toml", &gate);
        let seed = self.seed.max(1).to_string();
        let mut arguments = vec![
            "check", "--format", "json", "--seed", &seed, "--out", "result",
        ];
        for (flag, knobs) in [("--base-arg", self.base), ("--head-arg", self.head)] {
            arguments.extend(knobs.iter().flat_map(|knob| [flag, knob]));
        }
        let ended = project.run(&arguments);
        assert_eq!(project.leftovers(), [0; 0]);
        let verdict = ended.json();
        let record = serde_json::from_str(&project.read("result/run.json")).unwrap();
        Told {
            project,
            ended,
            verdict,
            record,
        }
    }

    /// `gates/gate.toml`.
    pub(crate) fn config(&self) -> String {
        let program = std::env::current_exe().unwrap();
        let ready = if self.ready.is_empty() {
            "60 s"
        } else {
            self.ready
        };
        let looks = if self.looks.is_empty() {
            &[4]
        } else {
            self.looks
        };
        let mut serve = vec![
            program.to_str().unwrap(),
            super::ENGINE,
            "--exact",
            "port={port}",
        ];
        serve.extend(self.knobs);
        format!(
            "[engine]\nmodel = \"scripted\"\nserve = {serve:?}\nready_timeout = {ready:?}\n\
             request_timeout = \"60 s\"\nprompt_ids = {{ from = 3, to = 60000 }}\n{}\n{}\n[profile.quick]\nlooks = {looks:?}{CONFIG}",
            self.engine, self.telemetry
        )
    }
}

/// What `gate check` made of it.
pub(crate) struct Told {
    /// Holds the results, in `result`.
    pub(crate) project: Project,
    pub(crate) ended: Ended,
    pub(crate) verdict: Value,
    pub(crate) record: Value,
}

impl Told {
    /// The check `name`.
    pub(crate) fn of(&self, name: &str) -> &Value {
        let checks = self.verdict["gates"][0]["checks"].as_array().unwrap();
        let id = format!("incident/{name}");
        let check = checks.iter().find(|check| check["id"] == *id);
        check.unwrap_or_else(|| panic!("no check is called {id}"))
    }

    /// The check `name` must have this verdict by this rule, and its reason hold each of `parts`.
    #[track_caller]
    pub(crate) fn says(&self, name: &str, verdict: &str, rule: &str, parts: &[&str]) {
        let check = self.of(name);
        let reason = check["reason"].as_str().unwrap();
        assert_eq!(
            (&check["verdict"], &check["rule"]),
            (&verdict.into(), &rule.into()),
            "{check:#}\n{}",
            self.ended.stderr
        );
        for part in parts {
            assert!(reason.contains(part), "`{part}` is missing in: {reason}");
        }
    }

    #[track_caller]
    pub(crate) fn ends_with(&self, code: i32) {
        assert_eq!(self.ended.code, Some(code), "{:#}", self.verdict);
    }

    #[track_caller]
    pub(crate) fn notes(&self, name: &str, part: &str) {
        let notes = self.of(name)["notes"].as_array().unwrap();
        let found = notes
            .iter()
            .any(|note| note.as_str().unwrap().contains(part));
        assert!(found, "`{part}` is missing in: {notes:?}");
    }
}
