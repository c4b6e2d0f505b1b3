//! Calibration by A/A sessions: how often the gate fails without a change, how much launches
//! and requests vary, and what the gate can therefore find. Kept as dated certificates, one per gate.
//!
//! Main type: [`Certificate`]. Formulas and a worked case: `docs/calibration.md`.
//!
//! Refuses to know: how a session is measured, how anything is shown.

mod certificate;
mod certify;
mod history;
mod learned;
mod noise;
mod plan;
mod power;
mod signed;
mod standing;
mod store;
mod tally;

pub use certificate::{
    CALIBRATION_FORMAT, Certificate, CheckCertificate, Drawn, Effect, Noise, Sessions, Warmup,
};
pub use certify::{Evidence, MeasuredSession, certify};
pub use history::{PastSession, pairs_of_blocks, pairs_of_launches};
pub use learned::{Learned, recall, remember};
pub use noise::{launch_noise, stored_sd};
pub use plan::{LookLevels, Test, Wanted, test_of};
pub use power::{NoiseSource, PowerPlan, PowerRow};
pub use signed::{RefusedCertificate, admit_certificate, ready_certificate, sign_certificate};
pub use standing::{Subject, standing};
pub use store::{CertificateError, Certificates};
pub use tally::{Tally, outcome};
