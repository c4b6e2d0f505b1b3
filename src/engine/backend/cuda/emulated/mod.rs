//! A GPU that is none: the kernels compiled as plain C++ and run on the CPU, thread by thread.
//!
//! Main type: [`Emulated`]. It lets everything but speed be checked where no GPU is at hand: the kernels
//! themselves, their launchers, and the backend above them. It is strict where a GPU is not: every pointer
//! must lie within memory that lives. Refuses to know: what a kernel computes.

mod library;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use libloading::Library;
use memmap2::MmapMut;

use super::device::{Arg, Device, DeviceError, DeviceFacts, Launch, Memory, Product, View};
use super::sources::{Arch, Element};
use super::times::{KernelTimes, MARK, Started};
use crate::weights::Dtype;
pub use library::EmulatorSources;

type Emulate = unsafe extern "C" fn(
    *const c_char,
    *const c_uint,
    *const c_uint,
    c_uint,
    *mut *mut c_void,
) -> c_int;
type Seed = unsafe extern "C" fn(u64);

pub struct Emulated {
    facts: DeviceFacts,
    element: Element,
    library: Library,
    memory: Rc<RefCell<Living>>,
    recording: Option<Vec<Order>>,
    times: Option<Arc<KernelTimes>>,
}

/// All memory that is not dropped yet, by address.
type Living = BTreeMap<u64, usize>;

pub struct EmulatedMemory {
    bytes: MmapMut,
    /// As asked for; a map is whole pages.
    size: usize,
    living: Rc<RefCell<Living>>,
}

impl Memory for EmulatedMemory {
    fn view(&self) -> View {
        View {
            address: self.bytes.as_ptr() as u64,
            bytes: self.size,
        }
    }
}

impl Drop for EmulatedMemory {
    fn drop(&mut self) {
        self.living.borrow_mut().remove(&self.view().address);
    }
}

/// Nodes of a graph.
#[derive(Clone, Debug)]
pub enum Order {
    Launch(Launch),
    Product(Product, Sums),
}

/// The order in which a product's sums are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sums {
    Forwards,
    Backwards,
}

impl Order {
    fn started(&self) -> Started {
        match self {
            Self::Launch(launch) => launch.started(),
            Self::Product(product, _) => product.started(),
        }
    }
}

impl Emulated {
    /// Builds the emulator with g++, or takes what was built of the same sources before.
    pub fn build(sources: &EmulatorSources, element: Element) -> Result<Self, DeviceError> {
        let path = sources.built(element)?;
        #[expect(unsafe_code, reason = "loads the library that was just built")]
        // SAFETY: it is built of this repository's sources; its constructors only set up memory of its own.
        let library = unsafe { Library::new(&path) };
        let library = library.map_err(|error| {
            DeviceError::Missing(format!("{} cannot be loaded: {error}", path.display()))
        })?;
        Ok(Self {
            facts: DeviceFacts {
                name: "emulated GPU".to_owned(),
                arch: Arch { major: 8, minor: 0 },
                multiprocessors: 4,
                shared_bytes: 163 << 10,
            },
            element,
            library,
            memory: Rc::default(),
            recording: None,
            times: None,
        })
    }

    /// From here on each replay tells what it took, kernel by kernel.
    pub fn tell(&mut self, times: Option<Arc<KernelTimes>>) {
        self.times = times;
    }

    /// Draws the order of blocks and warps anew.
    pub fn shuffle(&mut self, seed: u64) -> Result<(), DeviceError> {
        let shuffle = self.symbol::<Seed>("emulate_seed")?;
        #[expect(unsafe_code, reason = "calls the emulator")]
        // SAFETY: the function has this signature and touches the emulator's own state only.
        unsafe {
            shuffle(seed);
        }
        Ok(())
    }

    fn symbol<T: Copy>(&self, name: &'static str) -> Result<T, DeviceError> {
        #[expect(unsafe_code, reason = "looks for a function of the emulator")]
        // SAFETY: callers name the type that tests/gpu/emulator/emulator.cpp declares.
        let found = unsafe { self.library.get::<T>(name.as_bytes()) };
        let found = found.map_err(|error| failed("dlsym", error.to_string()))?;
        Ok(*found)
    }

