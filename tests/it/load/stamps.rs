//! Where the kernel stamps what arrives, its stamps are used.

use super::server::stream;
use super::{plain, sixteen};

/// Whether this kernel stamps what a socket receives, asked of a socket of another kind. It may begin
/// only some time after the first socket wanted stamps, hence the tries.
fn kernel_stamps(socket: &std::net::UdpSocket) -> bool {
    use nix::sys::socket::{ControlMessageOwned, MsgFlags, TimestampingFlag, Timestamps};
    use nix::sys::socket::{recvmsg, setsockopt, sockopt};
    use std::os::fd::AsRawFd;

    let flags = TimestampingFlag::SOF_TIMESTAMPING_SOFTWARE
        | TimestampingFlag::SOF_TIMESTAMPING_RX_SOFTWARE;
    if setsockopt(socket, sockopt::Timestamping, &flags).is_err() {
        return false;
    }
    socket.connect(socket.local_addr().unwrap()).unwrap();
    (0..10_000).any(|_| {
        socket.send(b"x").unwrap();
        let mut byte = [0];
        let mut parts = [std::io::IoSliceMut::new(&mut byte)];
        let mut control = nix::cmsg_space!(Timestamps);
        let fd = socket.as_raw_fd();
        let message =
            recvmsg::<()>(fd, &mut parts, Some(control.as_mut_slice()), MsgFlags::empty()).unwrap();
        message.cmsgs().unwrap().any(|control| {
            matches!(control, ControlMessageOwned::ScmTimestampsns(stamps) if stamps.system.tv_sec() != 0)
        })
    })
}

#[tokio::test]
async fn arrivals_are_the_kernels_where_it_stamps() {
    // Kept open, so that the kernel goes on stamping.
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let stamped = kernel_stamps(&socket);
    for sample in sixteen(stream(&plain())).await {
        assert!(sample.stamps.kernel_stamps || !stamped);
    }
    drop(socket);
}
