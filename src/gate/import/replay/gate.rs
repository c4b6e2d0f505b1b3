//! The set's numbers as the files of a plan, so that a case is judged by a gate like any other.
//!
//! Main function: [`inputs`]. Refuses to know: what was measured.

use super::{GATE, Manifest, Values};
use serde::Deserialize;
use std::collections::BTreeSet;
use verdict::record::Input;

#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct GateNumbers {
    /// Fractions: 0.01 is 1 %.
    margin: f64,
    ceiling: f64,
    alpha: f64,
    beta: f64,
    /// In blocks.
    looks: Vec<u32>,
    pub warmup_requests: usize,
    /// How the looks share the budgets, by its name in gate files.
    #[serde(default = "equal_parts")]
    pub spending: String,
}

/// Name of the check that a bound in medians needs beside it; its limit is above every replayed value.
const MEDIAN: &str = r#"
[[check]]
name = "median"
metric = "tpot"
statistic = "median"
rule = "ceiling"
limit = "1000 s"
"#;

fn equal_parts() -> String {
    "bonferroni".to_owned()
}

/// The texts of `gate.toml` and of the gate, for a case that measured these values.
pub fn inputs(manifest: &Manifest, measured: &BTreeSet<Values>) -> Vec<Input> {
    let gate = &manifest.gate;
    let percent = |fraction: f64| format!("\"{} %\"", (fraction * 1e10).round() / 1e8);
    let project = format!(
        r#"# Made by `gate dev replay`: no engine is started from this.
[engine]
model = "replayed"
serve = ["true", "{{port}}"]
ready_timeout = "1 s"
request_timeout = "1 s"

[profile.{GATE}]
looks = {:?}
budget = "1 s"

[errors]
false_alarm = {}
false_pass = {}
spending = {:?}

[baseline]
directory = ".gate/baseline"
max_age = "1 days"
"#,
        gate.looks,
        percent(gate.alpha),
        percent(gate.beta),
        gate.spending,
    );
    let mut text = r#"title = "A replayed session"

[workload.requests]
kind = "steady"
requests = 100
warmup = 0
prompt_tokens = 1
output_tokens = 2
concurrency = 1
"#
    .to_owned();
    for values in measured {
        let slo = manifest.slo(*values);
        let (name, metric, min_samples) = match values {
            Values::Tpot if slo.is_some() => ("goodput", "goodput", 30),
            Values::Tpot => ("tpot", "tpot", 30),
            Values::KvBytes => ("kv-bytes", "kv_bytes", 1),
        };
        text.push_str(&format!(
            r#"
[[check]]
name = "{name}"
metric = "{metric}"
rule = "regression"
margin = {}
ceiling = {}
min_samples = {min_samples}
"#,
            percent(gate.margin),
            percent(gate.ceiling),
        ));
        if let Some(bound) = slo {
            text.push_str(&format!("slo = {{ tpot = {bound:?} }}\n"));
        }
        if let Some(statistic) = manifest.statistic(*values) {
            text.push_str(&format!("statistic = {statistic:?}\n"));
        }
        if slo.is_some() {
            text.push_str(MEDIAN);
        }
    }
    [("gates/gate.toml", project), ("gates/replay.toml", text)]
        .map(|(path, text)| Input {
            path: path.to_owned(),
            text,
        })
        .to_vec()
}
