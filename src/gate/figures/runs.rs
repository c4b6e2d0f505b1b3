//! Several runs of `gate load` in one file: the steps of a sweep, and one load several times.
//!
//! Main functions: [`steps`], a column for each; [`repeats`], one column of all.

use super::column::{differ, tokens};
use super::{Column, LoadResult, Origin, Row};
use serde_json::Value;
use std::collections::BTreeSet;
use verdict::stats;

/// Most runs that are read from one file.
pub const MOST_RUNS: usize = 1_000;

/// The column of each step of a sweep, named after the file and the step's load.
pub fn steps(name: &str, steps: &[LoadResult]) -> Vec<Column> {
    let columns = (1..).zip(steps).map(|(number, step)| {
        let pace = |key: &str| step.parameters.get(key).and_then(Value::as_f64);
        let pace = match (pace("concurrency"), pace("rate")) {
            (Some(streams), _) => format!("c={streams}"),
            (None, Some(rate)) => format!("rate={rate}"),
            (None, None) => format!("step {number}"),
        };
        step.column(format!("{name} {pace}"))
    });
    columns.collect()
}

/// One load several times: each value is the median over the runs, and the runs are its rounds. Runs that are not of
/// one load, or of which one is unsound, make the column unsound.
pub fn repeats(name: String, runs: &[LoadResult]) -> Column {
    let single: Vec<Column> = runs.iter().map(|run| run.column(String::new())).collect();
    let mut column = Column::new(name, Origin::Load(runs.len()));
    column.model = runs.first().and_then(|run| run.model.clone());
    column.sent = single.iter().map(|run| run.sent).sum();
    column.void = single.iter().map(|run| run.void).sum();
    let mean = |of: fn(&Column) -> Option<f64>| {
        let values: Option<Vec<f64>> = single.iter().map(of).collect();
        stats::mean(&values?)
    };
    column.prompt_tokens = mean(|run| run.prompt_tokens);
    column.output_tokens = mean(|run| run.output_tokens);
    for row in Row::ALL {
        let values = (0..).zip(&single);
        let values = values.filter_map(|(round, run)| Some((round, *run.values.get(&row)?)));
        let values: Vec<(u32, f64)> = values.collect();
        // A median of some of the runs would not be the load's.
        if values.len() == single.len() {
            column.put_rounds(row, values);
        } else if single.iter().any(|run| run.withheld.contains(&row)) {
            column.withheld.insert(row);
        }
    }
    column.unsound = unequal(runs);
    for (number, run) in (1..).zip(&single) {
        let of_run = |text: &String| format!("run {number}: {text}");
        column.unsound.extend(run.unsound.iter().map(of_run));
        column.remarks.extend(run.remarks.iter().map(of_run));
    }
    column
}

/// In what the runs differ, though one load has one setting.
fn unequal(runs: &[LoadResult]) -> Vec<String> {
    let Some((first, others)) = runs.split_first() else {
        return Vec::new();
    };
    let mut found = BTreeSet::new();
    for other in others {
        if other.model != first.model {
            found.insert("its runs are of different models".to_owned());
        }
        let keys = first.parameters.keys().chain(other.parameters.keys());
        for key in keys.filter(|key| first.parameters.get(*key) != other.parameters.get(*key)) {
            found.insert(format!("its runs are not of one load: `{key}` differs"));
        }
        let (own, of_first) = (other.output_tokens.mean, first.output_tokens.mean);
        if differ(own, of_first) {
            found.insert(format!(
                "its runs did different work: {} output tokens an answer in one, {} in another",
                tokens(of_first),
                tokens(own)
            ));
        }
    }
    found.into_iter().collect()
}
