//! A judged session for other programs: CSV for spreadsheets and databases, gauges for Prometheus, the dashboard that reads
//! these.

use super::records::{record, regressed};
use fixture::{Ended, gate, install, repository};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

/// What `gate report` prints of the record in a format.
fn judged(record: &Value, format: &str) -> Ended {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("run.json"), record.to_string()).unwrap();
    let output = gate(&["report", ".", "--format", format])
        .current_dir(folder.path())
        .output()
        .unwrap();
    Ended::of(&output)
}

/// Rows of a CSV text, each by the header's names.
fn rows(text: &str) -> Vec<BTreeMap<String, String>> {
    let mut lines = text.lines().map(cells);
    let header = lines.next().unwrap();
    lines
        .map(|cells| {
            assert_eq!(cells.len(), header.len(), "{cells:?}");
            header.iter().cloned().zip(cells).collect()
        })
        .collect()
}

fn cells(line: &str) -> Vec<String> {
    let mut cells = vec![String::new()];
    let mut is_quoted = false;
    let mut characters = line.chars().peekable();
    while let Some(c) = characters.next() {
        match c {
            '"' if is_quoted && characters.peek() == Some(&'"') => {
                characters.next();
                cells.last_mut().unwrap().push('"');
            }
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => cells.push(String::new()),
            c => cells.last_mut().unwrap().push(c),
        }
    }
    cells
}

#[test]
fn csv_has_a_row_for_each_check_of_a_launch() {
    let mut record = record();
    record["launches"][1]["exit"] =
        json!({"how": "crashed", "detail": "gone", "log_tail": "=cmd()"});
    record["launches"][1]["samples"] = json!([]);
    let ended = judged(&record, "csv");
    let rows = rows(&ended.stdout);
    let checks = ["tpot/regression", "tpot/ceiling"];
    assert_eq!(rows.len(), 8 * checks.len(), "{}", ended.stdout);
    let first = &rows[0];
    for (name, value) in [
        ("machine", "a machine"),
        ("launch", "0"),
        ("block", "0"),
        ("arm", "head"),
        ("gate", "tpot"),
        ("check", "tpot/regression"),
        ("metric", "tpot"),
        ("unit", "ms/token"),
        ("why_no_value", ""),
        ("exit", "stopped"),
    ] {
        assert_eq!(first[name], value, "{name} in {first:?}");
    }
    let value: f64 = first["value"].parse().unwrap();
    assert!((0.05..0.2).contains(&value), "{value}");
    let lost = rows.iter().find(|row| row["launch"] == "1").unwrap();
    assert_eq!(lost["exit"], "crashed");
    assert_eq!(lost["value"], "");
    assert!(!lost["why_no_value"].is_empty(), "{lost:?}");
}

#[test]
fn requests_csv_has_a_row_for_each_request_and_no_times_of_a_void_one() {
    let mut record = record();
    let samples = &mut record["launches"][0]["samples"];
    samples[2]["void"] =
        json!({"rule": "status", "detail": "=HYPERLINK(\"http://x\",\"y\")\n::error::z"});
    samples[3]["case"] = json!("\t@SUM(1)");
    let ended = judged(&record, "requests-csv");
    let rows = rows(&ended.stdout);
    assert_eq!(rows.len(), 80, "{}", ended.stdout);
    assert_eq!(rows[0]["phase"], "warmup");
    let sound = &rows[1];
    assert_eq!(
        (&*sound["workload"], &*sound["index"]),
        ("tpot/decode", "1")
    );
    assert_eq!(sound["void"], "");
    for name in ["ttft_ms", "tpot_ms", "e2e_ms", "send_s"] {
        assert!(sound[name].parse::<f64>().unwrap() > 0.0, "{sound:?}");
    }
    let void = &rows[2];
    assert_eq!(void["void"], "status");
    assert_eq!(
        void["void_reason"],
        "'=HYPERLINK(\"http://x\",\"y\") ::error::z"
    );
    for name in ["ttft_ms", "tpot_ms", "e2e_ms"] {
        assert_eq!(void[name], "", "{void:?}");
    }
    assert_eq!(rows[3]["case"], "'@SUM(1)");
}

