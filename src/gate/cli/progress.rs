//! Progress on standard error: a bar in a terminal, a line per event elsewhere.

use super::output;
use crate::measure;
use crate::report::numbers;
use crate::selftest::Row;
use crate::session::Event;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::cell::{Cell, RefCell};
use std::io::{IsTerminal, stderr};
use std::time::{Duration, Instant};
use verdict::plural::count;
use verdict::record::{Arm, CheckVerdict, Comparison, RunVerdict, Verdict};

const TICK: Duration = Duration::from_millis(120);

/// How often a line tells of progress where no bar can be drawn.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// Most checks that have a line of their own below the bar; of more, those that are not decided.
const CHECKS: usize = 12;

pub struct ProgressLines {
    all: MultiProgress,
    bar: ProgressBar,
    /// One for each check, below the bar.
    checks: RefCell<Vec<ProgressBar>>,
    /// Lines are printed only where no bar can be drawn.
    is_terminal: bool,
    begun: Cell<Instant>,
    /// Launches of an earlier session that are kept.
    kept: Cell<u32>,
    /// What was done when the launch that runs began.
    pace: Cell<Pace>,
    /// `None` where no time ends what is measured.
    budget: Cell<Option<Duration>>,
    /// When the last line about progress was printed.
    told: Cell<Instant>,
    last_line: RefCell<String>,
}

impl Default for ProgressLines {
    fn default() -> Self {
        let is_terminal = stderr().is_terminal() && !output::is_quiet();
        let target = match is_terminal {
            true => ProgressDrawTarget::stderr(),
            false => ProgressDrawTarget::hidden(),
        };
        let all = MultiProgress::with_draw_target(target);
        let bar = all.add(ProgressBar::no_length());
        Self {
            all,
            bar,
            checks: RefCell::default(),
            is_terminal,
            begun: Cell::new(Instant::now()),
            kept: Cell::new(0),
            pace: Cell::default(),
            budget: Cell::new(None),
            told: Cell::new(Instant::now()),
            last_line: RefCell::default(),
        }
    }
}

impl ProgressLines {
    pub fn show(&self, event: &Event) {
        match event {
            Event::Building { what } if self.is_terminal => self.wait(&format!("building {what}")),
            Event::Building { what } => {
                self.line(&format!("building {what} (its log is in .gate/logs)"));
            }
            Event::Built { what, seconds } if *seconds > 0.0 => {
                self.line(&format!("built {what} in {seconds:.0} s"));
            }
            Event::Built { what, .. } => self.line(&format!("using the earlier build of {what}")),
            Event::Resumed {
                launches,
                elapsed,
                is_cut_off,
            } => self.resumed(*launches, *elapsed, *is_cut_off),
            Event::Measuring {
                comparison,
                blocks,
                budget,
            } => self.measuring(*comparison, *blocks, *budget),
            Event::Session { number, of } => self.line(&format!("session {number} of {of}")),
            Event::SessionDone {
                number,
                of,
                verdict,
            } => self.line(&format!("session {number} of {of}: {}", verdict.name())),
            Event::Engine { name, round } => {
                self.line(&format!("round {}: launching {name}", round + 1));
            }
            Event::Step { line } => self.line(line),
            Event::Planting { what, number, of } => {
                self.wait(&format!("{number} of {of}: {what}"));
            }
            Event::Planted(row) => self.line(&planted(row)),
            Event::Progress(progress) => self.progress(progress),
            Event::Looked { blocks, verdict } => self.looked(*blocks, verdict),
        }
    }

