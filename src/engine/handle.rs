//! The engine as the outside holds it: start, submit, look, shut down.
//!
//! Main type: [`Engine`]. The worker thread behind it owns the network and the cache; the two share a
//! queue and counters. Refuses to know: how a request is computed.

use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::backend::cuda::times::KernelTimes;
use super::config::Config;
use super::device_choice::Compute;
use super::files::{Files, ModelSource};
use super::loader::{SyntheticWeights, Weights};
use super::options::Options;
use super::request::{Event, Request, ascending};
use super::scheduler::{self, Pending, Refusal, Setup, Shared};
use super::startup::{ModelInfo, Stage, StartError, timed};
use super::stats::Stats;
use super::text::chat::{ChatTemplate, TemplateError};
use super::text::guide::{AnswerForm, Guide, GuideError, Guides};
use super::text::stop::StopText;
use super::text::tokenizer::{Tokenizer, TokenizerError};
use super::weights::Checkpoint;

/// The most alternatives that a request may ask for at one position.
pub const MAX_LOGPROBS: u32 = 20;

/// Whether the worker gets on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    Well,
    /// The step in progress has taken so long.
    Stalled(Duration),
    /// The worker has ended, as it was asked to.
    Ended,
    /// The worker has ended, of this: a panic, or a GPU that is lost.
    Died(String),
}

/// The engine did not take a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    #[error("the prompt is empty")]
    EmptyPrompt,
    #[error(
        "{prompt} prompt tokens and {max_tokens} to generate are more than the {max} that this engine's context holds"
    )]
    TooLong {
        prompt: usize,
        max_tokens: usize,
        max: usize,
    },
    #[error("token id {id} is outside the vocabulary of {vocab}")]
    TokenOutOfRange { id: u32, vocab: usize },
    #[error("{0}")]
    Unsupported(String),
    #[error("the queue is full: {waiting} requests wait")]
    QueueFull { waiting: usize },
    #[error("the engine is shutting down")]
    ShuttingDown,
    #[error("the engine's worker has died: {0}")]
    Dead(String),
}

/// A running engine. Share it by `Arc`; dropping it shuts it down without waiting.
pub struct Engine {
    shared: Arc<Shared>,
    worker: Mutex<Option<JoinHandle<()>>>,
    tokenizer: Tokenizer,
    chat: Result<ChatTemplate, TemplateError>,
    /// Made when the first answer is guided: it takes a large vocabulary a second.
    guides: OnceLock<Result<Guides, GuideError>>,
    info: ModelInfo,
    startup: Vec<Stage>,
    no_cuda: Option<String>,
    not_kept: Option<String>,
    stall_after: Duration,
}

impl Engine {
    /// Loads the model and answers when it is warm. `observer` hears of each stage as it ends.
    pub fn start(options: Options, observer: &mut dyn FnMut(Stage)) -> Result<Self, StartError> {
        let mut startup = Vec::new();
        let mut report = |stage: Stage| {
            startup.push(stage);
            observer(stage);
        };
        let files = Files::open(&options.model)?;
        let config = timed("config", &mut report, || Config::load(&files))?;
        if options.faults.die_at_start {
            return Err(StartError::PlantedDeath);
        }
        if let Some(longer) = options.faults.slow_start {
            std::thread::sleep(longer);
        }
        let (tokenizer, chat) = timed("tokenizer", &mut report, || {
            let tokenizer = Tokenizer::load(&files, config.vocab)?;
            let tokenizer = match options.model {
                ModelSource::Synthetic(_) => tokenizer.speaking_for_all(),
                ModelSource::Directory(_) | ModelSource::Embedded => tokenizer,
            };
            Ok::<_, TokenizerError>((tokenizer, ChatTemplate::load(&files)))
        })?;
        let weights = match options.model {
            ModelSource::Synthetic(model) => {
                Weights::Synthetic(SyntheticWeights::new(model, &config))
            }
            ModelSource::Directory(_) | ModelSource::Embedded => {
                let mapped = timed("weights_map", &mut report, || Checkpoint::open(&files))?;
                Weights::Stored(mapped)
            }
        };
        let name = options
            .served_name
            .clone()
            .unwrap_or_else(|| default_name(&options.model));
        let (choice, element) = (&options.backend, weights.dtype().into());
        let (compute, no_cuda) = Compute::choose(choice, &config, element, &mut report)?;
        let not_kept = compute.not_kept().map(str::to_owned);
        let setup = Setup::new(config, weights, name, compute.ground(), &options)?;
        let shared = Arc::new(Shared::new(options.queue_limit.max(1)));
        let (worker, info) =
            start_worker(setup, compute, options.kernel_times, &shared, &mut report)?;
        Ok(Self {
            shared,
            worker: Mutex::new(Some(worker)),
            tokenizer,
            chat,
            guides: OnceLock::new(),
            info,
            startup,
            no_cuda,
            not_kept,
            stall_after: options.stall_after,
        })
    }

