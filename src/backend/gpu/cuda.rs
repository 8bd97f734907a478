//! NVIDIA GPUs through the driver's library, which is opened at run time where it is there.

mod host;
mod library;

use std::{
    cell::RefCell,
    collections::HashMap,
    ffi::{CString, c_int, c_void},
    ptr,
    rc::Rc,
    slice,
};

use cudarc::driver::sys::{self, CUdevice, CUevent, CUfunction, CUmodule, CUstream};

pub use self::host::devices;
use self::{
    host::{Host, failure},
    library::Library,
};
use super::{
    driver::{DeviceFacts, DeviceMemory, Driver, MemoryFacts},
    kernels::{ALL, Args, Kernel},
};
use crate::error::Result;

/// The code for an allocation that does not fit.
const OUT_OF_MEMORY: c_int = 2;

/// A device whose context is the calling thread's.
struct Context {
    host: Host,
    device: CUdevice,
    label: String,
}

impl Context {
    fn check(&self, code: c_int, operation: &'static str, what: &str) -> Result<()> {
        self.host.check(code, &self.label, operation, what)
    }

    /// Where nobody can be told of it: in the log.
    fn check_drop(&self, code: c_int, what: &str) {
        if let Err(error) = self.check(code, "release", what) {
            tracing::debug!("{error}");
        }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: retained when it was made; everything of it holds it and is gone.
        self.check_drop(unsafe { (self.host.library.cuDevicePrimaryCtxRelease_v2)(self.device) }, "context");
    }
}

/// One NVIDIA GPU.
pub struct Cuda {
    context: Rc<Context>,
    facts: DeviceFacts,
    modules: Vec<CUmodule>,
    functions: HashMap<&'static str, CUfunction>,
}

impl Cuda {
    /// Device `index`, with the kernels from `images`: PTX or machine code, each with some of them.
    ///
    /// A thread has one device at a time: what was opened on it before must be gone.
    ///
    /// # Errors
    /// [`crate::error::Error::Device`] where it cannot be used, takes an image for broken, or no image has a kernel.
    pub fn open(index: usize, images: &[&[u8]]) -> Result<Self> {
        const OPERATION: &str = "load kernels";
        let host = Host::open()?;
        if index >= host.count {
            let message = format!("there are {} devices, from cuda:0 on", host.count);
            return Err(failure(&format!("cuda:{index}"), "open the device", message));
        }
        let (device, facts) = host.facts(index)?;
        let mut handle = ptr::null_mut();
        // SAFETY: writes one pointer.
        let code = unsafe { (host.library.cuDevicePrimaryCtxRetain)(&mut handle, device) };
        let label = format!("cuda:{index}");
        host.check(code, &label, "open the device", "context")?;
        let context = Rc::new(Context { host, device, label });
        let library = &context.host.library;
        // SAFETY: the context was just retained, and lives as long as `context`.
        context.check(unsafe { (library.cuCtxSetCurrent)(handle) }, "open the device", "context")?;
        let mut cuda = Cuda { context: Rc::clone(&context), facts, modules: Vec::new(), functions: HashMap::new() };
        for image in images {
            // PTX ends with a null; behind machine code it does no harm.
            let image = [image, &[0][..]].concat();
            let mut module = ptr::null_mut();
            // SAFETY: writes one pointer, and reads the image up to its own end or its null.
            let code = unsafe { (library.cuModuleLoadData)(&mut module, image.as_ptr().cast()) };
            context.check(
                code,
                OPERATION,
                &format!("an image for {}, driver of {}", cuda.facts.architecture, cuda.facts.driver),
            )?;
            cuda.modules.push(module);
        }
        for kernel in ALL {
            let name = CString::new(kernel.name).expect("kernels' names have no null");
            let function = cuda.modules.iter().find_map(|&module| {
                let mut function = ptr::null_mut();
                // SAFETY: writes one pointer; the module is loaded and the name ends with a null.
                let code = unsafe { (library.cuModuleGetFunction)(&mut function, module, name.as_ptr()) };
                (code == 0).then_some(function)
            });
            let function = function.ok_or_else(|| {
                failure(
                    &context.label,
                    OPERATION,
                    format!("no image for {} has {}", cuda.facts.architecture, kernel.name),
                )
            })?;
            cuda.functions.insert(kernel.name, function);
        }
        Ok(cuda)
    }

    fn library(&self) -> &Library {
        &self.context.host.library
    }
}

impl Drop for Cuda {
    fn drop(&mut self) {
        // SAFETY: takes nothing. Streams may outlive this, and what they run.
        self.context.check_drop(unsafe { (self.library().cuCtxSynchronize)() }, "wait");
        for &module in &self.modules {
            // SAFETY: loaded, and nothing of it runs any more.
            self.context.check_drop(unsafe { (self.library().cuModuleUnload)(module) }, "module");
        }
    }
}

