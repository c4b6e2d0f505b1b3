//! The pace of a stream's events, by which a second one can wait behind the next, or cannot.
//!
//! Main type: [`Rhythm`]. It decides only whether a look is worth its system call: where it is wrong, events that came
//! together are told as that.

use super::stamps::Arrival;

/// Gaps of which the shortest is the stream's pace.
const GAPS: usize = 3;

/// Arrivals at an answer's end that are looked at: the last tokens, finish reason, usage, `[DONE]` and HTTP's last chunk
/// follow one another at once.
const LAST: u32 = 8;

/// Arrivals on one connection.
#[derive(Debug, Default)]
pub struct Rhythm {
    /// Of the present answer.
    arrivals: u32,
    /// Of the shortest answer before it.
    shortest: Option<u32>,
    last_ns: u64,
    /// Before the last arrivals; 0: none yet.
    gaps_ns: [u64; GAPS],
    /// The last read has the kernel's stamp and left nothing.
    is_alone: bool,
    /// Several events of the present answer came in one read that was to bring one.
    is_uneven: bool,
}

impl Rhythm {
    /// The next answer begins.
    pub fn begin(&mut self) {
        let before = Some(self.arrivals).filter(|arrivals| *arrivals > 0);
        *self = Self {
            shortest: self.shortest.into_iter().chain(before).min(),
            ..Self::default()
        };
    }

    /// A read's bytes. `left_nothing`: none were seen to wait behind them.
    pub fn note(&mut self, arrival: Arrival, left_nothing: bool) {
        let gap_ns = arrival.at_ns.saturating_sub(self.last_ns);
        // The first one's lies behind a pause.
        self.gaps_ns[self.arrivals as usize % GAPS] = if self.arrivals > 0 { gap_ns } else { 0 };
        self.arrivals += 1;
        self.last_ns = arrival.at_ns;
        self.is_alone = arrival.kernel && left_nothing;
    }

    /// A read that was to bring one event brought several: this answer has no pace to go by.
    pub fn surprise(&mut self) {
        self.is_uneven = true;
    }

    /// Whether one event at the most can be expected to wait at `now_ns`: the next is due, and the one after it is not,
    /// nor is the answer's end.
    pub fn is_single(&self, now_ns: u64) -> bool {
        let pace_ns = self.gaps_ns.into_iter().min().unwrap_or(0);
        let is_middle = self
            .shortest
            .is_some_and(|shortest| self.arrivals + LAST < shortest);
        let is_due = now_ns < self.last_ns + pace_ns + pace_ns / 2;
        self.is_alone && !self.is_uneven && is_middle && is_due
    }
}

#[cfg(test)]
mod tests {
    use super::{Arrival, LAST, Rhythm};

    fn note(rhythm: &mut Rhythm, at_ns: u64) {
        let arrival = Arrival {
            at_ns,
            kernel: true,
            number: 0,
        };
        rhythm.note(arrival, true);
    }

    /// An answer of so many arrivals, 10 apart, with this one read behind it.
    fn answer(rhythm: &mut Rhythm, arrivals: u64) {
        rhythm.begin();
        for arrival in 0..arrivals {
            note(rhythm, 1_000 + 10 * arrival);
        }
    }

    /// Ten arrivals of an answer behind one of 40: the last came at 1,090.
    fn middle() -> Rhythm {
        let mut rhythm = Rhythm::default();
        answer(&mut rhythm, 40);
        answer(&mut rhythm, 10);
        rhythm
    }

    #[test]
    fn an_event_is_single_in_the_middle_of_a_regular_answer() {
        let mut first = Rhythm::default();
        answer(&mut first, 20);
        assert!(!first.is_single(1_200), "nothing is known of its end");
        for arrivals in 1..40 {
            let mut rhythm = Rhythm::default();
            answer(&mut rhythm, 40);
            answer(&mut rhythm, arrivals);
            let is_middle = (4..40 - u64::from(LAST)).contains(&arrivals);
            let next = 1_000 + 10 * arrivals;
            assert_eq!(rhythm.is_single(next), is_middle, "{arrivals}");
        }
    }

    #[test]
    fn a_late_read_or_an_uneven_pace_is_looked_at() {
        let rhythm = middle();
        // The next is due at 1,100, the one after it at 1,110.
        assert!(rhythm.is_single(1_104));
        assert!(!rhythm.is_single(1_105));
        let mut uneven = middle();
        note(&mut uneven, 1_092);
        assert!(!uneven.is_single(1_096));
    }

    #[test]
    fn what_waits_and_what_no_kernel_stamped_is_looked_at() {
        for (kernel, left_nothing) in [(false, true), (true, false)] {
            let mut rhythm = middle();
            let arrival = Arrival {
                at_ns: 1_100,
                kernel,
                number: 0,
            };
            rhythm.note(arrival, left_nothing);
            assert!(!rhythm.is_single(1_104));
        }
    }

    #[test]
    fn a_surprise_ends_it_for_the_answer() {
        let mut rhythm = middle();
        rhythm.surprise();
        assert!(!rhythm.is_single(1_104));
        answer(&mut rhythm, 40);
        rhythm.shortest = Some(40);
        answer(&mut rhythm, 10);
        assert!(rhythm.is_single(1_104));
    }
}
