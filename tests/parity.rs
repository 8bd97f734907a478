//! The CPU's operations against plain twins, written from the specification of LWE-KEM alone.

mod common;

use std::slice;

use common::device::{Bytes, Noise, bytes, read, small, small_rows};
use lwe_mpi::{
    backend::cpu::Cpu,
    drbg::{Cipher, CtrDrbg},
    hash,
    noise::Cdt,
    ops::{Hash, Ops, Rows, RowsMut, Sampler},
};

const Q: i64 = 12289;
/// Ragged against tiles of 256 columns and 512 rows, below and above.
const DIMENSIONS: [usize; 7] = [32, 64, 96, 288, 544, 800, 1056];

/// The first `len` bytes of Stream(seed, tag, index).
fn stream(seed: &[u8], tag: u8, index: u32, len: usize) -> Vec<u8> {
    let mut entropy_input = [0; 48];
    hash::shake256(&[seed, &[tag], &index.to_le_bytes()], &mut entropy_input);
    let mut drbg = CtrDrbg::instantiate(Cipher::Aes256, &entropy_input, &[]).unwrap();
    let mut out = Vec::new();
    while out.len() < len {
        let mut request = vec![0; 65536];
        drbg.generate(&mut request, &[]).unwrap();
        out.extend(request);
    }
    out.truncate(len);
    out
}

fn words(bytes: &[u8]) -> impl Iterator<Item = i64> {
    bytes.chunks(2).map(|word| i64::from(word[0]) + 256 * i64::from(word[1]))
}

/// The first `n` values of uniform(rho, "A", j): column j of A.
fn column(rho: &[u8], j: usize, n: usize) -> Vec<i64> {
    // 15 of 16 words are kept: twice as many as needed are far more than enough.
    let bytes = stream(rho, b'A', j as u32, 4 * n + 256);
    let column: Vec<i64> = words(&bytes).filter(|&w| w < 5 * Q).map(|w| w % Q).take(n).collect();
    assert_eq!(column.len(), n);
    column
}

/// A by columns: `matrix(…)[j][i]` is row i, column j.
fn matrix(rho: &[u8], n: usize) -> Vec<Vec<i64>> {
    (0..n).map(|j| column(rho, j, n)).collect()
}

/// ByteEncode₁₄, bit after bit.
fn encode(values: &[i64]) -> Vec<u8> {
    let mut out = vec![0; values.len() * 14 / 8];
    for bit in 0..values.len() * 14 {
        out[bit / 8] |= ((values[bit / 14] >> (bit % 14) & 1) << (bit % 8)) as u8;
    }
    out
}

/// ByteDecode₁₄.
fn decode(bytes: &[u8]) -> Vec<i64> {
    let bit = |i: usize| i64::from(bytes[i / 8] >> (i % 8) & 1);
    (0..bytes.len() * 8 / 14).map(|value| (0..14).map(|k| bit(14 * value + k) << k).sum()).collect()
}

fn inner(a: &[i64], b: &[i8]) -> i64 {
    a.iter().zip(b).map(|(&a, &b)| a * i64::from(b)).sum()
}

/// r·A + e1 mod q.
fn row_product(r: &[i8], a: &[Vec<i64>], e1: &[i8]) -> Vec<i64> {
    a.iter().zip(e1).map(|(column, &e1)| (inner(column, r) + i64::from(e1)).rem_euclid(Q)).collect()
}

