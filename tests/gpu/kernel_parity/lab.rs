//! A device under test, numbers drawn for it, and what is read back.
//!
//! Main type: [`Lab`]. A GPU where there is one, else the emulator, which a line says; where that cannot be
//! built either, tests are skipped with a line, or fail if INFERGATE_REQUIRE_CLIENTS is 1.

use std::path::Path;

use engine::cuda::device::{Device, DeviceError, Memory, View};
use engine::cuda::driver::{Card, Driver};
use engine::cuda::emulated::{Emulated, EmulatorSources};
use engine::{Element, KernelCache};
use half::{bf16, f16};

use fixture::skip::skip;

/// What there is to test on.
pub(crate) enum Found {
    Gpu(Box<Driver>),
    Emulated(Box<Emulated>),
    /// Another element alone is asked for.
    NotThis,
    Nothing,
}

/// Set to an element: kernels of that alone, and on a GPU or not at all.
pub(crate) const ON_GPU: &str = "KERNEL_PARITY_ON_GPU";

pub(crate) fn find(element: Element) -> Found {
    if let Ok(only) = std::env::var(ON_GPU) {
        return match only == element.to_string() {
            true => Found::Gpu(Box::new(
                gpu(element).unwrap_or_else(|error| panic!("a GPU: {error}")),
            )),
            false => Found::NotThis,
        };
    }
    let missing = match gpu(element) {
        Ok(driver) => return Found::Gpu(Box::new(driver)),
        Err(missing) => missing,
    };
    let sources = EmulatorSources::of(Path::new(env!("CARGO_MANIFEST_DIR")));
    match Emulated::build(&sources, element) {
        Ok(emulated) => {
            println!("no GPU ({missing}): emulated, {element}");
            Found::Emulated(Box::new(emulated))
        }
        Err(DeviceError::Missing(what)) if !what.contains("refuses") => {
            skip(&format!("no GPU ({missing}), and no emulator: {what}"));
            Found::Nothing
        }
        Err(error) => panic!("the emulator: {error}"),
    }
}

/// Tests begin at once: the first that wants an element's kernels compiles them, and the others wait for the
/// cache that it fills.
fn gpu(element: Element) -> Result<Driver, DeviceError> {
    let card = Card::find()?;
    let turn = fixture::turn("compiling");
    let equipped = card.equip(element, &KernelCache::from_environment())?;
    drop(turn);
    Driver::start(equipped)
}

/// Runs a generic check on whatever there is, for each of these elements.
#[macro_export]
macro_rules! on_a_device {
    ($check:ident, $elements:expr) => {
        for element in $elements {
            match $crate::kernel_parity::lab::find(element) {
                $crate::kernel_parity::lab::Found::Gpu(device) => {
                    $check(&mut $crate::kernel_parity::lab::Lab::new(*device))
                }
                $crate::kernel_parity::lab::Found::Emulated(device) => {
                    $check(&mut $crate::kernel_parity::lab::Lab::new(*device))
                }
                $crate::kernel_parity::lab::Found::NotThis => {}
                $crate::kernel_parity::lab::Found::Nothing => return,
            }
        }
    };
}

pub(crate) struct Lab<D: Device> {
    pub(crate) device: D,
    state: u64,
}

/// Numbers as the device has them: rounded to the element, in f64.
pub(crate) struct Placed<M> {
    pub(crate) memory: M,
    pub(crate) numbers: Vec<f64>,
}

impl<M: Memory> Placed<M> {
    pub(crate) fn view(&self) -> View {
        self.memory.view()
    }
}

impl<D: Device> Lab<D> {
    pub(crate) fn new(device: D) -> Self {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let fresh = now.map_or(1, |time| time.as_nanos() as u64);
        let seed = std::env::var("KERNEL_PARITY_SEED").ok();
        let seed = seed.and_then(|text| text.parse().ok()).unwrap_or(fresh);
        println!("KERNEL_PARITY_SEED={seed}");
        Self {
            device,
            state: seed,
        }
    }

    pub(crate) fn element(&self) -> Element {
        self.device.element()
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, most: usize) -> usize {
        (self.next() % most as u64) as usize
    }

    /// In -1 .. 1.
    pub(crate) fn number(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }

    pub(crate) fn floats(&mut self, count: usize, scale: f32) -> Placed<D::Memory> {
        let numbers: Vec<f32> = (0..count).map(|_| self.number() * scale).collect();
        self.place_floats(&numbers)
    }

    pub(crate) fn place_floats(&mut self, numbers: &[f32]) -> Placed<D::Memory> {
        let bytes: Vec<u8> = numbers.iter().flat_map(|x| x.to_ne_bytes()).collect();
        Placed {
            memory: self.place(&bytes),
            numbers: numbers.iter().map(|x| f64::from(*x)).collect(),
        }
    }

