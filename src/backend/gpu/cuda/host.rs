//! NVIDIA's driver before a device is opened: its version, its devices, and its words for failures.

use std::{
    ffi::{CStr, c_char, c_int},
    ptr,
};

use cudarc::driver::sys::{CUdevice, CUdevice_attribute, CUuuid};

use super::{super::driver::DeviceFacts, library::Library};
use crate::error::{Error, Result};

/// The oldest driver whose calls are all used here, as it gives its version: of CUDA 11.4, which tells the parts of a
/// divided GPU apart. It takes the kernels' PTX as well.
const MIN_VERSION: c_int = 11040;

/// Writes a pointer to a lasting string about a code.
// SAFETY: a type.
type GetWords = unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int;

/// Writes a string about a device to a buffer of the length given.
// SAFETY: a type.
type GetText = unsafe extern "C" fn(*mut c_char, c_int, CUdevice) -> c_int;

/// The visible devices, in the driver's order.
///
/// # Errors
/// [`Error::Device`] where there is no driver, it is too old, or it has no device.
pub fn devices() -> Result<Vec<DeviceFacts>> {
    let host = Host::open()?;
    (0..host.count).map(|index| Ok(host.facts(index)?.1)).collect()
}

/// The library, initialized.
pub(super) struct Host {
    pub(super) library: Library,
    /// Visible devices, at least one.
    pub(super) count: usize,
    version: c_int,
}

/// A failed call's error: `device` as the reports name it.
pub(super) fn failure(device: &str, operation: &'static str, message: String) -> Error {
    Error::Device { device: device.into(), operation, message }
}

/// 12040 is 12.4.
fn version_name(version: c_int) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}

impl Host {
    /// Opens the driver.
    ///
    /// # Errors
    /// There is none, it is too old, or it has no device.
    pub(super) fn open() -> Result<Self> {
        const OPERATION: &str = "open the driver";
        let library = Library::open().map_err(|message| failure("cuda", OPERATION, message))?;
        let mut host = Host { library, count: 0, version: 0 };
        // SAFETY: writes one number.
        let code = unsafe { (host.library.cuDriverGetVersion)(&mut host.version) };
        host.check(code, "cuda", OPERATION, "version")?;
        if host.version < MIN_VERSION {
            let (has, needs) = (version_name(host.version), version_name(MIN_VERSION));
            let message = format!("the driver is of CUDA {has}, at least {needs} is needed: update it");
            return Err(failure("cuda", OPERATION, message));
        }
        // SAFETY: takes a number.
        let code = unsafe { (host.library.cuInit)(0) };
        host.check(code, "cuda", OPERATION, "initialize")?;
        let mut count = 0;
        // SAFETY: writes one number.
        let code = unsafe { (host.library.cuDeviceGetCount)(&mut count) };
        host.check(code, "cuda", OPERATION, "count devices")?;
        if count < 1 {
            let message = "it has no device: is CUDA_VISIBLE_DEVICES as it should be?";
            return Err(failure("cuda", OPERATION, message.into()));
        }
        host.count = count as usize;
        Ok(host)
    }

    /// An error that says `what` failed and how, in the driver's words.
    pub(super) fn check(&self, code: c_int, device: &str, operation: &'static str, what: &str) -> Result<()> {
        if code == 0 {
            return Ok(());
        }
        let words = |get: GetWords| {
            let mut text = ptr::null();
            // SAFETY: writes one pointer, to a string that lasts, or null.
            let known = unsafe { get(code, &mut text) } == 0 && !text.is_null();
            // SAFETY: as above.
            known.then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
        };
        let name = words(self.library.cuGetErrorName).unwrap_or_else(|| format!("code {code}"));
        let text = words(self.library.cuGetErrorString).unwrap_or_else(|| "unknown to this driver".into());
        Err(failure(device, operation, format!("{what}: {name} ({text})")))
    }

    /// The driver's handle of device `index`, and what it is.
    pub(super) fn facts(&self, index: usize) -> Result<(CUdevice, DeviceFacts)> {
        const OPERATION: &str = "describe the device";
        let label = format!("cuda:{index}");
        let check = |code, what| self.check(code, &label, OPERATION, what);
        let library = &self.library;
        let mut device = 0;
        // SAFETY: writes one number.
        check(unsafe { (library.cuDeviceGet)(&mut device, index as c_int) }, "device")?;
        let attribute = |attribute: CUdevice_attribute| {
            let mut value = 0;
            // SAFETY: writes one number.
            check(unsafe { (library.cuDeviceGetAttribute)(&mut value, attribute as c_int, device) }, "attribute")?;
            Ok::<_, Error>(value)
        };
        let text = |get: GetText, what| {
            let mut bytes = [0 as c_char; 256];
            // SAFETY: writes at most 255 bytes, a null behind them.
            check(unsafe { get(bytes.as_mut_ptr(), 255, device) }, what)?;
            // SAFETY: the last byte is null, whatever was written.
            Ok::<_, Error>(unsafe { CStr::from_ptr(bytes.as_ptr()) }.to_string_lossy().into_owned())
        };
        let mut uuid = CUuuid { bytes: [0; 16] };
        // SAFETY: writes 16 bytes.
        check(unsafe { (library.cuDeviceGetUuid_v2)(&mut uuid, device) }, "UUID")?;
        let major = attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
        let minor = attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
        let facts = DeviceFacts {
            index,
            driver: format!("CUDA {}", version_name(self.version)),
            name: text(library.cuDeviceGetName, "name")?,
            uuid: hex::encode(uuid.bytes.map(|byte| byte as u8)),
            pci: text(library.cuDeviceGetPCIBusId, "PCI address")?,
            architecture: format!("sm_{major}{minor}"),
            units: attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)? as u32,
        };
        Ok((device, facts))
    }
}
