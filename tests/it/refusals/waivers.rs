//! What `gates/waivers.toml` may not say, and what it does when it is over.

use fixture::Project;

const SOUND: &str = r#"
[[waiver]]
check = "tpot/regression"
reason = "a slower sampler, agreed"
owner = "@ada"
issue = "https://example.org/issues/12"
expires = 2099-01-15
"#;

#[track_caller]
fn refuses(text: &str, parts: &[&str]) {
    let project = Project::without_build();
    project.write("gates/waivers.toml", text);
    project.run(&["check"]).expect(2).says(parts);
    assert_eq!(project.leftovers(), [0; 0]);
}

#[test]
fn every_waiver_says_who_why_and_until_when() {
    for key in ["check", "reason", "owner", "issue", "expires"] {
        let without: Vec<&str> = SOUND
            .lines()
            .filter(|line| !line.starts_with(key))
            .collect();
        let missing = format!("`waiver[0].{key}` is missing");
        refuses(&without.join("\n"), &[&missing, "gates/waivers.toml"]);
    }
    let empty = SOUND.replace("\"@ada\"", "\" \"");
    refuses(&empty, &["`waiver[0].owner` is empty", "^^^"]);
    refuses(&(SOUND.to_owned() + SOUND), &["waived a second time"]);
}

#[test]
fn what_is_waived_exists() {
    let typo = SOUND.replace("tpot/regression", "tpot/regresion");
    refuses(
        &typo,
        &[
            "unknown check `tpot/regresion`",
            "did you mean",
            "regression",
        ],
    );
    let typo = SOUND.replace("tpot/", "tpt/");
    refuses(&typo, &["unknown gate `tpt`", "did you mean `tpot`"]);
}

#[test]
fn a_day_is_a_date() {
    let quoted = SOUND.replace("2099-01-15", "\"next week\"");
    refuses(&quoted, &["must be a date, not a string", "2027-01-15"]);
    let moment = SOUND.replace("2099-01-15", "2099-01-15T10:00:00Z");
    refuses(&moment, &["must be a date"]);
}

#[test]
fn an_expired_one_fails_before_an_engine_is_started() {
    let project = Project::without_build();
    let expired = SOUND.replace("2099-01-15", "2020-01-15");
    project.write("gates/waivers.toml", &expired);
    let ended = project
        .run(&["check", "--format", "json", "--out", "run"])
        .expect(1);
    let verdict = ended.json();
    assert_eq!(verdict["launches"], 0);
    let checks = verdict["gates"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|gate| gate["checks"].as_array().unwrap());
    let failed: Vec<_> = checks.filter(|check| check["verdict"] == "fail").collect();
    assert_eq!(failed.len(), 1);
    assert_eq!(
        (&failed[0]["id"], &failed[0]["rule"]),
        (&"tpot/regression".into(), &"waiver-expired".into())
    );
    assert_eq!(failed[0]["waiver"]["expired"], true);
    // The record holds the waivers, so that it is judged alike elsewhere.
    let again = project
        .run(&["report", "run", "--format", "json"])
        .expect(1)
        .json();
    assert_eq!(again["summary"], verdict["summary"]);
}
