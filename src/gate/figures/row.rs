//! The rows of a comparison: what each figure is, its unit, and whether it depends on the answers' length.

use verdict::record::{Direction, Unit};

/// One row, in the order of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Row {
    /// Process spawn to the port's first accepted connection.
    PortOpen,
    /// Process spawn to the first generated token.
    Ready,
    /// Send to answer of the readiness probe, the engine's first generation.
    FirstGeneration,
    /// TTFT of the first real request after the start.
    FirstTtft,
    /// E2E of the first real request after the start.
    FirstE2e,
    /// Process spawn to the first token of the first real request.
    ColdToken,
    /// Process spawn to the end of the first real request's answer.
    ColdResponse,
    TtftMedian,
    TtftP99,
    TpotMedian,
    ItlP99,
    E2eMedian,
    Throughput,
}

/// The two halves of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The start, and the first request after it.
    Cold,
    /// Steady state.
    Warm,
}

impl Row {
    pub const ALL: [Self; 13] = [
        Self::PortOpen,
        Self::Ready,
        Self::FirstGeneration,
        Self::FirstTtft,
        Self::FirstE2e,
        Self::ColdToken,
        Self::ColdResponse,
        Self::TtftMedian,
        Self::TtftP99,
        Self::TpotMedian,
        Self::ItlP99,
        Self::E2eMedian,
        Self::Throughput,
    ];

    /// The name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::PortOpen => "port_open_ms",
            Self::Ready => "ready_ms",
            Self::FirstGeneration => "first_generation_ms",
            Self::FirstTtft => "first_request_ttft_ms",
            Self::FirstE2e => "first_request_e2e_ms",
            Self::ColdToken => "cold_total_first_token_ms",
            Self::ColdResponse => "cold_total_first_response_ms",
            Self::TtftMedian => "ttft_ms_p50",
            Self::TtftP99 => "ttft_ms_p99",
            Self::TpotMedian => "tpot_ms_p50",
            Self::ItlP99 => "itl_ms_p99",
            Self::E2eMedian => "e2e_ms_p50",
            Self::Throughput => "throughput",
        }
    }

    /// The name for people.
    pub fn title(self) -> &'static str {
        match self {
            Self::PortOpen => "start to port open",
            Self::Ready => "start to ready",
            Self::FirstGeneration => "first generation (probe)",
            Self::FirstTtft => "first request: TTFT",
            Self::FirstE2e => "first request: whole",
            Self::ColdToken => "start to first token",
            Self::ColdResponse => "start to first response",
            Self::TtftMedian => "TTFT median",
            Self::TtftP99 => "TTFT p99",
            Self::TpotMedian => "TPOT median",
            Self::ItlP99 => "ITL p99",
            Self::E2eMedian => "E2E median",
            Self::Throughput => "throughput",
        }
    }

    pub fn part(self) -> Part {
        if self <= Self::ColdResponse {
            Part::Cold
        } else {
            Part::Warm
        }
    }

    pub fn unit(self) -> Unit {
        match self {
            Self::TpotMedian => Unit::MillisecondsPerToken,
            Self::Throughput => Unit::TokensPerSecond,
            _ => Unit::Milliseconds,
        }
    }

    pub fn direction(self) -> Direction {
        match self {
            Self::Throughput => Direction::HigherIsBetter,
            _ => Direction::LowerIsBetter,
        }
    }

    /// Whether answers of another length give another number: not only whole times, but also times per
    /// token, since attention grows with the context.
    pub fn follows_length(self) -> bool {
        match self {
            Self::FirstE2e
            | Self::ColdResponse
            | Self::TpotMedian
            | Self::ItlP99
            | Self::E2eMedian
            | Self::Throughput => true,
            Self::PortOpen
            | Self::Ready
            | Self::FirstGeneration
            | Self::FirstTtft
            | Self::ColdToken
            | Self::TtftMedian
            | Self::TtftP99 => false,
        }
    }
}
