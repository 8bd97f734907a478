//! The CUDA backend over a driver library that runs the kernels on the host: tests/standin/cuda.cpp, which says what the
//! environment variables do. Each case is a process of its own, for a library is opened once.

#![cfg(feature = "cuda")]

mod common;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::OnceLock,
};

use common::device::{Noise, bytes, read, small};
use lwe_mpi::{
    backend::{
        cpu::{Cpu, isa::Isa},
        gpu::{
            cuda::{self, Cuda},
            driver::{DeviceMemory, Driver},
            kernels::{
                ALL, Args, CENTRE_TERMS, COPY_BYTES, CentreTermsArgs, CopyArgs, ENTROPY_BYTES, EXPAND_COLUMNS,
                ExpandArgs, FINISH_ROWS, FinishRowsArgs, HASH_256, HASH_512, HashArgs, Kernel, KeysArgs, PRODUCT,
                ProductArgs, STREAM_KEYS, STREAM_SEEDS, STREAM_WORDS, SeedsArgs, View, ViewMut,
            },
        },
    },
    error::Error,
    ops::{Hash, MatrixForm, Ops, Rows, RowsMut},
};

/// A folder with the stand-in, without the function `removed`, if that names one.
fn build(removed: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("standin-{removed}"));
    fs::create_dir_all(&folder).unwrap();
    let library = folder.join("libcuda.so");
    let sources = ["tests/standin/cuda.cpp", "kernels/expand.cpp", "kernels/message.cpp", "kernels/product.cpp"];
    let mut compiler = Command::new("g++");
    compiler.args([
        "-std=c++17",
        "-O2",
        "-fPIC",
        "-shared",
        "-Wl,-Bsymbolic",
        "-DSIMT_WAVE=32",
        "-Wno-unknown-pragmas",
    ]);
    if !removed.is_empty() {
        compiler.arg(format!("-D{removed}=removed"));
    }
    compiler.args(["-Ikernels", "-Itests/kernels", "-o"]).arg(&library).args(sources).arg("kernels/symmetric.cpp");
    let status = compiler.current_dir(env!("CARGO_MANIFEST_DIR")).status().expect("these tests need g++");
    assert!(status.success());
    // Both names that are looked for, so that no other library is found first.
    fs::copy(&library, folder.join("libcuda.so.1")).unwrap();
    folder
}

fn standin() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| build(""))
}

/// Runs the ignored test `name` of this file over the library in `folder`.
fn run_over(folder: &Path, name: &str, settings: &[(&str, &str)]) -> Output {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--ignored", "--nocapture", "--test-threads=1"])
        .env("LD_LIBRARY_PATH", folder)
        .envs(settings.iter().copied())
        .output()
        .unwrap()
}

fn passes(name: &str, settings: &[(&str, &str)]) {
    let output = run_over(standin(), name, settings);
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{name} with {settings:?}: {text}");
}

/// What opening and a hash end with, over the library in `folder`.
fn answer(folder: &Path, settings: &[(&str, &str)]) -> String {
    let output = run_over(folder, "child_answers", settings);
    let text = String::from_utf8(output.stdout).unwrap();
    let line = text.lines().find_map(|line| line.split_once("answer: "));
    line.unwrap_or_else(|| panic!("{text}{}", String::from_utf8_lossy(&output.stderr))).1.into()
}

/// An image for the stand-in: the names of all kernels.
fn image() -> Vec<u8> {
    ALL.iter().map(|kernel| format!("{} ", kernel.name)).collect::<String>().into_bytes()
}

struct Gpu {
    cuda: Cuda,
    stream: <Cuda as Driver>::Stream,
    blocks: u32,
}

impl Gpu {
    fn open(blocks: u32) -> Self {
        let cuda = Cuda::open(0, &[&image()]).unwrap();
        let stream = cuda.stream().unwrap();
        Gpu { cuda, stream, blocks }
    }

    fn buffer(&self, data: &[u8]) -> cuda::Memory {
        let memory = self.poisoned(data.len());
        let mut pinned = self.cuda.pinned(data.len()).unwrap();
        pinned.as_mut().copy_from_slice(data);
        // SAFETY: `pinned` lives until the stream has done it.
        unsafe { self.cuda.upload(&self.stream, &pinned, data.len(), &memory, 0) }.unwrap();
        self.cuda.synchronize(&self.stream).unwrap();
        memory
    }

    fn poisoned(&self, len: usize) -> cuda::Memory {
        let memory = self.cuda.allocate("test", len).unwrap();
        self.cuda.fill(&self.stream, &memory, 0, len, 0xd5).unwrap();
        memory
    }

