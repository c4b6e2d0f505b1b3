//! Remarks beside a check, as facts. `report/reasons` puts them into words.

use super::Arm;

/// A remark beside a check. It does not change the verdict.
#[derive(Clone, Debug, PartialEq)]
pub enum Remark {
    /// Both arms are one build.
    SameBuild,
    /// Better than the margin explains; `is_exact`: by no test.
    Better {
        is_exact: bool,
    },
    /// The check passed at an earlier look; all launches together, of base and head, say otherwise.
    Later {
        change: f64,
        interval: (f64, f64),
        launches: (u32, u32),
    },
    /// Launches of an arm give different cases as right: from this share to that.
    LaunchesDiffer {
        arm: Arm,
        least: Option<f64>,
        greatest: Option<f64>,
    },
    /// The metric's remarks on head's worst launch (its position); `hidden` more are left out.
    Worst {
        launch: u32,
        launches: usize,
        remarks: Vec<String>,
        hidden: usize,
    },
    /// Answers that ended before the requested length, after `tokens` tokens on average.
    EndedEarly {
        arm: Arm,
        ended: u64,
        all: u64,
        tokens: f64,
    },
    /// Requests that both arms answered with nothing, of all: no check reads them.
    Empty {
        empty: usize,
        all: usize,
    },
    Blank {
        arm: Arm,
        blank: u64,
        all: u64,
    },
    /// TPOT estimates the tokens of the arm's first events.
    FirstEvents(Arm, FirstEvents),
    /// Answers of head that are one token over and over.
    Repeated {
        repeated: u64,
        all: u64,
    },
    /// Head's answers end later than base's by more than the ceiling, although their tokens come as fast. Medians of
    /// base and head, ms.
    EndsLater {
        ttft_ms: (f64, f64),
        e2e_ms: (f64, f64),
    },
    /// Base is so far from main's stored sessions, as a fraction, with its interval.
    MachineMoved {
        change: f64,
        interval: (f64, f64),
        sessions: usize,
    },
    /// Requests of head that were sent again, since the engine had closed the connection that it kept.
    Resent {
        requests: u64,
    },
    /// A remark of `metrics` on a suite's tests.
    Said(String),
    /// What disturbed launches whose comparison stayed open, or was no steady state: the largest share of the processors'
    /// time that the host took, processors' worth of other processes' work, and in which launch (its position).
    Noise {
        stolen: Option<(f64, u32)>,
        others: Option<(f64, u32)>,
    },
    /// Launches of a comparison that was not passed fall into two modes.
    Modes(TwoModes),
    /// Processors' worth of other processes' work beside a launch of head, and its position.
    OthersCpu {
        cores: f64,
        launch: u32,
    },
}

/// Launches of both arms that fall into two modes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TwoModes {
    /// The metric's values there, the lower first.
    pub values: (f64, f64),
    /// Launches of base in the upper mode, and in all; and of head.
    pub base: (usize, usize),
    pub head: (usize, usize),
    /// p of Fisher's exact test that both arms are in the upper mode equally often.
    pub share_p: f64,
    /// Head's change within the modes, with its 95 % interval.
    pub within: Option<(f64, (f64, f64))>,
    /// The machine has the modes: they change while launches are measured, base's too.
    pub by_machine: bool,
}

/// Streams that do not tell how many tokens their first event has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FirstEvents {
    /// Tokens an event, in the middle.
    pub an_event: f64,
    /// Tokens that TPOT takes for the first event.
    pub first: f64,
}
