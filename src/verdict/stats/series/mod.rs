//! Values in the order of time: trend, change points, warm-up, straight lines.

pub mod autocorrelation;
pub mod change_points;
pub mod least_absolute;
pub mod theil_sen;
pub mod trend;
pub mod warm_up;
