//! GPUs by NVIDIA's DCGM exporter, where NVML cannot be asked: Prometheus text by HTTP.

use super::exposition::{Sample, samples};
use crate::Endpoint;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::net::lookup_host;
use verdict::record::GpuReading;

/// `FB_USED` counts MiB.
const MIB: f64 = 1_048_576.0;

pub struct Exporter {
    spec: String,
    endpoint: Endpoint,
    path: String,
}

impl Exporter {
    /// `spec`: `host:port/path`; the error is the sentence for `missing`.
    pub async fn open(spec: &str) -> Result<Self, String> {
        let wrong =
            |why: &str| format!("the GPU exporter `{spec}` (telemetry.gpu_exporter): {why}");
        let (host, path) = spec
            .split_once('/')
            .ok_or_else(|| wrong("it must be host:port/path"))?;
        let address = lookup_host(host)
            .await
            .map_err(|error| wrong(&format!("its host cannot be found: {error}")))?
            .next()
            .ok_or_else(|| wrong("its host has no address"))?;
        Ok(Self {
            spec: spec.to_owned(),
            endpoint: Endpoint {
                authority: host.to_owned(),
                request_timeout: PATIENCE,
                ..Endpoint::usual(address, "")
            },
            path: format!("/{path}"),
        })
    }

    /// Every GPU as the exporter last saw it.
    pub async fn read(&self) -> Result<Vec<GpuReading>, String> {
        let text = crate::scrape(&self.endpoint, &self.path).await;
        let failed = |why: String| format!("the GPU exporter `{}`: {why}", self.spec);
        let gpus = parse(&text.map_err(|error| failed(error.to_string()))?);
        if gpus.is_empty() {
            return Err(failed("it names no GPU".into()));
        }
        Ok(gpus)
    }
}

fn parse(text: &str) -> Vec<GpuReading> {
    let mut gpus: BTreeMap<u32, GpuReading> = BTreeMap::new();
    for sample in samples(text) {
        let Some(field) = sample.name.strip_prefix("DCGM_FI_DEV_") else {
            continue;
        };
        let index = sample.label("gpu").and_then(|gpu| gpu.parse().ok());
        if let Some(index) = index.filter(|_| sample.value.is_finite() && sample.value >= 0.0) {
            let reading = gpus.entry(index).or_insert_with(|| GpuReading {
                index,
                ..GpuReading::default()
            });
            fill(reading, field, &sample);
        }
    }
    gpus.into_values().collect()
}

/// The first value of a field counts: a GPU that several pods share is listed once for each.
fn fill(reading: &mut GpuReading, field: &str, sample: &Sample<'_>) {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "`as` saturates, and the exporter's integers are small and not negative"
    )]
    let whole = sample.value as u32;
    match field {
        "SM_CLOCK" => _ = reading.sm_clock_mhz.get_or_insert(whole),
        "MEM_CLOCK" => _ = reading.memory_clock_mhz.get_or_insert(whole),
        "GPU_TEMP" => _ = reading.temperature_c.get_or_insert(whole),
        "POWER_USAGE" => _ = reading.power_w.get_or_insert(sample.value),
        "CLOCK_THROTTLE_REASONS" | "CLOCKS_EVENT_REASONS" => {
            _ = reading.throttle_bits.get_or_insert(whole);
        }
        "FB_USED" => {
            _ = reading
                .memory_used_bytes
                .get_or_insert((sample.value * MIB) as u64)
        }
        _ => {}
    }
}

/// Time to wait for a source before a reading goes on without it.
pub const PATIENCE: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_grouped_by_gpu() {
        let text = r#"# TYPE DCGM_FI_DEV_SM_CLOCK gauge
DCGM_FI_DEV_SM_CLOCK{gpu="0",UUID="GPU-a",device="nvidia0",modelName="NVIDIA H100"} 1980
DCGM_FI_DEV_SM_CLOCK{gpu="1",UUID="GPU-b",device="nvidia1",modelName="NVIDIA H100"} 345
DCGM_FI_DEV_MEM_CLOCK{gpu="0",UUID="GPU-a"} 2619
DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-a"} 61
DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-a"} 412.381
DCGM_FI_DEV_CLOCK_THROTTLE_REASONS{gpu="0",UUID="GPU-a"} 32
DCGM_FI_DEV_CLOCKS_EVENT_REASONS{gpu="1",UUID="GPU-b"} 4
DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-a",pod="x"} 1024
DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-a",pod="y"} 1024
DCGM_FI_DEV_XID_ERRORS{gpu="0",UUID="GPU-a"} 0
DCGM_FI_DEV_GPU_TEMP{UUID="GPU-c"} 50
"#;
        let first = GpuReading {
            index: 0,
            sm_clock_mhz: Some(1980),
            memory_clock_mhz: Some(2619),
            temperature_c: Some(61),
            power_w: Some(412.381),
            throttle_bits: Some(32),
            memory_used_bytes: Some(1 << 30),
            engine_memory_bytes: None,
            engine_processes: None,
            other_processes: None,
        };
        let second = GpuReading {
            index: 1,
            sm_clock_mhz: Some(345),
            throttle_bits: Some(4),
            ..GpuReading::default()
        };
        assert_eq!(parse(text), [first, second]);
        assert_eq!(parse("up 1\n"), []);
    }
}
