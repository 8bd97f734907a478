// The device that kernels run on in tests: one block at a time, each thread a fibre that runs until it waits.
//
// Waves of a block and lanes of a wave run in forward, reverse or shuffled order, each as far as it can before the
// next, so that a missing barrier shows as another result. A barrier or wave operation that some of its threads do not
// reach, or reach at another line, ends the program. Shared arrays are poisoned before each block, asynchronous copies
// are done as late as their wait, or, in reverse order, at once, too. One launch at a time.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <mutex>
#include <random>
#include <vector>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

#ifndef SIMT_WAVE
#define SIMT_WAVE 32
#endif

extern char __start_simt_shared[] __attribute__((weak));
extern char __stop_simt_shared[] __attribute__((weak));

namespace simt {

constexpr size_t STACK_BYTES = 1 << 16;
constexpr uint64_t CANARY = 0x0123456789abcdef;

[[noreturn]] inline void fail(const char *what, unsigned thread, int line) {
    std::fprintf(stderr, "simt: %s (thread %u, line %d)\n", what, thread, line);
    std::abort();
}

#if defined(__x86_64__)
using Context = void *;
// Saves the registers that a call preserves on the stack, the stack in *from, and goes on where `to` was left.
extern "C" void simt_switch(Context *from, Context to);
__asm__(R"(
    .pushsection .text.simt_switch, "axG", @progbits, simt_switch, comdat
    .weak simt_switch
    .type simt_switch, @function
simt_switch:
    push %rbp
    push %rbx
    push %r12
    push %r13
    push %r14
    push %r15
    mov %rsp, (%rdi)
    mov %rsi, %rsp
    pop %r15
    pop %r14
    pop %r13
    pop %r12
    pop %rbx
    pop %rbp
    ret
    .size simt_switch, . - simt_switch
    .popsection
)");
inline void switch_context(Context &from, Context &to) { simt_switch(&from, to); }
inline void make_context(Context &context, char *stack, void (*entry)()) {
    // Six registers, the address that `ret` takes, and one word that keeps the stack aligned as after a call.
    void **top = reinterpret_cast<void **>(stack + STACK_BYTES) - 8;
    std::memset(top, 0, 8 * sizeof(void *));
    top[6] = reinterpret_cast<void *>(entry);
    context = top;
}
#else
using Context = ucontext_t;
inline void switch_context(Context &from, Context &to) { swapcontext(&from, &to); }
inline void make_context(Context &context, char *stack, void (*entry)()) {
    getcontext(&context);
    context.uc_stack.ss_sp = stack;
    context.uc_stack.ss_size = STACK_BYTES;
    context.uc_link = nullptr;
    makecontext(&context, entry, 0);
}
#endif

struct Copy {
    void *to;
    const void *from;
    uint64_t group;
};

enum class State { Ready, AtBarrier, AtWave, Ended };

struct Thread {
    unsigned thread;
    State state;
    int line;
    // Wave operations so far.
    uint64_t exchanges;
    uint64_t groups;
    std::vector<Copy> copies;
    Context context;
};

struct Wave {
    // Values of the lanes, of the last operation and the one before: no lane can be further ahead.
    unsigned long long values[2][SIMT_WAVE];
};

struct Device {
    // 0 forward, 1 reverse, else the seed of a new order for each turn. Blocks run in the first two.
    unsigned order = 0;
    unsigned block = 0, blocks = 0;
    Thread *current = nullptr;
    Context scheduler;
    std::function<void()> kernel;
    std::vector<Thread> threads;
    std::vector<Wave> waves;
    std::vector<char> stacks;
    std::mutex busy;
};

inline Device device;

inline Thread &current() { return *device.current; }
inline unsigned block() { return device.block; }
inline unsigned blocks() { return device.blocks; }

inline void wait(State state, int line) {
    Thread &thread = current();
    thread.state = state;
    thread.line = line;
    switch_context(thread.context, device.scheduler);
}

inline void sync_block(int line) { wait(State::AtBarrier, line); }

// Waits for all lanes of the wave; returns the value that each gave. They last until the next but one exchange.
inline const unsigned long long *exchange(unsigned long long value, int line) {
    Thread &thread = current();
    unsigned long long *values = device.waves[thread.thread / SIMT_WAVE].values[thread.exchanges++ % 2];
    values[thread.thread % SIMT_WAVE] = value;
    wait(State::AtWave, line);
    return values;
}

inline void check_aligned(const void *pointer, size_t stride, size_t bytes) {
    if ((reinterpret_cast<uintptr_t>(pointer) | stride) % bytes != 0) fail("not aligned", current().thread, 0);
}

inline void copy_async(void *to, const void *from) {
    check_aligned(to, 0, 16);
    check_aligned(from, 0, 16);
    // Either is what a device may do: at once, or as late as can be.
    if (device.order == 1) std::memcpy(to, from, 16);
    current().copies.push_back({to, from, current().groups});
}
inline void commit_async() { current().groups++; }
inline void wait_async(uint64_t pending) {
    Thread &thread = current();
    std::vector<Copy> later;
    for (const Copy &copy : thread.copies) {
        if (copy.group + pending < thread.groups) std::memcpy(copy.to, copy.from, 16);
        else later.push_back(copy);
    }
    thread.copies.swap(later);
}

inline void thread_main() {
    device.kernel();
    if (!current().copies.empty()) fail("a copy is never waited for", current().thread, 0);
    current().state = State::Ended;
    switch_context(current().context, device.scheduler);
}

// Lets the threads first … end go on if all wait in `state` at the same line.
inline bool release(unsigned first, unsigned end, State state) {
    for (unsigned i = first; i < end; i++) {
        if (device.threads[i].state != state) return false;
    }
    for (unsigned i = first; i < end; i++) {
        Thread &thread = device.threads[i];
        if (thread.line != device.threads[first].line) fail("threads wait at different lines", i, thread.line);
        thread.state = State::Ready;
    }
    return true;
}

// Runs the lanes of the wave that begins at thread `first`, in `order`, until each has ended or waits at a barrier;
// with `once` no further than the next wave operation. Returns whether any lane ran.
inline bool run_wave(unsigned first, const std::vector<unsigned> &order, bool once) {
    bool any_ran = false;
    do {
        for (unsigned lane : order) {
            Thread &thread = device.threads[first + lane];
            if (thread.state != State::Ready) continue;
            device.current = &thread;
            switch_context(device.scheduler, thread.context);
            any_ran = true;
        }
    } while (release(first, first + SIMT_WAVE, State::AtWave) && !once);
    return any_ran;
}

// The numbers 0 … count − 1 in the device's order.
inline std::vector<unsigned> numbers(unsigned count, std::minstd_rand &random) {
    std::vector<unsigned> out(count);
    for (unsigned i = 0; i < count; i++) out[i] = device.order == 1 ? count - 1 - i : i;
    if (device.order > 1) {
        for (unsigned i = count; i > 1; i--) std::swap(out[i - 1], out[random() % i]);
    }
    return out;
}

inline void run_block(unsigned threads, std::minstd_rand &random) {
    for (char *byte = __start_simt_shared; byte != __stop_simt_shared; byte++) *byte = char(0xd5);
    for (unsigned i = 0; i < threads; i++) {
        char *stack = device.stacks.data() + i * STACK_BYTES;
        std::memcpy(stack, &CANARY, sizeof CANARY);
        device.threads[i] = {i, State::Ready, 0, 0, 0, {}, {}};
        make_context(device.threads[i].context, stack, thread_main);
    }
    for (;;) {
        // In fixed orders each wave gets as far ahead of the others as it can; shuffled, they overtake each other.
        bool any_ran = false;
        for (unsigned wave : numbers(threads / SIMT_WAVE, random)) {
            bool once = device.order > 1 && random() % 4 == 0;
            any_ran = run_wave(wave * SIMT_WAVE, numbers(SIMT_WAVE, random), once) || any_ran;
        }
        if (any_ran || release(0, threads, State::AtBarrier)) continue;
        bool all_ended = true;
        for (const Thread &thread : device.threads) all_ended = all_ended && thread.state == State::Ended;
        if (all_ended) break;
        for (const Thread &thread : device.threads) {
            if (thread.state != State::Ended) fail("not all threads reach this", thread.thread, thread.line);
        }
    }
    for (unsigned i = 0; i < threads; i++) {
        if (std::memcmp(device.stacks.data() + i * STACK_BYTES, &CANARY, sizeof CANARY) != 0) {
            fail("a thread ran out of stack", i, 0);
        }
    }
}

// Runs `kernel` with `blocks` blocks of `threads` threads.
template <class Args> void launch(void (*kernel)(Args), const Args &args, unsigned blocks, unsigned threads) {
    std::lock_guard<std::mutex> lock(device.busy);
    if (threads % SIMT_WAVE != 0 || threads == 0) fail("a block is not whole waves", threads, 0);
    device.kernel = [kernel, &args] { kernel(args); };
    device.blocks = blocks;
    device.threads.resize(threads);
    device.waves.resize(threads / SIMT_WAVE);
    device.stacks.resize(threads * STACK_BYTES);
    std::minstd_rand random(device.order + 1);
    for (unsigned i = 0; i < blocks; i++) {
        device.block = device.order == 1 ? blocks - 1 - i : i;
        run_block(threads, random);
    }
}

}  // namespace simt
