//! From records made by hand to a certificate: variances, false alarms, what is drawn from history.

use fixture::records::{
    REGRESSION, blocks, check, noise, plan, record, steady, timed, tpot_blocks, tpot_plan, workload,
};
use infergate::baseline::{Entry, Key};
use infergate::calibration::{
    Certificate, Evidence, MeasuredSession, PastSession, Sessions, Tally, certify,
    pairs_of_launches,
};
use infergate::commands::calibrate::view;
use std::collections::BTreeMap;
use verdict::judge::judge;
use verdict::plan::{Plan, Rule};
use verdict::record::{Comparison, Launch, Metric, RunRecord, Sample, Statistic};

fn key() -> Key {
    Key {
        fingerprint: "machine".into(),
        model: "model".into(),
        gate: "gate".into(),
        gate_hash: String::new(),
        engine: vec!["engine".into()],
    }
}

fn null_record(launches: Vec<Launch>) -> RunRecord {
    record(Comparison::SameBuild, launches)
}

/// The certificate of these sessions, judged by the plan.
fn certified(plan: &Plan, records: &[RunRecord], past: Vec<PastSession>) -> Certificate {
    let measured: Vec<MeasuredSession> = records
        .iter()
        .map(|record| MeasuredSession::of(plan, record, &judge(plan, record)))
        .collect();
    let evidence = Evidence {
        plan,
        record: &records[0],
        measured: &measured,
        past: &BTreeMap::from([("gate".to_owned(), past)]),
        seed: 1,
        created: "2025-01-20T00:00:00Z".into(),
    };
    certify(&evidence, &plan.gates[0], key())
}

#[test]
fn variances_within_launches_between_them_and_between_sessions() {
    let sd = 0.004;
    // The second session's machine is 2 % slower.
    let factors = [1.0, 1.02];
    let value = |factor: f64, arm, block| 20.0 * factor * (1.0 + sd * noise(arm, block));
    let samples = |level: f64| -> Vec<Sample> {
        let wobble = |i: u32| f64::from((i * 7) % 15) - 7.0;
        (0..30_u32)
            .map(|i| timed(i, (level * (1.0 + wobble(i) * 1e-3) * 1e6).round() as i64))
            .collect()
    };
    let records = factors
        .map(|factor| null_record(blocks(8, |arm, block| samples(value(factor, arm, block)))));
    let made = certified(&tpot_plan(), &records, Vec::new());
    let found = made.checks[0].noise.unwrap();
    assert_eq!((found.launches, found.launch_df), (32, 30));
    // By hand: the logarithms' variance within a session is the same in both, the means differ by ln 1.02.
    let logs: Vec<f64> = verdict::record::Arm::BOTH
        .into_iter()
        .flat_map(|arm| (0..8).map(move |block| value(1.0, arm, block).ln()))
        .collect();
    let mean = logs.iter().sum::<f64>() / 16.0;
    let within = logs.iter().map(|y| (y - mean).powi(2)).sum::<f64>() / 15.0;
    let between = 1.02_f64.ln().powi(2) / 2.0 - within / 16.0;
    let close = |a: f64, b: f64| assert!((a / b - 1.0).abs() < 1e-4, "{a} {b}");
    close(found.launch_sd, within.sqrt());
    close(found.session_sd.unwrap(), between.sqrt());
    // −7 … 7 in steps of one thousandth, twice.
    close(
        found.request_sd.unwrap(),
        (280.0 * 2.0 / 29.0_f64).sqrt() * 1e-3,
    );
    let effects: Vec<u32> = made.checks[0].effects.iter().map(|e| e.blocks).collect();
    // Four launches an arm that nobody calibrated cannot fail.
    assert_eq!(effects, [6, 8, 12, 16]);
    assert_eq!(made.checks[0].is_resolved(), Some(true));
    let needed = made.checks[0].blocks_for_ceiling.unwrap();
    assert!(needed <= 16, "{needed}");
}

#[test]
fn a_comparison_that_fails_is_a_false_alarm_and_a_limit_is_none() {
    let of = |launches: Vec<Launch>, limit: f64| {
        let mut ceiling = check(
            "limit",
            Metric::Tpot,
            Statistic::Median,
            Rule::Ceiling { limit },
        );
        ceiling.min_samples = 30;
        let mut tpot = check("tpot", Metric::Tpot, Statistic::Median, REGRESSION);
        tpot.min_samples = 30;
        let plan = plan(vec![workload(None, steady())], vec![tpot, ceiling]);
        certified(&plan, &[null_record(launches)], Vec::new()).sessions
    };
    let with = |verdicts: Tally, broken_limits: u32, launches: u32| Sessions {
        verdicts,
        broken_limits,
        launches,
        elapsed_s: 1,
    };
    let one = |pass, fail, inconclusive, invalid| Tally {
        pass,
        fail,
        inconclusive,
        invalid,
    };
    let null = || tpot_blocks(8, 0.0, 0.002);
    assert_eq!(of(null(), 50.0), with(one(1, 0, 0, 0), 0, 16));
    let slower = tpot_blocks(8, 0.1, 0.002);
    assert_eq!(of(slower, 50.0), with(one(0, 1, 0, 0), 0, 16));
    assert_eq!(of(null(), 10.0), with(one(0, 0, 0, 0), 1, 16));
    let undecided = tpot_blocks(2, 0.0, 0.002);
    assert_eq!(of(undecided, 50.0), with(one(0, 0, 1, 0), 0, 4));
}

