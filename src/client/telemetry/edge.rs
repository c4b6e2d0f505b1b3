//! Readings at the ends of a workload's measured part, when no request is in flight.
//!
//! Engines update their counters some time after an answer's last byte, so the counters are read until two
//! readings agree. Main function: [`Reader::edge`].

use super::exposition;
use super::watch::Reader;
use crate::Side;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::{Instant, sleep};
use verdict::record::Edge;

/// Time between two readings.
const PAUSE: Duration = Duration::from_millis(20);

/// Longest wait until two readings agree. A counter that moves while no request is in flight never stands still; its
/// last reading counts.
const SETTLE: Duration = Duration::from_secs(1);

impl Reader<'_> {
    /// Energy is read as close to the requests as can be: last before them, first after them.
    pub async fn edge(&mut self, side: Side) -> Edge {
        let early = self.energy_if(side == Side::End);
        let counters = self.settled_counters().await;
        let at_ns = self.clock.now_ns();
        let late = self.energy_if(side == Side::Begin);
        Edge {
            at_ns,
            counters,
            energy_mj: early.or(late).unwrap_or_default(),
        }
    }

    fn energy_if(&mut self, now: bool) -> Option<BTreeMap<u32, u64>> {
        now.then(|| self.energy_mj())
    }

    async fn settled_counters(&mut self) -> BTreeMap<String, f64> {
        let mut last = self.counters().await;
        let begun = Instant::now();
        while !last.is_empty() && begun.elapsed() < SETTLE {
            sleep(PAUSE).await;
            let next = self.counters().await;
            let stood = next == last;
            last = next;
            if stood {
                break;
            }
        }
        last
    }

    /// Values of the counters that checks name; one that the engine lacks is left out, with a sentence in `missing`.
    async fn counters(&mut self) -> BTreeMap<String, f64> {
        if self.sources.counters.is_empty() {
            return BTreeMap::new();
        }
        match crate::scrape(&self.sources.endpoint, "/metrics").await {
            Ok(text) => exposition::named(&text, &self.sources.counters, &mut self.missing),
            Err(error) => {
                self.note_engine(&error);
                BTreeMap::new()
            }
        }
    }
}
