//! `gate history note` and `gate history --changelog` through the binary.

use super::command::{PLAIN, Store, holds};
use serde_json::Value;

/// A store in which main became 5 % slower, and the date and commit of that step.
fn slower() -> (Store, String, String) {
    let mut store = Store::tpot(30);
    store.write(15, 1.0, &PLAIN).write(15, 1.05, &PLAIN);
    let series =
        store.history(&["--format", "json"]).expect(1).json()["checks"][0]["series"][0].clone();
    let session = series["steps"][0]["session"].clone();
    let points = series["points"].as_array().unwrap();
    let point = points
        .iter()
        .find(|point| point["session"] == session)
        .unwrap();
    let text = |key: &str| point[key].as_str().unwrap().to_owned();
    (store, text("created")[..10].to_owned(), text("commit"))
}

fn note(store: &Store, arguments: &[&str]) -> fixture::Ended {
    let all = [&["history", "note", "--profile", "full"], arguments].concat();
    store.project.run(&all)
}

#[test]
fn a_note_stands_beside_its_step_and_in_the_changelog() {
    let (store, date, commit) = slower();
    let before = store.history(&["--changelog"]).expect(0).stdout;
    holds(
        &before,
        &[
            &date,
            "tpot/regression +",
            "worse in c0",
            "not explained: `gate history note`",
        ],
    );
    let step = [
        "--check",
        "tpot/regression",
        "--step",
        &date,
        "--kept",
        "--by",
        "Ada",
    ];
    let ended = note(
        &store,
        &[&step[..], &["the new sampler costs it, agreed in #12"]].concat(),
    )
    .expect(0);
    ended.says(&[
        "stored: ",
        ".gate/baseline/notes/session-",
        &commit,
        "gate baseline push",
    ]);
    // A second one, on the commit: git's own name is nobody's here.
    note(&store, &["--commit", &commit, "--by", "Bob", "worth it"]).expect(0);

    let today = jiff::Timestamp::now().strftime("%Y-%m-%d").to_string();
    let told = [
        format!("kept: the new sampler costs it, agreed in #12 (Ada, {today})"),
        format!("worth it (Bob, {today})"),
    ];
    let told: Vec<&str> = told.iter().map(String::as_str).collect();
    let history = store.history(&[]).expect(1).stdout;
    holds(&history, &told);
    let after = history.split_once("worse in c0").unwrap().1;
    assert!(
        after.find("kept: ").unwrap() < after.find("trend").unwrap(),
        "{history}"
    );
    holds(
        &store
            .history(&["--format", "markdown"])
            .expect(1)
            .stdout
            .replace("\n", " \n"),
        &["kept: the new sampler"],
    );

    let changelog = store.history(&["--changelog"]).expect(0).stdout;
    holds(&changelog, &told);
    assert!(!changelog.contains("not explained"), "{changelog}");
    let json = store
        .history(&["--changelog", "--format", "json"])
        .expect(0)
        .json();
    assert_eq!(json["format"], "infergate-changelog/1");
    let entry = &json["entries"][0];
    assert_eq!(
        (&entry["date"], &entry["check"], &entry["is_worse"]),
        (&Value::from(date), &"tpot/regression".into(), &true.into())
    );
    let notes = entry["notes"].as_array().unwrap();
    let of_ada = notes.iter().find(|note| note["by"] == "Ada").unwrap();
    assert_eq!(of_ada["outcome"], "kept");
    assert!(
        entry["number"].as_str().unwrap().starts_with('+'),
        "{entry}"
    );
    let steps =
        store.history(&["--format", "json"]).expect(1).json()["checks"][0]["series"][0]["steps"]
            .clone();
    assert_eq!(steps[0]["notes"].as_array().unwrap().len(), 2);
}

#[test]
fn a_note_on_a_commit_without_a_step_is_in_the_changelog_alone_and_does_nothing_there() {
    let (store, _, _) = slower();
    let text = "pinned | clocks <b>@all</b> ::warning:: \u{202e}";
    note(
        &store,
        &[
            "--commit",
            "c00000000002",
            "--reverted",
            "--by",
            "Ada",
            text,
        ],
    )
    .expect(0);
    assert!(!store.history(&[]).expect(1).stdout.contains("pinned"));
    let text = store.history(&["--changelog"]).expect(0).stdout;
    holds(
        &text,
        &[
            "all checks no step, at c00000000002",
            "reverted: pinned | clocks",
        ],
    );
    // The newest first.
    assert!(
        text.find("no step").unwrap() > text.find("worse in").unwrap(),
        "{text}"
    );
    assert!(!text.contains('\u{202e}'), "{text}");
    let table = store
        .history(&["--changelog", "--format", "markdown"])
        .expect(0)
        .stdout;
    let row = table.lines().find(|line| line.contains("pinned")).unwrap();
    assert!(
        row.contains("pinned \\| clocks &lt;b&gt;@\u{200b}all"),
        "{row}"
    );
    assert_eq!(row.matches(" | ").count(), 3, "{row}");
}

#[test]
fn what_names_no_session_no_author_or_no_line_is_refused() {
    let (store, date, commit) = slower();
    let refuses = |arguments: &[&str], parts: &[&str]| {
        note(&store, arguments).expect(2).says(parts);
    };
    refuses(&["why"], &["--commit", "--step"]);
    refuses(&["--commit", &commit, "why"], &["--by NAME", "user.name"]);
    refuses(
        &["--commit", "c0ffee00", "--by", "Ada", "why"],
        &["no stored session", "`c0ffee00`", "the newest are c0"],
    );
    refuses(
        &["--commit", "c0", "--by", "Ada", "why"],
        &["no stored session"],
    );
    refuses(
        &["--commit", "c00000000", "--by", "Ada", "why"],
        &["several commits begin with `c00000000`"],
    );
    refuses(
        &[
            "--commit",
            &commit,
            "--check",
            "tpot/none",
            "--by",
            "Ada",
            "why",
        ],
        &["with a value of tpot/none"],
    );
    refuses(
        &["--step", "2020-01-01", "--by", "Ada", "why"],
        &["--check"],
    );
    let old = [
        "--step",
        "2020-01-01",
        "--check",
        "tpot/regression",
        "--by",
        "Ada",
        "why",
    ];
    refuses(&old, &["no step of 2020-01-01; there are", &date]);
    for text in ["", "two\nlines", &"x".repeat(2_000)] {
        refuses(
            &["--commit", &commit, "--by", "Ada", text],
            &["the note cannot be kept"],
        );
    }
    // Nothing was written by any of these.
    assert!(!store.project.path(".gate/baseline/notes").exists());
    let broken = ".gate/baseline/notes/session-0123456789abcdef/20261120T030000Z-00ff00ff.json";
    std::fs::create_dir_all(store.project.path(broken).parent().unwrap()).unwrap();
    store.project.write(broken, "{}");
    store
        .history(&[])
        .expect(5)
        .says(&["00ff00ff.json", "it is not a note", "move the file away"]);
}
