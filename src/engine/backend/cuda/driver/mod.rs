//! The GPU through NVIDIA's driver, whose libraries are looked for when asked.
//!
//! Main type: [`Driver`], made of a [`Card`] that was found and [`Equipped`] with kernels. One stream: work
//! is done in order. Refuses to know: what a kernel computes.

mod blas;
mod card;
mod error;
mod event;
mod kernels;
mod libraries;
mod marks;
mod memory;
mod staging;

use std::ffi::c_void;
use std::sync::Arc;
use std::time::Duration;

use cudarc::cublaslt::sys::cublasLtMatmulAlgo_t;
use cudarc::driver::sys::{
    self, CUgraphExec, CUgraphInstantiate_flags, CUlaunchAttribute, CUlaunchAttributeID,
    CUlaunchConfig, CUstream, CUstreamCaptureMode,
};
use cudarc::driver::{CudaContext, result};

use super::device::{Arg, Device, DeviceError, DeviceFacts, Launch, Product, View};
use super::sources::Element;
use super::times::{KernelTimes, Started};
use blas::Blas;
pub use card::{Card, Equipped};
use error::{failed, told};
use event::CudaEvent;
use kernels::Kernels;
use marks::Marks;
pub use memory::GpuMemory;
use staging::Staging;

/// Kernels may begin before the one ahead has ended, from this architecture and this driver on: older
/// drivers cannot record it.
const DEPENDENT_MAJOR: u32 = 9;
const DEPENDENT_DRIVER: u32 = 12_030;

/// Set to anything, no kernel begins before the one ahead has ended: to tell a kernel that begins too early
/// from one that computes something else.
const IN_ORDER: &str = "INFERGATE_CUDA_IN_ORDER";

pub struct Driver {
    blas: Blas,
    staging: Staging,
    kernels: Kernels,
    /// Around what is timed.
    around: [CudaEvent; 2],
    /// Given back behind all that works in it.
    stream: Stream,
    facts: DeviceFacts,
    element: Element,
    overlaps: bool,
    /// Times of the kernels in graphs, where they are asked for.
    times: Option<Arc<KernelTimes>>,
    /// Marks of the capture under way.
    marks: Option<Marks>,
    context: Arc<CudaContext>,
}

/// Where work is done in order. Needs a current context for as long as it lives.
struct Stream(CUstream);

pub struct GpuGraph {
    handle: CUgraphExec,
    nodes: u64,
    marks: Option<Marks>,
    context: Arc<CudaContext>,
}

impl Driver {
    /// To be used on this thread alone.
    pub fn start(equipped: Equipped) -> Result<Self, DeviceError> {
        let Equipped {
            card: Card { context, facts },
            element,
            modules,
            not_kept: _,
        } = equipped;
        context
            .bind_to_thread()
            .map_err(|e| failed("cuCtxSetCurrent", &e))?;
        let stream = Stream::new()?;
        Ok(Self {
            blas: Blas::new(&context, stream.0, element)?,
            staging: Staging::new()?,
            kernels: Kernels::load(&modules)?,
            around: [CudaEvent::timed()?, CudaEvent::timed()?],
            stream,
            overlaps: std::env::var_os(IN_ORDER).is_none()
                && facts.arch.major >= DEPENDENT_MAJOR
                && card::driver_version()? >= DEPENDENT_DRIVER,
            facts,
            element,
            times: None,
            marks: None,
            context,
        })
    }

    /// From here on each replay of a captured graph is timed kernel by kernel.
    pub fn tell(&mut self, times: Option<Arc<KernelTimes>>) {
        self.times = times;
    }

    fn mark(&mut self, started: Started) -> Result<(), DeviceError> {
        match &mut self.marks {
            Some(marks) => marks.after(started, self.stream.0),
            None => Ok(()),
        }
    }

