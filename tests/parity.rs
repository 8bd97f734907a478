//! The CPU's operations against plain twins, written from the specification of LWE-KEM alone, for every instruction set
//! of the machine and both forms of matrices.

mod common;
#[path = "parity/plain.rs"]
mod plain;
#[path = "parity/products.rs"]
mod products;

use common::device::{Bytes, Noise, bytes, read, small, small_rows};
use lwe_mpi::{
    backend::cpu::{Cpu, isa::Isa},
    hash,
    noise::Cdt,
    ops::{Hash, Ops, Rows, RowsMut, Sampler},
};
use plain::{Q, decode, encode, inner, stream, words};

/// Ragged against blocks of 256 columns, against bands of 512 rows and of 1024, and against steps of 64 rows.
const DIMENSIONS: [usize; 8] = [32, 64, 96, 288, 544, 800, 1056, 1088];

/// The backend once for each instruction set of the machine.
fn cpus(threads: usize) -> Vec<Cpu> {
    Isa::available().map(|isa| Cpu::new(threads, isa, &[]).unwrap()).collect()
}

/// What runs, for the message of an assertion.
fn label(cpu: &Cpu, n: usize) -> String {
    format!("{}, n = {n}", cpu.device().isa)
}

/// Seeds inside a buffer with an offset and gaps, and the view of them.
struct Seeds {
    data: Vec<u8>,
    offset: usize,
    stride: usize,
}

impl Seeds {
    fn new(noise: &mut Noise, count: usize) -> Self {
        Seeds { data: noise.bytes(7 + 45 * count), offset: 7, stride: 45 }
    }

    fn seed(&self, i: usize) -> &[u8] {
        &self.data[self.offset + i * self.stride..][..32]
    }

    fn rows<'a, B>(&self, buffer: &'a B) -> Rows<'a, B> {
        Rows { buffer, offset: self.offset, stride: self.stride, len: 32, repeat: 1 }
    }
}

#[test]
fn samples_are_the_specified_ones() {
    let chi = |w: i64| {
        let magnitude = [12547, 28389, 32360, 32752, 32767].iter().filter(|&&t| w >> 1 > t).count() as i8;
        if w & 1 == 1 { -magnitude } else { magnitude }
    };
    let cbd3 = |b: u8| {
        let bit = |k: u8| (b >> k & 1) as i8;
        bit(0) + bit(1) + bit(2) - bit(3) - bit(4) - bit(5)
    };
    let cpus = cpus(2);
    let mut noise = Noise::new(6);
    // Groups of 8 rows, pieces of 1024 coefficients and requests of 65536 bytes, with a rest.
    for (n, count, per_seed) in [(32, 3, 256), (96, 5, 1), (1056, 2, 3), (2048, 1, 2), (33 * 1024, 2, 1)] {
        let seeds = Seeds::new(&mut noise, count);
        let row = |tag, coefficient_bytes: usize, row: usize| {
            stream(seeds.seed(row / per_seed), tag, (row % per_seed) as u32, coefficient_bytes * n)
        };
        let rows = 0..count * per_seed;
        let small_x: Vec<Vec<i8>> = rows.clone().map(|j| words(&row(b'x', 2, j)).map(chi).collect()).collect();
        let small_s: Vec<Vec<i8>> = rows.map(|j| row(b's', 1, j).into_iter().map(cbd3).collect()).collect();
        for cpu in &cpus {
            let buffer = bytes(cpu, &seeds.data);
            let mut out = cpu.small(count * per_seed, n).unwrap();
            for (sampler, tag, expected) in
                [(Sampler::Table(Cdt::chi()), b'x', &small_x), (Sampler::Cbd3, b's', &small_s)]
            {
                cpu.sample(&sampler, count, seeds.rows(&buffer), tag, per_seed, &mut out);
                let found = small_rows(cpu, &out, count * per_seed, n);
                let wrong = found.iter().zip(expected).position(|(found, expected)| found != expected);
                assert_eq!(wrong, None, "{}, {sampler:?}: first wrong row", label(cpu, n));
            }
        }
    }
}

/// Strings that overlap, are shared or lie apart are read where the view says.
#[test]
fn views_of_rows_are_followed() {
    cpus(2).iter().for_each(follow_views);
}

