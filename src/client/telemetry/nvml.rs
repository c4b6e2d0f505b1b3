//! GPUs by NVML, whose library is looked for at run time.
//!
//! Refuses to change anything: it only asks.

use super::missing::Missing;
use super::process::{self, Tree};
use nvml_wrapper::enum_wrappers::device::{Clock, TemperatureSensor};
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::struct_wrappers::device::ProcessInfo;
use nvml_wrapper::{Device, Nvml};
use std::collections::BTreeMap;
use verdict::record::GpuReading;

pub struct Gpus {
    library: Nvml,
    count: u32,
}

impl Gpus {
    /// Loads the library; the error is the sentence for `missing`.
    pub fn open() -> Result<Self, String> {
        let failed = |error: NvmlError| {
            format!(
                "NVML cannot be asked: {error}; GPU values need NVIDIA's driver or telemetry.gpu_exporter"
            )
        };
        let library = Nvml::init().map_err(failed)?;
        let count = library.device_count().map_err(failed)?;
        Ok(Self { library, count })
    }

    /// Every GPU as it is now. `tree` holds the engine's processes.
    pub fn read(&self, tree: Option<&Tree>, missing: &mut Missing) -> Vec<GpuReading> {
        (0..self.count)
            .filter_map(|index| {
                let device = kept(index, "state", self.library.device_by_index(index), missing)?;
                Some(read(index, &device, tree, missing))
            })
            .collect()
    }

    /// Energy that each GPU used since its driver was loaded, millijoules (Volta and later).
    pub fn energy_mj(&self, missing: &mut Missing) -> BTreeMap<u32, u64> {
        let energy = |index| {
            let device = self.library.device_by_index(index);
            let energy = device.and_then(|device| device.total_energy_consumption());
            Some((index, kept(index, "energy", energy, missing)?))
        };
        (0..self.count).filter_map(energy).collect()
    }
}

/// Every GPU at rest. The error is a sentence.
pub fn gpus() -> Result<Vec<GpuAtRest>, String> {
    let gpus = Gpus::open()?;
    let devices = (0..gpus.count).filter_map(|index| gpus.library.device_by_index(index).ok());
    Ok(devices.map(|device| at_rest(&device)).collect())
}

/// What a GPU is and how it stands before anything runs; `None` where it does not tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GpuAtRest {
    pub name: String,
    pub memory_bytes: Option<u64>,
    /// The driver stays loaded while nobody uses the GPU.
    pub is_persistent: Option<bool>,
    /// It is cut into instances (MIG).
    pub is_partitioned: Option<bool>,
    /// Compute processes on it.
    pub processes: Option<usize>,
    /// NVML's reasons for reduced clocks; idleness is one of them.
    pub throttle_bits: Option<u64>,
}

fn at_rest(device: &Device<'_>) -> GpuAtRest {
    /// `nvmlDeviceGetMigMode` gives 1 where it is on (NVML's header).
    const MIG_ON: u32 = 1;
    let processes = device.running_compute_processes();
    let reasons = device.current_throttle_reasons();
    let memory = device.memory_info();
    GpuAtRest {
        name: device
            .name()
            .unwrap_or_else(|_| "a GPU without a name".into()),
        memory_bytes: memory.ok().map(|memory| memory.total),
        is_persistent: device.is_in_persistent_mode().ok(),
        is_partitioned: device.mig_mode().ok().map(|mode| mode.current == MIG_ON),
        processes: processes.ok().map(|listed| listed.len()),
        throttle_bits: reasons.ok().map(|reasons| reasons.bits()),
    }
}

fn read(index: u32, device: &Device<'_>, tree: Option<&Tree>, missing: &mut Missing) -> GpuReading {
    let bits = device
        .current_throttle_reasons()
        .map(|reasons| reasons.bits());
    let memory = device.memory_info().map(|memory| memory.used);
    let processes = processes(index, device, tree, missing);
    let power_mw = kept(index, "power", device.power_usage(), missing);
    GpuReading {
        index,
        sm_clock_mhz: kept(index, "SM clock", device.clock_info(Clock::SM), missing),
        memory_clock_mhz: kept(
            index,
            "memory clock",
            device.clock_info(Clock::Memory),
            missing,
        ),
        temperature_c: kept(
            index,
            "temperature",
            device.temperature(TemperatureSensor::Gpu),
            missing,
        ),
        power_w: power_mw.map(|milliwatts| f64::from(milliwatts) / 1e3),
        // Known reasons fit in the lower half.
        throttle_bits: kept(index, "throttle reasons", bits, missing).map(|bits| bits as u32),
        memory_used_bytes: kept(index, "memory", memory, missing),
        engine_memory_bytes: processes.and_then(|processes| processes.engine_bytes),
        engine_processes: processes.map(|processes| processes.engine),
        other_processes: processes.map(|processes| processes.others),
    }
}

