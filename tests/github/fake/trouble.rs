//! Troubles that a [`super::Fake`] has when told to.

use super::{Answer, Recorded};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How the next requests that fit go wrong.
#[derive(Clone, Debug)]
pub(crate) struct Trouble {
    pub(crate) method: &'static str,
    /// Part of the path; empty: any.
    pub(crate) path: &'static str,
    /// Requests that it strikes.
    pub(crate) times: usize,
    pub(crate) ill: Ill,
}

#[derive(Clone, Debug)]
pub(crate) enum Ill {
    /// Answered with this status and nothing done; the headers as given.
    Status(u16, &'static str, Vec<(&'static str, String)>),
    /// 503 for as long as this holds.
    DownWhile(Arc<AtomicBool>),
    /// Done, but the connection breaks before the answer is through.
    Broken,
    /// Done, but answered with this status.
    DoneBut(u16),
}

impl Trouble {
    fn strikes(&self, request: &Recorded) -> bool {
        let is_down = match &self.ill {
            Ill::DownWhile(down) => down.load(Ordering::SeqCst),
            _ => true,
        };
        let fits = self.method.is_empty() || self.method == request.method;
        is_down && self.times > 0 && fits && request.path.contains(self.path)
    }
}

/// The trouble that this request meets, counted down.
pub(super) fn met(troubles: &mut [Trouble], request: &Recorded) -> Option<Ill> {
    let trouble = troubles.iter_mut().find(|t| t.strikes(request))?;
    if !matches!(trouble.ill, Ill::DownWhile(_)) {
        trouble.times -= 1;
    }
    Some(trouble.ill.clone())
}

impl Ill {
    /// The answer, where nothing is done.
    pub(super) fn instead(&self) -> Option<Answer> {
        match self {
            Self::Status(status, message, headers) => {
                let mut answer = Answer::error(*status, message);
                answer.headers = headers.clone();
                Some(answer)
            }
            Self::DownWhile(_) => Some(Answer::error(503, "Service unavailable")),
            Self::Broken | Self::DoneBut(_) => None,
        }
    }
}
