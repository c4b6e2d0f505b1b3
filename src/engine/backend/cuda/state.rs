//! Device state of a step besides weights and activations.
//!
//! Main type: [`State`]: the step's integers, angles, queries, parts of attention, questions. Refuses to
//! know: layers' weights.

use super::answers::DeviceAnswers;
use super::device::{Device, DeviceError, Memory, View};
use super::graphs::{CaptureSizes, Shape};
use super::launch::{self, ChunkRoom, Heads, Prefill, Projected, Queries, RowsAttention};
use super::memory::{self, KvCache, States, Vector};
use super::splits::Slots;
use super::step::{self, DeviceStep, Recurrent};
use crate::backend::{AttentionShape, DeltaWeights, DummyRun, Part, Room};
use crate::config::hybrid::DeltaShape;
use crate::kv::Window;

const F32: usize = size_of::<f32>();

pub(super) struct State<D: Device> {
    pub(super) step: DeviceStep<D>,
    pub(super) answers: DeviceAnswers<D>,
    pub(super) ladder: CaptureSizes,
    /// `[rows, 2, d / 2]`
    pub(super) cos_sin: Vector<D>,
    rope: Rope<D>,
    chunk_memory: Option<ChunkMemory<D>>,
    /// `[rows, heads, d]`
    q: D::Memory,
    sink: Option<Sink<D>>,
    partial: D::Memory,
    partial_ml: D::Memory,
    arrived: D::Memory,
    heads: Heads,
    /// Factor of attention scores.
    scale: f32,
    window: Option<Window>,
    /// Most rows of a step.
    rows: usize,
}

/// What of a long prompt's chunks does not depend on the state: see [`launch::ChunkRoom`].
struct ChunkMemory<D: Device> {
    parts: [D::Memory; 6],
}

impl<D: Device> ChunkMemory<D> {
    fn new(device: &mut D, shape: &DeltaShape, chunks: usize) -> Result<Self, DeviceError> {
        let element = device.element().bytes();
        let [qs, ks, w, u, p, factors] = launch::chunk_numbers(shape, chunks);
        Ok(Self {
            parts: [
                device.allocate(qs * element)?,
                device.allocate(ks * element)?,
                device.allocate(w * element)?,
                device.allocate(u * F32)?,
                device.allocate(p * element)?,
                device.allocate(factors * F32)?,
            ],
        })
    }

    fn views(&self) -> ChunkRoom {
        let [qs, ks, w, u, p, factors] = self.parts.each_ref().map(Memory::view);
        ChunkRoom {
            qs,
            ks,
            w,
            u,
            p,
            factors,
        }
    }
}

/// How positions become angles.
struct Rope<D: Device> {
    /// `[d / 2]`: 0 where a pair is not turned.
    frequencies: Vector<D>,
    /// Pairs that are turned, and what their cosines and sines are multiplied by.
    turned: (usize, f32),
    half: usize,
}

impl<D: Device> Rope<D> {
    fn new(device: &mut D, shape: &AttentionShape) -> Result<Self, DeviceError> {
        let (d, rotary) = (shape.head_dim, shape.rotary_dim);
        let mut frequencies = shape.rope.frequencies(rotary);
        frequencies.resize(d / 2, 0.0);
        Ok(Self {
            frequencies: Vector::of(device, &frequencies)?,
            turned: (rotary / 2, shape.rope.turned_scale(d, rotary)),
            half: d / 2,
        })
    }

    /// Cosines and sines of n positions.
    fn angles(
        &self,
        device: &mut D,
        positions: View,
        n: usize,
        out: View,
    ) -> Result<(), DeviceError> {
        let frequencies = self.frequencies.view();
        launch::rope_angles(
            device,
            positions,
            frequencies,
            out,
            n,
            self.half,
            self.turned,
        )
    }
}

/// How far rows see a window's sink.
struct Sink<D: Device> {
    /// `[2, d / 2]`
    cos_sin: Vector<D>,
    /// `[rows, heads, d]`
    queries: D::Memory,
}

