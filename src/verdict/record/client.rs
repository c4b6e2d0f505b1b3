//! Health of the load client: delays that it could have added to a result.

use serde::{Deserialize, Serialize};

/// The client's health while it ran one workload of one launch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClientHealth {
    /// `gate/workload`.
    pub workload: String,
    /// t_send − t_intended: how late requests left. 0 in a closed loop by definition.
    pub send_lag_ms: Spread,
    /// User's read − the kernel's stamp, over all reads that have one: what a client without kernel
    /// stamps would have added to every event.
    pub read_lag_ms: Spread,
    /// How late a timer of the client's own threads fired: its event loop's delay.
    pub loop_delay_ms: Spread,
    /// Share of output events that arrived together with a later one, so that only an upper bound is known.
    pub ambiguous_share: f64,
    /// Share of samples whose arrivals all carry the kernel's stamp.
    pub kernel_share: f64,
    /// Streams that the workload wanted in flight at once: the concurrency of a closed loop; in an open
    /// loop the most that were due and whose last output had not come.
    pub streams_asked: u32,
    /// The most that really were in flight, from send to last event, by a sweep over all moments.
    pub streams_reached: u32,
    /// Requests sent again, since the server had closed the connection that it kept.
    #[serde(default)]
    pub resent: u32,
    /// CPU time of the client's threads, seconds, and their number.
    pub cpu_s: f64,
    pub threads: u32,
    /// Wall time of the workload, seconds.
    pub wall_s: f64,
    /// Share of the machine's CPU time that its host took away meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steal_share: Option<f64>,
}

/// A distribution in short. All zero where there is nothing to count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    pub p50: f64,
    pub p99: f64,
    pub max: f64,
    /// Values behind it.
    pub n: u64,
}
