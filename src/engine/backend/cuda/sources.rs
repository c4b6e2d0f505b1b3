//! The kernels' sources, embedded in the binary, and the words for what they are compiled for.
//!
//! Main types: [`Source`], [`Element`], [`Arch`]. Refuses to know: the compiler, what a kernel computes.

use std::fmt;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::weights::Dtype;

/// How the numbers of weights, of keys and values, and of a product's operands are stored. A source is
/// compiled once for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Element {
    Bf16,
    F16,
    F32,
}

impl Element {
    pub const ALL: [Self; 3] = [Self::Bf16, Self::F16, Self::F32];

    pub fn name(self) -> &'static str {
        match self {
            Self::Bf16 => "bf16",
            Self::F16 => "f16",
            Self::F32 => "f32",
        }
    }

    /// Of a number.
    pub fn bytes(self) -> usize {
        Dtype::from(self).bytes()
    }

    /// What stands for it in `-DELEMENT=…`.
    pub(super) fn number(self) -> u32 {
        match self {
            Self::Bf16 => 0,
            Self::F16 => 1,
            Self::F32 => 2,
        }
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl From<Element> for Dtype {
    fn from(element: Element) -> Self {
        match element {
            Element::Bf16 => Self::Bf16,
            Element::F16 => Self::F16,
            Element::F32 => Self::F32,
        }
    }
}

impl From<Dtype> for Element {
    fn from(dtype: Dtype) -> Self {
        match dtype {
            Dtype::Bf16 => Self::Bf16,
            Dtype::F16 => Self::F16,
            Dtype::F32 => Self::F32,
        }
    }
}

/// The architecture of a GPU: `sm_90` is compute capability 9.0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Arch {
    pub major: u32,
    pub minor: u32,
}

/// Tensor cores that multiply bf16, and asynchronous copies, begin here.
pub(super) const OLDEST: Arch = Arch { major: 8, minor: 0 };

/// From here on a kernel may begin before the one ahead of it has ended.
const DEPENDENT_LAUNCH: Arch = Arch { major: 9, minor: 0 };

impl Arch {
    /// As compilers count: 90 is sm_90, 121 is sm_121.
    pub(super) fn of_number(number: u32) -> Self {
        Self {
            major: number / 10,
            minor: number % 10,
        }
    }

    pub(super) fn has_dependent_launch(self) -> bool {
        self >= DEPENDENT_LAUNCH
    }

    /// The one of `known` whose machine code runs here and is nearest: same major, minor not beyond.
    pub(super) fn nearest(self, known: &[Self]) -> Option<Self> {
        let fits = |arch: &&Self| arch.major == self.major && arch.minor <= self.minor;
        known.iter().filter(fits).max().copied()
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sm_{}{}", self.major, self.minor)
    }
}

impl Serialize for Arch {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Arch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

impl FromStr for Arch {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refused = || format!("`{text}` is no architecture of a GPU; write it as sm_90");
        let digits = text.strip_prefix("sm_").ok_or_else(refused)?;
        let plain = digits.len() <= 3 && digits.bytes().all(|c| c.is_ascii_digit());
        let number: u32 = digits.parse().map_err(|_| refused())?;
        let arch = Self::of_number(number);
        match plain {
            false => Err(refused()),
            true if arch < OLDEST => Err(format!("the kernels need {OLDEST} or newer, not {arch}")),
            true => Ok(arch),
        }
    }
}

/// One file of kernels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source {
    /// Without folder and ending: `rms_norm`.
    pub(crate) name: &'static str,
    pub(crate) text: &'static str,
    pub(crate) elements: &'static [Element],
}

/// Tensor cores as they are used take 16-bit operands.
const HALVES: &[Element] = &[Element::Bf16, Element::F16];

macro_rules! kernel {
    ($name:literal, $elements:expr) => {
        Source {
            name: $name,
            text: include_str!(concat!("../../../../kernels/", $name, ".cu")),
            elements: $elements,
        }
    };
}

macro_rules! header {
    ($name:literal) => {
        ($name, include_str!(concat!("../../../../kernels/", $name)))
    };
}

/// What sources include, by the name in `#include`.
pub(super) const HEADERS: &[(&str, &str)] = &[
    header!("attention.cuh"),
    header!("attention_block.cuh"),
    header!("attention_join.cuh"),
    header!("common.cuh"),
    header!("delta.cuh"),
    header!("ptx.cuh"),
    header!("rope.cuh"),
];

pub(super) const SOURCES: &[Source] = &[
    kernel!("attention_decode", &Element::ALL),
    kernel!("attention_prefill", HALVES),
    kernel!("attention_rows", &Element::ALL),
    kernel!("convert", &Element::ALL),
    kernel!("delta_chunks", HALVES),
    kernel!("delta_rule", &Element::ALL),
    kernel!("embedding", &Element::ALL),
    kernel!("gate", &Element::ALL),
    kernel!("gemv", &Element::ALL),
    kernel!("page_copy", &Element::ALL),
    kernel!("qkv_epilogue", &Element::ALL),
    kernel!("random", &Element::ALL),
    kernel!("rank", &Element::ALL),
    kernel!("rms_norm", &Element::ALL),
    kernel!("swiglu", &Element::ALL),
];

/// The sources that are compiled for `element`.
pub(crate) fn of(element: Element) -> impl Iterator<Item = &'static Source> {
    let takes = move |source: &&Source| source.elements.contains(&element);
    SOURCES.iter().filter(takes)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn an_architecture_is_read_as_it_is_written() {
        for text in ["sm_80", "sm_89", "sm_90", "sm_100", "sm_121"] {
            assert_eq!(text.parse::<Arch>().unwrap().to_string(), text);
        }
        for text in [
            "90",
            "sm_",
            "sm_9x",
            "sm_+90",
            "sm_75",
            "sm_1000",
            "compute_90",
        ] {
            let refused = text.parse::<Arch>().unwrap_err();
            assert!(refused.contains("sm_"), "{refused}");
        }
    }

    #[test]
    fn machine_code_runs_on_later_minors_of_its_major_only() {
        let known: Vec<Arch> = [80, 86, 90, 100].map(Arch::of_number).into();
        let nearest = |number| Arch::of_number(number).nearest(&known);
        assert_eq!(nearest(89), Some(Arch::of_number(86)));
        assert_eq!(nearest(103), Some(Arch::of_number(100)));
        assert_eq!(nearest(120), None);
        assert_eq!(nearest(75), None);
    }

    /// A file that is not listed would never be compiled.
    #[test]
    fn every_file_of_kernels_is_embedded() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../kernels");
        let mut there: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.ends_with(".cu") || name.ends_with(".cuh"))
            .collect();
        there.sort();
        let sources = SOURCES.iter().map(|source| format!("{}.cu", source.name));
        let headers = HEADERS.iter().map(|(name, _)| (*name).to_owned());
        let mut embedded: Vec<String> = sources.chain(headers).collect();
        embedded.sort();
        assert_eq!(there, embedded);
    }
}
