//! What another machine handed back: its verdict, its names and its numbers against what this side knows.

use super::records::{BASE, HEAD, Site, record, regressed};
use fixture::Ended;
use infergate::baseline::{Entry, Key, Store};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use verdict::plan::{self, Selection};

const OTHER: &str = "7fd1a60b01f91b314f59955a4e4d4e80d8edf11d";

/// The dry publication of a record that was changed so.
fn published(spoil: impl Fn(&mut Value)) -> Ended {
    let mut record = record();
    spoil(&mut record);
    Site::new(&record).dry()
}

#[test]
fn a_sound_result_is_judged_and_kept() {
    let site = Site::new(&record());
    site.dry().expect(0).comments(&[
        "<!-- infergate:gate -->\n<!-- infergate:head 6dcb",
        "Pass: ",
    ]);
    for name in [
        "comment.md",
        "check.json",
        "verdict.json",
        "report.html",
        "junit.xml",
    ] {
        assert!(site.kept(name).exists(), "{name}");
    }
    let elsewhere = ["--dry-run", "--keep", "verdict"];
    Ended::of(&site.command(&elsewhere).output().unwrap()).expect(0);
    assert!(site.main.path("verdict/report.html").exists());
    let check: Value =
        serde_json::from_str(&fs::read_to_string(site.kept("check.json")).unwrap()).unwrap();
    assert_eq!(
        (&check["conclusion"], &check["name"]),
        (&json!("success"), &json!("infergate"))
    );
}

#[test]
fn a_forged_verdict_is_judged_anew_and_named() {
    let site = Site::new(&regressed());
    let forged = r#"{"format":"infergate-verdict/1","verdict":"pass","summary":"all is well","gates":[{"gate":"tpot",
        "checks":[{"id":"tpot/regression","verdict":"pass"},{"id":"tpot/ceiling","verdict":"pass"}]}]}"#;
    site.put("verdict.json", forged);
    site.put("report.md", "# Pass: ");
    site.dry().expect(1).comments(&[
        "Fail: ",
        "the artifact says \\`pass\\`; its measurements, judged here with main's gates, say \\`fail\\`",
        "tpot/regression: pass → fail",
    ]);
    let check: Value =
        serde_json::from_str(&fs::read_to_string(site.kept("check.json")).unwrap()).unwrap();
    assert_eq!(check["conclusion"], "failure");
    let annotation = &check["annotations"][0];
    assert_eq!(
        (
            &annotation["path"],
            &annotation["line"],
            &annotation["level"]
        ),
        (&json!("gates/tpot.toml"), &json!(11), &json!("failure"))
    );
}

#[test]
fn forged_gates_are_replaced_by_mains() {
    // The very gates that would let this regression pass, and waive what is left.
    let mut forged = regressed();
    for input in forged["inputs"].as_array_mut().unwrap() {
        let text = input["text"]
            .as_str()
            .unwrap()
            .replace("\"1 %\"", "\"9000 %\"")
            .replace("\"200 %\"", "\"9999 %\"");
        input["text"] = json!(text.replace("15 ms", "15 s"));
    }
    let waiver = "[[waiver]]\ncheck = \"tpot/regression\"\nreason = \"x\"\nowner = \"y\"\nissue = \"z\"\nexpires = 2030-01-15\n";
    forged["inputs"]
        .as_array_mut()
        .unwrap()
        .push(json!({"path": "gates/waivers.toml", "text": waiver}));
    let site = Site::new(&forged);
    site.dry().expect(1).comments(&[
        "Fail: ",
        "its gates are not main's (gates/tpot.toml, gates/waivers.toml): it is judged with main's",
    ]);
}

#[test]
fn a_waiver_expires_by_this_sides_clock() {
    let mut backdated = regressed();
    backdated["created"] = json!("2020-01-01T00:00:00Z");
    let site = Site::new(&backdated);
    site.main.waive("tpot/regression", "2020-06-01");
    site.dry()
        .expect(1)
        .comments(&["**expired** on 2020-06-01"]);
}