fn follow_views(cpu: &Cpu) {
    let data = Noise::new(7).bytes(1000);
    let buffer = bytes(cpu, &data);
    let views = [
        Rows::packed(&buffer, 40),
        Rows::packed(&buffer, 40).repeated(3),
        Rows::packed(&buffer, 100).field(37, 21),
        Rows { buffer: &buffer, offset: 11, stride: 0, len: 13, repeat: 1 },
        Rows { buffer: &buffer, offset: 3, stride: 5, len: 50, repeat: 2 },
    ];
    let string = |view: &Rows<_>, i: usize| &data[view.offset + i / view.repeat * view.stride..][..view.len];
    let (count, gap) = (7, 80);
    for (k, view) in views.iter().enumerate() {
        let check = |write: &dyn Fn(RowsMut<Bytes>), expected: &dyn Fn(usize) -> Vec<u8>| {
            let mut out = bytes(cpu, &vec![0xa5; 2 + count * gap]);
            write(RowsMut::packed(&mut out, gap).field(2));
            for (i, found) in read(cpu, &out, 2 + count * gap)[2..].chunks(gap).enumerate() {
                let expected = expected(i);
                assert_eq!(found[..expected.len()], expected, "view {k}, string {i}");
                assert!(found[expected.len()..].iter().all(|&byte| byte == 0xa5), "view {k}: the gap after {i}");
            }
        };
        let other = &views[(k + 1) % views.len()];
        let joined = |i: usize| [string(view, i), string(other, i)].concat();
        let digest = |i: usize| {
            let mut digest = [0; 32];
            hash::parallel_hash256(string(view, i), 16, b"views", &mut digest);
            digest.to_vec()
        };
        check(&|out| cpu.copy(count, *view, out), &|i| string(view, i).to_vec());
        let parts = [*view, *other];
        check(&|out| cpu.hash(Hash::Sha3_256, count, &parts, out), &|i| hash::sha3_256(&[&joined(i)]).to_vec());
        check(&|out| cpu.hash(Hash::Sha3_512, count, &parts, out), &|i| hash::sha3_512(&[&joined(i)]).to_vec());
        check(&|out| cpu.parallel_hash256(count, 16, b"views", *view, out), &digest);
    }
}

/// Messages of lengths about the hashes' block sizes, in numbers that leave a rest of the lanes; ciphertexts' digests with
/// a short last block.
#[test]
fn hashes_are_the_specified_ones() {
    let cpus = cpus(2);
    let mut noise = Noise::new(12);
    let check = |count: usize, strings: &[&[u8]], what: &str, hash: &dyn Fn(&Cpu, RowsMut<Bytes>)| {
        for cpu in &cpus {
            let len = strings[0].len();
            let mut out = cpu.bytes(count * len).unwrap();
            hash(cpu, RowsMut::packed(&mut out, len));
            let found = read(cpu, &out, count * len);
            let wrong = found.chunks(len).zip(strings).position(|(found, expected)| found != *expected);
            assert_eq!(wrong, None, "{}, {what}: first wrong digest of {count}", cpu.device().isa);
        }
    };
    for (k, len) in [1, 32, 36, 64, 71, 72, 73, 135, 136, 137, 271, 272, 273, 1825].into_iter().enumerate() {
        let count = [1, 7, 8, 9, 17][k % 5];
        let data = noise.bytes(count * len);
        let of_32: Vec<_> = data.chunks(len).map(|message| hash::sha3_256(&[message])).collect();
        let of_64: Vec<_> = data.chunks(len).map(|message| hash::sha3_512(&[message])).collect();
        // In one part and in two.
        for parts in [vec![(0, len)], vec![(0, len / 2), (len / 2, len - len / 2)]] {
            let what = format!("length {len} in {} parts", parts.len());
            let hash = |f, cpu: &Cpu, out: RowsMut<Bytes>| {
                let buffer = bytes(cpu, &data);
                let rows = |&(offset, part)| Rows::packed(&buffer, len).field(offset, part);
                cpu.hash(f, count, &parts.iter().map(rows).collect::<Vec<_>>(), out);
            };
            let expected: Vec<&[u8]> = of_32.iter().map(|digest| &digest[..]).collect();
            check(count, &expected, &what, &|cpu, out| hash(Hash::Sha3_256, cpu, out));
            let expected: Vec<&[u8]> = of_64.iter().map(|digest| &digest[..]).collect();
            check(count, &expected, &what, &|cpu, out| hash(Hash::Sha3_512, cpu, out));
        }
    }
    for (count, len, block_bytes) in [(1, 448 * 32 + 448, 56), (3, 448 * 96 + 448, 168), (2, 1000, 136), (1, 10, 64)] {
        let data = noise.bytes(count * len);
        let digest = |string| {
            let mut digest = [0; 32];
            hash::parallel_hash256(string, block_bytes, b"LWE-KEM", &mut digest);
            digest
        };
        let expected: Vec<_> = data.chunks(len).map(digest).collect();
        let expected: Vec<&[u8]> = expected.iter().map(|digest| &digest[..]).collect();
        check(count, &expected, &format!("{len} bytes in blocks of {block_bytes}"), &|cpu, out| {
            cpu.parallel_hash256(count, block_bytes, b"LWE-KEM", Rows::packed(&bytes(cpu, &data), len), out);
        });
    }
}

