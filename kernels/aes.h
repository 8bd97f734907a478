// AES-256 (FIPS 197) in two forms: bitsliced, for secrets, and by tables in shared memory, for the public matrix.
//
// Words are little-endian: the first byte of a block lies in the low bits of its first word. Round keys: 60 words.
#pragma once

#include "platform.h"

constexpr u32 ROUNDS = 14;
constexpr u32 ROUND_KEY_WORDS = 4 * (ROUNDS + 1);

DEVICE u32 rotate_right(u32 x, u32 n) { return x >> n | x << (32 - n); }

// ---- Bitsliced.

// The S-box without its constant: SubBytes(x) ^ 0x63, on the eight bits of as many bytes as a word has bits. b[0] is
// the lowest bit. The circuit is the one published by Boyar and Peralta, "A depth-16 circuit for the AES S-box" (2011):
// a linear layer, inversion in a tower of fields, and another linear layer.
DEVICE void sliced_sbox(u32 (&b)[8]) {
    u32 u0 = b[7], u1 = b[6], u2 = b[5], u3 = b[4], u4 = b[3], u5 = b[2], u6 = b[1], u7 = b[0];
    u32 t1 = u0 ^ u3, t2 = u0 ^ u5, t3 = u0 ^ u6, t4 = u3 ^ u5, t5 = u4 ^ u6, t6 = t1 ^ t5, t7 = u1 ^ u2;
    u32 t8 = u7 ^ t6, t9 = u7 ^ t7, t10 = t6 ^ t7, t11 = u1 ^ u5, t12 = u2 ^ u5, t13 = t3 ^ t4, t14 = t6 ^ t11;
    u32 t15 = t5 ^ t11, t16 = t5 ^ t12, t17 = t9 ^ t16, t18 = u3 ^ u7, t19 = t7 ^ t18, t20 = t1 ^ t19;
    u32 t21 = u6 ^ u7, t22 = t7 ^ t21, t23 = t2 ^ t22, t24 = t2 ^ t10, t25 = t20 ^ t17, t26 = t3 ^ t16;
    u32 t27 = t1 ^ t12;

    u32 m1 = t13 & t6, m6 = t3 & t16, m11 = t1 & t15;
    u32 m20 = t14 ^ m1 ^ (t23 & t8) ^ (t4 & t27) ^ m11;
    u32 m21 = (t19 & u7) ^ m1 ^ t24 ^ (t2 & t10) ^ m11;
    u32 m22 = t26 ^ m6 ^ (t22 & t9) ^ (t4 & t27) ^ m11;
    u32 m23 = (t20 & t17) ^ m6 ^ (t2 & t10) ^ m11 ^ t25;
    u32 m24 = m22 ^ m23, m25 = m22 & m20, m26 = m21 ^ m25, m27 = m20 ^ m21, m28 = m23 ^ m25;
    u32 m37 = m21 ^ (m28 & m27), m38 = (m27 & m20 & m23) ^ m27 ^ m25;
    u32 m39 = m23 ^ (m26 & m24), m40 = (m24 & m21 & m22) ^ m24 ^ m25;
    u32 m41 = m38 ^ m40, m42 = m37 ^ m39, m43 = m37 ^ m38, m44 = m39 ^ m40, m45 = m42 ^ m41;
    u32 m46 = m44 & t6, m47 = m40 & t8, m48 = m39 & u7, m49 = m43 & t16, m50 = m38 & t9, m51 = m37 & t17;
    u32 m52 = m42 & t15, m53 = m45 & t27, m54 = m41 & t10, m55 = m44 & t13, m56 = m40 & t23, m57 = m39 & t19;
    u32 m58 = m43 & t3, m59 = m38 & t22, m60 = m37 & t20, m61 = m42 & t1, m62 = m45 & t4, m63 = m41 & t2;

    u32 l0 = m61 ^ m62, l1 = m50 ^ m56, l2 = m46 ^ m48, l3 = m47 ^ m55, l4 = m54 ^ m58, l5 = m49 ^ m61;
    u32 l6 = m62 ^ l5, l7 = m46 ^ l3, l8 = m51 ^ m59, l9 = m52 ^ m53, l10 = m53 ^ l4, l11 = m60 ^ l2;
    b[7] = l6 ^ m55 ^ l1 ^ l9;
    b[6] = m56 ^ l0 ^ l7 ^ l9;
    b[5] = m63 ^ l4 ^ l11 ^ m52 ^ m61;
    b[4] = l6 ^ l1 ^ l7;
    b[3] = l0 ^ l1 ^ l3 ^ m48 ^ m51;
    b[2] = l6 ^ l10 ^ l11 ^ m57 ^ l1;
    b[1] = m50 ^ l0 ^ l8 ^ l10;
    b[0] = l6 ^ m58 ^ l8 ^ l2;
}

