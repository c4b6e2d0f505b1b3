//! The right commit, by a clock and by a count, over commits that do not build.

use super::{LEAKING, Made, SLOW, history, id, trials, tried};
use fixture::{MARKUP, Project, check_sheet};
use serde_json::json;

fn bisect(project: &Project, range: [&str; 2], gate: &str, format: &str) -> fixture::Ended {
    let [good, bad] = range;
    let arguments = [
        "bisect", good, bad, "--gate", gate, "--out", "result", "--format", format,
    ];
    project.run(&arguments)
}

#[test]
fn a_slower_commit_is_found_beside_one_that_does_not_build() {
    let project = history(&[
        Made::With(""),
        Made::With(""),
        Made::With(""),
        Made::Broken,
        Made::With(""),
        Made::With(SLOW),
        Made::With(SLOW),
        Made::With(SLOW),
    ]);
    let ended = bisect(&project, ["c0", "c7"], "speed", "json").expect(1);
    let found = ended.json();
    assert_eq!(found["conclusion"], json!({"is": "culprit", "commit": 5}));
    assert_eq!(found["commits"][5]["id"], id(&project, "c5"));
    assert_eq!(found["commits"][5]["subject"], "commit 5");
    assert_eq!(found["check"], "speed/e2e");
    assert_eq!(
        trials(&found),
        [
            tried(7, "confirm", "bad"),
            tried(3, "search", "skipped"),
            tried(4, "search", "good"),
            tried(5, "search", "bad"),
            tried(5, "jump", "bad"),
        ]
    );
    let jump = &found["trials"][4];
    assert_eq!(jump["against"], 4);
    let interval = jump["change"]["interval"].as_array().unwrap();
    let low = interval[0].as_f64().unwrap();
    assert!(low > 0.5, "{jump}");
    assert!(ended.stderr.contains("does not compile") || found["trials"][1]["reason"] != "");
    assert_eq!(project.leftovers(), [0; 0]);
    // Every session is a result directory of its own.
    let directory = jump["directory"].as_str().unwrap();
    project
        .run(&["report", &format!("result/{directory}")])
        .expect(1);
}

#[test]
fn a_count_decides_by_one_block_and_a_broken_neighbour_stays_a_candidate() {
    let project = history(&[
        Made::With(""),
        Made::With(""),
        Made::Broken,
        Made::With(LEAKING),
        Made::With(LEAKING),
    ]);
    // A waiver says that red may be merged, not that nobody may look for its cause.
    project.waive("leak/excess", "2999-12-31");
    let ended = bisect(&project, ["c0", "c4"], "leak", "json").expect(1);
    let found = ended.json();
    let among = json!({"is": "among", "first": 2, "last": 3});
    assert_eq!(found["conclusion"], among);
    assert_eq!(
        trials(&found),
        [
            tried(4, "confirm", "bad"),
            tried(2, "search", "skipped"),
            tried(3, "search", "bad"),
            tried(1, "search", "good"),
        ]
    );
    let launches: Vec<u64> = found["trials"]
        .as_array()
        .unwrap()
        .iter()
        .map(|t| t["launches"].as_u64().unwrap())
        .collect();
    assert_eq!(launches, [2, 0, 2, 2]);
    let told = "measuring: up to 1 block of 2 launches";
    assert!(ended.stderr.contains(told), "{}", ended.stderr);
    assert_eq!(project.leftovers(), [0; 0]);
}

#[test]
fn the_answer_names_the_commit_in_eighty_columns() {
    let project = history(&[
        Made::With(""),
        Made::With(""),
        Made::With(LEAKING),
        Made::With(LEAKING),
    ]);
    let ended = bisect(&project, ["c0", "c3"], "leak", "text").expect(1);
    let culprit = id(&project, "c2");
    for part in [
        "CULPRIT",
        &culprit,
        "t, 2",
        "commit 2",
        "against its parent",
        "GOOD ",
        "launches",
    ] {
        assert!(
            ended.stdout.contains(part),
            "`{part}` is missing in\n{}",
            ended.stdout
        );
    }
    let long = ended
        .stdout
        .lines()
        .filter(|line| line.chars().count() > 80);
    assert_eq!(long.count(), 0, "{}", ended.stdout);
    // A line a step while it runs.
    for part in ["confirming", "trying", "bad       ", "good      "] {
        assert!(
            ended.stderr.contains(part),
            "`{part}` is missing in\n{}",
            ended.stderr
        );
    }
}

