//! The client: pages, patience on a clock of the test's own, writes that happen once, and what its errors say.

use fixture::github::{ACTIONS_BOT_ID, ACTIONS_TOKEN, Fake, Ill, PERSONAL_TOKEN, Trouble, sha};
use github::{Client, Clock, Error, NewStatus, Permission, Repository, Sha, State, Token};
use serde::Deserialize;
use serde_json::{Value, json};
use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);
/// Since 1970, when the test's clock starts.
const START: Duration = Duration::from_secs(1_790_000_000);

/// Time that passes by waiting alone. At a moment that is set, GitHub is up again.
#[derive(Clone, Default)]
struct FakeClock {
    now: Rc<Cell<Duration>>,
    waits: Rc<RefCell<Vec<Duration>>>,
    up_at: Duration,
    down: Arc<AtomicBool>,
}

impl Clock for FakeClock {
    fn elapsed(&self) -> Duration {
        self.now.get()
    }

    fn since_1970(&self) -> Duration {
        START + self.now.get()
    }

    fn sleep(&self, time: Duration) -> Pin<Box<dyn Future<Output = ()> + '_>> {
        Box::pin(async move {
            self.now.set(self.now.get() + time);
            self.waits.borrow_mut().push(time);
            if self.now.get() >= self.up_at {
                self.down.store(false, Ordering::SeqCst);
            }
        })
    }
}

fn fake() -> Fake {
    let fake = Fake::start();
    fake.state().open_pull(1, "ada", false, &["src/lib.rs"]);
    fake
}

fn client_with(url: &str, token: &str, patience: Duration, clock: &FakeClock) -> Client {
    let token = Token::new(token).unwrap();
    let repository = Repository::parse("octocat/Hello-World").unwrap();
    Client::with_clock(url, token, repository, patience, Box::new(clock.clone())).unwrap()
}

fn client(fake: &Fake, patience: Duration, clock: &FakeClock) -> Client {
    client_with(&fake.url(), ACTIONS_TOKEN, patience, clock)
}

fn trouble(method: &'static str, path: &'static str, times: usize, ill: Ill) -> Trouble {
    Trouble {
        method,
        path,
        times,
        ill,
    }
}

#[tokio::test]
async fn every_page_is_read_on_github_and_on_an_enterprise_server() {
    let fake = fake();
    let names: Vec<String> = (0..250).map(|i| format!("src/{i}.rs")).collect();
    let borrowed: Vec<&str> = names.iter().map(String::as_str).collect();
    fake.state().open_pull(1, "ada", false, &borrowed);
    for url in [fake.url(), fake.enterprise_url()] {
        let client = client_with(&url, ACTIONS_TOKEN, MINUTE, &FakeClock::default());
        let files = client.changed_files(1).await.unwrap();
        let listed: Vec<String> = files.into_iter().map(|file| file.filename).collect();
        assert_eq!(listed, names);
    }
    // Three pages each.
    assert_eq!(fake.asked().len(), 6);
}

#[tokio::test]
async fn a_list_without_end_is_left() {
    let fake = fake();
    let names = vec!["a"; 250];
    fake.state().open_pull(1, "ada", false, &names);
    let client = client(&fake, MINUTE, &FakeClock::default());
    let route = client.route("/pulls/1/files");
    let error = client.pages::<Value>(&route, 2).await.unwrap_err();
    assert!(
        matches!(error, Error::TooManyPages { pages: 2, .. }),
        "{error}"
    );
}

/// GitHub is down for ten minutes of the test's clock.
fn ten_minutes_down(fake: &Fake) -> FakeClock {
    let down = Arc::new(AtomicBool::new(true));
    fake.plant(trouble("", "", 1, Ill::DownWhile(Arc::clone(&down))));
    FakeClock {
        up_at: 10 * MINUTE,
        down,
        ..FakeClock::default()
    }
}

