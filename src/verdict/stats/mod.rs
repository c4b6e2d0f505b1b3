//! Slices in, numbers out: quantiles, t estimates, rank tests, multiplicity, robust slope, trend, change points,
//! shares.
//!
//! Main type: [`Estimate`], a difference with its standard error and degrees of freedom. Every function
//! says what it does on no value, one value, constants and NaN; none panics, and NaN never makes a
//! p-value small. Values have whatever unit the caller gives them.
//!
//! Refuses to know: what a number means, where it comes from, what is judged by it.

mod autocorrelation;
mod change_points;
mod components;
mod divergence;
mod estimate;
mod halfway;
mod hodges_lehmann;
mod holm;
mod least_absolute;
mod legendre;
mod mann_whitney;
mod mcnemar;
mod moments;
mod noncentral;
mod power;
mod quantile;
mod scale;
mod spending;
mod student;
mod theil_sen;
mod trend;
mod warm_up;
mod wilson;

pub use autocorrelation::lag_one;
pub use change_points::{ChangePoint, change_points};
pub use components::{Components, one_way};
pub use divergence::kl_at_least;
pub use estimate::{Degenerate, Estimate, one_sample, prediction, welch};
pub use halfway::{Halfway, Side};
pub use hodges_lehmann::{Shift, hodges_lehmann};
pub use holm::holm;
pub use least_absolute::least_absolute_line;
pub use mann_whitney::{MannWhitney, mann_whitney};
pub use mcnemar::mcnemar_p_worse;
pub use moments::{mean, variance};
pub use power::{detectable, power, values_needed};
pub use quantile::{Quantile, head_tail_medians, median, quantile};
pub use scale::Scale;
pub use spending::Spending;
pub use student::t_quantile;
pub use theil_sen::{theil_sen_least, theil_sen_slope};
pub use trend::{Trend, trend};
pub use warm_up::{WarmUp, warm_up};
pub use wilson::{share_p_above, share_p_below, wilson};
