//! The catalogue of faults: what is planted where, and what must see it.

use verdict::record::{Metric, Verdict};

/// One fault, for the embedded engine and, where a proxy can plant it, for any other.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// Its name on the command line.
    pub name: &'static str,
    /// What goes wrong, and by how much, on the embedded engine.
    pub what: &'static str,
    pub plant: Plant,
    /// Gates of its session; empty: all of the own ones.
    pub gates: &'static [&'static str],
    /// Checks of the own gates that must be red; one a gate that should catch it.
    pub caught_by: &'static [&'static str],
    /// How they must be red.
    pub verdict: Verdict,
    /// Checks that read the same fault and may be red too.
    pub also: &'static [&'static str],
    /// For any engine; `None` where no proxy can plant it.
    pub abroad: Option<Abroad>,
}

/// Where a fault is planted in the embedded engine's sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plant {
    /// Nowhere: two clean arms, that nothing may be red in. With or without a proxy before both.
    Nothing(Side),
    /// `gate serve --fault`.
    Engine(&'static str),
    /// `gate dev proxy --fault`, before head; a clean proxy stands before base.
    Proxy(&'static [&'static str]),
    /// The GPU that a stand-in of NVIDIA's exporter tells of throttles while head runs.
    Throttle,
}

/// What both arms of a clean session are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Engine,
    Proxy,
}

/// A fault before an engine that is not ours.
#[derive(Clone, Copy, Debug)]
pub struct Abroad {
    pub what: &'static str,
    pub spec: Spec,
    /// Metrics of which one can see it; empty: every check can, by the rules on answers.
    pub metrics: &'static [Metric],
    /// What would see it, where no check does.
    pub advice: &'static str,
}

