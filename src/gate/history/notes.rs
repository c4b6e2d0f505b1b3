//! Notes that people attached to main's steps and commits.

use super::{CheckHistory, History, Series, Step};
use crate::baseline::Note;

impl History {
    /// Puts each note on the steps that it is about: those between whose sessions its session lies. Of the others,
    /// those on checks and sessions that are told stay in [`History::notes`].
    pub fn annotate(&mut self, notes: &[Note]) {
        self.notes = notes
            .iter()
            .filter(|note| is_told(&self.checks, note))
            .cloned()
            .collect();
        for check in &mut self.checks {
            for series in &mut check.series {
                let (id, points) = (&check.id, &series.points);
                for step in &mut series.steps {
                    let (from, to) = step.sessions;
                    let within = points.iter().take(to + 1).skip(from + 1);
                    let is_about = |note: &&Note| {
                        let mut points = within.clone();
                        points
                            .any(|point| note.is_about(&point.session, point.commit.as_deref(), id))
                    };
                    step.notes = notes.iter().filter(is_about).cloned().collect();
                }
            }
        }
        let steps = self.checks.iter().flat_map(CheckHistory::steps);
        let told: Vec<Note> = steps.flat_map(|(_, step)| step.notes.clone()).collect();
        self.notes.retain(|note| !told.contains(note));
    }
}

fn is_told(checks: &[CheckHistory], note: &Note) -> bool {
    checks.iter().any(|check| {
        let mut points = check.series.iter().flat_map(|series| &series.points);
        points.any(|point| note.is_about(&point.session, point.commit.as_deref(), &check.id))
    })
}

impl CheckHistory {
    /// Every step with its series, in order.
    pub fn steps(&self) -> impl Iterator<Item = (&Series, &Step)> {
        let series = self.series.iter();
        series.flat_map(|series| series.steps.iter().map(move |step| (series, step)))
    }
}