/// Each wait but the last lies between half of 1, 2, 4, … 60 seconds and the whole.
fn follow_the_rule(waits: &[Duration]) {
    for (attempt, wait) in waits.iter().enumerate().take(waits.len() - 1) {
        let whole = Duration::from_secs(60.min(1 << attempt.min(6)));
        assert!((whole / 2..=whole).contains(wait), "{attempt}: {wait:?}");
    }
}

#[tokio::test]
async fn patience_of_fifteen_minutes_outlasts_ten_minutes() {
    let fake = fake();
    let clock = ten_minutes_down(&fake);
    let pull = client(&fake, 15 * MINUTE, &clock).pull(1).await.unwrap();
    assert_eq!(pull.head_sha.as_str(), sha(1));
    let waits = clock.waits.borrow();
    follow_the_rule(&waits);
    // Back at once: no later than the longest wait after GitHub was.
    assert!((10 * MINUTE..11 * MINUTE).contains(&clock.now.get()));
    assert_eq!(fake.asked().len(), waits.len() + 1);
}

#[tokio::test]
async fn patience_of_five_minutes_ends_after_five_minutes() {
    let fake = fake();
    let clock = ten_minutes_down(&fake);
    let client = client(&fake, 5 * MINUTE, &clock);
    let error = client.pull(1).await.unwrap_err();
    assert!(error.may_pass());
    let waits = clock.waits.borrow().clone();
    follow_the_rule(&waits);
    assert_eq!(waits.iter().sum::<Duration>(), 5 * MINUTE);
    let shown = error.to_string();
    for part in [
        "GET /repos/octocat/Hello-World/pulls/1",
        "503",
        "waited 300 s",
        "attempts",
    ] {
        assert!(shown.contains(part), "{shown}");
    }
    // The next request of the same command does not wait as long again: it is tried once.
    let asked = fake.asked().len();
    assert!(client.pull(1).await.is_err());
    assert_eq!(fake.asked().len(), asked + 1);
    assert_eq!(clock.waits.borrow().len(), waits.len());
}

#[tokio::test]
async fn nobody_listening_is_told() {
    // Held but not listened on: no other test's server can take it.
    let held = tokio::net::TcpSocket::new_v4().unwrap();
    held.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let url = format!("http://{}", held.local_addr().unwrap());
    let clock = FakeClock::default();
    let client = client_with(&url, ACTIONS_TOKEN, MINUTE, &clock);
    let error = client.pull(1).await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error}");
    assert!(error.to_string().contains("cannot be reached"), "{error}");
    assert_eq!(clock.now.get(), MINUTE);
    // A request that creates is sent again as well: nothing was reached.
    let (client, body) = (
        client_with(&url, ACTIONS_TOKEN, MINUTE, &FakeClock::default()),
        json!({}),
    );
    let posted = client.post_once::<_, Value>("/x", &body, async || Ok(None));
    let error = posted.await.unwrap_err().to_string();
    assert!(error.contains("waited 60 s"), "{error}");
}

#[tokio::test]
async fn github_is_waited_for_as_it_asks() {
    let reset = (START + Duration::from_secs(40)).as_secs().to_string();
    let limit = "You have exceeded a secondary rate limit";
    for (status, message, headers, least, most) in [
        (429, "Too many", vec![("retry-after", "7".to_owned())], 7, 8),
        (403, limit, vec![("retry-after", "9".to_owned())], 9, 10),
        (403, limit, vec![], 60, 61),
        (
            403,
            "API rate limit exceeded",
            vec![
                ("x-ratelimit-remaining", "0".to_owned()),
                ("x-ratelimit-reset", reset),
            ],
            40,
            41,
        ),
    ] {
        let fake = fake();
        fake.plant(trouble(
            "GET",
            "/pulls/1",
            1,
            Ill::Status(status, message, headers),
        ));
        let clock = FakeClock::default();
        client(&fake, 5 * MINUTE, &clock).pull(1).await.unwrap();
        let waits = clock.waits.borrow();
        assert_eq!(waits.len(), 1, "{message}");
        let expected = Duration::from_secs(least)..=Duration::from_secs(most);
        assert!(expected.contains(&waits[0]), "{:?}", waits[0]);
    }
}

