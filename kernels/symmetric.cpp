// Hashes, streams, small vectors, copies and comparisons. What each kernel does is said in symmetric.h.
#include "symmetric.h"

#include "aes.h"
#include "keccak.h"

// ---- Hashes.

template <u32 RATE, u32 OUT_WORDS> DEVICE void hash(const HashArgs &args, u64 *buffer) {
    for (u64 i = grid_thread(HASH_THREADS); i < args.count; i += grid_threads(HASH_THREADS)) {
        Parts message;
        u32 end = 0;
        UNROLL
        for (u32 p = 0; p < 3; p++) {
            end += u32(args.parts[p].len);
            message.part[p] = string_at(args.parts[p], i);
            message.end[p] = end;
        }
        u64 state[25];
        sponge<RATE>(state, message, args.suffix, buffer + thread_id(), HASH_THREADS);
        u8 *out = string_at(args.out, i);
        if (is_aligned(out, 8)) {
            store_words<OUT_WORDS>(out, state);
        } else {
            UNROLL
            for (u32 w = 0; w < OUT_WORDS; w++) {
#pragma unroll 1
                for (u32 k = 0; k < 8; k++) out[8 * w + k] = u8(state[w] >> 8 * k);
            }
        }
    }
}

extern "C" KERNEL_ROOMY(HASH_THREADS) void hash_256(HashArgs args) {
    SHARED u64 buffer[136 / 8 * HASH_THREADS];
    hash<136, 4>(args, buffer);
}

extern "C" KERNEL_ROOMY(HASH_THREADS) void hash_512(HashArgs args) {
    SHARED u64 buffer[72 / 8 * HASH_THREADS];
    hash<72, 8>(args, buffer);
}

extern "C" KERNEL(HASH_THREADS) void parallel_hash_leaves(LeavesArgs args) {
    SHARED u64 buffer[136 / 8 * HASH_THREADS];
    u64 tasks = args.count * args.blocks;
    for (u64 task = grid_thread(HASH_THREADS); task < tasks; task += grid_threads(HASH_THREADS)) {
        u64 item = task / args.blocks, at = task % args.blocks * args.block_bytes;
        u64 left = args.input.len - at;
        Bytes block = {string_at(args.input, item) + at, u32(left < args.block_bytes ? left : args.block_bytes)};
        u64 state[25];
        sponge<136>(state, block, 0x1f, buffer + thread_id(), HASH_THREADS);
        store_words<8>(args.leaves + 64 * task, state);
    }
}

// ---- Streams.

extern "C" KERNEL(HASH_THREADS) void stream_seeds(SeedsArgs args) {
    u64 tasks = args.count * args.per_seed;
    for (u64 task = grid_thread(HASH_THREADS); task < tasks; task += grid_threads(HASH_THREADS)) {
        const u8 *seed = string_at(args.seeds, task / args.per_seed);
        u64 index = args.first + task % args.per_seed;
        u64 state[25];
        UNROLL
        for (u32 i = 0; i < 25; i++) state[i] = i < 4 ? load_word(seed + 8 * i) : 0;
        // tag ‖ LE32(index) ‖ SHAKE's domain bits, and the padding's last bit.
        state[4] = args.tag | (index & 0xffffffff) << 8 | u64(0x1f) << 40;
        state[16] = u64(1) << 63;
        keccak_permute(state);
        store_words<6>(args.out + 48 * task, state);
    }
}

// Key and V after instantiation with the entropy input, as words: E(1) ‖ E(2) ‖ E(3) of AES-256 under the zero key,
// which Update begins with (SP 800-90A, 10.2.1.3.1), added to it.
DEVICE void instantiate(const u8 *entropy, u32 (&key)[8], u32 (&v)[4]) {
    const u64 zero_key_blocks[6] = {
        0xb93645c7fb8a0f53, 0x8b73cbc4f1b463a9, 0x6e6b604d3d40a7ce,
        0x189df3bad3c54e07, 0x742aa637ca036072, 0x8e3506758ef5a2d1,
    };
    u64 words[6];
    UNROLL
    for (u32 i = 0; i < 6; i++) words[i] = reinterpret_cast<const u64 *>(entropy)[i] ^ zero_key_blocks[i];
    UNROLL
    for (u32 i = 0; i < 8; i++) key[i] = u32(words[i / 2] >> i % 2 * 32);
    UNROLL
    for (u32 i = 0; i < 4; i++) v[i] = u32(words[4 + i / 2] >> i % 2 * 32);
}

DEVICE void store_block(u32 *out, u32 w0, u32 w1, u32 w2, u32 w3) {
    *reinterpret_cast<Words4 *>(out) = {{w0, w1, w2, w3}};
}

