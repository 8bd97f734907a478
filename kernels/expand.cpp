// The public matrix from its streams. What the kernel does is said in symmetric.h.
#include "aes.h"
#include "codec.h"
#include "symmetric.h"

// Words from here on are rejected.
constexpr u32 REJECTED = 5 * Q;
// Blocks of a request of 65536 bytes. Waves divide it: a request ends where a step does.
constexpr u32 REQUEST_BLOCKS = 4096;

constexpr u32 WAVES = EXPAND_THREADS / WAVE;
// Values at hand of a column: what the last step left, fewer than 16, and what a step draws at most, eight a lane.
constexpr u32 AT_HAND = 16 + 8 * WAVE;

// In shared memory, one a wave.
struct Column {
    u32 *keys;
    i8 *low;
    i8 *high;
};

// Replaces the keys, which no lane reads any more, and waits until they are there.
DEVICE void load_keys(u32 *keys, const u32 *stream) {
    for (u32 i = lane_id(); i < ROUND_KEY_WORDS; i += WAVE) keys[i] = stream[i];
    sync_wave();
}

// Update (SP 800-90A, 10.2.1.2) without additional input: the three blocks after the request are the next Key and V.
DEVICE void update(const u32 *table, u32 *keys, u32 (&v)[4]) {
    u32 block[4], key[8];
    counter_block(v, REQUEST_BLOCKS + 1 + lane_id() % 4, block);
    table_encrypt(block, table, keys);
    UNROLL
    for (u32 i = 0; i < 4; i++) {
        key[i] = shuffle(block[i], 0);
        key[4 + i] = shuffle(block[i], 1);
        v[i] = shuffle(block[i], 2);
    }
    // All lanes have read the old keys. (Shuffles and votes order no memory.)
    sync_wave();
    expand_key(key, [=](u32 x) { return table_sub_word(table, x); },
               [=](u32 round, u32 w0, u32 w1, u32 w2, u32 w3) {
                   if (lane_id() == round) *reinterpret_cast<Words4 *>(keys + 4 * round) = {{w0, w1, w2, w3}};
               });
    sync_wave();
}

// Puts the accepted words of each lane's block behind the `filled` values at hand, in order of lanes. Returns how many
// values there are then.
DEVICE u32 append(const Column &column, u32 filled, const u32 (&block)[4]) {
    u32 accepted = 0;
    UNROLL
    for (u32 i = 0; i < 8; i++) accepted += (block[i / 2] >> i % 2 * 16 & 0xffff) < REJECTED;
    // The count has four bits: a vote each gives the sum over the lanes below and over all.
    u32 at = filled, total = 0;
    UNROLL
    for (u32 bit = 0; bit < 4; bit++) {
        u64 lanes = vote(accepted >> bit & 1);
        at += count_bits(lanes & ((u64(1) << lane_id()) - 1)) << bit;
        total += count_bits(lanes) << bit;
    }
    UNROLL
    for (u32 i = 0; i < 8; i++) {
        u32 word = block[i / 2] >> i % 2 * 16 & 0xffff;
        i32 value = i32(word % Q) - CENTRE, high = (value + 64) >> 7;
        if (word < REJECTED) {
            column.low[at] = i8(value - 128 * high);
            column.high[at] = i8(high);
            at++;
        }
    }
    return filled + total;
}

// Writes the first `count` values at hand, a multiple of 16, to `out`, half the lanes low bytes and half high bytes,
// and moves up to 15 values behind them to the front.
DEVICE void flush(const Column &column, u32 count, i8 *out, u64 plane_bytes) {
    u32 lane = lane_id() % (WAVE / 2);
    i8 *values = lane_id() < WAVE / 2 ? column.low : column.high;
    if (lane_id() >= WAVE / 2) out += plane_bytes;
    for (u32 at = 16 * lane; at < count; at += 16 * (WAVE / 2)) {
        *reinterpret_cast<Words4 *>(out + at) = *reinterpret_cast<const Words4 *>(values + at);
    }
    // At most AT_HAND − 16 values are written where any are left.
    i8 left = lane < 16 && count + 16 <= AT_HAND ? values[count + lane] : i8(0);
    sync_wave();
    if (lane < 16) values[lane] = left;
    sync_wave();
}

extern "C" KERNEL(EXPAND_THREADS) void expand_columns(ExpandArgs args) {
    SHARED u32 tables[TABLE_WORDS];
    SHARED u32 keys[WAVES * ROUND_KEY_WORDS];
    SHARED i8 low[WAVES * AT_HAND];
    SHARED i8 high[WAVES * AT_HAND];
    fill_table(tables, EXPAND_THREADS);
    sync_block();
    const u32 *table = own_table(tables);

    u32 wave = wave_id();
    Column column = {keys + wave * ROUND_KEY_WORDS, low + wave * AT_HAND, high + wave * AT_HAND};
    u64 tasks = args.count * args.columns;
    for (u64 task = u64(block_id()) * WAVES + wave; task < tasks; task += u64(grid_blocks()) * WAVES) {
        const u32 *stream = args.streams + task * STREAM_WORDS;
        i8 *out = args.planes + task / args.columns * args.piece_bytes + task % args.columns * args.n;
        load_keys(column.keys, stream);
        u32 v[4];
        UNROLL
        for (u32 i = 0; i < 4; i++) v[i] = stream[ROUND_KEY_WORDS + i];

        // Values at hand, values written, blocks of the request drawn.
        u32 filled = 0, written = 0, first = 0, n = u32(args.n);
        while (written < n) {
            if (first == REQUEST_BLOCKS) {
                update(table, column.keys, v);
                first = 0;
            }
            u32 block[4];
            counter_block(v, first + 1 + lane_id(), block);
            table_encrypt(block, table, column.keys);
            first += WAVE;
            filled = append(column, filled, block);
            // The values are there; and all lanes have read the keys. (Shuffles and votes order no memory.)
            sync_wave();
            u32 count = (filled < n - written ? filled : n - written) / 16 * 16;
            flush(column, count, out + written, args.plane_bytes);
            written += count;
            filled -= count;
        }
    }
}