#[tokio::test]
async fn a_longer_wait_than_the_patience_is_not_begun() {
    let fake = fake();
    let hour = vec![("retry-after", "3600".to_owned())];
    fake.plant(trouble("", "", 1, Ill::Status(429, "Too many", hour)));
    let clock = FakeClock::default();
    let error = client(&fake, MINUTE, &clock).pull(1).await.unwrap_err();
    assert!(clock.waits.borrow().is_empty());
    assert!(
        error.may_pass() && error.to_string().contains("--patience"),
        "{error}"
    );
}

#[derive(Debug, Deserialize)]
struct Comment {
    id: u64,
    body: String,
}

#[tokio::test]
async fn what_must_be_there_once_is_created_once() {
    for ill in [Ill::Broken, Ill::DoneBut(502)] {
        let fake = fake();
        fake.plant(trouble("POST", "/comments", 1, ill.clone()));
        let client = client(&fake, MINUTE, &FakeClock::default());
        let route = client.route("/issues/1/comments");
        let found = async || {
            let comments: Vec<Comment> = client.pages(&route, 10).await?;
            Ok(comments.into_iter().find(|comment| comment.body == "once"))
        };
        let body = json!({"body": "once"});
        let posted = client.post_once(&route, &body, found);
        let comment: Comment = posted.await.unwrap();
        let state = fake.state();
        assert_eq!(state.comments.len(), 1, "{ill:?}");
        assert_eq!(state.comments[0].id, comment.id);
    }
}

#[tokio::test]
async fn what_was_not_done_is_created_after_all() {
    let fake = fake();
    fake.plant(trouble(
        "POST",
        "/comments",
        2,
        Ill::Status(502, "Bad gateway", vec![]),
    ));
    let client = client(&fake, MINUTE, &FakeClock::default());
    let looks = Cell::new(0);
    let found = async || {
        looks.set(looks.get() + 1);
        Ok(None)
    };
    let route = client.route("/issues/1/comments");
    let body = json!({"body": "once"});
    let posted = client.post_once(&route, &body, found);
    let comment: Comment = posted.await.unwrap();
    assert_eq!((comment.body.as_str(), looks.get()), ("once", 2));
    assert_eq!(fake.state().comments.len(), 1);
}

#[tokio::test]
async fn errors_say_what_mends_them_and_hold_no_token() {
    let cases = [
        (
            "ghs_WrongTokenAltogether99",
            "/pulls/1",
            401,
            "wrong, expired or revoked",
        ),
        (ACTIONS_TOKEN, "/pulls/77", 404, "--repo"),
    ];
    for (token, route, status, part) in cases {
        let fake = fake();
        let client = client_with(&fake.url(), token, MINUTE, &FakeClock::default());
        let route = client.route(route);
        let error = client.get::<Value>(&route).await.unwrap_err();
        assert_eq!(error.status(), Some(status));
        let shown = format!("{error} {error:?}");
        assert!(shown.contains(part), "{shown}");
        assert!(!shown.contains(token), "{shown}");
    }
}

#[tokio::test]
async fn a_missing_permission_is_named() {
    let fake = fake();
    fake.state().grant("statuses", None);
    let client = client(&fake, MINUTE, &FakeClock::default());
    let status = NewStatus {
        context: "infergate/approval",
        state: State::Success,
        description: "x",
        target_url: None,
    };
    let head = Sha::parse(&sha(1)).unwrap();
    let set = client.set_status(&head, &status);
    let error = set.await.unwrap_err().to_string();
    assert!(error.contains("the job needs `statuses: write`"), "{error}");
    assert_eq!(fake.asked().len(), 1, "a refusal is final");
}

