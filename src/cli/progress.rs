//! What happens, on standard error: a bar with the time left in a terminal, a line an event elsewhere.

use super::output;
use crate::measure;
use crate::pipeline::Event;
use crate::record::{Comparison, RunVerdict, Verdict};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::cell::{Cell, RefCell};
use std::io::{IsTerminal, stderr};
use std::time::{Duration, Instant};

const TICK: Duration = Duration::from_millis(120);

/// How often a line tells of progress where no bar can be drawn.
const LINE_EVERY: Duration = Duration::from_secs(10);

pub(super) struct Progress {
    bar: ProgressBar,
    /// Lines are printed only where no bar can be drawn.
    is_terminal: bool,
    begun: Cell<Instant>,
    budget: Cell<Duration>,
    /// When the last line about progress was printed.
    told: Cell<Instant>,
    last_line: RefCell<String>,
}

impl Progress {
    pub(super) fn new() -> Self {
        let is_terminal = stderr().is_terminal();
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        Self {
            bar,
            is_terminal,
            begun: Cell::new(Instant::now()),
            budget: Cell::new(Duration::ZERO),
            told: Cell::new(Instant::now()),
            last_line: RefCell::default(),
        }
    }

    pub(super) fn show(&self, event: &Event) {
        match event {
            Event::Building { what } => self.wait(&format!("building {what}")),
            Event::Built { what, seconds } if *seconds > 0.0 => {
                self.line(&format!("built {what} in {seconds:.0} s"));
            }
            Event::Built { what, .. } => self.line(&format!("{what} was built by an earlier run")),
            Event::Measuring {
                comparison,
                blocks,
                budget,
            } => self.measuring(*comparison, *blocks, *budget),
            Event::Progress(progress) => self.progress(progress),
            Event::Looked { blocks, verdict } => self.looked(*blocks, verdict),
        }
    }

    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }

    /// Work of unknown length: a spinner with the time that it has taken.
    fn wait(&self, what: &str) {
        if !self.is_terminal {
            return self.line(what);
        }
        self.bar.set_style(style("{spinner} {msg}, {elapsed}"));
        self.bar.reset_elapsed();
        self.bar.set_message(what.to_owned());
        self.bar.enable_steady_tick(TICK);
    }

    fn measuring(&self, comparison: Comparison, blocks: u32, budget: Duration) {
        let arms = match comparison {
            Comparison::Interleaved | Comparison::SameBuild => 2,
            Comparison::Stored | Comparison::Alone => 1,
        };
        self.begun.set(Instant::now());
        self.budget.set(budget);
        self.line(&format!(
            "measuring: at most {blocks} blocks of {arms} launches"
        ));
        self.bar.disable_steady_tick();
        self.bar.set_style(style("[{bar:24}] {msg}"));
        self.bar.set_length(u64::from(blocks * arms));
        self.bar.set_position(0);
    }

    fn progress(&self, progress: &measure::Progress) {
        let (position, text) = match progress {
            measure::Progress::Starting { arm, position } => {
                (*position, format!("{}: starting", arm.name()))
            }
            measure::Progress::Running {
                arm,
                position,
                workload,
                done,
                of,
            } => (*position, format!("{}: {workload} {done}/{of}", arm.name())),
        };
        if self.is_terminal {
            self.bar.set_position(u64::from(position));
            self.bar
                .set_message(format!("{text}, {}", self.time_left(position)));
        } else if self.told.get().elapsed() >= LINE_EVERY {
            self.told.set(Instant::now());
            self.line(&format!("{text}, {}", self.time_left(position)));
        }
    }

    /// The time until the cap at the pace so far, or until the budget ends; a verdict may come earlier.
    fn time_left(&self, launches_done: u32) -> String {
        let spent = self.begun.get().elapsed();
        let mut left = self.budget.get().saturating_sub(spent).as_secs_f64();
        if let Some(total) = self.bar.length().filter(|_| launches_done > 0) {
            let done = f64::from(launches_done);
            #[expect(clippy::cast_precision_loss, reason = "a count of launches")]
            let at_pace = (total as f64 - done) * spent.as_secs_f64() / done;
            left = left.min(at_pace.max(0.0));
        }
        format!("at most {left:.0} s left")
    }

    fn looked(&self, blocks: u32, verdict: &RunVerdict) {
        let undecided = verdict
            .gates
            .iter()
            .flat_map(|gate| &gate.checks)
            .filter(|check| check.verdict == Verdict::Inconclusive)
            .count();
        if undecided == 0 {
            self.line(&format!("block {blocks}: every check is decided"));
        } else {
            self.line(&format!("block {blocks}: {undecided} checks undecided"));
        }
    }

    /// A line that stays, once.
    fn line(&self, text: &str) {
        if self.last_line.replace(text.to_owned()) == text {
            return;
        }
        self.bar.suspend(|| output::note(text));
    }
}

/// A template of ours is right by test; indicatif's default is the fallback.
fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

#[cfg(test)]
mod tests {
    use indicatif::ProgressStyle;

    #[test]
    fn the_templates_are_right() {
        for template in ["{spinner} {msg}, {elapsed}", "[{bar:24}] {msg}"] {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
        }
    }
}