#[test]
fn one_different_byte_selects_the_other_string() {
    let cpus = cpus(2);
    let mut noise = Noise::new(8);
    // A task compares 65536 bytes.
    for len in [1, 2, 63, 64, 65, 127, 200, 448 * 32 + 448, 2 * 65536 + 65] {
        let mut positions = vec![0, len / 2, len - 1, 63.min(len - 1), 64.min(len - 1), len / 64 * 64 % len];
        positions.extend((0..6).map(|_| noise.below(len as u64) as usize));
        // Item 2p differs at position p in one bit, item 2p + 1 does not differ.
        let count = 2 * positions.len();
        let a = noise.bytes(count * len);
        let mut b = a.clone();
        for (p, position) in positions.iter().enumerate() {
            b[2 * p * len + position] ^= 1 << noise.below(8);
        }
        let (yes, no) = (noise.bytes(count * 32), noise.bytes(count / 2 * 32));
        for cpu in &cpus {
            let [a, b, yes_buffer, no_buffer] = [&a, &b, &yes, &no].map(|data| bytes(cpu, data));
            let mut out = cpu.bytes(count * 32).unwrap();
            let no_rows = Rows::packed(&no_buffer, 32).repeated(2);
            let out_rows = RowsMut::packed(&mut out, 32);
            let (a, b) = (Rows::packed(&a, len), Rows::packed(&b, len));
            cpu.select_equal(count, a, b, Rows::packed(&yes_buffer, 32), no_rows, out_rows);
            for (i, found) in read(cpu, &out, count * 32).chunks(32).enumerate() {
                let expected = if i % 2 == 0 { &no[i / 2 * 32..][..32] } else { &yes[i * 32..][..32] };
                let (isa, position) = (cpu.device().isa, positions[i / 2]);
                assert_eq!(found, expected, "{isa}, length {len}, item {i}, different at {position}");
            }
        }
    }
}

