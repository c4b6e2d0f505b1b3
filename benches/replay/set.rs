//! A set's sessions as rules of other tools read them: raw values, and main's history.

use serde_json::Value;
use std::fs;
use std::path::Path;

/// Requests of a launch that other tools leave out too.
const WARMUP: usize = 20;

pub(crate) struct Set {
    pub(crate) seed: u64,
    pub(crate) cases: Vec<Case>,
}

pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) suite: String,
    /// Head's true relative change.
    pub(crate) delta: f64,
    pub(crate) expect: Vec<String>,
    pub(crate) is_latency: bool,
    /// In order of execution.
    pub(crate) launches: Vec<Launch>,
    pub(crate) history: Vec<Stored>,
}

pub(crate) struct Launch {
    pub(crate) is_head: bool,
    pub(crate) values: Vec<f64>,
}

/// A launch of main's history.
pub(crate) struct Stored {
    pub(crate) session: usize,
    pub(crate) mean: f64,
    pub(crate) median: f64,
}

impl Set {
    pub(crate) fn read(directory: &Path) -> Self {
        let manifest = json(&text(&directory.join("manifest.json")));
        let truth = text(&directory.join("truth.jsonl"));
        let cases = truth.lines().map(|line| case(directory, &json(line)));
        Self {
            seed: manifest["seed"].as_u64().unwrap(),
            cases: cases.collect(),
        }
    }
}

fn case(directory: &Path, truth: &Value) -> Case {
    let word = |value: &Value| value.as_str().unwrap().to_owned();
    let name = word(&truth["case"]);
    let folder = directory.join("cases").join(&name);
    let samples = text(&folder.join("samples.jsonl"));
    let samples: Vec<Value> = samples
        .lines()
        .map(|line| json(line)["metrics"].take())
        .collect();
    let rows = text(&folder.join("launches.csv"));
    let arms = rows
        .lines()
        .skip(1)
        .map(|row| row.split(',').nth(3).unwrap() == "pr");
    let launches = arms.zip(&samples).map(|(is_head, metrics)| Launch {
        is_head,
        values: values(metrics),
    });
    Case {
        suite: word(&truth["suite"]),
        delta: truth["delta"].as_f64().unwrap(),
        expect: truth["expect"]
            .as_array()
            .unwrap()
            .iter()
            .map(word)
            .collect(),
        is_latency: samples[0].get("tpot_us").is_some(),
        launches: launches.collect(),
        history: history(&text(&folder.join("history.csv"))),
        name,
    }
}

/// Without warm-up and missing values.
fn values(metrics: &Value) -> Vec<f64> {
    let (list, warmup) = match metrics.get("tpot_us") {
        Some(list) => (list, WARMUP),
        None => (&metrics["kv_bytes"], 0),
    };
    let list = list.as_array().unwrap().iter().skip(warmup);
    list.filter_map(Value::as_f64).collect()
}

fn history(text: &str) -> Vec<Stored> {
    let rows = text.lines().skip(1).map(|row| {
        let fields: Vec<&str> = row.split(',').collect();
        let number = |i: usize| fields[i].parse().unwrap();
        Stored {
            session: fields[0].parse().unwrap(),
            mean: number(3),
            median: number(4),
        }
    });
    rows.collect()
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}
