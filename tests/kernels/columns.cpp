// Columns of the public matrix.
#include "../../kernels/expand.cpp"
#include "../../kernels/symmetric.cpp"

#include "plain.h"

using plain::Bytes;

namespace {

// The first n values of the uniform stream that starts from `entropy`.
std::vector<u32> uniform(const Bytes &entropy, u64 n) {
    Bytes stream = plain::stream(entropy, n * 2 + n / 4 + 512);
    std::vector<u32> out;
    for (size_t i = 0; out.size() < n; i += 2) {
        u32 word = stream.at(i) | u32(stream.at(i + 1)) << 8;
        if (word < 61445) out.push_back(word % 12289);
    }
    return out;
}

// `count` pieces of `columns` columns from seeds, with room between planes and pieces.
void pieces(Random &random, u64 count, u64 columns, u64 first, u64 n, u64 room) {
    Guarded<u8> seeds(random.bytes(32 * count));
    u64 plane_bytes = columns * n + room, piece_bytes = 2 * plane_bytes + room;
    std::vector<std::vector<u32>> expected;
    for (u64 i = 0; i < count * columns; i++) {
        u8 *seed = seeds.data() + i / columns * 32;
        expected.push_back(uniform(plain::entropy(Bytes(seed, seed + 32), 'A', u32(first + i % columns)), n));
    }
    for (u32 grid : GRIDS) {
        Guarded<u8> entropy(48 * count * columns);
        Guarded<u32> streams(count * columns * STREAM_WORDS);
        SeedsArgs seed_args = {{seeds.data(), 32, 32, 1}, entropy.data(), count, columns, first, 'A'};
        simt::launch(stream_seeds, seed_args, grid, HASH_THREADS);
        simt::launch(stream_keys, KeysArgs{entropy.data(), streams.data(), count * columns}, grid, KEYS_THREADS);
        streams.verify("streams");
        Guarded<i8> planes(count * piece_bytes);
        planes.poison(0x7f);
        simt::launch(expand_columns,
                     ExpandArgs{streams.data(), planes.data(), count, columns, n, plane_bytes, piece_bytes}, grid,
                     EXPAND_THREADS);
        std::string what = "columns, n = " + std::to_string(n);
        for (u64 i = 0; i < count; i++) {
            i8 *low = planes.data() + i * piece_bytes, *high = low + plane_bytes;
            for (u64 k = 0; k < columns * n; k++) {
                int value = int(expected[i * columns + k / n][k % n]) - 6144;
                check(low[k] >= -64 && low[k] < 64 && high[k] * 128 + low[k] == value,
                      what + ", at " + std::to_string(k));
            }
            for (u64 k = columns * n; k < plane_bytes; k++) {
                check(low[k] == 0x7f && high[k] == 0x7f, what + ": written between planes");
            }
        }
        planes.verify(what);
    }
}

}  // namespace

int main(int argc, char **argv) {
    set_order(argc, argv);
    Random random{4};
    pieces(random, 1, 32, 0, 32, 0);
    pieces(random, 3, 96, 0, 96, 0);
    pieces(random, 2, 13, 40, 160, 48);
    pieces(random, 1, 5, 0, 512, 16);
    pieces(random, 1, 3, 7, 1056, 0);
    // Longer than a request: Update in between.
    pieces(random, 1, 2, 32766, 32768, 0);
    // Longer than two.
    if (simt::device.order == 0) pieces(random, 1, 1, 0, 65536, 0);
}
