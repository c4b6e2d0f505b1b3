//! Imported requests as a session's record: one file a launch, so that the judge can treat them as our own.

use super::{Imported, NO_LAUNCHES, Request};
use verdict::record::{
    Arm, Build, Comparison, Ending, Exit, Extent, Input, Interleave, Launch, Machine, Phase,
    RUN_FORMAT, RunRecord, Sample, Stamps, Startup, Telemetry, TokenCounts, UNKNOWN_MACHINE, Void,
};

/// The gate, the profile and the workload of an imported session.
const GATE: &str = "imported";
const PROFILE: &str = "imported";
const WORKLOAD: &str = "imported/bench";

const PROJECT: &str = r#"# Made by `gate dev import`: no engine is started from this.
[engine]
model = "imported"
serve = ["true", "{port}"]
ready_timeout = "1 s"
request_timeout = "1 s"

[profile.imported]
looks = [4, 6, 8, 12, 16]
budget = "1 s"

[errors]
false_alarm = "2 %"
false_pass = "1.5 %"

[baseline]
directory = ".gate/baseline"
max_age = "14 days"
"#;

/// The files of one arm, one a launch, in order.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    pub arm: Arm,
    pub launches: Vec<Imported>,
}

/// Puts a batch into the record: the arm's launches that were there are replaced. `None` begins a record.
/// The launch number i of each arm makes block i. Every import must be judgeable and hold a sound request.
pub fn record(earlier: Option<RunRecord>, batch: &Batch, tool: String, now: String) -> RunRecord {
    let mut record = earlier.unwrap_or_else(|| empty(tool, now));
    record.launches.retain(|launch| launch.arm != batch.arm);
    record.builds.retain(|build| build.arm != batch.arm);
    record.builds.push(build(batch));
    let launches = batch.launches.iter().zip(0..);
    record
        .launches
        .extend(launches.map(|(import, block)| launch(batch.arm, block, import)));
    record
        .launches
        .sort_by_key(|launch| (launch.block, launch.arm));
    for (launch, position) in record.launches.iter_mut().zip(0..) {
        launch.position = position;
    }
    record.inputs = inputs(&record);
    record
}

/// A session of nothing yet, of a machine that nobody knows.
pub fn empty(tool: String, now: String) -> RunRecord {
    RunRecord {
        format: RUN_FORMAT.to_owned(),
        tool,
        created: now,
        profile: PROFILE.to_owned(),
        seed: 0,
        comparison: Comparison::Interleaved,
        machine: Machine {
            fingerprint: UNKNOWN_MACHINE.to_owned(),
            cpu: UNKNOWN_MACHINE.to_owned(),
            cores: 0,
            memory_bytes: 0,
            kernel: UNKNOWN_MACHINE.to_owned(),
            gpus: Vec::new(),
            isolation: None,
        },
        builds: Vec::new(),
        gates: vec![GATE.to_owned()],
        inputs: Vec::new(),
        changed_gates: None,
        stored: Vec::new(),
        calibration: Vec::new(),
        launches: Vec::new(),
        ending: Ending::LastLook,
        elapsed_s: 0.0,
        described: None,
        extent: Extent::Whole,
    }
}

fn build(batch: &Batch) -> Build {
    let first = batch.launches.first();
    let tool = first.map_or("", |import| import.tool.title());
    let model = first.and_then(|import| import.model.as_deref());
    let load = batch.launches.iter().find_map(|import| import.load.clone());
    let words = ["imported from", tool, model.unwrap_or("an unnamed model")].map(str::to_owned);
    Build {
        arm: batch.arm,
        commit: None,
        subject: None,
        dirty: false,
        artifact_sha256: None,
        // Not started by us: what is known of it stands in the place of a command.
        command: words.into_iter().chain(load).collect(),
        files: Vec::new(),
        build_s: 0.0,
        on_ci: None,
    }
}

/// Place of the load in a build's command.
const LOAD: usize = 3;

/// The other arm's load; `None` if its files do not name it.
pub fn load_of_other_arm(record: &RunRecord, arm: Arm) -> Option<String> {
    let build = record.builds.iter().find(|build| build.arm != arm)?;
    build.command.get(LOAD).cloned()
}

/// Requests in flight that the arms' loads name.
fn concurrency(record: &RunRecord) -> Option<usize> {
    let loads = record
        .builds
        .iter()
        .filter_map(|build| build.command.get(LOAD));
    let words = loads.flat_map(|load| load.split(", "));
    let mut streams = words.filter_map(|word| word.strip_prefix("max_concurrency "));
    streams.find_map(|streams| streams.parse().ok())
}

fn launch(arm: Arm, block: u32, import: &Imported) -> Launch {
    let starts = import.requests.iter().filter_map(|r| r.start_s);
    let begin = starts.fold(f64::INFINITY, f64::min);
    let mut samples: Vec<Sample> = import
        .requests
        .iter()
        .zip(0..)
        .map(|(request, index)| sample(request, index, begin))
        .collect();
    samples.sort_by_key(|sample| sample.stamps.send_ns);
    for (sample, index) in samples.iter_mut().zip(0..) {
        sample.index = index;
    }
    Launch {
        position: 0,
        block,
        arm,
        engine_args: Vec::new(),
        page_cache: None,
        interleave: Interleave::Launches,
        fingerprint: UNKNOWN_MACHINE.to_owned(),
        startup: Startup::default(),
        exit: Exit::Stopped,
        throttle_bits: None,
        log: String::new(),
        samples,
        clients: Vec::new(),
        telemetry: Some(lacking(import)),
        rest: None,
        beside: None,
        killed: false,
        suites: Vec::new(),
    }
}

