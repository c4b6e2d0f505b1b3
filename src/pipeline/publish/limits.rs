//! What a result of another machine may hold: bounds on its form, held before any of it is believed.
//!
//! Two looks at one text: [`bounded`] at the JSON itself (depth, lengths, numbers), and [`sound`] at the record that it
//! reads to (names, places, order, signs). Whatever breaks a bound is refused with its place. Refuses to know: whether
//! the numbers are true; nothing can tell that from here.

use crate::plan::Plan;
use crate::record::{Build, Launch, RunRecord, Sample};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Display;

/// Levels of lists and objects; a record of ours has some ten.
const DEPTH: usize = 24;
/// Bytes of one text; those of the plan's files (`inputs`) are longer.
const TEXT: usize = 256 << 10;
const INPUT: usize = 32 << 20;
/// Items of one list, and keys of one object.
const ITEMS: usize = 2_000_000;
/// No time, count or size of ours comes near it; a seed may be any 64 bits.
const NUMBER: f64 = 2e19;

const LAUNCHES: usize = 10_000;
/// Half a year in seconds: no session lasts so long.
const SECONDS: f64 = 15_768_000.0;

/// Refuses JSON beyond the bounds; says where.
pub(super) fn bounded(value: &Value) -> Result<(), String> {
    walk(value, &mut Vec::new())
}

fn walk(value: &Value, path: &mut Vec<String>) -> Result<(), String> {
    let refused = |what: &str, path: &[String]| Err(format!("{} {what}", place(path)));
    if path.len() > DEPTH {
        return refused("is nested too deeply", path);
    }
    match value {
        Value::Null | Value::Bool(_) => Ok(()),
        Value::Number(number) => match number.as_f64() {
            Some(x) if is_measurable(x) => Ok(()),
            _ => refused("is no number that anything measures", path),
        },
        Value::String(text) => {
            let is_input = path.first().is_some_and(|first| first == "inputs");
            match text.len() > if is_input { INPUT } else { TEXT } {
                true => refused("is too long a text", path),
                false => Ok(()),
            }
        }
        Value::Array(items) => {
            if items.len() > ITEMS {
                return refused("has too many items", path);
            }
            for (i, item) in items.iter().enumerate() {
                step(item, &i, path)?;
            }
            Ok(())
        }
        Value::Object(entries) => {
            if entries.len() > ITEMS {
                return refused("has too many keys", path);
            }
            for (key, entry) in entries {
                step(entry, key, path)?;
            }
            Ok(())
        }
    }
}

fn is_measurable(x: f64) -> bool {
    x.is_finite() && x.abs() <= NUMBER
}

fn step(value: &Value, name: &dyn Display, path: &mut Vec<String>) -> Result<(), String> {
    // Most values are sound numbers, whose place nobody asks for.
    if value.as_f64().is_some_and(is_measurable) {
        return Ok(());
    }
    path.push(name.to_string());
    walk(value, path)?;
    path.pop();
    Ok(())
}

/// `launches.3.log`, of which no part is longer than a name.
fn place(path: &[String]) -> String {
    let parts = path.iter().take(8).map(|part| {
        let part: String = part.chars().filter(|c| !c.is_control()).take(40).collect();
        part
    });
    match path {
        [] => "run.json".to_owned(),
        _ => format!("run.json: `{}`", parts.collect::<Vec<_>>().join(".")),
    }
}

/// The first key that a record of ours does not have, by comparing what was written with what it reads to: a reader
/// that passes over what it does not know would let a newer or a made-up format through.
pub(super) fn unknown_key(written: &Value, read: &Value) -> Option<String> {
    let mut path = Vec::new();
    find_unknown(written, read, &mut path).then(|| place(&path))
}

fn find_unknown(written: &Value, read: &Value, path: &mut Vec<String>) -> bool {
    match (written, read) {
        (Value::Object(written), Value::Object(read)) => written.iter().any(|(key, value)| {
            path.push(key.clone());
            let found = match read.get(key) {
                Some(known) => find_unknown(value, known, path),
                None => !is_empty(value),
            };
            if !found {
                path.pop();
            }
            found
        }),
        (Value::Array(written), Value::Array(read)) => {
            // Most lists are of numbers, which hold no keys.
            let pairs = written.iter().zip(read).enumerate();
            pairs
                .filter(|(_, (written, _))| written.is_object() || written.is_array())
                .any(|(i, (written, read))| {
                    path.push(i.to_string());
                    let found = find_unknown(written, read, path);
                    if !found {
                        path.pop();
                    }
                    found
                })
        }
        _ => false,
    }
}

/// What a writer may leave out: it reads to the same.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(entries) => entries.is_empty(),
        _ => false,
    }
}

/// Refuses a record that contradicts itself or the plan that it is judged by.
pub(super) fn sound(record: &RunRecord, plan: &Plan) -> Result<(), String> {
    if record.launches.len() > LAUNCHES {
        return Err(format!(
            "it has {} launches, more than {LAUNCHES}",
            record.launches.len()
        ));
    }
    duration("elapsed_s", record.elapsed_s)?;
    arms(&record.builds)?;
    let workloads: BTreeSet<&str> = plan
        .gates
        .iter()
        .flat_map(|gate| gate.workloads.iter().map(|workload| workload.id.as_str()))
        .collect();
    let mut last = None;
    for launch in &record.launches {
        let at = format!("the launch at position {}", launch.position);
        if last.is_some_and(|last| launch.position <= last) {
            return Err(format!("{at} comes twice or out of order"));
        }
        last = Some(launch.position);
        if launch.block as usize > LAUNCHES {
            return Err(format!(
                "{at} is of block {}, more than {LAUNCHES}",
                launch.block
            ));
        }
        self::launch(launch, &workloads).map_err(|why| format!("{at}: {why}"))?;
    }
    Ok(())
}