    fn read(&self, memory: &cuda::Memory) -> Vec<u8> {
        let mut pinned = self.cuda.pinned(memory.len()).unwrap();
        // SAFETY: `pinned` is left alone until the stream has done it.
        unsafe { self.cuda.download(&self.stream, memory, 0, &mut pinned, memory.len()) }.unwrap();
        self.cuda.synchronize(&self.stream).unwrap();
        pinned.as_ref().to_vec()
    }

    fn launch<A: Args>(&self, kernel: &Kernel<A>, args: A) {
        // SAFETY: the tests' arguments are as the kernels ask for, and their buffers live until `read` has waited.
        unsafe { self.cuda.launch(&self.stream, kernel, self.blocks, args) }.unwrap();
    }
}

fn rows(memory: &cuda::Memory, offset: usize, stride: usize, len: usize, repeat: usize) -> View {
    let start = memory.address() + offset as u64;
    View { start, stride: stride as u64, len: len as u64, repeat: repeat as u64 }
}

fn packed(memory: &cuda::Memory, stride: usize) -> ViewMut {
    ViewMut { start: memory.address(), stride: stride as u64 }
}

fn cpu() -> Cpu {
    Cpu::new(1, Isa::best(), &[]).unwrap()
}

#[test]
fn results_are_those_of_the_cpu() {
    for order in ["0", "1", "7"] {
        passes("child_copies_and_hashes", &[("STANDIN_ORDER", order)]);
        passes("child_multiplies", &[("STANDIN_ORDER", order)]);
    }
}

#[test]
#[ignore = "needs the stand-in: results_are_those_of_the_cpu runs it"]
fn child_copies_and_hashes() {
    let (cpu, mut noise) = (cpu(), Noise::new(31));
    let data = noise.bytes(3000);
    let host = bytes(&cpu, &data);
    for blocks in [1, 3] {
        let gpu = Gpu::open(blocks);
        let input = gpu.buffer(&data);
        let start = gpu.cuda.event().unwrap();
        let end = gpu.cuda.event().unwrap();
        gpu.cuda.record(&start, &gpu.stream).unwrap();
        // Ragged lengths and places, gaps, shared strings.
        for (offset, stride, len, repeat, count) in [(0, 64, 64, 1, 5), (7, 45, 32, 2, 9), (1, 0, 1000, 1, 3)] {
            let mut expected = cpu.bytes(count * len).unwrap();
            let view = Rows { buffer: &host, offset, stride, len, repeat };
            cpu.copy(count, view, RowsMut::packed(&mut expected, len));
            let out = gpu.poisoned(count * len);
            let view = rows(&input, offset, stride, len, repeat);
            gpu.launch(&COPY_BYTES, CopyArgs { input: view, out: packed(&out, len), count: count as u64 });
            assert_eq!(gpu.read(&out), read(&cpu, &expected, count * len));
        }
        for (f, kernel, digest) in [(Hash::Sha3_256, &HASH_256, 32), (Hash::Sha3_512, &HASH_512, 64)] {
            for (first, second) in [(32, 0), (32, 136), (71, 1), (448, 333)] {
                let count = 3;
                let fields = [(5, 450, first), (1500, 300, second)];
                let parts = fields.map(|(offset, stride, len)| Rows { buffer: &host, offset, stride, len, repeat: 1 });
                let mut expected = cpu.bytes(count * digest).unwrap();
                cpu.hash(f, count, &parts, RowsMut::packed(&mut expected, digest));
                let [a, b] = fields.map(|(offset, stride, len)| rows(&input, offset, stride, len, 1));
                let out = gpu.poisoned(count * digest);
                let parts = [a, b, View::EMPTY];
                gpu.launch(kernel, HashArgs { parts, out: packed(&out, digest), count: count as u64, suffix: 6 });
                assert_eq!(gpu.read(&out), read(&cpu, &expected, count * digest), "{f:?} of {first} + {second}");
            }
        }
        gpu.cuda.record(&end, &gpu.stream).unwrap();
        gpu.cuda.wait(&gpu.stream, &end).unwrap();
        gpu.cuda.synchronize(&gpu.stream).unwrap();
        assert!(gpu.cuda.elapsed_s(&start, &end).unwrap() > 0.0);
    }
}