    pub(crate) fn elements(&mut self, count: usize, scale: f32) -> Placed<D::Memory> {
        let numbers: Vec<f32> = (0..count).map(|_| self.number() * scale).collect();
        self.place_elements(&numbers)
    }

    pub(crate) fn place_elements(&mut self, numbers: &[f32]) -> Placed<D::Memory> {
        let bytes = stored(self.element(), numbers);
        Placed {
            memory: self.place(&bytes),
            numbers: loaded(self.element(), &bytes),
        }
    }

    pub(crate) fn ints(&mut self, ints: &[i32]) -> D::Memory {
        let bytes: Vec<u8> = ints.iter().flat_map(|x| x.to_ne_bytes()).collect();
        self.place(&bytes)
    }

    pub(crate) fn place(&mut self, bytes: &[u8]) -> D::Memory {
        let memory = self.device.allocate(bytes.len()).expect("memory");
        self.device.write(memory.view(), bytes).expect("a write");
        memory
    }

    /// Room for f32 and, behind it, a guard, all NaN.
    pub(crate) fn poisoned(&mut self, bytes: usize) -> D::Memory {
        self.place(&vec![0xff; bytes + GUARD])
    }

    pub(crate) fn poisoned_floats(&mut self, count: usize) -> D::Memory {
        self.poisoned(count * 4)
    }

    pub(crate) fn poisoned_elements(&mut self, count: usize) -> D::Memory {
        self.poisoned(count * self.element().bytes())
    }

    pub(crate) fn bytes(&mut self, memory: &D::Memory) -> Vec<u8> {
        let mut bytes = vec![0; memory.view().bytes];
        self.device.read(memory.view(), &mut bytes).expect("a read");
        bytes
    }

    /// What was written to poisoned room; the guard must be as it was.
    pub(crate) fn read_floats(&mut self, memory: &D::Memory) -> Vec<f64> {
        let bytes = self.guarded(memory);
        loaded(Element::F32, &bytes)
    }

    pub(crate) fn read_elements(&mut self, memory: &D::Memory) -> Vec<f64> {
        let bytes = self.guarded(memory);
        loaded(self.element(), &bytes)
    }

    pub(crate) fn guarded(&mut self, memory: &D::Memory) -> Vec<u8> {
        let mut bytes = self.bytes(memory);
        let guard = bytes.split_off(bytes.len() - GUARD);
        assert!(
            guard.iter().all(|byte| *byte == 0xff),
            "written behind the end"
        );
        bytes
    }
}

const GUARD: usize = 256;

pub(crate) fn stored(element: Element, numbers: &[f32]) -> Vec<u8> {
    let numbers = numbers.iter();
    match element {
        Element::F32 => numbers.flat_map(|x| x.to_le_bytes()).collect(),
        Element::F16 => numbers
            .flat_map(|x| f16::from_f32(*x).to_le_bytes())
            .collect(),
        Element::Bf16 => numbers
            .flat_map(|x| bf16::from_f32(*x).to_le_bytes())
            .collect(),
    }
}

pub(crate) fn loaded(element: Element, bytes: &[u8]) -> Vec<f64> {
    let pairs = || bytes.as_chunks::<2>().0.iter();
    match element {
        Element::F32 => {
            let fours = bytes.as_chunks::<4>().0.iter();
            fours.map(|b| f64::from(f32::from_le_bytes(*b))).collect()
        }
        Element::F16 => pairs().map(|b| f16::from_le_bytes(*b).to_f64()).collect(),
        Element::Bf16 => pairs().map(|b| bf16::from_le_bytes(*b).to_f64()).collect(),
    }
}

/// Half a unit in the last place of the element, relative.
pub(crate) fn rounding(element: Element) -> f64 {
    match element {
        Element::F32 => f64::powi(2.0, -24),
        Element::F16 => f64::powi(2.0, -11),
        Element::Bf16 => f64::powi(2.0, -8),
    }
}

/// Each number within `relative` of what is wanted, and `absolute`; NaN never is.
#[track_caller]
pub(crate) fn close(name: &str, got: &[f64], want: &[f64], relative: f64, absolute: f64) {
    assert_eq!(got.len(), want.len(), "{name}: count");
    for (at, (got, want)) in got.iter().zip(want).enumerate() {
        let error = (got - want).abs();
        let most = want.abs() * relative + absolute;
        assert!(
            error <= most,
            "{name}: {got} where {want} is wanted, at {at}"
        );
    }
}
