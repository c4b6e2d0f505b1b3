//! What a [`super::Fake`] keeps, and the way of a request through it.

use super::openapi::Spec;
use super::trouble::{self, Ill, Trouble};
use super::{ACTIONS_BOT_ID, ACTIONS_TOKEN, Answer, PERSONAL_TOKEN, routes};
use serde_json::Value;
use std::collections::BTreeMap;

/// The repository's state; tests read and write it as they like.
pub(crate) struct State {
    /// By token.
    pub(crate) accounts: BTreeMap<String, Account>,
    /// By login.
    pub(crate) people: BTreeMap<String, Person>,
    pub(crate) pulls: BTreeMap<u64, Pull>,
    /// Labels that the repository has, whether or not a pull request has them.
    pub(crate) labels: Vec<String>,
    pub(crate) comments: Vec<Comment>,
    /// As GitHub answers them.
    pub(crate) check_runs: Vec<Value>,
    /// Oldest first.
    pub(crate) statuses: Vec<Status>,
    /// Bodies of workflow dispatches, with the workflow's name under `workflow`.
    pub(crate) dispatches: Vec<Value>,
    /// Runs of the one workflow, oldest first.
    pub(crate) runs: Vec<Run>,
    /// Heads of branches.
    pub(crate) branches: BTreeMap<String, String>,
    /// Trees of commits that have another's.
    pub(crate) trees: BTreeMap<String, String>,
    /// What compare says that head and base have in common.
    pub(crate) merge_base: String,
    /// What it says of a head, where that is another commit.
    pub(crate) merge_bases: BTreeMap<String, String>,
    pub(crate) default_branch: String,
    pub(crate) troubles: Vec<Trouble>,
    /// Files of commits that are no head any more.
    pub(crate) former: BTreeMap<String, Files>,
    /// A pull request whose head moves to this commit when it was read so many more times.
    pub(crate) moves: Option<(u64, usize, String)>,
    pub(crate) requests: Vec<Recorded>,
    pub(crate) violations: Vec<String>,
    next_id: u64,
}

/// Who holds a token, and what it may do.
#[derive(Clone, Debug)]
pub(crate) struct Account {
    pub(crate) login: String,
    /// An app's token: GitHub tells it no user, and lets it write check runs.
    pub(crate) is_app: bool,
    /// Permissions as in a job's `permissions:`; a person's token has them all.
    pub(crate) grants: BTreeMap<String, Grant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Grant {
    Read,
    Write,
}

#[derive(Clone, Debug)]
pub(crate) struct Person {
    pub(crate) id: u64,
    /// `User` or `Bot`.
    pub(crate) kind: String,
    /// `admin`, `write`, `read` or `none`.
    pub(crate) permission: String,
}

/// Name, and the name before where it was renamed.
pub(crate) type Files = Vec<(String, Option<String>)>;

#[derive(Clone, Debug)]
pub(crate) struct Pull {
    pub(crate) author: String,
    pub(crate) title: String,
    pub(crate) is_open: bool,
    pub(crate) head_sha: String,
    pub(crate) head_branch: String,
    /// `None`: the head's repository was deleted.
    pub(crate) head_repository: Option<String>,
    pub(crate) base_branch: String,
    pub(crate) labels: Vec<String>,
    /// Each label that was added, and who added it.
    pub(crate) labelled: Vec<(String, String)>,
    pub(crate) files: Files,
    /// What the pull request says of their number, where that is not the list's length.
    pub(crate) changed_files: Option<usize>,
}

#[derive(Clone, Debug)]
pub(crate) struct Comment {
    pub(crate) id: u64,
    pub(crate) issue: u64,
    pub(crate) author: String,
    pub(crate) body: String,
}

#[derive(Clone, Debug)]
pub(crate) struct Status {
    pub(crate) sha: String,
    pub(crate) context: String,
    pub(crate) state: String,
    pub(crate) description: String,
    pub(crate) creator: String,
}

/// A run of a workflow.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) id: u64,
    pub(crate) title: String,
    pub(crate) status: String,
}

/// A request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Recorded {
    pub(crate) method: String,
    /// Without the prefix of Enterprise.
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) authorization: Option<String>,
    pub(crate) host: String,
    pub(crate) is_json: bool,
    pub(crate) body: String,
}

