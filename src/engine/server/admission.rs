//! Admission of requests: counts the answers under way, and closes for a shutdown.
//!
//! [`Admission`] hands out a [`Ticket`] an answer; the server may end once the door is closed and every
//! ticket is back.

use axum::body::Bytes;
use std::sync::Arc;
use tokio::sync::watch;

#[derive(Clone, Copy, Debug, Default)]
struct AdmissionState {
    closed: bool,
    under_way: usize,
}

pub struct Admission {
    state: watch::Sender<AdmissionState>,
}

/// Held as long as an answer is under way.
pub struct Ticket {
    admission: Arc<Admission>,
}

impl Admission {
    pub fn new() -> Arc<Self> {
        let state = watch::Sender::new(AdmissionState::default());
        Arc::new(Self { state })
    }

    /// `None` once the door is closed.
    pub fn enter(self: &Arc<Self>) -> Option<Ticket> {
        let entered = self.state.send_if_modified(|state| {
            state.under_way += usize::from(!state.closed);
            !state.closed
        });
        entered.then(|| Ticket {
            admission: Arc::clone(self),
        })
    }

    pub fn close(&self) {
        self.state.send_modify(|state| state.closed = true);
    }

    pub fn is_closed(&self) -> bool {
        self.state.borrow().closed
    }

    /// Answers under way.
    pub fn under_way(&self) -> usize {
        self.state.borrow().under_way
    }

    /// Waits until the door is closed.
    pub async fn closed(&self) {
        self.reach(|state| state.closed).await;
    }

    /// Waits until the door is closed and no answer is under way.
    pub async fn emptied(&self) {
        self.reach(|state| state.closed && state.under_way == 0)
            .await;
    }

    async fn reach(&self, condition: impl FnMut(&AdmissionState) -> bool) {
        let mut state = self.state.subscribe();
        // The sender lives in `self`, so that the wait can't fail.
        let _ = state.wait_for(condition).await;
    }
}

impl Ticket {
    /// The bytes as they are; the ticket is back once the last of them is written to the socket, or given up.
    pub fn around(self, bytes: impl AsRef<[u8]> + Send + 'static) -> Bytes {
        Bytes::from_owner(Ticketed {
            bytes,
            _ticket: self,
        })
    }
}

struct Ticketed<B> {
    bytes: B,
    _ticket: Ticket,
}

impl<B: AsRef<[u8]>> AsRef<[u8]> for Ticketed<B> {
    fn as_ref(&self) -> &[u8] {
        self.bytes.as_ref()
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.admission
            .state
            .send_modify(|state| state.under_way -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;

    #[test]
    fn emptied_when_closed_and_every_ticket_is_back() {
        let admission = Admission::new();
        let ticket = admission.enter().unwrap();
        assert!(admission.emptied().now_or_never().is_none());
        admission.close();
        assert!(admission.enter().is_none());
        assert!(admission.emptied().now_or_never().is_none());
        drop(ticket);
        assert!(admission.emptied().now_or_never().is_some());
    }

    #[test]
    fn bytes_that_are_not_written_are_an_answer_under_way() {
        let admission = Admission::new();
        let mut bytes = admission.enter().unwrap().around("answer");
        let written = bytes.split_to(3);
        assert_eq!((&written[..], &bytes[..]), (&b"ans"[..], &b"wer"[..]));
        drop(written);
        assert_eq!(admission.under_way(), 1);
        drop(bytes);
        assert_eq!(admission.under_way(), 0);
    }

    #[test]
    fn an_open_door_is_never_emptied() {
        let admission = Admission::new();
        drop(admission.enter());
        assert!(!admission.is_closed());
        assert!(admission.emptied().now_or_never().is_none());
    }
}
