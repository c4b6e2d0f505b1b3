//! `/metrics`: the engine's counts and this server's latencies, under the names that vLLM uses, and a few
//! of our own (`infergate_…`).
//!
//! [`Metrics`] holds the histograms; [`Watch`] observes one choice. Latencies run from the arrival of the
//! request to the moment at which the server takes the engine's event off its channel; the time in the
//! queue is by the engine's own clock, whose other figures are in each answer's `timings`.

use super::exposition::{Exposition, Histogram, Kind};
use super::retry_after::Pace;
use crate::request::Event;
use crate::{ModelInfo, Stats};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// vLLM's bounds.
const FIRST_TOKEN_BOUNDS_S: &[f64] = &[
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
    20.0, 40.0, 80.0, 160.0, 640.0, 2560.0,
];
/// vLLM's bounds, and finer ones below, since a small model needs less than a millisecond a token.
const INTER_TOKEN_BOUNDS_S: &[f64] = &[
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3,
    0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
];
/// vLLM's bounds.
const REQUEST_BOUNDS_S: &[f64] = &[
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0,
    480.0, 960.0, 1920.0, 7680.0,
];

pub struct Metrics {
    first_token: Histogram,
    inter_token: Histogram,
    queue: Histogram,
    request: Histogram,
    pace: Mutex<Pace>,
}

impl Metrics {
    pub fn new() -> Self {
        Self {
            first_token: Histogram::new(FIRST_TOKEN_BOUNDS_S),
            inter_token: Histogram::new(INTER_TOKEN_BOUNDS_S),
            queue: Histogram::new(REQUEST_BOUNDS_S),
            request: Histogram::new(REQUEST_BOUNDS_S),
            pace: Mutex::new(Pace::default()),
        }
    }

    /// Whole seconds after which a client that found so many waiting should come back.
    pub fn retry_after_s(&self, waiting: usize) -> u32 {
        self.with_pace(|pace| pace.retry_after_s(waiting))
    }

