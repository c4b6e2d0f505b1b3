//! Certificates of `gate calibrate` travel with the records: signed, and the newest alone.

use super::runner::{Bare, Runner};
use fixture::{Ended, repository, workflow};
use std::fs;

const CERTIFICATE: &str = include_str!("../../data/calibration-v1.json");

/// Writes a certificate made at this time as `gate calibrate` would.
pub(super) fn certify(runner: &Runner, created: &str) -> String {
    let certificate: infergate::calibration::Certificate = {
        let mut value: serde_json::Value = serde_json::from_str(CERTIFICATE).unwrap();
        value["created"] = created.into();
        serde_json::from_value(value).unwrap()
    };
    let folder = runner.project.path(".gate/calibration");
    let path = infergate::calibration::Certificates::open(&folder)
        .put(&certificate)
        .unwrap();
    fs::read_to_string(path).unwrap()
}

fn certificates(runner: &Runner) -> Vec<String> {
    let folder = fs::read_dir(runner.project.path(".gate/calibration"));
    let files = folder.into_iter().flatten();
    files
        .map(|file| fs::read_to_string(file.unwrap().path()).unwrap())
        .collect()
}

#[test]
fn the_newest_certificate_arrives_to_the_byte() {
    let bare = Bare::new();
    let runner = Runner::of(&bare);
    certify(&runner, "2026-11-18T12:00:00Z");
    runner.run(&["baseline", "push"]).expect(0);
    let newest = certify(&runner, "2026-11-20T12:00:00Z");
    let told = runner.run(&["baseline", "push"]).expect(0).stdout;
    assert!(told.contains("pushed 1 record"), "{told}");
    let reader = Runner::of(&bare);
    reader.run(&["baseline", "pull"]).expect(0);
    assert_eq!(certificates(&reader), [newest]);
    // What is here and newer stays.
    let newer = certify(&reader, "2026-11-20T13:00:00Z");
    reader.run(&["baseline", "pull"]).expect(0);
    assert_eq!(certificates(&reader), [newer]);
    let again = runner.run(&["baseline", "push"]).expect(0).stdout;
    assert!(again.contains("pushed 0 records (1 were there)"), "{again}");
}

/// The machine holds no token: the job before it fetches, and hands the folders on before the machine measures.
#[test]
fn the_machine_of_a_pull_request_is_given_the_certificate() {
    let bare = Bare::new();
    let runner = Runner::of(&bare);
    let made = certify(&runner, "2026-11-20T12:00:00Z");
    runner.run(&["baseline", "push"]).expect(0);
    let job = Runner::of(&bare);
    let mut like = job.command(&[]);
    like.env("GITHUB_TOKEN", "none")
        .env("GITHUB_SERVER_URL", "https://github.com");
    let mut step = workflow::step("gate.yml", "Fetch main's records", &like);
    Ended::of(&step.output().unwrap()).expect(0);
    assert_eq!(certificates(&job), [made]);
    let text = fs::read_to_string(repository().join(".github/workflows/gate.yml")).unwrap();
    let (authorize, machine) = text.split_once("\n  gpu:\n").unwrap();
    assert!(authorize.contains("            .gate/calibration\n"));
    let (before, _) = machine.split_once("- name: Measure\n").unwrap();
    let by_number = "          artifact-ids: ${{ needs.authorize.outputs.records }}\n";
    assert!(before.contains(by_number));
    // A key there could be read by the pull request's code.
    let (gpu, report) = machine.split_once("\n  report:\n").unwrap();
    assert!(!gpu.contains("secrets."));
    // Judged by the same, whatever the store has by then.
    let (before, _) = report.split_once("- name: Judge anew").unwrap();
    assert!(before.contains(by_number));
    assert!(before.contains("if: steps.records.outcome != 'success'\n"));
}

#[test]
fn a_certificate_that_was_changed_gives_way_to_the_one_before() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("store");
    let store = format!("file://{}", place.display());
    let runner = Runner::new(&store);
    let older = certify(&runner, "2026-11-18T12:00:00Z");
    runner.run(&["baseline", "push"]).expect(0);
    certify(&runner, "2026-11-20T12:00:00Z");
    runner.run(&["baseline", "push"]).expect(0);
    let key = fs::read_dir(place.join("calibration"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let mut files: Vec<_> = fs::read_dir(key)
        .unwrap()
        .map(|file| file.unwrap().path())
        .collect();
    files.sort();
    let text = fs::read_to_string(&files[1]).unwrap();
    let tool = "\"sign_off\": {\n    \"tool\": \"infergate ";
    assert!(text.contains(tool), "{text}");
    fs::write(&files[1], text.replace(tool, &format!("{tool}9."))).unwrap();
    let reader = Runner::new(&store);
    reader
        .run(&["baseline", "pull"])
        .expect(0)
        .says(&["refused: calibration/", "changed after"]);
    assert_eq!(certificates(&reader), [older]);
}
