//! Mistakes that a schema must refuse, as the gate does.

use super::every_key::PROJECT;
use super::{Schema, replaced};
use fixture::repository;
use std::fs;

/// Edits of gates/tpot.toml.
const MISTAKES_IN_A_GATE: [(&str, &str); 19] = [
    ("title = \"Time per output token\"", ""),
    ("title = \"Time per output token\"", "title = 1"),
    ("kind = \"steady\"", "kind = \"stedy\""),
    ("kind = \"steady\"", "kind = \"matrix\""),
    ("concurrency = 1", ""),
    ("concurrency = 1", "concurrency = 0"),
    ("concurrency = 1", "concurrency = \"1\""),
    ("concurrency = 1", "concurency = 1"),
    (
        "concurrency = 1",
        "concurrency = 1\nrate = \"1 requests/s\"",
    ),
    (
        "concurrency = 1",
        "arrivals = \"gamma\"\nrate = \"1 requests/s\"",
    ),
    (
        "{ quick = 100, full = 80 }",
        "{ quick = 100, full = \"80\" }",
    ),
    ("metric = \"e2e\"", "metric = \"e2ee\""),
    ("metric = \"e2e\"", "metric = \"stage\""),
    ("margin = \"1 %\"", "margn = \"1 %\""),
    ("margin = \"1 %\"", "margin = \"1 %\"\nlimit = \"1 s\""),
    ("margin = \"1 %\"", "margin = 1"),
    ("limit = \"15 ms\"", "limit = \"15 parsecs\""),
    ("limit = \"15 ms\"", "limit = \"15\""),
    ("limit = \"15 ms\"", ""),
];

#[test]
fn mistakes_in_a_gate_are_refused() {
    let schema = Schema::read("gate");
    let text = fs::read_to_string(repository().join("gates/tpot.toml")).unwrap();
    for (from, to) in MISTAKES_IN_A_GATE {
        let errors = schema.errors(&replaced(&text, from, to));
        assert!(!errors.is_empty(), "{from} → {to}");
    }
}

/// Edits of [`PROJECT`].
const MISTAKES_IN_A_PROJECT: [(&str, &str); 13] = [
    ("model = \"m\"", ""),
    ("model = \"m\"", "model = \"m\"\nchat = \"true\""),
    (
        "model = \"m\"",
        "model = \"m\"\nrequest = { temperature = 1 }",
    ),
    ("\"{port}\"", "\"8000\""),
    ("looks = [4]", "looks = [3]"),
    ("looks = [4]", "looks = [2, 4]"),
    ("looks = [4]", "looks = { quick = [4] }"),
    ("budget = \"1 h\"", "budgt = \"1 h\""),
    ("[errors]", "[erors]"),
    ("\"14 days\"", "\"14 days\"\nstore = \"ftp://x\""),
    ("[host]", "[host]\nsandbox = \"jail\""),
    (
        "[github]",
        "[github]\nworkflow = \".github/workflows/gate.yml\"",
    ),
    ("[\"src/**\"]", "[\"!src/**\"]"),
];

#[test]
fn mistakes_in_a_project_are_refused() {
    let schema = Schema::read("project");
    for (from, to) in MISTAKES_IN_A_PROJECT {
        let errors = schema.errors(&replaced(PROJECT, from, to));
        assert!(!errors.is_empty(), "{from} → {to}");
    }
}
