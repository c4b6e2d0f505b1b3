//! Commit statuses: short lines bound to one commit, each with the account that wrote it.

use crate::identity::User;
use crate::{Client, Error, Sha};
use serde::{Deserialize, Serialize};

/// Pages of statuses that are read of one commit; GitHub keeps at most 1,000 of each context.
const MOST_PAGES: u32 = 100;

/// Characters of a description; GitHub refuses longer ones.
const MOST_DESCRIPTION: usize = 140;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    Error,
    Failure,
    Pending,
    Success,
}

/// A status that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitStatus {
    pub context: String,
    pub state: State,
    pub description: String,
    /// Id of the account that wrote it; `None`: the account is gone.
    pub creator: Option<u64>,
}

/// A status to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewStatus<'a> {
    pub context: &'a str,
    pub state: State,
    /// Cut to what GitHub takes.
    pub description: &'a str,
    pub target_url: Option<&'a str>,
}

#[derive(Deserialize)]
struct StatusWire {
    context: String,
    state: State,
    description: Option<String>,
    creator: Option<User>,
}

#[derive(Deserialize)]
struct Written {
    creator: Option<User>,
}

#[derive(Serialize)]
struct Body<'a> {
    state: State,
    context: &'a str,
    description: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    target_url: Option<&'a str>,
}

impl Client {
    /// Every status of a commit, the newest first, as GitHub lists them.
    pub async fn statuses(&self, sha: &Sha) -> Result<Vec<CommitStatus>, Error> {
        let route = self.route(&format!("/commits/{sha}/statuses"));
        let wire: Vec<StatusWire> = self.pages(&route, MOST_PAGES).await?;
        let status = |wire: StatusWire| CommitStatus {
            context: wire.context,
            state: wire.state,
            description: wire.description.unwrap_or_default(),
            creator: wire.creator.map(|creator| creator.id),
        };
        Ok(wire.into_iter().map(status).collect())
    }

    pub async fn set_status(&self, sha: &Sha, status: &NewStatus<'_>) -> Result<(), Error> {
        let body = Body {
            state: status.state,
            context: status.context,
            description: crate::clean(status.description, MOST_DESCRIPTION),
            target_url: status.target_url,
        };
        let route = self.route(&format!("/statuses/{sha}"));
        let written: Written = self.post(&route, &body).await?;
        self.wrote(written.creator.as_ref());
        Ok(())
    }
}
