//! Runtime of a command: its own thread, until it ends or a signal comes.

use anyhow::Context;
use std::future::poll_fn;
use std::task::Poll;
use tokio::signal::unix::{SignalKind, signal};

/// Runs a future on this thread: the load client measures best where nothing else is scheduled. What threads of the
/// runtime still read for it when it ends is not waited for.
pub fn block_on<T>(future: impl Future<Output = T>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the asynchronous runtime")?;
    let ended = runtime.block_on(future);
    runtime.shutdown_background();
    Ok(ended)
}

/// Completes at the first SIGINT, SIGTERM or SIGHUP from this call on, which needs a runtime: what comes before the
/// future is first polled is not lost.
pub fn interrupted() -> impl Future<Output = ()> {
    let kinds = [
        SignalKind::interrupt(),
        SignalKind::terminate(),
        SignalKind::hangup(),
    ];
    // Without a handler the signal's default ends us, which is what was asked for.
    let mut signals: Vec<_> = kinds
        .into_iter()
        .filter_map(|kind| signal(kind).ok())
        .collect();
    poll_fn(move |context| {
        let is_heard = signals
            .iter_mut()
            .any(|one| one.poll_recv(context).is_ready());
        if is_heard {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
}