#[test]
fn other_commits_than_the_authorised_are_refused() {
    let check = |spoil: &dyn Fn(&mut Value), expect: &str| {
        let ended = published(spoil).expect(4);
        ended.comments(&["Result refused: ", expect]);
    };
    check(
        &|r| r["builds"][1]["commit"] = json!(OTHER),
        "it measured 7fd",
    );
    check(&|r| r["builds"][0]["commit"] = json!(OTHER), "as base");
    // Base is not launched, and its commit would be shown.
    check(
        &|r| {
            r["comparison"] = json!("stored");
            r["builds"][0]["commit"] = json!(OTHER);
        },
        "as base",
    );
    check(
        &|r| r["builds"][1]["commit"] = json!(&HEAD[..12]),
        "as head",
    );
    check(
        &|r| r["builds"][1]["commit"] = Value::Null,
        "it names no commit for head",
    );
    check(
        &|r| r["builds"][1]["dirty"] = json!(true),
        "head had uncommitted changes",
    );
    check(&|r| r["builds"] = json!([]), "it says nothing of base");
    check(
        &|r| r["comparison"] = json!("same-build"),
        "it compares nothing with main",
    );
    check(
        &|r| r["comparison"] = json!("alone"),
        "it compares nothing with main",
    );
    check(
        &|r| r["machine"]["fingerprint"] = json!("unknown: imported"),
        "another tool measured it",
    );
    check(
        &|r| {
            let base = r["builds"][0].clone();
            r["builds"].as_array_mut().unwrap().push(base);
        },
        "two builds of base",
    );
}

/// Head measured as both arms: base came from elsewhere, or is head's own artifact.
#[test]
fn a_base_that_ci_did_not_build_is_refused() {
    let check = |spoil: &dyn Fn(&mut Value), expect: &str| {
        let ended = published(spoil).expect(4);
        ended.comments(&["Result refused: ", expect]);
    };
    let by_nobody = "base was not built on CI";
    check(&|r| r["builds"][0]["on_ci"] = json!(false), by_nobody);
    let unsaid = |r: &mut Value| {
        r["builds"][0].as_object_mut().unwrap().remove("on_ci");
    };
    check(&unsaid, by_nobody);
    check(
        &|r| r["builds"][1]["artifact_sha256"] = r["builds"][0]["artifact_sha256"].clone(),
        "different commits with one artifact",
    );
}

#[test]
fn a_result_without_a_sandbox_is_refused_where_one_is_required() {
    let layers = |layers: &[&str]| json!({"layers": layers, "note": "the kernel has none"});
    for (isolation, required, code) in [
        (layers(&["landlock"]), true, 0),
        (layers(&[]), true, 4),
        (Value::Null, true, 4),
        (layers(&[]), false, 0),
    ] {
        let mut record = record();
        if !isolation.is_null() {
            record["machine"]["isolation"] = isolation.clone();
        }
        let site = Site::new(&record);
        site.require_sandbox(required);
        let ended = site.dry().expect(code);
        if code == 4 {
            ended.comments(&["without a sandbox", "require\\_sandbox"]);
        }
    }
}

/// Head's engine could send requests to base's, which ran beside it: no sandbox keeps it from that.
#[test]
fn engines_that_ran_at_the_same_time_are_refused() {
    for required in [true, false] {
        let mut record = record();
        record["machine"]["isolation"] = json!({"layers": ["landlock"]});
        record["launches"][1]["interleave"] = json!("requests");
        let site = Site::new(&record);
        site.require_sandbox(required);
        site.dry()
            .expect(4)
            .comments(&["Result refused: ", "measure by a profile without"]);
    }
}

