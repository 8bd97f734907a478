// The platform on the host, and that the shim sees what it is there to see.
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

constexpr u32 THREADS = 128;

struct PlatformArgs {
    const i8 *a;
    const i8 *b;
    i32 *sums;
    u64 *votes;
    u32 *any;
};

// Σ of two products of 16 × 32 by 32 × 16, the second by way of asynchronous copies that overlap with the first.
extern "C" KERNEL(THREADS) void test_platform(PlatformArgs args) {
    constexpr u32 STRIDE = 48;
    SHARED i8 a[2 * 16 * STRIDE];
    SHARED i8 b[2 * 16 * STRIDE];
    for (u32 half = 0; half < 2; half++) {
        for (u32 i = thread_id(); i < 32; i += THREADS) {
            u32 at = half * 16 * STRIDE + i / 2 * STRIDE + i % 2 * 16;
            copy_async(a + at, args.a + half * 512 + i * 16);
            copy_async(b + at, args.b + half * 512 + i * 16);
        }
        commit_async();
    }
    Tile16x16 tile;
    clear(tile);
    wait_async<1>();
    sync_block();
    mma_16x16x32_s8(tile, load_a(a, STRIDE), load_b(b, STRIDE));
    wait_async<0>();
    sync_block();
    mma_16x16x32_s8(tile, load_a(a + 16 * STRIDE, STRIDE), load_b(b + 16 * STRIDE, STRIDE));
    // Every wave of every block adds its sums.
    for_each(tile, [&](u32 row, u32 column, i32 sum) { atomic_add_i32(&args.sums[row * 16 + column], sum); });

    u32 exchanged = shuffle(thread_id(), 3) + shuffle_xor(thread_id(), WAVE / 2);
    u64 mask = vote(exchanged % 3 == 0);
    if (block_id() == 0) args.votes[thread_id()] = mask;
    atomic_or_u32(args.any, 1u << wave_id());
}

struct FaultArgs {
    u32 fault;
    u32 *out;
};

extern "C" KERNEL(THREADS) void test_faults(FaultArgs args) {
    SHARED u32 values[THREADS];
    if (args.fault == 0 && thread_id() == 5) return;
    if (args.fault == 1) {
        if (thread_id() == 5) sync_block();
        else sync_block();
    }
    if (args.fault == 2 && thread_id() == 5) vote(true);
    if (args.fault == 3) {
        alignas(16) u32 words[4] = {1, 2, 3, 4};
        copy_async(values, words);
    }
    values[thread_id()] = thread_id();
    // Fault 4: no barrier between the waves.
    if (args.fault != 4) sync_block();
    args.out[thread_id()] = values[(thread_id() + WAVE) % THREADS];
}

namespace {

void platform() {
    Random random{6};
    Guarded<i8> a(random.bytes(1024)), b(random.bytes(1024));
    for (u32 grid : GRIDS) {
        Guarded<i32> sums(256);
        Guarded<u64> votes(THREADS);
        Guarded<u32> any(1);
        sums.poison(0);
        any.poison(0);
        simt::launch(test_platform, PlatformArgs{a.data(), b.data(), sums.data(), votes.data(), any.data()}, grid,
                     THREADS);
        for (u32 row = 0; row < 16; row++) {
            for (u32 column = 0; column < 16; column++) {
                i32 sum = 0;
                for (u32 k = 0; k < 64; k++)
                    sum += a[k / 32 * 512 + row * 32 + k % 32] * b[k / 32 * 512 + column * 32 + k % 32];
                check(sums[row * 16 + column] == i32(grid * (THREADS / WAVE)) * sum, "tile");
            }
        }
        for (u32 i = 0; i < THREADS; i++) {
            u64 mask = 0;
            u32 base = i / WAVE * WAVE;
            for (u32 lane = 0; lane < WAVE; lane++) {
                mask |= u64((base + 3 + base + (lane ^ WAVE / 2)) % 3 == 0) << lane;
            }
            check(votes[i] == mask, "vote and shuffle");
        }
        check(any[0] == (1u << THREADS / WAVE) - 1, "atomic or");
        sums.verify("tile");
        votes.verify("votes");
    }
    check(dot4(0x80ff017f, 0x80027f81, 5) == 128 * 128 - 2 + 127 - 127 * 127 + 5, "dot4");
    check(swap_bytes(0x01020304) == 0x04030201 && count_bits(~u64(0)) == 64 && opaque(7) == 7 && byte_of<2>(0x01020304) == 2,
          "words");
}

// Whether the kernel with `fault` ends the program.
bool ends(u32 fault, Guarded<u32> &out) {
    std::fflush(nullptr);
    pid_t child = fork();
    if (child == 0) {
        std::freopen("/dev/null", "w", stderr);
        simt::launch(test_faults, FaultArgs{fault, out.data()}, 1, THREADS);
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return !(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

void faults() {
    Guarded<u32> out(THREADS);
    const char *names[] = {"a thread that misses a barrier", "threads at different barriers",
                           "a wave operation that not all lanes reach", "a copy that is never waited for"};
    for (u32 fault = 0; fault < 4; fault++) check(ends(fault, out), std::string("not seen: ") + names[fault]);
    check(!ends(5, out), "a sound kernel fails");
    bool differs = false;
    simt::launch(test_faults, FaultArgs{4, out.data()}, 1, THREADS);
    for (u32 i = 0; i < THREADS; i++) differs = differs || out[i] != (i + WAVE) % THREADS;
    check(differs, "not seen: a missing barrier");
}

}  // namespace

int main(int argc, char **argv) {
    set_order(argc, argv);
    platform();
    faults();
}
