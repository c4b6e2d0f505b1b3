//! Records that were made for their cause.

use super::{directory, explain};
use fixture::gate;
use fixture::records::{self, blocks, noise};
use verdict::record::{
    Arm, Comparison, EngineReading, Exit, GpuReading, Input, Launch, Reading, RunRecord, Sample,
    ServerTimings, Stamps, Telemetry, TokenCounts, TokenLogprob,
};

const PROJECT: &str = r#"
[engine]
model = "m"
serve = ["engine", "{port}"]
ready_timeout = "60 s"
request_timeout = "20 s"

[profile.test]
looks = [4, 6]
budget = "60 s"

[errors]
false_alarm = "2 %"
false_pass = "5 %"

[baseline]
directory = "baseline"
max_age = "14 days"
"#;

const LATENCY: &str = r#"
title = "Latency"

[workload.work]
kind = "steady"
requests = 30
warmup = 0
prompt_tokens = 8
output_tokens = 5
concurrency = 1

[[check]]
name = "tpot"
metric = "tpot"
rule = "regression"
margin = "1 %"
ceiling = "3 %"

[[check]]
name = "ttft"
metric = "ttft"
rule = "regression"
margin = "2 %"
ceiling = "5 %"
"#;

const GOLDENS: &str = r#"
title = "Goldens"

[workload.work]
kind = "goldens"
file = "data/goldens.json"
top_k = 2
near_tie = "0.01 nats"
launches = 1

[[check]]
name = "greedy"
metric = "golden_mismatches"
rule = "ceiling"
limit = "0 cases"
"#;

fn record(gate: &str, data: &[(&str, String)], launches: Vec<Launch>) -> RunRecord {
    let input = |path: &str, text: &str| Input {
        path: path.into(),
        text: text.into(),
    };
    let mut record = records::record(Comparison::Interleaved, launches);
    record.inputs = vec![
        input("gates/gate.toml", PROJECT),
        input("gates/work.toml", gate),
    ];
    record.gates = vec!["work".into()];
    record
        .inputs
        .extend(data.iter().map(|(path, text)| input(path, text)));
    record
}

/// A request of five tokens with both of the server's own times.
fn request(index: u32, ttft_ms: f64, tpot_ms: f64) -> Sample {
    let ns = |ms: f64| (ms * 1e6).round() as u64;
    let begin = ns(f64::from(index) * 200.0);
    let events = (0..5).map(|i| begin + ns(ttft_ms + tpot_ms * f64::from(i)));
    let events_ns: Vec<u64> = events.collect();
    Sample {
        workload: "work/work".into(),
        stamps: Stamps {
            intended_ns: begin,
            send_ns: begin,
            done_ns: events_ns.last().copied(),
            events_ns,
            kernel_stamps: true,
            ..Stamps::default()
        },
        tokens: TokenCounts {
            prompt: Some(8),
            completion: Some(5),
            events: 5,
            ..TokenCounts::default()
        },
        timings: Some(ServerTimings {
            prompt_n: 8,
            prompt_ms: ttft_ms - 2.0,
            predicted_n: 5,
            predicted_ms: tpot_ms * 4.0,
        }),
        ..records::sample(index)
    }
}

/// Thirty of them that vary by 1 %.
fn requests(ttft_ms: f64, tpot_ms: f64) -> Vec<Sample> {
    let wobble = |index: u32| 1.0 + (f64::from((index * 7) % 15) - 7.0) * 1e-3;
    (0..30)
        .map(|index| request(index, ttft_ms * wobble(index), tpot_ms * wobble(index + 4)))
        .collect()
}

/// What was read beside a launch: two readings of a GPU at this clock and an engine with so many waiting.
fn telemetry(clock_mhz: u32, waiting: f64) -> Telemetry {
    let reading = |at_ns| Reading {
        at_ns,
        gpus: vec![GpuReading {
            sm_clock_mhz: Some(clock_mhz),
            temperature_c: Some(61),
            ..GpuReading::default()
        }],
        engine: EngineReading {
            waiting: Some(waiting),
            ..EngineReading::default()
        },
        ..Reading::default()
    };
    Telemetry {
        windows: Vec::new(),
        every_ms: 1_000,
        readings: vec![reading(1_000_000_000), reading(2_000_000_000)],
        missing: vec![],
    }
}