#[test]
fn where_nothing_is_worse_nothing_is_searched() {
    let project = history(&[Made::With(""), Made::With(""), Made::With("")]);
    let ended = bisect(&project, ["c0", "c2"], "leak", "text").expect(0);
    assert!(
        ended.stdout.contains("no regression between them"),
        "{}",
        ended.stdout
    );
    assert!(ended.stdout.contains(" tokens → "), "{}", ended.stdout);
    // The same engine under another name is not measured at all.
    project.write("note", "nothing that is built");
    project.commit("a note");
    let arguments = ["bisect", "c2", "HEAD", "--gate", "leak"];
    let ended = project.run(&arguments).expect(0);
    assert!(
        ended.stdout.contains("build the same engine"),
        "{}",
        ended.stdout
    );
    assert!(ended.stdout.contains("0 launches"), "{}", ended.stdout);
    assert!(ended.stdout.contains("1 commit, "), "{}", ended.stdout);
}

#[test]
fn a_commit_whose_engine_dies_is_named_with_what_its_engine_did() {
    let project = history(&[Made::With(""), Made::With("--fault=die-at-start")]);
    let ended = bisect(&project, ["c0", "c1"], "leak", "text").expect(1);
    let words: Vec<&str> = ended.stdout.split_whitespace().collect();
    let (text, parent) = (words.join(" "), id(&project, "c0"));
    let against = format!("leak/excess against its parent {}: launch ", &parent[..12]);
    for part in ["engine fails", &against, "the engine exited"] {
        assert!(text.contains(part), "`{part}` is missing in\n{text}");
    }
}

/// An engine is called sound once it has survived two blocks, also where its gate's numbers come from the first alone.
#[test]
fn a_search_for_a_crash_says_how_many_blocks_it_takes() {
    let project = history(&[
        Made::With(""),
        Made::With(""),
        Made::With("--fault=die-at-start"),
    ]);
    let kind = "kind = \"session\"\n";
    let once = format!("{kind}launches = 1\n");
    project.edit("gates/leak.toml", kind, &once);
    let ended = bisect(&project, ["c0", "c2"], "leak", "json").expect(1);
    let found = ended.json();
    assert_eq!(
        trials(&found),
        [
            tried(2, "confirm", "bad"),
            tried(1, "search", "good"),
            tried(2, "jump", "bad"),
        ]
    );
    assert_eq!(found["trials"][1]["launches"], 4);
    let (confirming, searching) = ended.stderr.split_once("trying").unwrap();
    for (text, told) in [(confirming, "1 block"), (searching, "2 blocks")] {
        let told = format!("measuring: up to {told} of 2 launches");
        assert!(text.contains(&told), "`{told}` is missing in\n{text}");
    }
    assert!(!searching.contains("up to 1 block"), "{searching}");
}

#[test]
fn a_page_marks_the_first_bad_commit() {
    let project = history(&[Made::With(""), Made::With(""), Made::With("")]);
    project.write("number", "3");
    project.write("flags", LEAKING);
    project.commit(MARKUP);
    project.git(&["tag", "c3"]);
    let page = bisect(&project, ["c0", "c3"], "leak", "html").expect(1);
    let escaped = MARKUP.replace('<', "&lt;").replace('>', "&gt;");
    let marked = format!(
        "marked\"><span class=\"label\">{} {escaped}",
        &id(&project, "c3")[..12]
    );
    check_sheet(
        &page.stdout,
        &[
            "First bad commit: ",
            &marked,
            "first bad: ",
            "commit 2",
            "GOOD",
        ],
    );
}
