//! Interface of a network for the scheduler.
//!
//! Main type: the trait [`Executor`]. The scheduler's tests put another in the network's place. Refuses to
//! know: what is computed.

use super::backend::{Ask, BackendError, Batch, NotANumber, Recordings, SampledToken};
use super::kv::{Copy, StateId};

/// A question about the token that follows a row of the batch.
#[derive(Clone, Copy, Debug)]
pub struct RowAsk<'a> {
    pub row: usize,
    pub ask: Ask<'a>,
}

/// One answer an ask, in order.
pub type Answers = Vec<Result<SampledToken, NotANumber>>;

pub trait Executor {
    /// Computes the batch, leaves its keys and values in its pages, and answers each ask.
    fn forward(&mut self, batch: &Batch<'_>, asks: &[RowAsk<'_>]) -> Result<Answers, BackendError>;

    /// Copies a page's keys and values.
    fn copy_page(&mut self, copy: Copy) -> Result<(), BackendError>;

    /// Copies a recurrent state. A model that has none is never asked.
    fn copy_state(&mut self, _from: StateId, _to: StateId) -> Result<(), BackendError> {
        Ok(())
    }

    /// Asked after an error: whether what computes is gone, so that no later call can do better.
    fn is_lost(&mut self) -> bool {
        false
    }

    /// Of parts of a step, since the start.
    fn recordings(&self) -> Recordings {
        Recordings::default()
    }
}
