//! What sessions leave to later ones, where nobody calibrated.

use super::small;
use fixture::Project;
use std::fs;
use std::path::PathBuf;

/// The one file of earlier sessions.
fn learned(project: &Project) -> PathBuf {
    let files = fs::read_dir(project.path(".gate/calibration")).unwrap();
    let files = files.map(|file| file.unwrap().path());
    let of_sessions = files.filter(|path| path.extension().is_some_and(|e| e == "jsonl"));
    let [file] = &of_sessions.collect::<Vec<_>>()[..] else {
        panic!("one file of sessions");
    };
    file.clone()
}

/// The terminal's report of a run that ends before any launch, its lines joined.
fn report(project: &Project, further: &[&str]) -> String {
    project.waive("start/ceiling", "2020-01-31");
    let check = ["check", "--gate", "start", "--same-build"];
    let ended = project.run(&[&check[..], further].concat()).expect(1);
    ended.stdout.replace('\n', " ")
}

#[test]
fn later_sessions_are_judged_by_what_enough_earlier_ones_showed() {
    let project = small();
    let measured = project.run(&["check", "--gate", "start", "--same-build"]);
    assert!(matches!(measured.code, Some(0 | 1 | 3)), "{measured:?}");
    let file = learned(&project);
    let one = fs::read_to_string(&file).unwrap();
    assert_eq!(one.lines().count(), 1, "{one}");
    let session: serde_json::Value = serde_json::from_str(&one).unwrap();
    let blocks = session["checks"]["start/regression"].as_array().unwrap();
    assert!((2..=5).contains(&blocks.len()), "{one}");
    let judged = "not calibrated on this machine (`gate calibrate` saves launches); noise known from 30 earlier sessions here";
    for (sessions, is_judged) in [(4, false), (30, true)] {
        fs::write(&file, one.repeat(sessions)).unwrap();
        let text = report(&project, &[]);
        assert_eq!(text.contains(judged), is_judged, "{text}");
    }
    // Nothing was measured, so nothing was learned.
    assert_eq!(fs::read_to_string(&file).unwrap(), one.repeat(30));
}
