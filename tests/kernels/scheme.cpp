// The whole scheme from the kernels alone, against tests/vectors/lwe_kem.json.
#include <fstream>
#include <map>

#include "aes.h"
#include "codec.h"
#include "keccak.h"
#include "plain.h"
#include "product.h"
#include "symmetric.h"

// Sources keep names of their own that others have too.
namespace kernels_expand {
#include "../../kernels/expand.cpp"
}
namespace kernels_message {
#include "../../kernels/message.cpp"
}
namespace kernels_product {
#include "../../kernels/product.cpp"
}
namespace kernels_symmetric {
#include "../../kernels/symmetric.cpp"
}

using namespace kernels_expand;
using namespace kernels_message;
using namespace kernels_product;
using namespace kernels_symmetric;
using plain::Bytes;

namespace {

const u16 CHI[] = {12547, 28389, 32360, 32752};

u64 ceil_divide(u64 a, u64 b) { return (a + b - 1) / b; }

Bytes part(Guarded<u8> &buffer, u64 at, u64 len) { return Bytes(buffer.data() + at, buffer.data() + at + len); }

// A device with kernels and buffers for `count` keys and as many ciphertexts of dimension n.
struct Device {
    u64 count, n, splits;
    u32 grid;
    u64 ek_len = 32 + n * 14 / 8, dk_len = n + ek_len + 64, c_len = 448 * n + 448, row_len = n * 14 / 8;
    u64 blocks = ceil_divide(c_len, row_len);
    View none = {nullptr, 0, 0, 1};

    Guarded<u8> rho_sigma{count * 64}, ek{count * ek_len}, dk{count * dk_len}, h_ek{count * 32}, z{count * 32};
    Guarded<i8> planes{count * 2 * n * n}, s{count * n}, e{count * n};

    void hash(bool wide, std::vector<View> parts, ViewMut out, u64 suffix = 6) {
        parts.resize(3, none);
        simt::launch(wide ? hash_512 : hash_256, HashArgs{{parts[0], parts[1], parts[2]}, out, count, suffix}, grid,
                     HASH_THREADS);
    }
    void copy(View from, u8 *to, u64 stride) {
        simt::launch(copy_bytes, CopyArgs{from, {to, stride}, count}, grid, BYTES_THREADS);
    }
    // Rows of small vectors, `per_seed` for each of `count` seeds at `seeds`.
    void sample(bool cbd3, const u8 *seeds, u8 tag, u64 per_seed, u64 len, Guarded<i8> &out) {
        u64 rows = count * per_seed;
        Guarded<u8> entropy(rows * 48);
        Guarded<u32> streams(rows * SLICED_STREAM_WORDS);
        simt::launch(stream_seeds, SeedsArgs{{seeds, 64, 32, 1}, entropy.data(), count, per_seed, 0, tag}, grid,
                     HASH_THREADS);
        simt::launch(stream_keys_sliced, KeysArgs{entropy.data(), streams.data(), rows}, grid, KEYS_THREADS);
        SampleArgs args = {streams.data(), out.data(), rows, len, CHI, 4};
        simt::launch(cbd3 ? sample_cbd3 : sample_table, args, grid, SAMPLE_THREADS);
        out.verify("small vectors");
    }

    void key_gen(Guarded<u8> &d) {
        Guarded<u8> dimension(Bytes{u8(n), u8(n >> 8), u8(n >> 16), u8(n >> 24)});
        hash(true, {{d.data(), 32, 32, 1}, {dimension.data(), 0, 4, 1}}, {rho_sigma.data(), 64});
        Guarded<u8> entropy(count * n * 48);
        Guarded<u32> streams(count * n * STREAM_WORDS);
        SeedsArgs seeds = {{rho_sigma.data(), 64, 32, 1}, entropy.data(), count, n, 0, 'A'};
        simt::launch(stream_seeds, seeds, grid, HASH_THREADS);
        simt::launch(stream_keys, KeysArgs{entropy.data(), streams.data(), count * n}, grid, KEYS_THREADS);
        ExpandArgs expand = {streams.data(), planes.data(), count, n, n, n * n, 2 * n * n};
        simt::launch(expand_columns, expand, grid, EXPAND_THREADS);
        sample(true, rho_sigma.data() + 32, 's', 1, n, s);
        sample(false, rho_sigma.data() + 32, 'e', 1, n, e);
        u64 vector_splits = ceil_divide(n, VECTOR_COLUMNS);
        Guarded<i32> terms(count);
        Guarded<u16> partial(count * vector_splits * n);
        simt::launch(centre_terms, CentreTermsArgs{s.data(), terms.data(), count, n}, grid, PRODUCT_THREADS);
        simt::launch(matrix_vector, MatrixVectorArgs{planes.data(), s.data(), partial.data(), count, n}, grid,
                     PRODUCT_THREADS);
        FinishRowsArgs finish = {partial.data(), terms.data(), e.data(), {ek.data() + 32, ek_len}, count, 1, n,
                                 vector_splits};
        simt::launch(finish_rows, finish, grid, PRODUCT_THREADS);
        copy({rho_sigma.data(), 64, 32, 1}, ek.data(), ek_len);
        hash(false, {{ek.data(), ek_len, ek_len, 1}}, {h_ek.data(), 32});
        const u8 *small = reinterpret_cast<const u8 *>(s.data());
        copy({small, n, n, 1}, dk.data(), dk_len);
        copy({ek.data(), ek_len, ek_len, 1}, dk.data() + n, dk_len);
        copy({h_ek.data(), 32, 32, 1}, dk.data() + n + ek_len, dk_len);
        copy({z.data(), 32, 32, 1}, dk.data() + n + ek_len + 32, dk_len);
        for (Guarded<u8> *buffer : {&rho_sigma, &ek, &dk, &h_ek}) buffer->verify("KeyGen");
        planes.verify("matrices");
    }

