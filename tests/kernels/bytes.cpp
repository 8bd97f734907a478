// Copies, comparison and choice.
#include "../../kernels/symmetric.cpp"

#include "test.h"

namespace {

void copies(Random &random) {
    for (u64 len : {0, 1, 15, 16, 17, 32, 100, 4096, 5000}) {
        for (u64 shift : {0, 3}) {
            for (u64 repeat : {1, 3}) {
                u64 count = 5, in_stride = len + shift * 5, out_stride = len + (shift == 0 ? 0 : 7);
                Guarded<u8> input(random.bytes(count * in_stride + 1), shift);
                for (u32 grid : GRIDS) {
                    Guarded<u8> out(count * out_stride);
                    simt::launch(copy_bytes,
                                 CopyArgs{{input.data(), in_stride, len, repeat}, {out.data(), out_stride}, count},
                                 grid, BYTES_THREADS);
                    for (u64 i = 0; i < count * out_stride; i++) {
                        u64 item = i / out_stride, at = i % out_stride;
                        u8 expected = at < len ? input[item / repeat * in_stride + at] : 0xa5;
                        check(out[i] == expected, "copy, length " + std::to_string(len));
                    }
                    out.verify("copy");
                }
            }
        }
    }
}

// One changed bit at each of `places` and nowhere.
void choices(Random &random) {
    for (u64 len : {1, 15, 16, 33, 1024, 1040, 20000}) {
        for (u64 shift : {0, 5}) {
            u64 count = 6, stride = len + shift;
            Guarded<u8> a(random.bytes(count * stride), shift), b(count * stride, shift), yes(random.bytes(count * 32)),
                no(random.bytes(count * 40));
            std::memcpy(b.data(), a.data(), count * stride);
            bool equal[6];
            for (u64 i = 0; i < count; i++) {
                equal[i] = i % 3 == 0;
                u64 at = i == 1 ? 0 : i == 2 ? len - 1 : random.next() % len;
                if (!equal[i]) b[i * stride + at] ^= u8(1 << random.next() % 8);
            }
            for (u32 grid : GRIDS) {
                Guarded<u32> differences(count);
                differences.poison(0);
                Guarded<u8> out(count * 33);
                CompareArgs compare = {
                    {a.data(), stride, len, 1}, {b.data(), stride, len, 1}, differences.data(), count};
                simt::launch(compare_bytes, compare, grid, BYTES_THREADS);
                SelectArgs choice = {
                    differences.data(), {yes.data(), 32, 32, 1}, {no.data() + 4, 40, 32, 2}, {out.data(), 33}, count};
                simt::launch(select_equal, choice, grid, BYTES_THREADS);
                for (u64 i = 0; i < count; i++) {
                    check((differences[i] == 0) == equal[i], "compare, length " + std::to_string(len));
                    u8 *expected = equal[i] ? yes.data() + 32 * i : no.data() + 4 + i / 2 * 40;
                    check(std::memcmp(out.data() + 33 * i, expected, 32) == 0, "select");
                    check(out[33 * i + 32] == 0xa5, "select: written between outputs");
                }
                differences.verify("compare");
                out.verify("select");
            }
        }
    }
}

}  // namespace

int main(int argc, char **argv) {
    set_order(argc, argv);
    Random random{5};
    copies(random);
    choices(random);
}
