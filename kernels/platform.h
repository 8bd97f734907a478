// Every difference between the vendors, and nothing else: NVIDIA (clang or NVRTC), AMD (clang or hipRTC), and the host,
// where tests/kernels/simt.h plays the device.
//
// Blocks and grids have one dimension. A kernel is `extern "C" KERNEL(threads) void name(Args args)`; blocks have
// exactly `threads` threads, a multiple of 64. Shared arrays are declared with SHARED inside a kernel (not in functions
// that it calls, which take pointers), begin at multiples of 16 bytes, and hold nothing defined at first. Wave
// operations take all lanes of a wave: never call one where a lane may have left or taken another branch.
#pragma once

#if defined(__CUDACC_RTC__) || defined(__NVPTX__)
#define ON_NVIDIA 1
#elif defined(__AMDGCN__)
#define ON_AMD 1
#else
#define ON_HOST 1
#endif

using i8 = signed char;
using u8 = unsigned char;
using i16 = short;
using u16 = unsigned short;
using i32 = int;
using u32 = unsigned int;
using i64 = long long;
using u64 = unsigned long long;

// ---- Keywords.

#if defined(__CUDACC_RTC__)
#define KERNEL(threads) __global__ __launch_bounds__(threads)
#define DEVICE static __device__ __forceinline__
#define SHARED __shared__ __align__(16)
#define CONSTANT static __constant__ const
#elif ON_NVIDIA
#define KERNEL(threads) __attribute__((global, launch_bounds(threads)))
#define DEVICE static inline __attribute__((device, always_inline))
#define SHARED static __attribute__((shared, aligned(16)))
#define CONSTANT static __attribute__((constant)) const
#elif ON_AMD
#define KERNEL(threads) __attribute__((global, amdgpu_flat_work_group_size(threads, threads)))
#define DEVICE static inline __attribute__((device, always_inline))
#define SHARED static __attribute__((shared, aligned(16)))
#define CONSTANT static __attribute__((constant)) const
#else
#include "simt.h"
#define KERNEL(threads)
#define DEVICE static inline
// A section of its own, so that the shim can poison it before each block.
#define SHARED static __attribute__((section("simt_shared"), aligned(16)))
#define CONSTANT static const
#endif

// A kernel of which NVIDIA's assembler shall not spill registers to fit more blocks on a unit.
#if defined(__CUDACC_RTC__)
#define KERNEL_ROOMY(threads) __global__ __launch_bounds__(threads, 1)
#elif ON_NVIDIA
#define KERNEL_ROOMY(threads) __attribute__((global, launch_bounds(threads, 1)))
#else
#define KERNEL_ROOMY(threads) KERNEL(threads)
#endif

// A kernel that may take all of a lane's registers, but not on AMD, where two waves on a SIMD hide each other's waits.
#if ON_AMD
#define KERNEL_IN_PAIRS(threads) KERNEL(threads) __attribute__((amdgpu_waves_per_eu(2)))
#else
#define KERNEL_IN_PAIRS(threads) KERNEL(threads)
#endif

// For member functions, which cannot be static. Lambdas inside device functions need nothing.
#if defined(__CUDACC_RTC__)
#define DEVICE_MEMBER __device__ __forceinline__
#elif ON_HOST
#define DEVICE_MEMBER inline
#else
#define DEVICE_MEMBER inline __attribute__((device, always_inline))
#endif

// Before a loop whose arrays must stay in registers.
#if ON_HOST && !defined(__clang__)
#define UNROLL
#else
#define UNROLL _Pragma("unroll")
#endif

// ---- Threads.

// Lanes of a wave, 32 or 64.
#if ON_NVIDIA
constexpr u32 WAVE = 32;
#elif ON_AMD && defined(__GFX9__)
constexpr u32 WAVE = 64;
#elif ON_AMD
constexpr u32 WAVE = 32;
#else
constexpr u32 WAVE = SIMT_WAVE;
#endif

