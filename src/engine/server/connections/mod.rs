//! Sockets → requests: accepts connections up to a limit and ends those that do not speak.
//!
//! A client that opens a connection and sends half a request, or nothing, would hold it for ever; so the head
//! of a request has a deadline here, as its body has in `body` and a write in `deadline`. Where all places are taken, an
//! idle connection gives its own (`idle`). Refuses to know: routes, answers.

mod deadline;
mod idle;

use super::Limits;
use axum::Router;
use axum::body::Body;
use deadline::WriteDeadline;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{HttpService, Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use idle::{Idle, Turns};
use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How long to wait after the system refused a connection for want of descriptors or memory.
const PAUSE: Duration = Duration::from_millis(100);

/// Answers until `stop`; then waits for the connections under way, each to the end of its answer.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    limits: Limits,
    stop: impl Future<Output = ()>,
) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(limits.read_time);
    let idle = Idle::default();
    let places = Arc::new(Semaphore::new(limits.connections));
    let open = GracefulShutdown::new();
    let mut stop = std::pin::pin!(stop);
    loop {
        let (stream, place) = tokio::select! {
            accepted = accept(&listener, &places, &idle) => accepted,
            () = &mut stop => break,
        };
        // A socket that refuses the option still works, only later.
        let _ = stream.set_nodelay(true);
        let stream = WriteDeadline::new(stream, limits.write_time);
        let turns = Turns::new(&idle, stream.is_stuck());
        let service = answering(TowerToHyperService::new(router.clone()), Arc::clone(&turns));
        let connection = http.serve_connection(TokioIo::new(stream), service);
        let connection = open.watch(connection);
        let task = tokio::spawn(async move {
            // A connection that breaks is the client's matter: its answers are dropped with it.
            let _ = connection.await;
            drop(place);
        });
        turns.of_task(task.abort_handle());
    }
    drop(listener);
    open.shutdown().await;
}

/// The router, which tells the connection's turns when it answers.
fn answering(
    router: TowerToHyperService<Router>,
    turns: Arc<Turns>,
) -> impl HttpService<Incoming, ResBody = Body, Error = Infallible, Future: Send> {
    service_fn(move |request| {
        let answering = turns.begin();
        let answer = router.call(request);
        async move { Ok(answer.await?.map(|body| answering.around(body))) }
    })
}

/// The next connection, once there is a place for it.
async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
    idle: &Idle,
) -> (TcpStream, Option<OwnedSemaphorePermit>) {
    let stream = loop {
        match listener.accept().await {
            Ok((stream, _)) => break stream,
            Err(error) if is_of_one_connection(&error) => {}
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    };
    let mut place = Arc::clone(places).try_acquire_owned().ok();
    while place.is_none() {
        idle.end_longest();
        tokio::select! {
            // The semaphore is never closed: there is always a place in the end.
            found = Arc::clone(places).acquire_owned() => place = found.ok(),
            () = tokio::time::sleep(idle::GRACE) => {}
        }
    }
    (stream, place)
}

/// The client gave up before it was accepted.
fn is_of_one_connection(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(
        error.kind(),
        ConnectionAborted | ConnectionRefused | ConnectionReset
    )
}
