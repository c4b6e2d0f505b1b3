//! Runs of a workflow that was dispatched: found again by their titles, and cancelled.

use crate::{Client, Error, segment};
use serde::Deserialize;

/// A run that has not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkflowRun {
    pub id: u64,
    /// Name of the run, which the workflow's `run-name` makes of its inputs.
    pub title: String,
}

#[derive(Deserialize)]
struct Page {
    workflow_runs: Vec<WorkflowRunWire>,
}

#[derive(Deserialize)]
struct WorkflowRunWire {
    id: u64,
    display_title: String,
    status: Option<String>,
}

impl Client {
    /// The runs of this workflow file that have not ended, of the newest hundred that were dispatched.
    pub async fn open_runs(&self, workflow: &str) -> Result<Vec<WorkflowRun>, Error> {
        let workflow = segment(workflow);
        let query = "event=workflow_dispatch&per_page=100";
        let route = self.route(&format!("/actions/workflows/{workflow}/runs?{query}"));
        let page: Page = self.get(&route).await?;
        let open = page.workflow_runs.into_iter();
        let open = open.filter(|run| run.status.as_deref() != Some("completed"));
        let run = |wire: WorkflowRunWire| WorkflowRun {
            id: wire.id,
            title: wire.display_title,
        };
        Ok(open.map(run).collect())
    }

    /// Cancels a run. One that has ended by now stays as it is.
    pub async fn cancel_run(&self, id: u64) -> Result<(), Error> {
        let route = self.route(&format!("/actions/runs/{id}/cancel"));
        match self.post_for_nothing(&route, None::<&()>).await {
            Err(error) if error.status() == Some(409) => Ok(()),
            done => done,
        }
    }
}
