//! Reasons of verdicts: rules and facts. `report/reasons` puts them into words.
//!
//! Numbers that a [`CheckVerdict`](super::CheckVerdict) holds already (values, change, interval, p-values, launches)
//! are not repeated here.

use super::{Arm, Exit, PageCache, RuleId, VoidRule};
use std::collections::BTreeMap;

/// Why a check has its verdict.
#[derive(Clone, Debug, PartialEq)]
pub struct Reason {
    pub rule: RuleId,
    pub facts: Facts,
}

impl Reason {
    pub fn new(rule: RuleId, facts: Facts) -> Self {
        Self { rule, facts }
    }

    /// Remarks of a launch's metric that the reason quotes.
    pub fn quoted(&self) -> &[String] {
        match &self.facts {
            Facts::Limit { remarks, .. } | Facts::ShareLimit { remarks, .. } => remarks,
            Facts::Tested(Tested {
                hypothesis: Hypothesis::ShareLimit { remarks, .. },
                outcome: Verdict::Fail | Verdict::Inconclusive,
                ..
            }) => remarks,
            Facts::Open { before, .. } | Facts::WaiverExpired { before, .. } => before.quoted(),
            _ => &[],
        }
    }
}

/// Facts behind a reason.
#[derive(Clone, Debug, PartialEq)]
pub enum Facts {
    /// The rule says it all.
    None,
    /// A workload's id, or what `metrics` or `stats` says is wrong.
    Said(String),
    /// Position and fingerprint of the first launch, and of the first with another.
    Fingerprints {
        first: (u32, String),
        other: (u32, String),
    },
    /// Answers of head that part from base's at once, among those compared, and the first of them.
    OtherAnswers {
        other: usize,
        all: usize,
        first: String,
    },
    /// From a stream's last token to its end in each arm, and base's whole answer, in the middle.
    LateEnd {
        base_ms: f64,
        head_ms: f64,
        whole_ms: f64,
    },
    /// The slowest warm-up request of each arm, in the middle of its launches.
    SlowWarmUp {
        base_ms: f64,
        head_ms: f64,
    },
    /// Mean distance of log-probabilities: head's from base's, and base's own from one another.
    MovedLogprobs {
        base_nats: f64,
        head_nats: f64,
    },
    /// Files of the working tree, and not of the arm, that each of its launches read.
    TreeFiles {
        arm: Arm,
        files: Vec<String>,
    },
    /// Turns of a launch's conversation, in the middle.
    FewerTurns {
        base: f64,
        head: f64,
    },
    /// Requests of each arm that were sent again on another connection.
    Resent {
        base: u64,
        head: u64,
    },
    /// Time between outputs of a stream that a client waits for, ms.
    Bursts {
        base_ms: f64,
        head_ms: f64,
    },
    /// Share of the requests soon after an answer for which a connection was opened, in each arm.
    UnkeptConnections {
        base: f64,
        head: f64,
    },
    /// The longest run of launches of one arm; `from` is a launch's position.
    InARow {
        arm: Arm,
        launches: usize,
        from: u32,
    },
    /// The first launch of each arm that did not end well.
    Exits {
        base: Option<Failed>,
        head: Option<Failed>,
    },
    /// Requests that the engine did not answer, in this arm; `None`: in both.
    Unanswered {
        arm: Option<Arm>,
        voids: Voids,
    },
    /// Requests that are void for another reason.
    /// `only_head`: base's requests of the workload were all sound.
    Untrusted {
        voids: Voids,
        only_head: bool,
    },
    /// Head's streams that end without `[DONE]`, which base's have.
    NoDone {
        streams: u64,
        all: u64,
    },
    /// One launch breaks the rule by itself.
    Launch {
        position: u32,
        arm: Arm,
        fact: LaunchFact,
    },
    /// Mean tokens of an answer.
    Tokens {
        base: f64,
        head: f64,
    },
    /// Tokens of a prompt, or of the mean one, as each engine counts the same texts.
    PromptTokens {
        base: f64,
        head: f64,
    },
    /// All values of an arm are 0, in `launches` launches; `None`: of all arms that are read.
    Zeros {
        arm: Option<Arm>,
        launches: usize,
    },
    /// Every request of both arms failed; of head's first launch, how.
    AllFailed {
        launches: usize,
        head: String,
    },
    /// Mean drift within launches, ln(last third / first third), in one arm; `None`: in both.
    Drift {
        arm: Option<Arm>,
        drift: f64,
    },
    /// Launches that throttled.
    ThrottledLaunches {
        base: usize,
        head: usize,
    },
    /// … with the change over all launches, those of dropped blocks too; `None`: it has none.
    PassesWithoutThrottled {
        base: usize,
        head: usize,
        change: Option<f64>,
        ceiling: f64,
    },
    ThrottledBlocks {
        dropped: usize,
        blocks: usize,
    },
    /// `anchored`: recorded in turn with an anchor.
    NoBase {
        anchored: bool,
    },
    /// Fewer stored sessions of main than a comparison needs.
    NoStoredBase(StoredSessions),
    /// Head beside this number of main's stored sessions.
    StoredBase {
        sessions: usize,
    },
    TooFew(TooFew),
    /// Every launch of an arm has the same value; `margin` is a fraction.
    Exact {
        margin: f64,
        is_beyond: bool,
    },
    /// Head's worst launch against a limit, by no test.
    Limit {
        limit: Limit,
        held: Held,
        remarks: Vec<String>,
    },
    /// The cases of a launch of head against a limit of 0 or 1.
    ShareLimit {
        limit: Limit,
        is_broken: bool,
        cases: Cases,
        remarks: Vec<String>,
    },
    Tested(Tested),
    /// The check stayed open, for `before`, and the run ended.
    Open {
        before: Box<Reason>,
        ended: Ended,
    },
    /// A waiver is over; without it the check had this verdict, for `before`.
    WaiverExpired {
        was: Verdict,
        before: Box<Reason>,
    },
}