/// The name, labels and value of each sample, after the text is held to OpenMetrics' grammar.
fn samples(text: &str) -> Vec<(String, BTreeMap<String, String>, f64)> {
    let mut lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.pop(), Some("# EOF"));
    assert!(text.ends_with("# EOF\n"));
    let mut families = BTreeSet::new();
    let mut family = String::new();
    let mut found: Vec<(String, BTreeMap<String, String>, f64)> = Vec::new();
    for line in lines {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let name = rest.strip_suffix(" gauge").unwrap();
            family = name.to_owned();
            assert!(families.insert(family.clone()), "{family} stands twice");
        } else if let Some(rest) = line.strip_prefix("# UNIT ") {
            let (name, unit) = rest.split_once(' ').unwrap();
            assert_eq!(name, family);
            assert!(name.ends_with(&format!("_{unit}")), "{line}");
        } else if let Some(rest) = line.strip_prefix("# HELP ") {
            assert!(rest.starts_with(&format!("{family} ")), "{line}");
        } else {
            let (name, rest) = line.split_once('{').unwrap();
            assert_eq!(name, family, "{line}");
            let (labels, value) = labels(rest);
            let value: f64 = value.strip_prefix(' ').unwrap().parse().unwrap();
            let is_new = found.iter().all(|(n, l, _)| n != name || *l != labels);
            assert!(is_new, "two samples are one series: {line}");
            found.push((name.to_owned(), labels, value));
        }
    }
    found
}

/// The labels after an opening brace, and what follows the closing one.
fn labels(text: &str) -> (BTreeMap<String, String>, &str) {
    let mut labels = BTreeMap::new();
    let mut rest = text;
    loop {
        let (name, after) = rest.split_once("=\"").unwrap();
        let is_name = |c: char| c.is_ascii_lowercase() || c == '_';
        assert!(name.chars().all(is_name), "{name}");
        let mut value = String::new();
        let mut characters = after.char_indices();
        let end = loop {
            match characters.next().unwrap() {
                (at, '"') => break at,
                (_, '\\') => value.push(match characters.next().unwrap().1 {
                    'n' => '\n',
                    c @ ('\\' | '"') => c,
                    c => panic!("\\{c} in {text}"),
                }),
                (_, c) => value.push(c),
            }
        };
        assert!(labels.insert(name.to_owned(), value).is_none(), "{text}");
        match after[end + 1..].strip_prefix(',') {
            Some(more) => rest = more,
            None => return (labels, after[end + 1..].strip_prefix('}').unwrap()),
        }
    }
}

const HOSTILE: &str = "a \"machine\"} 1\n# EOF\n\\";

fn hostile() -> Value {
    let mut record = regressed();
    record["machine"]["fingerprint"] = json!(HOSTILE);
    for launch in record["launches"].as_array_mut().unwrap() {
        launch["fingerprint"] = json!(HOSTILE);
    }
    record
}

#[test]
fn openmetrics_says_what_the_verdict_says() {
    for (record, code, expect) in [(record(), 0, "pass"), (regressed(), 1, "fail")] {
        let ended = judged(&record, "openmetrics").expect(code);
        let samples = samples(&ended.stdout);
        let verdict = judged(&record, "json").json();
        let check = &verdict["gates"][0]["checks"][0];
        let of = |name: &str, key: &str, value: &str| {
            let mut all = samples.iter();
            let found = all.find(|(n, labels, _)| {
                n == name && labels.get(key).is_some_and(|own| own == value)
            });
            let (_, labels, value) = found.unwrap_or_else(|| panic!("no {name} in {samples:?}"));
            (labels.clone(), *value)
        };
        for name in ["session", "gate", "check"] {
            let name = format!("infergate_{name}_verdict");
            let sum: f64 = samples
                .iter()
                .filter(|(n, labels, _)| {
                    *n == name && labels.get("check").is_none_or(|id| id == "tpot/regression")
                })
                .map(|(_, _, value)| value)
                .sum();
            assert!((sum - 1.0).abs() < 1e-9, "{name}: {samples:?}");
            assert!(of(&name, "verdict", expect).1 > 0.5, "{name}");
        }
        let (labels, head) = of("infergate_head_seconds", "check", "tpot/regression");
        assert!((head * 1e3 - check["head"].as_f64().unwrap()).abs() < 1e-9);
        assert_eq!(labels["commit"], super::records::HEAD);
        assert_eq!(labels["comparison"], "interleaved");
        assert_eq!(labels["metric"], "tpot");
        let (_, change) = of("infergate_change_ratio", "check", "tpot/regression");
        assert!((change - check["change"].as_f64().unwrap()).abs() < 1e-9);
    }
}