#if ON_NVIDIA
DEVICE u32 thread_id() {
    u32 x;
    asm("mov.u32 %0, %%tid.x;" : "=r"(x));
    return x;
}
DEVICE u32 block_id() {
    u32 x;
    asm("mov.u32 %0, %%ctaid.x;" : "=r"(x));
    return x;
}
DEVICE u32 grid_blocks() {
    u32 x;
    asm("mov.u32 %0, %%nctaid.x;" : "=r"(x));
    return x;
}
#elif ON_AMD
DEVICE u32 thread_id() { return __builtin_amdgcn_workitem_id_x(); }
DEVICE u32 block_id() { return __builtin_amdgcn_workgroup_id_x(); }
DEVICE u32 grid_blocks() { return __builtin_amdgcn_grid_size_x() / __builtin_amdgcn_workgroup_size_x(); }
#else
DEVICE u32 thread_id() { return simt::current().thread; }
DEVICE u32 block_id() { return simt::block(); }
DEVICE u32 grid_blocks() { return simt::blocks(); }
#endif

DEVICE u32 lane_id() { return thread_id() % WAVE; }
DEVICE u32 wave_id() { return thread_id() / WAVE; }

// Threads of a block that share tables in shared memory. A unit of AMD's has 64 KB, which one such block takes;
// NVIDIA's hold several.
#if ON_AMD || (ON_HOST && SIMT_WAVE == 64)
constexpr u32 TABLE_BLOCK_THREADS = 1024;
#else
constexpr u32 TABLE_BLOCK_THREADS = 256;
#endif

// ---- Barriers, exchange within a wave, atomics.