    // (K̄ ‖ coins) and the encryption of m with them.
    void encrypt(Guarded<u8> &m, Guarded<u8> &keys, Guarded<u8> &c) {
        hash(true, {{m.data(), 32, 32, 1}, {h_ek.data(), 32, 32, 1}}, {keys.data(), 64});
        u64 rows = count * MESSAGE_BITS;
        Guarded<i8> r(rows * n), e1(rows * n), e2(rows);
        sample(false, keys.data() + 32, 'r', MESSAGE_BITS, n, r);
        sample(false, keys.data() + 32, 'x', MESSAGE_BITS, n, e1);
        sample(false, keys.data() + 32, 'y', 1, MESSAGE_BITS, e2);
        Guarded<i32> terms(rows);
        Guarded<u16> partial(splits > 1 ? rows * splits * n : 0);
        simt::launch(centre_terms, CentreTermsArgs{r.data(), terms.data(), rows, n}, grid, PRODUCT_THREADS);
        ProductArgs args = {
            r.data(), planes.data(), e1.data(), terms.data(), {c.data(), c_len}, partial.data(), count, 1, n, splits};
        simt::launch(product, args, grid, PRODUCT_THREADS);
        if (splits > 1) {
            FinishRowsArgs finish = {partial.data(), terms.data(), e1.data(), {c.data(), c_len},
                                     rows,           MESSAGE_BITS, n,         splits};
            simt::launch(finish_rows, finish, grid, PRODUCT_THREADS);
        }
        EncodeMessageArgs encode = {};
        encode.t = {ek.data() + 32, ek_len, row_len, 1};
        encode.r = r.data(), encode.e2 = e2.data(), encode.m = {m.data(), 32, 32, 1};
        encode.out = {c.data() + 448 * n, c_len}, encode.count = count, encode.n = n;
        simt::launch(encode_message, encode, grid, PRODUCT_THREADS);
        c.verify("ciphertexts");
        keys.verify("G");
    }

    void digest(Guarded<u8> &c, Guarded<u8> &out) {
        Guarded<u8> head(plain::root_head(row_len, plain::ascii("LWE-KEM"))), tail(plain::root_tail(blocks));
        Guarded<u8> leaves(count * blocks * 64);
        LeavesArgs args = {{c.data(), c_len, c_len, 1}, leaves.data(), count, row_len, blocks};
        simt::launch(parallel_hash_leaves, args, grid, HASH_THREADS);
        hash(false,
             {{head.data(), 0, head.size(), 1},
              {leaves.data(), blocks * 64, blocks * 64, 1},
              {tail.data(), 0, tail.size(), 1}},
             {out.data(), 32}, 4);
        leaves.verify("leaves");
        out.verify("digests");
    }

    void encaps(Guarded<u8> &m, Guarded<u8> &c, Guarded<u8> &digests, Guarded<u8> &shared) {
        Guarded<u8> keys(count * 64);
        encrypt(m, keys, c);
        digest(c, digests);
        hash(false, {{keys.data(), 64, 32, 1}, {digests.data(), 32, 32, 1}}, {shared.data(), 32});
    }

