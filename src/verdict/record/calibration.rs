//! Certificates of a machine's noise, as a report cites them.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One gate's certificate, or why there is none that holds here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Citation {
    pub gate: String,
    #[serde(flatten)]
    pub standing: Standing,
    /// What earlier sessions of two arms here show of the launches; counts where the certificate says nothing of them, and
    /// where they vary more than it says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub learned: Option<LearnedNoise>,
}

/// How launches varied in earlier sessions of this gate on this machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LearnedNoise {
    pub sessions: u32,
    /// Check id → its launches' variance.
    pub noise: BTreeMap<String, LaunchNoise>,
}

impl Citation {
    /// By which variance a check's launches are judged; `None`: by their own alone.
    pub fn noise(&self, check: &str) -> Option<&LaunchNoise> {
        let certified = match &self.standing {
            Standing::Valid(certified) => certified.noise.get(check),
            Standing::Void { .. } | Standing::Missing => None,
        };
        let learned = self
            .learned
            .as_ref()
            .and_then(|learned| learned.noise.get(check));
        match (certified, learned) {
            // A machine that has become noisier since.
            (Some(then), Some(now)) if now.paired == then.paired && now.sd > then.sd => Some(now),
            (certified, learned) => certified.or(learned),
        }
    }
}

/// How a gate stands with what was calibrated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "standing", rename_all = "kebab-case")]
pub enum Standing {
    /// A/A sessions of this machine, engine and gate.
    Valid(Certified),
    /// There is a certificate, and it does not hold here.
    Void {
        /// RFC 3339, UTC.
        created: String,
        /// What differs, as a clause: `is of another machine (…)`.
        why: String,
        /// What would help where `gate calibrate` alone does not, as a clause; `None`: it does.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        remedy: Option<String>,
    },
    /// This gate was never calibrated.
    Missing,
}

/// What a certificate that holds says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Certified {
    /// RFC 3339, UTC.
    pub created: String,
    /// A/A sessions that were measured and had a verdict on their comparisons.
    pub sessions: u32,
    /// Those of them in which a comparison failed.
    pub false_alarms: u32,
    /// Wilson's 95 % interval of the rate; fractions.
    pub interval: (f64, f64),
    /// Blocks at the last look.
    pub blocks: u32,
    /// Check id → the smallest relative effect found there with 95 % power.
    pub effects: BTreeMap<String, f64>,
    /// Check id → what its launches' variance was there, by which a comparison is designed before it is measured.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub noise: BTreeMap<String, LaunchNoise>,
}

/// The variance of a check's launches in A/A sessions, and whether its launches are compared in pairs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LaunchNoise {
    /// Head's launch with base's of the same block, since these share what the machine does at that time.
    pub paired: bool,
    /// Standard deviation of the logarithm: of a launch, or (paired) of the difference of two launches of a block.
    pub sd: f64,
    /// Degrees of freedom that it counts for beside a session's own variance, few where sessions differ in it. The judge uses
    /// at most 4.
    pub df: f64,
}

impl LaunchNoise {
    /// Machines change, so what is known of them counts for no more degrees of freedom than this: with 4, the intervals of a
    /// machine twice as noisy cover the truth in 95 % of simulated sessions (docs/verdict.md).
    const MOST_DF: f64 = 4.0;

    /// As a test counts it. `None` for what no launches give, as in a file that was edited: a standard deviation that is no
    /// number, or beyond 1e-9 to 1e3.
    #[must_use]
    pub fn counted(self) -> Option<Self> {
        let is_sound = (1e-9..=1e3).contains(&self.sd) && self.df > 0.0;
        is_sound.then(|| Self {
            df: self.df.min(Self::MOST_DF),
            ..self
        })
    }
}