/// The value, or a note that the GPU does not give it.
fn kept<T>(
    index: u32,
    what: &str,
    value: Result<T, NvmlError>,
    missing: &mut Missing,
) -> Option<T> {
    value
        .inspect_err(|error| {
            missing.note(&format!("gpu {index} {what}"), || {
                format!("GPU {index} does not tell its {what}: {error}")
            });
        })
        .ok()
}

/// How many compute processes a GPU lists.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Processes {
    engine: u32,
    others: u32,
    /// Memory of the engine's; `None` where there is none of them, or one does not tell.
    engine_bytes: Option<u64>,
}

fn processes(
    index: u32,
    device: &Device<'_>,
    tree: Option<&Tree>,
    missing: &mut Missing,
) -> Option<Processes> {
    let listed = kept(
        index,
        "processes",
        device.running_compute_processes(),
        missing,
    )?;
    let listed: Vec<Listed> = listed.iter().map(Listed::of).collect();
    let counted = counted(&listed, tree?, process::exists);
    if counted.is_none() {
        missing.note(&format!("gpu {index} others"), || {
            format!(
                "GPU {index} numbers its processes as another namespace does: others than the engine's cannot be told"
            )
        });
    }
    counted
}

/// A compute process that a GPU lists.
#[derive(Clone, Copy)]
struct Listed {
    pid: i32,
    /// `None` where the driver does not tell.
    bytes: Option<u64>,
}

impl Listed {
    fn of(info: &ProcessInfo) -> Self {
        Self {
            pid: info.pid.cast_signed(),
            bytes: match info.used_gpu_memory {
                UsedGpuMemory::Used(bytes) => Some(bytes),
                UsedGpuMemory::Unavailable => None,
            },
        }
    }
}

/// How many of the listed processes are the engine's and how many are not; `None` where that cannot be told: in
/// a container the driver may use the host's numbers, and then the engine itself looks like a stranger.
fn counted(listed: &[Listed], tree: &Tree, exists: impl Fn(i32) -> bool) -> Option<Processes> {
    let (own, strangers): (Vec<Listed>, Vec<Listed>) =
        listed.iter().partition(|one| tree.pids.contains(&one.pid));
    let count = |all: &[Listed]| u32::try_from(all.len()).unwrap_or(u32::MAX);
    let bytes: Option<u64> = own.iter().map(|one| one.bytes).sum();
    (!own.is_empty() || strangers.iter().all(|one| exists(one.pid))).then(|| Processes {
        engine: count(&own),
        others: count(&strangers),
        engine_bytes: bytes.filter(|_| !own.is_empty()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_are_counted_where_numbers_mean_the_same() {
        let tree = Tree {
            pids: [10, 11].into(),
            ..Tree::default()
        };
        let visible = |pid| pid < 100;
        for (listed, expect) in [
            (&[][..], Some((0, 0))),
            (&[10], Some((1, 0))),
            (&[10, 11, 12], Some((2, 1))),
            (&[12], Some((0, 1))),
            // Another container's process, told as such since the engine's own is known by its number.
            (&[10, 4000], Some((1, 1))),
            (&[4000], None),
        ] {
            let pids = listed.iter().copied();
            let listed: Vec<Listed> = pids.map(|pid| Listed { pid, bytes: None }).collect();
            let counted = counted(&listed, &tree, visible);
            let counted = counted.map(|found| (found.engine, found.others));
            assert_eq!(counted, expect);
        }
    }

    #[test]
    fn memory_of_the_engine_is_that_of_all_its_processes() {
        let tree = Tree {
            pids: [10, 11].into(),
            ..Tree::default()
        };
        for (listed, expect) in [
            (
                &[(10, Some(5)), (11, Some(7)), (12, Some(90))][..],
                Some(12),
            ),
            (&[(10, Some(5)), (11, None)], None),
            (&[(12, Some(90))], None),
            (&[], None),
        ] {
            let listed = listed.iter().map(|&(pid, bytes)| Listed { pid, bytes });
            let listed: Vec<Listed> = listed.collect();
            let found = counted(&listed, &tree, |_| true).unwrap();
            assert_eq!(found.engine_bytes, expect);
        }
    }
}