impl<D: Device> State<D> {
    pub(super) fn new(
        device: &mut D,
        shape: &AttentionShape,
        room: &Room,
    ) -> Result<Self, DeviceError> {
        let all = memory::heads(shape);
        let Heads { heads, d, .. } = all;
        let element_bytes = device.element().bytes();
        let seen = |window: Window| window.sink + window.window;
        let rows = launch::rows_launch(all);
        let ladder = CaptureSizes {
            slots: Slots((rows.resident * device.facts().multiprocessors / rows.blocks).max(1)),
            longest: shape
                .window
                .map_or(room.context, |w| seen(w).min(room.context)),
            sequences: room.sequences,
            answers: room.answers,
        };
        let takes_tiles = shape.window.is_none() && launch::supports_prefill(device, all);
        let queries = room.rows * heads * d * element_bytes;
        let rope = Rope::new(device, shape)?;
        let sink = match shape.window.filter(|window| window.sink > 0) {
            None => None,
            Some(window) => Some(Sink {
                cos_sin: angle(device, &rope, seen(window) - 1)?,
                queries: device.allocate(queries)?,
            }),
        };
        // With tiles, rows that attend by themselves are those that decode.
        let singles = if takes_tiles {
            room.sequences.min(room.rows)
        } else {
            room.rows
        };
        let recurrent = shape.delta.map(|(delta, states)| Recurrent {
            spare: states,
            takes_chunks: launch::takes_chunks(device.element(), &delta),
        });
        let chunk_memory = match (shape.delta, recurrent) {
            (
                Some((delta, _)),
                Some(Recurrent {
                    takes_chunks: true, ..
                }),
            ) => Some(ChunkMemory::new(
                device,
                &delta,
                step::most_chunks(room.rows),
            )?),
            _ => None,
        };
        let splits = ladder.most_splits(singles);
        let partials = splits * heads;
        Ok(Self {
            step: DeviceStep::new(
                device,
                room,
                splits.max(room.rows),
                shape.window,
                (shape.pages, recurrent),
                takes_tiles,
            )?,
            answers: DeviceAnswers::new(device, room.answers)?,
            ladder,
            cos_sin: Vector::new(device, room.rows * d)?,
            rope,
            chunk_memory,
            q: device.allocate(queries)?,
            sink,
            partial: device.allocate(partials * d * F32)?,
            partial_ml: device.allocate(partials * 2 * F32)?,
            arrived: device.allocate(room.rows * rows.blocks * size_of::<i32>())?,
            heads: all,
            scale: shape.rope.score_scale(d, shape.rotary_dim),
            window: shape.window,
            rows: room.rows,
        })
    }

    /// The angles of the step's positions.
    pub(super) fn turn(&mut self, device: &mut D, n: usize) -> Result<(), DeviceError> {
        let positions = self.step.positions();
        self.rope.angles(device, positions, n, self.cos_sin.view())
    }

    pub(super) fn queries(&self) -> View {
        self.q.view()
    }

    /// The angle under which far rows see the sink, and where those queries are.
    pub(super) fn sink(&self) -> Option<(View, View)> {
        let sink = self.sink.as_ref()?;
        Some((sink.cos_sin.view(), sink.queries.view()))
    }

    /// Of rows whose keys are in the cache.
    pub(super) fn attend(
        &self,
        device: &mut D,
        n: usize,
        cache: &KvCache<D>,
        layer: usize,
        out: View,
    ) -> Result<(), DeviceError> {
        let of = self.rows_attention(cache, layer, out);
        if of.split_count > 0 {
            let queries = Queries {
                q: self.queries(),
                q_sink: self.sink().map(|(_, queries)| queries),
            };
            launch::attention_rows(device, &of, &queries, n, self.heads)?;
        }
        let (keys, values) = cache.layer(layer);
        let (tiles, count) = self.step.tiles();
        let of = Prefill {
            q: self.queries(),
            keys,
            values,
            cache_pages: cache.pages,
            pages: self.step.pages(),
            tiles,
            out,
            scale: self.scale(),
        };
        match count {
            0 => Ok(()),
            _ => launch::attention_prefill(device, &of, count, n, self.heads),
        }
    }

    /// Of the n rows of a step that decodes: what the projection gave them, and the norms of queries and keys.
    pub(super) fn decode(
        &self,
        device: &mut D,
        n: usize,
        [qkv, q_norm, k_norm]: [View; 3],
        cache: &KvCache<D>,
        layer: usize,
        out: View,
    ) -> Result<(), DeviceError> {
        let projected = Projected {
            qkv,
            q_norm,
            k_norm,
            eps: cache.shape.norm_eps,
            cos_sin: self.cos_sin.view(),
            sink_cos_sin: self.sink().map(|(angle, _)| angle),
        };
        let of = self.rows_attention(cache, layer, out);
        launch::attention_decode(device, &of, &projected, n, self.heads)
    }

