//! What every handler shares: the engine, the name it is served under, metrics, and the door.

use super::admission::Admission;
use super::chunks::Form;
use super::metrics::Metrics;
use super::wire::ApiError;
use crate::engine::Engine;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub(crate) struct App {
    pub(crate) engine: Engine,
    pub(crate) model: Arc<str>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) admission: Arc<Admission>,
    /// Unix seconds since when the model is served.
    pub(crate) since: u64,
    /// How long it took to listen.
    pub(crate) listening: Duration,
    answers: AtomicU64,
}

impl App {
    pub(crate) fn new(engine: Engine, listening: Duration) -> Self {
        Self {
            model: engine.model_info().name.as_str().into(),
            engine,
            metrics: Arc::new(Metrics::new()),
            admission: Admission::new(),
            since: unix_seconds(),
            listening,
            answers: AtomicU64::new(0),
        }
    }

    /// A request without a model means the one that is served.
    pub(crate) fn check_model(&self, asked: Option<&str>) -> Result<(), ApiError> {
        match asked {
            Some(asked) if asked != &*self.model => {
                Err(ApiError::model_not_found(asked, &self.model))
            }
            _ => Ok(()),
        }
    }

    /// Ready to answer, or the reason that it is not.
    pub(crate) fn check_health(&self) -> Result<(), ApiError> {
        if self.admission.is_closed() {
            return Err(ApiError::shutting_down());
        }
        if !self.engine.is_healthy() {
            return Err(self.engine_down());
        }
        Ok(())
    }

    pub(crate) fn engine_down(&self) -> ApiError {
        ApiError::engine_down("its worker thread has ended")
    }

    /// Unique within this process and, by the start's second, over restarts.
    pub(crate) fn next_id(&self, form: Form) -> String {
        let prefix = match form {
            Form::Completion => "cmpl",
            Form::Chat => "chatcmpl",
        };
        let number = self.answers.fetch_add(1, Ordering::Relaxed);
        format!("{prefix}-{:x}-{number}", self.since)
    }
}

pub(crate) fn unix_seconds() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}
