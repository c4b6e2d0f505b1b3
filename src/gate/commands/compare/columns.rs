//! `gate compare`: results of any origin, or engines launched for it, become columns of one table.

use super::caveats;
use crate::commands::import::convert;
use crate::figures::{self, Column, LoadResult, MOST_RUNS, Origin, Row, Table};
use crate::report::foreign;
use crate::session::files::{ResultsError, read_json, read_text};
use crate::session::{Error, results};
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use verdict::metrics::{self, run_numbers};
use verdict::plan::{self, Check, Part, Plan, Rule, Slo, Workload, WorkloadKind};
use verdict::record::{Arm, Launch, Metric, Phase, RUN_FORMAT, RunRecord, Sample, Statistic};
use verdict::stats;

/// One result to compare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// A result directory, or a file: `run.json`, the JSON of `gate load`, or another tool's.
    pub path: PathBuf,
    /// What stands above its column; `None`: named after the path.
    pub name: Option<String>,
    /// Remarks of whoever compares: quantised, another machine, …
    pub tags: Vec<String>,
}

/// Reads every result and compares them with the first. `workload` chooses one of a session that has several.
pub fn compare_files(sources: &[Source], workload: Option<&str>) -> Result<Table, Error> {
    let mut columns = Vec::new();
    for source in sources {
        for mut column in read(source, workload)? {
            column.remarks.extend(source.tags.iter().cloned());
            columns.push(column);
        }
    }
    Ok(compared(columns))
}

/// The columns beside one another; their texts may be from anywhere.
pub fn compared(mut columns: Vec<Column>) -> Table {
    for column in &mut columns {
        column.map_texts(foreign);
    }
    figures::compare(&columns)
}

/// A sweep has a column for each step; every other result has one.
fn read(source: &Source, workload: Option<&str>) -> Result<Vec<Column>, Error> {
    let name = source.name.clone().unwrap_or_else(|| named(&source.path));
    if source.path.is_dir() {
        let record = results::read_record(&source.path)?;
        return Ok(vec![of_record(name, &record, workload)?]);
    }
    let path = &source.path;
    let text = read_text(path)?;
    let not_json = |source| ResultsError::Json {
        path: path.clone(),
        source,
    };
    // What is no JSON document may still be lines of them.
    let json: Value = serde_json::from_str(&text).unwrap_or_default();
    let is_run = json.get("launches").is_some() && json.get("format").is_some();
    if is_run {
        let record = read_json(path, RUN_FORMAT)?;
        return Ok(vec![of_record(name, &record, workload)?]);
    }
    if json.get("ttft_ms").is_some() && json.get("requests").is_some() {
        let load: LoadResult = serde_json::from_value(json).map_err(not_json)?;
        return Ok(vec![load.column(name)]);
    }
    if let Some(steps) = json.get("steps") {
        return Ok(figures::steps(&name, &loads(path, "steps", steps)?));
    }
    if let Some(runs) = json.get("runs") {
        return Ok(vec![figures::repeats(name, &loads(path, "runs", runs)?)]);
    }
    let imported = convert::parse(path, &text, None)?;
    Ok(vec![imported.load_result().column(name)])
}

/// The runs of `gate load` that a file holds under this key.
fn loads(path: &Path, key: &str, runs: &Value) -> Result<Vec<LoadResult>, Error> {
    let refused = |cause: String| Error::Usage(format!("{}: {cause}", path.display()));
    let wrong = "give the JSON of `gate load` as it was printed";
    let runs = runs.as_array().map_or(&[][..], Vec::as_slice);
    if runs.is_empty() || runs.len() > MOST_RUNS {
        let count = runs.len();
        return Err(refused(format!(
            "its `{key}` hold {count} runs, and 1 to {MOST_RUNS} can be read; {wrong}"
        )));
    }
    let read = |(number, run): (u32, &Value)| {
        LoadResult::deserialize(run).map_err(|error| {
            let error = foreign(&error.to_string());
            refused(format!("number {number} of its `{key}`: {error}; {wrong}"))
        })
    };
    (1..).zip(runs).map(read).collect()
}

/// The file's name without its ending; a result directory's, for its `run.json`.
fn named(path: &Path) -> String {
    let stem = |path: &Path| path.file_stem().map(|s| s.to_string_lossy().into_owned());
    let own = stem(path);
    let own = match own.as_deref() {
        Some("run") => path.parent().and_then(stem).filter(|name| !name.is_empty()),
        _ => own,
    };
    own.unwrap_or_else(|| path.display().to_string())
}

