//! Waiting for an engine that starts: until it has generated a token, or will not.

use super::ports::{closed_but_for, ephemeral, is_open, opens, other_ports, ports};
use super::process::Process;
use super::tree;
use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::time::{Duration, Instant};
use tokio::time::{sleep, timeout};

/// The pause between two probes of a starting engine: 0.2 % of the time so far, and 1 ms at least. It is the error of the
/// start-up times. One that answers every probe by an error is asked some four thousand times in ten minutes.
fn pause(so_far: Duration) -> Duration {
    (so_far / 500).max(Duration::from_millis(1))
}

/// Messages of servers whose port is taken, in lower case.
const PORT_TAKEN: [&str; 4] = [
    "address already in use",
    "address in use",
    "eaddrinuse",
    // llama.cpp, which says no more.
    "couldn't bind http server socket",
];

/// Time for an engine to end by itself, or to load its model, once probes have found it hopeless.
const PATIENCE: Duration = Duration::from_secs(10);

/// The same where the engine itself listens, and no other server answers in its place.
const PATIENCE_AT_ITS_PORT: Duration = Duration::from_secs(2);

/// After this time a line says why an engine is not ready. While its port is closed, its other ports are looked at this often.
const LOOK: Duration = Duration::from_secs(20);

/// A look at other ports that takes longer finds none: the engine's end and the deadline are seen after it.
const PROBES: Duration = Duration::from_secs(5);

/// An engine that generates tokens at another port has this long, and three times as long as it took until then, to open its
/// own: a router may wait for workers that load one after another.
const ROUTER: Duration = Duration::from_secs(180);

/// Why an engine generated no token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotReady {
    pub said: String,
    /// When to give up if this answer repeats; `None`: at the deadline.
    pub patience: Option<Patience>,
}

/// When waiting for an engine is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// Waiting does not help.
    Hopeless,
    /// After this time.
    For(Duration),
}

/// Why an engine never became ready.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{detail}")]
pub struct StartError {
    pub detail: String,
    pub log_tail: String,
    /// The process was gone.
    pub ended: bool,
}

impl StartError {
    fn of(process: &Process, detail: String, ended: bool) -> Self {
        Self {
            detail,
            log_tail: process.log_tail(),
            ended,
        }
    }

    /// True if the engine ended, and its log says that its port was taken.
    fn says_its_port_is_taken(&self) -> bool {
        let log = self.log_tail.to_ascii_lowercase();
        self.ended && PORT_TAKEN.iter().any(|words| log.contains(words))
    }

    /// True if the engine ended because another process took its port, which was free when it was drawn. The log alone is
    /// not enough: the port must be in use although the engine is gone.
    pub fn lost_its_port(&self, port: u16) -> bool {
        self.says_its_port_is_taken() && TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_err()
    }

    /// The detail and the log's tail. An engine whose address was in use although `port` is free did not use `{port}`.
    pub fn told(self, port: u16) -> (String, String) {
        let is_another = self.says_its_port_is_taken() && !self.lost_its_port(port);
        let why = match is_another {
            true => format!(
                "; its log says that an address is in use, and port {port}, which it was given, is free: does `serve` hand \
                 `{{port}}` to the server, or is another of its ports taken?"
            ),
            false => String::new(),
        };
        (self.detail + &why, self.log_tail)
    }
}

/// When waiting for an engine ends, and when its ports are looked at.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    within: Duration,
    /// Other ports are looked at this often, and asked for a token.
    look: Duration,
    asks_others: bool,
    /// See [`ROUTER`].
    router: Duration,
}

impl Limits {
    /// An engine has this long to generate a token. One of which an earlier launch did so at its port is asked at no other.
    pub fn of(within: Duration, is_first: bool) -> Self {
        Self {
            within,
            look: LOOK,
            asks_others: is_first,
            router: ROUTER,
        }
    }
}