extern "C" KERNEL(KEYS_THREADS) void stream_keys(KeysArgs args) {
    for (u64 i = grid_thread(KEYS_THREADS); i < args.count; i += grid_threads(KEYS_THREADS)) {
        u32 key[8], v[4];
        instantiate(args.entropy + 48 * i, key, v);
        u32 *out = args.out + i * STREAM_WORDS;
        expand_key(key, [](u32 x) { return sliced_sub_word(x); },
                   [&](u32 round, u32 w0, u32 w1, u32 w2, u32 w3) { store_block(out + 4 * round, w0, w1, w2, w3); });
        store_block(out + ROUND_KEY_WORDS, v[0], v[1], v[2], v[3]);
    }
}

extern "C" KERNEL(KEYS_THREADS) void stream_keys_sliced(KeysArgs args) {
    for (u64 i = grid_thread(KEYS_THREADS); i < args.count; i += grid_threads(KEYS_THREADS)) {
        u32 key[8], v[4];
        instantiate(args.entropy + 48 * i, key, v);
        u32 *out = args.out + i * SLICED_STREAM_WORDS;
        expand_key(key, [](u32 x) { return sliced_sub_word(x); },
                   [&](u32 round, u32 w0, u32 w1, u32 w2, u32 w3) {
                       slice_round_key(round, w0, w1, w2, w3, out + 32 * round);
                   });
        store_block(out + SLICED_KEY_WORDS, v[0], v[1], v[2], v[3]);
    }
}

// ---- Small vectors.

// Blocks `first` … `first` + 7 of a request: s[c][k] is word c of block k.
DEVICE void stream_blocks(const u32 *stream, u64 first, Sliced &s) {
    Words4 words = *reinterpret_cast<const Words4 *>(stream + SLICED_KEY_WORDS);
    UNROLL
    for (u32 k = 0; k < SLICED_BLOCKS; k++) {
        u32 block[4];
        counter_block(words.w, first + 1 + k, block);
        UNROLL
        for (u32 c = 0; c < 4; c++) s[c][k] = block[c];
    }
    slice(s);
    sliced_encrypt(s, stream);
    unslice(s);
}

// Stores four signed bytes of a row; `left` bytes of the row begin at `to`.
DEVICE void store_ragged(i8 *to, u64 left, u32 word) {
    UNROLL
    for (u32 i = 0; i < 4; i++) {
        if (i < left) to[i] = i8(word >> 8 * i);
    }
}

// Stores the row's part `values` at `at`, cut where the row ends.
template <u32 WORDS> DEVICE void store_row(i8 *row, u64 at, u64 n, const u32 (&values)[WORDS]) {
    i8 *to = row + at;
    if (at + 4 * WORDS <= n && is_aligned(to, 16)) {
        UNROLL
        for (u32 i = 0; i < WORDS; i += 4) {
            reinterpret_cast<Words4 *>(to)[i / 4] = {{values[i], values[i + 1], values[i + 2], values[i + 3]}};
        }
    } else {
        UNROLL
        for (u32 i = 0; i < WORDS; i++) {
            if (at + 4 * i < n) store_ragged(to + 4 * i, n - at - 4 * i, values[i]);
        }
    }
}

// From two 16-bit words a register to four values a register.
DEVICE void table_values(const u32 (&words)[16], const SampleArgs &args, u32 *values) {
    // How many thresholds T have (word >> 1) > T: bit 15 of a half survives the subtraction exactly where word >> 1 is
    // at least T + 1, and nothing is borrowed from the other half.
    u32 magnitude[16];
    UNROLL
    for (u32 i = 0; i < 16; i++) magnitude[i] = 0;
#pragma unroll 1
    for (u32 t = 0; t < args.threshold_count; t++) {
        u32 above = (args.thresholds[t] + 1u) * 0x00010001;
        UNROLL
        for (u32 i = 0; i < 16; i++) magnitude[i] += ((words[i] >> 1 | 0x80008000) - above) >> 15 & 0x00010001;
    }
    // The sign is the lowest bit: in the low byte of each half, −x = (x ^ 255) + 1.
    UNROLL
    for (u32 i = 0; i < 8; i++) {
        u32 word = 0;
        UNROLL
        for (u32 c = 0; c < 2; c++) {
            u32 sign = words[2 * i + c] & 0x00010001;
            u32 value = (magnitude[2 * i + c] ^ sign * 0xff) + sign;
            word |= ((value & 0xff) | (value >> 8 & 0xff00)) << 16 * c;
        }
        values[i] = word;
    }
}

