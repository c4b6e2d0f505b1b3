//! Speed of a machine: bytes moved and numbers multiplied per second, whatever the model.
//!
//! Entry points: [`measure_cpu`], [`measure_gpu`]. Figures are the best of some runs: a floor is what the
//! machine can do, not what it does on average. Refuses to know: models, and what the figures are for.

use std::time::{Duration, Instant};

use memmap2::MmapMut;

use super::backend::cpu::CpuBackend;
use super::backend::cuda::cache::KernelCache;
use super::backend::cuda::device::{Device, DeviceError, Memory, Product};
use super::backend::cuda::driver::{Card, Driver};
use super::backend::cuda::launch;
use super::backend::cuda::sources::Element;
use super::backend::{Backend, BackendError, Role};

/// What a machine can do.
#[derive(Clone, Debug, PartialEq)]
pub struct Speed {
    pub machine: String,
    /// What was done to memory: `copy` counts what is read and what is written.
    pub memory: &'static str,
    pub bytes_per_second: f64,
    pub operations_per_second: f64,
    /// Of a GPU, from one small kernel of a graph to the next.
    pub kernel_us: Option<f64>,
}

/// It could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum SpeedError {
    #[error(transparent)]
    Device(#[from] DeviceError),
    #[error(transparent)]
    Cpu(#[from] CpuError),
}

/// The CPU could not do it.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct CpuError(BackendError);

impl From<BackendError> for SpeedError {
    fn from(error: BackendError) -> Self {
        Self::Cpu(CpuError(error))
    }
}

/// Memory that is gone through, far beyond any cache.
const BYTES: usize = 1 << 30;

const TURNS: usize = 7;

/// Of this machine's GPU, with matrices of `element`.
pub fn measure_gpu(element: Element) -> Result<Speed, SpeedError> {
    let card = Card::find()?;
    let equipped = card.equip(element, &KernelCache::from_environment())?;
    let mut driver = Driver::start(equipped)?;
    let (copied, read) = (
        copy_rate(&mut driver)?,
        gpu_read_rate(&mut driver, element)?,
    );
    Ok(Speed {
        machine: driver.facts().name.clone(),
        memory: if read > copied { "read" } else { "copy" },
        bytes_per_second: copied.max(read),
        operations_per_second: gpu_product_rate(&mut driver, element)?,
        kernel_us: Some(kernel_us(&mut driver)?),
    })
}

/// Weights as a decoded token reads them: once, by the kernel for products with one row.
fn gpu_read_rate(driver: &mut Driver, element: Element) -> Result<f64, DeviceError> {
    const READ: usize = 1 << 28;
    const MATRICES: usize = 4;
    const COLS: usize = 4_096;
    /// Each reads all matrices: the host's part of a start is a small one then, and no cache holds any of them.
    const RUNS: usize = 2;
    let rows = READ / (COLS * element.bytes());
    let weights = driver.allocate(MATRICES * READ)?;
    let x = driver.allocate(COLS * element.bytes())?;
    let out = driver.allocate(rows * size_of::<f32>())?;
    let (x, out) = (x.view(), out.view());
    let mut least = Duration::MAX;
    for _ in 0..RUNS {
        let took = driver.time(&mut |driver| {
            (0..MATRICES).try_for_each(|index| {
                let weight = weights.view().part(index, 1, READ);
                launch::gemv(driver, weight, x, None, out, 1, rows, COLS)
            })
        })?;
        least = least.min(took);
    }
    Ok((MATRICES * READ) as f64 / least.as_secs_f64())
}

/// What a start costs where there is nothing to do: a chain of kernels of one block, each of which waits for the one ahead.
fn kernel_us(driver: &mut Driver) -> Result<f64, DeviceError> {
    const KERNELS: usize = 256;
    const NUMBERS: usize = 4;
    /// Of a run, so that what the host takes to start one is a small part.
    const REPLAYS: usize = 8;
    let gate = driver.allocate(NUMBERS * size_of::<f32>())?;
    let x = driver.allocate(NUMBERS * size_of::<f32>())?;
    driver.begin_capture()?;
    let captured =
        (0..KERNELS).try_for_each(|_| launch::gate(driver, gate.view(), x.view(), NUMBERS));
    // Ended in any case: a device that records takes little else.
    let graph = driver.end_capture()?;
    captured?;
    let best = best(&mut || {
        driver.time(&mut |driver| (0..REPLAYS).try_for_each(|_| driver.replay(&graph)))
    })?;
    Ok(best.as_secs_f64() * 1e6 / (REPLAYS * KERNELS) as f64)
}

fn copy_rate(driver: &mut Driver) -> Result<f64, DeviceError> {
    const COPIES: usize = 16;
    let (from, to) = (driver.allocate(BYTES)?, driver.allocate(BYTES)?);
    let best = best(&mut || {
        driver.time(&mut |driver| {
            (0..COPIES).try_for_each(|_| driver.copy(from.view(), to.view(), BYTES))
        })
    })?;
    Ok((2 * COPIES * BYTES) as f64 / best.as_secs_f64())
}

/// Products of square matrices by the fastest algorithm there is. The numbers are random: zeros take less
/// power, and a GPU that takes less power runs faster.
fn gpu_product_rate(driver: &mut Driver, element: Element) -> Result<f64, DeviceError> {
    const SIDE: usize = 8192;
    const PRODUCTS: usize = 8;
    let operand = SIDE * SIDE * element.bytes();
    let (x, weight) = (driver.allocate(operand)?, driver.allocate(operand)?);
    let out = driver.allocate(SIDE * SIDE * size_of::<f32>())?;
    launch::fill_random(driver, x.view(), SIDE * SIDE, 1.0, 1)?;
    launch::fill_random(driver, weight.view(), SIDE * SIDE, 1.0, 2)?;
    let product = Product {
        n: SIDE,
        rows: SIDE,
        cols: SIDE,
        x: x.view(),
        weight: weight.view(),
        out: out.view(),
    };
    let mut least = Duration::MAX;
    let mut failed = None;
    for algorithm in driver.algorithms(&product)? {
        let timed = best(&mut || {
            driver.time(&mut |driver| {
                (0..PRODUCTS).try_for_each(|_| driver.product(&product, &algorithm))
            })
        });
        match timed {
            Ok(time) => least = least.min(time),
            // One that this GPU does not run is passed over.
            Err(error) => failed = Some(error),
        }
    }
    if least == Duration::MAX {
        return Err(failed.unwrap_or_else(|| DeviceError::Unsupported {
            kernel: "the library's product",
            what: format!("{SIDE} x {SIDE} x {SIDE}: it knows no algorithm"),
        }));
    }
    let operations = (2 * PRODUCTS) as f64 * (SIDE as f64).powi(3);
    Ok(operations / least.as_secs_f64())
}

/// Of this machine's processors, which should compute nothing else meanwhile.
///
/// # Panics
/// Where the system starts no thread.
pub fn measure_cpu(threads: usize) -> Result<Speed, SpeedError> {
    // A thread can be in one pool only, and stays in it: each measurement has a thread of its own.
    std::thread::scope(|scope| {
        let measured = scope.spawn(|| measure_cpu_here(threads)).join();
        measured.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn measure_cpu_here(threads: usize) -> Result<Speed, SpeedError> {
    let mut backend = CpuBackend::new(threads)?;
    let threads = backend.threads();
    let kernels = backend.kernels().to_owned();
    let operations_per_second = cpu_product_rate(&mut backend)?;
    drop(backend);
    Ok(Speed {
        machine: format!("cpu, {kernels}, {threads} threads"),
        memory: "read",
        bytes_per_second: read_rate(threads)?,
        operations_per_second,
        kernel_us: None,
    })
}

/// The best of several shapes: with columns that are a power of two, rows fall on the same few lines of a cache.
fn cpu_product_rate(backend: &mut CpuBackend) -> Result<f64, BackendError> {
    const SHAPES: [(usize, usize); 4] = [(256, 2048), (128, 1056), (256, 1056), (128, 3104)];
    let mut best = 0.0_f64;
    for (rows, side) in SHAPES {
        best = best.max(cpu_product_rate_of(backend, rows, side)?);
    }
    Ok(best)
}

/// Of `rows` rows with a square matrix.
fn cpu_product_rate_of(
    backend: &mut CpuBackend,
    rows: usize,
    side: usize,
) -> Result<f64, BackendError> {
    let weight = backend.random(side, side, 0.02, 1)?;
    let mut x = backend.buffer(rows, side, Role::Operand)?;
    let mut out = backend.buffer(rows, side, Role::Stream)?;
    // Written once: until then all its pages are one page of zeros, which halves the rate on a Zen 3.
    backend.matmul(rows, &out, &weight, None, &mut x)?;
    let best = best(&mut || {
        let begun = Instant::now();
        backend.matmul(rows, &x, &weight, None, &mut out)?;
        Ok::<_, BackendError>(begun.elapsed())
    })?;
    Ok(2.0 * (rows * side * side) as f64 / best.as_secs_f64())
}

/// Reading, since a decoding step does next to nothing else: each thread its own contiguous part, in large
/// pages, as one stream or as several side by side. Processors fetch more of several ahead.
fn read_rate(threads: usize) -> Result<f64, BackendError> {
    let refused = |source| BackendError::Memory {
        bytes: BYTES,
        source,
    };
    let mut memory = MmapMut::map_anon(BYTES).map_err(refused)?;
    #[cfg(target_os = "linux")]
    drop(memory.advise(memmap2::Advice::HugePage));
    memory.fill(1);
    let part = BYTES.div_ceil(threads).next_multiple_of(BLOCK);
    let read = |checksum: fn(&[u8]) -> u64| {
        best(&mut || {
            let begun = Instant::now();
            let total: u64 = std::thread::scope(|scope| {
                let parts = memory.chunks(part);
                let readers: Vec<_> = parts
                    .map(|part| scope.spawn(move || checksum(part)))
                    .collect();
                let sums = readers.into_iter().filter_map(|reader| reader.join().ok());
                sums.fold(0, u64::wrapping_add)
            });
            std::hint::black_box(total);
            Ok::<_, BackendError>(begun.elapsed())
        })
    };
    let best = read(checksum::<1>)?
        .min(read(checksum::<2>)?)
        .min(read(checksum::<4>)?);
    Ok(BYTES as f64 / best.as_secs_f64())
}

/// Bytes that are read of one stream before the next one's turn.
const BLOCK: usize = 128;

/// Reads everything but what is left of a block once, as `STREAMS` parts side by side; several sums, so that the adds
/// never wait for one another.
fn checksum<const STREAMS: usize>(bytes: &[u8]) -> u64 {
    let blocks = bytes.as_chunks::<BLOCK>().0;
    let part = blocks.len() / STREAMS;
    let streams: [&[[u8; BLOCK]]; STREAMS] = std::array::from_fn(|at| match at + 1 == STREAMS {
        true => &blocks[at * part..],
        false => &blocks[at * part..(at + 1) * part],
    });
    let mut sums = [0_u64; 16];
    let mut add = |block: &[u8; BLOCK]| {
        for (sum, word) in sums.iter_mut().zip(block.as_chunks::<8>().0) {
            *sum = sum.wrapping_add(u64::from_le_bytes(*word));
        }
    };
    for at in 0..part {
        streams.iter().for_each(|stream| add(&stream[at]));
    }
    streams[STREAMS - 1][part..].iter().for_each(&mut add);
    sums.into_iter().fold(0, u64::wrapping_add)
}

fn best<E>(turn: &mut dyn FnMut() -> Result<Duration, E>) -> Result<Duration, E> {
    let mut best = Duration::MAX;
    for _ in 0..TURNS {
        best = best.min(turn()?);
    }
    Ok(best)
}
