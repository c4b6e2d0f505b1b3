//! `gate history --site`: static pages of main's history.

use super::command::{PLAIN, Store};
use std::fs;

#[test]
fn pages_a_feed_and_links() {
    let mut store = Store::tpot(60);
    store.write(30, 1.0, &PLAIN).write(30, 1.04, &PLAIN);
    let profile = ["history", "--profile", "full", "--site", "site"];
    let mut command = store.project.command(&profile);
    command.env("GITHUB_SERVER_URL", "https://github.com");
    command.env("GITHUB_REPOSITORY", "octocat/Hello-World");
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "main became worse");
    let mut names: Vec<String> = fs::read_dir(store.project.path("site"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    assert_eq!(names, ["feed.xml", "gate-tpot.html", "index.html"]);
    let read = |name: &str| store.project.read(&format!("site/{name}"));
    let index = read("index.html").replace("&#x2f;", "/");
    for part in [
        "Main became worse: tpot/regression",
        "href=\"gate-tpot.html\"",
        "<polyline",
        "worse in c00000000",
    ] {
        assert!(index.contains(part), "`{part}` is missing");
    }
    let page = read("gate-tpot.html");
    let data = page.split_once("id=\"data\">").unwrap().1;
    let data = data.split_once("</script>").unwrap().0;
    let data: serde_json::Value = serde_json::from_str(data).unwrap();
    let regression = data.as_array().unwrap().iter();
    let mut regression = regression.filter(|check| check["id"] == "tpot/regression");
    let series = &regression.next().unwrap()["series"][0];
    let points = series["points"].as_array().unwrap();
    assert_eq!(points.len(), 60);
    let url = points[59]["url"].as_str().unwrap();
    assert_eq!(
        url,
        "https://github.com/octocat/Hello-World/commit/c00000000059aaaa"
    );
    assert_eq!(series["steps"][0]["point"], 30);
    assert_eq!(series["levels"].as_array().unwrap().len(), 2);
    let feed = read("feed.xml");
    let entries = feed.matches("<entry>").count();
    assert!(
        feed.starts_with("<?xml") && feed.ends_with("</feed>"),
        "{feed}"
    );
    assert!(entries >= 1 && feed.matches("</entry>").count() == entries);
}

/// Releases are git's tags; a note, a waiver and the machine's name are shown where they belong.
#[test]
fn releases_notes_and_waivers_are_marked() {
    let mut store = Store::tpot(40);
    store.write(20, 1.0, &PLAIN).write(20, 1.0, &PLAIN);
    let git = |arguments: &[&str], date: &str| {
        let mut command = std::process::Command::new("git");
        let command = command.current_dir(store.project.path("."));
        let date = format!("{date}T12:00:00Z");
        let dated = command
            .env("GIT_COMMITTER_DATE", &date)
            .env("GIT_AUTHOR_DATE", date);
        let author = ["-c", "user.name=a", "-c", "user.email=a@b"];
        let ended = dated.args(author).args(arguments).output().unwrap();
        assert!(ended.status.success(), "{ended:?}");
    };
    let day = |night: i64| {
        let ago = jiff::SignedDuration::from_hours(24 * (40 - night));
        let at = jiff::Timestamp::now() - ago;
        at.strftime("%Y-%m-%d").to_string()
    };
    let days: Vec<String> = (0..40).map(day).collect();
    git(&["init", "--quiet"], &days[0]);
    git(&["commit", "--quiet", "--allow-empty", "-m", "x"], &days[0]);
    git(&["tag", "-a", "-m", "x", "v1</script>"], &days[10]);
    git(&["tag", "-a", "-m", "x", "v0"], "2001-01-01");
    store.project.write(
        "gates/waivers.toml",
        "[[waiver]]\ncheck = \"tpot/regression\"\nreason = \"it is slow\"\nowner = \"ada\"\nissue = \"#12\"\nexpires = 2099-01-01\n",
    );
    let note = [
        "history",
        "note",
        "--commit",
        "c00000000019",
        "--reverted",
        "a cache",
        "--by",
        "ada",
    ];
    store.project.run(&note).expect(0);
    store
        .project
        .run(&["history", "--profile", "full", "--site", "site"]);
    let read = |name: &str| {
        store
            .project
            .read(&format!("site/{name}"))
            .replace("&#x2f;", "/")
    };
    let page = read("gate-tpot.html");
    for part in [
        &format!("{} v1", days[10]),
        "reverted: a cache",
        "Waived until 2099-01-01, ada: it is slow (#12)",
        "\"kind\":\"release\"",
        "\"kind\":\"reverted\"",
        "data-machine=\"",
    ] {
        assert!(page.contains(part), "`{part}` is missing in {page}");
    }
    // Made before the first session; and a tag's name ends no script.
    assert!(!page.contains("\"text\":\"v0\"") && !page.contains("v1</script>"));
    assert!(read("index.html").contains(">waived</span>"));
}

/// A note is text from a store.
#[test]
fn no_markup_of_a_note_reaches_a_page() {
    let mut store = Store::tpot(40);
    store.write(20, 1.0, &PLAIN).write(20, 1.04, &PLAIN);
    let text = "</script><script>alert(1)</script><img src=x onerror=alert(1)>";
    let note = [
        "history",
        "note",
        "--commit",
        "c00000000019",
        text,
        "--by",
        "<b>x</b>",
    ];
    store.project.run(&note).expect(0);
    let site = ["history", "--profile", "full", "--site", "site"];
    store.project.run(&site);
    for name in ["index.html", "gate-tpot.html", "feed.xml"] {
        let page = store.project.read(&format!("site/{name}"));
        assert!(!page.contains("<img") && !page.contains("<b>x"), "{page}");
        assert!(!page.contains("<script>alert"), "{name}");
    }
    assert!(store.project.read("site/index.html").contains("&lt;img"));
}