#if ON_NVIDIA
// A barrier of the block: what was written to memory before it is seen after it.
DEVICE void sync_block() { asm volatile("bar.sync 0;" ::: "memory"); }
// The same for a wave.
DEVICE void sync_wave() { asm volatile("bar.warp.sync 0xffffffff;" ::: "memory"); }
// `value` of lane `lane`.
DEVICE u32 shuffle(u32 value, u32 lane) {
    u32 x;
    asm volatile("shfl.sync.idx.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=r"(x) : "r"(value), "r"(lane));
    return x;
}
// Bit i: `predicate` of lane i.
DEVICE u64 vote(bool predicate) {
    u32 x;
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %1, 0; vote.sync.ballot.b32 %0, p, 0xffffffff; }"
                 : "=r"(x)
                 : "r"(u32(predicate)));
    return x;
}
DEVICE void atomic_add_i32(i32 *to, i32 value) {
    asm volatile("red.relaxed.gpu.add.u32 [%0], %1;" ::"l"(to), "r"(value) : "memory");
}
DEVICE void atomic_or_u32(u32 *to, u32 value) {
    asm volatile("red.relaxed.gpu.or.b32 [%0], %1;" ::"l"(to), "r"(value) : "memory");
}
#elif ON_AMD
DEVICE void sync_block() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
DEVICE void sync_wave() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront");
    __builtin_amdgcn_wave_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront");
}
DEVICE u32 shuffle(u32 value, u32 lane) { return u32(__builtin_amdgcn_ds_bpermute(int(4 * lane), int(value))); }
DEVICE u64 vote(bool predicate) {
    if constexpr (WAVE == 64) return __builtin_amdgcn_ballot_w64(predicate);
    else return __builtin_amdgcn_ballot_w32(predicate);
}
DEVICE void atomic_add_i32(i32 *to, i32 value) {
    __hip_atomic_fetch_add(to, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
DEVICE void atomic_or_u32(u32 *to, u32 value) {
    __hip_atomic_fetch_or(to, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
#else
DEVICE void sync_block(int line = __builtin_LINE()) { simt::sync_block(line); }
DEVICE void sync_wave(int line = __builtin_LINE()) { simt::exchange(0, line); }
DEVICE u32 shuffle(u32 value, u32 lane, int line = __builtin_LINE()) {
    return u32(simt::exchange(value, line)[lane % WAVE]);
}
DEVICE u64 vote(bool predicate, int line = __builtin_LINE()) {
    const u64 *values = simt::exchange(predicate, line);
    u64 mask = 0;
    for (u32 i = 0; i < WAVE; i++) mask |= values[i] << i;
    return mask;
}
DEVICE void atomic_add_i32(i32 *to, i32 value) { *to = i32(u32(*to) + u32(value)); }
DEVICE void atomic_or_u32(u32 *to, u32 value) { *to |= value; }
#endif

DEVICE i32 shuffle(i32 value, u32 lane) { return i32(shuffle(u32(value), lane)); }
DEVICE u32 shuffle_xor(u32 value, u32 mask) { return shuffle(value, lane_id() ^ mask); }
DEVICE i32 shuffle_xor(i32 value, u32 mask) { return i32(shuffle(u32(value), lane_id() ^ mask)); }

// ---- Words.

// Σ of the products of the four signed bytes in `a` and `b`, plus `c`.
DEVICE i32 dot4(u32 a, u32 b, i32 c) {
#if ON_NVIDIA
    i32 x;
    asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(x) : "r"(a), "r"(b), "r"(c));
    return x;
#elif ON_AMD && defined(__GFX11__)
    return __builtin_amdgcn_sudot4(true, int(a), true, int(b), c, false);
#elif ON_AMD
    return __builtin_amdgcn_sdot4(int(a), int(b), c, false);
#else
    for (u32 i = 0; i < 32; i += 8) c += i32(i8(a >> i)) * i8(b >> i);
    return c;
#endif
}

// x, about which the compiler now knows nothing: keeps it from turning masks made of secrets into branches.
DEVICE u32 opaque(u32 x) {
#if ON_AMD
    asm volatile("" : "+v"(x));
#else
    asm volatile("" : "+r"(x));
#endif
    return x;
}

DEVICE u32 count_bits(u64 x) {
#if defined(__CUDACC_RTC__)
    return u32(__popcll(x));
#else
    return u32(__builtin_popcountll(x));
#endif
}

// Byte N of x, by one instruction.
template <u32 N> DEVICE u32 byte_of(u32 x) {
#if ON_NVIDIA
    u32 y;
    asm("prmt.b32 %0, %1, 0, %2;" : "=r"(y) : "r"(x), "n"(0x4440 + N));
    return y;
#else
    return x >> 8 * N & 0xff;
#endif
}

// Bytes 3, 2, 1, 0 of x.
DEVICE u32 swap_bytes(u32 x) {
#if defined(__CUDACC_RTC__)
    return __byte_perm(x, 0, 0x0123);
#else
    return __builtin_bswap32(x);
#endif
}

// 16 bytes moved by one instruction.
struct alignas(16) Words4 {
    u32 w[4];
};

// ---- Copies from device memory to shared memory that overlap with work: 16 bytes each, both ends aligned.

// Whether these copies do overlap; where they do not, values wait better in registers.
#if (ON_NVIDIA && (!defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800)) || (ON_HOST && SIMT_WAVE == 32)
constexpr bool ASYNC_COPIES = true;
#else
constexpr bool ASYNC_COPIES = false;
#endif

#if ON_NVIDIA && (!defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800)
// The address in shared memory as instructions take it.
DEVICE u32 shared_address(const void *shared) {
#if defined(__CUDACC_RTC__)
    return u32(__cvta_generic_to_shared(shared));
#else
    return u32(reinterpret_cast<u64>((__attribute__((address_space(3))) const void *)shared));
#endif
}
#endif

// Begins a copy. It is done after a wait_async that covers its group, and seen by other threads after the barrier that
// follows.
DEVICE void copy_async(void *shared, const void *global) {
#if ON_NVIDIA && (!defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(shared)), "l"(global) : "memory");
#elif ON_HOST
    simt::copy_async(shared, global);
#else
    *static_cast<Words4 *>(shared) = *static_cast<const Words4 *>(global);
#endif
}

// Ends a group of copies.
DEVICE void commit_async() {
#if ON_NVIDIA && (!defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800)
    asm volatile("cp.async.commit_group;" ::: "memory");
#elif ON_HOST
    simt::commit_async();
#endif
}

// Waits for all of this thread's groups but the last `PENDING`.
template <int PENDING> DEVICE void wait_async() {
#if ON_NVIDIA && (!defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800)
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
#elif ON_HOST
    simt::wait_async(PENDING);
#endif
}

// ---- A wave's product of 16 × 32 by 32 × 16 signed bytes, added to 16 × 16 sums.
//
// Row i of A has its first 16 bytes of k at rows + i·stride, the next 16 `half` bytes after them; column j of B the
// same from columns on; in shared memory. All of these are multiples of 16 bytes.

struct Tile16x16 {
    i32 v[256 / WAVE];
};

DEVICE void clear(Tile16x16 &tile) {
    UNROLL
    for (u32 i = 0; i < 256 / WAVE; i++) tile.v[i] = 0;
}

#if ON_NVIDIA && (!defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800)

struct FragmentA {
    u32 w[4];
};
struct FragmentB {
    u32 w[4];
};

// Four matrices of 8 rows × 16 bytes; lane l names row l mod 8 of matrix l/8 and gets bytes 4·(l mod 4) … of row l/4 of
// each.
DEVICE void load_matrices(u32 (&w)[4], const i8 *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])
                 : "r"(shared_address(row))
                 : "memory");
}
DEVICE FragmentA load_a(const i8 *rows, u32 stride, u32 half = 16) {
    FragmentA a;
    u32 l = lane_id();
    load_matrices(a.w, rows + (l % 16) * stride + l / 16 * half);
    return a;
}
DEVICE FragmentB load_b(const i8 *columns, u32 stride, u32 half = 16) {
    FragmentB b;
    u32 l = lane_id();
    load_matrices(b.w, columns + (l % 8 + l / 16 * 8) * stride + l / 8 % 2 * half);
    return b;
}
DEVICE void mma_16x16x32_s8(Tile16x16 &c, const FragmentA &a, const FragmentB &b) {
    UNROLL
    for (u32 h = 0; h < 2; h++) {
        i32 *v = c.v + 4 * h;
        asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
                     "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                     : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3])
                     : "r"(a.w[0]), "r"(a.w[1]), "r"(a.w[2]), "r"(a.w[3]), "r"(b.w[2 * h]), "r"(b.w[2 * h + 1]));
    }
}
// Row and column of this lane's sum i.
DEVICE u32 tile_row(u32 i) { return lane_id() / 4 + i / 2 % 2 * 8; }
DEVICE u32 tile_column(u32 i) { return i / 4 * 8 + lane_id() % 4 * 2 + i % 2; }

