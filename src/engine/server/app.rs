//! State that all handlers share: engine, model name, limits, metrics, admission.

use super::Limits;
use super::admission::Admission;
use super::chunks::Form;
use super::metrics::Metrics;
use super::wire::ApiError;
use crate::{Engine, Health};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::available_parallelism;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::Semaphore;

pub struct App {
    pub engine: Arc<Engine>,
    pub model: Arc<str>,
    pub metrics: Arc<Metrics>,
    pub admission: Arc<Admission>,
    pub limits: Limits,
    /// Places to tokenise long texts, one a core: more at once would only take the engine's time.
    pub long_texts: Arc<Semaphore>,
    /// Unix seconds since when the model is served.
    pub since: u64,
    /// How long it took to listen.
    pub listening: Duration,
    answers: AtomicU64,
}

impl App {
    pub fn new(engine: Arc<Engine>, limits: Limits, listening: Duration) -> Self {
        Self {
            model: engine.model_info().name.as_str().into(),
            engine,
            metrics: Arc::new(Metrics::new()),
            admission: Admission::new(),
            limits,
            long_texts: Arc::new(Semaphore::new(cores())),
            since: unix_seconds(),
            listening,
            answers: AtomicU64::new(0),
        }
    }

    /// A request without a model means the one that is served.
    pub fn check_model(&self, asked: Option<&str>) -> Result<(), ApiError> {
        match asked {
            Some(asked) if asked != &*self.model => {
                Err(ApiError::model_not_found(asked, &self.model))
            }
            _ => Ok(()),
        }
    }

    /// Takes new work, or the reason that it does not.
    pub fn check_ready(&self) -> Result<(), ApiError> {
        if self.admission.is_closed() {
            return Err(ApiError::shutting_down());
        }
        self.check_alive()
    }

    /// The engine gets on, or the reason that it does not. Says nothing of whether new work is taken.
    pub fn check_alive(&self) -> Result<(), ApiError> {
        match self.engine.health() {
            Health::Well => Ok(()),
            Health::Stalled(step) => {
                let detail = format!("a step has taken {:.1} s so far", step.as_secs_f64());
                Err(ApiError::engine_down(&detail))
            }
            Health::Ended => Err(ApiError::engine_down("it has ended")),
            Health::Died(why) => Err(ApiError::engine_died(&why)),
        }
    }

    /// Unique within this process and, by the start's second, over restarts.
    pub fn next_id(&self, form: Form) -> String {
        let prefix = match form {
            Form::Completion => "cmpl",
            Form::Chat => "chatcmpl",
        };
        let number = self.answers.fetch_add(1, Ordering::Relaxed);
        format!("{prefix}-{:x}-{number}", self.since)
    }
}

/// At least 2, so that one long text does not hold up all others.
fn cores() -> usize {
    available_parallelism().map_or(2, |cores| cores.get().max(2))
}

pub fn unix_seconds() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}
