// R * A and A * s against plain integers.

#include "../../kernels/product.cpp"
#include "lwe.h"

namespace {

Random random_numbers{1};

// Small rows, whole: `low` ... `high`, or the ends only.
Fenced<i8> small_rows(u64 rows, u64 n, int low, int high, bool ends) {
    Fenced<i8> small(rows * n);
    for (u64 i = 0; i < rows * n; i++) {
        bool upper = random_numbers.next() % 2;
        small[i] = i8(ends ? (upper ? high : low) : between(random_numbers, low, high));
    }
    return small;
}

enum class Entries { Random, Zero, Largest, Ends };

std::vector<int64_t> matrix_values(u64 n, Entries kind) {
    std::vector<int64_t> values(n * n);
    for (int64_t &x : values) {
        switch (kind) {
        case Entries::Random: x = between(random_numbers, 0, Q - 1); break;
        case Entries::Zero: x = 0; break;
        case Entries::Largest: x = Q - 1; break;
        case Entries::Ends: x = random_numbers.next() % 2 * (Q - 1); break;
        }
    }
    return values;
}

struct Case {
    u64 n, count, per_matrix;
    int low, high;
    bool ends;
    Entries entries;
    // Bytes between items beyond their length, and before the first.
    u64 gap, shift;
};

void check_product(const Case &c) {
    const u64 n = c.n, rows = c.count * MESSAGE_BITS, matrices = (c.count + c.per_matrix - 1) / c.per_matrix;
    Fenced<i8> r = small_rows(rows, n, c.low, c.high, c.ends), e1 = small_rows(rows, n, c.low, c.high, c.ends);
    // A whole row of one value is the largest sum.
    for (u64 k = 0; k < n; k++) r[k] = i8(c.high), r[n + k] = i8(c.low);
    Fenced<i8> planes(matrices * 2 * n * n);
    std::vector<std::vector<int64_t>> values(matrices);
    for (u64 i = 0; i < matrices; i++) {
        values[i] = matrix_values(n, c.entries);
        reference::split(values[i], planes.data() + i * 2 * n * n);
    }
    std::vector<uint8_t> expected;
    for (u64 row = 0; row < rows; row++) {
        const std::vector<int64_t> &a = values[row / MESSAGE_BITS / c.per_matrix];
        std::vector<int64_t> u(n);
        for (u64 j = 0; j < n; j++) {
            int64_t sum = e1[row * n + j];
            for (u64 k = 0; k < n; k++) sum += int64_t(r[row * n + k]) * a[j * n + k];
            u[j] = reference::mod_q(sum);
        }
        const std::vector<uint8_t> bytes = reference::byte_encode(u);
        expected.insert(expected.end(), bytes.begin(), bytes.end());
    }
    const u64 item_bytes = MESSAGE_BITS * n * 14 / 8, stride = item_bytes + c.gap;
    const auto check = [&](Guarded<u8> &out) {
        out.verify("out");
        for (u64 i = 0; i < c.count; i++) {
            CHECK(std::memcmp(out.data() + i * stride, expected.data() + i * item_bytes, item_bytes) == 0);
            for (u64 j = item_bytes; j < stride && i + 1 < c.count; j++) {
                CHECK(out[i * stride + j] == UNTOUCHED);
            }
        }
    };

    Guarded<i32> terms(rows);
    const CentreTermsArgs terms_args = {r.data(), terms.data(), rows, n};
    for (u32 blocks : {1, 7}) {
        simt::launch(centre_terms, terms_args, blocks, PRODUCT_THREADS);
        terms.verify("terms");
        for (u64 row = 0; row < rows; row++) {
            int64_t sum = 0;
            for (u64 k = 0; k < n; k++) sum += r[row * n + k];
            CHECK(terms[row] == reference::mod_q(6144 * sum));
            if (blocks == 1) terms[row] = -1;
        }
    }

    ProductArgs args = {};
    args.r = r.data(), args.matrices = planes.data(), args.e1 = e1.data(), args.centre_terms = terms.data();
    args.count = c.count, args.per_matrix = c.per_matrix, args.n = n, args.splits = 1;
    for (u32 blocks : {1, 3, 40}) {
        Guarded<u8> out(c.count * stride - c.gap, c.shift);
        args.out = {out.data(), stride};
        simt::launch(product, args, blocks, PRODUCT_THREADS);
        check(out);
    }
    for (u64 splits : {u64(2), u64(3), n / 32}) {
        if (splits < 2 || splits > n / 32) continue;
        Guarded<u16> partial(rows * splits * n);
        args.out = {}, args.e1 = nullptr, args.centre_terms = nullptr;
        args.partial = partial.data(), args.splits = splits;
        simt::launch(product, args, 5, PRODUCT_THREADS);
        partial.verify("partial");
        for (u32 blocks : {2, 33}) {
            Guarded<u8> out(c.count * stride - c.gap, c.shift);
            const FinishRowsArgs finish = {
                partial.data(), terms.data(), e1.data(), {out.data(), stride}, rows, MESSAGE_BITS, n, splits};
            simt::launch(finish_rows, finish, blocks, PRODUCT_THREADS);
            check(out);
        }
    }
}

void check_matrix_vector(u64 n, u64 count, int magnitude, bool ends, Entries entries, u64 gap, u64 shift) {
    Fenced<i8> s = small_rows(count, n, -magnitude, magnitude, ends);
    Fenced<i8> e = small_rows(count, n, -magnitude, magnitude, ends);
    for (u64 j = 0; j < n; j++) s[j] = i8(magnitude);
    Fenced<i8> planes(count * 2 * n * n);
    std::vector<uint8_t> expected;
    for (u64 i = 0; i < count; i++) {
        const std::vector<int64_t> values = matrix_values(n, entries);
        reference::split(values, planes.data() + i * 2 * n * n);
        std::vector<int64_t> t(n);
        for (u64 k = 0; k < n; k++) {
            int64_t sum = e[i * n + k];
            for (u64 j = 0; j < n; j++) sum += values[j * n + k] * s[i * n + j];
            t[k] = reference::mod_q(sum);
        }
        const std::vector<uint8_t> bytes = reference::byte_encode(t);
        expected.insert(expected.end(), bytes.begin(), bytes.end());
    }
    const u64 splits = (n + VECTOR_COLUMNS - 1) / VECTOR_COLUMNS, len = n * 14 / 8, stride = len + gap;
    for (u32 blocks : {1, 4, 50}) {
        Guarded<i32> terms(count);
        Guarded<u16> partial(count * splits * n);
        Guarded<u8> t(count * stride - gap, shift);
        simt::launch(centre_terms, CentreTermsArgs{s.data(), terms.data(), count, n}, blocks, PRODUCT_THREADS);
        const MatrixVectorArgs args = {planes.data(), s.data(), partial.data(), count, n};
        simt::launch(matrix_vector, args, blocks, PRODUCT_THREADS);
        const FinishRowsArgs finish = {
            partial.data(), terms.data(), e.data(), {t.data(), stride}, count, 1, n, splits};
        simt::launch(finish_rows, finish, blocks, PRODUCT_THREADS);
        terms.verify("terms"), partial.verify("partial"), t.verify("t");
        for (u64 i = 0; i < count; i++) {
            CHECK(std::memcmp(t.data() + i * stride, expected.data() + i * len, len) == 0);
            for (u64 j = len; j < stride && i + 1 < count; j++) CHECK(t[i * stride + j] == UNTOUCHED);
        }
    }
}

// Runs the last task alone, as the last of as many blocks as there are tasks.
template <class Args> void launch_last(void (*kernel)(Args), const Args &args, u64 tasks) {
    simt::device.kernel = [kernel, &args] { kernel(args); };
    simt::device.blocks = u32(tasks), simt::device.block = u32(tasks - 1);
    simt::device.threads.resize(PRODUCT_THREADS);
    simt::device.waves.resize(PRODUCT_THREADS / SIMT_WAVE);
    simt::device.stacks.resize(PRODUCT_THREADS * simt::STACK_BYTES);
    std::minstd_rand random(simt::device.order + 1);
    simt::run_block(PRODUCT_THREADS, random);
}

// The last tasks at the largest n and of three matrices: offsets beyond 2^32.
void check_large() {
    constexpr u64 n = 32768, splits = n / 32, per_matrix = 200, matrices = 3, count = matrices * per_matrix;
    i8 *planes = sparse<i8>(matrices * 2 * n * n);
    i8 *r = sparse<i8>(count * 256 * n);
    u16 *partial = sparse<u16>(count * 256 * splits * n);
    i8 *last = planes + (matrices - 1) * 2 * n * n;
    for (u64 j = n - 64; j < n; j++) {
        for (u64 k = n - 32; k < n; k++) {
            last[j * n + k] = i8(between(random_numbers, -64, 63));
            last[n * n + j * n + k] = i8(between(random_numbers, -48, 48));
        }
    }
    const u64 first_row = (count - 1) * 256;
    for (u64 row = first_row; row < count * 256; row++) {
        for (u64 k = n - 32; k < n; k++) r[row * n + k] = i8(between(random_numbers, -127, 127));
    }
    ProductArgs args = {};
    args.r = r, args.matrices = planes, args.partial = partial;
    args.count = count, args.per_matrix = per_matrix, args.n = n, args.splits = splits;
    launch_last(product, args, matrices * n / 64 * splits * per_matrix);
    for (u64 row = first_row; row < count * 256; row++) {
        for (u64 j = n - 64; j < n; j++) {
            int64_t sum = 0;
            for (u64 k = n - 32; k < n; k++) sum += r[row * n + k] * (128 * last[n * n + j * n + k] + last[j * n + k]);
            CHECK(partial[(row * splits + splits - 1) * n + j] == reference::mod_q(sum));
        }
    }

    i8 *s = sparse<i8>(matrices * n);
    for (u64 j = n - 128; j < n; j++) s[(matrices - 1) * n + j] = i8(between(random_numbers, -127, 127));
    u16 *sums = sparse<u16>(matrices * (n / 128) * n);
    launch_last(matrix_vector, MatrixVectorArgs{planes, s, sums, matrices, n}, matrices * (n / 128) * (n / 512));
    for (u64 k = n - 512; k < n; k++) {
        int64_t sum = 0;
        for (u64 j = n - 128; j < n; j++) {
            sum += s[(matrices - 1) * n + j] * (128 * last[n * n + j * n + k] + last[j * n + k]);
        }
        CHECK(sums[(matrices * (n / 128) - 1) * n + k] == reference::mod_q(sum));
    }
    munmap(planes, matrices * 2 * n * n);
    munmap(r, count * 256 * n);
    munmap(partial, count * 256 * splits * n * sizeof(u16));
    munmap(s, matrices * n);
    munmap(sums, matrices * (n / 128) * n * sizeof(u16));
}

void check_arithmetic() {
    const auto check = [](int64_t x) {
        if (x >= INT32_MIN && x <= INT32_MAX) CHECK(reduce(i32(x)) == reference::mod_q(x));
    };
    for (int64_t k = -174749; k <= 174749; k++) {
        for (int64_t x = k * Q - 1; x <= k * Q + 1; x++) check(x);
    }
    for (int64_t x : {int64_t(INT32_MIN), int64_t(INT32_MIN) + 1, int64_t(INT32_MAX) - 1, int64_t(INT32_MAX)}) check(x);
    constexpr int64_t LARGEST = int64_t(32768) * 128 * 128;
    for (int i = 0; i < 100000; i++) {
        int64_t low = between(random_numbers, -LARGEST, LARGEST), high = between(random_numbers, -LARGEST, LARGEST);
        if (i < 9) low = (i % 3 - 1) * LARGEST, high = (i / 3 - 1) * LARGEST;
        CHECK(combine(i32(low), i32(high)) == reference::mod_q(128 * high + low));
        CHECK(centre_term(i32(low)) == reference::mod_q(6144 * low));
        check(low);
    }
    for (int i = 0; i < 1000; i++) {
        std::vector<int64_t> x(4);
        for (int64_t &value : x) value = between(random_numbers, 0, 16383);
        u8 bytes[GROUP_BYTES];
        const u64 packed = pack4(i32(x[0]), i32(x[1]), i32(x[2]), i32(x[3]));
        store_group(bytes, packed);
        CHECK(std::memcmp(bytes, reference::byte_encode(x).data(), GROUP_BYTES) == 0);
        const Halves halves = split_group(packed | random_numbers.next() << 56);
        for (u32 j = 0; j < 4; j++) {
            CHECK(signed_byte(halves.low, j) == x[j] % 128 && signed_byte(halves.high, j) == x[j] / 128);
        }
    }
}

}  // namespace

