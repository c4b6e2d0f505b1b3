//! Starting a workflow (GitHub, "Create a workflow dispatch event"): what a label of our own cannot do, since
//! events that a workflow's token makes start nothing, but for dispatches.

use crate::{Client, Error, segment};
use serde::Serialize;
use std::collections::BTreeMap;

#[derive(Serialize)]
struct DispatchBody<'a> {
    #[serde(rename = "ref")]
    branch: &'a str,
    inputs: &'a BTreeMap<&'a str, String>,
}

impl Client {
    /// Starts the workflow file as it stands on this branch. After a failure that may hide a success it is
    /// started again: the workflow's own concurrency cancels the first of two that are equal.
    pub async fn dispatch(
        &self,
        workflow: &str,
        branch: &str,
        inputs: &BTreeMap<&str, String>,
    ) -> Result<(), Error> {
        let workflow = segment(workflow);
        let route = self.route(&format!("/actions/workflows/{workflow}/dispatches"));
        self.post_for_nothing(&route, Some(&DispatchBody { branch, inputs }))
            .await
    }
}
