//! One conversation over the chat route: every turn sends the whole history with the real replies.
//!
//! A turn without a reply leaves the history as it was before it: its message is withdrawn, and the
//! next turn goes on from there.
//!
//! Refuses to know: sockets, how a sample is read.

use super::connection::Client;
use super::request::Message;
use super::sampling;
use super::stop::Watchman;
use super::workloads;
use super::{Endpoint, Outcome, Progress, PromptSeed, SessionClock};
use crate::plan::Session;

pub(super) async fn run(
    endpoint: &Endpoint,
    workload: &str,
    session: &Session,
    seed: PromptSeed,
    clock: &SessionClock,
    progress: Progress<'_>,
) -> Outcome {
    let mut client = Client::new(endpoint, clock);
    let mut outcome = Outcome::default();
    let mut watchman = Watchman::default();
    let mut history = Vec::new();
    for turn in 0..session.turns {
        history.push(message(
            "user",
            seed.words(workload, turn, session.message_words),
        ));
        let planned = workloads::turn(endpoint, session, turn, &history);
        let exchange = client.exchange(&planned.ask).await;
        let reading = sampling::read(workload, planned.label, &planned.expect, &exchange);
        outcome.samples.push(reading.sample);
        progress(turn + 1, session.turns);
        outcome.stopped = watchman.note(&exchange.ending);
        if outcome.stopped.is_some() {
            break;
        }
        if reading.reply.is_empty() {
            history.pop();
        } else {
            history.push(message("assistant", reading.reply));
        }
    }
    outcome
}

fn message(role: &str, content: String) -> Message {
    Message {
        role: role.to_owned(),
        content,
    }
}