/// What the proxy is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spec {
    Fixed(&'static str),
    /// The fault of this name on each of the project's KV gauges.
    KvGauges(&'static str),
}

/// Metrics of decoding's speed.
const DECODING: &[Metric] = &[
    Metric::Tpot,
    Metric::TpotBase,
    Metric::TpotSlope,
    Metric::Icl,
    Metric::Itl,
    Metric::E2e,
    Metric::DecodeRate,
    Metric::Throughput,
    Metric::ThroughputFull,
];

const KV: &[Metric] = &[Metric::KvBytes, Metric::KvUsage, Metric::KvGrowth];

/// In the order in which they are planted.
pub const FAULTS: [Fault; 14] = [
    Fault {
        name: "none",
        what: "nothing: two clean engines",
        plant: Plant::Nothing(Side::Engine),
        gates: &[],
        caught_by: &[],
        verdict: Verdict::Pass,
        also: &[],
        abroad: None,
    },
    Fault {
        name: "none-proxied",
        what: "nothing: two clean proxies",
        plant: Plant::Nothing(Side::Proxy),
        gates: &[],
        caught_by: &[],
        verdict: Verdict::Pass,
        also: &[],
        abroad: None,
    },
    Fault {
        name: "decode-slow",
        what: "decoding 10 % slower",
        plant: Plant::Engine("decode-delay=10%"),
        gates: &[],
        caught_by: &["decode/tpot"],
        verdict: Verdict::Fail,
        also: &[],
        abroad: Some(Abroad {
            what: "decoding 10 % slower",
            spec: Spec::Fixed("decode-delay=10%"),
            metrics: DECODING,
            advice: "gates/tpot.toml",
        }),
    },
    Fault {
        name: "prefill-slow",
        what: "prefill 15 % slower",
        plant: Plant::Engine("prefill-delay=15%"),
        gates: &[],
        caught_by: &["prefill/ttft"],
        verdict: Verdict::Fail,
        also: &[],
        abroad: Some(Abroad {
            what: "first token 15 % later",
            spec: Spec::Fixed("prefill-delay=15%"),
            metrics: &[
                Metric::Ttft,
                Metric::PrefillRate,
                Metric::WallTtft,
                Metric::FirstResponse,
            ],
            advice: "gates/warm-latency.toml",
        }),
    },
    Fault {
        name: "kv-leak",
        what: "a KV page lost a request",
        plant: Plant::Engine("kv-leak=1"),
        gates: &[],
        caught_by: &["memory/growth"],
        verdict: Verdict::Fail,
        also: &["memory/bytes"],
        abroad: Some(Abroad {
            what: "KV gauge +2 % a request",
            spec: Spec::KvGauges("rising-gauge"),
            metrics: KV,
            advice: "gates/kv-bounded.toml",
        }),
    },
    Fault {
        name: "history",
        what: "history prefilled again",
        plant: Plant::Engine("prefill-leak"),
        gates: &[],
        caught_by: &["session/history"],
        verdict: Verdict::Fail,
        also: &[],
        abroad: None,
    },
    Fault {
        name: "wrong-token",
        what: "every 50th token wrong",
        plant: Plant::Engine("wrong-token=50"),
        gates: &[],
        caught_by: &["answers/tokens"],
        verdict: Verdict::Fail,
        also: &[],
        abroad: Some(Abroad {
            what: "every 50th token wrong",
            spec: Spec::Fixed("wrong-token=50"),
            metrics: &[
                Metric::GoldenMismatches,
                Metric::LogprobError,
                Metric::LogprobRegret,
                Metric::Accuracy,
                Metric::StreamMismatches,
            ],
            advice: "gates/e2e.toml",
        }),
    },
    Fault {
        name: "empty-output",
        what: "no output beside 2 others",
        plant: Plant::Engine("empty-beside=2"),
        gates: &[],
        caught_by: &["cells/answered"],
        verdict: Verdict::Fail,
        also: &[],
        abroad: Some(Abroad {
            what: "no output beside 1 other",
            spec: Spec::Fixed("empty-beside=1"),
            metrics: &[],
            advice: "gates/matrix.toml",
        }),
    },
    Fault {
        name: "usage",
        what: "usage says 3 tokens more",
        plant: Plant::Proxy(&["usage-add=3"]),
        gates: &[],
        caught_by: &["decode/tpot"],
        verdict: Verdict::Fail,
        also: &[
            "answers/tokens",
            "decode/mean",
            "decode/chunks",
            "prefill/ttft",
            "start/ready",
            "memory/growth",
            "memory/bytes",
            "session/history",
            "cells/answered",
        ],
        abroad: Some(Abroad {
            what: "usage says 3 tokens more",
            spec: Spec::Fixed("usage-add=3"),
            metrics: &[],
            advice: "return_token_ids in gates/gate.toml",
        }),
    },
    Fault {
        name: "chunks",
        what: "4 tokens in one event",
        plant: Plant::Proxy(&["merge=4"]),
        gates: &[],
        caught_by: &["decode/chunks"],
        verdict: Verdict::Fail,
        also: &[],
        abroad: Some(Abroad {
            what: "4 tokens in one event",
            spec: Spec::Fixed("merge=4"),
            metrics: &[Metric::BurstFactor, Metric::Ttft, Metric::Icl],
            advice: "a ceiling on burst_factor",
        }),
    },
    Fault {
        name: "boot-slow",
        what: "start 300 ms later",
        plant: Plant::Engine("slow-start=300ms"),
        gates: &[],
        caught_by: &["start/ready"],
        verdict: Verdict::Fail,
        also: &[],
        abroad: Some(Abroad {
            what: "port opens 50 % later",
            spec: Spec::Fixed("slow-start=50%"),
            metrics: &[
                Metric::Ready,
                Metric::PortOpen,
                Metric::FirstToken,
                Metric::FirstResponse,
            ],
            advice: "gates/warm-start.toml",
        }),
    },
    Fault {
        name: "stalls",
        what: "every 8th stream stops 250 ms",
        plant: Plant::Proxy(&["stall=8:250ms"]),
        gates: &[],
        caught_by: &["decode/mean"],
        verdict: Verdict::Fail,
        also: &[],
        abroad: Some(Abroad {
            what: "every 8th stream stops 1 s",
            spec: Spec::Fixed("stall=8:1s"),
            metrics: &[
                Metric::E2e,
                Metric::Icl,
                Metric::Itl,
                Metric::Goodput,
                Metric::Throughput,
                Metric::TransportOverhead,
            ],
            advice: "gates/warm-latency.toml",
        }),
    },
    Fault {
        name: "throttle",
        what: "a hot GPU while head runs",
        plant: Plant::Throttle,
        gates: &["answers", "prefill", "start"],
        caught_by: &["prefill/ttft", "start/ready"],
        verdict: Verdict::Invalid,
        also: &[],
        abroad: None,
    },
    Fault {
        name: "kv-zero",
        what: "KV gauges always 0",
        plant: Plant::Proxy(&[
            "zero-gauge=infergate_kv_bytes_used",
            "zero-gauge=vllm:kv_cache_usage_perc",
        ]),
        gates: &["answers", "cells", "memory", "session"],
        caught_by: &["memory/growth", "memory/bytes"],
        verdict: Verdict::Invalid,
        also: &[],
        abroad: Some(Abroad {
            what: "KV gauges always 0",
            spec: Spec::KvGauges("zero-gauge"),
            metrics: KV,
            advice: "gates/kv-bounded.toml",
        }),
    },
];

#[cfg(test)]
mod tests {
    use super::super::own::GATES;
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_check_and_gate_that_is_named_exists() {
        let text = |gate: &str| {
            let found = GATES
                .iter()
                .find(|(name, _)| *name == format!("{gate}.toml"));
            found.unwrap_or_else(|| panic!("no gate {gate}")).1
        };
        for fault in &FAULTS {
            for gate in fault.gates {
                text(gate);
            }
            for id in fault.caught_by.iter().chain(fault.also) {
                let (gate, check) = id.split_once('/').unwrap();
                let runs = fault.gates.is_empty() || fault.gates.contains(&gate);
                assert!(runs, "{}: {gate} is no gate of its session", fault.name);
                let line = format!("name = \"{check}\"");
                assert!(text(gate).contains(&line), "{}: no check {id}", fault.name);
            }
        }
    }

    #[test]
    fn names_are_distinct_and_only_clean_sessions_catch_nothing() {
        let names: BTreeSet<&str> = FAULTS.iter().map(|fault| fault.name).collect();
        assert_eq!(names.len(), FAULTS.len());
        for fault in &FAULTS {
            let is_clean = matches!(fault.plant, Plant::Nothing(_));
            assert_eq!(fault.caught_by.is_empty(), is_clean, "{}", fault.name);
        }
    }
}