/// A·s + e mod q.
fn key_product(a: &[Vec<i64>], s: &[i8], e: &[i8]) -> Vec<i64> {
    let mut t: Vec<i64> = e.iter().map(|&e| e.into()).collect();
    for (column, &s) in a.iter().zip(s) {
        t.iter_mut().zip(column).for_each(|(t, &a)| *t += a * i64::from(s));
    }
    t.iter().map(|t| t.rem_euclid(Q)).collect()
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

/// Every entry of every matrix, read through unit vectors.
#[test]
fn the_matrix_is_the_specified_one() {
    let cpu = Cpu::new(2).unwrap();
    let mut noise = Noise::new(1);
    for n in DIMENSIONS {
        let count = if n < 500 { 3 } else { 2 };
        let seeds = Seeds::new(&mut noise, count);
        let buffer = bytes(&cpu, &seeds.data);
        // One more than is filled.
        let mut a = cpu.matrices(count + 1, n).unwrap();
        cpu.expand(count, seeds.rows(&buffer), &mut a);
        let per_matrix = n.div_ceil(256);
        let items = count * per_matrix;
        let mut units = vec![vec![0i8; n]; items * 256];
        for (row, unit) in units.iter_mut().enumerate() {
            if let Some(entry) = unit.get_mut(row % (256 * per_matrix)) {
                *entry = 1;
            }
        }
        let zero = cpu.small(items * 256, n).unwrap();
        let c_bytes = 256 * n / 8 * 14;
        let mut out = cpu.bytes(items * c_bytes).unwrap();
        cpu.multiply(items, &small(&cpu, &units), 1, &a, per_matrix, &zero, RowsMut::packed(&mut out, c_bytes));
        let out = read(&cpu, &out, items * c_bytes);
        for (i, found) in out.chunks(per_matrix * c_bytes).enumerate() {
            let expected = matrix(seeds.seed(i), n);
            for (k, row) in found.chunks(n / 8 * 14).take(n).enumerate() {
                let expected: Vec<i64> = expected.iter().map(|column| column[k]).collect();
                assert_eq!(decode(row), expected, "n = {n}, matrix {i}, row {k}");
            }
        }
    }
}

/// A multiplication as the twin does it, with the output's gaps untouched.
struct Multiply<'a> {
    n: usize,
    count: usize,
    per_matrix: usize,
    r: &'a [Vec<i8>],
    r_max: u8,
    e1: &'a [Vec<i8>],
}

impl Multiply<'_> {
    /// Compares with the product of the matrices given by columns.
    #[track_caller]
    fn check(&self, cpu: &Cpu, a: &<Cpu as Ops>::Matrices, columns: &[Vec<Vec<i64>>]) {
        const GAP: u8 = 0xa5;
        let (row_bytes, offset) = (self.n / 8 * 14, 5);
        let stride = 256 * row_bytes + 9;
        let len = offset + self.count * stride;
        let mut out = bytes(cpu, &vec![GAP; len]);
        let (r, e1) = (small(cpu, self.r), small(cpu, self.e1));
        cpu.multiply(self.count, &r, self.r_max, a, self.per_matrix, &e1, RowsMut { buffer: &mut out, offset, stride });
        let mut expected = vec![GAP; len];
        for item in 0..self.count {
            for j in 0..256 {
                let row = 256 * item + j;
                let u = row_product(&self.r[row], &columns[item / self.per_matrix], &self.e1[row]);
                expected[offset + item * stride + j * row_bytes..][..row_bytes].copy_from_slice(&encode(&u));
            }
        }
        let wrong = read(cpu, &out, len).iter().zip(&expected).position(|(found, expected)| found != expected);
        assert_eq!(wrong, None, "n = {}, {} items, {} a matrix: first wrong byte", self.n, self.count, self.per_matrix);
    }
}

/// Key generation's product, and then encapsulation's with the matrices that it left, for several matrices at once.
#[test]
fn products_are_exact() {
    let mut noise = Noise::new(2);
    for (round, n) in DIMENSIONS.into_iter().enumerate() {
        let cpu = Cpu::new(1 + round % 3).unwrap();
        let combinations: &[(usize, usize, usize)] = match n {
            // Matrices, items per matrix, items.
            0..500 => &[(1, 1, 1), (2, 2, 4), (2, 3, 5), (3, 1, 3)],
            544 => &[(2, 2, 3)],
            800 => &[(1, 3, 3)],
            _ => &[(2, 1, 2)],
        };
        for &(matrices, per_matrix, count) in combinations {
            let seeds = Seeds::new(&mut noise, matrices);
            let buffer = bytes(&cpu, &seeds.data);
            let columns: Vec<_> = (0..matrices).map(|i| matrix(seeds.seed(i), n)).collect();
            let (s, e) = (noise.rows(matrices, n, 3), noise.rows(matrices, n, 4));
            let (row_bytes, offset) = (n / 8 * 14, 32);
            let stride = row_bytes + offset;
            let mut t = cpu.bytes(matrices * stride).unwrap();
            let mut a = cpu.matrices(matrices, n).unwrap();
            cpu.expand_multiply(
                matrices,
                seeds.rows(&buffer),
                &small(&cpu, &s),
                3,
                &small(&cpu, &e),
                &mut a,
                RowsMut { buffer: &mut t, offset, stride },
            );
            for (i, found) in read(&cpu, &t, matrices * stride).chunks(stride).enumerate() {
                assert_eq!(found[..offset], [0; 32], "the bytes before t are not touched");
                assert_eq!(decode(&found[offset..]), key_product(&columns[i], &s[i], &e[i]), "n = {n}, matrix {i}");
            }
            let (r, e1) = (noise.rows(256 * count, n, 4), noise.rows(256 * count, n, 4));
            Multiply { n, count, per_matrix, r: &r, r_max: 4, e1: &e1 }.check(&cpu, &a, &columns);
        }
    }
}

