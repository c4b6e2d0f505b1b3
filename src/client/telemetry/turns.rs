//! Turns of two clients whose engines run at the same time, and what an engine does while it is not its turn.
//!
//! Main type: [`Seat`], one for each engine.

use super::process::{self, Tree};
use crate::{Turn, Turns};
use nix::time::clock_getcpuclockid;
use nix::unistd::Pid;
use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{Mutex, OwnedMutexGuard};
use verdict::record::Beside;

/// The list of the engine's processes is read again after this time. A process that starts in between counts as working
/// out of turn.
const LIST_FOR: Duration = Duration::from_millis(250);

/// Two clock ticks, by which the sum over a tree may be too small.
const TICKS_S: f64 = 0.02;

/// One client of several that take turns: the holder of the turn sends, and the others wait.
#[derive(Debug)]
pub struct Seat {
    turns: Arc<Mutex<()>>,
    /// Root of the engine's process tree; `None` where it is no child of ours.
    root: Option<i32>,
    /// When all seats were given, and the engine's CPU seconds then.
    begun: (Instant, Option<f64>),
    taken: RefCell<Taken>,
}

/// The turns of a seat so far.
#[derive(Debug, Default)]
struct Taken {
    /// Total length of the turns, and the engine's CPU seconds within them.
    held: Duration,
    cpu_s: f64,
    listed: Option<(Instant, Tree)>,
}

/// A turn, passed on when it is dropped.
#[derive(Debug)]
struct Held<'a> {
    seat: &'a Seat,
    begun: Instant,
    cpu_s: f64,
    _turn: OwnedMutexGuard<()>,
}

impl Seat {
    /// A seat for each of these engines, by the roots of their process trees.
    pub fn all(roots: &[Option<i32>]) -> Vec<Self> {
        let turns = Arc::new(Mutex::new(()));
        let seat = |root: &Option<i32>| Self {
            turns: Arc::clone(&turns),
            root: *root,
            begun: (
                Instant::now(),
                root.and_then(process::tree).map(|tree| tree.cpu_s),
            ),
            taken: RefCell::default(),
        };
        roots.iter().map(seat).collect()
    }

    async fn wait(&self) -> Held<'_> {
        // Tokio's mutex is fair: who passes it on and asks again comes after those who wait.
        let turn = Arc::clone(&self.turns).lock_owned().await;
        let begun = Instant::now();
        self.list();
        Held {
            seat: self,
            begun,
            cpu_s: self.cpu_s(),
            _turn: turn,
        }
    }

    /// The engine's CPU time out of its turns so far. `None` if the engine is not our child or has ended, or if
    /// processes that ended took more CPU time with them than the clock ticks explain. Less than that is missed, and so is a
    /// process that starts and ends out of turn and that its parent does not wait for.
    pub fn beside(&self) -> Option<Beside> {
        let taken = self.taken.borrow();
        let (begun, before) = self.begun;
        let after = process::tree(self.root?)?.cpu_s;
        let cpu_s = after - before? - taken.cpu_s;
        (cpu_s >= -TICKS_S).then(|| Beside {
            waited_s: begun.elapsed().saturating_sub(taken.held).as_secs_f64(),
            cpu_s: cpu_s.max(0.0),
        })
    }

    /// Lists the engine's processes, if the list has become old.
    fn list(&self) {
        let mut taken = self.taken.borrow_mut();
        let is_fresh = |(at, _): &(Instant, Tree)| at.elapsed() < LIST_FOR;
        if let (Some(root), false) = (self.root, taken.listed.as_ref().is_some_and(is_fresh)) {
            taken.listed = process::tree(root).map(|tree| (Instant::now(), tree));
        }
    }

    /// CPU seconds of the listed processes, to the nanosecond (clock_getcpuclockid(3)).
    fn cpu_s(&self) -> f64 {
        let taken = self.taken.borrow();
        let pids = taken.listed.iter().flat_map(|(_, tree)| &tree.pids);
        let used = pids.filter_map(|pid| {
            let clock = clock_getcpuclockid(Pid::from_raw(*pid)).ok()?;
            Some(Duration::from(clock.now().ok()?).as_secs_f64())
        });
        used.sum()
    }
}

impl Turns for Seat {
    fn take(&self) -> Pin<Box<dyn Future<Output = Box<dyn Turn + '_>> + '_>> {
        Box::pin(async { Box::new(self.wait().await) as Box<dyn Turn> })
    }
}

impl Turn for Held<'_> {}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let cpu_s = self.seat.cpu_s();
        let mut taken = self.seat.taken.borrow_mut();
        taken.held += self.begun.elapsed();
        taken.cpu_s += (cpu_s - self.cpu_s).max(0.0);
    }
}