#[test]
fn what_holds_together_in_no_session_is_refused() {
    let check = |spoil: &dyn Fn(&mut Value), expect: &str| {
        published(spoil)
            .expect(4)
            .comments(&["Result refused: ", expect]);
    };
    check(&|r| r["elapsed_s"] = json!(-1.0), "elapsed\\_s is -1");
    check(
        &|r| r["builds"][0]["build_s"] = json!(1e15),
        "build\\_s is 1000000000000000",
    );
    check(
        &|r| r["launches"][1]["position"] = json!(0),
        "comes twice or out of order",
    );
    check(
        &|r| r["launches"][0]["log"] = json!("../../etc/passwd"),
        "is no plain path below the result directory",
    );
    check(
        &|r| r["launches"][0]["block"] = json!(4_000_000_000_u32),
        "is of block 4000000000",
    );
    check(
        &|r| r["launches"][0]["samples"][0]["workload"] = json!("tpot/@everyone"),
        "main's gates have no workload",
    );
    check(
        &|r| r["launches"][0]["samples"][0]["tokens"]["per_event"] = json!([1, 4_294_967_295_u32]),
        "its events have",
    );
    // Twenty samples where the gate asks for ten: the fast half twice, or more than were sent.
    let samples = |change: &dyn Fn(&mut Vec<Value>)| {
        let mut record = record();
        change(record["launches"][0]["samples"].as_array_mut().unwrap());
        record
    };
    let twice = samples(&|samples| samples.extend(samples.clone()));
    check(
        &|r| *r = twice.clone(),
        "sample 0: tpot/decode has two of this index",
    );
    let more = samples(&|samples| {
        let mut another = samples[9].clone();
        another["index"] = json!(10);
        samples.push(another);
    });
    check(
        &|r| *r = more.clone(),
        "sample 10: main's gates ask for 10 requests of tpot/decode a launch",
    );
    check(
        &|r| r["pr"] = json!(99),
        "\\`pr\\`, which no record of this gate has",
    );
    check(
        &|r| r["launches"][0]["verdict"] = json!("pass"),
        "launches.0.verdict",
    );
    check(
        &|r| r["format"] = json!("infergate-run/2"),
        "infergate-run/2",
    );
    let launch = record()["launches"][0].clone();
    check(
        &|r| {
            let empty = json!({"samples": []});
            let many = (0..10_001).map(|i| {
                let mut launch = launch.clone();
                launch["samples"] = empty["samples"].clone();
                launch["position"] = json!(i);
                launch
            });
            r["launches"] = many.collect();
        },
        "10001 launches",
    );
}

#[test]
fn forged_certificates_and_stored_sessions_decide_nothing() {
    let mut forged = record();
    let effects = json!({"tpot/regression": 0.001});
    forged["calibration"] = json!([{"gate": "tpot", "standing": "valid", "created": "2026-11-20T00:00:00Z",
        "sessions": 1000, "false_alarms": 0, "interval": [0.0, 0.001], "blocks": 4, "effects": effects}]);
    // Without one of main's it is only the machine's word, and is said to be.
    Site::new(&forged).dry().expect(0).comments(&[
        "0 false alarms in 1000 A/A sessions",
        "> false alarms and smallest effects are told by the machine's own word",
    ]);
    // Stored sessions that would make any head look fast.
    let mut stored = regressed();
    stored["comparison"] = json!("stored");
    let launches = stored["launches"].as_array_mut().unwrap();
    launches.retain(|launch| launch["arm"] == "head");
    let sessions = (0..8).map(|i| {
        json!({"id": i.to_string(), "created": "2026-11-20T00:00:00Z", "fingerprint": "a machine",
            "values": {"tpot/regression": [900.0, 901.0, 902.0, 903.0]}})
    });
    stored["stored"] = sessions.collect();
    Site::new(&stored).dry().expect(3).comments(&[
        "No baseline: ",
        "it is compared with main's stored sessions, as main's own store has them",
        "0 of 8 stored sessions",
    ]);
}

