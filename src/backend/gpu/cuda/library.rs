//! NVIDIA's driver library, opened at run time: the functions that are used, all looked up before the first call.
//!
//! Codes are taken as numbers: newer drivers return some that no list has.

#![allow(non_snake_case, reason = "the names are NVIDIA's")]

use std::ffi::{c_char, c_int, c_uint, c_void};

use cudarc::driver::sys::{self, CUcontext, CUdevice, CUdeviceptr, CUevent, CUfunction, CUmodule, CUstream, CUuuid};

macro_rules! library {
    ($($function:ident($($argument:ty),*);)*) => {
        /// The functions, by the names that the library exports.
        pub(super) struct Library {
            $(
                // SAFETY: a type; whoever calls it says why that is sound.
                pub(super) $function: unsafe extern "C" fn($($argument),*) -> c_int,
            )*
        }

        impl Library {
            /// Opens the library.
            ///
            /// # Errors
            /// In words: that there is none, or what it lacks.
            pub(super) fn open() -> Result<Self, String> {
                // SAFETY: loading runs the initializers of NVIDIA's library, which ask nothing of the caller.
                if !unsafe { sys::is_culib_present() } {
                    return Err("no libcuda.so.1 here: install NVIDIA's driver, or choose another --backend".into());
                }
                // SAFETY: as above; it is there.
                let library = unsafe { sys::culib() };
                $(
                    // SAFETY: the type is the one that cuda.h declares for this name.
                    let function = unsafe {
                        library.get::<unsafe extern "C" fn($($argument),*) -> c_int>(stringify!($function).as_bytes())
                    };
                    let $function = *function.map_err(|_| {
                        concat!("libcuda lacks ", stringify!($function), ": update NVIDIA's driver").to_string()
                    })?;
                )*
                Ok(Library { $($function),* })
            }
        }
    };
}

library! {
    cuInit(c_uint);
    cuDriverGetVersion(*mut c_int);
    cuGetErrorName(c_int, *mut *const c_char);
    cuGetErrorString(c_int, *mut *const c_char);
    cuDeviceGetCount(*mut c_int);
    cuDeviceGet(*mut CUdevice, c_int);
    cuDeviceGetName(*mut c_char, c_int, CUdevice);
    cuDeviceGetUuid_v2(*mut CUuuid, CUdevice);
    cuDeviceGetPCIBusId(*mut c_char, c_int, CUdevice);
    cuDeviceGetAttribute(*mut c_int, c_int, CUdevice);
    cuDevicePrimaryCtxRetain(*mut CUcontext, CUdevice);
    cuDevicePrimaryCtxRelease_v2(CUdevice);
    cuCtxSetCurrent(CUcontext);
    cuCtxSynchronize();
    cuModuleLoadData(*mut CUmodule, *const c_void);
    cuModuleUnload(CUmodule);
    cuModuleGetFunction(*mut CUfunction, CUmodule, *const c_char);
    cuMemGetInfo_v2(*mut usize, *mut usize);
    cuMemAlloc_v2(*mut CUdeviceptr, usize);
    cuMemFree_v2(CUdeviceptr);
    cuMemHostAlloc(*mut *mut c_void, usize, c_uint);
    cuMemFreeHost(*mut c_void);
    cuMemcpyHtoDAsync_v2(CUdeviceptr, *const c_void, usize, CUstream);
    cuMemcpyDtoHAsync_v2(*mut c_void, CUdeviceptr, usize, CUstream);
    cuMemsetD8Async(CUdeviceptr, u8, usize, CUstream);
    cuStreamCreate(*mut CUstream, c_uint);
    cuStreamDestroy_v2(CUstream);
    cuStreamSynchronize(CUstream);
    cuStreamWaitEvent(CUstream, CUevent, c_uint);
    cuEventCreate(*mut CUevent, c_uint);
    cuEventDestroy_v2(CUevent);
    cuEventRecord(CUevent, CUstream);
    cuEventElapsedTime(*mut f32, CUevent, CUevent);
    cuLaunchKernel(
        CUfunction, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, CUstream, *mut *mut c_void, *mut *mut c_void
    );
}