// SubWord of the key schedule, without an address that depends on x.
DEVICE u32 sliced_sub_word(u32 x) {
    u32 b[8];
    UNROLL
    for (u32 i = 0; i < 8; i++) b[i] = x >> i & 0x01010101;
    sliced_sbox(b);
    u32 y = 0x63636363;
    UNROLL
    for (u32 i = 0; i < 8; i++) y ^= (b[i] & 0x01010101) << i;
    return y;
}

// Bits of `mask` in b change places with those `n` higher in a.
DEVICE void swap_bits(u32 &a, u32 &b, u32 mask, u32 n) {
    u32 t = (a >> n ^ b) & mask;
    b ^= t;
    a ^= t << n;
}

// Byte j of w[i] changes places with byte i of w[j].
DEVICE void transpose_bytes(u32 &w0, u32 &w1, u32 &w2, u32 &w3) {
    swap_bits(w0, w1, 0x00ff00ff, 8);
    swap_bits(w2, w3, 0x00ff00ff, 8);
    swap_bits(w0, w2, 0x0000ffff, 16);
    swap_bits(w1, w3, 0x0000ffff, 16);
}

// In each byte, bit j of w[i] changes places with bit i of w[j].
DEVICE void transpose_bits(u32 (&w)[8]) {
    UNROLL
    for (u32 i = 0; i < 8; i += 2) swap_bits(w[i], w[i + 1], 0x55555555, 1);
    UNROLL
    for (u32 i = 0; i < 8; i++) {
        if (i % 4 < 2) swap_bits(w[i], w[i + 2], 0x33333333, 2);
    }
    UNROLL
    for (u32 i = 0; i < 4; i++) swap_bits(w[i], w[i + 4], 0x0f0f0f0f, 4);
}

// Eight blocks: bit 8·c + k of s[r][b] is bit b of byte 4·c + r of block k. ShiftRows rotates words, MixColumns adds
// words, and the state takes 32 registers.
constexpr u32 SLICED_BLOCKS = 8;
using Sliced = u32[4][8];

// From blocks to slices: at first s[c][k] is word c of block k.
DEVICE void slice(Sliced &s) {
    UNROLL
    for (u32 k = 0; k < 8; k++) transpose_bytes(s[0][k], s[1][k], s[2][k], s[3][k]);
    UNROLL
    for (u32 r = 0; r < 4; r++) transpose_bits(s[r]);
}

// The inverse of slice.
DEVICE void unslice(Sliced &s) {
    UNROLL
    for (u32 r = 0; r < 4; r++) transpose_bits(s[r]);
    UNROLL
    for (u32 k = 0; k < 8; k++) transpose_bytes(s[0][k], s[1][k], s[2][k], s[3][k]);
}

// Words of round keys that are sliced alike for eight equal blocks: 32 a round.
constexpr u32 SLICED_KEY_WORDS = 32 * (ROUNDS + 1);

// Slices the round key `w0 … w3` of `round` into out[0 … 31]. From the second on they hold the S-box's constant, which
// ShiftRows and MixColumns do not change.
DEVICE void slice_round_key(u32 round, u32 w0, u32 w1, u32 w2, u32 w3, u32 *out) {
    u32 w[4] = {w0, w1, w2, w3};
    transpose_bytes(w[0], w[1], w[2], w[3]);
    UNROLL
    for (u32 r = 0; r < 4; r++) {
        u32 row = round == 0 ? w[r] : w[r] ^ 0x63636363;
        UNROLL
        for (u32 b = 0; b < 8; b += 4) {
            Words4 words;
            UNROLL
            for (u32 i = 0; i < 4; i++) words.w[i] = (row >> (b + i) & 0x01010101) * 0xff;
            *reinterpret_cast<Words4 *>(out + 8 * r + b) = words;
        }
    }
}

DEVICE void sliced_add_key(Sliced &s, const u32 *key) {
    UNROLL
    for (u32 r = 0; r < 4; r++) {
        UNROLL
        for (u32 b = 0; b < 8; b += 4) {
            Words4 words = *reinterpret_cast<const Words4 *>(key + 8 * r + b);
            UNROLL
            for (u32 i = 0; i < 4; i++) s[r][b + i] ^= words.w[i];
        }
    }
}

DEVICE void sliced_sub_and_shift(Sliced &s) {
    UNROLL
    for (u32 r = 0; r < 4; r++) {
        sliced_sbox(s[r]);
        if (r == 0) continue;
        UNROLL
        for (u32 b = 0; b < 8; b++) s[r][b] = rotate_right(s[r][b], 8 * r);
    }
}

