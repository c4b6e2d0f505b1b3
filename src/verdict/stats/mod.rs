//! Slices in, numbers out: quantiles, t estimates, rank tests, multiplicity, robust slope, trend, change points,
//! shares.
//!
//! Main type: [`Estimate`], a difference with its standard error and degrees of freedom. Every function
//! says what it does on no value, one value, constants and NaN; none panics, and NaN never makes a
//! p-value small. Values have whatever unit the caller gives them.
//!
//! Refuses to know: what a number means, where it comes from, what is judged by it.

mod distributions;
mod error_rates;
mod location;
mod series;
mod shares;

pub use distributions::divergence::kl_at_least;
pub use distributions::gamma::gamma_quantile;
pub use distributions::student::{t_p, t_quantile};
pub use error_rates::holm::holm;
pub use error_rates::midpoint_test::{Halfway, Tail};
pub use error_rates::power::{Spread, detectable, power, values_needed};
pub use error_rates::spending::Spending;
pub use location::components::{Components, one_way};
pub use location::estimate::{Degenerate, Estimate, one_sample, prediction, welch};
pub use location::hodges_lehmann::{Shift, hodges_lehmann};
pub use location::mann_whitney::{MannWhitney, mann_whitney};
pub use location::moderated::{PriorVariance, moderated_paired, moderated_welch, paired};
pub use location::modes::{Modes, two_modes};
pub use location::moments::{mean, variance};
pub use location::prior::prior_variance;
pub use location::quantile::{Quantile, head_tail_medians, median, quantile};
pub use location::scale::Scale;
pub use series::autocorrelation::lag_one;
pub use series::change_points::{ChangePoint, change_points};
pub use series::least_absolute::least_absolute_line;
pub use series::theil_sen::{theil_sen_least, theil_sen_slope};
pub use series::trend::{Trend, trend};
pub use series::warm_up::{WarmUp, warm_up};
pub use shares::binomial::{binomial_p_more, mcnemar_p_worse};
pub use shares::clustered::{Trials, change_of_share};
pub use shares::fisher::fisher_p;
pub use shares::wilson::{share_p_above, share_p_below, wilson};