    /// A recurrent layer of a step of n rows.
    pub(super) fn recall(
        &self,
        device: &mut D,
        n: usize,
        projected: View,
        weights: &DeltaWeights<Vector<D>>,
        states: (View, &States<D>),
        out: View,
    ) -> Result<(), DeviceError> {
        let of = launch::DeltaRule {
            projected,
            conv: weights.conv.view(),
            log_decay: weights.log_decay.view(),
            step_bias: weights.step_bias.view(),
            norm: weights.norm.view(),
            states: states.0,
            states_count: states.1.count,
            out,
        };
        let (spans, chunks, shape) = (self.step.spans(), self.step.chunks(), &states.1.shape);
        if spans.count > 0 {
            launch::delta_rule(device, &of, &spans, n, shape)?;
        }
        match &self.chunk_memory {
            Some(memory) if chunks.count > 0 => {
                launch::delta_chunks(device, &of, &chunks, &memory.views(), n, shape)
            }
            _ => Ok(()),
        }
    }

    fn rows_attention(&self, cache: &KvCache<D>, layer: usize, out: View) -> RowsAttention {
        let (keys, values) = cache.layer(layer);
        let (splits, split_count) = self.step.splits();
        RowsAttention {
            keys,
            values,
            cache_pages: cache.pages,
            pages: self.step.pages(),
            splits,
            split_count,
            is_joined: self.step.is_split(),
            partial: self.partial.view(),
            partial_ml: self.partial_ml.view(),
            arrived: self.arrived.view(),
            out,
            scale: self.scale(),
            sink: self.window.map_or(0, |window| window.sink),
            window: self.window.map_or(0, |window| window.window),
        }
    }

    fn scale(&self) -> f32 {
        self.scale
    }

    /// First the greater steps, which are run so that their products are timed; then all that is captured.
    pub(super) fn dummy_runs(&self) -> Vec<DummyRun> {
        let shapes = self.ladder.shapes();
        let mut dummy_runs = self.prompts();
        let mut before = None;
        for shape in shapes {
            if before != Some((shape.part, shape.rows)) {
                dummy_runs.push(dummy_run(shape, Way::Run));
            }
            before = Some((shape.part, shape.rows));
            dummy_runs.push(dummy_run(shape, Way::Record));
        }
        dummy_runs
    }

    /// Steps with prompts, one for each count of rows whose products an algorithm is remembered for: else
    /// the first prompt of its size would wait for the timing.
    fn prompts(&self) -> Vec<DummyRun> {
        let doubles = std::iter::successors(Some(1usize), |rows| rows.checked_mul(2));
        let below = doubles.take_while(|rows| *rows < self.rows);
        let counts = below.chain([self.rows]);
        let recorded = self.ladder.sequences;
        let prompts = counts.filter(|rows| *rows > recorded && *rows <= launch::MOST_ROWS);
        let shape = |rows| Shape {
            part: Part::Network,
            rows,
            splits: PROMPTS,
        };
        prompts
            .map(|rows| dummy_run(shape(rows), Way::Run))
            .collect()
    }
}

/// In the place of a count of splits: rows of prompts.
const PROMPTS: usize = 0;

/// What a dummy run does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Run,
    Record,
}

fn dummy_run(shape: Shape, way: Way) -> DummyRun {
    DummyRun {
        part: shape.part,
        rows: shape.rows,
        variant: 2 * shape.splits + usize::from(way == Way::Record),
    }
}

/// Whether its rows are those of prompts.
pub(super) fn is_of_prompts(shape: &Shape) -> bool {
    shape.part == Part::Network && shape.splits == PROMPTS
}

pub(super) fn is_recorded(dummy_run: &DummyRun) -> bool {
    dummy_run.variant % 2 == 1
}

pub(super) fn shape_of(dummy_run: &DummyRun) -> Shape {
    Shape {
        part: dummy_run.part,
        rows: dummy_run.rows,
        splits: dummy_run.variant / 2,
    }
}

/// Cosines and sines of one position.
fn angle<D: Device>(
    device: &mut D,
    rope: &Rope<D>,
    position: usize,
) -> Result<Vector<D>, DeviceError> {
    let place = device.allocate(size_of::<i32>())?;
    device.write(place.view(), &(position as i32).to_ne_bytes())?;
    let out = Vector::new(device, 2 * rope.half)?;
    rope.angles(device, place.view(), 1, out.view())?;
    // The position goes when this ends.
    device.synchronize()?;
    Ok(out)
}