// Row r becomes 2·(row r + row r+1) + row r+1 + row r+2 + row r+3.
DEVICE void sliced_mix(Sliced &s) {
    u32 top[4], below[4] = {0, 0, 0, 0};
    UNROLL
    for (u32 r = 0; r < 4; r++) top[r] = s[r][7] ^ s[(r + 1) % 4][7];
    UNROLL
    for (u32 b = 0; b < 8; b++) {
        u32 sum[4], mixed[4];
        UNROLL
        for (u32 r = 0; r < 4; r++) sum[r] = s[r][b] ^ s[(r + 1) % 4][b];
        UNROLL
        for (u32 r = 0; r < 4; r++) {
            mixed[r] = below[r] ^ s[(r + 1) % 4][b] ^ sum[(r + 2) % 4];
            // x^8 = x^4 + x^3 + x + 1.
            if (b == 0 || b == 1 || b == 3 || b == 4) mixed[r] ^= top[r];
        }
        UNROLL
        for (u32 r = 0; r < 4; r++) {
            s[r][b] = mixed[r];
            below[r] = sum[r];
        }
    }
}

// Encrypts eight blocks. `keys`: slice_round_key of all rounds.
DEVICE void sliced_encrypt(Sliced &s, const u32 *keys) {
    sliced_add_key(s, keys);
#pragma unroll 1
    for (u32 round = 1; round < ROUNDS; round++) {
        sliced_sub_and_shift(s);
        sliced_mix(s);
        sliced_add_key(s, keys + 32 * round);
    }
    sliced_sub_and_shift(s);
    sliced_add_key(s, keys + 32 * ROUNDS);
}

// ---- The key schedule.

// Calls emit(round, w0, w1, w2, w3) with the round keys of the key `w`, in order; `sub` is SubWord.
template <class Sub, class Emit> DEVICE void expand_key(u32 (&w)[8], Sub sub, Emit emit) {
    for (u32 i = 0;; i++) {
        emit(2 * i, w[0], w[1], w[2], w[3]);
        if (i == ROUNDS / 2) break;
        emit(2 * i + 1, w[4], w[5], w[6], w[7]);
        w[0] ^= sub(rotate_right(w[7], 8)) ^ 1u << i;
        UNROLL
        for (u32 k = 1; k < 8; k++) w[k] ^= k == 4 ? sub(w[3]) : w[k - 1];
    }
}

// ---- By tables.

CONSTANT u8 SBOX[256] = {
    0x63, 0x7c, 0x77, 0x7b, 0xf2, 0x6b, 0x6f, 0xc5, 0x30, 0x01, 0x67, 0x2b, 0xfe, 0xd7, 0xab, 0x76,
    0xca, 0x82, 0xc9, 0x7d, 0xfa, 0x59, 0x47, 0xf0, 0xad, 0xd4, 0xa2, 0xaf, 0x9c, 0xa4, 0x72, 0xc0,
    0xb7, 0xfd, 0x93, 0x26, 0x36, 0x3f, 0xf7, 0xcc, 0x34, 0xa5, 0xe5, 0xf1, 0x71, 0xd8, 0x31, 0x15,
    0x04, 0xc7, 0x23, 0xc3, 0x18, 0x96, 0x05, 0x9a, 0x07, 0x12, 0x80, 0xe2, 0xeb, 0x27, 0xb2, 0x75,
    0x09, 0x83, 0x2c, 0x1a, 0x1b, 0x6e, 0x5a, 0xa0, 0x52, 0x3b, 0xd6, 0xb3, 0x29, 0xe3, 0x2f, 0x84,
    0x53, 0xd1, 0x00, 0xed, 0x20, 0xfc, 0xb1, 0x5b, 0x6a, 0xcb, 0xbe, 0x39, 0x4a, 0x4c, 0x58, 0xcf,
    0xd0, 0xef, 0xaa, 0xfb, 0x43, 0x4d, 0x33, 0x85, 0x45, 0xf9, 0x02, 0x7f, 0x50, 0x3c, 0x9f, 0xa8,
    0x51, 0xa3, 0x40, 0x8f, 0x92, 0x9d, 0x38, 0xf5, 0xbc, 0xb6, 0xda, 0x21, 0x10, 0xff, 0xf3, 0xd2,
    0xcd, 0x0c, 0x13, 0xec, 0x5f, 0x97, 0x44, 0x17, 0xc4, 0xa7, 0x7e, 0x3d, 0x64, 0x5d, 0x19, 0x73,
    0x60, 0x81, 0x4f, 0xdc, 0x22, 0x2a, 0x90, 0x88, 0x46, 0xee, 0xb8, 0x14, 0xde, 0x5e, 0x0b, 0xdb,
    0xe0, 0x32, 0x3a, 0x0a, 0x49, 0x06, 0x24, 0x5c, 0xc2, 0xd3, 0xac, 0x62, 0x91, 0x95, 0xe4, 0x79,
    0xe7, 0xc8, 0x37, 0x6d, 0x8d, 0xd5, 0x4e, 0xa9, 0x6c, 0x56, 0xf4, 0xea, 0x65, 0x7a, 0xae, 0x08,
    0xba, 0x78, 0x25, 0x2e, 0x1c, 0xa6, 0xb4, 0xc6, 0xe8, 0xdd, 0x74, 0x1f, 0x4b, 0xbd, 0x8b, 0x8a,
    0x70, 0x3e, 0xb5, 0x66, 0x48, 0x03, 0xf6, 0x0e, 0x61, 0x35, 0x57, 0xb9, 0x86, 0xc1, 0x1d, 0x9e,
    0xe1, 0xf8, 0x98, 0x11, 0x69, 0xd9, 0x8e, 0x94, 0x9b, 0x1e, 0x87, 0xe9, 0xce, 0x55, 0x28, 0xdf,
    0x8c, 0xa1, 0x89, 0x0d, 0xbf, 0xe6, 0x42, 0x68, 0x41, 0x99, 0x2d, 0x0f, 0xb0, 0x54, 0xbb, 0x16,
};