/// A buffer on an NVIDIA GPU.
pub struct Memory {
    context: Rc<Context>,
    address: u64,
    len: usize,
}

impl DeviceMemory for Memory {
    fn address(&self) -> u64 {
        self.address
    }

    fn len(&self) -> usize {
        self.len
    }
}

impl Memory {
    /// The address of byte `offset`, `len` bytes before the end or more.
    fn at(&self, offset: usize, len: usize) -> u64 {
        assert!(offset.checked_add(len).is_some_and(|end| end <= self.len), "{offset} + {len} in {} bytes", self.len);
        self.address + offset as u64
    }

    /// Zeros, with nothing that uses the buffer under way before or after.
    fn wipe(&self) -> c_int {
        let library = &self.context.host.library;
        // SAFETY: takes nothing.
        let before = unsafe { (library.cuCtxSynchronize)() };
        // SAFETY: the bytes are the buffer's.
        let wiped = unsafe { (library.cuMemsetD8Async)(self.address, 0, self.len, ptr::null_mut()) };
        // SAFETY: takes nothing.
        let after = unsafe { (library.cuCtxSynchronize)() };
        [before, wiped, after].into_iter().find(|&code| code != 0).unwrap_or(0)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.context.check_drop(self.wipe(), "wipe a buffer");
        // SAFETY: allocated, and nothing uses it any more.
        self.context.check_drop(unsafe { (self.context.host.library.cuMemFree_v2)(self.address) }, "buffer");
    }
}

/// A buffer on the host that an NVIDIA GPU reads and writes itself.
pub struct Pinned {
    context: Rc<Context>,
    start: *mut u8,
    len: usize,
}

impl AsRef<[u8]> for Pinned {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: `len` bytes, set when they were allocated.
        unsafe { slice::from_raw_parts(self.start, self.len) }
    }
}

impl AsMut<[u8]> for Pinned {
    fn as_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and borrowed alone.
        unsafe { slice::from_raw_parts_mut(self.start, self.len) }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        zeroize::Zeroize::zeroize(self.as_mut());
        // SAFETY: allocated by cuMemHostAlloc, and its borrows have ended.
        let code = unsafe { (self.context.host.library.cuMemFreeHost)(self.start.cast()) };
        self.context.check_drop(code, "host buffer");
    }
}

/// A queue of work on an NVIDIA GPU.
pub struct Stream {
    context: Rc<Context>,
    handle: CUstream,
    /// Kernels since the last synchronization, each once.
    enqueued: RefCell<Vec<&'static str>>,
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: created, and not used again; what it holds is still done.
        self.context.check_drop(unsafe { (self.context.host.library.cuStreamDestroy_v2)(self.handle) }, "stream");
    }
}

/// A moment in a stream of an NVIDIA GPU.
pub struct Event {
    context: Rc<Context>,
    handle: CUevent,
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: created, and not used again.
        self.context.check_drop(unsafe { (self.context.host.library.cuEventDestroy_v2)(self.handle) }, "event");
    }
}

impl Driver for Cuda {
    type Memory = Memory;
    type Pinned = Pinned;
    type Stream = Stream;
    type Event = Event;

    fn facts(&self) -> &DeviceFacts {
        &self.facts
    }

