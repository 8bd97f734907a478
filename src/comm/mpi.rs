//! MPI through rsmpi's raw bindings: its safe requests borrow their buffers for a scope, while these must outlive
//! batches of computation. The only user of the crate `mpi`.

use std::{
    cell::RefCell,
    ffi::{c_int, c_void},
    mem::{ManuallyDrop, MaybeUninit},
    sync::atomic::{AtomicBool, Ordering},
};

use ::mpi::{
    environment::{self, Threading, Universe},
    ffi,
};

use super::{PIECE_BYTES, Pending, TAG_PULSE, Transport, launcher, single::Single};
use crate::error::{Error, Result};

/// Whether a launcher started this process.
static LAUNCHED: AtomicBool = AtomicBool::new(false);

/// The transport of MPI_COMM_WORLD.
pub(super) struct Mpi {
    /// Dropping it finalizes MPI, which hangs unless every rank does: only [`Transport::finalize`] may.
    universe: RefCell<Option<ManuallyDrop<Universe>>>,
    rank: usize,
    size: usize,
    /// Messages to oneself do not go through MPI: Open MPI 4.1 cuts a short one that is longer than asked for, silently.
    own: Single,
}

impl Mpi {
    pub(super) fn start() -> Result<Mpi> {
        // Asked before MPI starts: Open MPI sets such variables itself.
        LAUNCHED.store(launcher::rank(launcher::environment).is_some(), Ordering::SeqCst);
        let (universe, threading) = environment::initialize_with_threading(Threading::Funneled)
            .ok_or_else(|| Error::Mpi("MPI was started before".into()))?;
        let universe = RefCell::new(Some(ManuallyDrop::new(universe)));
        if threading < Threading::Funneled {
            return Err(Error::Mpi("this MPI library does not allow a program with threads".into()));
        }
        let (mut rank, mut size) = (0, 0);
        // SAFETY: MPI is initialized; the pointers are to live integers.
        unsafe {
            check("MPI_Comm_set_errhandler", ffi::MPI_Comm_set_errhandler(world(), ffi::RSMPI_ERRORS_RETURN))?;
            check("MPI_Comm_rank", ffi::MPI_Comm_rank(world(), &mut rank))?;
            check("MPI_Comm_size", ffi::MPI_Comm_size(world(), &mut size))?;
        }
        let (rank, size) = (rank as usize, size as usize);
        Ok(Mpi { universe, rank, size, own: Single::part_of_world(rank) })
    }
}

/// MPI_COMM_WORLD.
fn world() -> ffi::MPI_Comm {
    // SAFETY: a constant that the bindings define as a static.
    unsafe { ffi::RSMPI_COMM_WORLD }
}

fn byte() -> ffi::MPI_Datatype {
    // SAFETY: a constant that the bindings define as a static.
    unsafe { ffi::RSMPI_UINT8_T }
}

/// An error of the call `name` unless `code` is MPI_SUCCESS, which is 0 (MPI 3.1, 8.4).
fn check(name: &str, code: c_int) -> Result<()> {
    if code == 0 {
        return Ok(());
    }
    // MPI_MAX_ERROR_STRING is 256 in Open MPI and 512 in MPICH.
    let mut text = [0u8; 4096];
    let mut length = 0;
    // SAFETY: the buffer is longer than any library's longest text.
    let known = unsafe { ffi::MPI_Error_string(code, text.as_mut_ptr().cast(), &mut length) } == 0;
    let text = if known { String::from_utf8_lossy(&text[..length as usize]) } else { "unknown error".into() };
    Err(Error::Mpi(format!("{name}: {text} (code {code})")))
}

/// Bytes that a status reports.
fn count(status: &ffi::MPI_Status) -> Result<usize> {
    let mut count = 0;
    // SAFETY: a status that MPI filled.
    check("MPI_Get_count", unsafe { ffi::MPI_Get_count(status, byte(), &mut count) })?;
    Ok(count as usize)
}

