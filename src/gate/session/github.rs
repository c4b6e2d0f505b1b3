//! The GitHub client of stages that need one.

use super::Error;
use github::{Client, Repository, Token};
use std::time::Duration;

/// Which repository of which GitHub, and how long to wait for it.
#[derive(Clone, Debug)]
pub struct GitHubOptions {
    /// `OWNER/NAME`.
    pub repository: String,
    pub api_url: String,
    /// The most that all requests together wait.
    pub patience: Duration,
    /// The account that the token writes as, where GitHub is not to be asked.
    pub bot_id: Option<u64>,
    /// Is told of each wait for GitHub before it begins.
    pub on_wait: fn(&str),
}

impl GitHubOptions {
    /// A client with the token of the environment. `bot_id`: the account that the project says it writes as, where GitHub
    /// does not say. Must be called within a tokio runtime.
    pub fn client(&self, bot_id: Option<u64>) -> Result<Client, Error> {
        if self.repository.is_empty() {
            let text = "which repository? name it with --repo OWNER/NAME, or set GITHUB_REPOSITORY";
            return Err(Error::Usage(text.into()));
        }
        let repository = Repository::parse(&self.repository)?;
        let token = Token::from_env()?;
        let client = Client::new(&self.api_url, token, repository, self.patience)?;
        Ok(client.telling(self.on_wait).known_as(self.bot_id, bot_id))
    }
}
