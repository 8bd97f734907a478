// Small vectors: tables and CBD(3) from streams.
#include "../../kernels/symmetric.cpp"

#include "plain.h"

using plain::Bytes;

namespace {

i8 from_table(const std::vector<u16> &thresholds, u16 word) {
    int magnitude = 0;
    for (u16 threshold : thresholds) magnitude += (word >> 1) > threshold;
    return i8(word & 1 ? -magnitude : magnitude);
}

i8 cbd3(u8 byte) {
    auto bit = [=](int i) { return byte >> i & 1; };
    return i8(bit(0) + bit(1) + bit(2) - bit(3) - bit(4) - bit(5));
}

// Rows of n from seeds of their own; `thresholds` empty stands for CBD(3).
void rows(Random &random, const std::vector<u16> &thresholds, u64 count, u64 n, size_t shift) {
    bool table = !thresholds.empty();
    Guarded<u8> entropy(random.bytes(48 * count));
    std::vector<i8> expected;
    for (u64 i = 0; i < count; i++) {
        u8 *start = entropy.data() + 48 * i;
        Bytes stream = plain::stream(Bytes(start, start + 48), table ? 2 * n : n);
        for (u64 k = 0; k < n; k++) {
            expected.push_back(table ? from_table(thresholds, u16(stream[2 * k] | stream[2 * k + 1] << 8))
                                     : cbd3(stream[k]));
        }
    }
    Guarded<u16> limits(thresholds);
    for (u32 grid : GRIDS) {
        Guarded<u32> streams(count * SLICED_STREAM_WORDS);
        simt::launch(stream_keys_sliced, KeysArgs{entropy.data(), streams.data(), count}, grid, KEYS_THREADS);
        streams.verify("sliced streams");
        for (u8 poison : {0x7f, 0x80}) {
            Guarded<i8> out(count * n, shift);
            out.poison(poison);
            SampleArgs args = {streams.data(), out.data(), count, n, limits.data(), limits.size()};
            simt::launch(table ? sample_table : sample_cbd3, args, grid, SAMPLE_THREADS);
            std::string what =
                "sample, n = " + std::to_string(n) + ", " + std::to_string(thresholds.size()) + " thresholds";
            for (u64 i = 0; i < count * n; i++) check(out[i] == expected[i], what + ", at " + std::to_string(i));
            out.verify(what);
        }
    }
}

}  // namespace

int main(int argc, char **argv) {
    set_order(argc, argv);
    Random random{3};
    std::vector<u16> chi = {12547, 28389, 32360, 32752}, widest, edges = {0, 1, 32766, 32767};
    for (u32 i = 0; i < 127; i++) widest.push_back(u16(250 + 255 * i));
    for (u64 n : {32, 96, 128, 512, 1, 7, 63, 65, 129}) {
        size_t shift = n % 32 == 0 ? 0 : n % 16;
        rows(random, chi, 5, n, shift);
        rows(random, {}, 5, n, shift);
    }
    rows(random, widest, 3, 160, 0);
    rows(random, edges, 3, 160, 0);
    if (simt::device.order == 0) {
        // A whole request each.
        rows(random, chi, 1, 32768, 0);
        rows(random, {}, 1, 65536, 0);
    }
}