    pub fn finish(&self) {
        self.bar.finish_and_clear();
        for line in self.checks.take() {
            line.finish_and_clear();
        }
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

    fn resumed(&self, launches: u32, elapsed: Duration, is_cut_off: bool) {
        self.kept.set(launches);
        let again = if is_cut_off {
            "; the interrupted launch runs again"
        } else {
            ""
        };
        self.line(&format!(
            "resuming after {} ({:.0} s){again}",
            count(launches, "launch"),
            elapsed.as_secs_f64()
        ));
    }

    fn measuring(&self, comparison: Comparison, blocks: u32, budget: Duration) {
        let arms = comparison.arms().len() as u64;
        self.begun.set(Instant::now());
        self.budget.set(Some(budget));
        self.pace.set(Pace::default());
        let limit = at_most(budget).map_or_else(String::new, |limit| format!(", {limit}"));
        self.line(&format!(
            "measuring: up to {} of {}{limit}",
            count(blocks, "block"),
            count(arms, "launch")
        ));
        self.bar.disable_steady_tick();
        self.bar.set_style(style("[{bar:16}] {elapsed} {wide_msg}"));
        self.bar.reset_elapsed();
        self.bar.set_length(u64::from(blocks) * arms);
        self.bar.set_position(0);
    }

    fn progress(&self, progress: &measure::Progress) {
        let (position, text) = match progress {
            measure::Progress::Starting { arm, position } => {
                (*position, format!("{}: starting", arm.name()))
            }
            measure::Progress::Resting {
                arm,
                position,
                waited,
                left,
            } => (*position, resting(*arm, *waited, *left)),
            measure::Progress::Testing {
                arm,
                position,
                workload,
            } => (*position, format!("{}: {workload}", arm.name())),
            measure::Progress::Running {
                arm,
                position,
                workload,
                done,
                of,
            } => (*position, format!("{}: {workload} {done}/{of}", arm.name())),
        };
        let text = text + &self.time_left(position);
        if self.is_terminal {
            self.bar.set_position(u64::from(position));
            self.bar.set_message(text);
        } else if self.told.get().elapsed() >= LINE_EVERY {
            self.told.set(Instant::now());
            self.line(&text);
        }
    }

    /// The time until the cap at the pace of the finished launches, or until the budget ends; a verdict may come earlier.
    fn time_left(&self, launches_done: u32) -> String {
        let spent = self.begun.get().elapsed();
        let Some(budget) = self.budget.get() else {
            return String::new();
        };
        let done = launches_done.saturating_sub(self.kept.get());
        if self.pace.get().done != done {
            self.pace.set(Pace { done, took: spent });
        }
        let total = self.bar.length().unwrap_or_default();
        let ahead = total.saturating_sub(u64::from(launches_done));
        let by_pace = self.pace.get().left(ahead, spent);
        let left = by_pace.map(|left| left.min(budget.saturating_sub(spent)));
        let left = left.and_then(at_most);
        left.map_or_else(String::new, |left| format!(", {left} left"))
    }

    /// Shows each check's verdict by now: in a terminal below the bar, elsewhere in one line.
    fn looked(&self, blocks: u32, verdict: &RunVerdict) {
        let checks: Vec<&CheckVerdict> = verdict.gates.iter().flat_map(|g| &g.checks).collect();
        if !self.is_terminal {
            return self.line(&standing(blocks, &checks));
        }
        let is_open = |check: &&&CheckVerdict| check.verdict != Verdict::Pass;
        let shown: Vec<&CheckVerdict> = match checks.len() > CHECKS {
            true => checks
                .iter()
                .filter(is_open)
                .take(CHECKS)
                .copied()
                .collect(),
            false => checks,
        };
        let width = shown.iter().map(|check| check.id.chars().count()).max();
        let mut lines = self.checks.borrow_mut();
        let there = lines.len();
        for line in lines.drain(shown.len().min(there)..) {
            line.finish_and_clear();
        }
        while lines.len() < shown.len() {
            let line = self
                .all
                .add(ProgressBar::no_length().with_style(style("{msg}")));
            lines.push(line);
        }
        for (line, check) in lines.iter().zip(shown) {
            let (width, change) = (width.unwrap_or(0), numbers::change(check));
            let (id, word) = (&check.id, so_far(check));
            line.set_message(format!("  {id:<width$}  {change:<24}  {word}"));
        }
    }

    /// A line that stays, once.
    fn line(&self, text: &str) {
        if self.last_line.replace(text.to_owned()) == text {
            return;
        }
        self.all.suspend(|| output::note(text));
    }
}

/// `at most 12 s`; `None` for less than half a second.
fn at_most(time: Duration) -> Option<String> {
    (time.as_secs_f64() >= 0.5).then(|| format!("at most {}", about(time)))
}

/// `12 s`, `4 min`.
fn about(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds < 90.0 {
        true => format!("{seconds:.0} s"),
        false => format!("{:.0} min", seconds / 60.0),
    }
}

/// A check's verdict by now, in a word or two.
fn so_far(check: &CheckVerdict) -> String {
    match check.verdict {
        Verdict::Inconclusive => "open".to_owned(),
        Verdict::Invalid => format!("invalid: {}", check.reason.rule.name()),
        _ => check.word().to_owned(),
    }
}

/// `block 4: 5 of 6 checks are decided; tpot/regression: fail +6.0 % [+5.5, +6.5]`.
fn standing(blocks: u32, checks: &[&CheckVerdict]) -> String {
    let is_open = |check: &&&CheckVerdict| check.verdict == Verdict::Inconclusive;
    let open = checks.iter().filter(is_open).count();
    let mut text = match open {
        0 => format!("block {blocks}: every check is decided"),
        _ => {
            let all = count(checks.len(), "check");
            format!("block {blocks}: {} of {all} decided", checks.len() - open)
        }
    };
    let is_red = |check: &&&CheckVerdict| matches!(check.verdict, Verdict::Fail | Verdict::Invalid);
    for check in checks.iter().filter(is_red) {
        let change = match check.change {
            Some(_) => format!(" {}", numbers::change(check)),
            None => String::new(),
        };
        text.push_str(&format!("; {}: {}{change}", check.id, so_far(check)));
    }
    text
}

/// Finished launches, and how long they took.
#[derive(Clone, Copy, Default)]
struct Pace {
    done: u32,
    took: Duration,
}

impl Pace {
    /// What so many launches, of which one runs, still take after this time; `None` before the first is done.
    fn left(&self, ahead: u64, spent: Duration) -> Option<Duration> {
        let each = self.took.checked_div(self.done)?;
        let ahead = u32::try_from(ahead).unwrap_or(u32::MAX);
        let end = self.took.saturating_add(each.saturating_mul(ahead));
        Some(end.saturating_sub(spent))
    }
}

fn planted(row: &Row) -> String {
    let (result, fault, launches) = (row.outcome.name(), row.fault, row.launches);
    let wrong = match row.wrong.len() {
        0 => String::new(),
        n => format!(", {n} red that should not be"),
    };
    format!(
        "{fault}: {result}{wrong}; {}, {:.0} s",
        count(launches, "launch"),
        row.elapsed_s
    )
}

fn resting(arm: Arm, waited: Duration, left: Duration) -> String {
    let (waited, left) = (waited.as_secs_f64(), left.as_secs_f64());
    let arm = arm.name();
    if waited > 0.0 {
        format!("{arm}: cooling for {waited:.0} s, {left:.0} s left for that")
    } else {
        format!("{arm}: probing whether the machine is as it was")
    }
}

/// A template of ours is right by test; indicatif's default is the fallback.
fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

#[cfg(test)]
mod tests {
    use super::Pace;
    use indicatif::ProgressStyle;
    use std::time::Duration;

    #[test]
    fn the_time_left_falls_while_a_launch_runs() {
        let s = Duration::from_secs;
        let pace = |done, took| Pace {
            done,
            took: s(took),
        };
        assert_eq!(pace(0, 0).left(8, s(9)), None);
        for (spent, left) in [(10, 30), (15, 25), (45, 0)] {
            assert_eq!(
                pace(2, 10).left(6, s(spent)),
                Some(s(left)),
                "after {spent} s"
            );
        }
    }

    #[test]
    fn the_templates_are_right() {
        for template in [
            "{spinner} {msg}, {elapsed}",
            "[{bar:16}] {elapsed} {wide_msg}",
            "{msg}",
        ] {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
        }
    }
}
