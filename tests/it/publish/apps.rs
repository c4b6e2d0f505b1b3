//! Which comments are ours, where the token is an app's with an id of its own.

use super::posted::{MARKER, comment_of, github, publishing, report};
use super::records::{BASE, Site, record};
use fixture::Ended;
use fixture::github::{ACTIONS_BOT_ID, ACTIONS_TOKEN, Fake, Ill, Trouble};

/// A GitHub whose token is an app's with an id of its own, as on every Enterprise server.
fn of_another_app() -> Fake {
    let fake = github();
    let mut state = fake.state();
    state.become_app("other-app[bot]");
    // Anybody can write our mark, the bot of Actions too.
    for (id, author) in [(1, "mallory"), (2, "github-actions[bot]")] {
        let body = format!("{MARKER}\nnot ours");
        state.comments.push(comment_of(author, &body, id));
    }
    drop(state);
    fake
}

/// One comment of the app's beside the two that are not its.
fn has_one_of_its_own(fake: &Fake) {
    let state = fake.state();
    let authors: Vec<&str> = state.comments.iter().map(|c| c.author.as_str()).collect();
    assert_eq!(
        authors,
        ["mallory", "github-actions[bot]", "other-app[bot]"]
    );
    assert!(
        state.comments[..2]
            .iter()
            .all(|c| c.body.ends_with("not ours"))
    );
    assert!(state.comments[2].body.contains("Measuring: "));
}

fn pending(site: &Site, fake: &Fake) -> Ended {
    let pending = ["--pending", "--base-sha", BASE];
    let mut command = publishing(site, fake, ACTIONS_TOKEN, &pending);
    command.env("GITHUB_API_URL", fake.enterprise_url());
    Ended::of(&command.output().unwrap()).expect(0)
}

#[test]
fn an_app_finds_its_own_comment_again() {
    let (site, fake) = (Site::new(&record()), of_another_app());
    for _ in 0..3 {
        let ended = pending(&site, &fake);
        assert!(!ended.stderr.contains("bot_id"), "{}", ended.stderr);
    }
    has_one_of_its_own(&fake);
}

#[test]
fn where_the_server_does_not_say_who_we_are_the_answer_does() {
    let (site, fake) = (Site::new(&record()), of_another_app());
    let none = Ill::Status(404, "Not Found", vec![]);
    fake.plant(Trouble {
        method: "POST",
        path: "/graphql",
        times: 9,
        ill: none,
    });
    let names_it = ["writes as the account 77, not as 41898282", "bot_id = 77"];
    pending(&site, &fake).says(&names_it);
    // The comment of before is found by the answer, and the one that told is taken back.
    pending(&site, &fake).says(&names_it);
    pending(&site, &fake).says(&names_it);
    has_one_of_its_own(&fake);
    // The project's word ends the detour.
    let asked = fake.asked().len();
    let config = site.main.read("gates/gate.toml");
    let config = format!("{config}\n[github]\nbot_id = 77\n");
    site.main.write("gates/gate.toml", &config);
    let ended = pending(&site, &fake);
    assert!(!ended.stderr.contains("bot_id"), "{}", ended.stderr);
    has_one_of_its_own(&fake);
    assert!(
        !fake.asked()[asked..]
            .iter()
            .any(|asked| asked.starts_with("DELETE"))
    );
}

#[test]
fn the_authors_id_can_be_given() {
    let (site, fake) = (Site::new(&record()), github());
    fake.state().comments.push(comment_of(
        "github-actions[bot]",
        &format!("{MARKER}\nold"),
        5,
    ));
    report(
        &site,
        &fake,
        &["--comment-author-id", &ACTIONS_BOT_ID.to_string()],
    )
    .expect(0);
    let state = fake.state();
    assert_eq!(state.comments.len(), 1);
    assert!(!state.requests.iter().any(|r| r.path == "/user"));
}