#elif ON_NVIDIA

// No matrix instruction for bytes: each lane takes 2 rows and 4 columns.
struct FragmentA {
    u32 w[2][8];
};
struct FragmentB {
    u32 w[4][8];
};

DEVICE void load_line(u32 (&w)[8], const i8 *line, u32 half) {
    UNROLL
    for (u32 h = 0; h < 2; h++) {
        Words4 words = *reinterpret_cast<const Words4 *>(line + h * half);
        UNROLL
        for (u32 i = 0; i < 4; i++) w[4 * h + i] = words.w[i];
    }
}
DEVICE FragmentA load_a(const i8 *rows, u32 stride, u32 half = 16) {
    FragmentA a;
    UNROLL
    for (u32 i = 0; i < 2; i++) load_line(a.w[i], rows + (lane_id() / 4 + 8 * i) * stride, half);
    return a;
}
DEVICE FragmentB load_b(const i8 *columns, u32 stride, u32 half = 16) {
    FragmentB b;
    UNROLL
    for (u32 j = 0; j < 4; j++) load_line(b.w[j], columns + (lane_id() % 4 + 4 * j) * stride, half);
    return b;
}
DEVICE void mma_16x16x32_s8(Tile16x16 &c, const FragmentA &a, const FragmentB &b) {
    UNROLL
    for (u32 i = 0; i < 8; i++) {
        UNROLL
        for (u32 k = 0; k < 8; k++) c.v[i] = dot4(a.w[i / 4][k], b.w[i % 4][k], c.v[i]);
    }
}
DEVICE u32 tile_row(u32 i) { return lane_id() / 4 + i / 4 * 8; }
DEVICE u32 tile_column(u32 i) { return lane_id() % 4 + i % 4 * 4; }

#elif ON_AMD && defined(__GFX9__)

using Vector4 = i32 __attribute__((ext_vector_type(4)));
struct FragmentA {
    i64 w;
};
struct FragmentB {
    i64 w;
};

