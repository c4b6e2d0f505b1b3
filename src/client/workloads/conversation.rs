//! One conversation over the chat route: every turn sends the whole history with the real replies.
//!
//! A turn without a reply leaves the history as it was before it: its message is withdrawn, and the
//! next turn goes on from there.
//!
//! Where turns have a spacing, turn k is to begin at the conversation's start + k × spacing. A turn cannot
//! begin before the last answer is there; one that is delayed so is sent as soon as it can be, and that is
//! its intended moment: what the last answer took is in that answer's own times, and is not counted again.
//!
//! Refuses to know: sockets, how a sample is read.

use super::request::Message;
use crate::driver::Driver;

use crate::{Endpoint, LoadOutcome, Progress, PromptSeed, SessionClock};
use std::time::Duration;
use verdict::plan::Session;

pub async fn run(
    endpoint: &Endpoint,
    workload: &str,
    session: &Session,
    seed: PromptSeed,
    clock: &SessionClock,
    progress: &dyn Progress,
) -> LoadOutcome {
    let mut driver = Driver::start(endpoint, workload, clock, progress, (1, session.turns));
    let begun_ns = clock.now_ns();
    let mut history = Vec::new();
    let measured = (session.warmup_turns, session.turns - 1);
    let mut window = None;
    for turn in 0..session.turns {
        if turn == session.warmup_turns {
            window = driver.begin_window(Some(measured)).await;
        }
        let at_ns = intended_ns(session, turn, begun_ns, clock.now_ns());
        let begins_ns = at_ns.unwrap_or_else(|| clock.now_ns());
        if is_over(session, begins_ns - begun_ns) || driver.has_stopped() {
            break;
        }
        history.push(message(
            "user",
            seed.words(workload, turn, session.message_words),
        ));
        let planned = super::turn(endpoint, session, turn, &history);
        let reply = driver.one(planned, at_ns).await;
        if reply.is_empty() {
            history.pop();
        } else {
            history.push(message("assistant", reply));
        }
    }
    driver.end_window(window).await;
    driver.finish()
}

/// When a turn is to begin; `None`: at once.
fn intended_ns(session: &Session, turn: u32, begun_ns: u64, now_ns: u64) -> Option<u64> {
    let after = session.spacing?.saturating_mul(turn);
    let at_ns = begun_ns.saturating_add(u64::try_from(after.as_nanos()).unwrap_or(u64::MAX));
    (at_ns > now_ns).then_some(at_ns)
}

/// Whether no turn begins any more, so long after the start.
fn is_over(session: &Session, since_start_ns: u64) -> bool {
    let over = |duration: Duration| Duration::from_nanos(since_start_ns) > duration;
    session.duration.is_some_and(over)
}

fn message(role: &str, content: String) -> Message {
    Message {
        role: role.to_owned(),
        content,
    }
}

#[cfg(test)]
mod tests {
    use super::{Session, intended_ns, is_over};
    use std::time::Duration;

    const SESSION: Session = Session {
        turns: 9,
        warmup_turns: 0,
        message_words: 1,
        reply_tokens: 1,
        spacing: Some(Duration::from_nanos(100)),
        duration: Some(Duration::from_nanos(250)),
    };

    #[test]
    fn a_turn_waits_for_its_moment_or_goes_at_once() {
        for (turn, now_ns, expect) in [
            (0, 1_000, None),
            (1, 1_050, Some(1_100)),
            (1, 1_100, None),
            (2, 1_350, None),
            (4, 1_350, Some(1_400)),
        ] {
            assert_eq!(intended_ns(&SESSION, turn, 1_000, now_ns), expect, "{turn}");
        }
        let dense = Session {
            spacing: None,
            ..SESSION
        };
        assert_eq!(intended_ns(&dense, 5, 1_000, 1_001), None);
    }

    #[test]
    fn no_turn_begins_after_the_end() {
        assert!(!is_over(&SESSION, 250));
        assert!(is_over(&SESSION, 251));
        let endless = Session {
            duration: None,
            ..SESSION
        };
        assert!(!is_over(&endless, u64::MAX));
    }
}
