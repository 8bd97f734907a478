"""Compiles the kernels with NVRTC, as a binary does where none of its images fits the GPU.

Usage: nvrtc.py LIBNVRTC SOURCE.cpp ... in the folder of the kernels; the headers there are all that sources see.
"""

import ctypes
import glob
import sys


def compile_source(nvrtc, source, headers):
    """The compiler's return code and what it says."""
    program = ctypes.c_void_p()
    names = (ctypes.c_char_p * len(headers))(*[name.encode() for name in headers])
    texts = (ctypes.c_char_p * len(headers))(*[open(name, "rb").read() for name in headers])
    text = open(source, "rb").read()
    code = nvrtc.nvrtcCreateProgram(ctypes.byref(program), text, source.encode(), len(headers), texts, names)
    if code != 0:
        return code, ""
    options = [b"-arch=sm_90", b"-std=c++17"]
    code = nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
    size = ctypes.c_size_t()
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetProgramLog(program, log)
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return code, log.value.decode()


def main():
    nvrtc = ctypes.CDLL(sys.argv[1])
    failed = False
    for source in sys.argv[2:]:
        code, log = compile_source(nvrtc, source, sorted(glob.glob("*.h")))
        print(f"nvrtc    {source}: {'compiled' if code == 0 else f'error {code}'}")
        print(log, end="", file=sys.stderr)
        failed |= code != 0
    sys.exit(failed)


main()
