//! The host's table of kernels and their arguments against the C++ headers, as a compiler lays them out.

use std::{fmt::Write, mem::offset_of, path::Path, process::Command};

use lwe_mpi::backend::gpu::kernels::{
    ALL, CentreTermsArgs, CompareArgs, CopyArgs, DecodeMessageArgs, EncodeMessageArgs, ExpandArgs, FinishRowsArgs,
    HashArgs, KeysArgs, LeavesArgs, MatrixVectorArgs, ProductArgs, SLICED_STREAM_WORDS, STREAM_WORDS, SampleArgs,
    SeedsArgs, SelectArgs, VECTOR_COLUMNS, View, ViewMut,
};

macro_rules! describe {
    ($out:ident: $($name:ident { $($field:ident),* })*) => {
        $(
            writeln!($out, "{} {}", stringify!($name), size_of::<$name>()).unwrap();
            $(writeln!($out, "{}.{} {}", stringify!($name), stringify!($field), offset_of!($name, $field)).unwrap();)*
            // Exhaustive: a field that is not compared does not compile.
            let _ = |$name { $($field: _),* }: $name| {};
        )*
    };
}

#[test]
fn arguments_lie_where_the_kernels_look() {
    let mut host = String::new();
    for kernel in ALL {
        writeln!(host, "{}({}) {}", kernel.name, kernel.args, kernel.block_threads).unwrap();
    }
    writeln!(host, "STREAM_WORDS {STREAM_WORDS}\nSLICED_STREAM_WORDS {SLICED_STREAM_WORDS}").unwrap();
    writeln!(host, "VECTOR_COLUMNS {VECTOR_COLUMNS}").unwrap();
    describe! { host:
        View { start, stride, len, repeat }
        ViewMut { start, stride }
        HashArgs { parts, out, count, suffix }
        LeavesArgs { input, leaves, count, block_bytes, blocks }
        SeedsArgs { seeds, out, count, per_seed, first, tag }
        KeysArgs { entropy, out, count }
        SampleArgs { streams, out, rows, n, thresholds, threshold_count }
        ExpandArgs { streams, planes, count, columns, n, plane_bytes, piece_bytes }
        CopyArgs { input, out, count }
        CompareArgs { a, b, differences, count }
        SelectArgs { differences, yes, no, out, count }
        CentreTermsArgs { small, terms, rows, n }
        ProductArgs { r, matrices, e1, centre_terms, out, partial, count, per_matrix, n, splits }
        FinishRowsArgs { partial, centre_terms, e, out, rows, rows_per_item, n, splits }
        MatrixVectorArgs { matrices, s, partial, count, n }
        EncodeMessageArgs { t, r, e2, m, out, count, n }
        DecodeMessageArgs { s, c, m, per_key, count, n }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("layout");
    let compiled = Command::new("g++")
        .args(["-std=c++17", "-Ikernels", "-Itests/kernels", "tests/standin/layout.cpp", "-o"])
        .arg(&program)
        .current_dir(root)
        .status()
        .expect("this test needs g++");
    assert!(compiled.success());
    let output = Command::new(&program).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), host);
}