    /// Queues a request. Dropping the receiver cancels it: its place and its pages are free when the step
    /// in progress ends.
    pub fn submit(&self, request: Request) -> Result<UnboundedReceiver<Event>, SubmitError> {
        let (pending, receiver) = self.pending(request)?;
        self.push(vec![pending])?;
        Ok(receiver)
    }

    /// Queues all of these or none.
    pub fn submit_all(
        &self,
        requests: Vec<Request>,
    ) -> Result<Vec<UnboundedReceiver<Event>>, SubmitError> {
        let pending: Vec<_> = requests
            .into_iter()
            .map(|request| self.pending(request))
            .collect::<Result<_, _>>()?;
        let (pending, receivers) = pending.into_iter().unzip();
        self.push(pending)?;
        Ok(receivers)
    }

    /// Queues a request that belongs to one which was taken, whatever the queue's limit.
    pub fn submit_beside(&self, request: Request) -> Result<UnboundedReceiver<Event>, SubmitError> {
        let (pending, receiver) = self.pending(request)?;
        let pushed = self.shared.queue.push_beside(pending);
        pushed.map_err(|_| self.gone())?;
        Ok(receiver)
    }

    fn pending(
        &self,
        request: Request,
    ) -> Result<(Pending, UnboundedReceiver<Event>), SubmitError> {
        self.check(&request)?;
        let request = orderly(request);
        let (caller, receiver) = unbounded_channel();
        let stop = match request.stop.is_empty() {
            true => None,
            false => Some(StopText::new(&self.tokenizer, request.stop.clone())),
        };
        let pending = Pending {
            request,
            stop,
            caller,
            submitted: Instant::now(),
        };
        Ok((pending, receiver))
    }

    fn push(&self, pending: Vec<Pending>) -> Result<(), SubmitError> {
        match self.shared.queue.push(pending) {
            Ok(()) => Ok(()),
            Err(Refusal::Full) => Err(SubmitError::QueueFull {
                waiting: self.shared.queue.waiting(),
            }),
            Err(Refusal::Closed) => Err(self.gone()),
        }
    }

    /// Whether the worker gets on.
    pub fn health(&self) -> Health {
        if !self.shared.is_alive() {
            let death = self.shared.death();
            return death.map_or(Health::Ended, |why| Health::Died(why.to_owned()));
        }
        match self.shared.pulse.since_beat() {
            Some(time) if time > self.stall_after => Health::Stalled(time),
            _ => Health::Well,
        }
    }

    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// `Err` where the model brings no template, or one that cannot be read.
    pub fn chat_template(&self) -> Result<&ChatTemplate, &TemplateError> {
        self.chat.as_ref()
    }

    /// A guide to an answer of this form.
    ///
    /// # Errors
    /// A tokenizer that cannot guide, and a form that is none.
    pub fn guide(&self, form: AnswerForm) -> Result<Guide, GuideError> {
        let ModelInfo {
            eos, vocab_size, ..
        } = &self.info;
        let guides = || Guides::new(&self.tokenizer, eos, *vocab_size);
        let guides = self.guides.get_or_init(guides);
        guides.as_ref().map_err(Clone::clone)?.guide(form)
    }

    /// Why it computes on the CPU, where a GPU would have been taken.
    pub fn no_cuda(&self) -> Option<&str> {
        self.no_cuda.as_deref()
    }

    /// Why kernels that were compiled now have to be compiled again at the next start.
    pub fn kernels_not_kept(&self) -> Option<&str> {
        self.not_kept.as_deref()
    }

    pub fn model_info(&self) -> &ModelInfo {
        &self.info
    }

    pub fn stats(&self) -> Stats {
        self.shared
            .counters
            .snapshot(self.shared.queue.waiting() as u64, &self.startup)
    }

    /// Refuses new work; what runs and what waits is still answered. Of a request whose siblings
    /// ([`Engine::submit_beside`]) are still to come, those may find the engine gone.
    pub fn shutdown(&self) {
        self.shared.queue.close();
    }

