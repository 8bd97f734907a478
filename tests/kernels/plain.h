// Plain references: Keccak and AES byte by byte from their definitions, the CTR_DRBG, the streams of LWE-KEM.
#pragma once

#include <array>
#include <functional>

#include "test.h"

namespace plain {

using Bytes = std::vector<u8>;

inline Bytes join(std::initializer_list<Bytes> parts) {
    Bytes out;
    for (const Bytes &part : parts) out.insert(out.end(), part.begin(), part.end());
    return out;
}

// ---- Keccak (FIPS 202).

// rc(t) (Algorithm 5).
inline bool round_bit(unsigned t) {
    unsigned r = 1;
    for (unsigned i = 0; i < t % 255; i++) {
        r <<= 1;
        if (r & 0x100) r ^= 0x171;
    }
    return r & 1;
}

inline u64 rotl(u64 x, unsigned n) { return n % 64 == 0 ? x : x << n % 64 | x >> (64 - n % 64); }

inline void keccak_f(u64 (&a)[5][5]) {
    for (unsigned round = 0; round < 24; round++) {
        u64 c[5], b[5][5];
        for (int x = 0; x < 5; x++) c[x] = a[x][0] ^ a[x][1] ^ a[x][2] ^ a[x][3] ^ a[x][4];
        for (int x = 0; x < 5; x++) {
            for (int y = 0; y < 5; y++) a[x][y] ^= c[(x + 4) % 5] ^ rotl(c[(x + 1) % 5], 1);
        }
        // ρ (Algorithm 2).
        b[0][0] = a[0][0];
        for (int t = 0, x = 1, y = 0; t < 24; t++) {
            b[x][y] = rotl(a[x][y], unsigned((t + 1) * (t + 2) / 2));
            int next = (2 * x + 3 * y) % 5;
            x = y;
            y = next;
        }
        // π and χ (Algorithms 3 and 4).
        auto moved = [&](int x, int y) { return b[(x + 3 * y) % 5][x % 5]; };
        for (int x = 0; x < 5; x++) {
            for (int y = 0; y < 5; y++) a[x][y] = moved(x, y) ^ (~moved((x + 1) % 5, y) & moved((x + 2) % 5, y));
        }
        for (unsigned j = 0; j <= 6; j++) a[0][0] ^= u64(round_bit(j + 7 * round)) << ((1u << j) - 1);
    }
}

inline Bytes sponge(const Bytes &message, size_t rate, u8 suffix, size_t out_len) {
    Bytes padded = message;
    padded.push_back(suffix);
    while (padded.size() % rate != 0) padded.push_back(0);
    padded.back() |= 0x80;
    u64 a[5][5] = {};
    auto byte_at = [](size_t i) { return std::pair<size_t, size_t>(i / 8 % 5, i / 40); };
    for (size_t at = 0; at < padded.size(); at += rate) {
        for (size_t i = 0; i < rate; i++) {
            auto [x, y] = byte_at(i);
            a[x][y] ^= u64(padded[at + i]) << i % 8 * 8;
        }
        keccak_f(a);
    }
    Bytes out;
    while (out.size() < out_len) {
        for (size_t i = 0; i < rate && out.size() < out_len; i++) {
            auto [x, y] = byte_at(i);
            out.push_back(u8(a[x][y] >> i % 8 * 8));
        }
        if (out.size() < out_len) keccak_f(a);
    }
    return out;
}

inline Bytes sha3_256(const Bytes &message) { return sponge(message, 136, 6, 32); }
inline Bytes sha3_512(const Bytes &message) { return sponge(message, 72, 6, 64); }
inline Bytes shake256(const Bytes &message, size_t len) { return sponge(message, 136, 0x1f, len); }

// ---- ParallelHash256 (SP 800-185).

inline Bytes big_endian(u64 x) {
    Bytes out;
    for (int shift = 56; shift >= 0; shift -= 8) {
        if (x >> shift != 0 || shift == 0) out.push_back(u8(x >> shift));
    }
    return out;
}
inline Bytes left_encode(u64 x) { return join({{u8(big_endian(x).size())}, big_endian(x)}); }
inline Bytes right_encode(u64 x) { return join({big_endian(x), {u8(big_endian(x).size())}}); }
inline Bytes encode_string(const Bytes &s) { return join({left_encode(8 * s.size()), s}); }
inline Bytes bytepad(Bytes x, size_t width) {
    x = join({left_encode(width), x});
    while (x.size() % width != 0) x.push_back(0);
    return x;
}
inline Bytes ascii(const std::string &text) { return Bytes(text.begin(), text.end()); }

// What comes before and after the leaves in the root's message.
inline Bytes root_head(u64 block_bytes, const Bytes &customization) {
    Bytes prefix = join({encode_string(ascii("ParallelHash")), encode_string(customization)});
    return join({bytepad(prefix, 136), left_encode(block_bytes)});
}
inline Bytes root_tail(u64 blocks) { return join({right_encode(blocks), right_encode(256)}); }

inline Bytes parallel_hash256(const Bytes &data, u64 block_bytes, const Bytes &customization) {
    Bytes message = root_head(block_bytes, customization);
    u64 blocks = 0;
    for (size_t at = 0; at < data.size(); at += block_bytes, blocks++) {
        size_t end = std::min<size_t>(at + block_bytes, data.size());
        message = join({message, shake256(Bytes(data.begin() + long(at), data.begin() + long(end)), 64)});
    }
    return sponge(join({message, root_tail(blocks)}), 136, 4, 32);
}

// ---- AES-256 (FIPS 197), byte by byte.

inline u8 multiply(u8 a, u8 b) {
    u8 product = 0;
    for (; b != 0; b >>= 1) {
        if (b & 1) product ^= a;
        a = u8(a << 1 ^ (a >> 7) * 0x1b);
    }
    return product;
}

inline u8 sub(u8 x) {
    static const std::array<u8, 256> table = [] {
        std::array<u8, 256> all{};
        for (unsigned x = 0; x < 256; x++) {
            u8 inverse = 0;
            for (unsigned y = 0; y < 256; y++) {
                if (multiply(u8(x), u8(y)) == 1) inverse = u8(y);
            }
            u8 s = 0x63;
            for (unsigned n = 0; n < 5; n++) s ^= u8(inverse << n | inverse >> (8 - n));
            all[x] = s;
        }
        return all;
    }();
    return table[x];
}

using Block = std::array<u8, 16>;

struct Aes {
    u8 keys[15][16];