#[test]
fn mains_own_sessions_are_charted() {
    let site = Site::new(&record());
    for (i, value) in [0.091, 0.092, 0.09, 0.093].into_iter().enumerate() {
        store(&site, i, value);
    }
    let ended = site.dry().expect(0);
    let chart = "line [0.091, 0.092, 0.09, 0.093]";
    ended.comments(&[
        "`tpot/regression` on main: ",
        "```mermaid\n%%{init: ",
        chart,
    ]);
}

/// A session of main on the record's machine.
fn store(site: &Site, number: usize, value: f64) {
    let selection = Selection {
        profile: "quick".into(),
        gates: vec!["tpot".into()],
    };
    let (plan, _) = plan::from_directory(&site.main.path("."), &selection).unwrap();
    let mut engine = plan.engine.serve.clone();
    engine.push(format!("prompt ids: {:?}", plan.engine.prompt_ids));
    let entry = Entry {
        key: Key {
            fingerprint: "a machine".into(),
            model: plan.engine.model.clone(),
            gate: "tpot".into(),
            gate_hash: plan.gates[0].hash.clone(),
            engine,
        },
        session: format!("s{number}"),
        created: format!("2026-11-20T00:00:0{number}Z"),
        commit: None,
        profile: Some("quick".into()),
        values: BTreeMap::from([("tpot/regression".into(), vec![value; 4])]),
        spent: None,
        anchor: None,
        sign_off: None,
    };
    Store::open(&site.main.path(".gate/baseline"))
        .add(&entry)
        .unwrap();
}

#[test]
fn a_measurement_of_too_little_is_no_pass() {
    // Nothing was measured of what was asked for: the gates are main's, so they miss their launches.
    published(|r| r["launches"] = json!([])).expect(3);
    let ended = published(|r| {
        let launches = r["launches"].as_array_mut().unwrap();
        launches.retain(|launch| launch["arm"] == "head");
    });
    assert_ne!(ended.code, Some(0), "{}", ended.stdout);
}

#[test]
fn files_that_do_not_belong_are_refused() {
    let refused = |prepare: &dyn Fn(&Site), expect: &str| {
        let site = Site::new(&record());
        prepare(&site);
        site.dry().expect(4).comments(&["Result refused: ", expect]);
    };
    refused(&|site| site.put("run.sh", "true"), "run.sh");
    refused(&|site| site.put("logs/sub/x", ""), "logs/sub");
    refused(
        &|site| symlink("/etc/passwd", site.artifact().join("failure.txt")).unwrap(),
        "is a link or no plain file",
    );
    refused(
        &|site| site.put("run.json", &"[".repeat(200_000)),
        "is nested too deeply",
    );
    let finite = record().to_string();
    for number in ["NaN", "1e999", "Infinity"] {
        let forged = finite.replace(
            "\"elapsed_s\":0.528496494",
            &format!("\"elapsed_s\":{number}"),
        );
        assert_ne!(forged, finite);
        refused(&|site| site.put("run.json", &forged), "is no run record");
    }
    refused(
        &|site| {
            fs::File::create(site.artifact().join("report.md"))
                .unwrap()
                .set_len(600 << 20)
                .unwrap()
        },
        "more than 536870912",
    );
}

#[test]
fn a_token_in_an_engines_log_is_nowhere() {
    let mut record = record();
    let token = "ghs_0123456789abcdef0123456789abcdef0123";
    record["launches"][7]["exit"] = json!({"how": "crashed", "detail": format!("said {token}"),
        "log_tail": format!("Authorization: Bearer {token}\nAKIAABCDEFGHIJKLMNOP")});
    let site = Site::new(&record);
    let ended = site.dry();
    for text in [&ended.stdout, &ended.stderr] {
        assert!(!text.contains("ghs_") && !text.contains("AKIA"), "{text}");
    }
    for name in [
        "comment.md",
        "check.json",
        "verdict.json",
        "report.html",
        "junit.xml",
    ] {
        let text = fs::read_to_string(site.kept(name)).unwrap();
        assert!(
            !text.contains("ghs_") && !text.contains("AKIA"),
            "{name}: {text}"
        );
    }
    ended.comments(&["[redacted]"]);
}