    /// The living memory that holds the view.
    fn holds(&self, view: View) -> bool {
        let living = self.memory.borrow();
        let before = living.range(..=view.address).next_back();
        before
            .is_some_and(|(start, bytes)| view.address + view.bytes as u64 <= start + *bytes as u64)
    }

    fn checked(&self, call: &'static str, view: View, bytes: usize) -> Result<(), DeviceError> {
        if view.bytes < bytes || !self.holds(View { bytes, ..view }) {
            return Err(failed(
                call,
                format!("{bytes} bytes at {view:?} are not there"),
            ));
        }
        Ok(())
    }

    fn obey(&mut self, order: &Order) -> Result<(), DeviceError> {
        match order {
            Order::Launch(launch) => self.run(launch),
            Order::Product(product, sums) => self.compute(product, *sums),
        }
    }

    fn run(&mut self, launch: &Launch) -> Result<(), DeviceError> {
        for arg in &launch.args {
            if let Arg::At(address) = *arg {
                let held = address == 0 || self.holds(View { address, bytes: 1 });
                if !held {
                    return Err(failed(
                        "launch",
                        format!("{launch:?} names memory that is gone"),
                    ));
                }
            }
        }
        let name = CString::new(launch.kernel).map_err(|e| failed("launch", e.to_string()))?;
        let mut words: Vec<u64> = launch.args.iter().map(Arg::word).collect();
        let mut args: Vec<*mut c_void> = words
            .iter_mut()
            .map(|word| std::ptr::from_mut(word).cast())
            .collect();
        let block = [launch.block, 1, 1];
        let emulate = self.symbol::<Emulate>("emulate")?;
        #[expect(unsafe_code, reason = "runs a kernel on the CPU")]
        // SAFETY: the function has this signature; arguments follow the kernel's own, by the launchers;
        // pointers lie in living memory, as was just checked, and have the room that launchers checked.
        let status = unsafe {
            emulate(
                name.as_ptr(),
                launch.grid.as_ptr(),
                block.as_ptr(),
                launch.shared,
                args.as_mut_ptr(),
            )
        };
        let cause = match status {
            0 => return Ok(()),
            1 => "there is no such kernel",
            2 => "threads parted at a barrier",
            3 => "it wrote behind its shared memory",
            4 => "no GPU takes such a launch",
            _ => "the emulator is another one",
        };
        Err(failed("launch", format!("{}: {cause}", launch.kernel)))
    }

    fn compute(&mut self, product: &Product, sums: Sums) -> Result<(), DeviceError> {
        let Product { n, rows, cols, .. } = *product;
        let x = self.numbers(product.x, n * cols)?;
        let weight = self.numbers(product.weight, rows * cols)?;
        let mut out = Vec::with_capacity(n * rows * 4);
        for x in x.chunks_exact(cols) {
            for weight in weight.chunks_exact(cols) {
                let terms = x.iter().zip(weight).map(|(x, weight)| x * weight);
                let sum: f32 = match sums {
                    Sums::Forwards => terms.sum(),
                    Sums::Backwards => terms.rev().sum(),
                };
                out.extend_from_slice(&sum.to_ne_bytes());
            }
        }
        self.copy_in(product.out, &out)
    }

    /// Elements as f32.
    fn numbers(&self, view: View, count: usize) -> Result<Vec<f32>, DeviceError> {
        let mut bytes = vec![0; count * self.element.bytes()];
        self.copy_out(view, &mut bytes)?;
        Ok(Dtype::from(self.element).widen(&bytes))
    }

    fn copy_in(&self, to: View, bytes: &[u8]) -> Result<(), DeviceError> {
        self.checked("write", to, bytes.len())?;
        #[expect(unsafe_code, reason = "writes memory that kernels hold by address")]
        // SAFETY: the target was just found within memory that lives; `bytes` is another's.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), to.address as *mut u8, bytes.len());
        }
        Ok(())
    }

    fn copy_out(&self, from: View, bytes: &mut [u8]) -> Result<(), DeviceError> {
        self.checked("read", from, bytes.len())?;
        #[expect(unsafe_code, reason = "reads memory that kernels hold by address")]
        // SAFETY: the source was just found within memory that lives and is whole from the start.
        unsafe {
            std::ptr::copy_nonoverlapping(
                from.address as *const u8,
                bytes.as_mut_ptr(),
                bytes.len(),
            );
        }
        Ok(())
    }
}

