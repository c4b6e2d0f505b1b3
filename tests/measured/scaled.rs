//! Gates whose clocks are scaled, so that a session of hours takes seconds.

use fixture::Project;
use toml::{Table, Value as Toml};

/// Requests of a soak, and as many to warm up.
const REQUESTS: i64 = 60;

/// Output tokens of an answer.
const OUTPUT_TOKENS: i64 = 16;

/// Tokens of the prefill beside which `answers` asks.
const BESIDE_TOKENS: i64 = 64;

/// Passes over a matrix, and over staggered users.
const PASSES: i64 = 2;

/// Bound of an objective on a machine that builds and tests beside the engine: how fast it is is not the matter here.
const SLOW: &str = "20 s";

/// Applies `change` to a value, or to that of each profile.
fn change(work: &mut Table, key: &str, change: impl Fn(&mut Toml)) {
    match work.get_mut(key) {
        Some(Toml::Table(by_profile)) => by_profile.iter_mut().for_each(|(_, value)| change(value)),
        Some(value) => change(value),
        None => {}
    }
}

/// Divides a quantity, as `30 s`, by 200.
fn closer(quantity: &mut Toml) {
    let (number, unit) = quantity.as_str().unwrap().split_once(' ').unwrap();
    let number = number.parse::<f64>().unwrap() / 200.0;
    *quantity = Toml::String(format!("{number} {unit}"));
}

/// Divides a number of turns, and keeps at least this many.
fn fewer(part: i64, least: i64) -> impl Fn(&mut Toml) {
    move |turns| *turns = Toml::Integer((turns.as_integer().unwrap() / part).max(least))
}

/// Divides contexts by eight.
fn shorter(contexts: &mut Toml) {
    for context in contexts.as_array_mut().unwrap() {
        fewer(8, 16)(context);
    }
}

/// Shortens the gate's sessions, its soak, its answers, its contexts and its passes, in every profile, and widens its
/// objectives.
pub fn scale(project: &Project, gate: &str) {
    let file = format!("gates/{gate}.toml");
    let mut table: Table = project.read(&file).parse().unwrap();
    let checks = table["check"].as_array().unwrap();
    let names_contexts = checks.iter().any(|check| check.get("context").is_some());
    let of_tail = |check: &Toml| check.get("statistic").and_then(Toml::as_str) == Some("p99");
    let has_tail = checks.iter().any(of_tail);
    for (_, work) in table["workload"].as_table_mut().unwrap().iter_mut() {
        let work = work.as_table_mut().unwrap();
        let scaled: &[(&str, Toml)] = match work["kind"].as_str().unwrap() {
            "mixed" => &[
                ("requests", REQUESTS.into()),
                ("warmup", REQUESTS.into()),
                ("rate", "20 requests/s".into()),
            ],
            "answers" => &[("beside_tokens", BESIDE_TOKENS.into())],
            "steady" => &[("output_tokens", OUTPUT_TOKENS.into())],
            "matrix" | "staggered" => &[
                ("output_tokens", OUTPUT_TOKENS.into()),
                ("passes", PASSES.into()),
            ],
            _ => &[],
        };
        for (key, value) in scaled {
            change(work, key, |old| old.clone_from(value));
        }
        match work["kind"].as_str().unwrap() {
            "steady" if !has_tail => change(work, "requests", fewer(2, 20)),
            "matrix" if !names_contexts => change(work, "contexts", shorter),
            _ => {}
        }
        // While it prefills an engine holds a prompt's pages, not a window's: the turns stay much further apart than the
        // last of them takes, and the window is full when the warm-up ends.
        if work["kind"].as_str() == Some("session") {
            change(work, "spacing", closer);
            change(work, "duration", closer);
            change(work, "turns", fewer(8, 24));
            change(work, "warmup_turns", fewer(2, 3));
        }
    }
    for check in table["check"].as_array_mut().unwrap() {
        if let Some(bounds) = check.get_mut("slo") {
            let bounds = bounds.as_table_mut().unwrap();
            bounds
                .iter_mut()
                .for_each(|(_, bound)| *bound = SLOW.into());
        }
    }
    project.write(&file, &table.to_string());
}