#[test]
#[ignore = "needs the stand-in: results_are_those_of_the_cpu runs it"]
fn child_multiplies() {
    let (cpu, mut noise) = (cpu(), Noise::new(32));
    // Ragged against tiles of 64 columns; two matrices, three items.
    for (n, blocks) in [(32, 1), (96, 3), (160, 5)] {
        let gpu = Gpu::open(blocks);
        let (matrices, count, per_matrix, encoded) = (2, 3, 2, 256 * n / 4 * 7);
        let rho = noise.bytes(32 * matrices);
        let (r, e1) = (noise.rows(256 * count, n, 12), noise.rows(256 * count, n, 12));

        let mut a = cpu.matrices(matrices, n, MatrixForm::Stored).unwrap();
        cpu.expand(matrices, Rows::packed(&bytes(&cpu, &rho), 32), &mut a);
        let mut expected = cpu.bytes(count * encoded).unwrap();
        let out = RowsMut::packed(&mut expected, encoded);
        cpu.multiply(count, &small(&cpu, &r), 12, &a, per_matrix, &small(&cpu, &e1), out);
        let expected = read(&cpu, &expected, count * encoded);

        let signed = |rows: &[Vec<i8>]| gpu.buffer(&rows.concat().iter().map(|&x| x as u8).collect::<Vec<_>>());
        let streams = matrices * n;
        let (rho, r, e1) = (gpu.buffer(&rho), signed(&r), signed(&e1));
        let (entropy, keys) = (gpu.poisoned(streams * ENTROPY_BYTES), gpu.poisoned(streams * 4 * STREAM_WORDS));
        let (planes, terms) = (gpu.poisoned(matrices * 2 * n * n), gpu.poisoned(4 * 256 * count));
        let (count_64, n_64) = (count as u64, n as u64);
        gpu.launch(
            &STREAM_SEEDS,
            SeedsArgs {
                seeds: rows(&rho, 0, 32, 32, 1),
                out: entropy.address(),
                count: matrices as u64,
                per_seed: n_64,
                first: 0,
                tag: b'A'.into(),
            },
        );
        gpu.launch(&STREAM_KEYS, KeysArgs { entropy: entropy.address(), out: keys.address(), count: streams as u64 });
        gpu.launch(
            &EXPAND_COLUMNS,
            ExpandArgs {
                streams: keys.address(),
                planes: planes.address(),
                count: matrices as u64,
                columns: n_64,
                n: n_64,
                plane_bytes: n_64 * n_64,
                piece_bytes: 2 * n_64 * n_64,
            },
        );
        let rows_64 = 256 * count_64;
        gpu.launch(
            &CENTRE_TERMS,
            CentreTermsArgs { small: r.address(), terms: terms.address(), rows: rows_64, n: n_64 },
        );
        for splits in [1, 2] {
            let out = gpu.poisoned(count * encoded);
            let partial = gpu.poisoned(2 * 256 * count * splits * n);
            let splits = splits as u64;
            gpu.launch(
                &PRODUCT,
                ProductArgs {
                    r: r.address(),
                    matrices: planes.address(),
                    e1: e1.address(),
                    centre_terms: terms.address(),
                    out: packed(&out, encoded),
                    partial: partial.address(),
                    count: count_64,
                    per_matrix: per_matrix as u64,
                    n: n_64,
                    splits,
                },
            );
            if splits > 1 {
                gpu.launch(
                    &FINISH_ROWS,
                    FinishRowsArgs {
                        partial: partial.address(),
                        centre_terms: terms.address(),
                        e: e1.address(),
                        out: packed(&out, encoded),
                        rows: rows_64,
                        rows_per_item: 256,
                        n: n_64,
                        splits,
                    },
                );
            }
            assert_eq!(gpu.read(&out), expected, "n = {n}, {splits} splits");
            if n == 32 {
                break;
            }
        }
    }
}

