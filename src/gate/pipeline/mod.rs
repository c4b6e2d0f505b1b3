//! Commands: each puts the stages plan → launch → measure → judge → report together. `session` holds what they share.
//!
//! [`check()`] is what `gate check` does, [`resume()`] what it does with `--resume`; [`judge_directory`]
//! recomputes its verdict from `run.json` alone; [`record_baseline`] measures main for later comparisons, and
//! [`history()`] reads what it stored; [`load()`] measures a server that already runs; [`calibrate()`] measures
//! the machine by A/A sessions, and [`power()`] says from that what an effect costs.
//! Whoever calls shows the [`Event`]s.

mod at_most;
mod authorize;
mod baseline;
mod bisect;
mod calibrate;
mod caveats;
mod check;
mod citation;
mod compare;
mod contest;
mod doctor;
mod engines;
mod exchange;
mod explain;
mod github;
mod golden;
mod history;
mod import;
mod label;
mod load;
mod merge;
mod note;
mod past;
mod power;
mod publish;
mod replay;
mod resume;
mod selftest;
mod session;
mod shards;
mod spent;

pub use authorize::{AuthorizeOptions, Queued, Ruling, RunOrigin, authorize};
pub use baseline::{Recorded, record_baseline};
pub use bisect::{BisectOptions, bisect, resume_bisect};
pub use calibrate::{CalibrateOptions, Calibration, CalibrationResult, calibrate};
pub use check::check;
pub use compare::{Source, compare_files};
pub use contest::{AtMost, Contest};
pub use doctor::doctor;
pub use engines::compare_engines;
pub use exchange::{
    Exchanged, Signed, prune_baseline, pull_baseline, push_baseline, sign_baseline, stored_sessions,
};
pub use explain::explain_directory;
pub use github::GitHubOptions;
pub use golden::{GoldenOptions, MadeGoldens, Reference, make_goldens};
pub use history::{HistoryOptions, Told, history};
pub use import::{import_figures, import_session};
pub use label::{LabelOptions, Labelled, Trigger, label, label_diff};
pub use load::{LoadOptions, Traffic, load};
pub use merge::merge_directories;
pub use note::{About, NoteOptions, note};
pub use power::{PowerOptions, power};
pub use publish::{End, PublishOptions, Published, Refusal, Subject, publish};
pub use replay::replay;
pub use resume::resume;
pub use selftest::{Selftest, SelftestOptions, selftest};
pub use session::{
    Base, Error, Event, Form, Options, Outcome, ResultsError, judge_directory, rendered,
};
pub use shards::{Cost, CostSource, Layout, LayoutOptions, layout};

use session::project::{Place, Project, draw_seed, new_record, now, tool};
use session::sources::build_arms;