    explicit Aes(const u8 *key) {
        u8 *w = keys[0];
        std::memcpy(w, key, 32);
        u8 constant = 1;
        for (size_t i = 8; i < 60; i++) {
            u8 t[4];
            std::memcpy(t, w + 4 * (i - 1), 4);
            if (i % 8 == 0) {
                u8 first = t[0];
                for (int k = 0; k < 4; k++) t[k] = sub(k < 3 ? t[k + 1] : first);
                t[0] ^= constant;
                constant = multiply(constant, 2);
            } else if (i % 8 == 4) {
                for (u8 &byte : t) byte = sub(byte);
            }
            for (size_t k = 0; k < 4; k++) w[4 * i + k] = w[4 * (i - 8) + k] ^ t[k];
        }
    }

    Block encrypt(Block x) const {
        for (int i = 0; i < 16; i++) x[i] ^= keys[0][i];
        for (int round = 1; round <= 14; round++) {
            Block y;
            for (int c = 0; c < 4; c++) {
                for (int r = 0; r < 4; r++) y[4 * c + r] = sub(x[4 * ((c + r) % 4) + r]);
            }
            for (int c = 0; c < 4; c++) {
                for (int r = 0; r < 4; r++) {
                    u8 *s = &y[4 * c];
                    x[4 * c + r] = round == 14 ? s[r]
                                               : multiply(s[r], 2) ^ multiply(s[(r + 1) % 4], 3) ^ s[(r + 2) % 4] ^
                                                     s[(r + 3) % 4];
                }
            }
            for (int i = 0; i < 16; i++) x[i] ^= keys[round][i];
        }
        return x;
    }
};

inline void increment(u8 *v) {
    for (int i = 15; i >= 0; i--) {
        if (++v[i] != 0) break;
    }
}

// `count` blocks of AES-256 under `key` of the counters after `v`.
inline Bytes counter_blocks(const u8 *key, const u8 *v, size_t count) {
    Aes aes(key);
    Block counter;
    std::memcpy(counter.data(), v, 16);
    Bytes out;
    for (size_t i = 0; i < count; i++) {
        increment(counter.data());
        Block block = aes.encrypt(counter);
        out.insert(out.end(), block.begin(), block.end());
    }
    return out;
}

// ---- CTR_DRBG (SP 800-90A) with AES-256 without derivation function, over any way to compute counter blocks.

using CounterBlocks = std::function<Bytes(const u8 *key, const u8 *v, size_t count)>;

struct CtrDrbg {
    CounterBlocks blocks;
    Bytes key = Bytes(32), v = Bytes(16);

    void update(Bytes provided) {
        provided.resize(48);
        Bytes next = blocks(key.data(), v.data(), 3);
        for (size_t i = 0; i < 48; i++) next[i] ^= provided[i];
        key.assign(next.begin(), next.begin() + 32);
        v.assign(next.begin() + 32, next.end());
    }
    void seed(Bytes entropy, Bytes more) {
        more.resize(48);
        for (size_t i = 0; i < 48; i++) entropy[i] ^= more[i];
        update(entropy);
    }
    Bytes generate(size_t len, const Bytes &additional) {
        if (!additional.empty()) update(additional);
        size_t count = (len + 15) / 16;
        Bytes out = blocks(key.data(), v.data(), count);
        for (size_t i = 0; i < count; i++) increment(v.data());
        out.resize(len);
        update(additional);
        return out;
    }
};

// The first `len` bytes of the stream that starts from `entropy`, or of Stream(seed, tag, index).
inline Bytes stream(const Bytes &entropy, size_t len) {
    CtrDrbg drbg{counter_blocks};
    drbg.seed(entropy, {});
    Bytes out;
    while (out.size() < len) {
        Bytes request = drbg.generate(65536, {});
        out.insert(out.end(), request.begin(), request.end());
    }
    out.resize(len);
    return out;
}
inline Bytes entropy(const Bytes &seed, u8 tag, u32 index) {
    return shake256(join({seed, {tag, u8(index), u8(index >> 8), u8(index >> 16), u8(index >> 24)}}), 48);
}

}  // namespace plain