/// Four blocks at 50 ms and 20 ms; head by these factors.
fn latencies(ttft: f64, tpot: f64) -> Vec<Launch> {
    let mut launches = blocks(6, |arm, block| {
        let (ttft, tpot) = if arm == Arm::Head {
            (ttft, tpot)
        } else {
            (1.0, 1.0)
        };
        let luck = 1.0 + 0.002 * noise(arm, block);
        let other = 1.0 + 0.002 * noise(arm, block + 3);
        requests(50.0 * ttft * luck, 20.0 * tpot * other)
    });
    for launch in &mut launches {
        let is_head = launch.arm == Arm::Head;
        launch.telemetry = Some(telemetry(if is_head { 1_695 } else { 1_755 }, 0.0));
    }
    launches
}

#[track_caller]
fn check(record: &RunRecord, name: &str) {
    let ended = explain(&directory(record), &[]).expect(0);
    let path = fixture::repository().join("tests/data/explain").join(name);
    let expect = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(
        ended.stdout,
        expect,
        "{}:\n{}",
        path.display(),
        ended.stdout
    );
    let wide = ended
        .stdout
        .lines()
        .filter(|line| line.chars().count() > 80);
    assert_eq!(wide.count(), 0, "{}", ended.stdout);
}

#[test]
fn slower_decoding_sits_in_decoding() {
    check(&record(LATENCY, &[], latencies(1.0, 1.06)), "decode.txt");
}

#[test]
fn slower_prefill_sits_in_prefill() {
    check(&record(LATENCY, &[], latencies(1.1, 1.0)), "prefill.txt");
}

/// Decoding takes 1.2 ms more a token; the first token waits for one step of it too. A server that tells its own times
/// shows prefill by itself.
#[test]
fn a_first_token_that_comes_a_step_later_is_no_slower_prefill() {
    let sits = |ttft: f64, tells: bool| {
        let mut launches = latencies(ttft, 1.06);
        for sample in launches.iter_mut().flat_map(|launch| &mut launch.samples) {
            sample.timings = sample.timings.take().filter(|_| tells);
        }
        let record = record(LATENCY, &[], launches);
        let told = explain(&directory(&record), &[]).expect(0).stdout;
        told.replace('\n', " ")
    };
    let step = sits(1.02, false);
    for part in [
        "slower part: decoding (TPOT +6.0 %); TTFT +2.1 %",
        "which the slower decoding step in it may explain",
    ] {
        assert!(step.contains(part), "{part}: {step}");
    }
    for both in [sits(1.06, false), sits(1.02, true)] {
        assert!(both.contains("slower part: prefill and decoding"), "{both}");
    }
}

