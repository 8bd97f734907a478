// The message's way into and out of v.
//
// Secret: r, e2, m, s and everything computed from them, which are only multiplied, added, shifted and moved.

#include "product.h"
#include "codec.h"

namespace {

constexpr u32 THREADS = PRODUCT_THREADS;
constexpr u32 WAVES = THREADS / WAVE;

// Bits of a message that a task takes: a wave each in turn.
constexpr u32 TASK_BITS = 8;
constexpr u32 TASKS = MESSAGE_BITS / TASK_BITS;

// Coefficients that a lane takes at a time: 16 small ones are one load, 16 encoded ones seven words.
constexpr u32 CHUNK = 16;
constexpr u32 CHUNK_WORDS = CHUNK / 4 * GROUP_BYTES / 4;

struct Chunk {
    u32 w[CHUNK_WORDS];
};

DEVICE Chunk load_chunk(const u8 *from, bool aligned) {
    Chunk chunk;
    if (aligned) {
        UNROLL
        for (u32 i = 0; i < CHUNK_WORDS; i++) chunk.w[i] = reinterpret_cast<const u32 *>(from)[i];
    } else {
        UNROLL
        for (u32 i = 0; i < CHUNK_WORDS; i++) {
            const u8 *byte = from + 4 * i;
            chunk.w[i] = byte[0] | u32(byte[1]) << 8 | u32(byte[2]) << 16 | u32(byte[3]) << 24;
        }
    }
    return chunk;
}

// Group g of a chunk; what lies above its 56 bits is not cleared.
DEVICE u64 chunk_group(const Chunk &chunk, u32 g) {
    const u32 word = g * GROUP_BYTES / 4, shift = g * GROUP_BYTES % 4 * 8;
    u64 packed = (chunk.w[word] | u64(chunk.w[word + 1]) << 32) >> shift;
    if (shift > 8) packed |= u64(chunk.w[word + 2]) << (64 - shift);
    return packed;
}

// <encoded, small> mod q, by a wave, in every lane. Works on any 14-bit coefficients: their halves are at most 127.
DEVICE i32 inner_product(const u8 *encoded, const i8 *small, u64 n) {
    const bool aligned = is_aligned(encoded, 4);
    i32 low = 0, high = 0;
    for (u32 i = lane_id(); i < u32(n / CHUNK); i += WAVE) {
        const Chunk chunk = load_chunk(encoded + u64(i) * (4 * CHUNK_WORDS), aligned);
        const Words4 words = *reinterpret_cast<const Words4 *>(small + u64(i) * CHUNK);
        UNROLL
        for (u32 g = 0; g < CHUNK / 4; g++) {
            const Halves halves = split_group(chunk_group(chunk, g));
            low = dot4(halves.low, words.w[g], low);
            high = dot4(halves.high, words.w[g], high);
        }
    }
    for (u32 mask = WAVE / 2; mask > 0; mask /= 2) {
        low += shuffle_xor(low, mask);
        high += shuffle_xor(high, mask);
    }
    return combine(low, high);
}

// Coefficient j of an encoded string, by its bytes.
DEVICE i32 load_coefficient(const u8 *encoded, u32 j) {
    const u8 *group = encoded + j / 4 * GROUP_BYTES;
    u64 packed = 0;
    UNROLL
    for (u32 i = 0; i < GROUP_BYTES; i++) packed |= u64(group[i]) << (8 * i);
    return i32(packed >> (14 * (j % 4)) & 0x3fff);
}

// 1 where floor(q / 4) < mu < q - floor(q / 4), for 0 <= mu < q: the sign bits of two differences, no comparison.
DEVICE u32 decode_bit(i32 mu) {
    constexpr i32 QUARTER = Q / 4;
    return u32((QUARTER - mu) & (mu - (Q - QUARTER))) >> 31;
}

}  // namespace

// v of each message. Bound, an item: 256 n bytes of r read; t comes from the cache.
extern "C" KERNEL(PRODUCT_THREADS) void encode_message(EncodeMessageArgs args) {
    SHARED i32 v[TASK_BITS];
    for (u64 task = block_id(); task < args.count * TASKS; task += grid_blocks()) {
        const u64 item = task / TASKS;
        const u32 first = u32(task % TASKS) * TASK_BITS;
        const u8 *t = string_at(args.t, item);
        const u8 *m = string_at(args.m, item);
        for (u32 bit = wave_id(); bit < TASK_BITS; bit += WAVES) {
            const u64 row = item * MESSAGE_BITS + first + bit;
            const i32 product = inner_product(t, args.r + row * args.n, args.n);
            const i32 m_j = m[first / 8] >> bit & 1;
            if (lane_id() == 0) v[bit] = reduce(product + args.e2[row] + m_j * CENTRE);
        }
        sync_block();
        if (thread_id() < TASK_BITS / 4) {
            const i32 *x = v + 4 * thread_id();
            u8 *out = string_at(args.out, item) + encoded_bytes(first) + thread_id() * GROUP_BYTES;
            store_group(out, pack4(x[0], x[1], x[2], x[3]));
        }
        sync_block();
    }
}

// m' of each ciphertext. Bound, an item: 448 n bytes of u read; s comes from the cache.
extern "C" KERNEL(PRODUCT_THREADS) void decode_message(DecodeMessageArgs args) {
    SHARED u32 bits[TASK_BITS];
    const u64 row_bytes = encoded_bytes(args.n);
    for (u64 task = block_id(); task < args.count * TASKS; task += grid_blocks()) {
        const u64 item = task / TASKS;
        const u32 first = u32(task % TASKS) * TASK_BITS;
        const u8 *c = string_at(args.c, item);
        const i8 *s = args.s + item / args.per_key * args.n;
        for (u32 bit = wave_id(); bit < TASK_BITS; bit += WAVES) {
            const i32 product = inner_product(c + (first + bit) * row_bytes, s, args.n);
            const i32 v = load_coefficient(c + MESSAGE_BITS * row_bytes, first + bit);
            if (lane_id() == 0) bits[bit] = decode_bit(reduce(v - product));
        }
        sync_block();
        if (thread_id() == 0) {
            u32 byte = 0;
            UNROLL
            for (u32 i = 0; i < TASK_BITS; i++) byte |= bits[i] << i;
            string_at(args.m, item)[first / 8] = u8(byte);
        }
        sync_block();
    }
}
