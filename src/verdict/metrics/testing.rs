//! Small launches and samples for this folder's tests.

use crate::plan::{Arrivals, Check, Part, Rule, Session, Steady, Workload, WorkloadKind};
use crate::record::{
    Arm, Exit, Interleave, Launch, Metric, Phase, Sample, Stamps, Startup, Statistic, TokenCounts,
};

pub fn check(metric: Metric, statistic: Statistic) -> Check {
    Check {
        id: "gate/check".into(),
        workload: "gate/workload".into(),
        part: Part::default(),
        metric,
        statistic,
        rule: Rule::Ceiling { limit: 1.0 },
        min_samples: 1,
        line: 1,
    }
}

fn workload(id: &str, kind: WorkloadKind) -> Workload {
    Workload {
        id: id.into(),
        launches: None,
        kind,
    }
}

pub fn steady(id: &str) -> Workload {
    workload(
        id,
        WorkloadKind::Steady(Steady {
            requests: 5,
            warmup: 0,
            prompt_tokens: 8,
            output_tokens: 5,
            arrivals: Arrivals::Closed { concurrency: 1 },
        }),
    )
}

pub fn session(id: &str) -> Workload {
    workload(
        id,
        WorkloadKind::Session(Session {
            turns: 6,
            warmup_turns: 0,
            message_words: 4,
            reply_tokens: 4,
            spacing: None,
            duration: None,
        }),
    )
}

pub fn launch(position: u32, samples: Vec<Sample>) -> Launch {
    Launch {
        position,
        block: 0,
        arm: Arm::Head,
        engine_args: vec![],
        page_cache: None,
        interleave: Interleave::Launches,
        fingerprint: "machine".into(),
        startup: Startup::default(),
        exit: Exit::Stopped,
        throttle_bits: None,
        log: String::new(),
        samples,
        clients: vec![],
        telemetry: None,
        rest: None,
        beside: None,
        killed: false,
        suites: Vec::new(),
    }
}

/// A streamed answer sent at 0 with one token an event, `tpot_ms` apart.
pub fn streamed(workload: &str, index: u32, ttft_ms: f64, tpot_ms: f64, tokens: u32) -> Sample {
    let at = |k: u32| ((ttft_ms + tpot_ms * f64::from(k)) * 1e6).round() as u64;
    Sample {
        workload: workload.into(),
        index,
        phase: Phase::Measured,
        case: None,
        turn: None,
        streamed: true,
        setting: None,
        stamps: Stamps {
            events_ns: (0..tokens).map(at).collect(),
            ..Stamps::default()
        },
        tokens: TokenCounts {
            completion: Some(tokens),
            events: tokens,
            ..TokenCounts::default()
        },
        finish_reason: Some("length".into()),
        status: None,
        fields: Default::default(),
        timings: None,
        text: None,
        text_sha256: String::new(),
        logprobs: vec![],
        void: None,
    }
}
