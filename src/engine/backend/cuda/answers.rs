//! Questions about rows, and their answers: ranked on the device where it can, on the host otherwise.
//!
//! Main type: [`DeviceAnswers`]. Greedy choices, given tokens, log-probabilities and draws from all or from a few of the best
//! need a few numbers of a row; rules that change scores need the row itself, which is copied then. Refuses to know: how
//! logits came about.

use rayon::prelude::*;

use super::device::{Device, DeviceError, Memory, View};
use super::graphs::{CaptureSizes, Shape};
use super::launch::{self, MOST_BANNED, MOST_TOP, RESULTS, Rank, SUMS};
use crate::backend::rank::rank;
use crate::backend::{Ask, Draw, NotANumber, Part, Pick, SampledToken};
use crate::sampling::{self, Needs};

const F32: usize = size_of::<f32>();
const I32: usize = size_of::<i32>();
const F64: usize = size_of::<f64>();

/// Lists with one integer a question: rows, given ids, counts of best and of banned ids, and inverse temperatures in f32. The
/// banned ids follow; before all of them stand the chances of draws, in f64.
const LISTS: usize = 5;

/// Parts of memory begin at multiples of it.
const ALIGNMENT: usize = 256;

pub(super) struct DeviceAnswers<D: Device> {
    questions: D::Memory,
    n: usize,
    most: usize,
    pub(super) shape: Option<Shape>,
    /// `[most, SUMS]` f64, then `[most, RESULTS]` f32, then as many ids.
    results: D::Memory,
    /// Made when the vocabulary is known.
    parts: Option<Parts<D>>,
}

/// Between the two kernels.
struct Parts<D: Device> {
    vocab: usize,
    memory: [D::Memory; 3],
}

/// What the kernels are asked about a row.
#[derive(Clone, Copy, Default)]
struct Question<'a> {
    given: Option<u32>,
    banned: &'a [u32],
    /// How many of the best.
    top: usize,
    /// Inverse temperature and chance of a draw.
    draw: Option<(f32, f64)>,
}

/// What is known of an answer when the device has done its part.
enum Found {
    Answer(Result<SampledToken, NotANumber>),
    /// To be ranked here.
    Row(Vec<f32>),
}

/// One row's results.
struct RankedRow {
    has_nan: bool,
    greatest: f32,
    /// `None`: all are banned.
    best: Option<(u32, f32)>,
    given: f32,
    /// By temperature alone, if so asked for.
    drawn: Option<(u32, f32)>,
    top: Vec<(u32, f32)>,
    log_sum: f64,
    /// Weights of all that may be drawn, if so asked for.
    weights: f64,
}

impl<D: Device> DeviceAnswers<D> {
    pub(super) fn new(device: &mut D, most: usize) -> Result<Self, DeviceError> {
        Ok(Self {
            questions: device.allocate(Self::chances(most) + (LISTS + MOST_BANNED) * most * I32)?,
            n: 0,
            most,
            shape: None,
            results: device.allocate(Self::offsets(most)[2] + most * RESULTS * I32)?,
            parts: None,
        })
    }

    /// Bytes of the chances of so many draws.
    fn chances(n: usize) -> usize {
        (n * F64).next_multiple_of(ALIGNMENT)
    }

    /// Where the sums, values and ids of the results begin.
    fn offsets(most: usize) -> [usize; 3] {
        let values = (most * SUMS * F64).next_multiple_of(ALIGNMENT);
        let ids = values + (most * RESULTS * F32).next_multiple_of(ALIGNMENT);
        [0, values, ids]
    }