/// Moments of a start.
#[derive(Clone, Copy, Debug)]
pub struct Ready {
    pub spawned: Instant,
    pub port_open: Instant,
    /// The probe that was answered with a token was sent.
    pub asked: Instant,
    /// A token was generated.
    pub ready: Instant,
}

/// Waits until `probe` reports a token, the engine exits, the time is over, or the probes' patience runs out. An error carries
/// the last probe's message. `hear` is called after `LOOK`, once, with that message or the other ports that the engine
/// listens on, and when it generates a token at one of those.
pub async fn await_ready<F, Fut>(
    process: &mut Process,
    address: SocketAddr,
    limits: Limits,
    probe: F,
    hear: impl Fn(&str),
) -> Result<Ready, StartError>
where
    F: Fn(SocketAddr) -> Fut,
    Fut: Future<Output = Result<(), NotReady>>,
{
    let start = Starting {
        spawned: process.spawned(),
        process,
        address,
        limits,
        probe,
        hear,
        next_look: limits.look,
        port_open: None,
        said: None,
        given_up: None,
        is_told: false,
    };
    start.wait().await
}

/// An engine that starts, and what was seen of it.
struct Starting<'a, F, H> {
    process: &'a mut Process,
    address: SocketAddr,
    limits: Limits,
    probe: F,
    hear: H,
    spawned: Instant,
    /// Time from the spawn at which its ports are looked at again.
    next_look: Duration,
    port_open: Option<Instant>,
    /// The last probe's message.
    said: Option<String>,
    /// When the patience with such answers ends.
    given_up: Option<Instant>,
    /// `hear` was called.
    is_told: bool,
}

/// The result of a step.
enum Step {
    Ready(Ready),
    /// Something changed: the next step is due at once.
    Changed,
    NotYet,
}

