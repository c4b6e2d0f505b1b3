//! Messages to callers, held back until the step is accounted for.
//!
//! Main type: [`Effects`]. Whoever hears that a request has ended finds its pages free and the counters
//! right. Refuses to know: why something is told.

use tokio::sync::mpsc::UnboundedSender;

use crate::request::Event;

#[derive(Default)]
pub struct Effects {
    told: Vec<(UnboundedSender<Event>, Event)>,
}

impl Effects {
    pub fn tell(&mut self, caller: &UnboundedSender<Event>, event: Event) {
        self.told.push((caller.clone(), event));
    }

    /// A caller that has gone is noticed at the next step.
    pub fn carry_out(self) {
        for (caller, event) in self.told {
            drop(caller.send(event));
        }
    }
}
