//! The machine's description, and a fingerprint that changes when results differ by it.

use std::fs;
use verdict::record::Machine;

/// Reads the machine's identity from `/proc`. GPUs are those that NVIDIA's kernel driver lists.
pub fn machine() -> Machine {
    let cpu = field("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown CPU".into());
    let cores = std::thread::available_parallelism()
        .map_or(1, |n| u32::try_from(n.get()).unwrap_or(u32::MAX));
    let kernel = read("/proc/sys/kernel/osrelease").unwrap_or_else(|| "unknown".into());
    let memory_bytes = memory_bytes();
    let gpus = gpus();
    let gib = memory_bytes.div_ceil(1 << 30);
    let mut parts = vec![
        cpu.clone(),
        format!("{cores} {}", if cores == 1 { "core" } else { "cores" }),
        format!("{gib} GiB"),
        kernel.clone(),
    ];
    parts.extend(clocks());
    parts.extend(gpus.iter().cloned());
    Machine {
        fingerprint: parts.join(" | "),
        cpu,
        cores,
        memory_bytes,
        kernel,
        gpus,
        isolation: None,
    }
}

/// A file of the kernel, without the blanks around its text.
pub fn read(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned())
}

/// How the processors' clocks are set, where the kernel sets them: governor, limit and boost.
fn clocks() -> Vec<String> {
    let governor = read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
    let limit = read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq");
    let limit = limit.and_then(|khz| khz.parse::<u64>().ok());
    let boost = read("/sys/devices/system/cpu/cpufreq/boost").map(|on| on == "1");
    let turbo = read("/sys/devices/system/cpu/intel_pstate/no_turbo").map(|off| off == "0");
    let boost = boost.or(turbo).map(|on| match on {
        true => "boost".to_owned(),
        false => "no boost".to_owned(),
    });
    let limit = limit.map(|khz| format!("{} MHz", khz / 1_000));
    [governor, limit, boost].into_iter().flatten().collect()
}

/// The first value of `name` in a file of `name : value` lines.
fn field(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn memory_bytes() -> u64 {
    field("/proc/meminfo", "MemTotal")
        .and_then(|text| text.trim_end_matches(" kB").parse::<u64>().ok())
        .map_or(0, |kib| kib * 1024)
}

/// Model and driver version of each GPU.
fn gpus() -> Vec<String> {
    let driver = read("/sys/module/nvidia/version").unwrap_or_default();
    let mut found: Vec<String> = fs::read_dir("/proc/driver/nvidia/gpus")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| field(&entry.path().join("information").to_string_lossy(), "Model"))
        .map(|model| format!("{model} (driver {driver})"))
        .collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    #[test]
    fn says_the_same_twice() {
        let machine = super::machine();
        assert_eq!(machine, super::machine());
        assert!(machine.cores >= 1 && machine.memory_bytes > 0);
        assert!(machine.fingerprint.contains(&machine.kernel));
    }
}
