//! Weights in memory of their own, in large pages where the system has them, and room for what is computed.
//!
//! Main types: [`Matrix`]; [`CpuBuffer`], rows of activations; [`Floats`], whose memory may be refused where a `Vec`'s may not. Weights are copied out of the file rather than used where they are mapped: a
//! file that is truncated or replaced while it is served then does no harm, and matrices that are
//! multiplied together lie together. Refuses to know: files, names.

use std::io;
use std::ops::{Deref, DerefMut};

use half::{bf16, f16};
use memmap2::MmapMut;

use super::simd::Elements;
use super::threads::Threads;
use crate::backend::BackendError;
use crate::weights::{Dtype, Tensor};

#[cfg(target_endian = "big")]
compile_error!("safetensors are little-endian and are used as they are stored");

/// `rows × cols` numbers in their stored type.
pub struct Matrix {
    memory: MmapMut,
    dtype: Dtype,
    pub rows: usize,
    pub cols: usize,
}

impl Matrix {
    /// Stacks `parts` by rows. Where they are stored in different types, all become f32.
    pub fn stack(parts: &[Tensor<'_>], threads: &Threads) -> Result<Self, BackendError> {
        let first = parts[0];
        let same = parts.iter().all(|part| part.dtype == first.dtype);
        let dtype = if same { first.dtype } else { Dtype::F32 };
        let rows = parts.iter().map(|part| part.rows).sum();
        let mut memory = anonymous(rows * first.cols * dtype.bytes())?;
        let mut rest = &mut memory[..];
        for part in parts {
            let (room, after) = rest.split_at_mut(part.rows * part.cols * dtype.bytes());
            if same {
                threads.copy(part.bytes, room);
            } else {
                for (room, value) in room.chunks_exact_mut(4).zip(part.widened()) {
                    room.copy_from_slice(&value.to_le_bytes());
                }
            }
            rest = after;
        }
        Ok(Self {
            memory,
            dtype,
            rows,
            cols: first.cols,
        })
    }

    /// Numbers of bf16 that `fill(index of the first, room)` makes, piece by piece.
    pub fn made(
        rows: usize,
        cols: usize,
        threads: &Threads,
        fill: &(impl Fn(usize, &mut [bf16]) + Sync),
    ) -> Result<Self, BackendError> {
        let count = rows * cols;
        let mut memory = anonymous(count * Dtype::Bf16.bytes())?;
        threads.chunks(typed_mut(&mut memory, count), cols, cols, &|first, run| {
            fill(first * cols, run);
        });
        Ok(Self {
            memory,
            dtype: Dtype::Bf16,
            rows,
            cols,
        })
    }

    pub fn elements(&self) -> Elements<'_> {
        let count = self.rows * self.cols;
        match self.dtype {
            Dtype::F32 => Elements::F32(typed(&self.memory, count)),
            Dtype::F16 => Elements::F16(typed(&self.memory, count)),
            Dtype::Bf16 => Elements::Bf16(typed(&self.memory, count)),
        }
    }
}

/// Zeroed numbers. The system gives their memory when it is first written.
pub struct Floats {
    memory: MmapMut,
    count: usize,
}

impl Floats {
    /// `sizes`: their product is the count.
    pub fn zeroed(sizes: &[usize]) -> Result<Self, BackendError> {
        let bytes = sizes
            .iter()
            .try_fold(size_of::<f32>(), |bytes, size| bytes.checked_mul(*size))
            .unwrap_or(usize::MAX);
        Ok(Self {
            memory: reserve(bytes)?,
            count: bytes / size_of::<f32>(),
        })
    }
}

impl Deref for Floats {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        typed(&self.memory, self.count)
    }
}

impl DerefMut for Floats {
    fn deref_mut(&mut self) -> &mut [f32] {
        typed_mut(&mut self.memory, self.count)
    }
}

/// Rows of activations, of fixed columns.
pub struct CpuBuffer {
    pub data: Floats,
    pub cols: usize,
}

impl CpuBuffer {
    pub fn rows(&self, n: usize) -> &[f32] {
        &self.data[..n * self.cols]
    }