    fn with_pace<T>(&self, look: impl FnOnce(&mut Pace) -> T) -> T {
        look(&mut self.pace.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The whole text. `listening`: the server's own stage of start-up.
    pub fn text(&self, model: &ModelInfo, stats: &Stats, listening: Duration) -> String {
        let mut text = Exposition::new(&model.name);
        write_load(&mut text, stats);
        text.single(
            Kind::Gauge,
            "infergate_batch_invariant",
            "1 if greedy answers do not depend on what is computed beside them, else 0.",
            f64::from(u8::from(model.batch_invariant)),
        );
        write_totals(&mut text, stats);
        text.histogram(
            "vllm:time_to_first_token_seconds",
            "Time from a request's arrival to its first token.",
            &self.first_token,
        );
        text.histogram(
            "vllm:inter_token_latency_seconds",
            "Time between two tokens of an answer.",
            &self.inter_token,
        );
        text.histogram(
            "vllm:request_queue_time_seconds",
            "Time that an answered request waited for its prefill, by the engine's clock.",
            &self.queue,
        );
        text.histogram(
            "vllm:e2e_request_latency_seconds",
            "Time from a request's arrival to the end of its answer.",
            &self.request,
        );
        let stages = stats
            .startup
            .iter()
            .map(|stage| (stage.name, stage.elapsed));
        text.labelled(
            Kind::Gauge,
            "infergate_startup_seconds",
            "Time that a stage of start-up took.",
            "stage",
            stages
                .chain([("listening", listening)])
                .map(|(name, time)| (name, time.as_secs_f64())),
        );
        text.finish()
    }
}

/// What is in use now.
fn write_load(text: &mut Exposition, stats: &Stats) {
    let kv = stats.kv;
    let share = if kv.pages_total == 0 {
        0.0
    } else {
        kv.pages_used as f64 / kv.pages_total as f64
    };
    let bytes = |pages: u64| (pages * kv.page_bytes) as f64;
    for (name, help, value) in [
        (
            "vllm:num_requests_running",
            "Requests that are computed now.",
            stats.running as f64,
        ),
        (
            "vllm:num_requests_waiting",
            "Requests that wait in the queue.",
            stats.waiting as f64,
        ),
        (
            "vllm:kv_cache_usage_perc",
            "Share of the KV cache that requests hold; 1 is all of it.",
            share,
        ),
        (
            "infergate_kv_bytes_used",
            "Bytes of keys and values that requests hold.",
            bytes(kv.pages_used),
        ),
        (
            "infergate_kv_bytes_cached",
            "Bytes kept for reuse that no request holds.",
            bytes(kv.pages_cached),
        ),
        (
            "infergate_kv_bytes_live",
            "Bytes of keys and values that are kept, held by requests or for reuse.",
            bytes(kv.pages_used) + bytes(kv.pages_cached),
        ),
        (
            "infergate_kv_bytes_total",
            "Bytes of keys and values that there is room for.",
            bytes(kv.pages_total),
        ),
        (
            "infergate_state_bytes_used",
            "Bytes of recurrent states that requests hold; 0 of a model that has none.",
            (stats.states.used * stats.states.bytes) as f64,
        ),
        (
            "infergate_state_bytes_cached",
            "Bytes of recurrent states kept as snapshots, to resume from.",
            (stats.states.kept * stats.states.bytes) as f64,
        ),
    ] {
        text.single(Kind::Gauge, name, help, value);
    }
}

/// What was done since the start.
fn write_totals(text: &mut Exposition, stats: &Stats) {
    for (name, help, value) in [
        (
            "vllm:prompt_tokens_total",
            "Prompt tokens of prefilled requests, cached ones among them.",
            stats.prompt_tokens,
        ),
        (
            "infergate_prefilled_tokens_total",
            "Prompt tokens that were really computed.",
            stats.prefilled_tokens,
        ),
        (
            "vllm:generation_tokens_total",
            "Tokens generated.",
            stats.generation_tokens,
        ),
        (
            "vllm:prefix_cache_queries_total",
            "Prompt tokens looked up in the prefix cache.",
            stats.cache_queries,
        ),
        (
            "vllm:prefix_cache_hits_total",
            "Prompt tokens found in the prefix cache.",
            stats.cache_hits,
        ),
        (
            "infergate_state_resumes_total",
            "Requests that began at a snapshot of a recurrent state.",
            stats.states.resumed,
        ),
        (
            "infergate_state_recomputed_tokens_total",
            "Prompt tokens computed again since no snapshot was as late as their cached keys and values.",
            stats.states.recomputed_tokens,
        ),
        (
            "vllm:num_preemptions_total",
            "Times that a request gave its room to an older one and was put back to the queue.",
            stats.preempted,
        ),
        (
            "infergate_captures_total",
            "Parts of a step that were recorded to be repeated (CUDA graphs); none after the start.",
            stats.captures,
        ),
        (
            "infergate_replays_total",
            "Times that a recorded part of a step was repeated.",
            stats.replays,
        ),
        (
            "infergate_replayed_nodes_total",
            "Kernels, copies and fills that repeated recordings started.",
            stats.replayed_nodes,
        ),
    ] {
        text.single(Kind::Counter, name, help, value as f64);
    }
    let reasons = [
        ("stop", stats.finished_stop),
        ("length", stats.finished_length),
        ("abort", stats.cancelled),
        ("error", stats.failed),
    ];
    text.labelled(
        Kind::Counter,
        "vllm:request_success_total",
        "Requests that ended, by how they did.",
        "finished_reason",
        reasons
            .into_iter()
            .map(|(reason, count)| (reason, count as f64)),
    );
}

/// Observes the events of one choice, from its submission to its end, whichever that is.
pub struct Watch {
    metrics: Arc<Metrics>,
    arrival: Instant,
    last_token: Option<Instant>,
}

impl Watch {
    pub fn new(metrics: &Arc<Metrics>, arrival: Instant) -> Self {
        metrics.with_pace(|pace| pace.begin(Instant::now()));
        Self {
            metrics: Arc::clone(metrics),
            arrival,
            last_token: None,
        }
    }

    pub fn see(&mut self, event: &Event) {
        let now = Instant::now();
        match event {
            Event::Token(_) => match self.last_token.replace(now) {
                None => self.metrics.first_token.record(now - self.arrival),
                Some(last) => self.metrics.inter_token.record(now - last),
            },
            Event::Finished(finished) => {
                self.metrics.queue.record(finished.timings.queue);
                self.metrics.request.record(now - self.arrival);
            }
            Event::Prompt(_) | Event::Failed(_) => {}
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.metrics.with_pace(|pace| pace.leave(Instant::now()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{FinishReason, Finished, Sampling, Timings, Token};
    use crate::{KvStats, ModelShape, Stage};

    fn text(metrics: &Metrics) -> String {
        let stats = Stats {
            running: 1,
            preempted: 7,
            captures: 5,
            replays: 11,
            replayed_nodes: 4400,
            kv: KvStats {
                page_tokens: 16,
                page_bytes: 1000,
                pages_total: 8,
                pages_used: 2,
                pages_cached: 1,
            },
            startup: vec![Stage {
                name: "config",
                elapsed: Duration::from_millis(250),
            }],
            ..Stats::default()
        };
        let model = ModelInfo {
            name: "tiny".to_owned(),
            max_context: 64,
            vocab_size: 10,
            shape: ModelShape::default(),
            dtype: "f32".to_owned(),
            parameters: 1,
            unread: Vec::new(),
            eos: Vec::new(),
            threads: 1,
            backend: "cpu",
            kernels: "portable".to_owned(),
            batch_invariant: true,
            window: None,
            sampling: Sampling::default(),
        };
        metrics.text(&model, &stats, Duration::from_millis(500))
    }

    #[test]
    fn gauges_follow_the_engines_counts() {
        let text = text(&Metrics::new());
        for line in [
            "vllm:num_requests_running{model_name=\"tiny\"} 1",
            "vllm:num_preemptions_total{model_name=\"tiny\"} 7",
            "infergate_captures_total{model_name=\"tiny\"} 5",
            "infergate_replays_total{model_name=\"tiny\"} 11",
            "infergate_replayed_nodes_total{model_name=\"tiny\"} 4400",
            "infergate_batch_invariant{model_name=\"tiny\"} 1",
            "vllm:kv_cache_usage_perc{model_name=\"tiny\"} 0.25",
            "infergate_kv_bytes_used{model_name=\"tiny\"} 2000",
            "infergate_startup_seconds{model_name=\"tiny\",stage=\"config\"} 0.25",
            "infergate_startup_seconds{model_name=\"tiny\",stage=\"listening\"} 0.5",
        ] {
            assert!(
                text.lines().any(|one| one == line),
                "{line} is not in\n{text}"
            );
        }
    }

    #[test]
    fn three_tokens_are_one_first_and_two_between() {
        let metrics = Arc::new(Metrics::new());
        let mut watch = Watch::new(&metrics, Instant::now());
        let token = Event::Token(Token {
            id: 1,
            logprob: None,
        });
        for _ in 0..3 {
            watch.see(&token);
        }
        watch.see(&Event::Finished(Finished {
            reason: FinishReason::End,
            timings: Timings {
                queue: Duration::from_millis(400),
                ..Timings::default()
            },
        }));
        let text = text(&metrics);
        for line in [
            "vllm:time_to_first_token_seconds_count{model_name=\"tiny\"} 1",
            "vllm:inter_token_latency_seconds_count{model_name=\"tiny\"} 2",
            "vllm:request_queue_time_seconds_bucket{model_name=\"tiny\",le=\"0.3\"} 0",
            "vllm:request_queue_time_seconds_bucket{model_name=\"tiny\",le=\"0.5\"} 1",
            "vllm:e2e_request_latency_seconds_count{model_name=\"tiny\"} 1",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }
}
