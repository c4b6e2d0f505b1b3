//! Labels of a pull request (GitHub counts it among the issues).

use super::permission::PersonKind;
use crate::wire::Label;
use crate::{Client, Error, segment};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

/// A hundred events a page.
const MOST_PAGES: u32 = 100;

/// A label was added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelEvent {
    pub label: String,
    /// Login of whoever added it; `None`: the account is gone.
    pub actor: Option<String>,
    pub actor_id: Option<u64>,
    pub actor_kind: PersonKind,
}

#[derive(Deserialize)]
struct LabelWire {
    event: String,
    actor: Option<Actor>,
    label: Option<Label>,
}

#[derive(Deserialize)]
struct Actor {
    login: String,
    id: u64,
    #[serde(rename = "type")]
    kind: String,
}

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

    /// Every label that was added, also those that are gone again, the newest last.
    pub async fn label_events(&self, number: u64) -> Result<Vec<LabelEvent>, Error> {
        let route = self.route(&format!("/issues/{number}/events"));
        let wire: Vec<LabelWire> = self.pages(&route, MOST_PAGES).await?;
        let added = wire.into_iter().filter(|wire| wire.event == "labeled");
        let events = added.filter_map(|wire| {
            let kind = wire.actor.as_ref().map(|actor| PersonKind::of(&actor.kind));
            Some(LabelEvent {
                label: wire.label?.name,
                actor_id: wire.actor.as_ref().map(|actor| actor.id),
                actor_kind: kind.unwrap_or(PersonKind::Other),
                actor: wire.actor.map(|actor| actor.login),
            })
        });
        Ok(events.collect())
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