/// A launch that did not end well.
#[derive(Clone, Debug, PartialEq)]
pub struct Failed {
    pub position: u32,
    pub arm: Arm,
    pub exit: Exit,
    /// The request that it may have ended at.
    pub request: Option<LostRequest>,
}

/// A request that an engine did not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostRequest {
    pub index: u32,
    pub workload: String,
    /// Its condition, where the workload has several, and the fault of a bad one: `a bad request: n = -1`.
    pub kind: Option<String>,
}

/// Void requests, and the first of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Voids {
    pub counts: BTreeMap<VoidRule, usize>,
    /// Index of the request in its workload.
    pub index: u32,
    pub workload: String,
    /// Position of its launch, and its arm.
    pub launch: u32,
    pub arm: Arm,
    pub detail: String,
}

#[derive(Clone, Debug, PartialEq)]
pub enum LaunchFact {
    /// Share of the engine's files in memory; `None`: not read.
    PageCache {
        wanted: PageCache,
        resident_share: Option<f64>,
    },
    /// Other processes on one of the engine's GPUs.
    OthersOnGpu {
        gpu: u32,
        others: u32,
    },
    /// Processors that other processes kept busy.
    OthersCpu {
        cores: f64,
        limit: f64,
    },
    /// Processors that the engine kept busy while the other arm's had the turn.
    BusyBeside {
        /// `None`: not read.
        cores: Option<f64>,
        limit: f64,
    },
    /// A value that cannot be, in the metric's unit.
    Value(f64),
    /// A gap between events of 0 or less in the launch's value.
    NoGap(f64),
    /// Sound requests behind a value, and those left out since they arrived at one moment.
    Samples {
        workload: String,
        got: u32,
        need: u32,
        left_out: usize,
    },
    /// Delay of the load client in ms, and the fraction of the value that it moved.
    ClientLate {
        delay_ms: f64,
        moved: f64,
        bearable: f64,
    },
    /// Share of the events that arrived together with a later one.
    SharedEvents {
        share: f64,
        bearable: f64,
    },
    /// Share of the answers whose tokens all arrived at one moment.
    AtOnce {
        share: f64,
        bearable: f64,
    },
    Streams {
        asked: u32,
        reached: u32,
    },
    /// Values of which fewer than `distinct` are different.
    Constant {
        values: usize,
        distinct: usize,
    },
    /// Head's time over base's for the same request, in the middle: first to last token, and whole answers.
    HeldBack {
        sending: f64,
        whole: f64,
    },
    /// Answers that are wrong beside base's, and the first of them.
    WrongAnswers {
        wrong: usize,
        all: usize,
        first: String,
    },
    /// A fault found by `metrics`.
    Said(String),
}