impl Device for Emulated {
    type Memory = EmulatedMemory;
    type Graph = Vec<Order>;
    type Algorithm = Sums;

    fn facts(&self) -> &DeviceFacts {
        &self.facts
    }

    fn element(&self) -> Element {
        self.element
    }

    fn free_bytes(&self) -> Result<usize, DeviceError> {
        Ok(1 << 30)
    }

    fn allocate(&mut self, bytes: usize) -> Result<EmulatedMemory, DeviceError> {
        let map = MmapMut::map_anon(bytes.max(1)).map_err(|error| DeviceError::Memory {
            bytes,
            cause: error.to_string(),
        })?;
        let memory = EmulatedMemory {
            bytes: map,
            size: bytes,
            living: Rc::clone(&self.memory),
        };
        let View { address, bytes } = memory.view();
        self.memory.borrow_mut().insert(address, bytes);
        Ok(memory)
    }

    fn write(&mut self, to: View, bytes: &[u8]) -> Result<(), DeviceError> {
        self.not_recording("write")?;
        self.copy_in(to, bytes)
    }

    fn read(&mut self, from: View, to: &mut [u8]) -> Result<(), DeviceError> {
        self.not_recording("read")?;
        self.copy_out(from, to)
    }

    fn launch(&mut self, launch: &Launch) -> Result<(), DeviceError> {
        self.take(Order::Launch(launch.clone()))
    }

    fn algorithms(&mut self, _product: &Product) -> Result<Vec<Sums>, DeviceError> {
        Ok(vec![Sums::Forwards, Sums::Backwards])
    }

    fn product(&mut self, product: &Product, algorithm: &Sums) -> Result<(), DeviceError> {
        self.take(Order::Product(*product, *algorithm))
    }

    fn begin_capture(&mut self) -> Result<(), DeviceError> {
        self.not_recording("begin_capture")?;
        self.recording = Some(Vec::new());
        Ok(())
    }

    fn end_capture(&mut self) -> Result<Vec<Order>, DeviceError> {
        let none = || failed("end_capture", "nothing was begun".to_owned());
        self.recording.take().ok_or_else(none)
    }

    fn replay(&mut self, graph: &Vec<Order>) -> Result<(), DeviceError> {
        self.not_recording("replay")?;
        self.told(MARK, |_| Ok(()))?;
        for order in graph {
            self.told(order.started(), |device| device.obey(order))?;
        }
        Ok(())
    }

    fn nodes(&self, graph: &Vec<Order>) -> u64 {
        graph.len() as u64
    }

    fn time(
        &mut self,
        work: &mut dyn FnMut(&mut Self) -> Result<(), DeviceError>,
    ) -> Result<Duration, DeviceError> {
        self.not_recording("time")?;
        let start = Instant::now();
        work(self)?;
        Ok(start.elapsed())
    }

    fn synchronize(&self) -> Result<(), DeviceError> {
        self.not_recording("synchronize")
    }
}

impl Emulated {
    /// Does it, and tells what it took where that is asked for.
    fn told(
        &mut self,
        started: Started,
        work: impl FnOnce(&mut Self) -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        let begun = Instant::now();
        work(self)?;
        if let Some(times) = &self.times {
            times.add(started, begun.elapsed());
        }
        Ok(())
    }

    /// Does it, or records it.
    fn take(&mut self, order: Order) -> Result<(), DeviceError> {
        if let Some(recording) = &mut self.recording {
            recording.push(order);
            return Ok(());
        }
        self.obey(&order)
    }

    /// A GPU refuses it too.
    fn not_recording(&self, call: &'static str) -> Result<(), DeviceError> {
        match self.recording {
            None => Ok(()),
            Some(_) => Err(failed(call, "a recording is under way".to_owned())),
        }
    }
}

fn failed(call: &'static str, cause: String) -> DeviceError {
    DeviceError::Failed { call, cause }
}
