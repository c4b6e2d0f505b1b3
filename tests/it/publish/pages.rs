//! The HTML report and a command's page in a browser: nothing in it runs but its own scripts, every drawing is drawn, and it fits a phone.
//!
//! Needs Node, npm and Chromium. Screenshots stay below `target/tmp/pages/`.

use super::comments::judged;
use super::hostile::{HOSTILE, hostile};
use super::records::{noisy, over_contexts, record, regressed, short};
use fixture::{Ended, gate, install, scratch, skip};
use infergate::session::{Form, rendered};
use serde_json::{Value, json};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Drives a Chromium that is there already.
const PACKAGE: &str = "puppeteer-core@24.43.1";

/// The page of a record.
fn page(record: &Value) -> String {
    let (record, verdict) = judged(record);
    rendered(&record, &verdict, Form::Html).unwrap()
}

/// The frozen session with so many requests in all.
fn of_requests(all: usize) -> Value {
    let mut record = record();
    let launches = record["launches"].as_array_mut().unwrap();
    let each = all / launches.len();
    for launch in launches {
        let samples = launch["samples"].as_array_mut().unwrap();
        let last = samples.last().unwrap().clone();
        let there = samples.len();
        samples.extend((there..each).map(|index| {
            let mut sample = last.clone();
            sample["index"] = json!(index);
            sample
        }));
    }
    record
}

/// `gate compare --format html` of two results with hostile names.
fn sheet(folder: &Path, markup: &str) -> PathBuf {
    let of = |value: f64| json!({"mean": value, "p50": value, "p99": value, "n": 100});
    let results = [(50.0, "a.json"), (75.0, "b.json")].map(|(ttft, name)| {
        let result = json!({
            "tool": markup, "date": "2026-11-21T00:00:00Z", "model": markup,
            "ttft_ms": of(ttft), "tpot_ms": of(ttft / 4.0), "itl_ms": of(ttft / 4.0), "icl_ms": of(ttft / 4.0),
            "e2e_ms": of(ttft * 9.0), "throughput": {"output_tokens_per_s": 1e3 / ttft},
            "requests": {"sent": 100, "ok": 100, "void": {}},
            "prompt_tokens": of(32.0), "output_tokens": of(48.0),
        });
        let path = folder.join(name);
        fs::write(&path, result.to_string()).unwrap();
        path
    });
    let mut command = gate(&[
        "compare", "--format", "html", "--name", markup, "--name", markup,
    ]);
    let ended = Ended::of(&command.args(results).output().unwrap()).expect(0);
    let path = folder.join("compare.html");
    fs::write(&path, ended.stdout).unwrap();
    path
}

#[test]
fn tpot_over_context_and_requests_over_time_are_drawn() {
    let page = page(&over_contexts());
    for part in [
        "data-plot=\"contexts\"",
        "base: 10 ms + 5 µs × context",
        "head: 10 ms + 6.001 µs × context",
    ] {
        assert!(page.contains(part), "`{part}` is missing in {page}");
    }
    // Six requests of each arm's first launch.
    for arm in ["bar-base", "bar-head"] {
        assert_eq!(page.matches(&format!("<g class=\"{arm}\">")).count(), 6);
    }
    assert!(page.contains("request 0 (base): sent at 1 ms, first event after 29 ms"));
    // One context, and one request at a time.
    let plain = self::page(&record());
    assert!(!plain.contains("data-plot=\"contexts\"") && !plain.contains("<g class=\"bar-"));
}

#[test]
fn pages_in_a_browser() {
    let browser = ["chromium", "chromium-browser", "google-chrome"];
    let browser = browser.into_iter().find(|name| {
        let version = Command::new(name).arg("--version").output();
        version.is_ok_and(|output| output.status.success())
    });
    let Some(browser) = browser else {
        // In CI it is there.
        assert!(env::var_os("INFERGATE_REQUIRE_CLIENTS").is_none());
        return skip::skip("pages in a browser: there is no Chromium");
    };
    let Some(packages) = install::or_skip(
        "pages in a browser",
        install::node_with("puppeteer-core-24.43.1", &[PACKAGE]),
    ) else {
        return;
    };
    let folder = scratch().join("pages");
    fs::create_dir_all(&folder).unwrap();
    let markup = format!("<img src=x onerror=alert(1)></script><script>alert(2)</script>{HOSTILE}");
    let pages = [
        ("pass", record()),
        ("fail", regressed()),
        ("inconclusive", noisy()),
        ("invalid", short()),
        ("contexts", over_contexts()),
        ("hostile", hostile(&markup)),
        ("100000-requests", of_requests(100_000)),
    ];
    let paths = pages.map(|(name, record)| {
        let path = folder.join(format!("{name}.html"));
        fs::write(&path, page(&record)).unwrap();
        path
    });
    let sheet = sheet(&folder, &markup);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/publish/pages.cjs");
    let output = Command::new("node")
        .arg(script)
        .args([&packages, Path::new(browser)])
        .args(paths)
        .arg(sheet)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{errors}");
    println!("{said}");
    // A script that looks at nothing must not pass.
    assert_eq!(said.matches("ok ").count(), 8 * 4, "{said}");
}