    void decaps(Guarded<u8> &c, Guarded<u8> &shared) {
        Guarded<u8> m(count * 32), keys(count * 64), again(count * c_len), digests(count * 32), yes(count * 32),
            no(count * 32);
        DecodeMessageArgs decode = {};
        decode.s = s.data(), decode.c = {c.data(), c_len, c_len, 1}, decode.m = {m.data(), 32};
        decode.per_key = 1, decode.count = count, decode.n = n;
        simt::launch(decode_message, decode, grid, PRODUCT_THREADS);
        encrypt(m, keys, again);
        digest(c, digests);
        hash(false, {{keys.data(), 64, 32, 1}, {digests.data(), 32, 32, 1}}, {yes.data(), 32});
        hash(false, {{z.data(), 32, 32, 1}, {digests.data(), 32, 32, 1}}, {no.data(), 32});
        Guarded<u32> differences(count);
        differences.poison(0);
        CompareArgs compare = {{again.data(), c_len, c_len, 1}, {c.data(), c_len, c_len, 1}, differences.data(), count};
        simt::launch(compare_bytes, compare, grid, BYTES_THREADS);
        SelectArgs choose = {
            differences.data(), {yes.data(), 32, 32, 1}, {no.data(), 32, 32, 1}, {shared.data(), 32}, count};
        simt::launch(select_equal, choose, grid, BYTES_THREADS);
        shared.verify("shared secrets");
    }
};

using Fields = std::map<std::string, std::string>;

// The objects of an array of flat objects with values that are strings or numbers.
std::vector<Fields> objects(const char *path) {
    std::ifstream file(path);
    std::vector<Fields> out;
    std::string line;
    while (std::getline(file, line)) {
        if (line.find('{') != std::string::npos) out.emplace_back();
        std::vector<std::string> words;
        for (size_t i = 0; i < line.size();) {
            size_t end = i;
            while (end < line.size() && (std::isalnum(static_cast<unsigned char>(line[end])) || line[end] == '_'))
                end++;
            if (end > i) words.push_back(line.substr(i, end - i));
            i = end + 1;
        }
        if (words.size() == 2) out.back()[words[0]] = words[1];
    }
    return out;
}

void same(const Bytes &got, const std::string &expected, const std::string &what) {
    check(to_hex(got.data(), got.size()) == expected, what + " differs");
}

// The tests of one dimension as one batch.
void batch(std::vector<Fields> &tests, u64 n, u64 splits, u32 grid) {
    Device device{tests.size(), n, splits, grid};
    Bytes d, m;
    for (u64 i = 0; i < tests.size(); i++) {
        d = plain::join({d, from_hex(tests[i]["d"])});
        m = plain::join({m, from_hex(tests[i]["m"])});
        std::memcpy(device.z.data() + 32 * i, from_hex(tests[i]["z"]).data(), 32);
    }
    Guarded<u8> seeds(d), messages(m), c(tests.size() * device.c_len), digests(tests.size() * 32);
    Guarded<u8> shared(tests.size() * 32), again(tests.size() * 32), rejected(tests.size() * 32);
    device.key_gen(seeds);
    device.encaps(messages, c, digests, shared);
    device.decaps(c, again);
    std::string where = " at n = " + std::to_string(n);
    for (u64 i = 0; i < tests.size(); i++) {
        same(plain::sha3_256(part(device.ek, i * device.ek_len, device.ek_len)), tests[i]["ek_sha3_256"], "ek" + where);
        same(plain::sha3_256(part(device.dk, i * device.dk_len, device.dk_len)), tests[i]["dk_sha3_256"], "dk" + where);
        same(plain::sha3_256(part(c, i * device.c_len, device.c_len)), tests[i]["c_sha3_256"], "c" + where);
        same(part(digests, 32 * i, 32), tests[i]["c_digest"], "D(c)" + where);
        same(part(shared, 32 * i, 32), tests[i]["shared_secret"], "K of Encaps" + where);
        same(part(again, 32 * i, 32), tests[i]["shared_secret"], "K of Decaps" + where);
        c[i * device.c_len + std::stoul(tests[i]["tampered_byte"])] ^= u8(std::stoul(tests[i]["tampered_xor"]));
    }
    device.decaps(c, rejected);
    for (u64 i = 0; i < tests.size(); i++) {
        same(part(rejected, 32 * i, 32), tests[i]["tampered_shared_secret"], "K of a changed c" + where);
    }
}

}  // namespace

int main(int argc, char **argv) {
    set_order(argc, argv);
    std::map<u64, std::vector<Fields>> by_dimension;
    for (const Fields& test : objects("../vectors/lwe_kem.json"))
        by_dimension[std::stoul(test.at("n"))].push_back(test);
    check(by_dimension.size() >= 6, "tests/vectors/lwe_kem.json is not whole");
    for (auto &[n, tests] : by_dimension) {
        if (n > (simt::device.order == 0 ? 256 : 96)) continue;
        batch(tests, n, 1, 3);
        batch(tests, n, n >= 96 ? 3 : 1, 40);
    }
}
