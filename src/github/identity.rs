//! Our identity at GitHub, by which our comments and statuses are known.

use super::http::client::Identity;
use super::{Client, Error};
use serde::Deserialize;
use serde_json::json;

/// Id of `github-actions[bot]` on github.com, as whom the token of Actions writes.
pub const ACTIONS_BOT_ID: u64 = 41_898_282;

#[derive(Deserialize)]
pub struct User {
    pub id: u64,
}

/// GraphQL's answer. Beside errors `data` is null, or left out.
#[derive(Deserialize)]
struct ViewerAnswer {
    data: Option<Data>,
}

#[derive(Deserialize)]
struct Data {
    viewer: Option<Viewer>,
}

#[derive(Deserialize)]
struct Viewer {
    #[serde(rename = "databaseId")]
    id: Option<u64>,
}

impl Client {
    /// With the id of the account that the token writes as; `None`: GitHub is asked, and where it does not say,
    /// `untold` is believed.
    #[must_use]
    pub fn known_as(mut self, id: Option<u64>, untold: Option<u64>) -> Self {
        self.untold = untold;
        self.identity
            .set(id.map_or(Identity::Unasked, Identity::Known));
        self
    }

    /// The id of the account that this token writes as; `None`: neither this server says it nor anybody. A person's token is told.
    /// GitHub refuses the question to an app's token ("Get the authenticated user") and answers it by GraphQL.
    pub async fn known_id(&self) -> Result<Option<u64>, Error> {
        match self.identity.get() {
            Identity::Known(id) => return Ok(Some(id)),
            Identity::Untold => return Ok(None),
            Identity::Unasked => {}
        }
        let id = match self.get::<User>("/user").await {
            Ok(user) => Some(user.id),
            Err(Error::Refused(refusal)) if refusal.status == 403 && !refusal.is_limit => {
                self.viewer().await?.or(self.untold)
            }
            Err(error) => return Err(error),
        };
        self.identity
            .set(id.map_or(Identity::Untold, Identity::Known));
        Ok(id)
    }

    /// The same; where it is not known, Actions' bot of github.com is assumed. `Client::wrote` finds out
    /// if that is wrong.
    pub async fn own_id(&self) -> Result<u64, Error> {
        Ok(self.known_id().await?.unwrap_or(ACTIONS_BOT_ID))
    }

    async fn viewer(&self) -> Result<Option<u64>, Error> {
        let query = json!({"query": "query { viewer { databaseId } }"});
        match self.post::<_, ViewerAnswer>(&self.graphql(), &query).await {
            Ok(answer) => Ok(answer.data.and_then(|data| data.viewer?.id)),
            Err(error) if error.may_pass() => Err(error),
            Err(_) => Ok(None),
        }
    }

    /// Records the author that GitHub names for what we just wrote. If we assumed another, a note says so: a later
    /// command would not find what this one wrote.
    pub fn wrote(&self, author: Option<&User>) {
        let assumed = match self.identity.get() {
            Identity::Unasked => return,
            Identity::Untold => ACTIONS_BOT_ID,
            Identity::Known(id) => id,
        };
        let Some(&User { id }) = author else {
            return;
        };
        self.identity.set(Identity::Known(id));
        if id != assumed {
            (self.on_note)(&format!(
                "this token writes as the account {id}, not as {assumed}: write `bot_id = {id}` into [github] of \
                 gates/gate.toml, or --bot-id {id}, so that its comments and approvals are found"
            ));
        }
    }
}
