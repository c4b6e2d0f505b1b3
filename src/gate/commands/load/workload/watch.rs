//! What a load hears while it runs.
//!
//! Main type: [`Watch`].

use super::super::samples_file::SamplesFile;
use super::{Headers, LoadTally};
use client::{LoadOutcome, Progress};
use std::cell::RefCell;
use verdict::record::Sample;

/// Shows progress, folds samples and drops them, and takes what an interrupted run leaves.
pub struct Watch<'a> {
    on_done: &'a dyn Fn(u32, u32),
    headers: &'a Headers,
    taken: RefCell<Taken<'a>>,
    cut_short: RefCell<Option<LoadOutcome>>,
}

struct Taken<'a> {
    tally: LoadTally,
    out: Option<&'a mut SamplesFile>,
}

impl<'a> Watch<'a> {
    /// Samples go to `tally` and to `out`, without the values of `headers`. `on_done` hears (done, of) after each request.
    pub fn new(
        tally: LoadTally,
        headers: &'a Headers,
        on_done: &'a dyn Fn(u32, u32),
        out: Option<&'a mut SamplesFile>,
    ) -> Self {
        Self {
            on_done,
            headers,
            taken: RefCell::new(Taken { tally, out }),
            cut_short: RefCell::default(),
        }
    }

    /// All samples, and what an interrupted run left.
    pub fn end(self) -> (LoadTally, Option<LoadOutcome>) {
        (self.taken.into_inner().tally, self.cut_short.into_inner())
    }
}

impl Progress for Watch<'_> {
    fn request_done(&self, done: u32, of: u32) {
        (self.on_done)(done, of);
    }

    fn samples(&self, mut samples: Vec<Sample>) -> Vec<Sample> {
        self.headers.redact_all(&mut samples);
        let Taken { tally, out } = &mut *self.taken.borrow_mut();
        samples.iter().for_each(|sample| tally.add(sample));
        if let Some(out) = out {
            out.write(&samples);
        }
        Vec::new()
    }

    fn cut_short(&self, outcome: LoadOutcome) {
        self.cut_short.replace(Some(outcome));
    }
}
