//! Counters of the engine, for a server's metrics.
//!
//! Main types: [`Stats`], a snapshot; `Counters`, the atomics behind it. Refuses to know: metric names,
//! Prometheus.

use std::sync::atomic::{AtomicU64, Ordering};

use super::backend::Recordings;
use super::startup::Stage;

/// A snapshot. Totals count from the end of start-up: the warm-up is not among them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stats {
    /// Requests being computed, and requests that wait: in the queue, or sent back to make room.
    pub running: u64,
    pub waiting: u64,
    pub kv: KvStats,
    pub states: StateStats,
    /// Prompt tokens of requests whose prefill is done, cached ones among them.
    pub prompt_tokens: u64,
    /// Tokens computed that were no step of decoding: of prompts, and again of requests that had to make
    /// room.
    pub prefilled_tokens: u64,
    /// Prompt tokens looked up in the prefix cache, and found there.
    pub cache_queries: u64,
    pub cache_hits: u64,
    pub generation_tokens: u64,
    /// Requests by how they ended.
    pub finished_stop: u64,
    pub finished_length: u64,
    pub cancelled: u64,
    pub failed: u64,
    /// Times that a running request lost its pages to an older one and was put back to the queue.
    pub preempted: u64,
    /// CUDA graphs that the backend has captured of parts of a step.
    pub captures: u64,
    /// Replays of them, warm-up included.
    pub replays: u64,
    /// Kernels, copies and fills that those repetitions started.
    pub replayed_nodes: u64,
    pub startup: Vec<Stage>,
}

/// The page pool of keys and values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KvStats {
    /// Tokens that a page holds, and its bytes over all layers.
    pub page_tokens: u64,
    pub page_bytes: u64,
    pub pages_total: u64,
    /// Pages that a running request holds.
    pub pages_used: u64,
    /// Pages that no request holds, kept for their content until their room is needed.
    pub pages_cached: u64,
}

/// The recurrent states of a hybrid model; all 0 of any other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StateStats {
    /// Bytes of one, over all layers.
    pub bytes: u64,
    /// Held by running requests, and kept as snapshots.
    pub used: u64,
    pub kept: u64,
    /// Requests that began at a snapshot.
    pub resumed: u64,
    /// Prompt tokens whose keys and values were cached, but whose state was not: computed again.
    pub recomputed_tokens: u64,
}

#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub fn add(&self, amount: u64) {
        self.0.fetch_add(amount, Ordering::Relaxed);
    }

    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[derive(Debug, Default)]
pub struct Counters {
    pub running: Counter,
    pub preempted_waiting: Counter,
    pub page_tokens: Counter,
    pub page_bytes: Counter,
    pub pages_total: Counter,
    pub pages_used: Counter,
    pub pages_cached: Counter,
    pub state_bytes: Counter,
    pub states_used: Counter,
    pub states_kept: Counter,
    pub resumed: Counter,
    pub recomputed_tokens: Counter,
    pub prompt_tokens: Counter,
    pub prefilled_tokens: Counter,
    pub cache_queries: Counter,
    pub cache_hits: Counter,
    pub generation_tokens: Counter,
    pub finished_stop: Counter,
    pub finished_length: Counter,
    pub cancelled: Counter,
    pub failed: Counter,
    pub preempted: Counter,
    pub captures: Counter,
    pub replays: Counter,
    pub replayed_nodes: Counter,
}

impl Counters {
    pub fn record(&self, recordings: Recordings) {
        self.captures.set(recordings.made);
        self.replays.set(recordings.repeated);
        self.replayed_nodes.set(recordings.nodes);
    }

    pub fn snapshot(&self, waiting: u64, startup: &[Stage]) -> Stats {
        Stats {
            running: self.running.get(),
            waiting: waiting + self.preempted_waiting.get(),
            kv: KvStats {
                page_tokens: self.page_tokens.get(),
                page_bytes: self.page_bytes.get(),
                pages_total: self.pages_total.get(),
                pages_used: self.pages_used.get(),
                pages_cached: self.pages_cached.get(),
            },
            states: StateStats {
                bytes: self.state_bytes.get(),
                used: self.states_used.get(),
                kept: self.states_kept.get(),
                resumed: self.resumed.get(),
                recomputed_tokens: self.recomputed_tokens.get(),
            },
            prompt_tokens: self.prompt_tokens.get(),
            prefilled_tokens: self.prefilled_tokens.get(),
            cache_queries: self.cache_queries.get(),
            cache_hits: self.cache_hits.get(),
            generation_tokens: self.generation_tokens.get(),
            finished_stop: self.finished_stop.get(),
            finished_length: self.finished_length.get(),
            cancelled: self.cancelled.get(),
            failed: self.failed.get(),
            preempted: self.preempted.get(),
            captures: self.captures.get(),
            replays: self.replays.get(),
            replayed_nodes: self.replayed_nodes.get(),
            startup: startup.to_vec(),
        }
    }
}