// Lane l: bytes 8·(l/16) … of row or column l mod 16.
DEVICE FragmentA load_a(const i8 *rows, u32 stride, u32 half = 16) {
    return {*reinterpret_cast<const i64 *>(rows + lane_id() % 16 * stride + lane_id() / 32 * half + lane_id() / 16 % 2 * 8)};
}
DEVICE FragmentB load_b(const i8 *columns, u32 stride, u32 half = 16) {
    return {*reinterpret_cast<const i64 *>(columns + lane_id() % 16 * stride + lane_id() / 32 * half + lane_id() / 16 % 2 * 8)};
}
DEVICE void mma_16x16x32_s8(Tile16x16 &c, const FragmentA &a, const FragmentB &b) {
    Vector4 v = {c.v[0], c.v[1], c.v[2], c.v[3]};
#if defined(__gfx942__)
    v = __builtin_amdgcn_mfma_i32_16x16x32_i8(a.w, b.w, v, 0, 0, 0);
#else
    // Lane l means k = 4·(l/16) … to this one; which k those are is free as long as A and B agree.
    v = __builtin_amdgcn_mfma_i32_16x16x16i8(int(a.w), int(b.w), v, 0, 0, 0);
    v = __builtin_amdgcn_mfma_i32_16x16x16i8(int(a.w >> 32), int(b.w >> 32), v, 0, 0, 0);
#endif
    UNROLL
    for (u32 i = 0; i < 4; i++) c.v[i] = v[i];
}
DEVICE u32 tile_row(u32 i) { return lane_id() / 16 * 4 + i; }
DEVICE u32 tile_column(u32) { return lane_id() % 16; }

#elif ON_AMD

using Vector4 = i32 __attribute__((ext_vector_type(4)));
using Vector8 = i32 __attribute__((ext_vector_type(8)));
struct FragmentA {
    Vector4 w[2];
};
struct FragmentB {
    Vector4 w[2];
};

// Lanes l and l + 16: row or column l, all 32 bytes.
DEVICE FragmentA load_a(const i8 *rows, u32 stride, u32 half = 16) {
    const i8 *row = rows + lane_id() % 16 * stride;
    return {{*reinterpret_cast<const Vector4 *>(row), *reinterpret_cast<const Vector4 *>(row + half)}};
}
DEVICE FragmentB load_b(const i8 *columns, u32 stride, u32 half = 16) {
    const i8 *column = columns + lane_id() % 16 * stride;
    return {{*reinterpret_cast<const Vector4 *>(column), *reinterpret_cast<const Vector4 *>(column + half)}};
}
DEVICE void mma_16x16x32_s8(Tile16x16 &c, const FragmentA &a, const FragmentB &b) {
    Vector8 v = {c.v[0], c.v[1], c.v[2], c.v[3], c.v[4], c.v[5], c.v[6], c.v[7]};
    v = __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32(true, a.w[0], true, b.w[0], v, false);
    v = __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32(true, a.w[1], true, b.w[1], v, false);
    UNROLL
    for (u32 i = 0; i < 8; i++) c.v[i] = v[i];
}
DEVICE u32 tile_row(u32 i) { return 2 * i + lane_id() / 16; }
DEVICE u32 tile_column(u32) { return lane_id() % 16; }

#else

struct FragmentA {
    i8 row[256 / WAVE][32];
};
struct FragmentB {
    i8 column[32];
};

DEVICE u32 tile_row(u32 i) { return lane_id() / 16 + i * (WAVE / 16); }
DEVICE u32 tile_column(u32) { return lane_id() % 16; }
DEVICE FragmentA load_a(const i8 *rows, u32 stride, u32 half = 16) {
    simt::check_aligned(rows, stride | half, 16);
    FragmentA a;
    for (u32 i = 0; i < 256 / WAVE; i++) {
        for (u32 k = 0; k < 32; k++) a.row[i][k] = rows[tile_row(i) * stride + k / 16 * half + k % 16];
    }
    return a;
}
DEVICE FragmentB load_b(const i8 *columns, u32 stride, u32 half = 16) {
    simt::check_aligned(columns, stride | half, 16);
    FragmentB b;
    for (u32 k = 0; k < 32; k++) b.column[k] = columns[tile_column(0) * stride + k / 16 * half + k % 16];
    return b;
}
DEVICE void mma_16x16x32_s8(Tile16x16 &c, const FragmentA &a, const FragmentB &b) {
    for (u32 i = 0; i < 256 / WAVE; i++) {
        for (u32 k = 0; k < 32; k++) c.v[i] += a.row[i][k] * b.column[k];
    }
}

#endif

// Calls f(row, column, sum) for each of this lane's sums.
template <class F> DEVICE void for_each(const Tile16x16 &tile, F f) {
    UNROLL
    for (u32 i = 0; i < 256 / WAVE; i++) f(tile_row(i), tile_column(i), tile.v[i]);
}