#[test]
fn failures_are_one_clear_line() {
    let said = |settings: &[(&str, &str)]| answer(standin(), settings);
    assert_eq!(said(&[]), "all well");
    for (settings, expected) in [
        (
            ("STANDIN_DEVICES", "0"),
            "device cuda: open the driver: initialize: CUDA_ERROR_NO_DEVICE (said by the stand-in)",
        ),
        (
            ("STANDIN_DRIVER", "11020"),
            "device cuda: open the driver: the driver is of CUDA 11.2, at least 11.4 is needed: update it",
        ),
        (
            ("STANDIN_FAIL", "image"),
            "device cuda:0: load kernels: an image for sm_80, driver of CUDA 12.4: CUDA_ERROR_INVALID_IMAGE (said by the stand-in)",
        ),
        (("STANDIN_FAIL", "allocate:2"), "device cuda:0: second buffer: out of memory: 0.000 GB needed, 1.074 GB free"),
        (("STANDIN_MEMORY", "150"), "device cuda:0: second buffer: out of memory: 0.000 GB needed, 0.000 GB free"),
        (
            ("STANDIN_FAIL", "launch:hash_256"),
            "device cuda:0: launch: hash_256: CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES (said by the stand-in)",
        ),
        (
            ("STANDIN_FAIL", "sticky:hash_256"),
            "device cuda:0: synchronize: hash_256: CUDA_ERROR_ILLEGAL_ADDRESS (said by the stand-in)",
        ),
        (("STANDIN_FAIL", "skip:hash_256"), "nothing was written"),
    ] {
        assert_eq!(said(&[settings]), expected, "{settings:?}");
    }
    let removed = build("cuEventElapsedTime");
    assert_eq!(
        answer(&removed, &[]),
        "device cuda: open the driver: libcuda lacks cuEventElapsedTime: update NVIDIA's driver"
    );
    // Where the machine has no driver of its own.
    let text = answer(Path::new("/nonexistent"), &[]);
    let missing =
        "device cuda: open the driver: no libcuda.so.1 here: install NVIDIA's driver, or choose another --backend";
    assert!(!text.contains("open the driver") || text == missing, "{text}");
}

#[test]
#[ignore = "needs the stand-in: failures_are_one_clear_line runs it"]
fn child_answers() {
    let work = || -> Result<String, Error> {
        let cuda = Cuda::open(0, &[&image()])?;
        let stream = cuda.stream()?;
        let input = cuda.allocate("first buffer", 100)?;
        let out = cuda.allocate("second buffer", 100)?;
        cuda.fill(&stream, &out, 0, 100, 0xd5)?;
        let parts = [rows(&input, 0, 0, 100, 1), View::EMPTY, View::EMPTY];
        let args = HashArgs { parts, out: packed(&out, 32), count: 3, suffix: 6 };
        // SAFETY: three digests of 32 bytes go to 100 bytes.
        unsafe { cuda.launch(&stream, &HASH_256, 1, args) }?;
        cuda.synchronize(&stream)?;
        let mut pinned = cuda.pinned(96)?;
        // SAFETY: `pinned` is left alone until the stream has done it.
        unsafe { cuda.download(&stream, &out, 0, &mut pinned, 96) }?;
        cuda.synchronize(&stream)?;
        let written = pinned.as_ref().iter().any(|&byte| byte != 0xd5);
        Ok(if written { "all well" } else { "nothing was written" }.into())
    };
    let text = work().unwrap_or_else(|error| {
        assert_eq!(error.exit_code(), 3);
        error.to_string()
    });
    println!("answer: {text}");
}

#[test]
fn devices_are_told_apart() {
    passes("child_lists_devices", &[("STANDIN_DEVICES", "3"), ("STANDIN_ARCHITECTURE", "90")]);
}

#[test]
#[ignore = "needs the stand-in: devices_are_told_apart runs it"]
fn child_lists_devices() {
    let devices = cuda::devices().unwrap();
    assert_eq!(devices.len(), 3);
    for (i, device) in devices.iter().enumerate() {
        assert_eq!((device.index, device.architecture.as_str(), device.units), (i, "sm_90", 2));
        assert_eq!(device.uuid, format!("e0e1e2e3e4e5e6e7e8e9eaebecedee{i:02x}"));
        assert_eq!((device.name.clone(), device.pci.clone()), (format!("stand-in {i}"), format!("0000:1{i}:00.0")));
    }
    let cuda = Cuda::open(2, &[&image()]).unwrap();
    assert_eq!(cuda.facts(), &devices[2]);
    let before = cuda.memory().unwrap();
    let buffer = cuda.allocate("test", 4096).unwrap();
    assert_eq!(cuda.memory().unwrap().free_bytes, before.free_bytes - buffer.len() as u64);
    drop(buffer);
    assert_eq!(cuda.memory().unwrap(), before);
    drop(cuda);
    let error = Cuda::open(3, &[&image()]).err().unwrap().to_string();
    assert_eq!(error, "device cuda:3: open the device: there are 3 devices, from cuda:0 on");
    let error = Cuda::open(0, &[b"hash_256 hash_512"]).err().unwrap().to_string();
    assert_eq!(error, "device cuda:0: load kernels: no image for sm_90 has parallel_hash_leaves");
}