#[test]
fn products_of_extremes_are_exact() {
    let cpu = Cpu::new(2).unwrap();
    let mut noise = Noise::new(3);
    let n = 544;
    let rho = noise.bytes(32);
    let columns = vec![matrix(&rho, n)];
    let rho = bytes(&cpu, &rho);
    let mut a = cpu.matrices(1, n).unwrap();
    let mut t = cpu.bytes(n / 8 * 14).unwrap();
    for sign in [1i8, -1] {
        let (s, e) = (vec![vec![3 * sign; n]], vec![vec![4 * sign; n]]);
        let out = RowsMut::packed(&mut t, n / 8 * 14);
        cpu.expand_multiply(1, Rows::packed(&rho, 32), &small(&cpu, &s), 3, &small(&cpu, &e), &mut a, out);
        assert_eq!(decode(&read(&cpu, &t, n / 8 * 14)), key_product(&columns[0], &s[0], &e[0]));
    }
    // Rows of +4, of −4, and of both; e1 the other way round.
    let row = |j: usize, k: usize, max: i8| if [k % 2, 0, 1][j % 3] == 0 { max } else { -max };
    for max in [4i8, 127] {
        let r: Vec<Vec<i8>> = (0..256).map(|j| (0..n).map(|k| row(j, k, max)).collect()).collect();
        let e1: Vec<Vec<i8>> = (0..256).map(|j| (0..n).map(|k| row(j, k, -max)).collect()).collect();
        Multiply { n, count: 1, per_matrix: 1, r: &r, r_max: max as u8, e1: &e1 }.check(&cpu, &a, &columns);
    }
}

/// The widest noise as it is sampled.
#[test]
fn products_of_the_widest_noise_are_exact() {
    let cpu = Cpu::new(2).unwrap();
    let mut noise = Noise::new(4);
    let n = 1024;
    let table = Cdt::gaussian(25.0).unwrap();
    let (rho, seed) = (noise.bytes(32), noise.bytes(32));
    let mut a = cpu.matrices(1, n).unwrap();
    cpu.expand(1, Rows::packed(&bytes(&cpu, &rho), 32), &mut a);
    let sampled = [b'r', b'x'].map(|tag| {
        let mut out = cpu.small(256, n).unwrap();
        let sampler = Sampler::Table(table.clone());
        cpu.sample(&sampler, 1, Rows::packed(&bytes(&cpu, &seed), 32), tag, 256, &mut out);
        small_rows(&cpu, &out, 256, n)
    });
    assert!(sampled[0].concat().iter().any(|x| x.unsigned_abs() > 75), "beyond three widths");
    let [r, e1] = &sampled;
    Multiply { n, count: 1, per_matrix: 1, r, r_max: table.max_magnitude(), e1 }.check(&cpu, &a, &[matrix(&rho, n)]);
}