#[test]
fn a_machine_that_cannot_find_the_ceiling_is_refused_with_what_helps() {
    let records = [null_record(tpot_blocks(8, 0.0, 0.03))];
    let made = certified(&tpot_plan(), &records, Vec::new());
    assert_eq!(made.checks[0].is_resolved(), Some(false));
    let refusals = view::refusals(&made);
    assert_eq!(refusals.len(), 1);
    for part in [
        "gate/tpot cannot be resolved",
        "its ceiling is 3 %",
        " blocks; a ceiling of ",
    ] {
        assert!(refusals[0].contains(part), "{part}: {}", refusals[0]);
    }
}

#[test]
fn a_check_without_variance_or_value_is_refused_too() {
    let records = [null_record(tpot_blocks(8, 0.0, 0.0))];
    let made = certified(&tpot_plan(), &records, Vec::new());
    assert_eq!(made.checks[0].noise, None);
    let refusals = view::refusals(&made);
    assert!(
        refusals[0].contains("no-variance in 1 session"),
        "{refusals:?}"
    );
}

#[test]
fn too_many_false_alarms_are_told_when_it_is_sure() {
    let alarm = || null_record(tpot_blocks(8, 0.1, 0.002));
    let null = || null_record(tpot_blocks(8, 0.0, 0.002));
    let told = |records: &[RunRecord]| {
        view::too_many_alarms(&certified(&tpot_plan(), records, Vec::new()))
    };
    // One of four: Wilson's lower end is 4.6 %, above the promised 2 %; none of one says nothing.
    let told_of = told(&[alarm(), null(), null(), null()]).unwrap();
    assert!(told_of.contains("between 4.6 % and 70 %"), "{told_of}");
    assert_eq!(told(&[null()]), None);
}

#[test]
fn null_sessions_are_drawn_from_stored_launches_and_counted_apart() {
    let stored = |session: u32, values: Vec<f64>| {
        pairs_of_launches(&Entry {
            key: key(),
            session: format!("s{session}"),
            created: format!("2025-01-0{session}T00:00:00Z"),
            commit: None,
            profile: None,
            anchor: None,
            spent: None,
            sign_off: None,
            values: BTreeMap::from([("gate/tpot".to_owned(), values)]),
        })
    };
    // Four launches are two pairs; two sessions make the first look's four blocks. The machine moves by 10 %
    // between sessions, and no pair reaches over it. The fifth session is left over.
    let values = |session: u32| -> Vec<f64> {
        let level = 20.0 * (1.0 + 0.1 * f64::from(session % 2));
        [0.1, -0.1, -0.05, 0.05]
            .map(|e| level * (1.0 + e * 0.001))
            .to_vec()
    };
    let past: Vec<_> = (1..=5)
        .map(|session| stored(session, values(session)))
        .collect();
    let records = [null_record(tpot_blocks(8, 0.0, 0.002))];
    let made = certified(&tpot_plan(), &records, past);
    assert_eq!(
        (made.drawn.stored, made.drawn.kept, made.drawn.seed),
        (5, 0, 1)
    );
    assert_eq!(made.checks[0].drawn.judged(), 2);
    assert_eq!(made.checks[0].drawn.fail, 0);
    assert_eq!(made.sessions.measured(), 1);
    assert_eq!(made.checks[0].measured.judged(), 1);
}

#[test]
fn the_frozen_certificate_reads_as_before() {
    let certificate: Certificate =
        serde_json::from_str(include_str!("../../data/calibration-v1.json")).unwrap();
    insta::assert_snapshot!(view::calibration_text(&[certificate]).trim_end(), @r"
    calibration of 2026-11-21, profile quick, gates tpot
    c0ffee012345, measured against itself
    Example CPU | 2 cores | 24 GiB | 6.18
    measured: 20 A/A sessions, 172 launches, 10.2 min: 19 pass, 0 fail, 1
    inconclusive, 0 invalid
    false alarms: 0 of 20, 0 % [0, 16] (Wilson, 95 %); promised: at most 2 %
    drawn from history, counted apart, each check alone: null sessions out of 8
    stored sessions of main and 3 kept A/A sessions

    check            pass  fail  open  invalid  drawn: pass/fail/open
    ──────────────────────────────────────────────────────────────────
    tpot/regression  19    0     1     0        6/0/1
    tpot/ceiling     19    0     1     0        –

    check            launch sd  session sd  request sd  ρ     warm-up  requests  R*
    ────────────────────────────────────────────────────────────────────────────────
    tpot/regression  0.70 %     0.40 %      3.00 %      0.50  5        100       55
    tpot/ceiling     0.70 %     0.40 %      3.00 %      0.50  5        100       55

    smallest change found in 95 of 100 sessions that look after so many blocks
    (minutes of this gate's launches):
    check            4 (0.5)  6 (0.7)  8 (0.9)  10 (1.2)  ceiling
    ──────────────────────────────────────────────────────────────
    tpot/regression  5.2 %    3.4 %    2.9 %    2.6 %     5 %
    ");
}
