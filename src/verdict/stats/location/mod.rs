//! Location and spread: means, quantiles, shifts between samples, and the tests of them.

pub mod components;
pub mod estimate;
pub mod hodges_lehmann;
pub mod mann_whitney;
pub mod moderated;
pub mod modes;
pub mod moments;
pub mod prior;
pub mod quantile;
pub mod scale;
