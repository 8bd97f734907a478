// Arithmetic modulo q = 12289 and ByteEncode14 (FIPS 203, Algorithms 5 and 6), without division, branches or
// addresses that depend on values.
#pragma once

#include "views.h"

constexpr i32 Q = 12289;
// Matrix entries are kept as x - 6144, from -6144 to 6144; this is floor(q / 2), too.
constexpr i32 CENTRE = Q / 2;
constexpr u32 MESSAGE_BITS = 256;
// Four coefficients of 14 bits take 7 bytes.
constexpr u32 GROUP_BYTES = 7;

// Bytes of n encoded coefficients; n is a multiple of 4.
DEVICE u64 encoded_bytes(u64 n) { return n / 4 * GROUP_BYTES; }

// x mod q, from 0 to q - 1, for every x.
//
// With M = floor(2^44 / q), x * M / 2^44 is off x / q by less than |x| / 2^44 < 2^-13, so that its floor misses
// floor(x / q) by at most one either way and the remainder lies in [-q, 2q).
DEVICE i32 reduce(i32 x) {
    constexpr i64 M = (i64(1) << 44) / Q;
    i32 quotient = i32((i64(x) * M) >> 44);
    i32 r = i32(u32(x) - u32(quotient) * u32(Q));
    r += (r >> 31) & Q;
    return r - (((Q - 1 - r) >> 31) & Q);
}

// 128 * high + low mod q, for every high and |low| < 2^30.
//
// Sums of up to 32768 products of a signed byte and a 7-bit half of a coefficient, centred or not, are at most 2^29:
// no sum of halves needs a reduction on the way, however wide the noise.
DEVICE i32 combine(i32 low, i32 high) { return reduce(128 * reduce(high) + low); }

// What centring takes from a row's products with the matrix: 6144 * sum mod q, for every sum of a row.
DEVICE i32 centre_term(i32 sum) { return reduce(CENTRE * reduce(sum)); }

// Four values below 2^14 as 56 bits.
DEVICE u64 pack4(i32 a, i32 b, i32 c, i32 d) {
    return u64(u32(a) | u32(b) << 14) | u64(u32(c) | u32(d) << 14) << 28;
}

// The 7 bytes of four values.
DEVICE void store_group(u8 *out, u64 packed) {
    UNROLL
    for (u32 i = 0; i < GROUP_BYTES; i++) out[i] = u8(packed >> (8 * i));
}

// The low and the high 7 bits of four coefficients, a byte each; both fit signed bytes.
struct Halves {
    u32 low, high;
};

DEVICE Halves split_group(u64 packed) {
    Halves halves = {0, 0};
    UNROLL
    for (u32 i = 0; i < 4; i++) {
        halves.low |= u32(packed >> (14 * i) & 127) << (8 * i);
        halves.high |= u32(packed >> (14 * i + 7) & 127) << (8 * i);
    }
    return halves;
}

// Byte i of a word, signed.
DEVICE i32 signed_byte(u32 word, u32 i) { return i8(word >> (8 * i)); }

// The block's threads copy `len` bytes, a multiple of 4, from shared memory; `from` is aligned to 4 bytes.
DEVICE void copy_out(u8 *to, const u8 *from, u32 len, u32 threads) {
    if (is_aligned(to, 4)) {
        for (u32 i = 4 * thread_id(); i < len; i += 4 * threads) {
            *reinterpret_cast<u32 *>(to + i) = *reinterpret_cast<const u32 *>(from + i);
        }
    } else {
        for (u32 i = thread_id(); i < len; i += threads) to[i] = from[i];
    }
}
