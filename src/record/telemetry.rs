//! What was read beside a launch: the machine's state and the engine's own gauges, over time.

use serde::{Deserialize, Serialize};

/// One launch's readings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Telemetry {
    /// Time between readings that was asked for, ms.
    pub every_ms: u32,
    /// In order of time.
    pub readings: Vec<Reading>,
    /// Sources that could not be read, one sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
}

/// Everything that was known at one moment. A source without a value leaves its field out: never 0.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reading {
    /// Nanoseconds from the session's start.
    pub at_ns: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<GpuReading>,
    /// Resident memory of the engine's process tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rss_bytes: Option<u64>,
    /// CPU time of the engine's process tree since it began, seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine_cpu_s: Option<f64>,
    /// CPU time of the gate's own process since it began, seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate_cpu_s: Option<f64>,
    /// Busy CPU time of the whole machine since boot, seconds, all processes, steal left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_cpu_s: Option<f64>,
    /// CPU time that the host took away since boot, seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steal_s: Option<f64>,
    #[serde(default)]
    pub engine: EngineReading,
}

/// One GPU, by NVML or by an exporter of its values.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GpuReading {
    pub index: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sm_clock_mhz: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_clock_mhz: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature_c: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_w: Option<f64>,
    /// NVML's clocks-throttle-reasons bits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttle_bits: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_used_bytes: Option<u64>,
    /// Compute processes on the GPU that are not of the engine's tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_processes: Option<u32>,
}

/// The engine's own metrics, by the names that the configuration gives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EngineReading {
    /// Bytes of KV cache in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kv_bytes: Option<f64>,
    /// Share of the KV cache in use, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kv_usage: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<f64>,
    /// Counters since the engine's start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preemptions: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix_hits: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix_queries: Option<f64>,
}
