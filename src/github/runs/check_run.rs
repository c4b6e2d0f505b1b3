//! A check run of ours on a commit: begun as in progress, found again, completed with its annotations.
//!
//! Found again by name and `external_id`: that tells ours from a job of the same name. It is no proof of origin. GitHub
//! lets only the app that made a check run change it ("Update a check run"), but all workflows of a repository are one
//! app, so one with `checks: write` that a pull request from a branch of the repository brings can write the same.

use crate::{Client, Error, Sha};
use serde::{Deserialize, Serialize};

/// Annotations that GitHub takes in one call.
pub const MOST_ANNOTATIONS: usize = 50;
/// Pages of check runs that are read of one commit.
const MOST_PAGES: u32 = 20;

/// Which check run is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckName<'a> {
    pub name: &'a str,
    pub head: &'a Sha,
    /// Ours alone. It is found by this, and written with `main` and `run` after it.
    pub external_id: &'a str,
    /// Main's commit that judges.
    pub main: Option<&'a Sha>,
    /// Number of the workflow run.
    pub run: Option<&'a str>,
    /// Where its details are. Of the app of Actions GitHub shows the check run's own page instead.
    pub details_url: Option<&'a str>,
}

impl CheckName<'_> {
    fn written_id(&self) -> String {
        let (id, main) = (self.external_id, self.main.map_or("", Sha::as_str));
        match self.run {
            Some(run) => format!("{id}:{main}:{run}"),
            None if main.is_empty() => id.to_owned(),
            None => format!("{id}:{main}"),
        }
    }

    /// Main's commit and the workflow run, which follow the name in the id; either may be empty or missing.
    fn parts<'r>(&self, run: &'r CheckRun) -> impl Iterator<Item = &'r str> {
        let rest = run.external_id.strip_prefix(self.external_id);
        rest.unwrap_or_default().split(':').skip(1)
    }

    fn is(&self, external_id: &str) -> bool {
        let rest = external_id.strip_prefix(self.external_id);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
    }

    /// Main's commit that a check run of this name was judged by.
    pub fn main_of(&self, run: &CheckRun) -> Option<Sha> {
        Sha::parse(self.parts(run).next()?).ok()
    }

    /// Number of the workflow run that wrote a check run of this name.
    pub fn run_of<'r>(&self, run: &'r CheckRun) -> Option<&'r str> {
        self.parts(run).nth(1)
    }
}

/// What it shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckText<'a> {
    pub title: &'a str,
    /// Markdown; GitHub takes 65,535 characters.
    pub summary: &'a str,
}

/// A remark on a line of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CheckAnnotation {
    pub path: String,
    pub start_line: u32,
    pub end_line: u32,
    /// `failure`, `warning` or `notice`.
    pub annotation_level: &'static str,
    pub title: String,
    pub message: String,
}

#[derive(Deserialize)]
struct App {
    id: u64,
}

#[derive(Deserialize)]
struct CheckRunWire {
    id: u64,
    app: Option<App>,
    #[serde(default)]
    external_id: Option<String>,
    conclusion: Option<String>,
    html_url: Option<String>,
    details_url: Option<String>,
    #[serde(default)]
    output: WireOutput,
}

#[derive(Default, Deserialize)]
struct WireOutput {
    title: Option<String>,
    summary: Option<String>,
    #[serde(default)]
    annotations_count: usize,
}

#[derive(Deserialize)]
struct Page {
    check_runs: Vec<CheckRunWire>,
}

#[derive(Serialize)]
struct Create<'a> {
    name: &'a str,
    head_sha: &'a str,
    external_id: String,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    details_url: Option<&'a str>,
    output: Output<'a>,
}

#[derive(Serialize)]
struct Update<'a> {
    external_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    conclusion: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    details_url: Option<&'a str>,
    output: Output<'a>,
}

#[derive(Serialize)]
struct Output<'a> {
    title: &'a str,
    summary: &'a str,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    annotations: &'a [CheckAnnotation],
}

/// A check run that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckRun {
    pub id: u64,
    pub url: Option<String>,
    /// The page of the workflow run that it is of.
    pub details_url: Option<String>,
    /// `None`: it is in progress.
    pub conclusion: Option<String>,
    /// Empty where it has none.
    pub title: String,
    pub summary: String,
    pub external_id: String,
    /// Id of the app that made it.
    pub app: Option<u64>,
    annotations: usize,
}

impl Client {
    /// A check run in progress: the one that is, which now belongs to this workflow run, or a new one. A completed
    /// one stays as it is.
    pub async fn begin_check(
        &self,
        name: &CheckName<'_>,
        text: &CheckText<'_>,
    ) -> Result<CheckRun, Error> {
        match self.open_check(name).await? {
            Some(found) => self.taken_over(found, name, text).await,
            None => self.create_check(name, text).await,
        }
    }

