//! `gate dev proxy` through the binary: what passes unchanged, what each fault makes of it, and that nothing stays
//! behind. Upstream is a script where bytes count, and `gate serve` where an engine does.

mod endings;
mod faults;
mod passing;
mod recording;
mod running;
mod upstream;