/// Two cases of two tokens each, of which the reference is sure.
fn goldens() -> String {
    let token = |id: u32, text: &str| {
        format!(
            r#"{{"id": {id}, "text": "{text}", "logprob": -0.1, "top": [[{id}, -0.1], [9, -4.0]]}}"#
        )
    };
    let case = |id: &str, second: &str| {
        format!(
            r#"{{"id": "{id}", "prompt_ids": [7], "tokens": [{}, {}], "text": "one{second}", "finish": "length"}}"#,
            token(1, "one"),
            token(2, second)
        )
    };
    let cases = [case("count", " two"), case("sum", " three")].join(", ");
    format!(r#"{{"format": "infergate-goldens/1", "texts": {{}}, "cases": [{cases}]}}"#)
}

fn answers(second: [&str; 2]) -> Vec<Sample> {
    let entry = |text: &str| TokenLogprob {
        token: text.into(),
        logprob: Some(-0.1),
        top: vec![],
    };
    let answer = |index: u32, case: &str, second: &str| Sample {
        case: Some(case.into()),
        text: Some(format!("one{second}")),
        logprobs: vec![entry("one"), entry(second)],
        ..request(index, 10.0, 1.0)
    };
    vec![answer(0, "count", second[0]), answer(1, "sum", second[1])]
}

#[test]
fn a_wrong_token_is_quoted_and_steers_no_terminal() {
    let launches = blocks(1, |arm, _| match arm {
        Arm::Base => answers([" two", " three"]),
        Arm::Head => answers([" two", "\u{1b}[2J\u{202e}\r five"]),
    });
    let record = record(GOLDENS, &[("gates/data/goldens.json", goldens())], launches);
    check(&record, "wrong-token.txt");
    for format in ["text", "markdown", "json"] {
        let ended = explain(&directory(&record), &["--format", format]).expect(0);
        let controls = ended
            .stdout
            .chars()
            .filter(|c| c.is_control() && *c != '\n');
        assert_eq!(controls.count(), 0, "{format}: {}", ended.stdout);
    }
}

#[test]
fn an_engine_that_died_is_told_with_the_end_of_its_log() {
    let mut launches = latencies(1.0, 1.0);
    launches.truncate(2);
    launches[1].exit = Exit::Crashed {
        detail: "the engine exited during the run (signal: 9)".into(),
        log_tail:
            "loading\n\u{1b}[31merror: out of memory\n\nFor more information, try '--help'.\n"
                .into(),
    };
    let died = directory(&record(LATENCY, &[], launches));
    let text = "    | loading\n    | [31merror: out of memory\n    | \n    | For more information";
    let markdown =
        "\n\n      loading\n      [31merror: out of memory\n      \n      For more information";
    for (format, log) in [("text", text), ("markdown", markdown)] {
        let ended = explain(&died, &["--format", format]).expect(0);
        for part in ["launch 1 (head)", "signal: 9", "ends:", log] {
            assert!(
                ended.stdout.contains(part),
                "`{part}` is missing in {}",
                ended.stdout
            );
        }
        assert!(!ended.stdout.contains('\u{1b}'), "{}", ended.stdout);
    }
}

/// Three of twelve launches, of both arms, decode 8 % slower: without huge pages, by a slower kernel.
fn in_two_modes() -> RunRecord {
    let is_slow = |position: u32| [2, 7, 9].contains(&position);
    let mut launches = latencies(1.0, 1.0);
    for launch in &mut launches {
        let position = launch.position;
        let slower = if is_slow(position) { 1.08 } else { 1.0 };
        launch.samples = requests(50.0, 20.0 * slower * (1.0 + 0.0001 * f64::from(position)));
        launch.log = format!("logs/engine-{position:03}.log");
        let last = launch.telemetry.as_mut().unwrap().readings.last_mut();
        let huge = if is_slow(position) { 0 } else { 600 << 20 };
        last.unwrap().huge_bytes = Some(huge + u64::from(position));
    }
    record(LATENCY, &[], launches)
}

/// Its logs: a line that only the slow launches wrote, behind a stamp that differs.
fn write_logs(directory: &std::path::Path, record: &RunRecord) {
    std::fs::create_dir(directory.join("logs")).unwrap();
    for launch in &record.launches {
        let position = launch.position;
        let kernel = match [2, 7, 9].contains(&position) {
            true => "\u{1b}[2Jkernel 3",
            false => "kernel 4",
        };
        let log = format!("INFO 11-27 03:14:{position:02} loading\n12.{position} {kernel}\n");
        let name = directory.join(format!("logs/engine-{position:03}.log"));
        std::fs::write(name, log).unwrap();
    }
}

#[test]
fn what_differs_between_two_modes_is_named() {
    let record = in_two_modes();
    let made = directory(&record);
    write_logs(made.path(), &record);
    let ended = explain(&made, &["work/tpot"]).expect(0);
    let expect = fixture::repository().join("tests/data/explain/two-modes.txt");
    let expect = std::fs::read_to_string(expect).unwrap_or_default();
    assert_eq!(ended.stdout, expect, "{}", ended.stdout);
    assert!(!ended.stdout.contains('\u{1b}'));
    // The page shows it too.
    let path = made.path().to_str().unwrap();
    let page = gate(&["report", path, "--format", "html"])
        .output()
        .unwrap();
    let page = String::from_utf8(page.stdout).unwrap();
    assert!(page.contains("launches in two modes: 20.01 ms (5 of base, 4 of head)"));
    assert!(page.contains("huge pages, MiB"));
    // TTFT has one mode.
    let ended = explain(&made, &["work/ttft"]).expect(0);
    assert!(!ended.stdout.contains("two modes"), "{}", ended.stdout);
    assert_eq!(
        explain(&made, &["--check", "work/ttft"]).expect(0).stdout,
        ended.stdout
    );
}

/// A record may come from anybody: its logs are read in its own folder alone, no link is followed, and with one log missing
/// no line is said to be missing in it.
#[test]
fn logs_outside_the_directory_are_not_read() {
    let logged = "logged by every launch";
    let told = |change: &dyn Fn(&std::path::Path, &mut RunRecord)| {
        let mut record = in_two_modes();
        let made = directory(&record);
        write_logs(made.path(), &record);
        change(made.path(), &mut record);
        let json = serde_json::to_string(&record).unwrap();
        std::fs::write(made.path().join("run.json"), json).unwrap();
        explain(&made, &["--check", "work/tpot"]).expect(0).stdout
    };
    assert!(told(&|_, _| {}).contains(logged));
    let elsewhere = tempfile::tempdir().unwrap();
    let secret = elsewhere.path().join("secret");
    std::fs::write(&secret, "kernel 3\n").unwrap();
    type Change<'a> = &'a dyn Fn(&std::path::Path, &mut RunRecord);
    let cases: [Change<'_>; 4] = [
        &|_, record| record.launches[2].log = secret.to_str().unwrap().into(),
        &|_, record| record.launches[2].log = "logs/../run.json".into(),
        &|directory, record| {
            let log = directory.join(&record.launches[2].log);
            std::fs::remove_file(&log).unwrap();
            std::os::unix::fs::symlink(&secret, log).unwrap();
        },
        &|directory, _| {
            let moved = elsewhere.path().join("logs");
            std::fs::rename(directory.join("logs"), &moved).unwrap();
            std::os::unix::fs::symlink(moved, directory.join("logs")).unwrap();
        },
    ];
    for (case, change) in cases.iter().enumerate() {
        let told = told(change);
        assert!(told.contains("launches in two modes"), "{case}: {told}");
        assert!(!told.contains(logged), "{case}: {told}");
    }
}

#[test]
fn one_check_by_name_and_what_is_refused() {
    let sound = directory(&record(LATENCY, &[], latencies(1.0, 1.0)));
    let ended = explain(&sound, &[]).expect(0);
    assert_eq!(ended.stdout.lines().count(), 1, "{}", ended.stdout);
    let nothing = "nothing to explain: every check passed or is waived (the run: pass)";
    assert!(ended.stdout.contains(nothing), "{}", ended.stdout);
    let ended = explain(&sound, &["--format", "json"]).expect(0);
    let json: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(json["format"], "infergate-explanation/1");
    assert!(
        json["check"].is_null() && json["verdict"] == "pass",
        "{json}"
    );
    assert!(
        json["reason"].as_str().unwrap().starts_with(nothing),
        "{json}"
    );
    // Too few launches decide nothing: the open check is explained where none failed.
    let mut few = latencies(1.0, 1.0);
    few.truncate(4);
    let open = directory(&record(LATENCY, &[], few));
    let ended = explain(&open, &[]).expect(0);
    assert!(ended.stdout.contains(": inconclusive"), "{}", ended.stdout);
    let ended = explain(&sound, &["--check", "work/ttft"]).expect(0);
    assert!(
        ended.stdout.starts_with("work/ttft: pass"),
        "{}",
        ended.stdout
    );
    explain(&sound, &["--check", "work/x"])
        .expect(2)
        .says(&["unknown check `work/x`", "work/tpot, work/ttft"]);
    let nothing = tempfile::tempdir().unwrap();
    explain(&nothing, &[])
        .expect(2)
        .says(&["cannot read", "run.json"]);
    std::fs::write(nothing.path().join("run.json"), "{}").unwrap();
    explain(&nothing, &[])
        .expect(2)
        .says(&["is not a run record"]);
}
