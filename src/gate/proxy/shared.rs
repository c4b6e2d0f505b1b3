//! Counts over all connections of the proxy.

use super::edit;
use super::fault::Faults;
use super::recorder::Recorder;
use serde_json::Value;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counters that all connections share.
#[derive(Debug)]
pub struct Shared {
    pub upstream: SocketAddr,
    pub faults: Faults,
    pub recorder: Option<Arc<Recorder>>,
    pub in_flight: Arc<AtomicU64>,
    pub requests: AtomicU64,
    pub streams: AtomicU64,
    pub tokens: AtomicU64,
}

impl Shared {
    pub fn new(upstream: SocketAddr, faults: Faults, recorder: Option<Arc<Recorder>>) -> Self {
        Self {
            upstream,
            faults,
            recorder,
            in_flight: Arc::default(),
            requests: AtomicU64::new(0),
            streams: AtomicU64::new(0),
            tokens: AtomicU64::new(0),
        }
    }

    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// Plants what is wrong in an answer's JSON.
    pub fn change(&self, json: &mut Value) {
        if let Some(every) = self.faults.wrong_token {
            edit::replace_tokens(json, || is_nth(&self.tokens, every));
        }
        if let Some(more) = self.faults.usage_add {
            edit::add_usage(json, more);
        }
    }
}

/// Counts one more; true once in `every`.
pub fn is_nth(count: &AtomicU64, every: u32) -> bool {
    (count.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(u64::from(every))
}

/// A request for an answer that is under way.
#[derive(Debug)]
pub struct Flight {
    pub in_flight: Arc<AtomicU64>,
    pub others: u64,
}

impl Flight {
    pub fn begin(in_flight: &Arc<AtomicU64>) -> Self {
        Self {
            others: in_flight.fetch_add(1, Ordering::Relaxed),
            in_flight: Arc::clone(in_flight),
        }
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flight_counts_the_others() {
        let count = Arc::default();
        let first = Flight::begin(&count);
        let second = Flight::begin(&count);
        assert_eq!((first.others, second.others), (0, 1));
        drop((first, second));
        assert_eq!(Flight::begin(&count).others, 0);
    }
}