// Copies of the table of MixColumns(S-box), one for each bank of shared memory: lanes never meet in a bank.
constexpr u32 TABLE_COPIES = 32;
constexpr u32 TABLE_WORDS = 256 * TABLE_COPIES;

// Fills `table`, with all threads of the block; a barrier must follow.
DEVICE void fill_table(u32 *table, u32 block_threads) {
    for (u32 i = thread_id(); i < TABLE_WORDS; i += block_threads) {
        u32 s = SBOX[i / TABLE_COPIES];
        u32 twice = s << 1 ^ (s >> 7) * 0x11b;
        table[i] = twice | s << 8 | s << 16 | (twice ^ s) << 24;
    }
}

// The copy of the table that is this thread's.
DEVICE const u32 *own_table(const u32 *table) { return table + thread_id() % TABLE_COPIES; }

// What byte N of x gives: (2, 1, 1, 3) times its S-box. `table` is the thread's own, here and below.
template <u32 N> DEVICE u32 table_word(const u32 *table, u32 x) { return table[byte_of<N>(x) * TABLE_COPIES]; }

// The S-box of byte N of x, in its place.
template <u32 N> DEVICE u32 table_byte(const u32 *table, u32 x) {
    return (table_word<N>(table, x) >> 8 & 0xff) << 8 * N;
}

// SubWord. Public x only.
DEVICE u32 table_sub_word(const u32 *table, u32 x) {
    return table_byte<0>(table, x) | table_byte<1>(table, x) | table_byte<2>(table, x) | table_byte<3>(table, x);
}

// Encrypts a block. Public keys only. `keys`: the 60 words, at a multiple of 16 bytes.
DEVICE void table_encrypt(u32 (&x)[4], const u32 *table, const u32 *keys) {
    const Words4 *key = reinterpret_cast<const Words4 *>(keys);
    Words4 words = key[0];
    UNROLL
    for (u32 c = 0; c < 4; c++) x[c] ^= words.w[c];
    u32 y[4];
#pragma unroll 1
    for (u32 round = 1; round < ROUNDS; round++) {
        words = key[round];
        UNROLL
        for (u32 c = 0; c < 4; c++) {
            y[c] = words.w[c] ^ table_word<0>(table, x[c]) ^ rotate_right(table_word<1>(table, x[(c + 1) % 4]), 24) ^
                   rotate_right(table_word<2>(table, x[(c + 2) % 4]), 16) ^
                   rotate_right(table_word<3>(table, x[(c + 3) % 4]), 8);
        }
        UNROLL
        for (u32 c = 0; c < 4; c++) x[c] = y[c];
    }
    words = key[ROUNDS];
    UNROLL
    for (u32 c = 0; c < 4; c++) {
        y[c] = words.w[c] ^ table_byte<0>(table, x[c]) ^ table_byte<1>(table, x[(c + 1) % 4]) ^
               table_byte<2>(table, x[(c + 2) % 4]) ^ table_byte<3>(table, x[(c + 3) % 4]);
    }
    UNROLL
    for (u32 c = 0; c < 4; c++) x[c] = y[c];
}

// ---- Counters.

// The counter block V + `add`; `v` and the result are a block's words, the counter is big-endian.
DEVICE void counter_block(const u32 (&v)[4], u64 add, u32 (&block)[4]) {
    u64 high = u64(swap_bytes(v[0])) << 32 | swap_bytes(v[1]);
    u64 low = u64(swap_bytes(v[2])) << 32 | swap_bytes(v[3]);
    u64 sum = low + add;
    high += sum < low;
    block[0] = swap_bytes(u32(high >> 32));
    block[1] = swap_bytes(u32(high));
    block[2] = swap_bytes(u32(sum >> 32));
    block[3] = swap_bytes(u32(sum));
}