impl<F, Fut, H> Starting<'_, F, H>
where
    F: Fn(SocketAddr) -> Fut,
    Fut: Future<Output = Result<(), NotReady>>,
    H: Fn(&str),
{
    async fn wait(mut self) -> Result<Ready, StartError> {
        while self.spawned.elapsed() < self.limits.within {
            match self.step().await? {
                Step::Ready(ready) => return Ok(ready),
                Step::Changed => {}
                Step::NotYet => sleep(pause(self.spawned.elapsed())).await,
            }
        }
        Err(self.too_late())
    }

    async fn step(&mut self) -> Result<Step, StartError> {
        self.refuse_ended()?;
        if self.port_open.is_none() && is_open(self.address).await {
            self.port_open = Some(Instant::now());
            (self.given_up, self.said) = (None, None);
        }
        if let Some(port_open) = self.port_open {
            match self.ask(port_open).await {
                Step::NotYet => {}
                step => return Ok(step),
            }
        }
        Ok(match self.spawned.elapsed() >= self.next_look {
            true => self.look().await,
            false => Step::NotYet,
        })
    }

    fn refuse_ended(&mut self) -> Result<(), StartError> {
        if let Some(status) = self.process.exited() {
            let detail = format!("the engine exited ({status})");
            return Err(StartError::of(self.process, detail, true));
        }
        // Another server may hold the port, and this engine end for want of it.
        if self.given_up.is_some_and(|at| Instant::now() >= at) {
            let said = self.said.take().unwrap_or_default();
            return Err(StartError::of(self.process, said, false));
        }
        Ok(())
    }

    /// Asks for a token at the engine's own port.
    async fn ask(&mut self, port_open: Instant) -> Step {
        let left = (self.limits.within).saturating_sub(self.spawned.elapsed());
        let asked = Instant::now();
        let answered = tokio::select! {
            answered = timeout(left, (self.probe)(self.address)) => answered,
            // Another process may hold the port and never answer.
            Ok(Some(_)) = self.process.wait(left) => return Step::Changed,
        };
        match answered {
            // Somebody else may have taken the port and answer there.
            Ok(Ok(())) if self.process.exited().is_none() => {
                return Step::Ready(Ready {
                    spawned: self.spawned,
                    port_open,
                    asked,
                    ready: Instant::now(),
                });
            }
            Ok(Err(answer)) => {
                let until = |patience| {
                    self.given_up.unwrap_or_else(|| {
                        Instant::now()
                            + match patience {
                                Patience::Hopeless => of_hopeless(self.process, self.address),
                                Patience::For(time) => time,
                            }
                    })
                };
                self.given_up = answer.patience.map(until);
                self.said = Some(answer.said);
            }
            // The deadline cuts the last probe off: what an earlier one was told says more.
            Ok(Ok(())) | Err(_) => {}
        }
        Step::NotYet
    }

    /// Looks at the engine's other ports, and tells what was heard so far.
    async fn look(&mut self) -> Step {
        if self.limits.asks_others && self.port_open.is_none() && self.given_up.is_none() {
            let answering = tokio::select! {
                port = timeout(PROBES, answering_port(self.process, self.address, &self.probe)) => port.ok().flatten(),
                // Its own port opens meanwhile.
                () = opens(self.address) => return Step::Changed,
            };
            if let Some(port) = answering {
                self.answers_at(port);
            }
        }
        if !self.is_told {
            let heard = match self.port_open {
                None => closed_but_for(self.process, self.address),
                Some(_) => self.said.clone(),
            };
            heard.iter().for_each(|heard| (self.hear)(heard));
            self.is_told = heard.is_some();
        }
        self.next_look = match self.port_open {
            None => self.spawned.elapsed() + self.limits.look,
            Some(_) => self.spawned.elapsed(),
        };
        Step::NotYet
    }

    /// It generates tokens at another port than the one that it was given.
    fn answers_at(&mut self, port: u16) {
        // A single process has no router to wait for.
        let patience = match tree::below(self.process.pid(), &[]).len() {
            0 | 1 => self.limits.look,
            _ => self.limits.router.max(3 * self.spawned.elapsed()),
        };
        self.given_up = Some(Instant::now() + patience);
        let detail = format!(
            "the engine generates tokens at port {port}, and nothing listens on {}, which it was given: does `serve` hand \
             `{{port}}` to the server?",
            self.address
        );
        (self.hear)(&detail);
        (self.is_told, self.said) = (true, Some(detail));
    }

    fn too_late(self) -> StartError {
        let said = self.said.unwrap_or_else(|| match self.port_open {
            None => closed_but_for(self.process, self.address)
                .unwrap_or_else(|| format!("nothing listens on {}", self.address)),
            Some(_) => "the probe got no answer".to_owned(),
        });
        let detail = format!(
            "the engine generated no token within {} s (engine.ready_timeout): {said}",
            self.limits.within.as_secs_f64()
        );
        StartError::of(self.process, detail, false)
    }
}

/// Another port of the engine at which it generates a token. Ports in the range from which the kernel chooses are not asked:
/// over those parts of an engine speak to each other.
async fn answering_port<F, Fut>(process: &Process, address: SocketAddr, probe: &F) -> Option<u16>
where
    F: Fn(SocketAddr) -> Fut,
    Fut: Future<Output = Result<(), NotReady>>,
{
    let chosen = ephemeral();
    let ports = other_ports(process, address).into_iter();
    for port in ports.filter(|port| !chosen.contains(port)) {
        if probe(SocketAddr::new(address.ip(), port)).await.is_ok() {
            return Some(port);
        }
    }
    None
}

/// The time for which hopeless answers from `address` are tolerated.
fn of_hopeless(process: &Process, address: SocketAddr) -> Duration {
    match ports(process).contains(&address.port()) {
        true => PATIENCE_AT_ITS_PORT,
        false => PATIENCE,
    }
}

#[cfg(test)]
mod tests {
    use super::{Limits, NotReady, Patience, StartError, await_ready, ephemeral};
    use crate::launch::{Process, Start, free_port};
    use std::cell::Cell;
    use std::future::Future;
    use std::net::{Ipv4Addr, SocketAddr, TcpListener};
    use std::time::Duration;

