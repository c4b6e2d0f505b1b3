//! Limits on a record from another machine, checked before any of it is believed.
//!
//! Main function: [`sound`]. Whatever breaks a bound is refused with its place. Refuses to know: whether the numbers
//! are true; nothing can tell that from here.

use std::collections::{BTreeMap, BTreeSet};
use verdict::plan::Plan;
use verdict::record::{Build, Launch, RunRecord, Sample, SuiteRun, Test};

const LAUNCHES: usize = 10_000;
/// Tests of one suite, and bytes of a test's name or message: more than the reader of JUnit files keeps.
const TESTS: usize = 100_000;
const TEST_BYTES: usize = 4_096;
/// Words of a command, and stages of a start.
const WORDS: usize = 1_000;
/// Bytes of a commit's subject.
const SUBJECT: usize = 1_000;
/// Output tokens of all events together: each has a place in memory when `itl` is reduced.
const EVENT_TOKENS: u64 = 32_000_000;
/// Main's workloads by their ids, with the requests of one launch.
type Workloads<'a> = BTreeMap<&'a str, u64>;
/// Half a year in seconds: no session lasts so long.
const SECONDS: f64 = 15_768_000.0;

/// Refuses a record that contradicts itself or the plan that it is judged by.
pub fn sound(record: &RunRecord, plan: &Plan) -> Result<(), String> {
    if record.launches.len() > LAUNCHES {
        return Err(format!(
            "it has {} launches, more than {LAUNCHES}",
            record.launches.len()
        ));
    }
    duration("elapsed_s", record.elapsed_s)?;
    event_tokens(&record.launches)?;
    let planned = plan.gates.iter().flat_map(|gate| &gate.workloads);
    let workloads: Workloads<'_> = planned
        .map(|workload| (workload.id.as_str(), workload.kind.requests()))
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

fn event_tokens(launches: &[Launch]) -> Result<(), String> {
    let samples = launches.iter().flat_map(|launch| &launch.samples);
    let events = samples.flat_map(|sample| &sample.tokens.per_event);
    let tokens = events.fold(0_u64, |sum, n| sum.saturating_add(u64::from(*n)));
    match tokens > EVENT_TOKENS {
        true => Err(format!(
            "its events have {tokens} tokens, more than {EVENT_TOKENS}"
        )),
        false => Ok(()),
    }
}

/// Refuses two builds of an arm, and texts that no build has.
pub fn builds(builds: &[Build]) -> Result<(), String> {
    for (i, build) in builds.iter().enumerate() {
        if builds[..i].iter().any(|other| other.arm == build.arm) {
            return Err(format!("it has two builds of {}", build.arm.name()));
        }
        duration("build_s", build.build_s)?;
        if build.subject.as_ref().is_some_and(|s| s.len() > SUBJECT) {
            return Err(format!("a commit's subject has more than {SUBJECT} bytes"));
        }
        if build.command.len() > WORDS {
            return Err(format!("a command has more than {WORDS} words"));
        }
    }
    Ok(())
}

fn launch(launch: &Launch, workloads: &Workloads<'_>) -> Result<(), String> {
    log(&launch.log)?;
    if launch.startup.stages.len() > WORDS {
        return Err(format!("a start has more than {WORDS} stages"));
    }
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
    if let Some(beside) = &launch.beside {
        not_negative("beside.waited_s", beside.waited_s)?;
        not_negative("beside.cpu_s", beside.cpu_s)?;
    }
    for client in &launch.clients {
        known(&client.workload, workloads)?;
        fraction("ambiguous_share", client.ambiguous_share)?;
        fraction("kernel_share", client.kernel_share)?;
        not_negative("cpu_s", client.cpu_s)?;
        not_negative("wall_s", client.wall_s)?;
    }
    let mut tested = BTreeSet::new();
    for run in &launch.suites {
        known(&run.workload, workloads)?;
        if !tested.insert(run.workload.as_str()) {
            return Err(format!("{} was run twice", run.workload));
        }
        suite(run)?;
    }
    let mut seen = BTreeSet::new();
    for sample in &launch.samples {
        let (workload, index) = (sample.workload.as_str(), sample.index);
        self::sample(sample, workloads)
            .and_then(|()| match seen.insert((workload, index)) {
                true => Ok(()),
                false => Err(format!("{workload} has two of this index")),
            })
            .map_err(|why| format!("sample {index}: {why}"))?;
    }
    Ok(())
}

fn suite(run: &SuiteRun) -> Result<(), String> {
    log(&run.log)?;
    if run.tests.len() > TESTS {
        return Err(format!("{} has more than {TESTS} tests", run.workload));
    }
    let texts = |test: &Test| [Some(test.id.len()), test.message.as_ref().map(String::len)];
    let longest = run.tests.iter().flat_map(texts).flatten().max();
    match longest.is_some_and(|bytes| bytes > TEST_BYTES) {
        true => Err(format!(
            "a test of {} has a text of more than {TEST_BYTES} bytes",
            run.workload
        )),
        false => Ok(()),
    }
}

fn sample(sample: &Sample, workloads: &Workloads<'_>) -> Result<(), String> {
    let requests = known(&sample.workload, workloads)?;
    if u64::from(sample.index) >= requests {
        let workload = &sample.workload;
        return Err(format!(
            "main's gates ask for {requests} requests of {workload} a launch"
        ));
    }
    if let Some(timings) = &sample.timings {
        not_negative("prompt_ms", timings.prompt_ms)?;
        not_negative("predicted_ms", timings.predicted_ms)?;
    }
    Ok(())
}

/// The requests of one launch that main's gates send of it.
fn known(workload: &str, workloads: &Workloads<'_>) -> Result<u64, String> {
    if let Some(requests) = workloads.get(workload) {
        return Ok(*requests);
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
    use verdict::record::{SuiteEnding, TestOutcome};

    #[test]
    fn a_run_of_tests_has_bounds() {
        let test = |bytes| Test {
            id: "x".repeat(bytes),
            outcome: TestOutcome::Passed,
            message: None,
        };
        let run = |log: &str, tests: Vec<Test>| SuiteRun {
            workload: "gate/tests".into(),
            begun_ns: 0,
            ended_ns: 0,
            ending: SuiteEnding::Succeeded,
            log: log.into(),
            log_tail: String::new(),
            tests,
            unread: None,
        };
        let log = "logs/tests-000-head-0.log";
        assert_eq!(suite(&run(log, vec![test(10)])), Ok(()));
        for (log, tests, why) in [
            ("../x", vec![], "no plain path"),
            (log, vec![test(TEST_BYTES + 1)], "a text of more than"),
            (log, vec![test(1); TESTS + 1], "more than 100000 tests"),
        ] {
            let refused = suite(&run(log, tests)).unwrap_err();
            assert!(refused.contains(why), "{refused}");
        }
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
