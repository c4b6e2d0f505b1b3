//! Connections that wait for a request. Where a new one finds no place, the one that has waited longest ends: a server
//! may close an idle connection at any moment (RFC 9112, 9.5), and `/health` must be reachable beside any number of them.
//!
//! Main types: [`Idle`], and [`Turns`] of one connection.

use axum::body::{Body, Bytes, HttpBody};
use http_body::{Frame, SizeHint};
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::task::AbortHandle;

/// A client that has just had its answer may well have a next request.
pub const GRACE: Duration = Duration::from_secs(1);

/// All of a server's.
#[derive(Clone, Default)]
pub struct Idle(Arc<Mutex<Queue>>);

#[derive(Default)]
struct Queue {
    next: u64,
    /// By the order in which they began to wait.
    waiting: BTreeMap<u64, Waiting>,
}

struct Waiting {
    since: Instant,
    task: AbortHandle,
    is_stuck: Arc<AtomicBool>,
}

impl Idle {
    /// Ends the one that has waited longest, if it has waited for [`GRACE`] and its client has taken all of its answers.
    pub fn end_longest(&self) {
        let mut queue = self.queue();
        let now = Instant::now();
        let is_over = |it: &Waiting| now.duration_since(it.since) >= GRACE;
        let mut waiting = queue.waiting.iter().take_while(|(_, it)| is_over(it));
        let longest = waiting.find(|(_, it)| !it.is_stuck.load(Relaxed));
        let number = longest.map(|(number, _)| *number);
        if let Some(it) = number.and_then(|number| queue.waiting.remove(&number)) {
            it.task.abort();
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waiting and answering in turns, on one connection.
pub struct Turns {
    idle: Idle,
    is_stuck: Arc<AtomicBool>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Known once the connection's task runs.
    task: Option<AbortHandle>,
    answers: bool,
    number: Option<u64>,
}

impl Turns {
    /// `is_stuck`: bytes wait since the client takes none.
    pub fn new(idle: &Idle, is_stuck: Arc<AtomicBool>) -> Arc<Self> {
        Arc::new(Self {
            idle: idle.clone(),
            is_stuck,
            state: Mutex::default(),
        })
    }

    /// The connection's task, from now on waiting unless it answers already.
    pub fn of_task(&self, task: AbortHandle) {
        let mut state = self.state();
        state.task = Some(task);
        self.wait(&mut state);
    }

    /// A request came.
    pub fn begin(self: &Arc<Self>) -> Answering {
        let mut state = self.state();
        state.answers = true;
        if let Some(number) = state.number.take() {
            self.idle.queue().waiting.remove(&number);
        }
        drop(state);
        Answering(Arc::clone(self))
    }

    fn wait(&self, state: &mut State) {
        let Some(task) = state.task.clone().filter(|_| !state.answers) else {
            return;
        };
        let mut queue = self.idle.queue();
        let number = queue.next;
        queue.next += 1;
        state.number = Some(number);
        let waiting = Waiting {
            since: Instant::now(),
            task,
            is_stuck: Arc::clone(&self.is_stuck),
        };
        queue.waiting.insert(number, waiting);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turns {
    fn drop(&mut self) {
        let number = self.state().number.take();
        number.map(|number| self.idle.queue().waiting.remove(&number));
    }
}

/// A request is being answered until this is dropped.
pub struct Answering(Arc<Turns>);

impl Answering {
    pub fn around(self, body: Body) -> Body {
        Body::new(Answer {
            body,
            _answering: self,
        })
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.answers = false;
        self.0.wait(&mut state);
    }
}

struct Answer {
    body: Body,
    _answering: Answering,
}

impl HttpBody for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
