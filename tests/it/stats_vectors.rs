//! What scipy, or counting all orders, gives for rank tests and spending (`scripts/replay/vectors.py`).

use serde_json::Value;
use verdict::stats::{Spending, hodges_lehmann, mann_whitney};

fn vectors(group: &str) -> Vec<Value> {
    let all: Value = serde_json::from_str(include_str!("../data/stats-vectors.json")).unwrap();
    let vectors = all[group].as_array().unwrap().clone();
    assert!(!vectors.is_empty());
    vectors
}

fn number(v: &Value) -> f64 {
    v.as_f64().unwrap()
}

fn numbers(v: &Value) -> Vec<f64> {
    v.as_array().unwrap().iter().map(number).collect()
}

#[track_caller]
fn near(what: &str, got: f64, expect: f64, relative: f64) {
    let error = (got - expect).abs();
    assert!(
        error <= relative * expect.abs().max(1e-12),
        "{what}: {got:e} for {expect:e}"
    );
}

#[test]
fn ranks() {
    for v in vectors("ranks") {
        let (name, a, b) = (
            v["name"].as_str().unwrap(),
            numbers(&v["a"]),
            numbers(&v["b"]),
        );
        let test = mann_whitney(&a, &b).unwrap();
        near(name, test.u, number(&v["u"]), 1e-12);
        near(name, test.p_greater, number(&v["p_greater"]), 1e-9);
        near(name, test.p_less, number(&v["p_less"]), 1e-9);
        let conf = v["conf"].as_f64().unwrap_or(0.9);
        let shift = hodges_lehmann(&a, &b, conf).unwrap();
        near(name, shift.est, number(&v["shift"]), 1e-9);
        if v.get("interval").is_some() {
            let (low, high) = shift.interval;
            assert_eq!(v["interval"].is_null(), low.is_infinite(), "{name}");
            if low.is_finite() {
                near(name, low, number(&v["interval"][0]), 1e-9);
                near(name, high, number(&v["interval"][1]), 1e-9);
            }
        }
    }
}

#[test]
fn levels_of_looks() {
    for v in vectors("spending") {
        let spending = match v["spending"].as_str().unwrap() {
            "pocock" => Spending::Pocock,
            _ => Spending::ObrienFleming,
        };
        let (alpha, times) = (number(&v["alpha"]), numbers(&v["times"]));
        let levels = spending.levels(alpha, &times).unwrap();
        for (got, expect) in levels.iter().zip(numbers(&v["levels"])) {
            near(
                &format!("{spending:?} {alpha} {times:?}"),
                *got,
                expect,
                1e-3,
            );
        }
    }
}