int main(int argc, char **argv) {
    set_order(argc, argv);
    check_arithmetic();
    const Case cases[] = {
        // n, items, per matrix, smallest, largest, ends only, entries, gap, shift
        {32, 1, 1, -4, 4, false, Entries::Random, 0, 0},
        {64, 3, 1, -4, 4, false, Entries::Random, 448, 0},
        {96, 3, 2, -4, 4, false, Entries::Random, 3, 1},
        {32, 19, 9, -4, 4, false, Entries::Random, 448, 0},
        {160, 1, 8, -4, 4, true, Entries::Zero, 0, 0},
        {160, 1, 1, -4, 4, true, Entries::Largest, 0, 2},
        {96, 1, 1, -127, 127, true, Entries::Ends, 0, 4},
        {288, 1, 1, -128, 127, false, Entries::Random, 0, 0},
        {544, 1, 1, -127, 127, true, Entries::Largest, 0, 0},
    };
    for (const Case &c : cases) check_product(c);
    check_matrix_vector(32, 1, 3, false, Entries::Random, 0, 0);
    check_matrix_vector(96, 3, 3, false, Entries::Random, 32, 0);
    check_matrix_vector(288, 2, 127, true, Entries::Ends, 5, 3);
    check_matrix_vector(544, 1, 127, true, Entries::Largest, 0, 0);
    check_matrix_vector(1056, 1, 4, true, Entries::Zero, 0, 0);
    check_large();
}