extern "C" KERNEL(SAMPLE_THREADS) void sample_table(SampleArgs args) {
    constexpr u32 VALUES = 8 * SLICED_BLOCKS;
    u64 pieces = (args.n + VALUES - 1) / VALUES, tasks = args.rows * pieces;
    for (u64 task = grid_thread(SAMPLE_THREADS); task < tasks; task += grid_threads(SAMPLE_THREADS)) {
        u64 row = task / pieces, piece = task % pieces;
        Sliced s;
        stream_blocks(args.streams + row * SLICED_STREAM_WORDS, piece * SLICED_BLOCKS, s);
        u32 values[16];
        UNROLL
        for (u32 k = 0; k < SLICED_BLOCKS; k += 4) {
            u32 words[16];
            UNROLL
            for (u32 i = 0; i < 16; i++) words[i] = s[i % 4][k + i / 4];
            table_values(words, args, values + 2 * k);
        }
        store_row(args.out + row * args.n, piece * VALUES, args.n, values);
    }
}

extern "C" KERNEL(SAMPLE_THREADS) void sample_cbd3(SampleArgs args) {
    constexpr u32 VALUES = 16 * SLICED_BLOCKS;
    u64 pieces = (args.n + VALUES - 1) / VALUES, tasks = args.rows * pieces;
    for (u64 task = grid_thread(SAMPLE_THREADS); task < tasks; task += grid_threads(SAMPLE_THREADS)) {
        u64 row = task / pieces, piece = task % pieces;
        Sliced s;
        stream_blocks(args.streams + row * SLICED_STREAM_WORDS, piece * SLICED_BLOCKS, s);
        u32 values[32];
        UNROLL
        for (u32 i = 0; i < 32; i++) {
            u32 x = s[i % 4][i / 4], ones = 0x01010101;
            u32 plus = (x & ones) + (x >> 1 & ones) + (x >> 2 & ones);
            u32 minus = (x >> 3 & ones) + (x >> 4 & ones) + (x >> 5 & ones);
            // Each byte stays between 125 and 131; the highest bit is the offset.
            values[i] = ((plus | 0x80808080) - minus) ^ 0x80808080;
        }
        store_row(args.out + row * args.n, piece * VALUES, args.n, values);
    }
}

// ---- Bytes.

// Strings are worked on in units of 16 bytes.
DEVICE u64 units_of(u64 len) { return (len + 15) / 16; }

extern "C" KERNEL(BYTES_THREADS) void copy_bytes(CopyArgs args) {
    u64 len = args.input.len, units = units_of(len), tasks = args.count * units;
    for (u64 task = grid_thread(BYTES_THREADS); task < tasks; task += grid_threads(BYTES_THREADS)) {
        u64 item = task / units, at = task % units * 16;
        const u8 *from = string_at(args.input, item) + at;
        u8 *to = string_at(args.out, item) + at;
        if (at + 16 <= len && is_aligned(from, 16) && is_aligned(to, 16)) {
            *reinterpret_cast<Words4 *>(to) = *reinterpret_cast<const Words4 *>(from);
        } else {
            for (u64 i = 0; i < 16 && at + i < len; i++) to[i] = from[i];
        }
    }
}

extern "C" KERNEL(BYTES_THREADS) void compare_bytes(CompareArgs args) {
    u64 len = args.a.len, units = units_of(len);
    // Whole waves stay within an item, so that its lanes join their differences.
    u64 per_item = (units + WAVE - 1) / WAVE, tasks = args.count * per_item;
    u64 waves = grid_threads(BYTES_THREADS) / WAVE;
    for (u64 task = grid_thread(BYTES_THREADS) / WAVE; task < tasks; task += waves) {
        u64 item = task / per_item, at = (task % per_item * WAVE + lane_id()) * 16;
        u32 difference = 0;
        if (at < len) {
            const u8 *a = string_at(args.a, item) + at, *b = string_at(args.b, item) + at;
            if (at + 16 <= len && is_aligned(a, 16) && is_aligned(b, 16)) {
                Words4 x = *reinterpret_cast<const Words4 *>(a), y = *reinterpret_cast<const Words4 *>(b);
                UNROLL
                for (u32 i = 0; i < 4; i++) difference |= x.w[i] ^ y.w[i];
            } else {
                for (u64 i = 0; i < 16 && at + i < len; i++) difference |= a[i] ^ b[i];
            }
        }
        for (u32 mask = WAVE / 2; mask > 0; mask /= 2) difference |= shuffle_xor(difference, mask);
        if (lane_id() == 0) atomic_or_u32(&args.differences[item], difference);
    }
}

extern "C" KERNEL(BYTES_THREADS) void select_equal(SelectArgs args) {
    u64 len = args.yes.len, tasks = args.count * len;
    for (u64 task = grid_thread(BYTES_THREADS); task < tasks; task += grid_threads(BYTES_THREADS)) {
        u64 item = task / len, at = task % len;
        u32 difference = args.differences[item];
        // All ones where they are equal.
        u32 equal = opaque(((difference | (0 - difference)) >> 31) - 1);
        u32 yes = string_at(args.yes, item)[at], no = string_at(args.no, item)[at];
        string_at(args.out, item)[at] = u8((yes & equal) | (no & ~equal));
    }
}