/// Main's stored sessions that cannot be a base.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredSessions {
    pub usable: usize,
    pub needed: usize,
    /// Of another machine, older than `max_age_days`, and without the check.
    pub elsewhere: usize,
    pub old: usize,
    pub max_age_days: u32,
    pub without: usize,
    /// Fingerprint of the last session of another machine, and this machine's.
    pub moved: Option<(String, String)>,
}

/// Too few launches for a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TooFew {
    SoFar,
    /// The next look comes after `blocks` blocks.
    NextLook {
        blocks: u32,
    },
    /// No more will come, and a t-test needs `an_arm` launches per arm.
    Needed {
        an_arm: usize,
    },
    NoCases,
}

/// A check's absolute bound, in the metric's unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    pub side: Side,
    pub value: f64,
}

impl Limit {
    pub fn ceiling(value: f64) -> Self {
        let side = Side::Ceiling;
        Self { side, value }
    }

    pub fn floor(value: f64) -> Self {
        let side = Side::Floor;
        Self { side, value }
    }

    /// True if the value is beyond the limit.
    pub fn is_broken_by(self, value: f64) -> bool {
        match self.side {
            Side::Ceiling => value > self.value,
            Side::Floor => value < self.value,
        }
    }

    /// The rule that the limit is.
    pub fn rule(self) -> RuleId {
        match self.side {
            Side::Ceiling => RuleId::Ceiling,
            Side::Floor => RuleId::Floor,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Ceiling,
    Floor,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    Kept,
    Broken,
    /// Broken, which chance or a near-tie may explain.
    Unsure,
}

/// Cases of a launch that are right, out of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cases {
    pub right: u64,
    pub all: u64,
}

/// A statistical test and its outcome; the p-values are the check's.
#[derive(Clone, Debug, PartialEq)]
pub struct Tested {
    pub hypothesis: Hypothesis,
    pub outcome: Verdict,
    /// `p_fail` after Holm's correction over `family` checks.
    pub holm: f64,
    pub family: usize,
    /// Greatest `holm` that fails, and greatest `p_pass` that passes.
    pub alpha: f64,
    pub beta: f64,
    /// `p_fail` is the smallest that this number of launches can reach.
    pub is_smallest: bool,
    /// For a test that stays inconclusive.
    pub advice: Option<Advice>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Hypothesis {
    /// Base against head; fractions.
    Change {
        margin: f64,
        ceiling: f64,
    },
    Limit(Limit),
    /// Cases lost and gained, paired, in each of `launches` launches.
    Lost {
        margin: f64,
        ceiling: f64,
        lost: u64,
        gained: u64,
        cases: u64,
        launches: usize,
    },
    /// A launch's share of right cases, in each of `launches` launches.
    ShareLimit {
        limit: Limit,
        cases: Cases,
        launches: usize,
        remarks: Vec<String>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Advice {
    /// The smallest change that the launches could find is above the ceiling. `cap`: a forecast for this number of
    /// launches per arm.
    TooNoisy {
        cap: Option<u32>,
        effect: f64,
        ceiling: f64,
    },
    /// The change is beyond the margin, and so few launches that nobody calibrated cannot fail: `blocks` can.
    /// `None`: more than the profile has.
    FewLaunches { blocks: Option<u32> },
    /// The change is beyond the margin by its interval, and neither the looks nor the run's checks together show it.
    NotShown,
    /// Even if all were right.
    MoreCases { cases: u64, needed: f64 },
}

/// How a run ended that left a check open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// This check failed.
    Failed {
        check: String,
    },
    EngineFailed {
        detail: String,
    },
    /// After `blocks` sound blocks of at most `cap`; `starting`: while an engine was.
    Budget {
        blocks: u32,
        cap: u32,
        starting: Option<String>,
    },
    Interrupted {
        blocks: u32,
        cap: u32,
    },
}

/// A check's, a gate's or a run's verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    Pass,
    Fail,
    Inconclusive,
    /// The measurement, not the engine, is broken.
    Invalid,
}

impl Verdict {
    pub fn name(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Inconclusive => "inconclusive",
            Self::Invalid => "invalid",
        }
    }
}