    fn memory(&self) -> Result<MemoryFacts> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: writes two numbers.
        let code = unsafe { (self.library().cuMemGetInfo_v2)(&mut free, &mut total) };
        self.context.check(code, "measure memory", "device")?;
        Ok(MemoryFacts { free_bytes: free as u64, total_bytes: total as u64 })
    }

    fn allocate(&self, operation: &'static str, len: usize) -> Result<Memory> {
        let mut address = 0;
        // SAFETY: writes one address.
        let code = unsafe { (self.library().cuMemAlloc_v2)(&mut address, len.max(1)) };
        if code == OUT_OF_MEMORY {
            let free = self.memory()?.free_bytes as f64 / 1e9;
            let message = format!("out of memory: {:.3} GB needed, {free:.3} GB free", len as f64 / 1e9);
            return Err(failure(&self.context.label, operation, message));
        }
        self.context.check(code, operation, "allocate")?;
        let memory = Memory { context: Rc::clone(&self.context), address, len };
        self.context.check(memory.wipe(), operation, "clear a buffer")?;
        Ok(memory)
    }

    fn pinned(&self, len: usize) -> Result<Pinned> {
        let mut start = ptr::null_mut();
        // SAFETY: writes one pointer. Not write-combined: the host reads it, too.
        let code = unsafe { (self.library().cuMemHostAlloc)(&mut start, len.max(1), sys::CU_MEMHOSTALLOC_PORTABLE) };
        self.context.check(code, "allocate pinned memory", &format!("{len} bytes"))?;
        // SAFETY: so many bytes were allocated.
        unsafe { ptr::write_bytes(start.cast::<u8>(), 0, len.max(1)) };
        Ok(Pinned { context: Rc::clone(&self.context), start: start.cast(), len })
    }

    fn stream(&self) -> Result<Stream> {
        let mut handle = ptr::null_mut();
        let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: writes one pointer.
        let code = unsafe { (self.library().cuStreamCreate)(&mut handle, flags) };
        self.context.check(code, "create a stream", "device")?;
        let enqueued = RefCell::new(Vec::with_capacity(ALL.len()));
        Ok(Stream { context: Rc::clone(&self.context), handle, enqueued })
    }

    fn event(&self) -> Result<Event> {
        let mut handle = ptr::null_mut();
        // SAFETY: writes one pointer.
        let code = unsafe { (self.library().cuEventCreate)(&mut handle, 0) };
        self.context.check(code, "create an event", "device")?;
        Ok(Event { context: Rc::clone(&self.context), handle })
    }

    /// # Safety
    /// As [`Driver::upload`].
    unsafe fn upload(&self, stream: &Stream, src: &Pinned, len: usize, dst: &Memory, offset: usize) -> Result<()> {
        let (from, to) = (&src.as_ref()[..len], dst.at(offset, len));
        // SAFETY: both hold `len` bytes; that the host's stay as they are is the caller's duty.
        let code = unsafe { (self.library().cuMemcpyHtoDAsync_v2)(to, from.as_ptr().cast(), len, stream.handle) };
        self.context.check(code, "copy to the device", "enqueue")
    }

    /// # Safety
    /// As [`Driver::download`].
    unsafe fn download(
        &self,
        stream: &Stream,
        src: &Memory,
        offset: usize,
        dst: &mut Pinned,
        len: usize,
    ) -> Result<()> {
        let (from, to) = (src.at(offset, len), &mut dst.as_mut()[..len]);
        // SAFETY: both hold `len` bytes; that nobody touches the host's is the caller's duty.
        let code = unsafe { (self.library().cuMemcpyDtoHAsync_v2)(to.as_mut_ptr().cast(), from, len, stream.handle) };
        self.context.check(code, "copy from the device", "enqueue")
    }

    fn fill(&self, stream: &Stream, dst: &Memory, offset: usize, len: usize, byte: u8) -> Result<()> {
        // SAFETY: the bytes are the buffer's, which waits for the device before it goes.
        let code = unsafe { (self.library().cuMemsetD8Async)(dst.at(offset, len), byte, len, stream.handle) };
        self.context.check(code, "fill", "enqueue")
    }

    /// # Safety
    /// As [`Driver::launch`].
    unsafe fn launch<A: Args>(&self, stream: &Stream, kernel: &Kernel<A>, blocks: u32, mut args: A) -> Result<()> {
        let function = self.functions[kernel.name];
        let mut pointers = [ptr::from_mut(&mut args).cast::<c_void>()];
        // SAFETY: the kernel takes one A, which is copied before the call returns; what it says is the caller's duty.
        let code = unsafe {
            (self.library().cuLaunchKernel)(
                function,
                blocks,
                1,
                1,
                kernel.block_threads,
                1,
                1,
                0,
                stream.handle,
                pointers.as_mut_ptr(),
                ptr::null_mut(),
            )
        };
        self.context.check(code, "launch", kernel.name)?;
        let mut enqueued = stream.enqueued.borrow_mut();
        if !enqueued.contains(&kernel.name) {
            enqueued.push(kernel.name);
        }
        Ok(())
    }

    fn record(&self, event: &Event, stream: &Stream) -> Result<()> {
        // SAFETY: both live.
        let code = unsafe { (self.library().cuEventRecord)(event.handle, stream.handle) };
        self.context.check(code, "record an event", "enqueue")
    }

    fn wait(&self, stream: &Stream, event: &Event) -> Result<()> {
        // SAFETY: both live.
        let code = unsafe { (self.library().cuStreamWaitEvent)(stream.handle, event.handle, 0) };
        self.context.check(code, "wait for an event", "enqueue")
    }

    fn elapsed_s(&self, start: &Event, end: &Event) -> Result<f64> {
        let mut elapsed_ms = 0.0;
        // SAFETY: writes one number; both events live.
        let code = unsafe { (self.library().cuEventElapsedTime)(&mut elapsed_ms, start.handle, end.handle) };
        self.context.check(code, "measure time", "two events")?;
        Ok(f64::from(elapsed_ms) / 1e3)
    }

    fn synchronize(&self, stream: &Stream) -> Result<()> {
        // SAFETY: it lives.
        let code = unsafe { (self.library().cuStreamSynchronize)(stream.handle) };
        let mut kernels = stream.enqueued.borrow_mut();
        let mut result = Ok(());
        if code != 0 {
            let what = if kernels.is_empty() { "copies alone".into() } else { kernels.join(" or ") };
            result = self.context.check(code, "synchronize", &what);
        }
        kernels.clear();
        result
    }
}
