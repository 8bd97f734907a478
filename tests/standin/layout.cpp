// Prints the table of kernels, and where each field of their arguments lies: tests/kernel_table.rs compares it with the host's.
#include <cstddef>
#include <cstdio>

#include "kernels.h"

#define KERNEL_LINE(name, args, threads) std::printf("%s(%s) %u\n", #name, #args, threads);
#define SIZE(type) std::printf("%s %zu\n", #type, sizeof(type));
#define FIELD(type, field) std::printf("%s.%s %zu\n", #type, #field, offsetof(type, field));

#define F1(t, a) FIELD(t, a)
#define F2(t, a, ...) FIELD(t, a) F1(t, __VA_ARGS__)
#define F3(t, a, ...) FIELD(t, a) F2(t, __VA_ARGS__)
#define F4(t, a, ...) FIELD(t, a) F3(t, __VA_ARGS__)
#define F5(t, a, ...) FIELD(t, a) F4(t, __VA_ARGS__)
#define F6(t, a, ...) FIELD(t, a) F5(t, __VA_ARGS__)
#define F7(t, a, ...) FIELD(t, a) F6(t, __VA_ARGS__)
#define F8(t, a, ...) FIELD(t, a) F7(t, __VA_ARGS__)
#define F10(t, a, b, ...) FIELD(t, a) FIELD(t, b) F8(t, __VA_ARGS__)

int main() {
    KERNELS(KERNEL_LINE)
    std::printf("STREAM_WORDS %u\nSLICED_STREAM_WORDS %u\nVECTOR_COLUMNS %u\n", STREAM_WORDS, SLICED_STREAM_WORDS,
                VECTOR_COLUMNS);
    SIZE(View) F4(View, start, stride, len, repeat)
    SIZE(ViewMut) F2(ViewMut, start, stride)
    SIZE(HashArgs) F4(HashArgs, parts, out, count, suffix)
    SIZE(LeavesArgs) F5(LeavesArgs, input, leaves, count, block_bytes, blocks)
    SIZE(SeedsArgs) F6(SeedsArgs, seeds, out, count, per_seed, first, tag)
    SIZE(KeysArgs) F3(KeysArgs, entropy, out, count)
    SIZE(SampleArgs) F6(SampleArgs, streams, out, rows, n, thresholds, threshold_count)
    SIZE(ExpandArgs) F7(ExpandArgs, streams, planes, count, columns, n, plane_bytes, piece_bytes)
    SIZE(CopyArgs) F3(CopyArgs, input, out, count)
    SIZE(CompareArgs) F4(CompareArgs, a, b, differences, count)
    SIZE(SelectArgs) F5(SelectArgs, differences, yes, no, out, count)
    SIZE(CentreTermsArgs) F4(CentreTermsArgs, small, terms, rows, n)
    SIZE(ProductArgs) F10(ProductArgs, r, matrices, e1, centre_terms, out, partial, count, per_matrix, n, splits)
    SIZE(FinishRowsArgs) F8(FinishRowsArgs, partial, centre_terms, e, out, rows, rows_per_item, n, splits)
    SIZE(MatrixVectorArgs) F5(MatrixVectorArgs, matrices, s, partial, count, n)
    SIZE(EncodeMessageArgs) F7(EncodeMessageArgs, t, r, e2, m, out, count, n)
    SIZE(DecodeMessageArgs) F6(DecodeMessageArgs, s, c, m, per_key, count, n)
    return 0;
}