#[tokio::test]
async fn who_we_are() {
    let fake = fake();
    let clock = FakeClock::default();
    let patient = |token| client_with(&fake.enterprise_url(), token, MINUTE, &clock);
    let as_app = patient(ACTIONS_TOKEN);
    assert_eq!(as_app.own_id().await.unwrap(), ACTIONS_BOT_ID);
    assert_eq!(as_app.known_as(Some(5), None).own_id().await.unwrap(), 5);
    assert_eq!(patient(PERSONAL_TOKEN).own_id().await.unwrap(), 1);
    fake.state().become_app("other-app[bot]");
    assert_eq!(patient(ACTIONS_TOKEN).own_id().await.unwrap(), 77);
    // A server that does not say either.
    let none = Ill::Status(404, "Not Found", vec![]);
    fake.plant(trouble("POST", "/graphql", 1, none));
    assert_eq!(
        patient(ACTIONS_TOKEN).own_id().await.unwrap(),
        ACTIONS_BOT_ID
    );
    // What the project says counts there, and nowhere else.
    let told = || patient(ACTIONS_TOKEN).known_as(None, Some(6));
    assert_eq!(told().own_id().await.unwrap(), 77);
    let none = Ill::Status(404, "Not Found", vec![]);
    fake.plant(trouble("POST", "/graphql", 1, none));
    assert_eq!(told().own_id().await.unwrap(), 6);
    // A limit is no answer to the question.
    for (method, path) in [("GET", "/user"), ("POST", "/graphql")] {
        let limit = Ill::Status(403, "API rate limit exceeded", vec![]);
        fake.plant(trouble(method, path, 1, limit));
        let hasty = client(&fake, Duration::ZERO, &clock);
        assert!(hasty.own_id().await.is_err());
    }
}

/// GitHub answers 301 where a repository was renamed.
#[tokio::test]
async fn only_reads_follow_a_redirect_and_only_on_the_same_server() {
    for status in [301, 302, 303, 307, 308] {
        let fake = fake();
        let there = format!("{}/repositories/1296269/issues/1/labels", fake.url());
        let moved = Ill::Status(status, "Moved", vec![("location", there)]);
        fake.plant(trouble("POST", "/labels", 1, moved));
        let client = client(&fake, MINUTE, &FakeClock::default());
        let error = client
            .add_label(1, "needs-gpu")
            .await
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("renamed") && error.contains("--repo"),
            "{error}"
        );
        assert_eq!(fake.asked().len(), 1, "{status}: {:?}", fake.asked());
        fake.take_violations();
    }
    let fake = fake();
    let client = client(&fake, MINUTE, &FakeClock::default());
    let moved = |to: String| Ill::Status(301, "Moved", vec![("location", to)]);
    let by_number = format!("{}/repositories/1296269/pulls/1", fake.url());
    fake.plant(trouble("GET", "/pulls/1", 1, moved(by_number)));
    assert!(client.pull(1).await.is_ok());
    let elsewhere = "http://localhost:1/repositories/1296269/pulls/1".to_owned();
    fake.plant(trouble("GET", "/pulls/1", 1, moved(elsewhere)));
    let error = client.pull(1).await.unwrap_err().to_string();
    assert!(
        error.contains("it is now at http://localhost:1/"),
        "{error}"
    );
    fake.take_violations();
}

#[tokio::test]
async fn permissions_of_people() {
    let fake = fake();
    let client = client(&fake, MINUTE, &FakeClock::default());
    for (login, expect) in [
        ("octocat", Permission::Admin),
        ("ada", Permission::Write),
        ("bob", Permission::Read),
        ("mallory", Permission::None),
        ("nobody", Permission::None),
        // A bot is no person, whatever GitHub lets it do.
        ("github-actions[bot]", Permission::None),
    ] {
        assert_eq!(client.permission(login).await.unwrap(), expect, "{login}");
    }
}
