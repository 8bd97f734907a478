//! Host memory: buffers that begin at pages, views of strings inside them, slices that threads share.

use std::{
    marker::PhantomData,
    ops::{Deref, DerefMut, Range},
    slice,
};

#[cfg(target_os = "linux")]
use memmap2::Advice;
use memmap2::MmapMut;
use zeroize::Zeroize;

use crate::{
    error::{Error, Result},
    machine,
    ops::{Rows, RowsMut},
};

/// Integers and arrays of them: all-zero bytes are a value, and no value has anything to drop.
///
/// # Safety
/// The type is as the line above says.
pub(super) unsafe trait Plain: Copy + Send + Sync + 'static {}
// SAFETY: integers.
unsafe impl Plain for u8 {}
// SAFETY: an integer.
unsafe impl Plain for i16 {}
// SAFETY: an integer.
unsafe impl Plain for i32 {}
// SAFETY: an array of them.
unsafe impl<T: Plain, const N: usize> Plain for [T; N] {}

/// Buffers from here on ask for large pages. Clearing a large page for a few bytes of it would cost more than it gives.
#[cfg(target_os = "linux")]
const LARGE_BYTES: usize = 1 << 20;

/// A slice of fixed length that begins at a page and is zero at first.
///
/// The system gives its pages when they are first touched, near the core that touches them, and large ones where it has
/// them: products walk through more rows at a time than the processor remembers small pages.
pub(super) struct Buffer<T: Plain> {
    map: MmapMut,
    len: usize,
    values: PhantomData<T>,
}

impl<T: Plain> Buffer<T> {
    /// `len` zeros; `operation` names who needs them.
    ///
    /// # Errors
    /// [`Error::Device`] where there is no memory for them.
    pub(super) fn new(operation: &'static str, len: usize) -> Result<Self> {
        let bytes = len.checked_mul(size_of::<T>()).filter(|&bytes| bytes <= isize::MAX as usize);
        // A map has at least one byte.
        let map = bytes.and_then(|bytes| MmapMut::map_anon(bytes.max(1)).ok()).ok_or_else(|| {
            let needed = len as f64 * size_of::<T>() as f64 / 1e9;
            let free = machine::available_bytes() as f64 / 1e9;
            device_error(operation, format!("out of memory: {needed:.3} GB needed, {free:.3} GB free"))
        })?;
        #[cfg(target_os = "linux")]
        if map.len() >= LARGE_BYTES && map.advise(Advice::HugePage).is_err() {
            tracing::debug!("this system has no large pages");
        }
        Ok(Buffer { map, len, values: PhantomData })
    }
}

impl<T: Plain> Deref for Buffer<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: the map has the bytes of `len` values, zero or written as such, and begins at a page.
        unsafe { slice::from_raw_parts(self.map.as_ptr().cast(), self.len) }
    }
}

impl<T: Plain> DerefMut for Buffer<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above, and borrowed alone.
        unsafe { slice::from_raw_parts_mut(self.map.as_mut_ptr().cast(), self.len) }
    }
}

/// A buffer of secrets, wiped when it is dropped.
pub(super) struct Secret<T: Plain>(Buffer<T>);

impl<T: Plain> Secret<T> {
    /// As [`Buffer::new`].
    ///
    /// # Errors
    /// As there.
    pub(super) fn new(operation: &'static str, len: usize) -> Result<Self> {
        Buffer::new(operation, len).map(Secret)
    }

    /// The first `len` values; a shorter buffer is replaced first. What the values are is left open.
    ///
    /// # Panics
    /// Where there is no memory for more.
    pub(super) fn grown(&mut self, len: usize) -> &mut [T] {
        if self.0.len() < len {
            // The old one goes first: both together may be more than there is.
            *self = Secret(Buffer::new("work space", 0).expect("no memory is needed for nothing"));
            *self = Secret::new("work space", len).unwrap_or_else(|error| panic!("{error}"));
        }
        &mut self.0[..len]
    }
}

impl<T: Plain> Default for Secret<T> {
    fn default() -> Self {
        Secret::new("work space", 0).expect("no memory is needed for nothing")
    }
}

impl<T: Plain> Drop for Secret<T> {
    fn drop(&mut self) {
        // SAFETY: the bytes of the values, which are plain: all zero is one of them.
        let bytes = unsafe { slice::from_raw_parts_mut(self.0.as_mut_ptr().cast::<u8>(), size_of_val(&*self.0)) };
        bytes.zeroize();
    }
}

impl<T: Plain> Deref for Secret<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T: Plain> DerefMut for Secret<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.0
    }
}

/// Bytes, zeroized when dropped.
pub struct Bytes(pub(super) Secret<u8>);

/// Small coefficients as 16-bit integers, row after row, zeroized when dropped.
pub struct Small {
    pub(super) n: usize,
    pub(super) coefficients: Secret<i16>,
}

impl Small {
    pub(super) fn row(&self, i: usize) -> &[i16] {
        &self.coefficients[i * self.n..(i + 1) * self.n]
    }

    pub(super) fn rows(&self) -> usize {
        self.coefficients.len() / self.n
    }
}

pub(super) fn device_error(operation: &'static str, message: String) -> Error {
    Error::Device { device: "cpu".into(), operation, message }
}

/// The bytes of string i.
pub(super) fn row<'a>(rows: &Rows<'a, Bytes>, i: usize) -> &'a [u8] {
    let start = rows.start(i);
    &rows.buffer.0[start..start + rows.len]
}

/// The seed that string i is.
pub(super) fn seed<'a>(rows: &Rows<'a, Bytes>, i: usize) -> &'a [u8; 32] {
    row(rows, i).try_into().expect("a seed has 32 bytes")
}

/// The part of the buffer that holds `count` strings of `len` bytes, from the first one on.
pub(super) fn rows_mut<'a>(count: usize, len: usize, out: RowsMut<'a, Bytes>) -> &'a mut [u8] {
    assert!(out.stride >= len, "strings of {len} bytes overlap at a stride of {}", out.stride);
    let end = out.offset + count.saturating_sub(1) * out.stride + len;
    assert!(out.buffer.0.len() >= end, "the view leaves its buffer");
    &mut out.buffer.0[out.offset..end]
}

/// A mutable slice that several threads write at once, each to places of its own.
pub(super) struct Shared<'a, T> {
    start: *mut T,
    len: usize,
    slice: PhantomData<&'a mut [T]>,
}

// SAFETY: a `Shared` only hands out what its callers promise to be disjoint, and T itself may move between threads.
unsafe impl<T: Send> Sync for Shared<'_, T> {}

impl<'a, T> Shared<'a, T> {
    pub(super) fn new(slice: &'a mut [T]) -> Self {
        Shared { start: slice.as_mut_ptr(), len: slice.len(), slice: PhantomData }
    }

    /// # Safety
    /// No two ranges in use at the same time overlap.
    #[expect(clippy::mut_from_ref, reason = "disjoint by the caller's promise")]
    pub(super) unsafe fn range(&self, range: Range<usize>) -> &mut [T] {
        assert!(range.start <= range.end && range.end <= self.len, "a range leaves its slice");
        // SAFETY: inside the slice by the assertion, alone by the caller's promise.
        unsafe { slice::from_raw_parts_mut(self.start.add(range.start), range.len()) }
    }
}
