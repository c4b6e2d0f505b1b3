//! Registers and memory of a compiled kernel, from the compiler's log.
//!
//! Main type: [`KernelUsage`]. Refuses to know: who compiles, what is allowed.

use serde::{Deserialize, Serialize};

/// Registers and memory of one kernel. A spill is a value that found no register and goes through the
/// thread's local memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelUsage {
    pub kernel: String,
    /// By thread. A function that kernels call has none of its own.
    pub registers: u32,
    /// By block, without what a launch adds.
    pub shared_bytes: u32,
    /// By thread.
    pub stack_bytes: u32,
    pub spill_store_bytes: u32,
    pub spill_load_bytes: u32,
}

impl KernelUsage {
    pub fn spills(&self) -> bool {
        self.spill_store_bytes > 0 || self.spill_load_bytes > 0
    }
}

/// Reads what `--ptxas-options=-v` says, by name. Functions that are called and not inlined have rows too:
/// they can spill like a kernel.
pub(super) fn read(log: &str) -> Vec<KernelUsage> {
    let mut rows: Vec<KernelUsage> = Vec::new();
    let mut entry = None;
    let mut function = None;
    for line in log.lines() {
        if let Some(name) = quoted(line, "Compiling entry function ") {
            entry = Some(row(&mut rows, name));
        } else if let Some((_, name)) = line.split_once("Function properties for ") {
            function = Some(row(&mut rows, name.trim()));
        } else if let (true, Some(at)) = (line.contains("bytes stack frame"), function) {
            rows[at].stack_bytes = before(line, " bytes stack frame");
            rows[at].spill_store_bytes = before(line, " bytes spill stores");
            rows[at].spill_load_bytes = before(line, " bytes spill loads");
        } else if let (true, Some(at)) = (line.contains(" registers"), entry) {
            rows[at].registers = before(line, " registers");
            rows[at].shared_bytes = before(line, " bytes smem");
        }
    }
    rows.sort_by(|a, b| a.kernel.cmp(&b.kernel));
    rows
}

fn row(rows: &mut Vec<KernelUsage>, kernel: &str) -> usize {
    let known = rows.iter().position(|row| row.kernel == kernel);
    known.unwrap_or_else(|| {
        rows.push(KernelUsage {
            kernel: kernel.to_owned(),
            ..KernelUsage::default()
        });
        rows.len() - 1
    })
}

/// The name in single quotes after `words`.
fn quoted<'a>(line: &'a str, words: &str) -> Option<&'a str> {
    let (_, rest) = line.split_once(words)?;
    rest.split('\'').nth(1)
}

/// The number that stands before `words`; 0 where the line does not have them.
fn before(line: &str, words: &str) -> u32 {
    let number = |end: usize| {
        let head = &line[..end];
        let start = head
            .rfind(|c: char| !c.is_ascii_digit())
            .map_or(0, |at| at + 1);
        head[start..].parse().ok()
    };
    line.find(words).and_then(number).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As NVRTC 12.9 wrote it for two kernels, one of which was given more values than registers.
    const LOG: &str = "\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'spilly' for 'sm_90'
ptxas info    : Function properties for spilly
ptxas         .     2584 bytes stack frame, 3468 bytes spill stores, 3508 bytes spill loads
ptxas info    : Used 64 registers, used 1 barriers, 2584 bytes cumulative stack size
ptxas info    : Compile time = 230.380 ms
ptxas info    : Compiling entry function 'scale' for 'sm_90'
ptxas info    : Function properties for scale
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 10 registers, used 1 barriers, 512 bytes smem
ptxas info    : Compile time = 2.480 ms
";

    #[test]
    fn the_log_is_read_kernel_by_kernel() {
        let scale = KernelUsage {
            kernel: "scale".to_owned(),
            registers: 10,
            shared_bytes: 512,
            ..KernelUsage::default()
        };
        let spilly = KernelUsage {
            kernel: "spilly".to_owned(),
            registers: 64,
            shared_bytes: 0,
            stack_bytes: 2584,
            spill_store_bytes: 3468,
            spill_load_bytes: 3508,
        };
        assert!(spilly.spills() && !scale.spills());
        assert_eq!(read(LOG), [scale, spilly]);
    }
}
