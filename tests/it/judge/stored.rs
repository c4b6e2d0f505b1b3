//! Main's stored sessions as the base, and the values that a store keeps.

use super::correctness::{answers, tasks_plan};
use super::*;
use fixture::records::*;

pub(crate) fn stored(n: u32, days_old: u32, fingerprint: &str) -> Vec<StoredBase> {
    let session = |i: u32| StoredBase {
        id: format!("session-{i}"),
        created: format!("2025-01-{:02}T00:00:00Z", 20 - days_old),
        commit: None,
        fingerprint: fingerprint.into(),
        values: [(
            "gate/tpot".to_owned(),
            vec![20.0 + 0.02 * noise(Arm::Base, i), 20.01],
        )]
        .into(),
    };
    (0..n).map(session).collect()
}

pub(crate) fn against_stored(change: f64, sessions: Vec<StoredBase>) -> RunRecord {
    let head = tpot_blocks(4, change, 0.003)
        .into_iter()
        .filter(|l| l.arm == Arm::Head);
    RunRecord {
        stored: sessions,
        ..record(Comparison::Stored, head.collect())
    }
}

#[test]
fn a_stored_base_needs_eight_recent_sessions_of_this_machine() {
    let mut sessions = stored(5, 1, "machine");
    sessions.extend(stored(2, 1, "another"));
    sessions.extend(stored(3, 19, "machine"));
    let mut other_check = stored(1, 1, "machine");
    other_check[0].values.clear();
    sessions.extend(other_check);
    let got = expect(
        &tpot_plan(),
        &against_stored(0.0, sessions),
        Verdict::Inconclusive,
        "no-stored-base",
        "5 of 8 stored sessions of main that a stored comparison needs (2 more of another machine, 3 older \
         than 14 days, 1 without this check): `gate baseline record` on main adds one; a new series \
         starts, since the machine has changed: machine another → machine",
    );
    assert_eq!(got.decision, Decision::Stop);
}

/// The machine may have moved by 4 % since, and no number of launches today would show it.
#[test]
fn eight_stored_sessions_advise_and_decide_nothing() {
    for (change, told) in [(0.0, "+0.06 % ["), (0.06, "+6.07 % [")] {
        let got = judge(
            &tpot_plan(),
            &against_stored(change, stored(8, 1, "machine")),
        );
        let check = first(&got);
        assert_eq!(got.verdict, Verdict::Inconclusive, "{}", summary(&got));
        assert_eq!(check.reason.rule.name(), "stored-base");
        assert_eq!(got.decision, Decision::Stop);
        let why = sentence(check);
        assert!(why.contains(told), "{why}");
        assert!(why.contains("against 8 stored sessions of main"), "{why}");
        assert!(why.contains("`--base main` measures main beside"), "{why}");
    }
}

#[test]
fn launch_values_are_those_of_sound_launches() {
    let mut launches = tpot_blocks(3, 0.0, 0.0);
    launches[0].throttle_bits = Some(0x8);
    let mut plan = tpot_plan();
    plan.gates[0]
        .checks
        .push(check("kv", Metric::KvBytes, Statistic::Max, REGRESSION));
    let values = launch_values(&plan, &interleaved(launches), Arm::Base);
    let ids: Vec<&String> = values.keys().collect();
    assert_eq!(ids, ["gate/tpot"]);
    assert_eq!(values["gate/tpot"], [20.0, 20.0]);
}

#[test]
fn stored_sessions_keep_no_single_cases() {
    let rule = Rule::Regression {
        margin: 0.02,
        ceiling: 0.05,
    };
    let mut session = answers(100, 0, 0);
    session.comparison = Comparison::Stored;
    session.launches.retain(|l| l.arm == Arm::Head);
    let got = judge(&tasks_plan(100, rule), &session);
    assert_eq!(
        (got.verdict, first(&got).reason.rule.name()),
        (Verdict::Inconclusive, "no-paired-cases")
    );
}

/// Sessions of main tell when the machine moved; a verdict between arms of today needs them not.
#[test]
fn the_machine_that_moved_is_remarked_and_judged_all_the_same() {
    let check = |level: f64, remark: Option<&str>| {
        let mut record = interleaved(tpot_blocks(4, 0.0, 0.003));
        record.stored = stored(10, 1, "machine");
        let values = record.stored.iter_mut().flat_map(|s| s.values.values_mut());
        values.flatten().for_each(|v| *v *= level / 20.0);
        let got = judge(&tpot_plan(), &record);
        assert_eq!(got.verdict, Verdict::Pass);
        let notes = notes(first(&got));
        let found = notes
            .iter()
            .find(|note| note.starts_with("the machine has moved"));
        assert_eq!(found.is_some(), remark.is_some(), "{notes:?}");
        if let (Some(found), Some(remark)) = (found, remark) {
            assert!(found.contains(remark), "{found}");
        }
    };
    check(20.0, None);
    check(20.8, Some("from the 10 stored sessions of main"));
    check(19.0, Some("base is +5."));
}
