//! Comparisons of columns made by hand.

use super::super::{Distribution, LoadResult, Origin, repeats};
use super::*;

fn column(name: &str, output_tokens: f64, values: &[(Row, f64)]) -> Column {
    Column {
        output_tokens: Some(output_tokens),
        first_output_tokens: Some(output_tokens),
        values: values.iter().copied().collect(),
        ..Column::new(name.to_owned(), Origin::Launches(3))
    }
}

#[test]
fn a_row_that_one_result_withheld_does_not_vanish() {
    let result = |p50| LoadResult {
        ttft_ms: Distribution {
            p50,
            n: 90,
            ..Distribution::default()
        },
        ..LoadResult::default()
    };
    let column = |name: &str, p50| result(p50).column(name.to_owned());
    let (known, withheld) = (column("a", Some(50.0)), column("b", None));
    let rows = |table: Table| {
        table
            .lines
            .iter()
            .map(|line| line.row)
            .collect::<Vec<Row>>()
    };
    let table = compare(&[known.clone(), withheld]);
    assert!(table.lines[0].cells[1].is_none());
    assert_eq!(rows(table), [Row::TtftMedian]);
    let runs = repeats("b".to_owned(), &[result(Some(50.0)), result(None)]);
    assert_eq!(rows(compare(&[known.clone(), runs])), [Row::TtftMedian]);
    // Another tool that does not tell medians.
    let imported = LoadResult {
        imported_from: Some("a tool".to_owned()),
        ..result(None)
    };
    let other = imported.column("c".to_owned());
    assert_eq!(rows(compare(&[known, other])), []);
}

#[test]
fn rounds_have_a_spread_and_a_direction() {
    let with = |name: &str, values: &[f64]| {
        let mut column = column(name, 48.0, &[]);
        column.put_rounds(Row::Ready, (0..).zip(values.iter().copied()).collect());
        column
    };
    let check = |a: &[f64], b: &[f64], spread, same| {
        let table = compare(&[with("a", a), with("b", b)]);
        let cell = table.lines[0].cells[1].clone().unwrap();
        assert_eq!(
            (cell.spread(), cell.same_direction),
            (spread, same),
            "{a:?} {b:?}"
        );
        let first = table.lines[0].cells[0].clone().unwrap();
        assert_eq!(first.same_direction, None);
    };
    check(&[10.0], &[20.0], None, None);
    check(
        &[10.0, 11.0, 12.0],
        &[20.0, 25.0, 22.0],
        Some((20.0, 25.0)),
        Some((3, 3)),
    );
    check(
        &[10.0, 11.0, 12.0],
        &[9.0, 15.0, 14.0],
        Some((9.0, 15.0)),
        Some((2, 3)),
    );
    check(
        &[10.0, 10.0],
        &[10.0, 10.0],
        Some((10.0, 10.0)),
        Some((2, 2)),
    );
}

#[test]
fn requests_are_paired_by_prompt() {
    let with = |name: &str, prompts: &str, values: &[f64]| {
        let mut column = column(name, 48.0, &[(Row::TtftMedian, 10.0)]);
        column.prompts = Some(prompts.to_owned());
        let requests = (0..).map(|index| (0, index)).zip(values.iter().copied());
        column.requests.insert(Row::TtftMedian, requests.collect());
        column
    };
    let check = |prompts: &str, values: &[f64], expect: Option<(f64, usize)>| {
        let table = compare(&[
            with("a", "p", &[10.0, 100.0, 40.0]),
            with("b", prompts, values),
        ]);
        let cell = table.lines[0].cells[1].clone().unwrap();
        let paired = cell.paired.map(|paired| (paired.ratio, paired.pairs));
        assert_eq!(paired, expect, "{prompts} {values:?}");
    };
    check("p", &[20.0, 300.0, 80.0], Some((2.0, 3)));
    check("p", &[20.0], Some((2.0, 1)));
    check("p", &[], None);
    check("q", &[20.0, 300.0, 80.0], None);
}

#[test]
fn stages_are_put_beside_one_another() {
    let with = |name: &str, stages: &[(&str, f64)]| Column {
        stages: stages
            .iter()
            .map(|(name, ms)| ((*name).to_owned(), *ms))
            .collect(),
        ..column(name, 48.0, &[(Row::Ready, 10.0)])
    };
    let table = compare(&[
        with("a", &[("load", 30.0), ("warm", 10.0)]),
        with("b", &[("warm", 5.0), ("compile", 95.0)]),
        with("c", &[]),
    ]);
    let names: Vec<&str> = table.stages.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["load", "warm", "compile"]);
    assert_eq!(table.stages[1].1, [Some(10.0), Some(5.0), None]);
    let dominant = [
        Some(("load".to_owned(), 0.75)),
        Some(("compile".to_owned(), 0.95)),
        None,
    ];
    assert_eq!(table.dominant, dominant);
}

#[test]
fn a_probe_that_paid_for_the_first_request_is_told() {
    let check = |probe, first, expect: bool| {
        let column = column(
            "a",
            8.0,
            &[(Row::FirstGeneration, probe), (Row::FirstTtft, first)],
        );
        let caveats = compare(&[column]).caveats;
        let told = caveats[0]
            .iter()
            .any(|line| line.contains("the readiness probe, took"));
        assert_eq!(told, expect, "{probe} {first}");
    };
    check(1_216.0, 15.0, true);
    check(40.0, 15.0, false);
    check(150.0, 100.0, false);
}

#[test]
fn lengths_within_one_percent_are_the_same_work() {
    let check = |a, b, expect| assert_eq!(differ(a, b), expect, "{a:?} {b:?}");
    check(Some(100.0), Some(100.0), false);
    check(Some(100.0), Some(99.0), false);
    check(Some(100.0), Some(98.9), true);
    check(Some(98.9), Some(100.0), true);
    check(None, Some(4.0), false);
}

#[test]
fn what_a_reader_must_know_is_said() {
    let first = Column {
        machine: Some("m1".to_owned()),
        prompt_tokens: Some(32.0),
        ..column("a", 8.0, &[])
    };
    let other = Column {
        origin: Origin::Imported {
            tool: "guidellm".to_owned(),
        },
        machine: Some("m2".to_owned()),
        quantised: Some("q4_0".to_owned()),
        precision: Some("f16".to_owned()),
        prompt_tokens: Some(40.0),
        sent: 10,
        void: 2,
        output_tokens: None,
        ..column("b", 8.0, &[])
    };
    let caveats = compare(&[first, other]).caveats;
    assert_eq!(caveats[0], Vec::<String>::new());
    for part in [
        "imported from guidellm",
        "quantised (q4_0)",
        "different precision (f16 against unsaid)",
        "different hardware (m2)",
        "different prompt tokens (40 against 32)",
        "2 of 10 requests void",
        "length of its answers unknown",
    ] {
        assert!(
            caveats[1].iter().any(|line| line.contains(part)),
            "{part}: {caveats:?}"
        );
    }
}
