// A libcuda.so.1 without a GPU: the calls that the CUDA backend uses, and the kernels run by simt.h. Everything is done
// when it is enqueued. Set by environment variables:
//
//   STANDIN_DEVICES       how many devices there are (1)
//   STANDIN_MEMORY        bytes of each (2³⁰)
//   STANDIN_ARCHITECTURE  compute capability, as 80 for 8.0 (80)
//   STANDIN_DRIVER        the driver's version, as 12040 for 12.4 (12040)
//   STANDIN_ORDER         order of threads, as in simt.h (0)
//   STANDIN_FAIL          failures, separated by commas: init, image, allocate:K (the Kth allocation), launch:NAME (the
//                         launch of a kernel is refused), sticky:NAME (it fails when it runs, and everything after it),
//                         skip:NAME (it does nothing)
//
// Buffers lie between guards: a kernel that wrote outside of one ends the program when the buffer is freed, and so does a
// buffer that was not wiped. What a module holds are the kernels that its image names anywhere.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

#include "kernels.h"

#define DECLARE(name, args, threads) extern "C" void name(args);
KERNELS(DECLARE)

namespace {

enum Code {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101,
    INVALID_IMAGE = 200,
    INVALID_CONTEXT = 201,
    INVALID_HANDLE = 400,
    NOT_FOUND = 500,
    ILLEGAL_ADDRESS = 700,
    LAUNCH_OUT_OF_RESOURCES = 701,
};

const char *setting(const char *name, const char *otherwise) {
    const char *value = std::getenv(name);
    return value != nullptr ? value : otherwise;
}
u64 number(const char *name, const char *otherwise) { return std::strtoull(setting(name, otherwise), nullptr, 10); }

bool fails(const std::string &what) {
    return ("," + std::string(setting("STANDIN_FAIL", "")) + ",").find("," + what + ",") != std::string::npos;
}

struct Kernel {
    const char *name;
    unsigned threads;
    void (*run)(const void *args, unsigned blocks);
};

#define ENTRY(name, args, threads)                                                                    \
    {#name, threads, [](const void *from, unsigned blocks) {                                          \
         args values;                                                                                 \
         std::memcpy(&values, from, sizeof values);                                                   \
         simt::launch(name, values, blocks, threads);                                                 \
     }},
const Kernel KERNELS[] = {KERNELS(ENTRY)};

constexpr size_t GUARD = 256;
constexpr int GUARD_BYTE = 0xa5;

struct Buffer {
    unsigned char *memory;
    size_t bytes;
};

using Clock = std::chrono::steady_clock;
struct Event {
    Clock::time_point time;
    bool recorded;
};

struct State {
    bool initialized = false;
    // The device whose context is current, or −1.
    int device = -1;
    u64 allocations = 0, used = 0;
    Code sticky = SUCCESS;
    std::map<u64, Buffer> buffers;
} state;

int device_count() { return int(number("STANDIN_DEVICES", "1")); }
bool is_device(int device) { return device >= 0 && device < device_count(); }

// What every call that works on a device begins with.
Code ready() {
    if (!state.initialized) return NOT_INITIALIZED;
    return state.device < 0 ? INVALID_CONTEXT : state.sticky;
}

// Whether a copy stays inside one buffer.
bool is_inside(u64 address, size_t bytes) {
    auto after = state.buffers.upper_bound(address);
    if (after == state.buffers.begin()) return false;
    auto buffer = std::prev(after);
    return address + bytes <= buffer->first + buffer->second.bytes;
}

int text(char *to, int len, const std::string &from) {
    std::snprintf(to, size_t(len), "%s", from.c_str());
    return SUCCESS;
}

}  // namespace

