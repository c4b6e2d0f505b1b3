//! Every kernel against a twin in f64, on fresh random numbers and odd sizes, with poisoned outputs: on a
//! GPU where there is one, else on the emulator. The seed is printed; KERNEL_PARITY_SEED repeats it.

#![allow(clippy::print_stdout, reason = "which device, which seed")]
#![allow(
    clippy::unwrap_used,
    reason = "a launcher that refuses is what a test must fail on"
)]

mod attention;
mod decoding;
mod elementwise;
#[path = "../driver/fake.rs"]
#[allow(dead_code, reason = "the driver's own tests use the rest")]
mod fake;
mod lab;
mod paged;
mod products;
mod ranking;
mod refusals;
#[path = "../common/skip.rs"]
mod skip;
mod through_the_driver;
