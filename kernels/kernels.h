// Every kernel with its arguments and the threads of its blocks, shared with what launches them.
#pragma once

#include "product.h"
#include "symmetric.h"

// KERNELS(X) is X(name, arguments, threads) for each kernel.
#define KERNELS(X)                                           \
    X(hash_256, HashArgs, HASH_THREADS)                      \
    X(hash_512, HashArgs, HASH_THREADS)                      \
    X(parallel_hash_leaves, LeavesArgs, HASH_THREADS)        \
    X(stream_seeds, SeedsArgs, HASH_THREADS)                 \
    X(stream_keys, KeysArgs, KEYS_THREADS)                   \
    X(stream_keys_sliced, KeysArgs, KEYS_THREADS)            \
    X(sample_table, SampleArgs, SAMPLE_THREADS)              \
    X(sample_cbd3, SampleArgs, SAMPLE_THREADS)               \
    X(expand_columns, ExpandArgs, EXPAND_THREADS)            \
    X(copy_bytes, CopyArgs, BYTES_THREADS)                   \
    X(compare_bytes, CompareArgs, BYTES_THREADS)             \
    X(select_equal, SelectArgs, BYTES_THREADS)               \
    X(centre_terms, CentreTermsArgs, PRODUCT_THREADS)        \
    X(product, ProductArgs, PRODUCT_THREADS)                 \
    X(finish_rows, FinishRowsArgs, PRODUCT_THREADS)          \
    X(matrix_vector, MatrixVectorArgs, PRODUCT_THREADS)      \
    X(encode_message, EncodeMessageArgs, PRODUCT_THREADS)    \
    X(decode_message, DecodeMessageArgs, PRODUCT_THREADS)

// Arguments are 64-bit words and pointers only: no padding, one layout on every device and on the host.
static_assert(sizeof(View) == 32 && sizeof(ViewMut) == 16);
static_assert(sizeof(HashArgs) == 128 && sizeof(LeavesArgs) == 64 && sizeof(SeedsArgs) == 72 && sizeof(KeysArgs) == 24);
static_assert(sizeof(SampleArgs) == 48 && sizeof(ExpandArgs) == 56 && sizeof(CopyArgs) == 56);
static_assert(sizeof(CompareArgs) == 80 && sizeof(SelectArgs) == 96);
static_assert(sizeof(CentreTermsArgs) == 32 && sizeof(ProductArgs) == 88 && sizeof(FinishRowsArgs) == 72);
static_assert(sizeof(MatrixVectorArgs) == 40 && sizeof(EncodeMessageArgs) == 112 && sizeof(DecodeMessageArgs) == 80);
