//! A roofline as one HTML page: which share of the machine's limit each prompt's length reaches.
//!
//! Main type: [`RooflinePage`]. Refuses to know: the formulas, how it was measured, HTML.

use crate::report::numbers::{self, number};
use crate::report::sheet::{self, Bar, Bars, Mark, Picture, ScaleKind, Sheet, SheetTable, Tone};
use crate::session::project::tool;

/// What the page is made from.
pub struct RooflinePage<'a> {
    pub model: &'a str,
    pub decode: Vec<Reached>,
    pub prefill: Vec<Reached>,
    /// Machine and model.
    pub about: Vec<String>,
    pub tables: Vec<SheetTable>,
    /// The weights may lie in a cache.
    pub is_cached: bool,
    /// What `engine.plausible` may be, or why it is not known.
    pub plausible: String,
    pub launches: Option<String>,
    /// Milliseconds of each stage of the start.
    pub start_ms: &'a [(&'static str, f64)],
}

/// One prompt's length: the least time, and what was measured.
pub struct Reached {
    pub tokens: u32,
    pub limit_ms: f64,
    pub median_ms: f64,
    /// The fastest and the slowest.
    pub ends_ms: (f64, f64),
    /// `memory-bound`.
    pub bound: &'static str,
}

impl Reached {
    /// Of the limit, what the median reaches.
    fn share(&self) -> f64 {
        self.limit_ms / self.median_ms
    }
}

impl RooflinePage<'_> {
    /// `command`: the command line that measured.
    pub fn html(self, command: String) -> String {
        let started = self.start_ms.iter();
        let started =
            started.map(|(stage, ms)| (format!("start: {stage}"), format!("{} ms", number(*ms))));
        let (headline, picture) = (self.headline(), self.shares());
        let plausible = [self.plausible];
        let (notices, notes) = match self.is_cached {
            true => (plausible.to_vec(), Vec::new()),
            false => (Vec::new(), plausible.to_vec()),
        };
        sheet::page(&Sheet {
            title: "gate roofline".to_owned(),
            headline,
            about: self.about,
            notices,
            pictures: picture.into_iter().collect(),
            tables: self.tables,
            notes: self.launches.into_iter().chain(notes).collect(),
            facts: started.collect(),
            command,
            tool: tool(),
            ..Sheet::default()
        })
    }

    /// The last length of each.
    fn headline(&self) -> String {
        let of = |what: &str, row: &Reached| {
            let share = percent(row.share());
            format!("{share} in {what} ({} prompt tokens)", row.tokens)
        };
        let decode = self.decode.last().map(|row| of("decoding", row));
        let prefill = self.prefill.last().map(|row| of("prefill", row));
        let told: Vec<String> = decode.into_iter().chain(prefill).collect();
        match told.is_empty() {
            true => "Nothing was measured".to_owned(),
            false => format!(
                "{} reaches {} of this machine's limit",
                self.model,
                told.join(" and ")
            ),
        }
    }

    fn shares(&self) -> Option<Picture> {
        let decode = self.decode.iter().map(|row| bar("TPOT", row));
        let prefill = self.prefill.iter().map(|row| bar("TTFT", row));
        let bars = Bars {
            title: "Share of the limit that is reached".to_owned(),
            note: "Bar and dot: the median of all repeats; line: from the slowest to the fastest."
                .to_owned(),
            kind: ScaleKind::FromZero,
            shown: percent,
            marks: vec![Mark {
                at: 1.0,
                name: "limit".to_owned(),
                tone: Tone::Pass,
            }],
            rows: decode.chain(prefill).collect(),
        };
        bars.drawn().map(Picture::Bars)
    }
}

fn bar(what: &str, row: &Reached) -> Bar {
    let share = percent(row.share());
    let (least_ms, greatest_ms) = row.ends_ms;
    Bar {
        label: format!("{what}, {} prompt tokens", row.tokens),
        value: format!("{share}, {}", row.bound),
        bar: Some((0.0, row.share())),
        span: Some((row.limit_ms / greatest_ms, row.limit_ms / least_ms)),
        dots: vec![(row.share(), share)],
        ..Bar::default()
    }
}

fn percent(share: f64) -> String {
    numbers::percent((share * 1e3).round() / 1e3)
}