fn arms(builds: &[Build]) -> Result<(), String> {
    for (i, build) in builds.iter().enumerate() {
        if builds[..i].iter().any(|other| other.arm == build.arm) {
            return Err(format!("it has two builds of {}", build.arm.name()));
        }
        duration("build_s", build.build_s)?;
    }
    Ok(())
}

fn launch(launch: &Launch, workloads: &BTreeSet<&str>) -> Result<(), String> {
    log(&launch.log)?;
    for stage in &launch.startup.stages {
        not_negative("the stage's ms", stage.ms)?;
    }
    if let Some(share) = launch.startup.resident_share {
        fraction("resident_share", share)?;
    }
    if let Some(rest) = &launch.rest {
        not_negative("waited_ms", rest.waited_ms)?;
        not_negative("reference_ms", rest.reference_ms)?;
        rest.probes_ms
            .iter()
            .try_for_each(|ms| not_negative("probes_ms", *ms))?;
    }
    for client in &launch.clients {
        known(&client.workload, workloads)?;
        fraction("ambiguous_share", client.ambiguous_share)?;
        fraction("kernel_share", client.kernel_share)?;
        not_negative("cpu_s", client.cpu_s)?;
        not_negative("wall_s", client.wall_s)?;
    }
    for sample in &launch.samples {
        self::sample(sample, workloads).map_err(|why| format!("sample {}: {why}", sample.index))?;
    }
    Ok(())
}

fn sample(sample: &Sample, workloads: &BTreeSet<&str>) -> Result<(), String> {
    known(&sample.workload, workloads)?;
    if let Some(timings) = &sample.timings {
        not_negative("prompt_ms", timings.prompt_ms)?;
        not_negative("predicted_ms", timings.predicted_ms)?;
    }
    Ok(())
}

/// Main's gates send it.
fn known(workload: &str, workloads: &BTreeSet<&str>) -> Result<(), String> {
    if workloads.contains(workload) {
        return Ok(());
    }
    let name: String = workload
        .chars()
        .filter(|c| !c.is_control())
        .take(80)
        .collect();
    Err(format!("main's gates have no workload `{name}`"))
}

/// A file below the directory, whatever the path is put behind.
fn log(path: &str) -> Result<(), String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let is_name =
        |part: &str| !part.is_empty() && !part.starts_with('.') && part.chars().all(is_plain);
    if path.is_empty() || path.split('/').all(is_name) {
        return Ok(());
    }
    let shown: String = path.chars().filter(|c| !c.is_control()).take(80).collect();
    Err(format!(
        "its log `{shown}` is no plain path below the result directory"
    ))
}

fn duration(name: &str, seconds: f64) -> Result<(), String> {
    match (0.0..=SECONDS).contains(&seconds) {
        true => Ok(()),
        false => Err(format!("{name} is {seconds}, no time that a session takes")),
    }
}

fn not_negative(name: &str, value: f64) -> Result<(), String> {
    match value >= 0.0 {
        true => Ok(()),
        false => Err(format!("{name} is {value}, below nought")),
    }
}

fn fraction(name: &str, value: f64) -> Result<(), String> {
    // Sums of shares end a little beyond one.
    match (0.0..=1.000_001).contains(&value) {
        true => Ok(()),
        false => Err(format!("{name} is {value}, no share")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn json_beyond_the_bounds_is_refused_with_its_place() {
        let check = |value: Value, expect: &str| {
            assert_eq!(bounded(&value).err().unwrap_or_default(), expect);
        };
        check(json!({"a": [1, 2.5, "x", null, true]}), "");
        check(
            json!({"a": {"b": [0, 1e20]}}),
            "run.json: `a.b.1` is no number that anything measures",
        );
        check(json!({"seed": u64::MAX}), "");
        check(
            json!({"log": "x".repeat(TEXT + 1)}),
            "run.json: `log` is too long a text",
        );
        check(json!({"inputs": [{"text": "x".repeat(TEXT + 1)}]}), "");
        let deep = (0..30).fold(json!(1), |inner, _| json!([inner]));
        assert!(
            bounded(&deep)
                .unwrap_err()
                .ends_with("is nested too deeply")
        );
    }

    #[test]
    fn a_key_that_nobody_reads_is_found() {
        let check = |written: Value, read: Value, expect: Option<&str>| {
            assert_eq!(unknown_key(&written, &read).as_deref(), expect);
        };
        check(json!({"a": 1}), json!({"a": 1}), None);
        check(json!({"a": [], "b": null}), json!({}), None);
        check(
            json!({"a": 1, "b": 2}),
            json!({"a": 1}),
            Some("run.json: `b`"),
        );
        check(
            json!({"l": [{}, {"x": 1}]}),
            json!({"l": [{}, {}]}),
            Some("run.json: `l.1.x`"),
        );
    }

    #[test]
    fn logs_stay_below_their_directory() {
        for good in ["", "logs/engine-000-head.log", "a"] {
            assert_eq!(log(good), Ok(()), "{good}");
        }
        for bad in [
            "/etc/passwd",
            "../x",
            "logs/../../x",
            "logs//x",
            "a b",
            "logs/.git/x",
            "l\\x",
        ] {
            assert!(log(bad).is_err(), "{bad}");
        }
    }
}