extern "C" {

int cuInit(unsigned) {
    if (fails("init") || device_count() == 0) return NO_DEVICE;
    state.initialized = true;
    simt::device.order = unsigned(number("STANDIN_ORDER", "0"));
    return SUCCESS;
}
int cuDriverGetVersion(int *version) {
    *version = int(number("STANDIN_DRIVER", "12040"));
    return SUCCESS;
}

int cuGetErrorName(int code, const char **name) {
    static const std::map<int, const char *> names = {
        {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE"},     {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"},
        {NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED"}, {NO_DEVICE, "CUDA_ERROR_NO_DEVICE"},
        {INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE"},   {INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE"},
        {INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT"}, {INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE"},
        {NOT_FOUND, "CUDA_ERROR_NOT_FOUND"},             {ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS"},
        {LAUNCH_OUT_OF_RESOURCES, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"},
    };
    auto found = names.find(code);
    if (found == names.end()) return INVALID_VALUE;
    *name = found->second;
    return SUCCESS;
}
int cuGetErrorString(int code, const char **text) {
    const char *name;
    if (cuGetErrorName(code, &name) != SUCCESS) return INVALID_VALUE;
    *text = "said by the stand-in";
    return SUCCESS;
}

int cuDeviceGetCount(int *count) {
    *count = device_count();
    return SUCCESS;
}
int cuDeviceGet(int *device, int index) {
    if (!is_device(index)) return INVALID_DEVICE;
    *device = index;
    return SUCCESS;
}
int cuDeviceGetName(char *name, int len, int device) {
    return is_device(device) ? text(name, len, "stand-in " + std::to_string(device)) : INVALID_DEVICE;
}
int cuDeviceGetUuid_v2(char *uuid, int device) {
    if (!is_device(device)) return INVALID_DEVICE;
    for (int i = 0; i < 16; i++) uuid[i] = char(0xe0 + i);
    uuid[15] = char(device);
    return SUCCESS;
}
int cuDeviceGetPCIBusId(char *id, int len, int device) {
    if (!is_device(device)) return INVALID_DEVICE;
    char written[32];
    std::snprintf(written, sizeof written, "0000:%02X:00.0", 16 + device);
    return text(id, len, written);
}
int cuDeviceGetAttribute(int *value, int attribute, int device) {
    if (!is_device(device)) return INVALID_DEVICE;
    const int architecture = int(number("STANDIN_ARCHITECTURE", "80"));
    switch (attribute) {
    case 16: *value = 2; return SUCCESS;  // multiprocessors
    case 75: *value = architecture / 10; return SUCCESS;
    case 76: *value = architecture % 10; return SUCCESS;
    default: return INVALID_VALUE;
    }
}

// A context is its device's number and one.
int cuDevicePrimaryCtxRetain(u64 *context, int device) {
    if (!state.initialized) return NOT_INITIALIZED;
    if (!is_device(device)) return INVALID_DEVICE;
    *context = u64(device) + 1;
    return SUCCESS;
}
int cuDevicePrimaryCtxRelease_v2(int device) { return is_device(device) ? SUCCESS : INVALID_DEVICE; }
int cuCtxSetCurrent(u64 context) {
    if (!is_device(int(context) - 1)) return INVALID_CONTEXT;
    state.device = int(context) - 1;
    return SUCCESS;
}
int cuCtxSynchronize() { return ready(); }

int cuModuleLoadData(std::string **module, const char *image) {
    if (ready() != SUCCESS) return ready();
    if (fails("image")) return INVALID_IMAGE;
    *module = new std::string(image);
    return SUCCESS;
}
int cuModuleUnload(std::string *module) {
    delete module;
    return state.sticky;
}
int cuModuleGetFunction(const Kernel **function, std::string *module, const char *name) {
    for (const Kernel &kernel : KERNELS) {
        if (std::strcmp(kernel.name, name) == 0 && module->find(name) != std::string::npos) {
            *function = &kernel;
            return SUCCESS;
        }
    }
    return NOT_FOUND;
}

int cuMemGetInfo_v2(size_t *free, size_t *total) {
    if (ready() != SUCCESS) return ready();
    *total = number("STANDIN_MEMORY", "1073741824");
    *free = *total - state.used;
    return SUCCESS;
}
int cuMemAlloc_v2(u64 *address, size_t bytes) {
    if (ready() != SUCCESS) return ready();
    if (bytes == 0) return INVALID_VALUE;
    state.allocations++;
    if (fails("allocate:" + std::to_string(state.allocations))) return OUT_OF_MEMORY;
    if (bytes > number("STANDIN_MEMORY", "1073741824") - state.used) return OUT_OF_MEMORY;
    const size_t whole = (bytes + 2 * GUARD + 255) / 256 * 256;
    auto *memory = static_cast<unsigned char *>(std::aligned_alloc(256, whole));
    if (memory == nullptr) return OUT_OF_MEMORY;
    std::memset(memory, GUARD_BYTE, whole);
    *address = reinterpret_cast<u64>(memory + GUARD);
    state.buffers[*address] = {memory, bytes};
    state.used += bytes;
    return SUCCESS;
}
int cuMemFree_v2(u64 address) {
    auto found = state.buffers.find(address);
    if (found == state.buffers.end()) return INVALID_VALUE;
    const Buffer buffer = found->second;
    for (size_t i = 0; i < GUARD; i++) {
        if (buffer.memory[i] != GUARD_BYTE || buffer.memory[GUARD + buffer.bytes + i] != GUARD_BYTE) {
            std::fprintf(stderr, "stand-in: something wrote outside a buffer of %zu bytes\n", buffer.bytes);
            std::abort();
        }
    }
    for (size_t i = 0; i < buffer.bytes && state.sticky == SUCCESS; i++) {
        if (buffer.memory[GUARD + i] != 0) {
            std::fprintf(stderr, "stand-in: a buffer of %zu bytes was freed before it was wiped\n", buffer.bytes);
            std::abort();
        }
    }
    std::free(buffer.memory);
    state.used -= buffer.bytes;
    state.buffers.erase(found);
    return state.sticky;
}
int cuMemHostAlloc(void **memory, size_t bytes, unsigned) {
    if (ready() != SUCCESS) return ready();
    *memory = std::malloc(bytes);
    return *memory != nullptr ? SUCCESS : OUT_OF_MEMORY;
}
int cuMemFreeHost(void *memory) {
    std::free(memory);
    return state.sticky;
}
int cuMemcpyHtoDAsync_v2(u64 to, const void *from, size_t bytes, void *) {
    if (ready() != SUCCESS) return ready();
    if (!is_inside(to, bytes)) return INVALID_VALUE;
    std::memcpy(reinterpret_cast<void *>(to), from, bytes);
    return SUCCESS;
}
int cuMemcpyDtoHAsync_v2(void *to, u64 from, size_t bytes, void *) {
    if (ready() != SUCCESS) return ready();
    if (!is_inside(from, bytes)) return INVALID_VALUE;
    std::memcpy(to, reinterpret_cast<const void *>(from), bytes);
    return SUCCESS;
}
int cuMemsetD8Async(u64 to, unsigned char byte, size_t bytes, void *) {
    if (ready() != SUCCESS) return ready();
    if (!is_inside(to, bytes)) return INVALID_VALUE;
    std::memset(reinterpret_cast<void *>(to), byte, bytes);
    return SUCCESS;
}

int cuStreamCreate(char **stream, unsigned) {
    if (ready() != SUCCESS) return ready();
    *stream = new char;
    return SUCCESS;
}
int cuStreamDestroy_v2(char *stream) {
    delete stream;
    return state.sticky;
}
int cuStreamSynchronize(char *) { return ready(); }
int cuStreamWaitEvent(char *, Event *event, unsigned) {
    if (ready() != SUCCESS) return ready();
    return event != nullptr ? SUCCESS : INVALID_HANDLE;
}
int cuEventCreate(Event **event, unsigned) {
    if (ready() != SUCCESS) return ready();
    *event = new Event{{}, false};
    return SUCCESS;
}
int cuEventDestroy_v2(Event *event) {
    delete event;
    return state.sticky;
}
int cuEventRecord(Event *event, char *) {
    *event = {Clock::now(), true};
    return ready();
}
int cuEventElapsedTime(float *elapsed_ms, Event *start, Event *end) {
    if (ready() != SUCCESS) return ready();
    if (!start->recorded || !end->recorded) return INVALID_HANDLE;
    *elapsed_ms = std::chrono::duration<float, std::milli>(end->time - start->time).count();
    return SUCCESS;
}

int cuLaunchKernel(const Kernel *kernel, unsigned blocks, unsigned y, unsigned z, unsigned threads, unsigned threads_y,
                   unsigned threads_z, unsigned shared_bytes, void *, void **args, void **) {
    if (ready() != SUCCESS) return ready();
    const bool flat = y == 1 && z == 1 && threads_y == 1 && threads_z == 1;
    if (!flat || blocks == 0 || blocks > 0x7fffffff || threads != kernel->threads || shared_bytes != 0) return INVALID_VALUE;
    const std::string name = kernel->name;
    if (fails("launch:" + name)) return LAUNCH_OUT_OF_RESOURCES;
    if (fails("skip:" + name)) return SUCCESS;
    if (fails("sticky:" + name)) {
        state.sticky = ILLEGAL_ADDRESS;
        return SUCCESS;
    }
    kernel->run(args[0], blocks);
    return SUCCESS;
}
}
