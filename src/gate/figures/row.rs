//! The rows of a comparison: what each figure is, its unit, and whether it depends on the answers' length.

use verdict::record::{Direction, Unit};

/// Declares the rows in the order of the table: each with its name in JSON, its name for people, and its unit.
macro_rules! rows {
    ($($(#[$doc:meta])* $row:ident = $name:literal, $title:literal, $unit:ident;)*) => {
        /// One row, in the order of the table.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Row {
            $($(#[$doc])* $row,)*
        }

        impl Row {
            pub const ALL: [Row; [$(Row::$row,)*].len()] = [$(Row::$row,)*];

            /// The name in JSON.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$row => $name,)*
                }
            }

            /// The name for people.
            pub fn title(self) -> &'static str {
                match self {
                    $(Self::$row => $title,)*
                }
            }

            pub fn unit(self) -> Unit {
                match self {
                    $(Self::$row => Unit::$unit,)*
                }
            }
        }
    };
}

rows! {
    /// Process spawn to the port's first accepted connection.
    PortOpen = "port_open_ms", "start to port open", Milliseconds;
    /// Process spawn to the first generated token.
    Ready = "ready_ms", "start to ready", Milliseconds;
    /// Send to answer of the readiness probe, the engine's first generation.
    FirstGeneration = "first_generation_ms", "first generation (probe)", Milliseconds;
    /// TTFT of the first real request after the start.
    FirstTtft = "first_request_ttft_ms", "first request: TTFT", Milliseconds;
    /// E2E of the first real request after the start.
    FirstE2e = "first_request_e2e_ms", "first request: whole", Milliseconds;
    /// Process spawn to the first token of the first real request.
    ColdToken = "cold_total_first_token_ms", "start to first token", Milliseconds;
    /// Process spawn to the end of the first real request's answer.
    ColdResponse = "cold_total_first_response_ms", "start to first response", Milliseconds;
    TtftMedian = "ttft_ms_p50", "TTFT median", Milliseconds;
    TtftP99 = "ttft_ms_p99", "TTFT p99", Milliseconds;
    TpotMedian = "tpot_ms_p50", "TPOT median", MillisecondsPerToken;
    ItlP99 = "itl_ms_p99", "ITL p99", Milliseconds;
    E2eMedian = "e2e_ms_p50", "E2E median", Milliseconds;
    Throughput = "throughput", "throughput", TokensPerSecond;
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
    pub fn part(self) -> Part {
        if self <= Self::ColdResponse {
            Part::Cold
        } else {
            Part::Warm
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
