//! A judged session as HTML and as JUnit, through the binary, and what `gate report` leaves.

use super::records::{record, regressed, short};
use fixture::{Ended, gate};
use serde_json::{Value, json};
use std::fs;

/// `gate report` of the record in a form, and the directory's files after it.
fn judged(record: &Value, form: &str) -> (Ended, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("run.json"), record.to_string()).unwrap();
    let output = gate(&["report", ".", "--format", form])
        .current_dir(folder.path())
        .output()
        .unwrap();
    let mut names: Vec<String> = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    (Ended::of(&output), names)
}

#[test]
fn a_result_directory_holds_every_form() {
    let (ended, names) = judged(&record(), "comment");
    ended
        .expect(0)
        .comments(&["<!-- infergate:gate -->\n", "## ✅ Pass: "]);
    assert_eq!(
        names,
        [
            "junit.xml",
            "report.html",
            "report.md",
            "run.json",
            "verdict.json"
        ]
    );
}

#[test]
fn junit_tells_failures_from_errors() {
    let (ended, _) = judged(&regressed(), "junit");
    let ended = ended.expect(1);
    for part in [
        "<testsuites name=\"infergate\" tests=\"2\"",
        "<testsuite name=\"tpot\" tests=\"2\"",
        "<testcase name=\"regression\" classname=\"tpot\">",
        "<failure message=\"",
        "type=\"regression\"",
    ] {
        assert!(
            ended.stdout.contains(part),
            "`{part}` is missing in {}",
            ended.stdout
        );
    }
    let (ended, _) = judged(&short(), "junit");
    let ended = ended.expect(4);
    assert!(
        ended.stdout.contains("<error message=\"") && ended.stdout.contains("type=\"invalid: "),
        "{}",
        ended.stdout
    );
}

#[test]
fn a_waived_check_is_skipped() {
    let mut waived = regressed();
    let waiver = "[[waiver]]\ncheck = \"tpot/regression\"\nreason = \"agreed & <known>\"\nowner = \"@ada\"\n\
                  issue = \"https://example.org/1\"\nexpires = 2030-01-15\n";
    waived["inputs"]
        .as_array_mut()
        .unwrap()
        .push(json!({"path": "gates/waivers.toml", "text": waiver}));
    let (ended, _) = judged(&waived, "junit");
    assert!(
        ended.stdout.contains(
            "<skipped message=\"waived until 2030-01-15 by @ada: agreed &amp; &lt;known&gt;; "
        ),
        "{}",
        ended.stdout
    );
    let (ended, _) = judged(&waived, "comment");
    ended.comments(&["| ⚠️ waived |", "**Waived**", ", owner "]);
}

#[test]
fn the_page_needs_nothing_else_and_runs_nothing() {
    let mut hostile = regressed();
    let text = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)> ghp_0123456789abcdef0123456789 \u{202e}";
    hostile["machine"]["fingerprint"] = json!(text);
    for launch in hostile["launches"].as_array_mut().unwrap() {
        launch["fingerprint"] = json!(text);
    }
    hostile["launches"][7]["exit"] = json!({"how": "crashed", "detail": text, "log_tail": text});
    let (ended, _) = judged(&hostile, "html");
    // Its own scripts are the same in every page.
    let (before, scripts) = ended
        .stdout
        .split_once("<script type=\"application/json\"")
        .unwrap();
    let (data, scripts) = scripts.split_once("</script>").unwrap();
    assert!(!data.contains('<'), "{data}");
    assert_eq!(scripts.matches("<script>").count(), 2);
    let page = &format!("{before}{}", scripts.rsplit_once("</script>").unwrap().1);
    for part in [
        "<script",
        "<img",
        "onerror=alert(1)>",
        "ghp_",
        "\u{202e}",
        "http://",
        "https://",
    ] {
        let found = page
            .match_indices(part)
            .map(|(at, _)| &page[at.saturating_sub(40)..at + part.len()]);
        assert_eq!(found.collect::<Vec<_>>(), [""; 0], "{part}");
    }
    for part in [
        "<!doctype html>",
        "default-src 'none'",
        "<svg",
        "prefers-color-scheme: dark",
        "&lt;script&gt;",
    ] {
        assert!(page.contains(part), "`{part}` is missing");
    }
    assert_eq!(
        page.matches("<circle").count(),
        2 * 2 * 7,
        "a dot a launch that ended well over time and one by arm, for two checks"
    );
}