/// v of messages: t up to q − 1, r and e2 of extremes and at random, a key for two messages.
#[test]
fn messages_are_encoded_exactly() {
    let cpus = cpus(2);
    let mut noise = Noise::new(9);
    for n in DIMENSIONS {
        let (row_bytes, count) = (n / 8 * 14, 4);
        let t: Vec<Vec<i64>> = vec![(0..n).map(|_| noise.below(Q as u64) as i64).collect(), vec![Q - 1; n]];
        // ρ lies before t, as in ek.
        let ek: Vec<u8> = t.iter().flat_map(|t| [vec![0xee; 32], encode(t)].concat()).collect();
        let mut r = noise.rows(256 * count, n, 4);
        let mut e2 = noise.rows(count, 256, 4);
        for item in [1, 3] {
            r[256 * item..256 * item + 128].iter_mut().for_each(|row| row.fill(4));
            r[256 * item + 128..256 * (item + 1)].iter_mut().for_each(|row| row.fill(-4));
            e2[item] = (0..256).map(|j| if j % 2 == 0 { 4 } else { -4 }).collect();
        }
        let m = [noise.bytes(32), vec![0xff; 32], vec![0; 32], noise.bytes(32)].concat();
        let v = |item: usize, j: usize| {
            let bit = i64::from(m[32 * item + j / 8] >> (j % 8) & 1);
            (inner(&t[item / 2], &r[256 * item + j]) + i64::from(e2[item][j]) + bit * (Q / 2)).rem_euclid(Q)
        };
        let expected: Vec<Vec<i64>> = (0..count).map(|item| (0..256).map(|j| v(item, j)).collect()).collect();
        for cpu in &cpus {
            let [ek, m] = [&ek, &m].map(|data| bytes(cpu, data));
            let (r, e2) = (small(cpu, &r), small(cpu, &e2));
            let mut out = cpu.bytes(count * 448).unwrap();
            let t_rows = Rows::packed(&ek, 32 + row_bytes).field(32, row_bytes).repeated(2);
            cpu.encode_message(count, t_rows, &r, &e2, Rows::packed(&m, 32), RowsMut::packed(&mut out, 448));
            let found: Vec<_> = read(cpu, &out, count * 448).chunks(448).map(decode).collect();
            let wrong = found.iter().zip(&expected).position(|(found, expected)| found != expected);
            assert_eq!(wrong, None, "{}: first wrong message", label(cpu, n));
        }
    }
}

/// The backend's messages of ciphertexts `stride` bytes apart, `per_key` to each row of s.
fn decode_all(cpu: &Cpu, s: &[Vec<i8>], per_key: usize, c: &[u8], stride: usize) -> Vec<u8> {
    let (n, count) = (s[0].len(), c.len() / stride);
    let mut m = cpu.bytes(count * 32).unwrap();
    let c = bytes(cpu, c);
    let rows = Rows::packed(&c, stride).field(0, 448 * n + 448);
    cpu.decode_message(count, &small(cpu, s), per_key, rows, RowsMut::packed(&mut m, 32));
    read(cpu, &m, count * 32)
}

/// Every v from 0 to 16383 with s = 0, and whatever a ciphertext holds with s of extremes and at random.
#[test]
fn messages_are_decoded_exactly() {
    let bit = |mu: i64| u8::from(Q / 4 < mu && mu < Q - Q / 4);
    let cpus = cpus(2);
    let mut noise = Noise::new(10);
    let n = 32;
    let all: Vec<i64> = (0..16384).collect();
    let c: Vec<u8> = all.chunks(256).flat_map(|v| [vec![0xff; 448 * n], encode(v)].concat()).collect();
    for cpu in &cpus {
        let m = decode_all(cpu, &[vec![0; n]], 64, &c, 448 * n + 448);
        let wrong = all.iter().find(|&&v| m[v as usize / 8] >> (v % 8) & 1 != bit(v % Q));
        assert_eq!(wrong, None, "{}: first wrong v", label(cpu, n));
    }
    for n in DIMENSIONS {
        let s = [noise.rows(2, n, 3), vec![vec![3; n], vec![-3; n]], noise.rows(1, n, 127)].concat();
        let stride = 448 * n + 448 + 3;
        // Two ciphertexts a key; every other one has all its bits set.
        let mut c = noise.bytes(2 * s.len() * stride);
        c.chunks_mut(stride).skip(1).step_by(2).for_each(|c| c.fill(0xff));
        let mut expected = vec![0; 2 * s.len() * 32];
        for (item, c) in c.chunks(stride).enumerate() {
            let (u, v) = c[..448 * n + 448].split_at(448 * n);
            let v = decode(v);
            for (j, u) in u.chunks(n / 8 * 14).enumerate() {
                let mu = (v[j] - inner(&decode(u), &s[item / 2])).rem_euclid(Q);
                expected[32 * item + j / 8] |= bit(mu) << (j % 8);
            }
        }
        for cpu in &cpus {
            let m = decode_all(cpu, &s, 2, &c, stride);
            let wrong = (0..8 * m.len()).find(|&j| (m[j / 8] ^ expected[j / 8]) >> (j % 8) & 1 != 0);
            assert_eq!(wrong, None, "{}: first wrong bit, 256 a ciphertext", label(cpu, n));
        }
    }
}