impl State {
    /// People: `octocat` (admin), `ada` (write), `bob` (read), `mallory` (none), and the bot of Actions.
    pub(super) fn new() -> Self {
        let person = |(login, id, kind, permission): (&str, u64, &str, &str)| {
            let person = Person {
                id,
                kind: kind.into(),
                permission: permission.into(),
            };
            (login.to_owned(), person)
        };
        let people = [
            ("octocat", 1, "User", "admin"),
            ("ada", 2, "User", "write"),
            ("bob", 3, "User", "read"),
            ("mallory", 4, "User", "none"),
            ("github-actions[bot]", ACTIONS_BOT_ID, "Bot", "write"),
            ("other-app[bot]", 77, "Bot", "write"),
        ];
        let app = Account {
            login: "github-actions[bot]".into(),
            is_app: true,
            grants: grants(&[
                ("actions", Grant::Write),
                ("checks", Grant::Write),
                ("contents", Grant::Read),
                ("issues", Grant::Write),
                ("metadata", Grant::Read),
                ("pull_requests", Grant::Write),
                ("statuses", Grant::Write),
            ]),
        };
        let personal = Account {
            login: "octocat".into(),
            is_app: false,
            grants: app.grants.clone(),
        };
        let accounts = [(ACTIONS_TOKEN, app), (PERSONAL_TOKEN, personal)];
        Self {
            accounts: accounts.map(|(token, a)| (token.to_owned(), a)).into(),
            people: people.map(person).into(),
            pulls: BTreeMap::new(),
            labels: Vec::new(),
            comments: Vec::new(),
            check_runs: Vec::new(),
            statuses: Vec::new(),
            dispatches: Vec::new(),
            runs: Vec::new(),
            branches: [("main".to_owned(), sha(0x3a1))].into(),
            trees: BTreeMap::new(),
            merge_base: sha(0),
            merge_bases: BTreeMap::new(),
            default_branch: "main".into(),
            troubles: Vec::new(),
            former: BTreeMap::new(),
            moves: None,
            requests: Vec::new(),
            violations: Vec::new(),
            next_id: 1_000,
        }
    }

    /// A pull request of somebody's, from a branch of this repository, or from a fork.
    pub(crate) fn open_pull(&mut self, number: u64, author: &str, from_fork: bool, files: &[&str]) {
        let fork = format!("{author}/Hello-World");
        let pull = Pull {
            author: author.into(),
            title: "A change".into(),
            is_open: true,
            head_sha: sha(number),
            head_branch: "topic".into(),
            head_repository: Some(if from_fork {
                fork
            } else {
                super::REPOSITORY.into()
            }),
            base_branch: self.default_branch.clone(),
            labels: Vec::new(),
            labelled: Vec::new(),
            files: files.iter().map(|name| ((*name).into(), None)).collect(),
            changed_files: None,
        };
        self.pulls.insert(number, pull);
    }

    pub(crate) fn pull(&mut self, number: u64) -> &mut Pull {
        self.pulls.get_mut(&number).unwrap()
    }

    /// A status that somebody wrote.
    pub(crate) fn add_status(&mut self, sha: &str, context: &str, state: &str, creator: &str) {
        self.statuses.push(Status {
            sha: sha.into(),
            context: context.into(),
            state: state.into(),
            description: String::new(),
            creator: creator.into(),
        });
    }

    /// The token of Actions is another app's: of a GitHub App, or of an Enterprise server's Actions.
    pub(crate) fn become_app(&mut self, login: &str) {
        self.accounts.get_mut(ACTIONS_TOKEN).unwrap().login = login.into();
    }

    /// Takes a permission from the token of Actions, or gives it a lesser one.
    pub(crate) fn grant(&mut self, name: &str, grant: Option<Grant>) {
        let account = self.accounts.get_mut(ACTIONS_TOKEN).unwrap();
        match grant {
            Some(grant) => account.grants.insert(name.into(), grant),
            None => account.grants.remove(name),
        };
    }

    pub(super) fn fresh_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// Checks the request, meets its trouble or carries it out, checks the answer.
    pub(super) fn handle(&mut self, spec: &Spec, request: Recorded) -> (Answer, Option<Ill>) {
        self.requests.push(request.clone());
        if (request.method.as_str(), request.path.as_str()) == ("POST", routes::GRAPHQL) {
            return self.graphql(&request);
        }
        let operation = match spec.operation(&request) {
            Ok(operation) => operation,
            Err(violation) => {
                self.violations.push(violation);
                return (Answer::error(404, "Not Found"), None);
            }
        };
        self.violations
            .extend(spec.check_request(&operation, &request));
        let ill = trouble::met(&mut self.troubles, &request);
        let instead = ill.as_ref().and_then(Ill::instead);
        let mut answer = match instead {
            Some(answer) => answer,
            None => routes::carry_out(self, spec, &operation, &request),
        };
        if let Some(Ill::DoneBut(status)) = ill {
            answer = Answer::error(status, "Server Error");
        }
        self.violations
            .extend(spec.check_answer(&operation, &answer));
        (answer, ill)
    }

    fn graphql(&mut self, request: &Recorded) -> (Answer, Option<Ill>) {
        let ill = trouble::met(&mut self.troubles, request);
        if let Some(answer) = ill.as_ref().and_then(Ill::instead) {
            return (answer, ill);
        }
        let answer = routes::viewer(self, request).unwrap_or_else(|violation| {
            self.violations.push(violation);
            Answer::error(404, "Not Found")
        });
        (answer, ill)
    }
}

fn grants(list: &[(&str, Grant)]) -> BTreeMap<String, Grant> {
    let pair = |&(name, grant): &(&str, Grant)| (name.to_owned(), grant);
    list.iter().map(pair).collect()
}

/// A commit's id made of a number.
pub(crate) fn sha(number: u64) -> String {
    format!("{number:040x}")
}
