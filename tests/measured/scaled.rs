//! Gates whose clocks are scaled, so that a session of hours takes seconds.

use fixture::Project;
use toml::{Table, Value as Toml};

/// Turns of a session, and those of them that warm up; requests of a soak.
const TURNS: i64 = 24;
const WARMUP_TURNS: i64 = 8;
const REQUESTS: i64 = 60;

/// Of an answer.
const OUTPUT_TOKENS: i64 = 16;

/// Of a matrix, and of users.
const PASSES: i64 = 2;

/// Replaces a value, or that of each profile; milliseconds stay.
fn replace(work: &mut Table, key: &str, new: &Toml) {
    let replace = |value: &mut Toml| {
        if !value.as_str().is_some_and(|text| text.ends_with(" ms")) {
            value.clone_from(new);
        }
    };
    match work.get_mut(key) {
        Some(Toml::Table(by_profile)) => {
            by_profile.iter_mut().for_each(|(_, value)| replace(value))
        }
        Some(value) => replace(value),
        None => {}
    }
}

/// Shortens the gate's sessions, its soak, its answers and its passes, in every profile.
pub fn scale(project: &Project, gate: &str) {
    let file = format!("gates/{gate}.toml");
    let mut table: Table = project.read(&file).parse().unwrap();
    for (_, work) in table["workload"].as_table_mut().unwrap().iter_mut() {
        let work = work.as_table_mut().unwrap();
        let scaled: &[(&str, Toml)] = match work["kind"].as_str().unwrap() {
            // An engine that is still prefilling when the next turn comes holds a prompt's pages all the time, not a
            // window's: the turns stay further apart than the last of them takes.
            "session" => &[
                ("spacing", "150 ms".into()),
                ("duration", "30 s".into()),
                ("turns", TURNS.into()),
                ("warmup_turns", WARMUP_TURNS.into()),
            ],
            "mixed" => &[
                ("requests", REQUESTS.into()),
                ("warmup", REQUESTS.into()),
                ("rate", "20 requests/s".into()),
            ],
            "steady" => &[("output_tokens", OUTPUT_TOKENS.into())],
            "matrix" | "staggered" => &[
                ("output_tokens", OUTPUT_TOKENS.into()),
                ("passes", PASSES.into()),
            ],
            _ => &[],
        };
        scaled
            .iter()
            .for_each(|(key, value)| replace(work, key, value));
    }
    project.write(&file, &table.to_string());
}
