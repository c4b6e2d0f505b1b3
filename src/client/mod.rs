//! The timed load client ([`load`]), and the readings taken beside a launch ([`telemetry`]).

pub mod load;
pub mod telemetry;

#[cfg(test)]
use fixture::skip;
