//! The CUDA backend, its kernels run by the emulator, against the CPU backend, on the embedded model and a hybrid.
//!
//! With its weights in f32 the two sum in different orders only, and greedy answers are equal. With the
//! weights as they are stored, in bf16, the GPU also keeps activations, keys and values in bf16: there a
//! choice may turn where the CPU's lead is small.

#![allow(clippy::print_stdout, reason = "the figures behind the constants")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::Arc;

use engine::cuda::emulated::EmulatorSources;
use engine::cuda::times::{KernelTime, KernelTimes, MARK};
use engine::request::{CacheUse, Request, Sampling};
use engine::{BackendChoice, Engine, ModelSource, Options, StartError, Window};
use half::bf16;
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};

use fixture::embedded;
use fixture::skip::skip;

use super::{Answer, collect, prompt, request, run};

/// What the tests run on: one attends in all layers, most of the other's layers keep a recurrent state.
const MODELS: [&str; 2] = ["tiny-qwen3", "tiny-qwen3.5"];

/// Greatest |log-probability error| that was seen in f32: 2.9e-5; this is 7 times as much.
const F32_TOLERANCE: f64 = 2e-4;

/// In bf16, of tokens that are likelier than 1 in 1,000, the greatest error that was seen is 0.046; this is
/// 4 times as much.
const BF16_TOLERANCE: f64 = 0.2;
const LIKELY: f64 = -6.9;

fn options(model: ModelSource, backend: BackendChoice) -> Options {
    Options {
        model,
        backend,
        threads: 1,
        kv_tokens: 4096,
        running: 3,
        step_tokens: Some(48),
        chunk_tokens: Some(40),
        ..Options::default()
    }
}

