//! CPU time of the whole machine and of the gate itself.

use super::process::TICKS_PER_S;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use std::fs;

/// CPU time since boot, all cores together, seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cpu {
    pub busy_s: f64,
    /// What the host took away.
    pub steal_s: f64,
}

pub fn cpu() -> Option<Cpu> {
    parse(&fs::read_to_string("/proc/stat").ok()?)
}

/// The first line: user, nice, system, idle, iowait, irq, softirq, steal; guests are within user.
fn parse(stat: &str) -> Option<Cpu> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<f64> = line
        .split_whitespace()
        .map(|word| word.parse().ok())
        .collect::<Option<_>>()?;
    let [user, nice, system, _idle, _iowait, irq, softirq, steal, ..] = ticks[..] else {
        return None;
    };
    Some(Cpu {
        busy_s: (user + nice + system + irq + softirq) / *TICKS_PER_S,
        steal_s: steal / *TICKS_PER_S,
    })
}

/// CPU time of this process, its threads together, seconds.
pub fn gate_cpu_s() -> Option<f64> {
    let usage = getrusage(UsageWho::RUSAGE_SELF).ok()?;
    let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Some(micros as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_is_all_cores() {
        let hz = *TICKS_PER_S;
        let cpu = parse("cpu  100 20 30 5000 60 7 8 9 4 0\ncpu0 1 1 1 1\n").unwrap();
        assert_eq!((cpu.busy_s * hz).round() as u64, 165);
        assert_eq!((cpu.steal_s * hz).round() as u64, 9);
        assert_eq!(parse("cpu0 1 2 3 4 5 6 7 8"), None);
        assert_eq!(parse("cpu  1 2 3"), None);
    }

    #[test]
    fn our_own_time_only_grows() {
        let before = gate_cpu_s().unwrap();
        let spin = (0..2_000_000_u64).fold(0, |sum, i| std::hint::black_box(sum ^ i));
        assert!(gate_cpu_s().unwrap() >= before, "{spin}");
    }
}
