//! Who we are at GitHub: whose comments and statuses are ours.

use super::{Client, Error};
use serde::Deserialize;

/// Id of `github-actions[bot]` on github.com, as whom the token of Actions writes.
pub const ACTIONS_BOT_ID: u64 = 41_898_282;

#[derive(Deserialize)]
struct User {
    id: u64,
}

impl Client {
    /// The id of the account that this token writes as. `given` is believed; else a user's token tells it, and
    /// GitHub refuses the question to the token of Actions ("Get the authenticated user"), which is the answer.
    pub async fn own_id(&self, given: Option<u64>) -> Result<u64, Error> {
        if let Some(id) = given {
            return Ok(id);
        }
        match self.get::<User>("/user").await {
            Ok(user) => Ok(user.id),
            Err(Error::Refused(refusal)) if refusal.status == 403 && !refusal.is_limit => {
                Ok(ACTIONS_BOT_ID)
            }
            Err(error) => Err(error),
        }
    }
}