/// Sums that leave 32 bits unless they are reduced in between: coefficients of ±127 with the signs of the centred
/// entries that they meet.
#[test]
fn sums_beyond_32_bits_are_exact() {
    // One thread: the whole of a sum is one partial sum.
    let cpu = Cpu::new(1).unwrap();
    let mut noise = Noise::new(5);
    let n = 6144;
    let rho = noise.bytes(32);
    let rho_buffer = bytes(&cpu, &rho);
    let columns = matrix(&rho, n);
    let aligned = |entries: &[i64], sign: i64| -> Vec<i8> {
        let beyond: i64 = entries.iter().map(|&a| 127 * (a - 6144).abs()).sum();
        assert!(beyond > i64::from(i32::MAX), "{beyond}");
        entries.iter().map(|&a| (127 * sign * if a < 6144 { -1 } else { 1 }) as i8).collect()
    };

    // s meets row 77 of A.
    let row: Vec<i64> = columns.iter().map(|column| column[77]).collect();
    let (mut a, mut t) = (cpu.matrices(1, n).unwrap(), cpu.bytes(n / 8 * 14).unwrap());
    for sign in [1, -1] {
        let (s, e) = (aligned(&row, sign), vec![127; n]);
        let out = RowsMut::packed(&mut t, n / 8 * 14);
        let (s_small, e_small) = (small(&cpu, slice::from_ref(&s)), small(&cpu, slice::from_ref(&e)));
        cpu.expand_multiply(1, Rows::packed(&rho_buffer, 32), &s_small, 127, &e_small, &mut a, out);
        assert!(decode(&read(&cpu, &t, n / 8 * 14)) == key_product(&columns, &s, &e), "sign {sign}");
    }
    // Row j of r meets column 24·j.
    let met = |j: usize| &columns[24 * j];
    let r: Vec<Vec<i8>> = (0..256).map(|j| aligned(met(j), if j % 2 == 0 { 1 } else { -1 })).collect();
    let e1 = vec![vec![-127; n]; 256];
    let c_bytes = 256 * n / 8 * 14;
    let mut out = cpu.bytes(c_bytes).unwrap();
    cpu.multiply(1, &small(&cpu, &r), 127, &a, 1, &small(&cpu, &e1), RowsMut::packed(&mut out, c_bytes));
    for (j, found) in read(&cpu, &out, c_bytes).chunks(n / 8 * 14).enumerate() {
        let found = decode(found);
        for k in 0..256 {
            assert_eq!(found[24 * k], (inner(met(k), &r[j]) - 127).rem_euclid(Q), "row {j}, column {}", 24 * k);
        }
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
    let cpu = Cpu::new(2).unwrap();
    let mut noise = Noise::new(6);
    // Pieces of 1024 coefficients and requests of 65536 bytes, with a rest.
    for (n, count, per_seed) in [(32, 3, 256), (1056, 2, 3), (2048, 1, 2), (33 * 1024, 2, 1)] {
        let seeds = Seeds::new(&mut noise, count);
        let buffer = bytes(&cpu, &seeds.data);
        let mut out = cpu.small(count * per_seed, n).unwrap();
        cpu.sample(&Sampler::Table(Cdt::chi()), count, seeds.rows(&buffer), b'x', per_seed, &mut out);
        for (row, found) in small_rows(&cpu, &out, count * per_seed, n).iter().enumerate() {
            let bytes = stream(seeds.seed(row / per_seed), b'x', (row % per_seed) as u32, 2 * n);
            assert!(*found == words(&bytes).map(chi).collect::<Vec<i8>>(), "n = {n}, row {row}");
        }
        cpu.sample(&Sampler::Cbd3, count, seeds.rows(&buffer), b's', per_seed, &mut out);
        for (row, found) in small_rows(&cpu, &out, count * per_seed, n).iter().enumerate() {
            let bytes = stream(seeds.seed(row / per_seed), b's', (row % per_seed) as u32, n);
            assert!(*found == bytes.into_iter().map(cbd3).collect::<Vec<i8>>(), "n = {n}, row {row}");
        }
    }
}

/// Strings that overlap, are shared or lie apart are read where the view says.
#[test]
fn views_of_rows_are_followed() {
    let cpu = Cpu::new(2).unwrap();
    let data = Noise::new(7).bytes(1000);
    let buffer = bytes(&cpu, &data);
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
            let mut out = bytes(&cpu, &vec![0xa5; 2 + count * gap]);
            write(RowsMut::packed(&mut out, gap).field(2));
            for (i, found) in read(&cpu, &out, 2 + count * gap)[2..].chunks(gap).enumerate() {
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

#[test]
fn one_different_byte_selects_the_other_string() {
    let cpu = Cpu::new(2).unwrap();
    let mut noise = Noise::new(8);
    for len in [1, 2, 63, 64, 65, 127, 200, 448 * 32 + 448] {
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
        let [a, b, yes_buffer, no_buffer] = [&a, &b, &yes, &no].map(|data| bytes(&cpu, data));
        let mut out = cpu.bytes(count * 32).unwrap();
        let no_rows = Rows::packed(&no_buffer, 32).repeated(2);
        let out_rows = RowsMut::packed(&mut out, 32);
        let (a, b) = (Rows::packed(&a, len), Rows::packed(&b, len));
        cpu.select_equal(count, a, b, Rows::packed(&yes_buffer, 32), no_rows, out_rows);
        for (i, found) in read(&cpu, &out, count * 32).chunks(32).enumerate() {
            let expected = if i % 2 == 0 { &no[i / 2 * 32..][..32] } else { &yes[i * 32..][..32] };
            assert_eq!(found, expected, "length {len}, item {i}, different at {}", positions[i / 2]);
        }
    }
}

/// v of messages: t up to q − 1, r and e2 of extremes and at random, a key for two messages.
#[test]
fn messages_are_encoded_exactly() {
    let cpu = Cpu::new(2).unwrap();
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
        let [ek, m_buffer] = [&ek, &m].map(|data| bytes(&cpu, data));
        let mut out = cpu.bytes(count * 448).unwrap();
        let t_rows = Rows::packed(&ek, 32 + row_bytes).field(32, row_bytes).repeated(2);
        let m_rows = Rows::packed(&m_buffer, 32);
        cpu.encode_message(count, t_rows, &small(&cpu, &r), &small(&cpu, &e2), m_rows, RowsMut::packed(&mut out, 448));
        for (item, found) in read(&cpu, &out, count * 448).chunks(448).enumerate() {
            let v = |j: usize| {
                let bit = i64::from(m[32 * item + j / 8] >> (j % 8) & 1);
                (inner(&t[item / 2], &r[256 * item + j]) + i64::from(e2[item][j]) + bit * (Q / 2)).rem_euclid(Q)
            };
            assert_eq!(decode(found), (0..256).map(v).collect::<Vec<i64>>(), "n = {n}, message {item}");
        }
    }
}

/// Every v from 0 to 16383 with s = 0, and whatever a ciphertext holds with s of extremes and at random.
#[test]
fn messages_are_decoded_exactly() {
    let bit = |mu: i64| u8::from(Q / 4 < mu && mu < Q - Q / 4);
    let cpu = Cpu::new(2).unwrap();
    let mut noise = Noise::new(10);
    let decode_all = |n: usize, s: &[Vec<i8>], per_key: usize, c: &[u8], stride: usize| {
        let count = c.len() / stride;
        let mut m = cpu.bytes(count * 32).unwrap();
        let c = bytes(&cpu, c);
        let rows = Rows::packed(&c, stride).field(0, 448 * n + 448);
        cpu.decode_message(count, &small(&cpu, s), per_key, rows, RowsMut::packed(&mut m, 32));
        read(&cpu, &m, count * 32)
    };
    let n = 32;
    let all: Vec<i64> = (0..16384).collect();
    let c: Vec<u8> = all.chunks(256).flat_map(|v| [vec![0xff; 448 * n], encode(v)].concat()).collect();
    let m = decode_all(n, &[vec![0; n]], 64, &c, 448 * n + 448);
    for v in all {
        assert_eq!(m[v as usize / 8] >> (v % 8) & 1, bit(v % Q), "v = {v}");
    }
    for n in DIMENSIONS {
        let s = [noise.rows(2, n, 3), vec![vec![3; n], vec![-3; n]], noise.rows(1, n, 127)].concat();
        let stride = 448 * n + 448 + 3;
        // Two ciphertexts a key; every other one has all its bits set.
        let mut c = noise.bytes(2 * s.len() * stride);
        c.chunks_mut(stride).skip(1).step_by(2).for_each(|c| c.fill(0xff));
        let m = decode_all(n, &s, 2, &c, stride);
        for (item, c) in c.chunks(stride).enumerate() {
            let (u, v) = c[..448 * n + 448].split_at(448 * n);
            let v = decode(v);
            for (j, u) in u.chunks(n / 8 * 14).enumerate() {
                let mu = (v[j] - inner(&decode(u), &s[item / 2])).rem_euclid(Q);
                assert_eq!(m[32 * item + j / 8] >> (j % 8) & 1, bit(mu), "n = {n}, ciphertext {item}, bit {j}");
            }
        }
    }
}