/// An A/A run in which nothing fails is no pass here either.
#[test]
fn openmetrics_calls_no_a_a_run_a_pass() {
    let mut record = record();
    record["comparison"] = json!("same-build");
    let samples = samples(&judged(&record, "openmetrics").stdout);
    let session = samples
        .iter()
        .filter(|(name, ..)| name == "infergate_session_verdict");
    let held: Vec<&str> = session
        .filter(|(.., value)| *value > 0.5)
        .map(|(_, labels, _)| &*labels["verdict"])
        .collect();
    assert_eq!(held, ["A/A"]);
}

#[test]
fn hostile_labels_stay_within_their_quotes() {
    let samples = samples(&judged(&hostile(), "openmetrics").expect(1).stdout);
    assert!(
        samples
            .iter()
            .all(|(_, labels, _)| labels["machine"] == HOSTILE)
    );
}

/// The parser of Prometheus' own client for Python.
#[test]
fn prometheus_client_reads_openmetrics() {
    const PARSER: &str = "prometheus-client";
    let installed = install::python_with(PARSER, "prometheus-client==0.26.0\n");
    let Some(client) = install::or_skip(PARSER, installed) else {
        return;
    };
    let text = judged(&hostile(), "openmetrics").stdout;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("metrics");
    fs::write(&path, &text).unwrap();
    let output = Command::new(&client.program)
        .args([
            "-c",
            "import sys; from prometheus_client.openmetrics.parser import text_string_to_metric_families as read; \
             from prometheus_client.parser import text_string_to_metric_families as plain; \
             text = open(sys.argv[1], newline='').read(); \
             print(sum(len(f.samples) for f in read(text)), sum(len(f.samples) for f in plain(text)))",
        ])
        .arg(&path)
        .output()
        .unwrap();
    let ended = Ended::of(&output).expect(0);
    let n = samples(&text).len();
    assert_eq!(ended.stdout, format!("{n} {n}\n"));
}

/// docs/grafana/infergate.json: what Grafana needs of a dashboard, and no metric that is not written.
#[test]
fn the_dashboard_asks_only_for_what_is_exported() {
    let text = fs::read_to_string(repository().join("docs/grafana/infergate.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    assert!(dashboard["schemaVersion"].as_u64().unwrap() >= 36);
    for name in ["title", "uid"] {
        assert!(dashboard[name].as_str().is_some_and(|it| !it.is_empty()));
    }
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    let names: Vec<&str> = variables
        .iter()
        .map(|it| it["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["datasource", "machine", "gate"]);
    let exported = samples(&judged(&regressed(), "openmetrics").stdout);
    let exported: BTreeSet<String> = exported.into_iter().map(|(name, ..)| name).collect();
    let mut ids = BTreeSet::new();
    let mut asked = BTreeSet::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        let title = panel["title"].as_str().unwrap();
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{title}");
        assert!(panel["type"].is_string(), "{title}");
        let at = |name: &str| panel["gridPos"][name].as_u64().unwrap();
        assert!(
            at("x") + at("w") <= 24 && at("w") > 0 && at("h") > 0,
            "{title}"
        );
        let _ = at("y");
        assert_eq!(panel["datasource"]["uid"], "${datasource}", "{title}");
        let mut refs = BTreeSet::new();
        for target in panel["targets"].as_array().unwrap() {
            assert!(refs.insert(target["refId"].as_str().unwrap()), "{title}");
            asked.extend(metrics(target["expr"].as_str().unwrap()));
        }
        assert!(!refs.is_empty(), "{title}");
    }
    for variable in variables {
        asked.extend(metrics(&variable["query"].to_string()));
    }
    let unknown: Vec<_> = asked.difference(&exported).collect();
    assert!(asked.len() > 5 && unknown.is_empty(), "{unknown:?}");
}

/// Names of ours in an expression of PromQL.
fn metrics(expression: &str) -> Vec<String> {
    let words = expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words
        .filter(|word| word.starts_with("infergate_"))
        .map(str::to_owned)
        .collect()
}