    async fn create_check(
        &self,
        name: &CheckName<'_>,
        text: &CheckText<'_>,
    ) -> Result<CheckRun, Error> {
        let body = Create {
            name: name.name,
            head_sha: name.head.as_str(),
            external_id: name.written_id(),
            status: "in_progress",
            details_url: name.details_url,
            output: output(text, &[]),
        };
        let route = self.route("/check-runs");
        let there = async || {
            let newest = self.newest_check(name).await?;
            Ok(newest.filter(|run| run.conclusion.is_none()))
        };
        let made: CheckRunWire = self.post_once(&route, &body, there).await?;
        Ok(made.into())
    }

    /// Completes the check run in progress, or a new one: GitHub only ever adds annotations, and would show those of
    /// one that was completed before beside these. Annotations beyond [`MOST_ANNOTATIONS`] go in calls of their own,
    /// the conclusion in the last.
    pub async fn complete_check(
        &self,
        name: &CheckName<'_>,
        text: &CheckText<'_>,
        annotations: &[CheckAnnotation],
        conclusion: &'static str,
    ) -> Result<CheckRun, Error> {
        let mut run = match self.open_check(name).await? {
            Some(open) => open,
            None => self.create_check(name, text).await?,
        };
        let mut chunks = annotations.chunks(MOST_ANNOTATIONS).peekable();
        loop {
            let chunk = chunks.next().unwrap_or_default();
            let is_last = chunks.peek().is_none();
            let body = Update {
                external_id: name.written_id(),
                status: is_last.then_some("completed"),
                conclusion: is_last.then_some(conclusion),
                details_url: name.details_url,
                output: output(text, chunk),
            };
            run = self.annotated(&run, &body).await?;
            if is_last {
                return Ok(run);
            }
        }
    }

    /// Changes the check run once: whether an attempt without an answer was done is told by the annotations' number.
    async fn annotated(&self, run: &CheckRun, body: &Update<'_>) -> Result<CheckRun, Error> {
        let route = self.route(&format!("/check-runs/{}", run.id));
        let new = body.output.annotations.len();
        if new == 0 {
            return Ok(self.patch::<_, CheckRunWire>(&route, body).await?.into());
        }
        let changed = async || {
            let there: CheckRunWire = self.get(&route).await?;
            let is_done = there.output.annotations_count >= run.annotations + new;
            Ok(is_done.then_some(there))
        };
        Ok(self.patch_once(&route, body, changed).await?.into())
    }

    async fn taken_over(
        &self,
        found: CheckRun,
        name: &CheckName<'_>,
        text: &CheckText<'_>,
    ) -> Result<CheckRun, Error> {
        if name.details_url.is_none() || found.details_url.as_deref() == name.details_url {
            return Ok(found);
        }
        let body = Update {
            external_id: name.written_id(),
            status: None,
            conclusion: None,
            details_url: name.details_url,
            output: output(text, &[]),
        };
        let route = self.route(&format!("/check-runs/{}", found.id));
        let made: CheckRunWire = self.patch(&route, &body).await?;
        Ok(made.into())
    }

    /// The newest check run of this name on this commit, completed or not.
    pub async fn check(&self, name: &CheckName<'_>) -> Result<Option<CheckRun>, Error> {
        Ok(self.newest_check(name).await?.map(CheckRun::from))
    }

    async fn open_check(&self, name: &CheckName<'_>) -> Result<Option<CheckRun>, Error> {
        let found = self.check(name).await?;
        Ok(found.filter(|run| run.conclusion.is_none()))
    }

    async fn newest_check(&self, name: &CheckName<'_>) -> Result<Option<CheckRunWire>, Error> {
        let runs = self.named_checks(name.name, name.head).await?;
        let ours = runs
            .into_iter()
            .filter(|run| run.external_id.as_deref().is_some_and(|id| name.is(id)));
        Ok(ours.max_by_key(|run| run.id))
    }

    /// All check runs of this name on this commit, whichever pull request they are about.
    pub async fn checks(&self, name: &str, head: &Sha) -> Result<Vec<CheckRun>, Error> {
        let runs = self.named_checks(name, head).await?;
        Ok(runs.into_iter().map(CheckRun::from).collect())
    }

    async fn named_checks(&self, name: &str, head: &Sha) -> Result<Vec<CheckRunWire>, Error> {
        let name = crate::segment(name);
        let route = self.route(&format!(
            "/commits/{head}/check-runs?check_name={name}&filter=all"
        ));
        self.pages_of(&route, MOST_PAGES, |page: Page| page.check_runs)
            .await
    }
}

fn output<'a>(text: &CheckText<'a>, annotations: &'a [CheckAnnotation]) -> Output<'a> {
    Output {
        title: text.title,
        summary: text.summary,
        annotations,
    }
}

impl From<CheckRunWire> for CheckRun {
    fn from(wire: CheckRunWire) -> Self {
        Self {
            external_id: wire.external_id.unwrap_or_default(),
            app: wire.app.map(|app| app.id),
            title: wire.output.title.unwrap_or_default(),
            summary: wire.output.summary.unwrap_or_default(),
            id: wire.id,
            url: wire.html_url,
            details_url: wire.details_url,
            conclusion: wire.conclusion,
            annotations: wire.output.annotations_count,
        }
    }
}