/// Head's launches of a session as a column.
pub fn of_record(
    name: String,
    record: &RunRecord,
    workload: Option<&str>,
) -> Result<Column, Error> {
    let plan = plan::from_record(record).map_err(ResultsError::from)?;
    let launches: Vec<&Launch> = record
        .launches
        .iter()
        .filter(|launch| launch.arm == Arm::Head)
        .collect();
    let workload = choose(&name, &plan, workload)?;
    let count = u32::try_from(launches.len()).unwrap_or(u32::MAX);
    let mut column = Column::new(name, Origin::Launches(count));
    // Of an imported session nobody knows the machine, of which two are not one, nor any start.
    if !record.is_imported() {
        column.machine = Some(record.machine.fingerprint.clone());
        figures::cold(&mut column, &launches);
    }
    if let Some(workload) = workload {
        warm(&mut column, &launches, workload);
    }
    column.unsound = caveats::unsound(record, column.sent, column.void);
    column
        .remarks
        .extend(caveats::of_record(record, &plan.engine, workload));
    if let Some(described) = &record.described {
        column.model.clone_from(&described.model);
        column.prompts.clone_from(&described.prompts);
        column.quantised.clone_from(&described.quantised);
        column.precision.clone_from(&described.precision);
        column.remarks.extend(described.tags.iter().cloned());
    }
    Ok(column)
}

/// The workload whose requests make the warm half: the one asked for, or the only one of its kind. `None`: the plan is
/// about starts alone.
pub fn choose<'a>(
    name: &str,
    plan: &'a Plan,
    asked: Option<&str>,
) -> Result<Option<&'a Workload>, Error> {
    let independent = |workload: &&Workload| {
        matches!(
            workload.kind,
            WorkloadKind::Steady(_) | WorkloadKind::Mixed(_) | WorkloadKind::Trace(_)
        )
    };
    let all: Vec<&Workload> = plan.gates.iter().flat_map(|gate| &gate.workloads).collect();
    let fitting: Vec<&Workload> = match asked {
        Some(asked) => all.iter().copied().filter(|w| w.id == asked).collect(),
        None => all.iter().copied().filter(independent).collect(),
    };
    let is_start = |workload: &&Workload| matches!(workload.kind, WorkloadKind::FirstRequest(_));
    match fitting.as_slice() {
        [one] => Ok(Some(one)),
        [] if asked.is_none() && all.iter().any(is_start) => Ok(None),
        [] | [_, _, ..] => {
            let ids: BTreeSet<&str> = all.iter().map(|workload| workload.id.as_str()).collect();
            let ids: Vec<&str> = ids.into_iter().collect();
            Err(Error::Usage(format!(
                "{name}: name the workload to compare with --workload; the session has {}",
                ids.join(", ")
            )))
        }
    }
}

/// Fills the warm rows: the median over launches, and over each round's, of each launch's own value.
fn warm(column: &mut Column, launches: &[&Launch], workload: &Workload) {
    let mut put = |row, metric, statistic| {
        let check = reading(workload, metric, statistic);
        let clean = launches.iter().filter(|launch| launch.exit.is_clean());
        let values = clean.filter_map(|launch| {
            let measure = metrics::measure(&check, workload, launch).ok()?;
            Some((launch.block, measure.value))
        });
        column.put_rounds(row, values.collect());
    };
    put(Row::TtftMedian, Metric::Ttft, Statistic::Median);
    put(Row::TtftP99, Metric::Ttft, Statistic::P99);
    put(Row::TpotMedian, Metric::Tpot, Statistic::Median);
    put(Row::ItlP99, Metric::Itl, Statistic::P99);
    put(Row::E2eMedian, Metric::E2e, Statistic::Median);
    put(Row::Throughput, Metric::Throughput, Statistic::Single);
    column.requests = requests(launches, workload);
    let samples: Vec<&Sample> = launches
        .iter()
        .flat_map(|launch| &launch.samples)
        .filter(|s| s.workload == workload.id && s.phase == Phase::Measured)
        .collect();
    let sound = || samples.iter().filter(|sample| sample.void.is_none());
    column.sent = samples.len() as u64;
    column.void = (samples.len() - sound().count()) as u64;
    let mean = |values: Vec<u32>| {
        let values: Vec<f64> = values.into_iter().map(f64::from).collect();
        stats::mean(&values)
    };
    column.prompt_tokens = mean(sound().filter_map(|s| s.tokens.prompt).collect());
    column.output_tokens = mean(sound().filter_map(|s| s.tokens.completion).collect());
}

/// Times of single requests, by round and number.
fn requests(launches: &[&Launch], workload: &Workload) -> BTreeMap<Row, BTreeMap<(u32, u32), f64>> {
    let mut found: BTreeMap<Row, BTreeMap<(u32, u32), f64>> = BTreeMap::new();
    for launch in launches.iter().filter(|launch| launch.exit.is_clean()) {
        let samples = launch.samples.iter();
        for sample in samples.filter(|sample| sample.workload == workload.id) {
            let numbers = run_numbers(std::slice::from_ref(sample), None, &Slo::default());
            for (row, values) in [
                (Row::TtftMedian, numbers.ttft_ms),
                (Row::TpotMedian, numbers.tpot_ms),
                (Row::E2eMedian, numbers.e2e_ms),
            ] {
                let value = values.first().map(|ms| ((launch.block, sample.index), *ms));
                found.entry(row).or_default().extend(value);
            }
        }
    }
    found
}

/// A check that only reads: its rule is never asked.
pub fn reading(workload: &Workload, metric: Metric, statistic: Statistic) -> Check {
    Check {
        id: String::new(),
        workload: workload.id.clone(),
        part: Part::default(),
        metric,
        statistic,
        rule: Rule::Ceiling {
            limit: f64::INFINITY,
        },
        min_samples: 1,
        line: 0,
    }
}
