//! Labels of a pull request (GitHub counts it among the issues).

use super::{Client, Error, segment};
use serde::Serialize;
use serde::de::IgnoredAny;

#[derive(Serialize)]
struct Added<'a> {
    labels: [&'a str; 1],
}

impl Client {
    /// Adds a label. GitHub makes one that the repository does not have, for a token with `issues: write`.
    pub async fn add_label(&self, number: u64, name: &str) -> Result<(), Error> {
        let route = self.route(&format!("/issues/{number}/labels"));
        let _: IgnoredAny = self.post(&route, &Added { labels: [name] }).await?;
        Ok(())
    }

    /// Removes a label; one that is gone already is removed.
    pub async fn remove_label(&self, number: u64, name: &str) -> Result<(), Error> {
        let route = self.route(&format!("/issues/{number}/labels/{}", segment(name)));
        match self.delete(&route).await {
            Err(error) if error.status() == Some(404) => Ok(()),
            other => other,
        }
    }
}