/// Nothing was read beside it; what the tool's file lacks is said where such things are said.
fn lacking(import: &Imported) -> Telemetry {
    let missing = import.missing.iter().filter(|what| *what != NO_LAUNCHES);
    Telemetry {
        missing: missing.cloned().collect(),
        ..Telemetry::default()
    }
}

/// Stamps from the tool's durations. Without times of chunks there are two events, the first token and the
/// last: TTFT, TPOT and E2E need no more.
fn sample(request: &Request, index: u32, begin: f64) -> Sample {
    let start_ns = request.start_s.map_or(0, |start| ns((start - begin) * 1e3));
    let mut at = request.ttft_ms.unwrap_or(0.0);
    let moment = |at: f64| start_ns.saturating_add(ns(at));
    let mut events_ns = vec![moment(at)];
    if request.gaps_ms.is_empty() {
        let last = request
            .last_ms
            .filter(|_| request.output.is_some_and(|n| n > 1));
        events_ns.extend(last.map(moment));
    }
    for gap in &request.gaps_ms {
        at += gap;
        events_ns.push(moment(at));
    }
    let void = request.failed.as_ref().map(|detail| Void {
        rule: request.void_rule(),
        detail: detail.clone(),
    });
    if void.is_some() {
        events_ns.clear();
    }
    Sample {
        workload: WORKLOAD.to_owned(),
        index,
        phase: Phase::Measured,
        case: None,
        turn: None,
        streamed: true,
        setting: None,
        tokens: TokenCounts {
            prompt: request.prompt,
            completion: request.output,
            events: u32::try_from(events_ns.len()).unwrap_or(u32::MAX),
            ..TokenCounts::default()
        },
        stamps: Stamps {
            intended_ns: start_ns,
            send_ns: start_ns,
            done_ns: events_ns.last().copied(),
            events_ns,
            ..Stamps::default()
        },
        finish_reason: None,
        status: None,
        fields: Default::default(),
        timings: None,
        text: None,
        text_sha256: String::new(),
        logprobs: Vec::new(),
        void,
    }
}

/// The nearest nanosecond; a tool's file may say any number, and what does not fit becomes the greatest.
fn ns(ms: f64) -> u64 {
    (ms.max(0.0) * 1e6).round() as u64
}

/// The plan of the session: what was sent is told by the samples, so that it reads like any other.
fn inputs(record: &RunRecord) -> Vec<Input> {
    let sound = || {
        let samples = record.launches.iter().flat_map(|launch| &launch.samples);
        samples.filter(|sample| sample.void.is_none())
    };
    let longest = |count: &dyn Fn(&Sample) -> Option<u32>| {
        sound().filter_map(count).max().unwrap_or(1).max(1)
    };
    let sizes = record.launches.iter().map(|launch| launch.samples.len());
    let requests = sizes.max().unwrap_or(1).max(1);
    let gate = format!(
        r#"title = "Imported results"

[workload.bench]
kind = "steady"
requests = {}
warmup = 0
prompt_tokens = {}
output_tokens = {}
concurrency = {}

[[check]]
name = "ttft"
metric = "ttft"
rule = "regression"
margin = "2 %"
ceiling = "10 %"

[[check]]
name = "tpot"
metric = "tpot"
rule = "regression"
margin = "1 %"
ceiling = "5 %"
"#,
        requests,
        longest(&|s| s.tokens.prompt),
        longest(&|s| s.tokens.completion),
        concurrency(record)
            .unwrap_or(1)
            .clamp(1, requests.min(4096)),
    );
    [
        ("gates/gate.toml", PROJECT.to_owned()),
        ("gates/imported.toml", gate),
    ]
    .map(|(path, text)| Input {
        path: path.to_owned(),
        text,
    })
    .to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_beyond_all_clocks_stay_in_order() {
        let request = |start_s, last_ms, gaps_ms: &[f64]| Request {
            start_s: Some(start_s),
            ttft_ms: Some(5.0),
            last_ms: Some(last_ms),
            gaps_ms: gaps_ms.to_vec(),
            output: Some(2),
            ..Request::default()
        };
        for (request, expect) in [
            (request(1.0, 7.0, &[]), [1_005_000_000, 1_007_000_000]),
            (request(1.0, 7.0, &[2.0]), [1_005_000_000, 1_007_000_000]),
            (request(1e300, 7.0, &[2.0]), [u64::MAX; 2]),
            (request(1.0, 1e300, &[]), [1_005_000_000, u64::MAX]),
            (request(1.0, 7.0, &[1e300]), [1_005_000_000, u64::MAX]),
        ] {
            let sample = sample(&request, 0, 0.0);
            assert_eq!(sample.stamps.events_ns, expect, "{request:?}");
            assert!(sample.stamps.send_ns <= expect[0], "{request:?}");
        }
    }
}
