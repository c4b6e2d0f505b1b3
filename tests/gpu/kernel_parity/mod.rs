//! Every kernel against a twin in f64, on fresh random numbers and odd sizes, with poisoned outputs: on a
//! GPU where there is one, else on the emulator. The seed is printed; KERNEL_PARITY_SEED repeats it.

#![allow(clippy::print_stdout, reason = "which device, which seed")]
mod attention;
mod attention_decode;
mod delta;
mod elementwise;
mod lab;
mod paged;
mod products;
mod ranking;
mod refusals;
mod through_the_driver;