    /// Copies within the device.
    pub fn copy(&mut self, from: View, to: View, bytes: usize) -> Result<(), DeviceError> {
        room("copy", from, bytes)?;
        room("copy", to, bytes)?;
        #[expect(unsafe_code, reason = "the driver's copy")]
        // SAFETY: both have the room.
        let done =
            unsafe { result::memcpy_dtod_async(to.address, from.address, bytes, self.stream.0) };
        done.map_err(|e| failed("cuMemcpyDtoDAsync", &e))
    }
}

impl Device for Driver {
    type Memory = GpuMemory;
    type Graph = GpuGraph;
    type Algorithm = cublasLtMatmulAlgo_t;

    fn facts(&self) -> &DeviceFacts {
        &self.facts
    }

    fn element(&self) -> Element {
        self.element
    }

    fn free_bytes(&self) -> Result<usize, DeviceError> {
        card::free_bytes(&self.context)
    }

    fn allocate(&mut self, bytes: usize) -> Result<GpuMemory, DeviceError> {
        GpuMemory::new(&self.context, self.stream.0, bytes)
    }

    fn write(&mut self, to: View, bytes: &[u8]) -> Result<(), DeviceError> {
        room("write", to, bytes.len())?;
        self.staging.send(self.stream.0, to, bytes)
    }

    fn read(&mut self, from: View, to: &mut [u8]) -> Result<(), DeviceError> {
        room("read", from, to.len())?;
        self.staging.fetch(self.stream.0, from, to)
    }

    fn launch(&mut self, launch: &Launch) -> Result<(), DeviceError> {
        let function = self.kernels.function(launch.kernel, launch.shared)?;
        let mut words: Vec<u64> = launch.args.iter().map(Arg::word).collect();
        let mut args: Vec<*mut c_void> = words
            .iter_mut()
            .map(|word| std::ptr::from_mut(word).cast())
            .collect();
        #[expect(unsafe_code, reason = "plain numbers")]
        // SAFETY: zeros are a valid value.
        let mut overlap: CUlaunchAttribute = unsafe { std::mem::zeroed() };
        overlap.id = CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
        overlap.value.programmaticStreamSerializationAllowed = 1;
        let [x, y, z] = launch.grid;
        let config = CUlaunchConfig {
            gridDimX: x,
            gridDimY: y,
            gridDimZ: z,
            blockDimX: launch.block,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: launch.shared,
            hStream: self.stream.0,
            attrs: &raw mut overlap,
            // Behind an event nothing can begin early.
            numAttrs: u32::from(self.overlaps && self.marks.is_none()),
        };
        #[expect(unsafe_code, reason = "starts a kernel")]
        // SAFETY: arguments follow the kernel's own, by the launchers, which held each pointer's room
        // against the sizes; the driver copies them before it returns.
        let done = unsafe {
            sys::cuLaunchKernelEx(
                &raw const config,
                function,
                args.as_mut_ptr(),
                std::ptr::null_mut(),
            )
        };
        done.result().map_err(|error| DeviceError::Failed {
            call: "cuLaunchKernelEx",
            cause: format!("{}: {}", launch.kernel, told(&error)),
        })?;
        self.mark(launch.started())
    }

    fn algorithms(&mut self, product: &Product) -> Result<Vec<cublasLtMatmulAlgo_t>, DeviceError> {
        self.blas.algorithms(product)
    }

    fn product(
        &mut self,
        product: &Product,
        algorithm: &cublasLtMatmulAlgo_t,
    ) -> Result<(), DeviceError> {
        self.blas.run(self.stream.0, product, algorithm)?;
        self.mark(product.started())
    }

    fn begin_capture(&mut self) -> Result<(), DeviceError> {
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        #[expect(unsafe_code, reason = "begins a recording")]
        // SAFETY: the stream lives as long as this.
        let done = unsafe { result::stream::begin_capture(self.stream.0, mode) };
        done.map_err(|e| failed("cuStreamBeginCapture", &e))?;
        let Some(times) = &self.times else {
            return Ok(());
        };
        match Marks::begin(times, self.stream.0) {
            Ok(marks) => self.marks = Some(marks),
            Err(error) => {
                drop(self.end_capture());
                return Err(error);
            }
        }
        Ok(())
    }

