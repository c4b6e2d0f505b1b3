//! One request of a workload: what is sent, what it is called, and what a sound answer looks like.
//!
//! Refuses to know: sockets, answers.

use super::talk::Talk;
use crate::response::exchange::MAX_BODY;
use crate::socket::connection::Ask;
use bytes::Bytes;
use hyper::Method;
use std::fmt;
use std::time::Duration;
use verdict::record::{Phase, Setting};

/// The route of completions.
pub const COMPLETIONS: &str = "/v1/completions";
/// The route of chat.
pub const CHAT: &str = "/v1/chat/completions";

#[derive(Clone, Debug)]
pub struct Planned {
    pub label: Label,
    pub expect: Expect,
    pub ask: Ask,
}

impl Planned {
    /// Memory that it takes until it is sent.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.ask.path.len() + self.ask.body.len() + 2 * ALLOCATION
    }
}

/// Memory for requests that are made before they are sent: about 30,000 of 128 token ids.
pub const MOST_AHEAD: usize = 32 << 20;

/// Bytes that an allocation takes beside what is asked for, about.
const ALLOCATION: usize = 16;

/// Requests that are sent together; the next wave begins when every one was answered.
#[derive(Debug)]
pub struct Wave {
    /// In the order of sending.
    pub requests: Vec<Planned>,
    /// Those after them, which are made while others are in flight.
    pub later: Option<Later>,
    pub pace: Pace,
    /// Time after its start at which slots stop taking requests; `None`: never.
    pub until: Option<Duration>,
    /// Time over which its slots come one after another; what is sent meanwhile is warm-up. Moments rise by themselves.
    pub ramp_up: Option<Duration>,
    /// Where each request begins a conversation.
    pub talks: Option<Talks>,
}

/// Conversations that go on as the server answers. Their requests are numbered as they are sent.
#[derive(Clone, Debug)]
pub struct Talks {
    /// One for each request of the wave, which is its first turn.
    pub talks: Vec<Talk>,
    /// First requests sent, whosever they are, that no metric counts.
    pub warmup: u32,
    /// Turns of all.
    pub requests: u32,
}

/// Requests that are not made yet.
pub struct Later {
    pub number: u32,
    pub requests: Box<dyn Iterator<Item = Planned> + Send>,
}

impl fmt::Debug for Later {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Later")
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

impl Wave {
    /// A wave of `number` requests. Those beyond [`MOST_AHEAD`] bytes are made while it runs: earlier they would take memory,
    /// and later they take processor time from the measurement.
    pub fn of(
        number: u32,
        mut requests: impl Iterator<Item = Planned> + Send + 'static,
        pace: Pace,
    ) -> Self {
        let (mut bytes, mut made) = (0, Vec::new());
        while bytes < MOST_AHEAD
            && let Some(planned) = requests.next()
        {
            bytes += planned.bytes();
            made.push(planned);
        }
        let number = number.saturating_sub(u32::try_from(made.len()).unwrap_or(u32::MAX));
        let mut wave = Self::new(made, pace);
        wave.later = (number > 0).then(|| Later {
            number,
            requests: Box::new(requests),
        });
        wave
    }

    /// The same with all requests made.
    pub fn all_made(mut self) -> Self {
        let later = self.later.take().map(|later| later.requests);
        self.requests.extend(later.into_iter().flatten());
        self
    }

    /// All of these requests.
    pub fn new(requests: Vec<Planned>, pace: Pace) -> Self {
        Self {
            requests,
            later: None,
            pace,
            until: None,
            ramp_up: None,
            talks: None,
        }
    }

    /// Requests that will be sent.
    pub fn len(&self) -> u32 {
        if let Some(talks) = &self.talks {
            return talks.requests;
        }
        let later = self.later.as_ref().map_or(0, |later| later.number as usize);
        let all = self.requests.len() + later;
        let sent = match &self.pace {
            Pace::Slots(_) => all,
            Pace::At(moments) | Pace::InTurn(moments) => all.min(moments.len()),
        };
        u32::try_from(sent).unwrap_or(u32::MAX)
    }
}

/// When a wave's requests are sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pace {
    /// So many in flight; each slot sends its next as soon as its last was answered.
    Slots(u32),
    /// Each at its moment from the wave's start, rising; requests beyond the last moment are not sent.
    At(Vec<Duration>),
    /// Each at its moment or after the one before was answered, whichever comes later: users who arrive by
    /// themselves and are served one after another.
    InTurn(Vec<Duration>),
}

/// Identity of the sample that it becomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    pub index: u32,
    pub phase: Phase,
    pub case: Option<String>,
    pub turn: Option<u32>,
    pub setting: Option<Setting>,
}

impl Label {
    /// One that belongs to no case, turn or setting.
    pub fn of(index: u32, phase: Phase) -> Self {
        Self {
            index,
            phase,
            case: None,
            turn: None,
            setting: None,
        }
    }
}

/// What must be true of a sound answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expect {
    pub streamed: bool,
    /// Exactly so many output tokens.
    pub forced: Option<u32>,
    /// At most so many, where no length is forced.
    pub most: Option<u32>,
    /// Exactly so many prompt tokens, where ids were sent.
    pub prompt: Option<u32>,
    /// Tokens that the prompt's text was to have and those that it has, where no text fits.
    pub unfit: Option<(u32, u32)>,
    /// The prompt is echoed with its log-probabilities; nothing need be generated.
    pub echoed: bool,
    /// The answer may end before its first token, by itself or at a string.
    pub stopped: bool,
    /// The engine should refuse the request: any status is an answer.
    pub refused: bool,
    /// The engine may lack the route, or its template a role: a status from 400 on is an answer.
    pub may_refuse: bool,
    pub logprobs: bool,
    pub keep_text: bool,
}

impl Ask {
    pub fn post(route: &str, json: Bytes) -> Self {
        Self {
            method: Method::POST,
            path: route.to_owned(),
            body: json,
            limit: MAX_BODY,
            leaves: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Expect, Label, MOST_AHEAD, Pace, Planned, Wave};
    use crate::socket::connection::Ask;
    use bytes::Bytes;
    use verdict::record::Phase;

    #[test]
    fn what_takes_too_much_memory_is_made_later() {
        let body = Bytes::from(vec![b'x'; MOST_AHEAD / 4]);
        let requests = (0..9).map(move |index| Planned {
            label: Label::of(index, Phase::Measured),
            expect: Expect::default(),
            ask: Ask::post("/", body.clone()),
        });
        let wave = Wave::of(9, requests.clone(), Pace::Slots(1));
        let later = wave.later.as_ref().map(|later| later.number);
        assert_eq!((wave.requests.len(), later, wave.len()), (4, Some(5), 9));
        let wave = wave.all_made();
        let all = wave.requests.iter().map(|planned| planned.label.index);
        assert_eq!(all.collect::<Vec<_>>(), (0..9).collect::<Vec<_>>());
        assert!(wave.later.is_none() && wave.len() == 9);
        // No more than asked for, and none later where all have room.
        let few = Wave::of(3, requests.take(3), Pace::Slots(1));
        assert!(few.later.is_none() && few.len() == 3);
    }
}