    pub(super) fn load(
        &mut self,
        device: &mut D,
        ladder: &CaptureSizes,
        rows: &[usize],
        asks: &[Ask<'_>],
    ) -> Result<(), DeviceError> {
        let bucket = ladder.bucket(Part::Answers, rows.len());
        self.n = bucket.unwrap_or(rows.len());
        self.shape = bucket.map(|rows| Shape {
            part: Part::Answers,
            rows,
            splits: 1,
        });
        self.write(device, rows, asks)
    }

    pub(super) fn load_padding(&mut self, device: &mut D, shape: Shape) -> Result<(), DeviceError> {
        self.n = shape.rows;
        self.shape = Some(shape);
        self.write(device, &[], &[])
    }

    /// Questions of padding are about row 0, and ask nothing.
    fn write(
        &mut self,
        device: &mut D,
        rows: &[usize],
        asks: &[Ask<'_>],
    ) -> Result<(), DeviceError> {
        let n = self.n;
        let mut chances = vec![0.0f64; Self::chances(n) / F64];
        let mut ints = vec![0i32; (LISTS + MOST_BANNED) * n];
        ints[n..2 * n].fill(-1);
        for (at, (row, ask)) in rows.iter().zip(asks).enumerate() {
            let question = Question::of(ask);
            ints[at] = *row as i32;
            if let Some(id) = question.given {
                ints[n + at] = id as i32;
            }
            ints[2 * n + at] = question.top as i32;
            ints[3 * n + at] = question.banned.len() as i32;
            if let Some((beta, chance)) = question.draw {
                ints[4 * n + at] = beta.to_bits().cast_signed();
                chances[at] = chance;
            }
            let first = LISTS * n + at * MOST_BANNED;
            for (place, id) in ints[first..].iter_mut().zip(question.banned) {
                *place = *id as i32;
            }
        }
        let chances = chances.iter().flat_map(|chance| chance.to_ne_bytes());
        let ints = ints.iter().flat_map(|int| int.to_ne_bytes());
        let bytes: Vec<u8> = chances.chain(ints).collect();
        device.write(self.questions.view(), &bytes)
    }

    fn list(&self, list: usize) -> View {
        let lists = self.questions.view().after(Self::chances(self.n));
        lists.part(list * self.n, self.n, I32)
    }

    /// Of the stream.
    pub(super) fn rows(&self) -> View {
        self.list(0)
    }

    pub(super) fn score(
        &mut self,
        device: &mut D,
        n: usize,
        logits: View,
        vocab: usize,
    ) -> Result<(), DeviceError> {
        let parts = match self.parts.take() {
            Some(parts) if parts.vocab == vocab => parts,
            _ => Parts::new(device, self.most, vocab)?,
        };
        let [part_values, part_ids, part_sums] = [0, 1, 2].map(|at| parts.memory[at].view());
        let [sums, values, ids] =
            Self::offsets(self.most).map(|offset| self.results.view().after(offset));
        let of = Rank {
            logits,
            banned: self
                .questions
                .view()
                .after(Self::chances(self.n) + LISTS * self.n * I32),
            banned_count: self.list(3),
            given: self.list(1),
            top: self.list(2),
            beta: self.list(4),
            chance: self.questions.view(),
            part_values,
            part_ids,
            part_sums,
            values,
            ids,
            sums,
        };
        self.parts = Some(parts);
        launch::rank(device, &of, n, vocab)
    }

    /// Answers; `logits` says where a row of them is.
    pub(super) fn read(
        &mut self,
        device: &mut D,
        logits: impl Fn(usize) -> View,
        vocab: usize,
        asks: &[Ask<'_>],
    ) -> Result<Vec<Result<SampledToken, NotANumber>>, DeviceError> {
        let mut bytes = vec![0; self.results.view().bytes];
        device.read(self.results.view(), &mut bytes)?;
        let mut found = Vec::with_capacity(asks.len());
        for (at, ask) in asks.iter().enumerate() {
            let row = RankedRow::parse(&bytes, Self::offsets(self.most), at);
            found.push(match answer(&row, ask) {
                Some(answer) => Found::Answer(answer),
                None => Found::Row(copied(device, logits(at), vocab)?),
            });
        }
        let rows = found.iter().filter(|found| matches!(found, Found::Row(_)));
        let finish = |(found, ask): (Found, &Ask<'_>)| match found {
            Found::Answer(answer) => answer,
            Found::Row(logits) => rank(&logits, ask),
        };
        // A draw from 150,000 scores takes the better part of a millisecond, as long as a small model's step.
        if rows.count() > 1 {
            return Ok(found.into_par_iter().zip(asks).map(finish).collect());
        }
        Ok(found.into_iter().zip(asks).map(finish).collect())
    }
}

impl<D: Device> Parts<D> {
    fn new(device: &mut D, most: usize, vocab: usize) -> Result<Self, DeviceError> {
        let [values, ids, sums] = launch::part_bytes(vocab).map(|bytes| most * bytes);
        Ok(Self {
            vocab,
            memory: [
                device.allocate(values)?,
                device.allocate(ids)?,
                device.allocate(sums)?,
            ],
        })
    }
}

impl<'a> Question<'a> {
    fn of(ask: &Ask<'a>) -> Self {
        let logprobs = ask.logprobs.unwrap_or(0).min(MOST_TOP);
        let plain = Self {
            top: logprobs,
            ..Self::default()
        };
        match ask.pick {
            Pick::Given(id) => Self {
                given: Some(id),
                ..plain
            },
            Pick::Best { banned } if banned.len() <= MOST_BANNED => Self { banned, ..plain },
            Pick::Best { .. } => plain,
            Pick::Drawn(draw) => Extract::of(&draw).map_or(plain, |extract| Self {
                banned: draw.banned,
                top: logprobs.max(extract.best),
                draw: extract
                    .weights
                    .then(|| (draw.rules.temperature.recip(), sampling::chance(&draw))),
                ..plain
            }),
        }
    }
}

/// The few numbers of a row that a draw is made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Extract {
    /// How many of the best tokens, banned ones among them.
    best: usize,
    /// The weights of all, and what the device draws by them.
    weights: bool,
}

impl Extract {
    /// `None`: no few numbers will do.
    fn of(draw: &Draw<'_>) -> Option<Self> {
        let Draw { rules, banned, .. } = draw;
        let (best, weights) = match rules.needs() {
            _ if banned.len() > MOST_BANNED => return None,
            Needs::Greatest | Needs::Scores => return None,
            Needs::Weights => (0, true),
            // Where min-p takes some away too, the weights of all say nothing of what is left.
            Needs::Best(None) => (MOST_TOP, rules.min_p <= 0.0),
            Needs::Best(Some(count)) if count > MOST_TOP && rules.min_p <= 0.0 => return None,
            Needs::Best(Some(count)) => (MOST_TOP.min(count + banned.len()), false),
        };
        Some(Self { best, weights })
    }
}

/// The token and its logit. `None`: the row itself is needed.
fn drawn(row: &RankedRow, draw: &Draw<'_>) -> Option<(u32, f32)> {
    let extract = Extract::of(draw)?;
    row.best.filter(|(_, logit)| logit.is_finite())?;
    if extract.best == 0 {
        return row.drawn;
    }
    let best = row.top.iter().take(extract.best);
    let allowed = |(id, _): &&(u32, f32)| draw.banned.binary_search(id).is_err();
    let best: Vec<(u32, f32)> = best.filter(allowed).copied().collect();
    let id = sampling::choose_of_best(&best, row.weights, draw)?;
    best.into_iter().find(|(one, _)| *one == id)
}

/// `None`: the row itself is needed.
fn answer(row: &RankedRow, ask: &Ask<'_>) -> Option<Result<SampledToken, NotANumber>> {
    if row.has_nan || !row.greatest.is_finite() {
        return Some(Err(NotANumber));
    }
    if ask.logprobs.is_some_and(|count| count > MOST_TOP) {
        return None;
    }
    let (id, logit) = match ask.pick {
        Pick::Given(id) => (id, row.given),
        Pick::Best { banned } if banned.len() <= MOST_BANNED => row.best?,
        Pick::Best { .. } => return None,
        Pick::Drawn(draw) => drawn(row, &draw)?,
    };
    let logprob = |logit: f32| (f64::from(logit) - row.log_sum) as f32;
    let logprobs = ask.logprobs.map(|count| {
        let top = row.top.iter().take(count);
        let top = top.map(|(id, logit)| (*id, logprob(*logit))).collect();
        (logprob(logit), top)
    });
    Some(Ok(SampledToken { id, logprobs }))
}

fn copied<D: Device>(device: &mut D, logits: View, vocab: usize) -> Result<Vec<f32>, DeviceError> {
    let mut bytes = vec![0; vocab * F32];
    device.read(logits, &mut bytes)?;
    let words = bytes.as_chunks::<F32>().0.iter();
    Ok(words.map(|word| f32::from_ne_bytes(*word)).collect())
}

impl RankedRow {
    fn parse(bytes: &[u8], [sums, values, ids]: [usize; 3], at: usize) -> Self {
        let value = |place: usize| {
            let first = values + (at * RESULTS + place) * F32;
            f32::from_ne_bytes(four(bytes, first))
        };
        let id = |place: usize| {
            let first = ids + (at * RESULTS + place) * I32;
            i32::from_ne_bytes(four(bytes, first))
        };
        let found = |place: usize| Some((u32::try_from(id(place)).ok()?, value(place)));
        let sum = |place: usize| {
            let first = sums + (at * SUMS + place) * F64;
            let mut sum = [0; F64];
            sum.copy_from_slice(&bytes[first..first + F64]);
            f64::from_ne_bytes(sum)
        };
        Self {
            has_nan: id(0) != 0,
            greatest: value(0),
            best: found(1),
            given: value(2),
            drawn: found(3),
            top: (4..RESULTS).map_while(found).collect(),
            log_sum: sum(0),
            weights: sum(1),
        }
    }
}

fn four(bytes: &[u8], first: usize) -> [u8; 4] {
    let mut four = [0; 4];
    four.copy_from_slice(&bytes[first..first + 4]);
    four
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampling::Sampling;

    /// What a device says of a row of 1,000 tokens whose 20 best have a logit of 9 and all others of 0.
    fn row() -> RankedRow {
        RankedRow {
            has_nan: false,
            greatest: 9.0,
            best: Some((0, 9.0)),
            given: 0.0,
            drawn: Some((500, 0.0)),
            top: (0..20).map(|id| (id, 9.0)).collect(),
            log_sum: 20.0f64.ln() + 9.0,
            weights: 20.0 + 980.0 * (-9.0f64).exp(),
        }
    }

    fn hot(rules: Sampling) -> Sampling {
        Sampling {
            temperature: 1.0,
            ..rules
        }
    }

    /// How many best tokens are asked for, whether weights are, and which id is drawn; `None`: from the whole row.
    #[track_caller]
    fn check(rules: Sampling, banned: &[u32], top: usize, weights: bool, from_few: bool) {
        let ask = Ask {
            pick: Pick::Drawn(Draw {
                rules: &rules,
                banned,
                prompt: &[],
                answer: &[],
            }),
            logprobs: None,
        };
        let question = Question::of(&ask);
        assert_eq!((question.top, question.draw.is_some()), (top, weights));
        let answer = answer(&row(), &ask);
        assert_eq!(answer.is_some(), from_few, "{answer:?}");
        if let Some(answer) = answer {
            let id = answer.expect("numbers").id;
            assert!(!banned.contains(&id), "{id}");
            assert_eq!(id == 500, top == 0, "{id}");
        }
    }

    #[test]
    fn a_draw_needs_the_row_only_where_few_numbers_are_not_enough() {
        let neutral = Sampling::default;
        check(hot(neutral()), &[3], 0, true, true);
        let qwen = Sampling {
            top_k: 20,
            top_p: 0.95,
            ..neutral()
        };
        check(hot(qwen.clone()), &[], 20, false, true);
        // One of the 20 is banned, and the next best is not known.
        check(hot(qwen), &[3], 20, false, false);
        let top_k = |top_k| Sampling { top_k, ..neutral() };
        check(hot(top_k(7)), &[3, 4], 9, false, true);
        check(hot(top_k(21)), &[], 0, false, false);
        let top_p = |top_p| Sampling { top_p, ..neutral() };
        check(hot(top_p(0.9)), &[3], 20, true, true);
        check(hot(top_p(0.999)), &[], 20, true, false);
        let min_p = |min_p| Sampling { min_p, ..neutral() };
        check(hot(min_p(0.1)), &[3], 20, false, false);
        check(hot(min_p(1e-5)), &[], 20, false, false);
        let penalty = Sampling {
            presence_penalty: 0.1,
            ..neutral()
        };
        check(hot(penalty), &[], 0, false, false);
        let many: Vec<u32> = (0..=MOST_BANNED as u32).collect();
        check(hot(neutral()), &many, 0, false, false);
    }
}
