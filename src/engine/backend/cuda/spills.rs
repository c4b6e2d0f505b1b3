//! Kernels that may spill registers, with reasons: `kernels/allowed_spills.json`.
//!
//! Main type: [`AllowedSpill`]. A spill is not wrong, but it costs a kernel that is bound by memory, and
//! comes by itself with a new compiler: so each needs a reason in a file. Refuses to know: the compiler.

use serde::Deserialize;

use super::compile::Module;
use super::sources::{Arch, Element};
use super::usage::KernelUsage;

/// An entry of the list. What is left out holds for all.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AllowedSpill {
    pub kernel: String,
    pub element: Option<Element>,
    pub arch: Option<Arch>,
    /// Stores and loads of a thread, whichever are more.
    pub bytes: u32,
    pub reason: String,
}

/// The list beside the kernels.
pub fn allowed_spills() -> Result<Vec<AllowedSpill>, serde_json::Error> {
    serde_json::from_str(include_str!("../../../../kernels/allowed_spills.json"))
}

impl AllowedSpill {
    /// Whether it allows what this kernel spills.
    pub fn allows(&self, module: &Module, usage: &KernelUsage) -> bool {
        self.kernel == usage.kernel
            && self.element.is_none_or(|element| element == module.element)
            && self.arch.is_none_or(|arch| arch == module.arch)
            && usage.spill_store_bytes.max(usage.spill_load_bytes) <= self.bytes
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use crate::backend::cuda::compile::Origin;

    #[test]
    fn an_entry_allows_as_much_as_it_says_and_where() {
        let text =
            r#"{"kernel": "gemv_8", "arch": "sm_80", "bytes": 16, "reason": "rows in registers"}"#;
        let entry: AllowedSpill = serde_json::from_str(text).unwrap();
        let usage = |stores, loads| KernelUsage {
            kernel: "gemv_8".to_owned(),
            spill_store_bytes: stores,
            spill_load_bytes: loads,
            ..KernelUsage::default()
        };
        let module = |number| Module {
            file: "gemv",
            element: Element::F16,
            arch: Arch::of_number(number),
            cubin: Vec::new(),
            usage: Vec::new(),
            origin: Origin::Cache,
        };
        assert!(entry.allows(&module(80), &usage(8, 16)));
        assert!(!entry.allows(&module(80), &usage(8, 17)));
        assert!(!entry.allows(&module(90), &usage(8, 16)));
        let other = KernelUsage {
            kernel: "gemv_4".to_owned(),
            ..usage(8, 16)
        };
        assert!(!entry.allows(&module(80), &other));
    }

    #[test]
    fn every_entry_of_the_list_gives_a_reason() {
        for entry in allowed_spills().unwrap() {
            assert!(entry.reason.split_whitespace().count() > 3, "{entry:?}");
            assert!(entry.bytes > 0, "{entry:?}");
        }
    }
}