    /// Waits until the worker has ended: call [`Engine::shutdown`] first. Blocks the thread.
    pub fn join(&self) {
        let worker = self
            .worker
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(worker) = worker {
            // A panic of the worker was already turned into failed requests and a bad health.
            drop(worker.join());
        }
    }

    /// Shuts down and waits until the worker has ended and given back what it held, but no longer than `limit`.
    pub fn end(self: Arc<Self>, limit: Duration) {
        self.shutdown();
        let (ended, wait) = mpsc::channel::<()>();
        std::thread::spawn(move || {
            self.join();
            drop(ended);
        });
        // The channel closes, or the time is over.
        let _ = wait.recv_timeout(limit);
    }

    fn check(&self, request: &Request) -> Result<(), SubmitError> {
        let (vocab, max) = (self.info.vocab_size, self.info.max_context);
        let (prompt, max_tokens) = (request.prompt.len(), request.max_tokens as usize);
        if prompt == 0 {
            return Err(SubmitError::EmptyPrompt);
        }
        if prompt.saturating_add(max_tokens) > max {
            return Err(SubmitError::TooLong {
                prompt,
                max_tokens,
                max,
            });
        }
        let sampling = &request.sampling;
        let biased = sampling.bias.iter().map(|(id, _)| *id);
        let named = sampling.allowed.iter().chain(&request.stop_ids).copied();
        let mut ids = request.prompt.iter().copied().chain(biased).chain(named);
        if let Some(id) = ids.find(|id| *id as usize >= vocab) {
            return Err(SubmitError::TokenOutOfRange { id, vocab });
        }
        if request.logprobs.is_some_and(|top| top > MAX_LOGPROBS) {
            return Err(SubmitError::Unsupported(format!(
                "more than {MAX_LOGPROBS} log-probabilities a token"
            )));
        }
        if request.min_tokens > 0 && self.every_token_ends(request) {
            return Err(SubmitError::Unsupported(
                "min_tokens, where every token ends the answer".to_owned(),
            ));
        }
        Ok(())
    }

    /// Of the ids that may be chosen, none is left before `min_tokens`.
    fn every_token_ends(&self, request: &Request) -> bool {
        let ends = ascending([&self.info.eos[..], &request.stop_ids].concat());
        let ends = |id: &u32| ends.binary_search(id).is_ok();
        let allowed = &request.sampling.allowed;
        match allowed.is_empty() {
            true => (0..self.info.vocab_size as u32).all(|id| ends(&id)),
            false => allowed.iter().all(ends),
        }
    }

    fn gone(&self) -> SubmitError {
        match self.shared.death() {
            Some(why) => SubmitError::Dead(why.to_owned()),
            None => SubmitError::ShuttingDown,
        }
    }
}

/// Lists of ids ascending.
fn orderly(mut request: Request) -> Request {
    for ids in [&mut request.stop_ids, &mut request.sampling.allowed] {
        *ids = ascending(std::mem::take(ids));
    }
    request
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.shutdown();
    }
}

fn start_worker(
    setup: Setup,
    compute: Compute,
    times: Option<Arc<KernelTimes>>,
    shared: &Arc<Shared>,
    report: &mut dyn FnMut(Stage),
) -> Result<(JoinHandle<()>, ModelInfo), StartError> {
    let (sender, receiver) = mpsc::channel();
    let worker = std::thread::Builder::new()
        .name("engine".to_owned())
        .spawn({
            let shared = Arc::clone(shared);
            move || scheduler::work(setup, compute, times, &shared, sender)
        })
        .map_err(StartError::Thread)?;
    for progress in receiver {
        match progress {
            scheduler::Progress::Stage(stage) => report(stage),
            scheduler::Progress::Ready(info) => return Ok((worker, *info)),
            scheduler::Progress::Failed(error) => return Err(error),
        }
    }
    Err(StartError::WorkerGone)
}

fn default_name(model: &ModelSource) -> String {
    let path = match model {
        ModelSource::Directory(path) => path,
        ModelSource::Embedded => return super::embedded::NAME.to_owned(),
        ModelSource::Synthetic(model) => return model.name().to_owned(),
    };
    let named = |path: &Path| {
        path.file_name()
            .map(|name| name.to_string_lossy().into_owned())
    };
    named(path)
        .or_else(|| path.canonicalize().ok().and_then(|path| named(&path)))
        .unwrap_or_else(|| "model".to_owned())
}
