// The message's way into and out of v against plain integers.

#include "../../kernels/message.cpp"
#include "lwe.h"

namespace {

Random random_numbers{2};

Fenced<i8> small_rows(u64 rows, u64 n, int magnitude, bool ends) {
    Fenced<i8> small(rows * n);
    for (u64 i = 0; i < rows * n; i++) {
        const i8 end = i8(random_numbers.next() % 2 ? magnitude : -magnitude);
        small[i] = ends ? end : i8(between(random_numbers, -magnitude, magnitude));
    }
    return small;
}

// Values below 2^14, or below q, or the largest of either.
std::vector<int64_t> coefficients(u64 len, bool canonical, bool largest) {
    std::vector<int64_t> values(len);
    const int64_t end = canonical ? Q - 1 : 16383;
    for (int64_t &x : values) x = largest ? end : between(random_numbers, 0, end);
    return values;
}

void put(u8 *to, const std::vector<int64_t> &values) {
    const std::vector<uint8_t> bytes = reference::byte_encode(values);
    std::memcpy(to, bytes.data(), bytes.size());
}

struct Case {
    u64 n, count, per_key;
    int magnitude;
    // Of the small rows, and of the encoded coefficients.
    bool ends, largest, canonical;
    // Bytes between strings beyond their length, and before the first.
    u64 gap, shift;
};

void check_encode(const Case &c) {
    const u64 keys = (c.count + c.per_key - 1) / c.per_key, t_bytes = c.n * 14 / 8, t_stride = t_bytes + c.gap;
    Fenced<i8> r = small_rows(c.count * MESSAGE_BITS, c.n, c.magnitude, c.ends);
    Fenced<i8> e2 = small_rows(c.count, MESSAGE_BITS, c.magnitude, c.ends);
    for (u64 k = 0; k < c.n; k++) r[k] = i8(c.magnitude), r[c.n + k] = i8(-c.magnitude);
    Guarded<u8> t(keys * t_stride, c.shift), m(c.count * (32 + c.gap));
    std::vector<std::vector<int64_t>> values;
    for (u64 i = 0; i < keys; i++) {
        values.push_back(coefficients(c.n, c.canonical, c.largest));
        put(t.data() + i * t_stride, values[i]);
    }
    // Two items share a message.
    for (u64 i = 0; i < c.count * (32 + c.gap); i++) m[i] = u8(random_numbers.next());
    const u64 stride = MESSAGE_BITS * 14 / 8 + c.gap;
    for (u32 blocks : {1, 5, 200}) {
        Guarded<u8> out(c.count * stride, c.shift);
        EncodeMessageArgs args = {};
        args.t = {t.data(), t_stride, t_bytes, c.per_key};
        args.m = {m.data(), 32 + c.gap, 32, 2};
        args.r = r.data(), args.e2 = e2.data(), args.out = {out.data(), stride};
        args.count = c.count, args.n = c.n;
        simt::launch(encode_message, args, blocks, PRODUCT_THREADS);
        out.verify("out"), t.verify("t"), m.verify("m");
        for (u64 i = 0; i < c.count; i++) {
            std::vector<int64_t> v(MESSAGE_BITS);
            for (u64 j = 0; j < MESSAGE_BITS; j++) {
                int64_t sum = e2[i * MESSAGE_BITS + j] + (m[i / 2 * (32 + c.gap) + j / 8] >> (j % 8) & 1) * (Q / 2);
                for (u64 k = 0; k < c.n; k++) sum += values[i / c.per_key][k] * r[(i * MESSAGE_BITS + j) * c.n + k];
                v[j] = reference::mod_q(sum);
            }
            const std::vector<uint8_t> expected = reference::byte_encode(v);
            CHECK(std::memcmp(out.data() + i * stride, expected.data(), expected.size()) == 0);
            for (u64 j = expected.size(); j < stride; j++) CHECK(out[i * stride + j] == UNTOUCHED);
        }
    }
}

void check_decode(const Case &c, u64 repeat) {
    const u64 keys = (c.count + c.per_key - 1) / c.per_key, strings = (c.count + repeat - 1) / repeat;
    const u64 row_bytes = c.n * 14 / 8, c_stride = MESSAGE_BITS * row_bytes + 448 + c.gap;
    Fenced<i8> s = small_rows(keys, c.n, c.magnitude, c.ends);
    for (u64 k = 0; k < c.n; k++) s[k] = i8(c.magnitude);
    Guarded<u8> ciphertexts(strings * c_stride, c.shift);
    std::vector<int64_t> u, v;
    for (u64 i = 0; i < strings; i++) {
        const std::vector<int64_t> rows = coefficients(MESSAGE_BITS * c.n, c.canonical, c.largest);
        std::vector<int64_t> last = coefficients(MESSAGE_BITS, c.canonical, false);
        // Around both limits: mu = v - <s, u> is chosen.
        for (u64 j = 0; j < MESSAGE_BITS && repeat == 1; j += 2) {
            int64_t product = 0;
            for (u64 k = 0; k < c.n; k++) product += rows[j * c.n + k] * s[i / c.per_key * c.n + k];
            const int64_t mu[] = {0, Q / 4 - 1, Q / 4, Q / 4 + 1, Q - Q / 4 - 1, Q - Q / 4, Q - Q / 4 + 1, Q - 1};
            last[j] = reference::mod_q(mu[j / 2 % 8] + product);
        }
        put(ciphertexts.data() + i * c_stride, rows);
        put(ciphertexts.data() + i * c_stride + MESSAGE_BITS * row_bytes, last);
        u.insert(u.end(), rows.begin(), rows.end());
        v.insert(v.end(), last.begin(), last.end());
    }
    const u64 stride = 32 + c.gap;
    for (u32 blocks : {1, 5, 200}) {
        Guarded<u8> m(c.count * stride, c.shift);
        DecodeMessageArgs args = {};
        args.c = {ciphertexts.data(), c_stride, c_stride - c.gap, repeat};
        args.s = s.data(), args.m = {m.data(), stride};
        args.per_key = c.per_key, args.count = c.count, args.n = c.n;
        simt::launch(decode_message, args, blocks, PRODUCT_THREADS);
        m.verify("m"), ciphertexts.verify("ciphertexts");
        for (u64 i = 0; i < c.count; i++) {
            for (u64 j = 0; j < MESSAGE_BITS; j++) {
                int64_t mu = v[i / repeat * MESSAGE_BITS + j];
                for (u64 k = 0; k < c.n; k++) {
                    mu -= u[(i / repeat * MESSAGE_BITS + j) * c.n + k] * s[i / c.per_key * c.n + k];
                }
                mu = reference::mod_q(mu);
                CHECK((m[i * stride + j / 8] >> (j % 8) & 1) == (Q / 4 < mu && mu < Q - Q / 4));
            }
            for (u64 j = 32; j < stride; j++) CHECK(m[i * stride + j] == UNTOUCHED);
        }
    }
}

void check_bits() {
    for (i32 mu = 0; mu < Q; mu++) CHECK(decode_bit(mu) == (Q / 4 < mu && mu < Q - Q / 4));
}

}  // namespace

int main(int argc, char **argv) {
    set_order(argc, argv);
    check_bits();
    const Case cases[] = {
        // n, items, per key, magnitude, ends, largest, canonical, gap, shift
        {32, 1, 1, 4, false, false, true, 0, 0},
        {96, 5, 2, 4, false, false, true, 32, 0},
        {288, 3, 3, 127, false, false, false, 7, 1},
        {544, 2, 1, 127, true, true, false, 0, 2},
        {1056, 1, 4, 3, true, true, true, 4, 4},
        {64, 9, 4, 3, false, false, false, 448, 3},
    };
    for (const Case &c : cases) {
        check_encode(c);
        check_decode(c, 1);
        check_decode(c, 2);
    }
    // The largest sums that there are.
    const Case largest = {32768, 1, 1, 127, true, true, false, 0, 0};
    check_encode(largest);
    check_decode(largest, 1);
}
