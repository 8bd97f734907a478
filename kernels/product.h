// Arguments of the kernels of product.cpp and message.cpp. Shared with the host: the layout is C's.
//
// n is a multiple of 32 from 32 to 32768, counts are at least 1. Pointers to small rows, matrices and sums are
// multiples of 16 bytes; encoded strings may begin anywhere, and are written and read faster at multiples of 4. Any number of
// blocks gives the same result. Centre terms and partial sums tell of secret rows: the host wipes them like those.
#pragma once

#include "views.h"

// Threads of a block of every kernel here.
constexpr u32 PRODUCT_THREADS = 256;
// Columns of a matrix that one task of matrix_vector sums: it takes ceil(n / 128) splits.
constexpr u32 VECTOR_COLUMNS = 128;

// terms[i] = 6144 * (the sum of row i) mod q. One task a wave: ceil(rows / (256 / wave)) blocks are useful.
struct CentreTermsArgs {
    const i8 *small;  // secret
    i32 *terms;       // secret
    u64 rows;
    u64 n;
};

// Rows of R * A for `count` items of 256 rows each; items i * per_matrix ... belong to matrix i.
// Where `splits` is 1: out = ByteEncode14(R * A + e1 mod q), rows back to back in an item's string.
// Where it is more, for few items: each split takes its part of the sum over k, and partial sums mod q go to `partial`;
// finish_rows adds them. That costs 1024 n bytes of traffic an item and split; splits must not exceed n / 32.
// One task an item (its 256 rows), 64 columns and a split: count * ceil(n / 64) * splits, and those that a last group
// of eight items lacks.
struct ProductArgs {
    const i8 *r;              // secret: 256 * count rows
    const i8 *matrices;       // public: two planes of n * n each
    const i8 *e1;             // secret: 256 * count rows; unused where splits > 1
    const i32 *centre_terms;  // secret: of r; unused where splits > 1
    ViewMut out;              // public; unused where splits > 1
    u16 *partial;             // secret: 256 * count * splits * n; unused where splits is 1
    u64 count;
    u64 per_matrix;
    u64 n;
    u64 splits;
};

// partial[(row * splits + split) * n + column] summed over the splits, + centre_terms[row] + e[row * n + column],
// mod q, encoded: row j of item i at 7 n / 4 * j in its string. One task a row and 256 columns.
struct FinishRowsArgs {
    const u16 *partial;       // secret
    const i32 *centre_terms;  // secret
    const i8 *e;              // secret
    ViewMut out;              // public
    u64 rows;
    u64 rows_per_item;
    u64 n;
    u64 splits;               // at most 2^17
};

// Partial sums mod q of A_i * s_i without the centre's term, for finish_rows: ceil(n / 128) splits of 128 columns each.
// One task a matrix, split and 512 rows of A.
struct MatrixVectorArgs {
    const i8 *matrices;  // public
    const i8 *s;         // secret: one row a matrix
    u16 *partial;        // secret: count * splits * n
    u64 count;
    u64 n;
};

// v = ByteEncode14(<t, r_j> + e2_j + m_j * floor(q / 2) mod q) for the 256 bits j of each message: 448 bytes.
// One task an item and 8 bits.
struct EncodeMessageArgs {
    View t;        // public: encoded, any 14-bit values
    const i8 *r;   // secret: 256 * count rows of n
    const i8 *e2;  // secret: count rows of 256
    View m;        // secret: 32 bytes each
    ViewMut out;   // public
    u64 count;
    u64 n;
};

// m'_j = 1 where floor(q / 4) < v_j - <s, u_j> mod q < q - floor(q / 4); c = u_0 || ... || u_255 || v, encoded, any
// 14-bit values. Ciphertexts i * per_key ... belong to row i of s. One task an item and 8 bits.
struct DecodeMessageArgs {
    const i8 *s;  // secret
    View c;       // public
    ViewMut m;    // secret: 32 bytes each
    u64 per_key;
    u64 count;
    u64 n;
};
