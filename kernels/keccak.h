// Keccak-f[1600] and the sponge (FIPS 202), one state a thread, in registers.
#pragma once

#include "views.h"

CONSTANT u64 KECCAK_CONSTANTS[24] = {
    0x0000000000000001, 0x0000000000008082, 0x800000000000808a, 0x8000000080008000, 0x000000000000808b,
    0x0000000080000001, 0x8000000080008081, 0x8000000000008009, 0x000000000000008a, 0x0000000000000088,
    0x0000000080008009, 0x000000008000000a, 0x000000008000808b, 0x800000000000008b, 0x8000000000008089,
    0x8000000000008003, 0x8000000000008002, 0x8000000000000080, 0x000000000000800a, 0x800000008000000a,
    0x8000000080008081, 0x8000000000008080, 0x0000000080000001, 0x8000000080008008,
};

DEVICE u64 rotate_left(u64 x, u32 n) { return x << n | x >> (64 - n); }

// Lane (x, y) is a[5·y + x].
DEVICE void keccak_round(u64 (&a)[25], u64 constant) {
    // θ.
    u64 c[5];
    UNROLL
    for (u32 x = 0; x < 5; x++) c[x] = a[x] ^ a[x + 5] ^ a[x + 10] ^ a[x + 15] ^ a[x + 20];
    UNROLL
    for (u32 x = 0; x < 5; x++) {
        u64 d = c[(x + 4) % 5] ^ rotate_left(c[(x + 1) % 5], 1);
        UNROLL
        for (u32 y = 0; y < 5; y++) a[5 * y + x] ^= d;
    }
    // ρ and π: lane (x, y) goes to (y, 2x + 3y), by way of the one cycle that π makes of all lanes but the first.
    u64 moved = a[1];
#define STEP(to, bits)                    \
    {                                     \
        u64 next = a[to];                 \
        a[to] = rotate_left(moved, bits); \
        moved = next;                     \
    }
    STEP(10, 1)
    STEP(7, 3)
    STEP(11, 6)
    STEP(17, 10)
    STEP(18, 15)
    STEP(3, 21)
    STEP(5, 28)
    STEP(16, 36)
    STEP(8, 45)
    STEP(21, 55)
    STEP(24, 2)
    STEP(4, 14)
    STEP(15, 27)
    STEP(23, 41)
    STEP(19, 56)
    STEP(13, 8)
    STEP(12, 25)
    STEP(2, 43)
    STEP(20, 62)
    STEP(14, 18)
    STEP(22, 39)
    STEP(9, 61)
    STEP(6, 20)
    STEP(1, 44)
#undef STEP
    // χ and ι.
    UNROLL
    for (u32 y = 0; y < 25; y += 5) {
        u64 first = a[y], second = a[y + 1];
        a[y] ^= ~second & a[y + 2];
        a[y + 1] ^= ~a[y + 2] & a[y + 3];
        a[y + 2] ^= ~a[y + 3] & a[y + 4];
        a[y + 3] ^= ~a[y + 4] & first;
        a[y + 4] ^= ~first & second;
    }
    a[0] ^= constant;
}

DEVICE void keccak_permute(u64 (&a)[25]) {
    for (u32 i = 0; i < 24; i++) keccak_round(a, KECCAK_CONSTANTS[i]);
}

// The eight bytes at `bytes`.
DEVICE u64 load_word(const u8 *bytes) {
    if (is_aligned(bytes, 8)) return *reinterpret_cast<const u64 *>(bytes);
    u64 word = 0;
#pragma unroll 1
    for (u32 i = 0; i < 8; i++) word |= u64(bytes[i]) << 8 * i;
    return word;
}

// The `count` bytes at `bytes`, fewer than eight.
DEVICE u64 load_bytes(const u8 *bytes, u32 count) {
    u64 word = 0;
#pragma unroll 1
    for (u32 i = 0; i < count; i++) word |= u64(bytes[i]) << 8 * i;
    return word;
}

// A message of up to three parts, one after the other; shorter than 2³² bytes.
struct Parts {
    const u8 *part[3];
    // Where each part ends in the message.
    u32 end[3];

    DEVICE_MEMBER u32 length() const { return end[2]; }
    // The `count` bytes from `at` on, at most eight.
    DEVICE_MEMBER u64 word(u32 at, u32 count) const {
        u64 word = 0;
        u32 done = 0;
#pragma unroll 1
        do {
            u32 i = at < end[0] ? 0 : at < end[1] ? 1 : 2;
            const u8 *from = i == 0 ? part[0] + at : i == 1 ? part[1] + (at - end[0]) : part[2] + (at - end[1]);
            u32 left = (i == 0 ? end[0] : i == 1 ? end[1] : end[2]) - at;
            u32 take = left < count - done ? left : count - done;
            word |= (take == 8 ? load_word(from) : load_bytes(from, take)) << 8 * done;
            done += take;
            at += take;
        } while (done < count);
        return word;
    }
};

// One string, shorter than 2³² bytes.
struct Bytes {
    const u8 *start;
    u32 len;

    DEVICE_MEMBER u32 length() const { return len; }
    DEVICE_MEMBER u64 word(u32 at, u32 count) const {
        return count == 8 ? load_word(start + at) : load_bytes(start + at, count);
    }
};

// Absorbs `message` into the zero state, with `suffix` (domain bits and the padding's first bit) and the padding, and
// permutes: the first RATE bytes of `a` are the first of the output. ⌊length / RATE⌋ + 1 permutations.
//
// `buffer` is this thread's column of shared memory, RATE/8 words `threads` apart: words are fetched by a loop, which
// cannot index the state's registers. It is zero afterwards.
template <u32 RATE, class Message>
DEVICE void sponge(u64 (&a)[25], const Message &message, u64 suffix, u64 *buffer, u32 threads) {
    UNROLL
    for (u32 i = 0; i < 25; i++) a[i] = 0;
    u32 at = 0;
    bool more = true;
#pragma unroll 1
    while (more) {
        u32 left = message.length() - at;
        more = left >= RATE;
#pragma unroll 1
        for (u32 i = 0; i < RATE / 8; i++) {
            u64 word = 0;
            if (8 * i < left) word = message.word(at + 8 * i, left - 8 * i < 8 ? left - 8 * i : 8);
            if (8 * i <= left && left < 8 * i + 8) word |= suffix << 8 * (left - 8 * i);
            buffer[i * threads] = word;
        }
        UNROLL
        for (u32 i = 0; i < RATE / 8; i++) a[i] ^= buffer[i * threads];
        if (!more) a[RATE / 8 - 1] ^= u64(1) << 63;
        keccak_permute(a);
        at += RATE;
    }
    UNROLL
    for (u32 i = 0; i < RATE / 8; i++) buffer[i * threads] = 0;
}

// Writes the first `WORDS` words of the state; `out` is a multiple of 8 bytes.
template <u32 WORDS> DEVICE void store_words(u8 *out, const u64 (&a)[25]) {
    UNROLL
    for (u32 i = 0; i < WORDS; i++) reinterpret_cast<u64 *>(out)[i] = a[i];
}
