//! The table of kernels and their arguments: the host's twin of `kernels/kernels.h`, where each kernel is explained.
//!
//! Addresses are the device's, as 64-bit numbers; 0 where a kernel does not use one.

use std::marker::PhantomData;

/// A kernel that takes `A`, one structure by value.
#[derive(Debug)]
pub struct Kernel<A> {
    /// Its name in every image.
    pub name: &'static str,
    /// Threads of a block.
    pub block_threads: u32,
    args: PhantomData<fn(A)>,
}

/// What every kernel has, whatever it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name in every image.
    pub name: &'static str,
    /// Its structure of arguments.
    pub args: &'static str,
    /// Threads of a block.
    pub block_threads: u32,
}

macro_rules! kernels {
    ($($constant:ident = $name:ident($args:ident), $threads:expr;)*) => {
        $(
            #[doc = concat!("The kernel `", stringify!($name), "`.")]
            pub const $constant: Kernel<$args> =
                Kernel { name: stringify!($name), block_threads: $threads, args: PhantomData };
        )*
        /// Every kernel.
        pub const ALL: &[Entry] =
            &[$(Entry { name: stringify!($name), args: stringify!($args), block_threads: $threads }),*];
    };
}

const HASH_THREADS: u32 = 64;
const KEYS_THREADS: u32 = 64;
const SAMPLE_THREADS: u32 = 128;
const EXPAND_THREADS: u32 = 256;
const BYTES_THREADS: u32 = 256;
const PRODUCT_THREADS: u32 = 256;

/// 32-bit words of a stream that [`STREAM_KEYS`] writes.
pub const STREAM_WORDS: usize = 64;
/// 32-bit words of a stream that [`STREAM_KEYS_SLICED`] writes.
pub const SLICED_STREAM_WORDS: usize = 484;
/// Bytes of a stream's entropy input.
pub const ENTROPY_BYTES: usize = 48;
/// Columns of a matrix that one task of [`MATRIX_VECTOR`] sums.
pub const VECTOR_COLUMNS: usize = 128;

kernels! {
    HASH_256 = hash_256(HashArgs), HASH_THREADS;
    HASH_512 = hash_512(HashArgs), HASH_THREADS;
    PARALLEL_HASH_LEAVES = parallel_hash_leaves(LeavesArgs), HASH_THREADS;
    STREAM_SEEDS = stream_seeds(SeedsArgs), HASH_THREADS;
    STREAM_KEYS = stream_keys(KeysArgs), KEYS_THREADS;
    STREAM_KEYS_SLICED = stream_keys_sliced(KeysArgs), KEYS_THREADS;
    SAMPLE_TABLE = sample_table(SampleArgs), SAMPLE_THREADS;
    SAMPLE_CBD3 = sample_cbd3(SampleArgs), SAMPLE_THREADS;
    EXPAND_COLUMNS = expand_columns(ExpandArgs), EXPAND_THREADS;
    COPY_BYTES = copy_bytes(CopyArgs), BYTES_THREADS;
    COMPARE_BYTES = compare_bytes(CompareArgs), BYTES_THREADS;
    SELECT_EQUAL = select_equal(SelectArgs), BYTES_THREADS;
    CENTRE_TERMS = centre_terms(CentreTermsArgs), PRODUCT_THREADS;
    PRODUCT = product(ProductArgs), PRODUCT_THREADS;
    FINISH_ROWS = finish_rows(FinishRowsArgs), PRODUCT_THREADS;
    MATRIX_VECTOR = matrix_vector(MatrixVectorArgs), PRODUCT_THREADS;
    ENCODE_MESSAGE = encode_message(EncodeMessageArgs), PRODUCT_THREADS;
    DECODE_MESSAGE = decode_message(DecodeMessageArgs), PRODUCT_THREADS;
}

/// Arguments of a kernel.
///
/// # Safety
/// The type is laid out as C does and as the structure of its name in `kernels/` is.
pub unsafe trait Args: Copy {}

macro_rules! structures {
    ($($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* })*) => {
        $(
            $(#[$doc])*
            #[repr(C)]
            #[derive(Clone, Copy, Debug)]
            pub struct $name {
                $($(#[$field_doc])* pub $field: $type,)*
            }
            // SAFETY: repr(C), of addresses and 64-bit numbers; tests/kernel_table.rs compares sizes and offsets.
            unsafe impl Args for $name {}
        )*
    };
}

/// String i begins at `start + (i / repeat)·stride` and has `len` bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct View {
    /// Address of string 0.
    pub start: u64,
    /// From one string to the next, in bytes.
    pub stride: u64,
    /// Length of each string, in bytes.
    pub len: u64,
    /// How many consecutive items share one string; at least 1.
    pub repeat: u64,
}

impl View {
    /// A part of a hash that is not there.
    pub const EMPTY: View = View { start: 0, stride: 0, len: 0, repeat: 1 };
}

/// String i begins at `start + i·stride`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ViewMut {
    /// Address of string 0.
    pub start: u64,
    /// From one string to the next, in bytes.
    pub stride: u64,
}

