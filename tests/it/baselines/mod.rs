//! Main's records between runners: `gate baseline push | pull | sign | prune` on a git branch and on a bucket.

mod certificates;
mod endings;
mod git;
mod hostile;
mod moto;
mod notes;
mod old;
mod proxy;
mod runner;
mod sign;
mod together;
