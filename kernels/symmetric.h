// Arguments of the symmetric kernels (symmetric.cpp, expand.cpp). Shared with the host: the layout is C's.
//
// Each kernel loops over its tasks, so that any number of blocks gives the same result. Buffers must not overlap unless
// a kernel says so. Devices run out of threads before they run out of tasks: where one thread does a task, blocks are
// small so that few tasks spread over many units.
#pragma once

#include "views.h"

// Threads of a block.
constexpr u32 HASH_THREADS = 64;
constexpr u32 KEYS_THREADS = 64;
constexpr u32 SAMPLE_THREADS = 128;
constexpr u32 EXPAND_THREADS = TABLE_BLOCK_THREADS;
constexpr u32 BYTES_THREADS = 256;

// hash_256 and hash_512: out[i] = sponge of parts[0][i] ‖ parts[1][i] ‖ parts[2][i]; a part that is not there has
// length 0. Messages are shorter than 2³² bytes. Task: one item. Everything secret but the lengths.
//
// hash_256 has rate 136 and writes 32 bytes: SHA3-256 with suffix 6. With suffix 4 and the parts
// bytepad(encode_string("ParallelHash") ‖ encode_string(S), 136) ‖ left_encode(B), leaves,
// right_encode(blocks) ‖ right_encode(256), it is the root of ParallelHash256 (SP 800-185).
// hash_512 has rate 72 and writes 64 bytes: SHA3-512 with suffix 6.
// Per item: length / rate + 1 permutations, one after the other.
struct HashArgs {
    View parts[3];
    ViewMut out;
    u64 count;
    // Domain bits and the first bit of the padding.
    u64 suffix;
};

// parallel_hash_leaves: 64 bytes of SHAKE256 of each block of input[i]; the last block may be short. The leaves of item
// i lie back to back from leaves + i·blocks·64 on, a multiple of 8 bytes. Blocks are shorter than 2³² bytes. Task: one
// block. Public. Per block: block_bytes / 136 + 1 permutations; reads the input once.
struct LeavesArgs {
    View input;
    u8 *leaves;
    u64 count;
    u64 block_bytes;
    // Per item: ⌈len / block_bytes⌉.
    u64 blocks;
};

// stream_seeds: entropy inputs of Stream(seeds[i], tag, first + j) for i below `count` and j below `per_seed`: 48 bytes
// each, at out + (i·per_seed + j)·48, a multiple of 8 bytes. Seeds have 32 bytes. Task: one stream. Secret: seeds and
// entropy inputs. Per stream: 1 permutation, 48 bytes.
struct SeedsArgs {
    View seeds;
    u8 *out;
    u64 count;
    u64 per_seed;
    u64 first;
    u64 tag;
};

// stream_keys and stream_keys_sliced: what instantiation makes of `count` entropy inputs of 48 bytes each. Task: one
// stream. Secret: everything; no address depends on it.
//
// stream_keys writes STREAM_WORDS words a stream: round keys, then V, for `expand_columns`.
// stream_keys_sliced writes SLICED_STREAM_WORDS words: sliced round keys, then V, for `sample_…`.
// `entropy` is a multiple of 8 bytes, `out` of 16. Per stream: 13 S-boxes of four bytes, and 256 or 1936 bytes written.
struct KeysArgs {
    const u8 *entropy;
    u32 *out;
    u64 count;
};
constexpr u32 STREAM_WORDS = 64;
constexpr u32 SLICED_STREAM_WORDS = 484;

// sample_table and sample_cbd3: row i of `out`, n signed bytes, from stream i of `streams` (of stream_keys_sliced), for
// i below `rows`. A row takes one request: n ≤ 32768 for sample_table, n ≤ 65536 for sample_cbd3. Task: eight blocks of
// a stream. Secret: streams and rows; no address depends on them.
// Per row: n/8 AES blocks (sample_cbd3: n/16), the keys read by every task from cache, n bytes written. Bound by logic
// instructions: on sm_90 about 64 a round and block, 1,050 a block with everything around (and 2.3 a word and threshold).
struct SampleArgs {
    const u32 *streams;
    i8 *out;
    u64 rows;
    u64 n;
    // For sample_table: public, strictly ascending, at most 127.
    const u16 *thresholds;
    u64 threshold_count;
};

// expand_columns: columns of matrices from streams of stream_keys. Column t of `count`·`columns`, from stream t, is
// column t mod `columns` of piece t / `columns`: n values of uniform(…), centred and split, low bytes at planes +
// piece·piece_bytes + column·n and high bytes plane_bytes further. A whole matrix: columns = n, plane_bytes = n²,
// piece_bytes = 2·n². n is a multiple of 32, planes and all sizes are multiples of 16 bytes. Task: one column, by one
// wave. Public: everything.
// Per column: n/7.5 AES blocks and what the last step draws beyond n, up to a wave's blocks; 2·n bytes written. Bound
// by instructions: on sm_90 about 90 a round and block, 1,700 a block with everything around, of which 224 fetch a word
// from shared memory, without bank conflicts.
struct ExpandArgs {
    const u32 *streams;
    i8 *planes;
    u64 count;
    u64 columns;
    u64 n;
    u64 plane_bytes;
    u64 piece_bytes;
};

// copy_bytes: out[i] = input[i]. Task: 16 bytes. No address depends on the bytes. Reads and writes each byte once.
struct CopyArgs {
    View input;
    ViewMut out;
    u64 count;
};

// compare_bytes: ORs a nonzero word into differences[i] where a[i] and b[i] differ; the host zeroes `differences`
// before. a and b have equal lengths. Task: 16 bytes. Secret: a, and where and whether it differs; no address or branch
// depends on it. Reads each byte once.
struct CompareArgs {
    View a;
    View b;
    u32 *differences;
    u64 count;
};

// select_equal: out[i] = yes[i] where differences[i] is 0, else no[i]. yes and no have equal lengths. Task: one byte.
// Secret: everything but the lengths.
struct SelectArgs {
    const u32 *differences;
    View yes;
    View no;
    ViewMut out;
    u64 count;
};