    fn end_capture(&mut self) -> Result<GpuGraph, DeviceError> {
        let marks = self.marks.take();
        #[expect(unsafe_code, reason = "ends a recording")]
        // SAFETY: the stream lives; the graph is only made into what can be launched, and given back.
        let (handle, nodes) = unsafe {
            let graph = result::stream::end_capture(self.stream.0)
                .map_err(|e| failed("cuStreamEndCapture", &e))?;
            let mut nodes = 0_usize;
            let counted =
                sys::cuGraphGetNodes(graph, std::ptr::null_mut(), &raw mut nodes).result();
            let handle = result::graph::instantiate(graph, CUgraphInstantiate_flags(0));
            let _ = result::graph::destroy(graph);
            let handle = handle.map_err(|e| failed("cuGraphInstantiate", &e))?;
            // Only told: a driver that does not count is no reason to stop.
            (handle, counted.map_or(0, |()| nodes as u64))
        };
        let graph = GpuGraph {
            handle,
            nodes: nodes.saturating_sub(marks.as_ref().map_or(0, Marks::count)),
            marks,
            context: Arc::clone(&self.context),
        };
        #[expect(
            unsafe_code,
            reason = "what the first launch would do, and take memory for"
        )]
        // SAFETY: both live, and the stream records no longer.
        let done = unsafe { result::graph::upload(graph.handle, self.stream.0) };
        done.map_err(|e| failed("cuGraphUpload", &e))?;
        Ok(graph)
    }

    fn replay(&mut self, graph: &GpuGraph) -> Result<(), DeviceError> {
        #[expect(unsafe_code, reason = "launches a recording")]
        // SAFETY: both live; the memory that it names is the backend's, which drops graphs first.
        let done = unsafe { result::graph::launch(graph.handle, self.stream.0) };
        done.map_err(|e| failed("cuGraphLaunch", &e))?;
        if let Some(marks) = &graph.marks {
            self.synchronize()?;
            marks.add()?;
        }
        Ok(())
    }

    fn nodes(&self, graph: &GpuGraph) -> u64 {
        graph.nodes
    }

    fn time(
        &mut self,
        work: &mut dyn FnMut(&mut Self) -> Result<(), DeviceError>,
    ) -> Result<Duration, DeviceError> {
        self.around[0].record(self.stream.0)?;
        work(self)?;
        self.around[1].record(self.stream.0)?;
        self.synchronize()?;
        self.around[0].until(&self.around[1])
    }

    fn synchronize(&self) -> Result<(), DeviceError> {
        #[expect(unsafe_code, reason = "waits for the stream")]
        // SAFETY: it lives as long as this.
        let done = unsafe { result::stream::synchronize(self.stream.0) };
        done.map_err(|e| failed("cuStreamSynchronize", &e))
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = self.context.bind_to_thread();
        drop(self.synchronize());
    }
}

impl Stream {
    /// Of the context that is current.
    fn new() -> Result<Self, DeviceError> {
        let made = result::stream::create(result::stream::StreamKind::NonBlocking);
        Ok(Self(made.map_err(|e| failed("cuStreamCreate", &e))?))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        #[expect(unsafe_code, reason = "gives back what `new` took")]
        // SAFETY: made once, given back once; the driver ends what it still has to do.
        unsafe {
            let _ = result::stream::destroy(self.0);
        }
    }
}

impl Drop for GpuGraph {
    fn drop(&mut self) {
        let _ = self.context.bind_to_thread();
        #[expect(unsafe_code, reason = "gives back what `end_capture` made")]
        // SAFETY: made once, given back once.
        unsafe {
            let _ = result::graph::exec_destroy(self.handle);
        }
    }
}

fn room(call: &'static str, view: View, bytes: usize) -> Result<(), DeviceError> {
    if bytes <= view.bytes {
        return Ok(());
    }
    Err(DeviceError::Argument {
        kernel: call,
        what: format!("{bytes} bytes for a place of {}", view.bytes),
    })
}
