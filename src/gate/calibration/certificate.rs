//! The file format `infergate-calibration/1`: one gate on one machine. Frozen by
//! `tests/data/calibration-v1.json`.

use super::Tally;
use crate::baseline::Key;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use verdict::plan::Spending;
use verdict::record::LaunchNoise;
use verdict::stats::Spread;

/// Name and version of the format.
pub const CALIBRATION_FORMAT: &str = "infergate-calibration/1";

/// What A/A sessions said of one gate on one machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Certificate {
    /// [`CALIBRATION_FORMAT`].
    pub format: String,
    /// Name and version of the program that measured.
    pub tool: String,
    /// RFC 3339, UTC: when the last session had ended.
    pub created: String,
    /// What was measured against itself; `None` outside a repository.
    pub commit: Option<String>,
    /// The working tree had uncommitted changes.
    pub dirty: bool,
    pub profile: String,
    /// Machine, model, gate and engine: what a stored session of main is known by.
    pub key: Key,
    /// Blocks after which the judge looked, rising.
    pub looks: Vec<u32>,
    /// False-alarm budget of a run.
    pub alpha: f64,
    /// Chance that a check passes although its effect is at the ceiling.
    pub beta: f64,
    /// How the looks share the two. Older certificates do not say it: theirs is by equal parts, whatever the judge did.
    #[serde(
        default = "Spending::equal",
        skip_serializing_if = "Spending::is_equal"
    )]
    pub spending: Spending,
    /// The gates that were judged together, this one among them.
    pub gates: Vec<String>,
    /// Their checks that are tested, which share the false-alarm budget.
    pub checks_together: u32,
    pub sessions: Sessions,
    /// Null sessions that were drawn from what earlier sessions had stored; never part of `sessions`.
    pub drawn: Drawn,
    /// Seconds that one launch of this gate's engine takes, all that it does included.
    pub launch_s: f64,
    pub checks: Vec<CheckCertificate>,
}

/// The A/A sessions that were measured, all gates together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sessions {
    /// `fail`: a comparison failed, though both arms are one build: a false alarm.
    pub verdicts: Tally,
    /// Ended by a limit that one build's own value broke: no false alarm, and no chance for one.
    pub broken_limits: u32,
    pub launches: u32,
    /// Seconds of measuring, rounded.
    pub elapsed_s: u32,
}

impl Sessions {
    /// All that were measured.
    pub fn measured(&self) -> u32 {
        self.verdicts.judged() + self.verdicts.invalid + self.broken_limits
    }
}

/// Null sessions from stored launches, split into two arms at random.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Drawn {
    pub seed: u64,
    /// Sessions of main from the baseline store that they stand on.
    pub stored: u32,
    /// Kept result directories of A/A sessions that they stand on.
    pub kept: u32,
}

/// One check of the gate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckCertificate {
    /// `gate/check`.
    pub id: String,
    /// Its verdicts in the measured sessions.
    pub measured: Tally,
    /// … and in those drawn from history.
    pub drawn: Tally,
    /// Why it was invalid, by rule: how often.
    pub invalid: BTreeMap<String, u32>,
    /// `None` for a metric that is not compared by t, and where no launch gave it a value.
    pub noise: Option<Noise>,
    /// By which later sessions judge it; `None` for a metric that is not compared by t, and of fewer than five sessions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launch_noise: Option<LaunchNoise>,
    /// Of a comparison by t: what it can find at each look; empty for all others.
    pub effects: Vec<Effect>,
    /// A comparison by t: the change that it must find; `None` for all others.
    pub ceiling: Option<f64>,
    /// … and the blocks that it takes; `None` where no number up to 1000 does.
    pub blocks_for_ceiling: Option<u32>,
}

impl CheckCertificate {
    /// How its launches vary, as its test knows it.
    pub fn spread(&self) -> Option<Spread> {
        match self.launch_noise.and_then(LaunchNoise::counted) {
            Some(LaunchNoise { paired, sd, df }) => Some(Spread {
                sd,
                paired,
                known_df: df,
            }),
            None => Some(Spread::unknown(self.noise?.launch_sd)),
        }
    }

    /// What the check finds at the last look with 95 % power.
    pub fn effect_at_cap(&self) -> Option<f64> {
        self.effects.last().map(|last| last.effect)
    }

    /// Whether the check finds its ceiling at the last look; `None` for a check that compares nothing by t.
    pub fn is_resolved(&self) -> Option<bool> {
        let ceiling = self.ceiling?;
        Some(self.effect_at_cap().is_some_and(|effect| effect <= ceiling))
    }
}

/// How much a check's value varies, as standard deviations of its logarithm (of 1 + value for a drift).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Noise {
    /// Launches that it was estimated from.
    pub launches: u32,
    /// From launch to launch within a session, the requests' part included: what a comparison meets.
    pub launch_sd: f64,
    /// Degrees of freedom of `launch_sd`.
    pub launch_df: u32,
    /// From session to session; `None` with a single one.
    pub session_sd: Option<f64>,
    /// From request to request within a launch; `None` for a value that is no statistic of many.
    pub request_sd: Option<f64>,
    /// Lag-1 autocorrelation of a launch's requests.
    pub autocorrelation: Option<f64>,
    pub warm_up: Option<Warmup>,
    /// Measured requests of a launch, in the mean (for `icl` and `itl`: gaps).
    pub requests: f64,
    /// R*: how many a launch should measure, by what a launch and a request cost; `None` where launches do not
    /// differ beyond what their requests explain, and where `request_sd` is `None`.
    pub requests_wanted: Option<f64>,
}

/// Where a launch's requests begin to be steady.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Warmup {
    /// After so many, those that the plan sends as warm-up included.
    Ends(u32),
    /// Not within half of them.
    BeyondHalf,
}

/// The smallest change that a check finds with 95 % power when it looks after so many blocks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Effect {
    pub blocks: u32,
    /// Of this gate's launches in both arms.
    pub minutes: f64,
    /// 0.03 is a change for the worse by 3 %.
    pub effect: f64,
}