/// `None`, with a line, where the emulator cannot be built for want of a compiler.
fn emulated(with: Options) -> Option<Engine> {
    let sources = EmulatorSources::of(Path::new(env!("CARGO_MANIFEST_DIR")));
    let options = Options {
        backend: BackendChoice::Emulated(sources),
        ..with
    };
    match Engine::start(options, &mut |_| {}) {
        Ok(engine) => Some(engine),
        Err(StartError::Backend(error)) if error.to_string().contains("g++ cannot be run") => {
            skip(&error.to_string());
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn cpu(with: Options) -> Engine {
    super::start(Options {
        backend: BackendChoice::Cpu,
        ..with
    })
}

/// A model with its weights in f32.
fn widened(model: &str) -> tempfile::TempDir {
    let directory = embedded::copied_model(model);
    let weights = directory.path().join("model.safetensors");
    let bytes = fs::read(&weights).expect("weights");
    let tensors = SafeTensors::deserialize(&bytes).expect("safetensors");
    let wide: Vec<(String, Vec<usize>, Vec<u8>)> = tensors
        .iter()
        .map(|(name, tensor)| {
            let pairs = tensor.data().as_chunks::<2>().0.iter();
            let numbers = pairs.map(|pair| bf16::from_le_bytes(*pair).to_f32());
            let bytes = numbers.flat_map(f32::to_le_bytes).collect();
            (name.to_owned(), tensor.shape().to_vec(), bytes)
        })
        .collect();
    let views = wide.iter().map(|(name, shape, bytes)| {
        let view = TensorView::new(Dtype::F32, shape.clone(), bytes).expect("a tensor");
        (name.clone(), view)
    });
    safetensors::serialize_to_file(views, None, &weights).expect("it is written");
    directory
}

fn wide_options(directory: &tempfile::TempDir) -> Options {
    let model = ModelSource::Directory(directory.path().to_owned());
    options(model, BackendChoice::Cpu)
}

/// Greatest error of the log-probabilities that both have, of tokens that are at least so likely.
fn greatest_error(one: &Answer, other: &Answer, likely: f64) -> f64 {
    let figures = |answer: &Answer| -> Vec<(u32, f64)> {
        let tokens = answer.tokens.iter().flat_map(|token| {
            let logprob = token.logprob.as_ref().expect("asked for");
            std::iter::once((token.id, f64::from(logprob.chosen)))
                .chain(logprob.top.iter().map(|(id, p)| (*id, f64::from(*p))))
        });
        tokens.collect()
    };
    let both = figures(one).into_iter().zip(figures(other));
    both.filter(|((a, p), (b, _))| a == b && *p > likely)
        .map(|((_, p), (_, q))| (p - q).abs())
        .fold(0.0, f64::max)
}

#[test]
fn greedy_answers_in_f32_are_the_cpus() {
    for model in MODELS {
        let directory = widened(model);
        let Some(gpu) = emulated(wide_options(&directory)) else {
            return;
        };
        let cpu = cpu(wide_options(&directory));
        let mut greatest = 0.0f64;
        for (length, seed, count) in [(1, 1, 6), (13, 2, 6), (50, 3, 6)] {
            let asked = request(&prompt(length, seed), count);
            let (got, want) = (run(&gpu, asked.clone()), run(&cpu, asked));
            assert_eq!(got.ids(), want.ids(), "{model}: a prompt of {length}");
            greatest = greatest.max(greatest_error(&got, &want, f64::NEG_INFINITY));
        }
        println!("{model}: greatest log-probability error {greatest:.1e}");
        assert!(greatest < F32_TOLERANCE, "{greatest}");
    }
}

/// A request that begins as an earlier one goes on from its pages, and from the state that was kept at their end.
#[test]
fn what_begins_alike_goes_on_from_what_is_kept() {
    for model in MODELS {
        let directory = widened(model);
        let Some(gpu) = emulated(wide_options(&directory)) else {
            return;
        };
        let first = prompt(40, 6);
        let said = run(&gpu, request(&first, 10)).ids();
        for more in [&[][..], &said[..9], &[said.clone(), prompt(30, 7)].concat()] {
            let asked = |cache| Request {
                cache,
                ..request(&[first.clone(), more.to_vec()].concat(), 4)
            };
            let (got, want) = (
                run(&gpu, asked(CacheUse::Shared)),
                run(&gpu, asked(CacheUse::Off)),
            );
            assert_eq!(got.ids(), want.ids(), "{model}");
            let error = greatest_error(&got, &want, f64::NEG_INFINITY);
            assert!(error < F32_TOLERANCE, "{model}: {error}");
            let (taken, none) = (got.prompt.cached_tokens, want.prompt.cached_tokens);
            assert!(taken >= 32 && none == 0, "{model}: {taken} and {none}");
        }
    }
}

#[test]
fn a_window_sees_the_same_in_f32() {
    let directories = MODELS.map(widened);
    for (directory, sink, window) in [(0, 0, 20), (0, 4, 24), (0, 21, 17), (1, 4, 24)]
        .map(|(model, sink, window)| (&directories[model], sink, window))
    {
        let with = || Options {
            window: Some(Window { sink, window }),
            ..wide_options(directory)
        };
        let Some(gpu) = emulated(with()) else {
            return;
        };
        let asked = request(&prompt(50, 5), 16);
        let (got, want) = (run(&gpu, asked.clone()), run(&cpu(with()), asked));
        assert_eq!(got.ids(), want.ids(), "{sink} {window}");
        let error = greatest_error(&got, &want, f64::NEG_INFINITY);
        assert!(error < F32_TOLERANCE, "{sink} {window}: {error}");
    }
}

/// By the device from all, by the host from the few best or from the whole row, and with ends that are banned at
/// first. An error of a log-probability turns a draw that lies as near to a token's border: at most one in 10,000.
#[test]
fn draws_in_f32_are_the_cpus() {
    let directory = widened("tiny-qwen3");
    let Some(gpu) = emulated(wide_options(&directory)) else {
        return;
    };
    let cpu = cpu(wide_options(&directory));
    let heat = |temperature| Sampling {
        temperature,
        seed: 11,
        ..Sampling::default()
    };
    let qwen = Sampling {
        top_k: 20,
        top_p: 0.95,
        ..heat(0.6)
    };
    let rules = [
        heat(1.0),
        heat(0.3),
        qwen.clone(),
        Sampling {
            temperature: 0.0,
            ..qwen
        },
        Sampling {
            top_p: 0.5,
            ..heat(1.0)
        },
        Sampling {
            min_p: 0.2,
            ..heat(1.5)
        },
        Sampling {
            top_k: 40,
            ..heat(2.0)
        },
        Sampling {
            presence_penalty: 0.5,
            repetition_penalty: 1.2,
            ..heat(0.8)
        },
    ];
    let mut said = BTreeSet::new();
    for rules in rules {
        for (min_tokens, logprobs) in [(0, Some(2)), (6, None)] {
            let asked = Request {
                min_tokens,
                logprobs,
                ignore_eos: false,
                sampling: rules.clone(),
                ..request(&prompt(17, 2), 8)
            };
            let (got, want) = (run(&gpu, asked.clone()), run(&cpu, asked));
            assert_eq!(got.ids(), want.ids(), "{rules:?}");
            if logprobs.is_some() {
                assert!(
                    greatest_error(&got, &want, f64::NEG_INFINITY) < F32_TOLERANCE,
                    "{rules:?}"
                );
            }
            said.insert(got.ids());
        }
    }
    assert!(said.len() > 6, "{said:?}");
}

/// Scores one given answer, so that every figure can be compared though a choice may turn.
#[test]
fn log_probabilities_in_bf16_are_near_the_cpus() {
    for model in super::both_models() {
        log_probabilities_are_near(model);
    }
}

/// Prompts are computed whole, so that those of 64 tokens and more go through the kernels for chunks.
fn log_probabilities_are_near(model: ModelSource) {
    let with = || Options {
        step_tokens: Some(160),
        chunk_tokens: Some(152),
        ..options(model.clone(), BackendChoice::Cpu)
    };
    let Some(gpu) = emulated(with()) else {
        return;
    };
    let cpu = cpu(with());
    let mut greatest = 0.0f64;
    for (length, seed) in [(5, 1), (30, 2), (80, 3)] {
        let first = run(&cpu, request(&prompt(length, seed), 10));
        let given = [prompt(length, seed), first.ids()].concat();
        let asked = Request {
            prompt_logprobs: true,
            ..request(&given, 1)
        };
        let (got, want) = (run(&gpu, asked.clone()), run(&cpu, asked));
        let pair = [got, want].map(|answer| answer.prompt.logprobs.expect("asked for"));
        for (got, want) in pair[0].iter().zip(&pair[1]) {
            let (Some(got), Some(want)) = (got, want) else {
                continue;
            };
            if f64::from(want.chosen) > LIKELY {
                greatest = greatest.max(f64::from((got.chosen - want.chosen).abs()));
            }
        }
    }
    println!("{model:?}: greatest log-probability error {greatest:.1e}");
    assert!(greatest > 0.0 && greatest < BF16_TOLERANCE, "{greatest}");
}

/// Mixed lengths, several at once, some cancelled, some sampled: nothing is recorded after the start.
#[test]
fn recordings_are_made_at_the_start_and_never_again() {
    for model in super::both_models() {
        recordings_are_made_at_the_start(model);
    }
}

fn recordings_are_made_at_the_start(model: ModelSource) {
    let with = options(model, BackendChoice::Cpu);
    let Some(gpu) = emulated(with) else {
        return;
    };
    let stages: Vec<&str> = gpu.stats().startup.iter().map(|stage| stage.name).collect();
    assert!(stages.contains(&"graph_capture"), "{stages:?}");
    let captures = gpu.stats().captures;
    assert!(captures > 0);
    for round in 0..2 {
        let mut asked: Vec<Request> = (0..4)
            .map(|at| request(&prompt(3 + 11 * at, round), 3 + 2 * at))
            .collect();
        asked[1].sampling = Sampling {
            temperature: 0.8,
            seed: 7,
            ..asked[1].sampling.clone()
        };
        let events = gpu.submit_all(asked).expect("they are taken");
        let mut events = events.into_iter();
        let replays = gpu.stats().replays;
        drop(events.next());
        for (at, events) in events.enumerate() {
            let answer = collect(events).expect("an answer");
            assert_eq!(answer.tokens.len(), 5 + 2 * at);
        }
        assert_eq!(gpu.stats().captures, captures);
        // The longest answer's last tokens are decoded alone, and every answer is ranked by a recording.
        assert!(gpu.stats().replays > replays + 9, "{round}");
    }
    assert_eq!(gpu.model_info().backend, "cuda");
    assert!(!gpu.model_info().batch_invariant);
}

/// A small model on a GPU is bound by launches, so none is added unseen: each layer that attends starts seven, of a hybrid
/// two more for the output's gate, and each recurrent one seven; six look the token up, norm, and rank the answer. A fusion
/// lowers the count.
#[test]
fn a_token_starts_as_many_kernels_as_are_counted_here() {
    let [embedded, hybrid] = super::both_models();
    starts_of_a_token(embedded, 5 * 7 + 6);
    starts_of_a_token(hybrid, 4 * 7 + 2 * 9 + 6);
}

fn starts_of_a_token(model: ModelSource, starts: u64) {
    let Some(gpu) = emulated(options(model, BackendChoice::Cpu)) else {
        return;
    };
    let started_by = |tokens| {
        let before = gpu.stats().replayed_nodes;
        let asked = Request {
            cache: CacheUse::Off,
            ..request(&prompt(9, 3), tokens)
        };
        run(&gpu, asked);
        gpu.stats().replayed_nodes - before
    };
    let (two, three, four) = (started_by(2), started_by(3), started_by(4));
    assert_eq!((three - two, four - three), (starts, starts));
}

/// Told of the recordings alone, and of each start once.
#[test]
fn the_time_of_each_start_is_told_where_it_is_asked_for() {
    let times = Arc::new(KernelTimes::default());
    let with = Options {
        kernel_times: Some(Arc::clone(&times)),
        ..options(ModelSource::Embedded, BackendChoice::Cpu)
    };
    let Some(gpu) = emulated(with) else {
        return;
    };
    let started_by = |tokens| -> BTreeMap<&str, u64> {
        times.take();
        let asked = Request {
            cache: CacheUse::Off,
            ..request(&prompt(9, 3), tokens)
        };
        run(&gpu, asked);
        let taken = times.take();
        let is_told = |time: &KernelTime| time.started == MARK || !time.total.is_zero();
        assert!(taken.iter().all(is_told), "{taken:?}");
        let mut starts = BTreeMap::new();
        for KernelTime {
            started,
            starts: more,
            ..
        } in taken
        {
            *starts.entry(started.name).or_default() += more;
        }
        starts
    };
    let (two, three) = (started_by(2), started_by(3));
    let more = |name: &str| three[name] - two.get(name).copied().unwrap_or_default();
    // The recording of the network, and that of the answer.
    assert_eq!(more(MARK.name), 2);
    assert_eq!((more("embedding"), more("gemv_swiglu_1")), (1, 5));
    let starts: u64 = three.keys().map(|name| more(name)).sum();
    assert_eq!(starts - 2, 5 * 7 + 6);
}

/// Requests beside each other get what each gets alone, whatever fills the batch up.
#[test]
fn company_changes_no_answer_in_f32() {
    for model in MODELS {
        company_changes_nothing(model);
    }
}

fn company_changes_nothing(model: &str) {
    let directory = widened(model);
    let Some(gpu) = emulated(wide_options(&directory)) else {
        return;
    };
    let asked = || (0..3).map(|at| request(&prompt(9 + 20 * at, at + 40), 5));
    let alone: Vec<Vec<u32>> = asked().map(|one| run(&gpu, one).ids()).collect();
    let together = gpu.submit_all(asked().collect()).expect("they are taken");
    for (events, alone) in together.into_iter().zip(alone) {
        assert_eq!(collect(events).expect("an answer").ids(), alone);
    }
}
