//! Owners of labels: who added those that no path needs, and who caused the event.
//!
//! The bot takes off what it added itself. What a person added who may write here is that person's wish for the gates.

use crate::commands::authorize::ruling::may_write;
use crate::session::Error;
use github::event::{Action, Event};
use github::{Client, LabelEvent, PersonKind, Pull};
use verdict::plan::{GitHubRules, Needed};

/// A rule's label that is on the pull request though no path needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unneeded {
    pub label: String,
    pub by: Adder,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Adder {
    /// Our own account.
    Us,
    /// A person who may write to the repository, by login.
    Writer(String),
    /// Anybody else; `None`: GitHub does not say who.
    Other(Option<String>),
}

impl Adder {
    pub fn is_writer(&self) -> bool {
        matches!(self, Self::Writer(_))
    }
}

/// Asks who added them. `needed` is what the paths need.
pub async fn unneeded(
    client: &Client,
    rules: &GitHubRules,
    pull: &Pull,
    needed: &Needed,
    event: Option<&Event>,
) -> Result<Vec<Unneeded>, Error> {
    let labels = names(rules, pull, needed);
    if labels.is_empty() {
        return Ok(Vec::new());
    }
    let is_told = |label: &String| event.is_some_and(|event| is_of(event, label));
    let events = match labels.iter().all(is_told) {
        true => Vec::new(),
        false => client.label_events(pull.number).await?,
    };
    let own_id = client.own_id().await?;
    let mut unneeded = Vec::new();
    for label in labels {
        let is_it = |added: &&LabelEvent| added.label.eq_ignore_ascii_case(&label);
        let newest = events.iter().rfind(is_it);
        // GitHub's list may be behind what just happened.
        let now = event.filter(|event| is_of(event, &label));
        let id = match now {
            Some(event) => Some(event.sender_id),
            None => newest.and_then(|added| added.actor_id),
        };
        let by = match now {
            _ if id == Some(own_id) => Adder::Us,
            Some(event) => adder(client, sender(event)).await?,
            None => adder(client, newest.and_then(person)).await?,
        };
        unneeded.push(Unneeded { label, by });
    }
    Ok(unneeded)
}

/// Each once, as the rules write it.
fn names(rules: &GitHubRules, pull: &Pull, needed: &Needed) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for rule in &rules.labels {
        let is_rule = |name: &String| name.eq_ignore_ascii_case(&rule.name);
        let is_needed = needed.labels.keys().any(is_rule);
        if pull.labels.iter().any(is_rule) && !is_needed && !names.iter().any(is_rule) {
            names.push(rule.name.clone());
        }
    }
    names
}

async fn adder(client: &Client, login: Option<&str>) -> Result<Adder, Error> {
    let may_write = may_write(client, login).await?;
    let login = login.map(str::to_owned);
    Ok(match login {
        Some(login) if may_write => Adder::Writer(login),
        login => Adder::Other(login),
    })
}

fn person(added: &LabelEvent) -> Option<&str> {
    let is_person = added.actor_kind == PersonKind::User;
    added.actor.as_deref().filter(|_| is_person)
}

/// Whether the event says that this label was added.
fn is_of(event: &Event, label: &str) -> bool {
    matches!(&event.action, Action::Labeled(name) if name.eq_ignore_ascii_case(label))
}

fn sender(event: &Event) -> Option<&str> {
    let is_person = event.sender_kind == PersonKind::User;
    is_person.then_some(event.sender.as_str())
}

/// Whose word an event of the approval label, or of a rule's, is; `None`: it is of neither.
pub async fn word(
    client: &Client,
    rules: &GitHubRules,
    event: &Event,
) -> Result<Option<Word>, Error> {
    let (Action::Labeled(name) | Action::Unlabeled(name)) = &event.action else {
        return Ok(None);
    };
    let is_approval = name.eq_ignore_ascii_case(&rules.config.approval_label);
    let mut labels = rules.labels.iter();
    if !is_approval && !labels.any(|rule| rule.name.eq_ignore_ascii_case(name)) {
        return Ok(None);
    }
    // The bot's own label approves nothing, also where its token is a person's.
    if !is_approval && event.sender_id == client.own_id().await? {
        return Ok(None);
    }
    let is_person = event.sender_kind == PersonKind::User;
    let sender = is_person.then_some(event.sender.as_str());
    Ok(Some(Word {
        sender: event.sender.clone(),
        may_write: may_write(client, sender).await?,
        label: name.clone(),
        is_approval,
    }))
}

/// Whose word an event of a label is: of the approval label, or of a rule's, which asks for the gates and approves as well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    /// Login.
    pub sender: String,
    /// A person who may write to the repository.
    pub may_write: bool,
    pub label: String,
    /// The label is the approval label.
    pub is_approval: bool,
}
