//! Arrival times of bytes by the kernel's receive stamps (`SO_TIMESTAMPING`, software
//! receive): enabled on a socket, and taken from each read.
//!
//! Main type: [`Arrival`]; main functions: [`ask`], [`of`]. Refuses to know: what was received.

#[cfg(target_os = "linux")]
pub use linux::{ask, control_buffer, of};
#[cfg(not(target_os = "linux"))]
pub use none::{ask, control_buffer, of};

/// Bytes that came together: of one read, or of several that found parts of one segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrival {
    /// When the last of them came.
    pub at_ns: u64,
    /// The kernel said so; otherwise it is the time right after the read.
    pub kernel: bool,
    /// Ordinal on its connection, from 1; 0: none yet.
    pub number: u64,
}

/// Receive stamps as Linux gives them.
#[cfg(target_os = "linux")]
mod linux {
    use nix::sys::socket::setsockopt;
    use nix::sys::socket::{ControlMessageOwned, RecvMsg, TimestampingFlag, Timestamps, sockopt};
    use std::time::Duration;
    use tokio::net::TcpStream;

    pub fn ask(stream: &TcpStream) {
        let flags = TimestampingFlag::SOF_TIMESTAMPING_SOFTWARE
            | TimestampingFlag::SOF_TIMESTAMPING_RX_SOFTWARE;
        // A kernel or sandbox without them: each sample then says that its stamps are not the kernel's.
        let _refused = setsockopt(stream, sockopt::Timestamping, &flags);
    }

    pub fn control_buffer() -> Vec<u8> {
        nix::cmsg_space!(Timestamps)
    }

    /// Real time, since the epoch, at which the last segment of the message arrived.
    pub fn of(message: &RecvMsg<'_, '_, ()>) -> Option<Duration> {
        message.cmsgs().ok()?.find_map(|control| match control {
            ControlMessageOwned::ScmTimestampsns(stamps) => {
                Some(Duration::from(stamps.system)).filter(|real| !real.is_zero())
            }
            _ => None,
        })
    }
}

/// Other systems: every arrival is the time right after the read.
#[cfg(not(target_os = "linux"))]
mod none {
    use nix::sys::socket::RecvMsg;
    use std::time::Duration;
    use tokio::net::TcpStream;

    pub fn ask(_: &TcpStream) {}

    pub fn control_buffer() -> Vec<u8> {
        Vec::new()
    }

    pub fn of(_: &RecvMsg<'_, '_, ()>) -> Option<Duration> {
        None
    }
}
