//! The judge on the simulated sessions of the replay set, look by look.
//!
//! Needs the set's directory in INFERGATE_REPLAY_DIR (made by its generator, see docs/verdict.md);
//! without it the test says so and does nothing. Verdicts are written to `gate.jsonl` in the directory
//! of INFERGATE_REPLAY_OUT, where that is given, for the set's own scoring program.

#![expect(
    clippy::unwrap_used,
    reason = "a broken precondition of a test is a panic"
)]

mod fixture;

use infergate::judge::judge;
use infergate::plan::{Plan, Rule};
use infergate::record::{
    Arm, Comparison, Decision, Exit, Launch, Metric, Phase, RunVerdict, Sample, Statistic, Verdict,
};
use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};

struct Outcome {
    verdict: RunVerdict,
    launches: usize,
}

fn directory(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).map(PathBuf::from)
}

fn lines(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    text.lines().map(str::to_owned).collect()
}

fn plan(manifest: &Value, metrics: &Value) -> Plan {
    let gate = &manifest["gate"];
    let number = |key: &str| gate[key].as_f64().unwrap();
    let rule = Rule::Regression {
        margin: number("margin"),
        ceiling: number("ceiling"),
    };
    let (metric, min_samples) = match metrics.get("tpot_us") {
        Some(_) => (Metric::Tpot, 30),
        None => (Metric::PrefilledTokens, 1),
    };
    let mut check = fixture::check("replay", metric, Statistic::Median, rule);
    check.min_samples = min_samples;
    let mut plan = fixture::plan(
        vec![fixture::workload(None, fixture::steady())],
        vec![check],
    );
    plan.design.alpha = number("alpha");
    plan.design.beta = number("beta");
    plan.design.looks = gate["looks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|v| v.as_u64().unwrap() as u32)
        .collect();
    plan
}

/// A value in microseconds becomes the gap between two tokens; a missing one lacks its usage.
fn latency(index: usize, value: &Value, warmup: u64) -> Sample {
    let mut sample = fixture::timed(index as u32, value.as_i64().unwrap_or(0) * 1000);
    if value.is_null() {
        sample.tokens.completion = None;
    }
    if (index as u64) < warmup {
        sample.phase = Phase::Warmup;
    }
    sample
}

fn samples(metrics: &Value, warmup: u64) -> Vec<Sample> {
    if let Some(values) = metrics.get("tpot_us") {
        let values = values.as_array().unwrap().iter().enumerate();
        return values.map(|(i, v)| latency(i, v, warmup)).collect();
    }
    let values = metrics["kv_bytes"].as_array().unwrap().iter().enumerate();
    values
        .map(|(i, v)| fixture::prefilled(i as u32, v.as_u64().unwrap() as u32))
        .collect()
}

fn launch(row: &str, metrics: &Value, warmup: u64) -> Launch {
    let f: Vec<&str> = row.split(',').collect();
    let arm = if f[3] == "pr" { Arm::Head } else { Arm::Base };
    let mut launch = fixture::launch(
        f[0].parse().unwrap(),
        f[1].parse().unwrap(),
        arm,
        samples(metrics, warmup),
    );
    launch.fingerprint = f[5].into();
    launch.throttle_bits = Some(f[6].parse().unwrap());
    if f[9] != "0" {
        launch.exit = Exit::Crashed {
            detail: format!("exit {}", f[9]),
            log_tail: String::new(),
        };
    }
    launch
}

/// Judges the whole record, as `gate judge` would, and again after every block until the judge stops,
/// as a session would. The two must agree, but where the machine changed after the session's end.
fn replay(manifest: &Value, case: &Path) -> Outcome {
    let warmup = manifest["gate"]["warmup_requests"].as_u64().unwrap();
    let metrics: Vec<Value> = lines(&case.join("samples.jsonl"))
        .iter()
        .map(|l| serde_json::from_str::<Value>(l).unwrap()["metrics"].take())
        .collect();
    let rows = lines(&case.join("launches.csv"));
    let all: Vec<Launch> = rows[1..]
        .iter()
        .zip(&metrics)
        .map(|(row, m)| launch(row, m, warmup))
        .collect();
    let plan = plan(manifest, &metrics[0]);
    let whole = judge(
        &plan,
        &fixture::record(Comparison::Interleaved, all.clone()),
    );
    let mut record = fixture::record(Comparison::Interleaved, vec![]);
    let live = all.chunks(2).find_map(|block| {
        record.launches.extend_from_slice(block);
        Some(judge(&plan, &record)).filter(|v| v.decision == Decision::Stop)
    });
    let changed = all.iter().any(|l| l.fingerprint != all[0].fingerprint);
    if let Some(live) = live.filter(|_| !changed) {
        assert_eq!(live, whole, "{}", case.display());
    }
    Outcome {
        verdict: whole,
        launches: record.launches.len(),
    }
}

fn line(case: &str, outcome: &Outcome) -> Value {
    let check = &outcome.verdict.gates[0].checks[0];
    json!({
        "case": case,
        "verdict": outcome.verdict.verdict.name(),
        "launches": outcome.launches,
        "est": check.change,
        "ci": check.interval.map(|(low, high)| [low, high]),
        "reason": format!("{}: {}", check.reason.rule, check.reason.text),
    })
}

/// Share of the named suites' cases with this verdict.
fn share(graded: &[(String, Vec<String>, Verdict)], suites: &[&str], verdict: Verdict) -> f64 {
    let mine: Vec<_> = graded
        .iter()
        .filter(|(s, _, _)| suites.contains(&s.as_str()))
        .collect();
    let hits = mine.iter().filter(|(_, _, v)| *v == verdict).count();
    hits as f64 / mine.len() as f64
}

#[test]
fn the_replay_set_is_judged_within_its_bars() {
    let Some(dir) = directory("INFERGATE_REPLAY_DIR") else {
        // Straight to the stream: what is printed by a passing test is not shown.
        writeln!(
            std::io::stderr(),
            "skipped: INFERGATE_REPLAY_DIR names no replay set"
        )
        .unwrap();
        return;
    };
    let manifest: Value =
        serde_json::from_str(&lines(&dir.join("manifest.json")).concat()).unwrap();
    let mut out = String::new();
    let mut graded = Vec::new();
    for truth in lines(&dir.join("truth.jsonl")) {
        let truth: Value = serde_json::from_str(&truth).unwrap();
        let case = truth["case"].as_str().unwrap();
        let outcome = replay(&manifest, &dir.join("cases").join(case));
        out.push_str(&format!("{}\n", line(case, &outcome)));
        let expect = truth["expect"]
            .as_array()
            .unwrap()
            .iter()
            .map(|e| e.as_str().unwrap().to_owned());
        graded.push((
            truth["suite"].as_str().unwrap().to_owned(),
            expect.collect::<Vec<_>>(),
            outcome.verdict.verdict,
        ));
    }
    if let Some(to) = directory("INFERGATE_REPLAY_OUT") {
        std::fs::write(to.join("gate.jsonl"), out).unwrap();
    }
    let nulls = ["null_quiet", "null_typical", "null_noisy"];
    assert!(
        share(&graded, &nulls, Verdict::Fail) <= 0.01,
        "false alarms"
    );
    assert!(
        share(&graded, &["envstep_null"], Verdict::Fail) <= 0.0,
        "false alarms after an environment step"
    );
    assert!(
        share(&graded, &["reg3_quiet", "reg3_typical"], Verdict::Fail) >= 0.95,
        "finds 3 %"
    );
    assert!(
        share(&graded, &["envmask_reg3"], Verdict::Fail) >= 0.90,
        "finds a hidden 3 %"
    );
    assert!(
        share(&graded, &nulls[..2], Verdict::Inconclusive) <= 0.02,
        "inconclusive at 0"
    );
    let special = graded
        .iter()
        .filter(|(s, _, _)| s.starts_with("inv_") || s.starts_with("cnt_"));
    let (right, all) = special.fold((0, 0), |(right, all), (_, expect, v)| {
        (
            right + usize::from(expect.iter().any(|e| e == v.name())),
            all + 1,
        )
    });
    assert!(
        right * 100 >= all * 98,
        "invalid and counter suites: {right} of {all}"
    );
}