/// The library's name and version in one line; it needs no started MPI (MPI 3.1, 8.7.1).
pub(super) fn library() -> String {
    // Open MPI counts the terminating NUL.
    let text = environment::library_version().unwrap_or_default().replace('\0', " ");
    text.lines().next().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Ends all ranks; from any thread. MPI asks for calls from the main thread alone, but here nothing is left to lose,
/// and the caller's watchdog ends the process if MPI does not.
///
/// A rank by itself without a launcher leaves MPI in good order: MPI_Abort would add lines of its own.
fn abort(code: i32) -> ! {
    if environment::is_initialized() && !environment::is_finalized() {
        let mut size = 0;
        // SAFETY: MPI is initialized and not finalized; the pointer is to a live integer.
        unsafe {
            ffi::MPI_Comm_size(world(), &mut size);
            if size == 1 && !LAUNCHED.load(Ordering::SeqCst) {
                ffi::MPI_Finalize();
            } else {
                ffi::MPI_Abort(world(), code);
            }
        }
    }
    std::process::exit(code)
}

impl Transport for Mpi {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn library(&self) -> String {
        library()
    }

    fn send(&self, to: usize, tag: u16, bytes: Vec<u8>) -> Result<Box<dyn Pending>> {
        if to == self.rank { self.own.send(to, tag, bytes) } else { Transfer::start(Way::Out, to, tag, bytes) }
    }

    fn receive(&self, from: usize, tag: u16, buffer: Vec<u8>) -> Result<Box<dyn Pending>> {
        if from == self.rank {
            self.own.receive(from, tag, buffer)
        } else {
            Transfer::start(Way::In, from, tag, buffer)
        }
    }

    fn barrier(&self) -> Result<Box<dyn Pending>> {
        let mut request = MaybeUninit::uninit();
        // SAFETY: MPI is initialized and writes the request.
        let request = unsafe {
            check("MPI_Ibarrier", ffi::MPI_Ibarrier(world(), request.as_mut_ptr()))?;
            request.assume_init()
        };
        Ok(Box::new(Barrier { request }))
    }

    fn take_pulse(&self) -> Result<Option<(usize, usize)>> {
        let tag = c_int::from(TAG_PULSE);
        let mut found = 0;
        let mut status = MaybeUninit::uninit();
        let mut sign = 0u8;
        // SAFETY: the pointers are to live values of the types named; MPI_Iprobe fills the status where it found a
        // message, MPI_Recv always. A sign has at most one byte, and a longer message would be an error, not an overrun.
        let status = unsafe {
            let any = ffi::RSMPI_ANY_SOURCE;
            check("MPI_Iprobe", ffi::MPI_Iprobe(any, tag, world(), &mut found, status.as_mut_ptr()))?;
            if found == 0 {
                return Ok(None);
            }
            let source = status.assume_init_ref().MPI_SOURCE;
            let into = (&raw mut sign).cast();
            check("MPI_Recv", ffi::MPI_Recv(into, 1, byte(), source, tag, world(), status.as_mut_ptr()))?;
            status.assume_init()
        };
        Ok(Some((status.MPI_SOURCE as usize, count(&status)?)))
    }

    fn abort(&self) -> fn(i32) -> ! {
        abort
    }

    fn finalize(&self) -> Result<()> {
        if let Some(universe) = self.universe.borrow_mut().take() {
            drop(ManuallyDrop::into_inner(universe));
        }
        Ok(())
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Way {
    Out,
    In,
}

/// A message in pieces, and its buffer, which is MPI's until every piece is done.
///
/// The buffer is held as raw parts and becomes a vector again only in [`Pending::into_buffer`], after the last request
/// is done. Dropped before, it is leaked: MPI can then still read or write it safely, and cancelling could wait for ever
/// on a peer that is gone.
struct Transfer {
    way: Way,
    peer: usize,
    start: *mut u8,
    length: usize,
    capacity: usize,
    /// One per piece, in order.
    requests: Vec<ffi::MPI_Request>,
    /// How many of them are done, from the front.
    done: usize,
}

impl Transfer {
    fn start(way: Way, peer: usize, tag: u16, bytes: Vec<u8>) -> Result<Box<dyn Pending>> {
        let mut bytes = ManuallyDrop::new(bytes);
        let (start, length, capacity) = (bytes.as_mut_ptr(), bytes.len(), bytes.capacity());
        let mut transfer = Transfer { way, peer, start, length, capacity, requests: Vec::new(), done: 0 };
        // An empty message is one empty piece, so that a receiver that asks for more notices.
        for piece in 0..length.div_ceil(PIECE_BYTES).max(1) {
            let count = transfer.piece_bytes(piece) as c_int;
            let (peer, tag) = (peer as c_int, c_int::from(tag));
            let mut request = MaybeUninit::uninit();
            // SAFETY: the piece lies inside the buffer, which nobody else touches and which is not freed before its
            // request is done (or ever); MPI writes the request.
            let request = unsafe {
                let at: *mut c_void = start.add(piece * PIECE_BYTES).cast();
                let to = request.as_mut_ptr();
                match way {
                    Way::Out => check("MPI_Isend", ffi::MPI_Isend(at, count, byte(), peer, tag, world(), to))?,
                    Way::In => check("MPI_Irecv", ffi::MPI_Irecv(at, count, byte(), peer, tag, world(), to))?,
                }
                request.assume_init()
            };
            transfer.requests.push(request);
        }
        Ok(Box::new(transfer))
    }

    /// Bytes of a piece; at most [`PIECE_BYTES`].
    fn piece_bytes(&self, piece: usize) -> usize {
        (self.length - piece * PIECE_BYTES).min(PIECE_BYTES)
    }
}

impl Pending for Transfer {
    fn test(&mut self) -> Result<bool> {
        while let Some(request) = self.requests.get_mut(self.done) {
            let Some(status) = test(request)? else { return Ok(false) };
            if self.way == Way::In {
                let (got, due) = (count(&status)?, self.piece_bytes(self.done));
                if got != due {
                    return Err(super::wrong_length(self.peer, got, due));
                }
            }
            self.done += 1;
        }
        Ok(true)
    }

    fn into_buffer(self: Box<Self>) -> Vec<u8> {
        assert_eq!(self.done, self.requests.len(), "the buffer is still MPI's");
        // SAFETY: the parts of a vector that was never dropped; MPI is done with it, and it is taken once, as `self` is.
        unsafe { Vec::from_raw_parts(self.start, self.length, self.capacity) }
    }
}

/// The status of a request that is done.
fn test(request: &mut ffi::MPI_Request) -> Result<Option<ffi::MPI_Status>> {
    let mut done = 0;
    let mut status = MaybeUninit::uninit();
    // SAFETY: a request of this process; MPI fills the status where it is done.
    unsafe {
        check("MPI_Test", ffi::MPI_Test(request, &mut done, status.as_mut_ptr()))?;
        Ok((done != 0).then(|| status.assume_init()))
    }
}

struct Barrier {
    request: ffi::MPI_Request,
}

impl Pending for Barrier {
    fn test(&mut self) -> Result<bool> {
        Ok(test(&mut self.request)?.is_some())
    }

    fn into_buffer(self: Box<Self>) -> Vec<u8> {
        Vec::new()
    }
}
