//! Early end of a workload: the engine is gone, or no longer answers.
//!
//! Refuses to know: requests, samples.

use super::response::exchange::{Ending, Exchange};

/// Transport failures in a row after which a workload gives up.
const FAILURES_IN_A_ROW: u32 = 3;

/// Why a workload ended before all its requests were sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Stopped {
    /// Nothing listens any more: the engine died.
    #[error("the engine takes no connections any more: {0}")]
    Refused(String),
    /// Several answers in a row were cut or were not HTTP.
    #[error("{FAILURES_IN_A_ROW} requests in a row failed; the last: {0}")]
    Failing(String),
    /// Several requests in a row failed, the last by silence, or several streams did not end: the engine hangs.
    #[error("{FAILURES_IN_A_ROW} requests hung or failed; the last: {0}")]
    Hung(String),
}

/// Counts transport failures in a row. An answer of any status breaks the row: the engine lives.
#[derive(Debug, Default)]
pub struct Watchman {
    in_a_row: u32,
    /// Streams that did not end after their `[DONE]`. Whole answers between them take nothing back: each costs its client half
    /// a minute.
    unended: u32,
}

impl Watchman {
    /// Returns the reason to stop after this request, if there is one.
    pub fn note(&mut self, exchange: &Exchange) -> Option<Stopped> {
        // Nothing was heard of the engine, nor waited for.
        if exchange.ending == Ending::Left && exchange.status.is_none() {
            return None;
        }
        if exchange.is_whole() {
            self.in_a_row = 0;
            return None;
        }
        self.in_a_row += 1;
        self.unended += u32::from(exchange.is_done());
        let enough = self.in_a_row.max(self.unended) >= FAILURES_IN_A_ROW;
        match &exchange.ending {
            Ending::Refused(detail) => Some(Stopped::Refused(detail.clone())),
            Ending::Silent(detail) => enough.then(|| Stopped::Hung(detail.clone())),
            Ending::Cut(detail) | Ending::Garbled(detail) => {
                enough.then(|| Stopped::Failing(detail.clone()))
            }
            Ending::Whole | Ending::Left => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Stopped, Watchman};
    use crate::response::exchange::{Ending, Exchange};

    fn after(endings: &[Ending]) -> Vec<Option<Stopped>> {
        let mut watchman = Watchman::default();
        let exchanges = endings.iter().cloned().map(|it| Exchange::failed(0, it));
        exchanges.map(|exchange| watchman.note(&exchange)).collect()
    }

    #[test]
    fn a_stream_that_was_done_when_the_connection_broke_is_no_failure() {
        let mut watchman = Watchman::default();
        let mut broken = Exchange::failed(0, Ending::Cut("c".into()));
        broken.body = b"data: {}\n\ndata: [DONE]\n\n".to_vec();
        assert_eq!(
            [(); 4].map(|()| watchman.note(&broken)),
            [const { None }; 4]
        );
    }

    #[test]
    fn three_failures_in_a_row_stop_a_workload() {
        let cut = || Ending::Cut("c".into());
        let silent = || Ending::Silent("s".into());
        assert_eq!(
            after(&[cut(), cut(), cut()])[2],
            Some(Stopped::Failing("c".into()))
        );
        assert_eq!(
            after(&[cut(), silent(), silent()])[2],
            Some(Stopped::Hung("s".into()))
        );
        let broken_row = after(&[cut(), cut(), Ending::Whole, cut(), cut()]);
        assert_eq!(broken_row, vec![None; 5]);
    }

    #[test]
    fn one_refused_connection_stops_it() {
        let refused = Ending::Refused("r".into());
        assert_eq!(after(&[refused]), [Some(Stopped::Refused("r".into()))]);
    }
}
