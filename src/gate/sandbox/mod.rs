//! The sandbox of builds and engines: what a pull request's code may read, write and reach on the machine.
//!
//! Two layers, each used where the kernel allows it: **Landlock** (which paths a process may open; no signals to
//! and no abstract sockets of processes outside) and **namespaces** (read-only mounts, hidden folders, a `/proc` of
//! its own). Or another user, where the gate is root. docs/sandbox.md says what each stops and what none does.
//!
//! Main types: [`Sandbox`], what is in force on this machine; [`Policy`], what one child may do; [`enter()`], the
//! hidden command that puts a policy in force and becomes the child. Refuses to know: what the child is.

mod enter;
mod grants;
mod masked_paths;
mod mounts;
mod policy;
mod probe;

pub use enter::enter;
pub use grants::{all_but, without};
pub use policy::{Policy, SUBCOMMAND};
pub use probe::named;
pub use probe::{Rights, Sandbox, SandboxError};