structures! {
    /// Of [`HASH_256`] and [`HASH_512`].
    HashArgs {
        /// What is hashed, back to back.
        parts: [View; 3],
        /// Digests.
        out: ViewMut,
        /// Items.
        count: u64,
        /// Domain bits and the first bit of the padding.
        suffix: u64,
    }
    /// Of [`PARALLEL_HASH_LEAVES`].
    LeavesArgs {
        /// What is hashed.
        input: View,
        /// Address of 64 bytes for each block.
        leaves: u64,
        /// Items.
        count: u64,
        /// Bytes of a block.
        block_bytes: u64,
        /// Blocks of an item.
        blocks: u64,
    }
    /// Of [`STREAM_SEEDS`].
    SeedsArgs {
        /// 32 bytes each.
        seeds: View,
        /// Address of [`ENTROPY_BYTES`] for each stream.
        out: u64,
        /// Seeds.
        count: u64,
        /// Streams of a seed.
        per_seed: u64,
        /// Index of a seed's first stream.
        first: u64,
        /// The streams' tag, a byte.
        tag: u64,
    }
    /// Of [`STREAM_KEYS`] and [`STREAM_KEYS_SLICED`].
    KeysArgs {
        /// Address of [`ENTROPY_BYTES`] for each stream.
        entropy: u64,
        /// Address of [`STREAM_WORDS`] or [`SLICED_STREAM_WORDS`] for each stream.
        out: u64,
        /// Streams.
        count: u64,
    }
    /// Of [`SAMPLE_TABLE`] and [`SAMPLE_CBD3`].
    SampleArgs {
        /// Address of sliced streams, one a row.
        streams: u64,
        /// Address of rows of signed bytes.
        out: u64,
        /// Rows.
        rows: u64,
        /// Coefficients of a row.
        n: u64,
        /// Address of 16-bit thresholds.
        thresholds: u64,
        /// How many there are.
        threshold_count: u64,
    }
    /// Of [`EXPAND_COLUMNS`].
    ExpandArgs {
        /// Address of streams, one a column.
        streams: u64,
        /// Address of the low bytes of the first piece.
        planes: u64,
        /// Pieces.
        count: u64,
        /// Columns of a piece.
        columns: u64,
        /// Entries of a column.
        n: u64,
        /// From low bytes to high bytes.
        plane_bytes: u64,
        /// From one piece to the next.
        piece_bytes: u64,
    }
    /// Of [`COPY_BYTES`].
    CopyArgs {
        /// From here.
        input: View,
        /// To here.
        out: ViewMut,
        /// Items.
        count: u64,
    }
    /// Of [`COMPARE_BYTES`].
    CompareArgs {
        /// Strings.
        a: View,
        /// Strings of the same length.
        b: View,
        /// Address of a 32-bit word an item, zero before.
        differences: u64,
        /// Items.
        count: u64,
    }
    /// Of [`SELECT_EQUAL`].
    SelectArgs {
        /// Address of what [`COMPARE_BYTES`] wrote.
        differences: u64,
        /// Taken where nothing differs.
        yes: View,
        /// Taken elsewhere.
        no: View,
        /// Where to.
        out: ViewMut,
        /// Items.
        count: u64,
    }
    /// Of [`CENTRE_TERMS`].
    CentreTermsArgs {
        /// Address of rows of signed bytes.
        small: u64,
        /// Address of a 32-bit word a row.
        terms: u64,
        /// Rows.
        rows: u64,
        /// Coefficients of a row.
        n: u64,
    }
    /// Of [`PRODUCT`].
    ProductArgs {
        /// Address of 256 rows an item.
        r: u64,
        /// Address of two planes a matrix.
        matrices: u64,
        /// Address of 256 rows an item; unused where `splits` > 1.
        e1: u64,
        /// Address of the centre terms of `r`; unused where `splits` > 1.
        centre_terms: u64,
        /// Encoded rows; unused where `splits` > 1.
        out: ViewMut,
        /// Address of 16-bit partial sums; unused where `splits` is 1.
        partial: u64,
        /// Items.
        count: u64,
        /// Items of a matrix.
        per_matrix: u64,
        /// The dimension.
        n: u64,
        /// Parts of the sum over k.
        splits: u64,
    }
    /// Of [`FINISH_ROWS`].
    FinishRowsArgs {
        /// Address of 16-bit partial sums.
        partial: u64,
        /// Address of a 32-bit word a row.
        centre_terms: u64,
        /// Address of rows of signed bytes.
        e: u64,
        /// Encoded rows.
        out: ViewMut,
        /// Rows.
        rows: u64,
        /// Rows of a string of `out`.
        rows_per_item: u64,
        /// The dimension.
        n: u64,
        /// Partial sums of a row.
        splits: u64,
    }
    /// Of [`MATRIX_VECTOR`].
    MatrixVectorArgs {
        /// Address of two planes a matrix.
        matrices: u64,
        /// Address of a row a matrix.
        s: u64,
        /// Address of 16-bit partial sums.
        partial: u64,
        /// Matrices.
        count: u64,
        /// The dimension.
        n: u64,
    }
    /// Of [`ENCODE_MESSAGE`].
    EncodeMessageArgs {
        /// Encoded.
        t: View,
        /// Address of 256 rows an item.
        r: u64,
        /// Address of 256 signed bytes an item.
        e2: u64,
        /// 32 bytes each.
        m: View,
        /// 448 bytes each.
        out: ViewMut,
        /// Items.
        count: u64,
        /// The dimension.
        n: u64,
    }
    /// Of [`DECODE_MESSAGE`].
    DecodeMessageArgs {
        /// Address of a row a key.
        s: u64,
        /// Ciphertexts.
        c: View,
        /// 32 bytes each.
        m: ViewMut,
        /// Ciphertexts of a key.
        per_key: u64,
        /// Items.
        count: u64,
        /// The dimension.
        n: u64,
    }
}
