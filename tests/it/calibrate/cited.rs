//! What reports say of a certificate that holds, of one that does not, and of none.

use super::{certificate, forge, small};
use fixture::Project;
use serde_json::Value;

const CHECK: [&str; 5] = ["check", "--gate", "start", "--out", "result"];

/// The terminal's report with its lines joined: a sentence may be broken anywhere.
#[track_caller]
fn report(project: &Project) -> String {
    report_with(project, &[])
}

/// A waiver that is over fails before any launch: the report cites what any other would.
#[track_caller]
fn report_with(project: &Project, further: &[&str]) -> String {
    if project.path("result").exists() {
        std::fs::remove_dir_all(project.path("result")).unwrap();
    }
    project.waive("start/ceiling", "2020-01-31");
    let ended = project.run(&[&CHECK[..], further].concat()).expect(1);
    ended.stdout.replace('\n', " ")
}

fn verdict(project: &Project) -> Value {
    serde_json::from_str(&project.read("result/verdict.json")).unwrap()
}

#[test]
fn every_report_and_plan_cites_the_certificate_as_long_as_it_holds() {
    let project = small();
    let ended = project.run(&["calibrate", "--gate", "start", "--sessions", "1"]);
    assert!(matches!(ended.code, Some(0 | 1 | 3)), "{ended:?}");
    it_is_cited(&project);
    it_is_planned_with(&project);
    it_is_of_the_engine_as_it_is_configured(&project);
    let (_, made) = certificate(&project);
    let there = made["key"]["fingerprint"].as_str().unwrap();
    let there = there.replacen(" cores", "000 cores", 1);
    it_is_void(
        &project,
        |c| c["key"]["fingerprint"] = there.clone().into(),
        "is of another machine (",
    );
    it_is_void(
        &project,
        |c| c["created"] = "2020-01-01T00:00:00Z".into(),
        "more than the 90 that it holds",
    );
}

fn it_is_cited(project: &Project) {
    let text = report(project);
    let (_, made) = certificate(project);
    let day = made["created"].as_str().unwrap().split('T').next().unwrap();
    for part in [
        &format!("calibrated {day}: "),
        "in 1 A/A session (",
        "; 5 blocks find ",
        "(start/regression)",
    ] {
        assert!(text.contains(part), "`{part}` is missing in: {text}");
    }
    let markdown = project.read("result/report.md");
    let line = format!("- calibrated {day}: ");
    assert!(markdown.contains(&line), "{markdown}");
    let gate = verdict(project)["calibration"]["gates"][0].clone();
    assert_eq!(gate["standing"], "valid");
    assert_eq!(gate["created"], made["created"]);
    let effect = &made["checks"][0]["effects"][0]["effect"];
    assert_eq!(&gate["smallest_effects"]["start/regression"], effect);
    // The record holds it: the same bytes again, whatever becomes of the certificate.
    forge(project, |c| c["alpha"] = 0.01.into());
    project.run(&["report", "result"]).expect(1);
    assert_eq!(project.read("result/report.md"), markdown);
    forge(project, |c| c["alpha"] = 0.02.into());
}

fn it_is_planned_with(project: &Project) {
    let (_, made) = certificate(project);
    let arguments = ["power", "--gate", "start", "--format", "json", "--effect"];
    let ended = project.run(&[&arguments[..], &["900%"]].concat()).expect(0);
    let row = &ended.json()["rows"][0];
    assert_eq!(row["source"], "certificate");
    assert_eq!(row["launch_sd"], made["checks"][0]["noise"]["launch_sd"]);
    let blocks = row["blocks"].as_f64().unwrap();
    let minutes = 2.0 * blocks * made["launch_s"].as_f64().unwrap() / 60.0;
    assert!((row["minutes"].as_f64().unwrap() - minutes).abs() < 1e-9);
    // Beside a gate that was never calibrated: what is known is planned, the rest is named.
    let both = [&arguments[..], &["900%", "--gate", "prefill-drift"]].concat();
    let ended = project.run(&both).expect(0);
    assert_eq!(ended.json()["rows"].as_array().unwrap().len(), 1);
    let unknown = ended.json()["unknown"][0].to_string();
    for part in ["the noise of prefill-drift/e2e", "unknown: not calibrated"] {
        assert!(unknown.contains(part), "{unknown}");
    }
}

fn it_is_of_the_engine_as_it_is_configured(project: &Project) {
    for arm in ["--base-arg", "--head-arg"] {
        let text = report_with(project, &[arm, "--fault=decode-delay=1ms"]);
        let line = "is of another engine configuration (without further arguments): not calibrated, and \
                    `gate calibrate` takes no further arguments: write those that both arms shall have \
                    into `engine.serve` first";
        assert!(text.contains(line), "{arm}: {text}");
    }
}

#[track_caller]
fn it_is_void(project: &Project, change: impl Fn(&mut Value), why: &str) {
    let (name, made) = certificate(project);
    forge(project, change);
    let text = report(project);
    assert!(text.contains(why), "{text}");
    assert!(text.contains("`gate calibrate`"), "{text}");
    let gate = verdict(project)["calibration"]["gates"][0].clone();
    assert_eq!(gate["standing"], "void");
    project
        .run(&["power", "--gate", "start"])
        .expect(2)
        .says(&[why]);
    project.write(&name, &made.to_string());
}

#[test]
fn no_certificate_is_told_too() {
    let project = small();
    let text = report(&project);
    let told = "not calibrated on this machine (`gate calibrate` saves launches)";
    assert!(text.contains(told), "{text}");
    let standing = &verdict(&project)["calibration"]["gates"][0]["standing"];
    assert_eq!(standing, "missing");
}

#[test]
fn a_certificate_that_cannot_be_read_ends_the_check_before_anything_starts() {
    let project = small();
    std::fs::create_dir_all(project.path(".gate/calibration")).unwrap();
    let name = ".gate/calibration/start-0123456789abcdef.json";
    for (text, part) in [
        ("{", "is not a certificate"),
        (r#"{"format":"infergate-calibration/9"}"#, "calibration/9"),
    ] {
        project.write(name, text);
        project.run(&CHECK).expect(5).says(&[
            part,
            "start-0123456789abcdef.json",
            "hint",
            "remove the file",
        ]);
        // Nothing is there but the reason, and what hides it from git.
        let left = std::fs::read_dir(project.path("result")).unwrap();
        assert_eq!(left.count(), 2);
        assert!(project.path("result/.gitignore").exists());
        assert!(project.read("result/failure.txt").contains(part));
        std::fs::remove_dir_all(project.path("result")).unwrap();
    }
}

#[test]
fn the_age_is_read_from_the_configuration() {
    let project = small();
    let config = project.read("gates/gate.toml");
    project.write(
        "gates/gate.toml",
        &format!("{config}\n[calibration]\nmax_age = \"1 h\"\n"),
    );
    project
        .run(&CHECK)
        .expect(2)
        .says(&["`calibration.max_age` must lie between 1 and 3650 days"]);
}