    /// Why an engine of this command is not ready, at an address where `probe` is what happens.
    fn started<F, Fut>(
        command: &[&str],
        address: SocketAddr,
        limits: Limits,
        probe: F,
    ) -> StartError
    where
        F: Fn(SocketAddr) -> Fut,
        Fut: Future<Output = Result<(), NotReady>>,
    {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let folder = tempfile::tempdir().unwrap();
        let command: Vec<String> = command.iter().map(|&word| word.to_owned()).collect();
        let error = runtime.block_on(async {
            let mut process = Process::spawn(&Start {
                command: &command,
                env: &[],
                folder: folder.path(),
                log: &folder.path().join("log"),
                policy: None,
            })
            .unwrap();
            await_ready(&mut process, address, limits, probe, |_| ()).await
        });
        error.err().unwrap()
    }

    /// … at a port that somebody else holds: its first probe gets an error; later ones get no answer, unless there is a
    /// patience.
    fn probed(command: &[&str], within: Duration, patience: Option<Patience>) -> StartError {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let asked = &Cell::new(0);
        let probe = |_| async move {
            asked.set(asked.get() + 1);
            if asked.get() > 1 && patience.is_none() {
                std::future::pending::<()>().await;
            }
            Err(NotReady {
                said: "the worker is dead".to_owned(),
                patience,
            })
        };
        let limits = Limits::of(within, true);
        started(command, listener.local_addr().unwrap(), limits, probe)
    }

    /// Why an engine is given up that answers at this port, and at none other.
    fn at_another(port: u16) -> StartError {
        let python = "import socket, sys, time; s = socket.create_server(('127.0.0.1', int(sys.argv[1]))); time.sleep(60)";
        let command = ["python3", "-c", python, &port.to_string()];
        let address = (Ipv4Addr::LOCALHOST, free_port().unwrap()).into();
        let limits = Limits {
            look: Duration::from_millis(50),
            within: Duration::from_secs(20),
            asks_others: true,
            router: Duration::from_millis(100),
        };
        started(&command, address, limits, |asked| async move {
            assert_eq!(asked.port(), port);
            Ok(())
        })
    }

    /// One test: the end of a process takes with it all that this one started.
    #[test]
    fn waiting_ends_with_the_deadline_the_engine_or_the_patience() {
        // A probe that hangs does not hide what the engine said before.
        let error = probed(&["sleep", "60"], Duration::from_secs(1), None);
        assert!(
            error.detail.ends_with("the worker is dead"),
            "{}",
            error.detail
        );
        let patience = Some(Patience::For(Duration::from_millis(200)));
        let error = probed(&["sleep", "60"], Duration::MAX, patience);
        assert_eq!(error.detail, "the worker is dead");
        let error = probed(&["sh", "-c", "sleep 0.2; exit 7"], Duration::MAX, None);
        assert!(error.ended);
        assert_eq!(error.detail, "the engine exited (exit status: 7)");
        // Where the kernel chooses among all ports, none is asked.
        let mut ports = 1_024..*ephemeral().start();
        if let Some(port) = ports.find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()) {
            let error = at_another(port);
            let told = format!("the engine generates tokens at port {port}, and nothing");
            assert!(error.detail.starts_with(&told), "{}", error.detail);
        }
    }

    #[test]
    fn a_lost_port_is_told_from_an_engine_that_dies() {
        let lost = |log: &str, ended| {
            let error = StartError {
                detail: String::new(),
                log_tail: log.into(),
                ended,
            };
            error.says_its_port_is_taken()
        };
        assert!(lost("error: Address already in use (os error 98)", true));
        assert!(lost("OSError: [Errno 98] EADDRINUSE", true));
        let llama = "start: couldn't bind HTTP server socket, hostname: 127.0.0.1, port: 8080";
        assert!(lost(llama, true));
        assert!(!lost("error: out of memory", true));
        // It lives on: it may try again, or the line is about something else.
        assert!(!lost("metrics: address already in use", false));
    }
}