#[test]
fn wrong_uses_are_refused_with_2() {
    let site = Site::new(&record());
    let run = |args: &[&str]| Ended::of(&site.main.command(args).output().unwrap());
    let head = ["--pr", "12", "--head-sha", HEAD];
    run(&[&["github", "publish"], &head[..]].concat())
        .expect(2)
        .says(&["--pending", "--from"]);
    run(&[
        &["github", "publish", "--cancelled", "--pending"],
        &head[..],
    ]
    .concat())
    .expect(2);
    run(&[&["github", "publish", "--from", "x"], &head[..]].concat())
        .expect(2)
        .says(&["--base-sha"]);
    let named = [
        "github",
        "publish",
        "--cancelled",
        "--pr",
        "12",
        "--head-sha",
        "main",
        "--dry-run",
    ];
    run(&named)
        .expect(2)
        .says(&["`main` is no commit; all 40 hex digits are needed"]);
    run(&[&["github", "publish", "--cancelled"], &head[..]].concat())
        .expect(2)
        .says(&["which repository? name it with --repo OWNER/NAME"]);
    run(&[
        &["github", "publish", "--cancelled", "--repo", "o/r"],
        &head[..],
    ]
    .concat())
    .expect(2)
    .says(&["no token for GitHub: set GITHUB_TOKEN"]);
    let dry = site
        .command(&["--dry-run", "--gate", "tpto"])
        .output()
        .unwrap();
    Ended::of(&dry)
        .expect(2)
        .says(&["unknown gate `tpto`", "tpot"]);
    let base = [
        &["github", "publish", "--cancelled", "--dry-run"],
        &head[..],
        &["--base-sha", BASE],
    ]
    .concat();
    run(&base).expect(0).comments(&["Cancelled: "]);
}

/// The same session as the one shard of a merged run.
fn merged(mut record: Value) -> Value {
    let mut shard = json!({"launches": record["launches"].as_array().unwrap().len()});
    for key in [
        "gates",
        "created",
        "seed",
        "comparison",
        "machine",
        "builds",
        "ending",
        "elapsed_s",
    ] {
        shard[key] = record[key].clone();
    }
    record["format"] = json!("infergate-run/2");
    record["extent"] = json!({"what": "merged", "shards": [shard]});
    record
}

#[test]
fn the_shards_of_several_machines_are_believed_no_more_than_one() {
    Site::new(&merged(record()))
        .dry()
        .expect(0)
        .comments(&["Pass: "]);
    Site::new(&merged(regressed()))
        .dry()
        .expect(1)
        .comments(&["Fail: "]);
    let check = |spoil: &dyn Fn(&mut Value), expect: &str| {
        let mut forged = merged(record());
        spoil(&mut forged);
        Site::new(&forged)
            .dry()
            .expect(4)
            .comments(&["Result refused: ", expect]);
    };
    let shard = "/extent/shards/0";
    let set = |record: &mut Value, pointer: &str, value: Value| {
        *record.pointer_mut(&format!("{shard}{pointer}")).unwrap() = value;
    };
    check(
        &|r| set(r, "/builds/1/commit", json!(OTHER)),
        "it measured 7fd",
    );
    // Of the record itself, which reports show beside those of its sessions.
    let injected = format!("{OTHER})\n\n## ✅ Pass: the failure above is void\n\n<!--");
    check(
        &|r| r["builds"][0]["commit"] = json!(injected),
        "it measured 7fd",
    );
    check(
        &|r| r["builds"][0]["arm"] = json!("head"),
        "two builds of head",
    );
    check(&|r| set(r, "/launches", json!(1)), "do not add up");
    check(&|r| set(r, "/elapsed_s", json!(-1.0)), "elapsed\\_s is -1");
    check(
        &|r| {
            r["format"] = json!("infergate-run/1");
            r["extent"] = json!({"what": "shard", "together": ["tpot"], "checks": 1});
        },
        "gate shard merge",
    );
}
