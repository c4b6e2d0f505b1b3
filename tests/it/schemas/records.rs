//! The schemas of `verdict.json` and `run.json`.

use super::{Schema, add_undescribed};
use fixture::{Project, START, alone, repository};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::iter::once;
use std::slice::from_ref;
use verdict::record::{Metric, RunRecord};

/// Closes every table, so that a key that is not described is an error.
fn close(schema: &mut Value) {
    if schema.get("type").is_some() && schema.get("properties").is_some() {
        schema["additionalProperties"] = json!(false);
    }
    match schema {
        Value::Array(items) => items.iter_mut().for_each(close),
        Value::Object(entries) => entries.values_mut().for_each(close),
        _ => {}
    }
}

/// The schema with every table closed, once each key is described.
fn closed(schema: &Schema) -> Schema {
    let (mut closed, mut undescribed) = (schema.document.clone(), Vec::new());
    close(&mut closed);
    add_undescribed(&closed, &closed, &mut undescribed);
    assert_eq!(undescribed, [""; 0]);
    Schema::of(closed)
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn verdicts_are_valid_and_mistakes_in_them_are_refused() {
    let schema = Schema::read("verdict");
    let closed = closed(&schema);
    let read = |path: &str| fs::read_to_string(repository().join("tests").join(path)).unwrap();
    let project = Project::empty();
    project.write("run.json", &read("data/run-v1.json"));
    let written = project.run(&["report", ".", "--format", "json"]).json();
    let every_rule = read("it/judge/frozen/snapshots/it__judge__frozen__every_rule_json.snap");
    let (_, every_rule) = every_rule.split_once("\n---\n").unwrap();
    let oldest = parsed(&read("data/verdict-v1.json"));
    for verdict in [&written, &oldest, &parsed(every_rule)] {
        assert_eq!(closed.errors_in(verdict), [""; 0]);
    }
    for rule in schema.choices("/$defs/rule") {
        let line = format!("\"rule\": \"{rule}\",");
        assert!(every_rule.contains(&line), "{rule}");
    }
    for metric in Metric::ALL {
        let mut other = written.clone();
        other["gates"][0]["checks"][0]["metric"] = json!(metric.name());
        assert_eq!(closed.errors_in(&other), [""; 0]);
    }

    let check = "/gates/0/checks/0";
    for (place, key, mistake) in [
        ("", "verdict", Some(json!("passed"))),
        (check, "verdict", None),
        (check, "head", Some(json!("0.09"))),
    ] {
        let mut verdict = written.clone();
        let table = verdict.pointer_mut(place).unwrap().as_object_mut().unwrap();
        table.remove(key);
        table.extend(mistake.map(|value| (key.to_owned(), value)));
        assert!(!schema.errors_in(&verdict).is_empty(), "{place} {key}");
    }
}

/// A shard's record: the first item of each list has every field, and the others are of other kinds.
const RUN: &str = r#"
{
  "format": "infergate-run/1",
  "tool": "infergate 1.0.0",
  "created": "2099-01-15T08:00:00Z",
  "profile": "quick",
  "seed": 18446744073709551615,
  "comparison": "interleaved",
  "machine": {
    "fingerprint": "f", "cpu": "c", "cores": 2, "memory_bytes": 3, "kernel": "k", "gpus": ["g"],
    "isolation": { "layers": ["landlock"], "note": "n" }
  },
  "builds": [{
    "arm": "base", "commit": "c", "subject": "s", "dirty": true, "artifact_sha256": "a", "command": ["engine"],
    "files": [{ "name": "f", "bytes": 1, "sha256": "s" }], "build_s": 1.5, "on_ci": true
  }],
  "gates": ["own"],
  "inputs": [{ "path": "gates/own.toml", "text": "t" }],
  "changed_gates": { "files": ["gates/own.toml"], "count": 9 },
  "stored": [{ "id": "i", "created": "c", "commit": "c", "fingerprint": "f", "values": { "own/own": [1.5] } }],
  "calibration": [
    {
      "gate": "own", "standing": "valid", "created": "c", "sessions": 8, "false_alarms": 1, "interval": [0.5, 0.6],
      "blocks": 4, "effects": { "own/own": 0.1 }, "noise": { "own/own": { "paired": true, "sd": 0.1, "df": 3.5 } },
      "learned": { "sessions": 2, "noise": { "own/own": { "paired": true, "sd": 0.1, "df": 3.5 } } }
    },
    {
      "gate": "two", "standing": "void", "created": "c", "why": "w", "remedy": "r",
      "learned": { "sessions": 2, "noise": { "two/own": { "paired": true, "sd": 0.1, "df": 3.5 } } }
    },
    {
      "gate": "six", "standing": "missing",
      "learned": { "sessions": 2, "noise": { "six/own": { "paired": true, "sd": 0.1, "df": 3.5 } } }
    }
  ],
  "launches": [
    {
      "position": 1, "block": 1, "arm": "head", "engine_args": ["--flag"], "page_cache": "cold",
      "interleave": "requests", "fingerprint": "f",
      "startup": {
        "spawn_ns": 1, "port_open_ns": 2, "probe_ns": 3, "ready_ns": 4, "resident_share": 0.5,
        "stages": [{ "name": "load", "ms": 1.5 }],
        "tree_files": ["kernels/decode.cu"],
        "tree_unwatched": true
      },
      "exit": { "how": "stopped" }, "throttle_bits": 4, "log": "logs/engine-001-head.log",
      "samples": [
        {
          "workload": "own/own", "index": 1, "phase": "measured", "case": "c", "turn": 1, "streamed": true,
          "setting": { "kind": "cell", "batch": 2, "cache": "hot", "context": 8, "pass": 1 },
          "stamps": {
            "intended_ns": 1, "connect_ns": [2, 3], "send_ns": 4, "headers_ns": 5, "first_byte_ns": 6,
            "events_ns": [7], "ambiguous_events": 1, "done_ns": 8, "end_ns": 9, "no_done": true,
            "kernel_stamps": true
          },
          "tokens": {
            "requested": 9, "prompt": 8, "cached": 7, "completion": 9, "events": 1, "by_logprobs": 9,
            "at_first_event": 1, "per_event": [9], "text_at_first": [1, 2], "silent_first": 1, "by_tokenizer": 9,
            "repeats": true
          },
          "finish_reason": "length", "status": 400, "fields": ["id: string"],
          "timings": { "prompt_n": 8, "prompt_ms": 1.5, "predicted_n": 9, "predicted_ms": 2.5 },
          "text": "t", "text_sha256": "s", "logprobs": [{ "token": "t", "logprob": -0.5, "top": [["t", -0.5]] }],
          "void": { "rule": "status", "detail": "d" }
        },
        {
          "workload": "own/own", "index": 2, "phase": "measured", "streamed": true,
          "setting": { "kind": "sequential", "user": 1, "pass": 1, "origin_ns": 1 },
          "stamps": { "intended_ns": 1, "send_ns": 1, "ambiguous_events": 1, "kernel_stamps": true },
          "tokens": { "events": 1 }, "text_sha256": "s"
        },
        {
          "workload": "own/own", "index": 3, "phase": "measured", "streamed": true,
          "setting": { "kind": "together", "user": 1, "pass": 1, "origin_ns": 1 },
          "stamps": { "intended_ns": 1, "send_ns": 1, "ambiguous_events": 1, "kernel_stamps": true },
          "tokens": { "events": 1 }, "text_sha256": "s"
        },
        {
          "workload": "own/own", "index": 4, "phase": "measured", "streamed": true,
          "setting": { "kind": "answer", "condition": "alone", "pass": 1 },
          "stamps": { "intended_ns": 1, "send_ns": 1, "ambiguous_events": 1, "kernel_stamps": true },
          "tokens": { "events": 1 }, "text_sha256": "s"
        }
      ],
      "suites": [
        {
          "workload": "own/tests", "begun_ns": 1, "ended_ns": 2, "ending": { "how": "failed", "status": "s" }, "log": "l",
          "log_tail": "t", "tests": [{ "id": "i", "outcome": "failed", "message": "m" }], "unread": "u"
        },
        { "workload": "own/tests", "begun_ns": 1, "ended_ns": 2, "ending": { "how": "succeeded" }, "log": "l" },
        {
          "workload": "own/tests", "begun_ns": 1, "ended_ns": 2, "ending": { "how": "timed-out", "limit_s": 1.5 },
          "log": "l"
        },
        {
          "workload": "own/tests", "begun_ns": 1, "ended_ns": 2, "ending": { "how": "not-started", "detail": "d" },
          "log": "l"
        }
      ],
      "clients": [{
        "workload": "own/own", "send_lag_ms": { "p50": 0.1, "p99": 0.2, "max": 0.3, "n": 4 },
        "read_lag_ms": { "p50": 0.1, "p99": 0.2, "max": 0.3, "n": 4 },
        "loop_delay_ms": { "p50": 0.1, "p99": 0.2, "max": 0.3, "n": 4 }, "ambiguous_share": 0.1,
        "kernel_share": 0.9, "streams_asked": 1, "streams_reached": 1, "resent": 1, "cpu_s": 0.1, "threads": 1,
        "wall_s": 1.5, "steal_share": 0.1
      }],
      "telemetry": {
        "every_ms": 250,
        "readings": [{
          "at_ns": 1,
          "gpus": [{
            "index": 1, "sm_clock_mhz": 2, "memory_clock_mhz": 3, "temperature_c": 4, "power_w": 5.5,
            "throttle_bits": 6, "memory_used_bytes": 7, "engine_memory_bytes": 8, "engine_processes": 9,
            "other_processes": 10
          }],
          "rss_bytes": 1, "huge_bytes": 2, "major_faults": 3, "engine_cpu_s": 0.4, "gate_cpu_s": 0.5,
          "machine_cpu_s": 0.6, "steal_s": 0.7,
          "engine": {
            "kv_bytes": 0.1, "kv_usage": 0.2, "running": 0.3, "waiting": 0.4, "preemptions": 0.5, "prefix_hits": 0.6,
            "prefix_queries": 0.7
          },
          "gauges": { "g": 0.1 }
        }],
        "missing": ["m"],
        "windows": [{
          "workload": "own/own", "first": 1, "last": 2,
          "begin": { "at_ns": 1, "counters": { "c": 0.1 }, "energy_mj": { "7": 2 } },
          "end": { "at_ns": 1, "counters": { "c": 0.1 }, "energy_mj": { "7": 2 } }
        }]
      },
      "rest": {
        "waited_ms": 0.1, "probes_ms": [0.2], "reference_ms": 0.3, "within": 0.4, "budget_left_ms": 0.5
      },
      "beside": { "waited_s": 0.1, "cpu_s": 0.2 },
      "killed": true
    },
    {
      "position": 2, "block": 1, "arm": "base", "fingerprint": "f", "startup": { "spawn_ns": 1 },
      "exit": { "how": "never-ready", "detail": "d", "log_tail": "t" }, "log": "l", "samples": []
    },
    {
      "position": 3, "block": 2, "arm": "base", "fingerprint": "f", "startup": { "spawn_ns": 1 },
      "exit": { "how": "crashed", "detail": "d", "log_tail": "t" }, "log": "l", "samples": []
    },
    {
      "position": 4, "block": 2, "arm": "head", "fingerprint": "f", "startup": { "spawn_ns": 1 },
      "exit": { "how": "hung", "detail": "d", "log_tail": "t" }, "log": "l", "samples": []
    },
    {
      "position": 5, "block": 3, "arm": "head", "fingerprint": "f", "startup": { "spawn_ns": 1 },
      "exit": { "how": "altered", "detail": "d" }, "log": "l", "samples": []
    }
  ],
  "ending": { "why": "budget", "starting": "s" },
  "elapsed_s": 1.5,
  "described": {
    "model": "m", "quantised": "q", "tpot_floor_ms": 0.1, "prompts": "p", "precision": "f16", "tags": ["t"]
  },
  "extent": { "what": "shard", "together": ["own", "two"], "checks": 2 }
}"#;

const ENDINGS: [&str; 6] = [
    r#"{ "why": "decided" }"#,
    r#"{ "why": "last-look" }"#,
    r#"{ "why": "budget" }"#,
    r#"{ "why": "interrupted" }"#,
    r#"{ "why": "engine-failed", "detail": "d" }"#,
    r#"{ "why": "unfinished" }"#,
];

/// Ends of lines in a record's `Debug` form: fields whose value is not written.
const LEFT_OUT: [&str; 9] = [
    ": None,",
    ": [],",
    ": {},",
    ": 0,",
    ": 0.0,",
    ": false,",
    ": \"\",",
    ": Launches,",
    ": Whole,",
];

/// Places of choices in [`RUN`], with their places in `$defs` of the schema.
const CHOICES: [(&str, &str); 17] = [
    ("/comparison", "comparison"),
    ("/builds/0/arm", "arm"),
    (
        "/machine/isolation/layers/0",
        "isolation/properties/layers/items",
    ),
    ("/calibration/0/standing", "citation"),
    ("/launches/0/arm", "arm"),
    ("/launches/0/page_cache", "launch/properties/page_cache"),
    ("/launches/0/interleave", "launch/properties/interleave"),
    ("/launches/0/exit/how", "exit"),
    ("/launches/0/samples/0/phase", "sample/properties/phase"),
    ("/launches/0/samples/0/setting/kind", "setting"),
    (
        "/launches/0/samples/0/setting/cache",
        "setting/oneOf/0/properties/cache",
    ),
    (
        "/launches/0/samples/3/setting/condition",
        "setting/oneOf/3/properties/condition",
    ),
    ("/launches/0/samples/0/void/rule", "void/properties/rule"),
    ("/launches/0/suites/0/ending/how", "suite_ending"),
    (
        "/launches/0/suites/0/tests/0/outcome",
        "test/properties/outcome",
    ),
    ("/ending/why", "ending"),
    ("/extent/what", "extent"),
];

/// [`RUN`], and a merged record with a shard for each ending.
fn runs() -> [Value; 2] {
    let run = parsed(RUN);
    let shards = ENDINGS.map(|ending| {
        let mut shard = json!({"ending": parsed(ending), "launches": 1});
        for key in [
            "gates",
            "created",
            "seed",
            "comparison",
            "machine",
            "builds",
            "stored",
            "elapsed_s",
        ] {
            shard[key] = run[key].clone();
        }
        shard
    });
    let mut merged = run.clone();
    merged["format"] = json!("infergate-run/2");
    merged["extent"] = json!({"what": "merged", "shards": shards});
    [run, merged]
}

fn read_run(run: &Value) -> Result<RunRecord, serde_json::Error> {
    serde_json::from_value(run.clone())
}

/// The value and all values in it.
fn within(value: &Value) -> Vec<&Value> {
    let inner: Vec<&Value> = match value {
        Value::Array(items) => items.iter().collect(),
        Value::Object(entries) => entries.values().collect(),
        _ => Vec::new(),
    };
    once(value)
        .chain(inner.into_iter().flat_map(within))
        .collect()
}

fn keys_of(table: &Value) -> Option<BTreeSet<&str>> {
    let keys = table.as_object()?.keys();
    Some(keys.map(String::as_str).collect())
}

#[test]
fn runs_have_the_readers_keys() {
    let schema = closed(&Schema::read("run"));
    let runs = runs();
    for run in &runs {
        let read = read_run(run).unwrap();
        assert_eq!(&serde_json::to_value(read).unwrap(), run);
        assert_eq!(schema.errors_in(run), [""; 0]);
    }
    // `Debug` shows a field even where it is not written.
    let mut first = runs[0].clone();
    for list in ["calibration", "launches"] {
        first[list].as_array_mut().unwrap().truncate(1);
    }
    for list in ["samples", "suites"] {
        let list = first["launches"][0][list].as_array_mut().unwrap();
        list.truncate(1);
    }
    let shown = format!("{:#?}", read_run(&first).unwrap());
    let unset = |line: &&str| LEFT_OUT.iter().any(|end| line.ends_with(end));
    let unset: Vec<&str> = shown.lines().filter(unset).collect();
    assert_eq!(unset, [""; 0], "fields that RUN lacks");

    let values = runs.iter().flat_map(within);
    let mut tables: BTreeSet<BTreeSet<&str>> = values.filter_map(keys_of).collect();
    // The extent of a whole run is not written.
    tables.insert(BTreeSet::from(["what"]));
    let described = within(&schema.document).into_iter();
    for table in described.filter(|table| table["additionalProperties"] == false) {
        let keys = keys_of(&table["properties"]).unwrap();
        assert!(tables.contains(&keys), "{keys:?}");
    }
}

/// The value with one thing wrong, missing or added, after its place.
fn edits(value: &Value) -> Vec<(String, Value)> {
    let mut all = Vec::new();
    let mut put = |place: &str, edited: Value| all.push((place.to_owned(), edited));
    match value {
        Value::Null => {}
        Value::Bool(_) => put(" as text", json!("true")),
        Value::Number(_) => {
            put(" as text", json!("1"));
            put(" below 0", json!(-1));
            put(" as a fraction", json!(0.5));
        }
        // Not a whole one: serde takes the number of a variant for its name.
        Value::String(_) => put(" as a number", json!(0.5)),
        Value::Array(items) => {
            put(" as text", json!("x"));
            if let Some((last, others)) = items.split_last() {
                put(" without its last item", json!(others));
                put(
                    " with its last item twice",
                    json!([items.as_slice(), from_ref(last)].concat()),
                );
            }
            for (i, item) in items.iter().enumerate() {
                for (place, edited) in edits(item) {
                    let mut items = items.clone();
                    items[i] = edited;
                    put(&format!("/{i}{place}"), Value::Array(items));
                }
            }
        }
        Value::Object(entries) => {
            put(" as text", json!("x"));
            let mut more = entries.clone();
            more.insert("zzzzzz".to_owned(), json!(1));
            put(" with a further key", Value::Object(more));
            for (key, entry) in entries {
                let mut fewer = entries.clone();
                fewer.remove(key);
                put(&format!("/{key} removed"), Value::Object(fewer));
                for (place, edited) in edits(entry) {
                    let mut entries = entries.clone();
                    entries[key] = edited;
                    put(&format!("/{key}{place}"), Value::Object(entries));
                }
            }
        }
    }
    all
}

#[test]
fn mistakes_in_runs_are_refused_as_by_the_reader() {
    let schema = Schema::read("run");
    let [run, merged] = runs();
    let of_extent = edits(&merged["extent"]).into_iter().map(|(place, extent)| {
        let mut edited = merged.clone();
        edited["extent"] = extent;
        (format!("/extent{place}"), edited)
    });
    for (place, edited) in edits(&run).into_iter().chain(of_extent) {
        let read = read_run(&edited);
        let is_valid = schema.validator.is_valid(&edited);
        assert_eq!(is_valid, read.is_ok(), "{place}: {:?}", read.err());
    }
}

/// The names in an `enum`, or those that tell apart what is in `oneOf`.
fn names(schema: &Schema, place: &str) -> BTreeSet<String> {
    let Some(variants) = schema.at(place)["oneOf"].as_array() else {
        return schema.choices(place);
    };
    let name = |variant| {
        let mut values = within(variant).into_iter();
        let name = values.find_map(|value| value.get("const")?.as_str());
        name.unwrap().to_owned()
    };
    variants.iter().map(name).collect()
}

#[test]
fn choices_in_runs_are_the_readers() {
    let schema = Schema::read("run");
    for (place, of_schema) in CHOICES {
        let mut run = parsed(RUN);
        *run.pointer_mut(place).unwrap() = json!("zzzzzz");
        let error = read_run(&run).unwrap_err().to_string();
        let known = error.split('`').skip(3).step_by(2);
        let known: BTreeSet<String> = known.map(str::to_owned).collect();
        assert_eq!(
            names(&schema, &format!("/$defs/{of_schema}")),
            known,
            "{place}: {error}"
        );
    }
}

/// Two shards, and the record that they are merged to.
fn written_runs() -> [Value; 3] {
    let _alone = alone();
    let project = Project::without_build();
    let looks = "looks = [3, 4, 5, 6, 7, 8, 10]";
    project.edit("gates/gate.toml", looks, "looks = [4]");
    for gate in ["one", "two"] {
        project.write(&format!("gates/{gate}.toml"), START);
    }
    for gate in ["one", "two"] {
        let check = [
            "check",
            "--gate",
            gate,
            "--together",
            "one two",
            "--out",
            gate,
        ];
        project.run(&check).expect(0);
    }
    let merge = ["shard", "merge", "one", "two", "--out", "both"];
    project.run(&merge).expect(0);
    ["one", "two", "both"].map(|folder| parsed(&project.read(&format!("{folder}/run.json"))))
}

#[test]
fn runs_are_valid_and_mistakes_in_them_are_refused() {
    let schema = Schema::read("run");
    let closed = closed(&schema);
    let oldest = fs::read_to_string(repository().join("tests/data/run-v1.json")).unwrap();
    let oldest = parsed(&oldest);
    for run in once(oldest.clone()).chain(written_runs()) {
        assert_eq!(closed.errors_in(&run), [""; 0], "{}", run["created"]);
    }
    let sample = "/launches/0/samples/0";
    for (place, key, mistake) in [
        ("", "format", Some(json!("infergate-run/2"))),
        ("", "comparison", Some(json!("interleave"))),
        ("", "launches", None),
        (sample, "index", Some(json!("1"))),
        (sample, "stamps", None),
    ] {
        let mut run = oldest.clone();
        let table = run.pointer_mut(place).unwrap().as_object_mut().unwrap();
        table.remove(key);
        table.extend(mistake.map(|value| (key.to_owned(), value)));
        assert!(!schema.errors_in(&run).is_empty(), "{place} {key}");
    }
    // A later gate may add a key: it is an error where the schema describes all.
    for place in ["", sample] {
        let mut run = oldest.clone();
        run.pointer_mut(place).unwrap()["zzzzzz"] = json!(1);
        assert_eq!(schema.errors_in(&run), [""; 0], "{place}");
        assert!(!closed.errors_in(&run).is_empty(), "{place}");
    }
}
