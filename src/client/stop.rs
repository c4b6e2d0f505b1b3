//! Early end of a workload: the engine is gone, or no longer answers.
//!
//! Refuses to know: requests, samples.

use super::response::exchange::Ending;

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
    /// Several requests in a row failed, the last by silence: the engine hangs.
    #[error("{FAILURES_IN_A_ROW} requests in a row failed; the last: {0}")]
    Hung(String),
}

/// Counts transport failures in a row. An answer of any status breaks the row: the engine lives.
#[derive(Debug, Default)]
pub struct Watchman {
    in_a_row: u32,
}

impl Watchman {
    /// Whether to stop after a request that ended so.
    pub fn note(&mut self, ending: &Ending) -> Option<Stopped> {
        if *ending == Ending::Whole {
            self.in_a_row = 0;
            return None;
        }
        self.in_a_row += 1;
        let enough = self.in_a_row >= FAILURES_IN_A_ROW;
        match ending {
            Ending::Refused(detail) => Some(Stopped::Refused(detail.clone())),
            Ending::Silent(detail) => enough.then(|| Stopped::Hung(detail.clone())),
            Ending::Cut(detail) | Ending::Garbled(detail) => {
                enough.then(|| Stopped::Failing(detail.clone()))
            }
            Ending::Whole => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Stopped, Watchman};
    use crate::response::exchange::Ending;

    fn after(endings: &[Ending]) -> Vec<Option<Stopped>> {
        let mut watchman = Watchman::default();
        endings.iter().map(|ending| watchman.note(ending)).collect()
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
