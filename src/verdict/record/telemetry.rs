//! Readings beside a launch over time: the machine's state and the engine's gauges.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

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
    /// The measured parts of the workloads of which a metric needs counters at both ends.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<Window>,
}

/// A stretch of a workload in which measured requests alone were sent, with what was read before the first and
/// after the last of them, when none was in flight.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Window {
    pub workload: String,
    /// Least and greatest [`index`](super::Sample::index) of its requests.
    pub first: u32,
    pub last: u32,
    pub begin: Edge,
    pub end: Edge,
}

/// Counters at one end of a window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Edge {
    /// Nanoseconds from the session's start.
    pub at_ns: u64,
    /// Counters of the engine's `/metrics`, under the names that the gates give them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counters: BTreeMap<String, f64>,
    /// GPU index → energy used since its driver was loaded, millijoules.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub energy_mj: BTreeMap<u32, u64>,
}

impl Telemetry {
    /// Indices of the engine's GPUs: those on which any reading saw a process of its tree; all that were read
    /// where none did, since then nobody knows which are its own.
    pub fn engine_gpus(&self) -> BTreeSet<u32> {
        let all = || self.readings.iter().flat_map(|reading| &reading.gpus);
        let own = all().filter(|gpu| gpu.engine_processes.is_some_and(|count| count > 0));
        let own: BTreeSet<u32> = own.map(|gpu| gpu.index).collect();
        if own.is_empty() {
            return all().map(|gpu| gpu.index).collect();
        }
        own
    }
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
    /// Of that, memory on huge pages. In a launch's last reading alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub huge_bytes: Option<u64>,
    /// Page faults of the engine's process tree since it began that waited for a disk. In a launch's last reading alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub major_faults: Option<u64>,
    /// CPU time of the engine's process tree since it began, seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine_cpu_s: Option<f64>,
    /// CPU time of the gate's own process since it began, and of the other arm's engine where it runs beside, seconds.
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
    /// Further gauges of the engine's `/metrics`, under the names that the gates give them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub gauges: BTreeMap<String, f64>,
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
    /// Of that, by the processes of the engine's tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine_memory_bytes: Option<u64>,
    /// Compute processes on the GPU that are of the engine's tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine_processes: Option<u32>,
    /// Compute processes on the GPU that are not.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engines_gpus_are_those_that_list_it() {
        let gpu = |index, engine_processes| GpuReading {
            index,
            engine_processes,
            ..GpuReading::default()
        };
        let check = |readings: &[&[GpuReading]], expect: &[u32]| {
            let readings = readings.iter().map(|gpus| Reading {
                gpus: gpus.to_vec(),
                ..Reading::default()
            });
            let telemetry = Telemetry {
                readings: readings.collect(),
                ..Telemetry::default()
            };
            let found: Vec<u32> = telemetry.engine_gpus().into_iter().collect();
            assert_eq!(found, expect);
        };
        check(&[&[]], &[]);
        check(&[&[gpu(0, None), gpu(1, None)]], &[0, 1]);
        check(&[&[gpu(0, Some(0)), gpu(1, Some(0))]], &[0, 1]);
        check(&[&[gpu(0, Some(0)), gpu(1, Some(2))]], &[1]);
        // Workers come one after another, and a reading may fail.
        let later = [gpu(0, Some(1)), gpu(1, None), gpu(2, Some(0))];
        check(&[&[gpu(1, Some(1)), gpu(2, Some(0))], &later], &[0, 1]);
    }
}
