//! CPU time that the machine's host took away (steal time).
//!
//! Main type: [`HostTime`]. Refuses to know: whose work it hindered.

use std::fs;

/// Time of all processors since boot, in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostTime {
    steal: u64,
    all: u64,
}

impl HostTime {
    /// Until now; `None` where the system does not say.
    pub fn now() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/stat").ok()?)
    }

    /// The first line: user, nice, system, idle, iowait, irq, softirq, steal; guests are within user.
    fn parse(stat: &str) -> Option<Self> {
        let line = stat.lines().next()?.strip_prefix("cpu ")?;
        let ticks: Vec<u64> = line
            .split_whitespace()
            .take(8)
            .map(|word| word.parse().ok())
            .collect::<Option<_>>()?;
        Some(Self {
            steal: *ticks.get(7)?,
            all: ticks.iter().sum(),
        })
    }

    /// The share that was taken from `before` until now; `None` where no tick has passed.
    pub fn share_since(self, before: Self) -> Option<f64> {
        let all = self.all.checked_sub(before.all).filter(|all| *all > 0)?;
        Some(self.steal.saturating_sub(before.steal) as f64 / all as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::HostTime;

    #[test]
    fn the_first_line_is_all_cores() {
        let read = HostTime::parse("cpu  100 20 30 5000 60 7 8 9 4 0\ncpu0 1 1 1 1\n");
        let (steal, all) = (9, 5234);
        assert_eq!(read, Some(HostTime { steal, all }));
        assert_eq!(HostTime::parse("cpu0 1 2 3 4 5 6 7 8"), None);
        assert_eq!(HostTime::parse("cpu  1 2 3 4 5 6 7"), None);
    }

    #[test]
    fn a_share_is_of_the_time_between() {
        let at = |steal, all| HostTime { steal, all };
        assert_eq!(at(9, 140).share_since(at(4, 100)), Some(0.125));
        assert_eq!(at(9, 100).share_since(at(9, 100)), None);
        assert_eq!(at(9, 90).share_since(at(9, 100)), None);
    }
}