    pub fn rows_mut(&mut self, n: usize) -> &mut [f32] {
        &mut self.data[..n * self.cols]
    }

    pub fn row(&self, row: usize) -> &[f32] {
        &self.data[row * self.cols..(row + 1) * self.cols]
    }
}

/// Whether the system would give so much memory at once. It may promise more than it has.
pub fn can_be_had(bytes: usize) -> bool {
    reserve(bytes).is_ok()
}

/// Numbers that any bit pattern is one of.
trait Plain {}
impl Plain for f32 {}
impl Plain for f16 {}
impl Plain for bf16 {}

fn typed<T: Plain>(memory: &MmapMut, count: usize) -> &[T] {
    assert!(memory.len() >= count * size_of::<T>());
    #[expect(unsafe_code, reason = "typed view of our own memory")]
    // SAFETY: a map begins on a page, which aligns every type here; the length was just checked; every
    // bit pattern is a valid `T`; the borrow of `memory` forbids writes while the slice lives.
    unsafe {
        std::slice::from_raw_parts(memory.as_ptr().cast(), count)
    }
}

fn typed_mut<T: Plain>(memory: &mut MmapMut, count: usize) -> &mut [T] {
    assert!(memory.len() >= count * size_of::<T>());
    #[expect(unsafe_code, reason = "typed view of our own memory")]
    // SAFETY: as in `typed`; the borrow of `memory` is exclusive.
    unsafe {
        std::slice::from_raw_parts_mut(memory.as_mut_ptr().cast(), count)
    }
}

/// Bytes that the system could give now without taking any from who uses them, where it says so.
pub fn free() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilobytes: usize = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}

fn reserve(bytes: usize) -> Result<MmapMut, BackendError> {
    let failed = |source: io::Error| BackendError::Memory { bytes, source };
    if isize::try_from(bytes).is_err() {
        return Err(failed(io::ErrorKind::OutOfMemory.into()));
    }
    MmapMut::map_anon(bytes.max(1)).map_err(failed)
}

fn anonymous(bytes: usize) -> Result<MmapMut, BackendError> {
    let memory = reserve(bytes)?;
    // Large pages are a wish: kernels without them refuse, and that is no error.
    #[cfg(target_os = "linux")]
    drop(memory.advise(memmap2::Advice::HugePage));
    Ok(memory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeroed_numbers_can_be_written_and_too_many_are_an_error() {
        let mut some = Floats::zeroed(&[3, 5]).unwrap();
        some[14] = 2.5;
        assert_eq!((some.len(), some[0], some[14]), (15, 0.0, 2.5));
        assert_eq!(Floats::zeroed(&[0, 5]).unwrap().len(), 0);
        for sizes in [
            [1usize << 60, 1],
            [1 << 32, 1 << 32],
            [usize::MAX, usize::MAX],
        ] {
            assert!(matches!(
                Floats::zeroed(&sizes),
                Err(BackendError::Memory { .. })
            ));
        }
        assert!(can_be_had(4096) && !can_be_had(usize::MAX));
    }

    #[test]
    fn stacking_keeps_the_type_or_widens() {
        let threads = Threads::new(1).unwrap();
        let brain: Vec<u8> = [1.0f32, -2.0]
            .iter()
            .flat_map(|v| bf16::from_f32(*v).to_le_bytes())
            .collect();
        let wide: Vec<u8> = [0.5f32, 3.0].iter().flat_map(|v| v.to_le_bytes()).collect();
        let a = Tensor {
            dtype: Dtype::Bf16,
            rows: 1,
            cols: 2,
            bytes: &brain,
        };
        let b = Tensor {
            dtype: Dtype::F32,
            rows: 1,
            cols: 2,
            bytes: &wide,
        };
        let same = Matrix::stack(&[a, a], &threads).unwrap();
        assert!(matches!(same.elements(), Elements::Bf16(values) if values.len() == 4));
        let mixed = Matrix::stack(&[a, b], &threads).unwrap();
        assert!(matches!(
            mixed.elements(),
            Elements::F32([1.0, -2.0, 0.5, 3.0])
        ));
    }
}
