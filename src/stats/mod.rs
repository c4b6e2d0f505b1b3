//! Slices in, numbers out: quantiles, t estimates, multiplicity, robust slope, shares.
//!
//! Main type: [`Estimate`], a difference with its standard error and degrees of freedom. Every function
//! says what it does on no value, one value, constants and NaN; none panics, and NaN never makes a
//! p-value small. Values have whatever unit the caller gives them.
//!
//! Refuses to know: what a number means, where it comes from, what is judged by it.

mod estimate;
mod holm;
mod least_absolute;
mod mcnemar;
mod moments;
mod quantile;
mod student;
mod theil_sen;
mod wilson;

pub use estimate::{Degenerate, Estimate, one_sample, prediction, welch};
pub use holm::holm;
pub use least_absolute::least_absolute_line;
pub use mcnemar::mcnemar_p_worse;
pub use moments::{mean, variance};
pub use quantile::{Quantile, head_tail_medians, median, quantile};
pub use student::t_quantile;
pub use theil_sen::theil_sen_slope;
pub use wilson::{share_p_above, share_p_below, wilson};
