//! A session whose workloads alone wait longer than the profile's budget is refused before anything is built.

use fixture::Project;

/// Our gates in the profile `quick`, with a turn each 30 s where there was none to wait for.
fn endless() -> Project {
    let project = Project::with_commits();
    project.edit(DRIFT, "quick = \"1 ms\"", "quick = \"30 s\"");
    project.commit("slower turns");
    project
}

const DRIFT: &str = "gates/prefill-drift.toml";

#[test]
fn a_session_that_cannot_end_in_its_budget_is_refused_before_the_build() {
    let project = endless();
    let ended = project.run(&["check"]).expect(2);
    insta::assert_snapshot!(ended.stderr.trim_end(), @r#"
    error: the profile `quick` cannot be decided in its budget of 75 s: a verdict needs 4 launches of each arm, and these take at least 92 min, however fast the engine is
      prefill-drift: at least 11.5 min a launch, 92 min in all (gates/prefill-drift.toml)
      set `spacing` to "407 ms" or less in [workload.session] of gates/prefill-drift.toml, or
      set `profile.quick.budget` to "92 min" or more in gates/gate.toml
    "#);
    for command in [
        &["shard", "plan"][..],
        &["shard", "plan", "--json"],
        &["shard", "plan", "--shards", "2"],
        &["calibrate", "--sessions", "1"],
        &["bisect", "HEAD~1", "HEAD", "--gate", "prefill-drift"],
        &["selftest", "--project"],
        &["baseline", "record"],
        &["check", "--base", "stored"],
    ] {
        let ended = project.run(command).expect(2);
        ended.says(&[
            "cannot be decided in its budget of 75 s",
            "prefill-drift: at least 11.5 min a launch",
        ]);
    }
    // Nothing was built, and nothing was opened for results.
    assert!(!project.path("target").exists());
    assert!(!project.path(".gate").exists());
    // The gates that do not wait are none the worse.
    project.run(&["shard", "plan", "--gate", "tpot"]).expect(0);
}

#[test]
fn one_arm_alone_needs_half_of_it() {
    let project = endless();
    project.edit(
        "gates/gate.toml",
        "budget = \"75 s\"",
        "budget = \"50 min\"",
    );
    project
        .run(&["shard", "plan"])
        .expect(2)
        .says(&["these take at least 92 min"]);
    // What is refused next is the change that the line before made.
    let recorded = project.run(&["baseline", "record"]).expect(2);
    recorded.says(&["uncommitted changes", "gates/gate.toml"]);
}

/// Follows the advice of the refusal of `gate shard plan`, and expects a plan.
#[track_caller]
fn fits_with(workload: &str, advice: &str) {
    let project = Project::without_build();
    let gate = format!(
        "title = \"Own\"\n[workload.w]\n{workload}\n[[check]]\nname = \"c\"\nmetric = \"failed_requests\"\n\
         rule = \"ceiling\"\nlimit = \"0 cases\"\n"
    );
    project.write("gates/own.toml", &gate);
    let plan = ["shard", "plan", "--gate", "own"];
    let refused = project.run(&plan).expect(2);
    let lines: Vec<&str> = refused.stderr.lines().collect();
    let setting = lines
        .iter()
        .find_map(|line| line.trim().strip_prefix("set `"));
    let (key, rest) = setting.unwrap().split_once("` to ").unwrap();
    let value = rest.split_once(" or less").map(|(value, _)| value);
    assert_eq!(
        value.map(|value| format!("{key} = {value}")).as_deref(),
        Some(advice),
        "{}",
        refused.stderr
    );
    let is_key = |line: &&str| line.starts_with(&format!("{key} = "));
    let old = workload.lines().find(is_key).unwrap();
    project.edit("gates/own.toml", old, advice);
    project.run(&plan).expect(0);
    // The other way out.
    project.edit("gates/own.toml", advice, old);
    let budget = lines.iter().find_map(|line| line.split_once("budget` to "));
    let budget = budget.unwrap().1.split_once(" or more").unwrap().0;
    project.edit(
        "gates/gate.toml",
        "budget = \"75 s\"",
        &format!("budget = {budget}"),
    );
    project.run(&plan).expect(0);
}

#[test]
fn the_advice_of_a_refusal_is_just_enough() {
    let session =
        "kind = \"session\"\nturns = 25\nwarmup_turns = 2\nmessage_words = 8\nreply_tokens = 8\n";
    // Eight launches of 24 spacings in 75 s.
    fits_with(
        &format!("{session}spacing = \"1 s\""),
        "spacing = \"390 ms\"",
    );
    let sizes = "prompt_tokens = 8\noutput_tokens = 8\n";
    let steady = format!("kind = \"steady\"\nwarmup = 10\n{sizes}");
    let constant = "requests = 60\narrivals = \"constant\"\nrate = \"5 requests/s\"";
    fits_with(&format!("{steady}{constant}"), "requests = 37");
    let burst = "requests = 60\narrivals = \"burst\"\nburst = 10\nevery = \"2 s\"";
    fits_with(&format!("{steady}{burst}"), "requests = 40");
    let users = "kind = \"staggered\"\nusers = 5\npasses = 2\nwarmup = 0\n";
    fits_with(
        &format!("{users}{sizes}offset = \"1 s\""),
        "offset = \"585 ms\"",
    );
}

#[test]
fn a_gate_that_runs_in_few_launches_waits_in_few() {
    let project = endless();
    project.edit(
        "gates/gate.toml",
        "budget = \"75 s\"",
        "budget = \"24 min\"",
    );
    project
        .run(&["shard", "plan", "--gate", "prefill-drift"])
        .expect(2);
    // `vs-main` and `drift` compare launches; `leak` alone is a count.
    let drift = project.read(DRIFT);
    let (of_leak, _) = drift.split_once("# What a new token costs").unwrap();
    let once = of_leak.replace("reply_tokens", "launches = 1\nreply_tokens");
    project.write(DRIFT, &once);
    let told = project
        .run(&["shard", "plan", "--gate", "prefill-drift"])
        .expect(0)
        .stdout;
    assert!(
        told.contains("at most 24.0 min, at least 23.0 min"),
        "{told}"
    );
    assert!(told.contains("690.0 s"), "{told}");
}

#[test]
fn a_profile_takes_what_is_missing_from_another() {
    let like = "like = \"full\"";
    for (wrong, part) in [
        ("like = \"ful\"", "there is no other profile `ful`"),
        ("like = \"nightly\"", "there is no other profile `nightly`"),
        ("like = 7", "`profile.nightly.like` must be a string"),
    ] {
        super::refuses(super::CONFIG, like, wrong, &[part, "^"]);
    }
    let chain = "budget = \"75 s\"\nlike = \"nightly\"";
    let why = "`nightly` has a `like` itself";
    super::refuses(super::CONFIG, "budget = \"75 s\"", chain, &[why, "^"]);
    // `tpot` says nothing of this profile.
    let project = Project::without_build();
    let plan = ["shard", "plan", "--profile", "nightly", "--gate", "tpot"];
    project.run(&plan).expect(0);
    project.edit(super::CONFIG, like, "");
    let why = "has no value for the profile `nightly`";
    project.run(&plan).expect(2).says(&[why, "gates/tpot.toml"]);
}
