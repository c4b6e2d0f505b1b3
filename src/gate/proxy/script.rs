//! Schedule of a stream's events under a fault: when each leaves, and as what.
//!
//! Main type: [`Script`], one a stream. Times are those of a slower engine: what is late makes all that follows
//! late too. Refuses to know: sockets, how one waits.

use super::shared::Shared;
use super::{edit, events};
use bytes::Bytes;
use serde_json::Value;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Tokens of a stream that come in time before it pauses.
const BEFORE_A_STALL: usize = 3;

/// An event and the moment at which it may leave.
pub type Due = (Instant, Bytes);

#[derive(Debug)]
pub struct Script {
    shared: Arc<Shared>,
    /// The answer is to have no tokens.
    is_emptied: bool,
    /// When the request was sent, and the tokens of its prompt.
    sent: Instant,
    prompt_tokens: usize,
    /// How late everything is from now on.
    late: Duration,
    /// The pause that is still to come.
    stall: Option<Duration>,
    /// When the first token came.
    first: Option<Instant>,
    /// Events with tokens so far.
    events: usize,
    /// Tokens that wait for others to leave with.
    gathered: Option<(Value, u32)>,
}

impl Script {
    /// For the answer to a request that was sent at this moment with so many tokens, and pauses for `stall`.
    pub fn new(
        shared: Arc<Shared>,
        is_emptied: bool,
        (sent, prompt_tokens): (Instant, usize),
        stall: Option<Duration>,
    ) -> Self {
        Self {
            shared,
            is_emptied,
            sent,
            prompt_tokens,
            late: Duration::ZERO,
            stall,
            first: None,
            events: 0,
            gathered: None,
        }
    }

    /// What leaves since this event came.
    pub fn event(&mut self, came: Instant, raw: Bytes) -> Vec<Due> {
        let Some(mut json) = events::json(&raw) else {
            let due = self.due(came);
            return self.flushed(due, raw);
        };
        let has_tokens = edit::tokens(&json) > 0;
        if has_tokens {
            self.count(came);
        }
        let due = self.due(came);
        if self.is_emptied && has_tokens {
            return Vec::new();
        }
        let is_changed = self.change(&mut json);
        if has_tokens && let Some(most) = self.shared.faults().merge {
            return self.gather(due, json, most);
        }
        let event = if is_changed {
            events::event(&json)
        } else {
            raw
        };
        self.flushed(due, event)
    }

    /// What the stream's end still brings out.
    pub fn end(&mut self, came: Instant) -> Vec<Due> {
        let due = self.due(came);
        self.gathered
            .take()
            .map(|(json, _)| (due, events::event(&json)))
            .into_iter()
            .collect()
    }

    fn count(&mut self, came: Instant) {
        if self.first.is_none() {
            self.first = Some(came);
            let prefill = self.shared.faults().prefill_delay;
            let own = came.saturating_duration_since(self.sent);
            self.late += prefill.map_or(Duration::ZERO, |delay| delay.of(own, self.prompt_tokens));
        }
        self.events += 1;
        if self.events > BEFORE_A_STALL
            && let Some(stall) = self.stall.take()
        {
            self.late += stall;
        }
    }

    fn due(&self, came: Instant) -> Instant {
        let slower = match (self.first, self.shared.faults().decode_delay) {
            (Some(first), Some(delay)) => delay.of(came - first, self.events - 1),
            _ => Duration::ZERO,
        };
        came + self.late + slower
    }

    /// Whether anything was changed.
    fn change(&self, json: &mut Value) -> bool {
        let faults = self.shared.faults();
        if !faults.touch_answers() {
            return false;
        }
        if self.is_emptied {
            edit::empty(json);
            return true;
        }
        self.shared.change(json);
        true
    }

    /// Holds an event until there are enough to leave together.
    fn gather(&mut self, due: Instant, json: Value, most: u32) -> Vec<Due> {
        let mut out = Vec::new();
        let (all, count) = match self.gathered.take() {
            Some((mut all, count)) if edit::are_of_one_choice(&all, &json) => {
                edit::append(&mut all, json);
                (all, count + 1)
            }
            Some((other, _)) => {
                out.push((due, events::event(&other)));
                (json, 1)
            }
            None => (json, 1),
        };
        if count >= most {
            out.push((due, events::event(&all)));
        } else {
            self.gathered = Some((all, count));
        }
        out
    }

    /// An event that waits for nothing, behind those that did.
    fn flushed(&mut self, due: Instant, event: Bytes) -> Vec<Due> {
        let waiting = self.gathered.take();
        let waiting = waiting.map(|(json, _)| (due, events::event(&json)));
        waiting.into_iter().chain([(due, event)]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Fault, Faults};
    use super::*;
    use std::net::SocketAddr;

    /// When five tokens that come a millisecond apart and the end behind them leave, in ms.
    fn play(specs: &[&str], stall_ms: Option<u64>) -> Vec<u64> {
        let faults: Faults = specs
            .iter()
            .map(|spec| spec.parse::<Fault>().unwrap())
            .collect();
        let shared = Arc::new(Shared::new(
            SocketAddr::from(([127, 0, 0, 1], 1)),
            faults,
            None,
        ));
        let ms = Duration::from_millis;
        let start = Instant::now();
        let mut script = Script::new(shared, false, (start, 10), stall_ms.map(ms));
        let token = events::event(&serde_json::json!({"choices": [{"index": 0, "text": "a"}]}));
        let mut out = Vec::new();
        for at in 1..=5 {
            out.extend(script.event(start + ms(at), token.clone()));
        }
        let after = start + ms(6);
        out.extend(script.event(after, Bytes::from_static(b"data: [DONE]\n\n")));
        out.extend(script.end(after));
        let passed = |(due, _): (Instant, Bytes)| (due - start).as_micros() as u64 / 1000;
        out.into_iter().map(passed).collect()
    }

    #[test]
    fn lateness_adds_up_as_in_a_slower_engine() {
        let check = |specs: &[&str], stall, expect: &[u64]| {
            assert_eq!(play(specs, stall), expect, "{specs:?}");
        };
        check(&["decode-delay=2ms"], None, &[1, 4, 7, 10, 13, 14]);
        check(&["decode-delay=100%"], None, &[1, 3, 5, 7, 9, 11]);
        check(&["prefill-delay=2ms"], None, &[21, 22, 23, 24, 25, 26]);
        check(&["prefill-delay=900%"], None, &[10, 11, 12, 13, 14, 15]);
        check(&[], Some(100), &[1, 2, 3, 104, 105, 106]);
    }
}
