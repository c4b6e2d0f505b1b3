//! Distributions: gamma, Student's t, the noncentral t, divergence, and quadrature.

pub mod divergence;
pub mod gamma;
pub mod legendre;
pub mod noncentral;
pub mod student;
