//! `gate power`: from a given spread, and from nothing. With a certificate: `cited.rs`.

use super::small;
use fixture::repository;
use std::fs;

#[test]
fn a_given_spread_gives_the_worked_case_of_the_docs() {
    let project = fixture::Project::without_build();
    let ended = project
        .run(&["power", "--gate", "tpot", "--sd", "0.7%", "--effect", "3%"])
        .expect(0);
    let doc = fs::read_to_string(repository().join("docs/calibration.md")).unwrap();
    for line in ended.stdout.lines() {
        assert!(doc.contains(line), "docs/calibration.md lacks: {line}");
    }
}

#[test]
fn how_the_looks_share_the_budget_is_planned_with() {
    let project = fixture::Project::without_build();
    let power = || {
        let arguments = ["--gate", "tpot", "--profile", "full", "--sd", "0.7%"];
        let all = [&["power"][..], &arguments].concat();
        project.run(&all).expect(0).stdout
    };
    let early = power();
    let alarm = "false_alarm = \"2 %\"";
    let spending = format!("{alarm}\nspending = \"obrien-fleming\"");
    project.edit("gates/gate.toml", alarm, &spending);
    // At the first look nearly nothing may be spent.
    let late = power();
    let blocks = |text: &str| -> u32 {
        let (_, after) = text.split_once("after ").unwrap();
        after.split_whitespace().next().unwrap().parse().unwrap()
    };
    assert!(blocks(&late) > blocks(&early), "{late}");
}

#[test]
fn what_no_number_of_launches_finds_is_said() {
    let project = small();
    let power = |arguments: &[&str]| {
        let mut all = vec!["power", "--gate", "start"];
        all.extend(arguments);
        project.run(&all).expect(0).stdout.replace('\n', " ")
    };
    let within = power(&["--sd", "0.7%", "--effect", "1%"]);
    assert!(
        within.contains("no number of launches finds 1 %"),
        "{within}"
    );
    let noisy = power(&["--sd", "80%", "--effect", "3%"]);
    assert!(noisy.contains("not even 1000 blocks find 3 %"), "{noisy}");
    let late = power(&["--sd", "2%", "--effect", "3%"]);
    assert!(
        late.contains("more than the profile's last look at 5"),
        "{late}"
    );
}

#[test]
fn nothing_known_and_nothing_given_is_refused() {
    let project = small();
    project.run(&["power", "--gate", "start"]).expect(2).says(&[
        "start/regression",
        "not calibrated",
        "gate calibrate",
        "--sd",
    ]);
    for bad in [
        ["--sd", "0.7"],
        ["--sd", "-1%"],
        ["--effect", "0%"],
        ["--power", "100%"],
    ] {
        let mut arguments = vec!["power"];
        arguments.extend(bad);
        project.run(&arguments).expect(2).says(&["%"]);
    }
}
