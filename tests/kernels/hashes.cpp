// Hashes, ParallelHash256 and stream seeds.
#include "../../kernels/symmetric.cpp"

#include "plain.h"

using plain::Bytes;

namespace {

// FIPS 202's functions on the empty string and on "abc" (NIST's example values), the reference and the kernels alike.
void known_answers() {
    struct {
        const char *message, *sha3_256, *sha3_512;
    } cases[] = {
        {"", "a7ffc6f8bf1ed76651c14756a061d662f580ff4de43b49fa82d80a4b80f8434a",
         "a69f73cca23a9ac5c8b567dc185a756e97c982164fe25859e0d1dcc1475c80a6"
         "15b2123af1f5f94c11e3e9402c3ac558f500199d95b6d3e301758586281dcd26"},
        {"abc", "3a985da74fe225b2045c172d6bd390bd855f086e3e9d525b46bfe24511431532",
         "b751850b1a57168a5693cd924b6b096e08f621827444f70d884f5d0240d2712e"
         "10e116e9192af3c91a7ec57647e3934057340b4cf408d5a56592f8274eec53f0"},
    };
    for (auto &one : cases) {
        Bytes message = plain::ascii(one.message);
        check(plain::sha3_256(message) == from_hex(one.sha3_256), "plain SHA3-256");
        check(plain::sha3_512(message) == from_hex(one.sha3_512), "plain SHA3-512");
        Guarded<u8> out(32), long_out(64), input(message);
        View part = {input.data(), 0, message.size(), 1}, none = {nullptr, 0, 0, 1};
        simt::launch(hash_256, HashArgs{{part, none, none}, {out.data(), 32}, 1, 6}, 1, HASH_THREADS);
        check(Bytes(out.data(), out.data() + 32) == from_hex(one.sha3_256), "SHA3-256");
        simt::launch(hash_512, HashArgs{{none, none, part}, {long_out.data(), 64}, 1, 6}, 1, HASH_THREADS);
        check(Bytes(long_out.data(), long_out.data() + 64) == from_hex(one.sha3_512), "SHA3-512");
    }
    check(to_hex(plain::shake256({}, 32).data(), 32) ==
              "46b9dd2b0ba88d13233b3feb743eeb243fcd52ea62b81b82b50c27646ed5762f",
          "plain SHAKE256");
}

// Three parts of every length about the ends of words and blocks, aligned and not, shared by `repeat` items or by all.
void concatenations(Random &random) {
    size_t lengths[] = {0, 1, 7, 8, 32, 37, 63, 64, 65, 71, 72, 73, 104, 135, 136, 137, 300};
    for (size_t a : lengths) {
        for (size_t b : {size_t(0), size_t(3), size_t(32), a}) {
            for (size_t c : {size_t(0), size_t(40), size_t(64)}) {
                u64 count = 1 + random.next() % 5;
                size_t shift = random.next() % 2 * (random.next() % 16);
                Guarded<u8> x(random.bytes(count * (a + 5)), shift), y(random.bytes((count + 1) / 2 * b), shift),
                    z(random.bytes(c));
                size_t out_stride = 32 + random.next() % 2 * 9;
                HashArgs args = {{{x.data() + 2, a + 5, a, 1}, {y.data(), b, b, 2}, {z.data(), 0, c, 1}}, {}, count, 6};
                for (u32 grid : GRIDS) {
                    Guarded<u8> out(count * out_stride, shift), long_out(count * 71, shift);
                    args.out = {out.data(), out_stride};
                    simt::launch(hash_256, args, grid, HASH_THREADS);
                    args.out = {long_out.data(), 71};
                    simt::launch(hash_512, args, grid, HASH_THREADS);
                    for (u64 i = 0; i < count; i++) {
                        u8 *px = x.data() + 2 + i * (a + 5), *py = y.data() + i / 2 * b;
                        Bytes message =
                            plain::join({Bytes(px, px + a), Bytes(py, py + b), Bytes(z.data(), z.data() + c)});
                        Bytes expected = plain::sha3_256(message);
                        check(std::memcmp(out.data() + i * out_stride, expected.data(), 32) == 0,
                              "SHA3-256 of lengths " + std::to_string(a) + ", " + std::to_string(b) + ", " +
                                  std::to_string(c));
                        for (size_t k = 32; k < out_stride; k++)
                            check(out[i * out_stride + k] == 0xa5, "between outputs");
                        expected = plain::sha3_512(message);
                        check(std::memcmp(long_out.data() + i * 71, expected.data(), 64) == 0, "SHA3-512");
                        for (size_t k = 64; k < 71; k++) check(long_out[i * 71 + k] == 0xa5, "between outputs");
                    }
                    out.verify("SHA3-256");
                    long_out.verify("SHA3-512");
                }
            }
        }
    }
}

void parallel_hash(Random &random) {
    struct {
        u64 count, len, block_bytes, stride;
    } shapes[] = {{1, 24, 8, 24}, {2, 448 * 32 + 448, 56, 448 * 32 + 448}, {3, 1000, 136, 1008}, {2, 777, 272, 800},
                  {70, 300, 100, 300}, {1, 5, 56, 5}};
    for (auto &shape : shapes) {
        Guarded<u8> input(random.bytes(shape.count * shape.stride), shape.len % 8);
        Bytes customization = plain::ascii("LWE-KEM");
        u64 blocks = (shape.len + shape.block_bytes - 1) / shape.block_bytes;
        Guarded<u8> head(plain::root_head(shape.block_bytes, customization)), tail(plain::root_tail(blocks));
        for (u32 grid : GRIDS) {
            Guarded<u8> leaves(shape.count * blocks * 64), out(shape.count * 32);
            View view = {input.data(), shape.stride, shape.len, 1};
            simt::launch(parallel_hash_leaves, LeavesArgs{view, leaves.data(), shape.count, shape.block_bytes, blocks},
                         grid, HASH_THREADS);
            HashArgs root = {{{head.data(), 0, head.size(), 1},
                              {leaves.data(), blocks * 64, blocks * 64, 1},
                              {tail.data(), 0, tail.size(), 1}},
                             {out.data(), 32}, shape.count, 4};
            simt::launch(hash_256, root, grid, HASH_THREADS);
            for (u64 i = 0; i < shape.count; i++) {
                u8 *start = input.data() + i * shape.stride;
                Bytes expected =
                    plain::parallel_hash256(Bytes(start, start + shape.len), shape.block_bytes, customization);
                check(std::memcmp(out.data() + 32 * i, expected.data(), 32) == 0, "ParallelHash256");
            }
            leaves.verify("leaves");
            out.verify("root");
        }
    }
    // NIST's sample of ParallelHash256: 24 bytes, blocks of 8, 512 bits; its first steps are the leaves checked above.
    // The reference is checked by the sample's shape with 64 bytes of output.
    Bytes data = from_hex("000102030405060710111213141516172021222324252627"), message = plain::root_head(8, {});
    for (long at = 0; at < 24; at += 8) {
        message = plain::join({message, plain::shake256(Bytes(data.begin() + at, data.begin() + at + 8), 64)});
    }
    message = plain::join({message, plain::right_encode(3), plain::right_encode(512)});
    check(to_hex(plain::sponge(message, 136, 4, 64).data(), 64) ==
              "bc1ef124da34495e948ead207dd9842235da432d2bbc54b4c110e64c451105531b7f2a3e0ce055c02805e7c2de1fb746af97a1dd"
              "01f43b824e31b87612410429",
          "plain ParallelHash256");
}

void seeds(Random &random) {
    for (u64 per_seed : {1, 5, 96}) {
        Guarded<u8> input(random.bytes(3 * 40), per_seed == 5 ? 3 : 0);
        for (u32 grid : GRIDS) {
            Guarded<u8> out(3 * per_seed * 48);
            u64 first = per_seed == 5 ? 0x01020304 : 0;
            simt::launch(stream_seeds, SeedsArgs{{input.data(), 40, 32, 1}, out.data(), 3, per_seed, first, 'x'}, grid,
                         HASH_THREADS);
            for (u64 i = 0; i < 3 * per_seed; i++) {
                u8 *seed = input.data() + i / per_seed * 40;
                Bytes expected = plain::entropy(Bytes(seed, seed + 32), 'x', u32(first + i % per_seed));
                check(std::memcmp(out.data() + 48 * i, expected.data(), 48) == 0, "stream seeds");
            }
            out.verify("stream seeds");
        }
    }
}

}  // namespace

int main(int argc, char **argv) {
    set_order(argc, argv);
    Random random{1};
    known_answers();
    concatenations(random);
    parallel_hash(random);
    seeds(random);
}
