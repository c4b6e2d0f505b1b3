//! A short time slice for a thread that reads.
//!
//! A server that computes on the thread's processor else keeps it until its own slice ends, some 3 ms, and events that came
//! meanwhile are read together. Since Linux 6.12 a thread that wakes with a shorter slice preempts one with a longer
//! (Documentation/scheduler/sched-eevdf.rst); it gets no more time for that, and needs no right. Older kernels ignore it.

use nix::errno::Errno;
use nix::libc::{self, SCHED_BATCH, SCHED_OTHER, sched_attr};

/// The shortest that the kernel takes.
const SLICE_NS: u64 = 100_000;

/// Gives the calling thread the shortest slice. A policy or a priority that somebody chose for it stays.
///
/// # Errors
/// The kernel refuses, or has no such call.
pub fn shorten() -> Result<(), Errno> {
    let mut attributes = read()?;
    let is_fair = [SCHED_OTHER, SCHED_BATCH].map(i32::cast_unsigned);
    if is_fair.contains(&attributes.sched_policy) {
        attributes.sched_runtime = SLICE_NS;
        write(&attributes)?;
    }
    Ok(())
}

const NONE: sched_attr = sched_attr {
    size: size_of::<sched_attr>() as u32,
    sched_policy: 0,
    sched_flags: 0,
    sched_nice: 0,
    sched_priority: 0,
    sched_runtime: 0,
    sched_deadline: 0,
    sched_period: 0,
};

fn read() -> Result<sched_attr, Errno> {
    let mut attributes = NONE;
    #[expect(unsafe_code, reason = "no crate wraps sched_getattr(2)")]
    // SAFETY: the kernel writes `size` bytes at most into a structure of that size.
    let done = unsafe {
        libc::syscall(
            libc::SYS_sched_getattr,
            0,
            &raw mut attributes,
            NONE.size,
            0,
        )
    };
    Errno::result(done).map(|_| attributes)
}

fn write(attributes: &sched_attr) -> Result<(), Errno> {
    #[expect(unsafe_code, reason = "no crate wraps sched_setattr(2)")]
    // SAFETY: the kernel reads `size` bytes of a structure of that size.
    let done = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const *attributes, 0) };
    Errno::result(done).map(drop)
}

#[cfg(test)]
mod tests {
    use super::{SLICE_NS, read, shorten};
    use std::thread;

    #[test]
    fn the_slice_of_this_thread_alone_is_shorter() {
        let before = read().unwrap();
        let after = thread::spawn(|| {
            shorten().unwrap();
            read().unwrap()
        });
        let after = after.join().unwrap();
        assert_eq!(after.sched_policy, before.sched_policy);
        assert_eq!(after.sched_nice, before.sched_nice);
        assert_eq!(read().unwrap().sched_runtime, before.sched_runtime);
        // Kernels before 6.12 tell no slice.
        if before.sched_runtime > 0 {
            assert_eq!(after.sched_runtime, SLICE_NS);
        }
    }
}
