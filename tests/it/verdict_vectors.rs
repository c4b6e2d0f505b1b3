//! Worked examples (scipy and 50-digit arithmetic) that `stats` must reproduce to 1e-9 relative.

use serde_json::Value;
use verdict::stats::{Estimate, head_tail_medians, holm, one_sample, theil_sen_slope, welch};

const RELATIVE: f64 = 1e-9;

fn vectors() -> Vec<Value> {
    serde_json::from_str(include_str!("../data/verdict-vectors.json"))
        .expect("the vectors are JSON")
}

fn named(prefix: &str) -> Value {
    let found = vectors().into_iter().find(|v| {
        let name = v["name"].as_str().unwrap();
        name.split(' ').next() == Some(prefix)
    });
    found.unwrap_or_else(|| panic!("no vector {prefix}"))
}

fn number(v: &Value) -> f64 {
    match v {
        Value::String(s) => s.parse().unwrap(),
        other => other.as_f64().unwrap(),
    }
}

fn numbers(v: &Value) -> Vec<f64> {
    v.as_array().unwrap().iter().map(number).collect()
}

fn near(what: &str, got: f64, expect: f64) {
    let error = (got - expect).abs();
    assert!(
        error <= RELATIVE * expect.abs(),
        "{what}: {got:e} for {expect:e}"
    );
}

/// An estimate of nearly nothing loses digits to cancellation in both programs; its error is bounded
/// against the standard error instead.
fn near_on_scale(what: &str, got: f64, expect: f64, scale: f64) {
    let bound = RELATIVE * expect.abs().max(scale);
    assert!(
        (got - expect).abs() <= bound,
        "{what}: {got:e} for {expect:e}"
    );
}

fn check_welch(v: &Value) {
    let name = v["name"].as_str().unwrap();
    let log = v["scale"] == "log";
    let scaled = |key: &str| -> Vec<f64> {
        let raw = numbers(&v[key]);
        if log {
            raw.iter().map(|x| x.ln()).collect()
        } else {
            raw
        }
    };
    let shift = |key: &str| {
        if log {
            number(&v[key]).ln_1p()
        } else {
            number(&v[key])
        }
    };
    let e: Estimate = welch(&scaled("pr"), &scaled("main")).unwrap();
    near_on_scale(&format!("{name} est"), e.est, number(&v["est"]), e.se);
    near(&format!("{name} se"), e.se, number(&v["se"]));
    near(&format!("{name} df"), e.df, number(&v["df"]));
    near(&format!("{name} t"), e.t(0.0), number(&v["t"]));
    near(
        &format!("{name} p"),
        e.p_greater(0.0),
        number(&v["p_greater"]),
    );
    let (low, high) = e.interval(number(&v["conf"]));
    near_on_scale(&format!("{name} low"), low, number(&v["ci"][0]), e.se);
    near_on_scale(&format!("{name} high"), high, number(&v["ci"][1]), e.se);
    near(
        &format!("{name} t margin"),
        e.t(shift("margin")),
        number(&v["t_margin"]),
    );
    near(
        &format!("{name} p fail"),
        e.p_greater(shift("margin")),
        number(&v["p_fail"]),
    );
    if v.get("ceiling").is_some() {
        near_on_scale(
            &format!("{name} t ceil"),
            e.t(shift("ceiling")),
            number(&v["t_ceil"]),
            1.0,
        );
        near(
            &format!("{name} p pass"),
            e.p_less(shift("ceiling")),
            number(&v["p_pass"]),
        );
    }
    if let Some(mp) = v.get("check_mp") {
        for (got, expect) in [e.t(0.0), e.df, e.p_greater(0.0)].iter().zip(numbers(mp)) {
            near(&format!("{name} 50 digits"), *got, expect);
        }
    }
}

#[test]
fn welch_vectors() {
    let all: Vec<Value> = vectors()
        .into_iter()
        .filter(|v| v.get("main").is_some())
        .collect();
    assert_eq!(all.len(), 8);
    all.iter().for_each(check_welch);
}

/// V9 pairs V2's launches in order and takes the log ratio of each pair.
#[test]
fn paired_vector() {
    let (data, v) = (named("V2"), named("V9"));
    let ratios: Vec<f64> = numbers(&data["pr"])
        .iter()
        .zip(numbers(&data["main"]))
        .map(|(pr, main)| (pr / main).ln())
        .collect();
    let e = one_sample(&ratios).unwrap();
    near("mean", e.est, number(&v["mean"]));
    near("sd", e.se * (ratios.len() as f64).sqrt(), number(&v["sd"]));
    near("t", e.t(0.0), number(&v["t"]));
    near("df", e.df, number(&v["df"]));
    near("p", e.p_greater(0.0), number(&v["p_greater"]));
}

#[test]
fn holm_vector() {
    let v = named("V10");
    for (got, expect) in holm(&numbers(&v["p"])).iter().zip(numbers(&v["adjusted"])) {
        near("adjusted", *got, expect);
    }
}

#[test]
fn drift_vector() {
    let v = named("V13");
    let y = numbers(&v["y"]);
    let turns: Vec<f64> = (0..y.len()).map(|i| i as f64).collect();
    let logs: Vec<f64> = y.iter().map(|x| x.ln()).collect();
    near(
        "slope",
        theil_sen_slope(&turns, &logs).unwrap(),
        number(&v["theil_sen_log_slope"]),
    );
    let (head, tail) = head_tail_medians(&y).unwrap();
    near("head", head, number(&v["head"]));
    near("tail", tail, number(&v["tail"]));
}

/// V14's slopes are logarithmic, so the limit of 2 % is held against them as ln(1.02).
#[test]
fn one_sample_vector() {
    let v = named("V14");
    let e = one_sample(&numbers(&v["slopes"])).unwrap();
    let limit = number(&v["limit"]).ln_1p();
    near("t", e.t(limit), number(&v["t"]));
    near("p", e.p_greater(limit), number(&v["p"]));
}
