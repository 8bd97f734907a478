//! What the GPU backend asks of a vendor's driver: few calls, the same for all vendors.

use super::kernels::{Args, Kernel};
use crate::error::Result;

/// A device as its driver describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceFacts {
    /// The driver's number of it among those that are visible, from 0.
    pub index: usize,
    /// Its product name.
    pub name: String,
    /// What it has in common with no other device, in hexadecimal digits.
    pub uuid: String,
    /// Where it sits: domain:bus:device.function.
    pub pci: String,
    /// The architecture that images are compiled for: sm_90, gfx942.
    pub architecture: String,
    /// The driver's version in its vendor's terms: CUDA 12.4.
    pub driver: String,
    /// Multiprocessors or compute units.
    pub units: u32,
}

/// Memory of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryFacts {
    /// What can be allocated now, in bytes.
    pub free_bytes: u64,
    /// All there is, in bytes.
    pub total_bytes: u64,
}

/// A buffer on the device.
pub trait DeviceMemory {
    /// Where it begins: a multiple of 256 bytes.
    fn address(&self) -> u64;
    /// Its length in bytes.
    fn len(&self) -> usize;
    /// Whether it has no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// One device, with its kernels loaded, opened for the calling thread alone.
///
/// What is enqueued on a stream runs in order, and not in order with other streams unless [`Driver::wait`] says so. A
/// failure is [`crate::error::Error::Device`] with the call's name and, for kernels, theirs. Kernels fail while they
/// run: [`Driver::synchronize`] then names those that were enqueued on its stream since it was last called. Most such
/// failures last: every later call fails as well.
pub trait Driver {
    /// A buffer on the device. When dropped it waits for the device, wipes itself and is free again.
    type Memory: DeviceMemory;
    /// A buffer on the host that the device reads and writes itself.
    type Pinned: AsRef<[u8]> + AsMut<[u8]>;
    /// A queue of work.
    type Stream;
    /// A moment in a stream.
    type Event;

    /// The device.
    fn facts(&self) -> &DeviceFacts;
    /// Its memory at this moment.
    ///
    /// # Errors
    /// As every call here: the driver's.
    fn memory(&self) -> Result<MemoryFacts>;

    /// A zeroed buffer; `operation` names who needs it. May wait for the device: nothing for timed loops.
    ///
    /// # Errors
    /// Out of memory, with what is needed and what is free.
    fn allocate(&self, operation: &'static str, len: usize) -> Result<Self::Memory>;
    /// A zeroed buffer on the host.
    ///
    /// # Errors
    /// Out of memory.
    fn pinned(&self, len: usize) -> Result<Self::Pinned>;
    /// A new stream.
    ///
    /// # Errors
    /// The driver's.
    fn stream(&self) -> Result<Self::Stream>;
    /// A new event, not recorded yet.
    ///
    /// # Errors
    /// The driver's.
    fn event(&self) -> Result<Self::Event>;

    /// Enqueues a copy of the first `len` bytes of `src` to `dst` from byte `offset` on.
    ///
    /// # Safety
    /// Until the stream has done it, nobody writes or drops `src`.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Panics
    /// Where the bytes leave a buffer.
    unsafe fn upload(
        &self,
        stream: &Self::Stream,
        src: &Self::Pinned,
        len: usize,
        dst: &Self::Memory,
        offset: usize,
    ) -> Result<()>;
    /// Enqueues a copy of `len` bytes of `src` from byte `offset` on to the start of `dst`.
    ///
    /// # Safety
    /// Until the stream has done it, nobody reads, writes or drops `dst`.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Panics
    /// Where the bytes leave a buffer.
    unsafe fn download(
        &self,
        stream: &Self::Stream,
        src: &Self::Memory,
        offset: usize,
        dst: &mut Self::Pinned,
        len: usize,
    ) -> Result<()>;
    /// Enqueues the setting of `len` bytes of `dst` from byte `offset` on to `byte`.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Panics
    /// Where the bytes leave the buffer.
    fn fill(&self, stream: &Self::Stream, dst: &Self::Memory, offset: usize, len: usize, byte: u8) -> Result<()>;
    /// Enqueues `kernel` with `blocks` blocks, at least 1.
    ///
    /// # Safety
    /// The addresses and sizes in `args` are what the kernel's description asks for, inside buffers that live until
    /// the stream has done it.
    ///
    /// # Errors
    /// The driver's, with the kernel's name.
    unsafe fn launch<A: Args>(&self, stream: &Self::Stream, kernel: &Kernel<A>, blocks: u32, args: A) -> Result<()>;

    /// Records `event` in `stream`: it happens when everything enqueued before is done.
    ///
    /// # Errors
    /// The driver's.
    fn record(&self, event: &Self::Event, stream: &Self::Stream) -> Result<()>;
    /// What is enqueued on `stream` from now on waits for `event` as last recorded.
    ///
    /// # Errors
    /// The driver's.
    fn wait(&self, stream: &Self::Stream, event: &Self::Event) -> Result<()>;
    /// Seconds of device time between two events that have happened.
    ///
    /// # Errors
    /// The driver's.
    fn elapsed_s(&self, start: &Self::Event, end: &Self::Event) -> Result<f64>;
    /// Waits for everything enqueued on `stream`.
    ///
    /// # Errors
    /// The first failure since the last call, and the kernels that may have caused it.
    fn synchronize(&self, stream: &Self::Stream) -> Result<()>;
}
