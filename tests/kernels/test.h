// What the tests of the kernels share: buffers with guards, failures, random bytes, the thread order.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "platform.h"

[[noreturn]] inline void fail_test(const std::string &what) {
    std::fprintf(stderr, "failed: %s\n", what.c_str());
    std::exit(1);
}

inline void check(bool holds, const std::string &what) {
    if (!holds) fail_test(what);
}

// The first argument is the order of threads: 0 forward, 1 reverse, else a seed.
inline void set_order(int argc, char **argv) { simt::device.order = argc > 1 ? unsigned(std::atoi(argv[1])) : 0; }

// Bytes that look random, the same on every run.
struct Random {
    u64 state;

    u64 next() {
        state += 0x9e3779b97f4a7c15;
        u64 x = state;
        x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
        x = (x ^ x >> 27) * 0x94d049bb133111eb;
        return x ^ x >> 31;
    }
    std::vector<u8> bytes(size_t len) {
        std::vector<u8> out(len);
        for (u8 &byte : out) byte = u8(next());
        return out;
    }
};

// `count` values, poisoned, at a multiple of 64 bytes plus `shift`, between guards that `verify` checks.
template <class T> class Guarded {
    static constexpr size_t GUARD = 256;
    std::vector<u8> memory;
    size_t begin, bytes;

public:
    explicit Guarded(size_t count, size_t shift = 0) : memory(2 * GUARD + 128 + count * sizeof(T), 0xa5) {
        size_t at = size_t(reinterpret_cast<uintptr_t>(memory.data()) + GUARD);
        begin = GUARD + (64 - at % 64) % 64 + shift;
        bytes = count * sizeof(T);
    }
    Guarded(const Guarded &) = delete;
    template <class V>
    explicit Guarded(const std::vector<V>& values, size_t shift = 0) : Guarded(values.size(), shift) {
        static_assert(sizeof(V) == sizeof(T));
        if (bytes > 0) std::memcpy(data(), values.data(), bytes);
    }

    T *data() { return reinterpret_cast<T *>(memory.data() + begin); }
    size_t size() const { return bytes / sizeof(T); }
    T &operator[](size_t i) { return data()[i]; }
    void poison(u8 byte) { std::memset(data(), byte, bytes); }
    void verify(const std::string &what) const {
        for (size_t i = 0; i < memory.size(); i++) {
            if ((i < begin || i >= begin + bytes) && memory[i] != 0xa5) {
                fail_test(what + ": written outside its buffer, at byte " + std::to_string(long(i) - long(begin)));
            }
        }
    }
};

inline std::vector<u8> from_hex(const std::string &hex) {
    std::vector<u8> out(hex.size() / 2);
    for (size_t i = 0; i < out.size(); i++) out[i] = u8(std::stoul(hex.substr(2 * i, 2), nullptr, 16));
    return out;
}

inline std::string to_hex(const u8 *bytes, size_t len) {
    std::string out;
    char digits[3];
    for (size_t i = 0; i < len; i++) {
        std::snprintf(digits, sizeof digits, "%02x", bytes[i]);
        out += digits;
    }
    return out;
}

// Grids that every result must not depend on.
constexpr u32 GRIDS[] = {1, 3, 8};
