//! Matrices, and their products in key generation and encapsulation.

use std::slice;

use lwe_mpi::{
    backend::cpu::{Cpu, isa::Isa},
    noise::Cdt,
    ops::{MatrixForm, Ops, Rows, RowsMut, Sampler},
};

use crate::{
    DIMENSIONS, Seeds,
    common::device::{Noise, bytes, read, small, small_rows},
    cpus, label,
    plain::{Q, column, decode, encode, inner, key_product, matrix, row_product, stream, words},
};

/// The forms of matrices to test at dimension `n`: the portable loops take seconds at large ones, and do one there.
fn forms(isa: &str, n: usize) -> &'static [MatrixForm] {
    match isa {
        "portable" if n > 600 => &[MatrixForm::Regenerated],
        _ => &[MatrixForm::Stored, MatrixForm::Regenerated],
    }
}

fn in_all_forms(cpus: &[Cpu], n: usize) -> impl Iterator<Item = (&Cpu, MatrixForm)> {
    cpus.iter().flat_map(move |cpu| forms(&cpu.device().isa, n).iter().map(move |&form| (cpu, form)))
}

/// Every entry of every matrix, read through unit vectors.
#[test]
fn the_matrix_is_the_specified_one() {
    let cpus = cpus(2);
    let mut noise = Noise::new(1);
    for n in DIMENSIONS {
        let count = if n < 500 { 3 } else { 2 };
        let seeds = Seeds::new(&mut noise, count);
        let expected: Vec<_> = (0..count).map(|i| matrix(seeds.seed(i), n)).collect();
        let per_matrix = n.div_ceil(256);
        let items = count * per_matrix;
        let mut units = vec![vec![0i8; n]; items * 256];
        for (row, unit) in units.iter_mut().enumerate() {
            if let Some(entry) = unit.get_mut(row % (256 * per_matrix)) {
                *entry = 1;
            }
        }
        let c_bytes = 256 * n / 8 * 14;
        for (cpu, form) in in_all_forms(&cpus, n) {
            let buffer = bytes(cpu, &seeds.data);
            // One more than is filled.
            let mut a = cpu.matrices(count + 1, n, form).unwrap();
            cpu.expand(count, seeds.rows(&buffer), &mut a);
            let zero = cpu.small(items * 256, n).unwrap();
            let mut out = cpu.bytes(items * c_bytes).unwrap();
            cpu.multiply(items, &small(cpu, &units), 1, &a, per_matrix, &zero, RowsMut::packed(&mut out, c_bytes));
            let out = read(cpu, &out, items * c_bytes);
            for (i, found) in out.chunks(per_matrix * c_bytes).enumerate() {
                for (k, row) in found.chunks(n / 8 * 14).take(n).enumerate() {
                    let expected = expected[i].iter().map(|column| column[k]);
                    assert!(decode(row).into_iter().eq(expected), "{}, {form:?}, matrix {i}, row {k}", label(cpu, n));
                }
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
    /// Between the strings of the output: not to be touched.
    expected: Vec<u8>,
}

const GAP: u8 = 0xa5;
const OFFSET: usize = 5;

impl<'a> Multiply<'a> {
    /// `count` items of the matrices given by columns, `per_matrix` of each.
    fn new(
        (count, per_matrix): (usize, usize),
        (r, r_max): (&'a [Vec<i8>], u8),
        e1: &'a [Vec<i8>],
        columns: &[Vec<Vec<i64>>],
    ) -> Self {
        let n = r[0].len();
        let mut new = Multiply { n, count, per_matrix, r, r_max, e1, expected: vec![] };
        let row_bytes = n / 8 * 14;
        new.expected = vec![GAP; OFFSET + count * new.stride()];
        for row in 0..256 * count {
            let u = row_product(&r[row], &columns[row / 256 / per_matrix], &e1[row]);
            let start = OFFSET + row / 256 * new.stride() + row % 256 * row_bytes;
            new.expected[start..][..row_bytes].copy_from_slice(&encode(&u));
        }
        new
    }

    fn stride(&self) -> usize {
        256 * self.n / 8 * 14 + 9
    }

    /// Compares with the backend's product.
    #[track_caller]
    fn check(&self, cpu: &Cpu, a: &<Cpu as Ops>::Matrices) {
        let len = self.expected.len();
        let mut out = bytes(cpu, &vec![GAP; len]);
        let (r, e1) = (small(cpu, self.r), small(cpu, self.e1));
        let rows = RowsMut { buffer: &mut out, offset: OFFSET, stride: self.stride() };
        cpu.multiply(self.count, &r, self.r_max, a, self.per_matrix, &e1, rows);
        let wrong = read(cpu, &out, len).iter().zip(&self.expected).position(|(found, expected)| found != expected);
        let (label, count, per_matrix) = (label(cpu, self.n), self.count, self.per_matrix);
        assert_eq!(wrong, None, "{label}, {count} items, {per_matrix} a matrix: first wrong byte");
    }
}

/// Key generation's product, and then encapsulation's with the matrices that it left, for several matrices at once.
#[test]
fn products_are_exact() {
    let mut noise = Noise::new(2);
    for (round, n) in DIMENSIONS.into_iter().enumerate() {
        let cpus = cpus(1 + round % 3);
        let combinations: &[(usize, usize, usize)] = match n {
            // Matrices, items per matrix, items.
            0..500 => &[(1, 1, 1), (2, 2, 4), (2, 3, 5), (3, 1, 3)],
            544 => &[(2, 2, 3)],
            800 => &[(1, 3, 3)],
            _ => &[(2, 1, 2)],
        };
        for &(matrices, per_matrix, count) in combinations {
            let seeds = Seeds::new(&mut noise, matrices);
            let columns: Vec<_> = (0..matrices).map(|i| matrix(seeds.seed(i), n)).collect();
            let (s, e) = (noise.rows(matrices, n, 3), noise.rows(matrices, n, 4));
            let t: Vec<_> = (0..matrices).map(|i| key_product(&columns[i], &s[i], &e[i])).collect();
            let (r, e1) = (noise.rows(256 * count, n, 4), noise.rows(256 * count, n, 4));
            let multiply = Multiply::new((count, per_matrix), (&r, 4), &e1, &columns);
            for (cpu, form) in in_all_forms(&cpus, n) {
                let buffer = bytes(cpu, &seeds.data);
                let (s, e) = (small(cpu, &s), small(cpu, &e));
                let (row_bytes, offset) = (n / 8 * 14, 32);
                let stride = row_bytes + offset;
                let mut out = cpu.bytes(matrices * stride).unwrap();
                let mut a = cpu.matrices(matrices, n, form).unwrap();
                let rows = RowsMut { buffer: &mut out, offset, stride };
                cpu.expand_multiply(matrices, seeds.rows(&buffer), &s, 3, &e, &mut a, rows);
                for (i, found) in read(cpu, &out, matrices * stride).chunks(stride).enumerate() {
                    assert_eq!(found[..offset], [0; 32], "the bytes before t are not touched");
                    assert!(decode(&found[offset..]) == t[i], "{}, {form:?}, matrix {i}", label(cpu, n));
                }
                multiply.check(cpu, &a);
            }
        }
    }
}

#[test]
fn products_of_extremes_are_exact() {
    let mut noise = Noise::new(3);
    let n = 544;
    let rho = noise.bytes(32);
    let columns = [matrix(&rho, n)];
    let keys = [1i8, -1].map(|sign| {
        let (s, e) = (vec![3 * sign; n], vec![4 * sign; n]);
        let t = key_product(&columns[0], &s, &e);
        (s, e, t)
    });
    // Rows of +4, of −4, and of both; e1 the other way round.
    let row = |j: usize, k: usize, max: i8| if [k % 2, 0, 1][j % 3] == 0 { max } else { -max };
    let rows = [4i8, 127].map(|max| {
        let rows = |max| (0..256).map(|j| (0..n).map(|k| row(j, k, max)).collect()).collect::<Vec<Vec<i8>>>();
        (max as u8, rows(max), rows(-max))
    });
    let products = rows.each_ref().map(|(max, r, e1)| Multiply::new((1, 1), (r, *max), e1, &columns));
    for (cpu, form) in in_all_forms(&cpus(2), n) {
        let rho = bytes(cpu, &rho);
        let mut a = cpu.matrices(1, n, form).unwrap();
        let mut out = cpu.bytes(n / 8 * 14).unwrap();
        for (s, e, t) in &keys {
            let (s, e) = (small(cpu, slice::from_ref(s)), small(cpu, slice::from_ref(e)));
            cpu.expand_multiply(1, Rows::packed(&rho, 32), &s, 3, &e, &mut a, RowsMut::packed(&mut out, n / 8 * 14));
            assert!(decode(&read(cpu, &out, n / 8 * 14)) == *t, "{}, {form:?}", label(cpu, n));
        }
        products.iter().for_each(|product| product.check(cpu, &a));
    }
}

/// The widest noise as it is sampled.
#[test]
fn products_of_the_widest_noise_are_exact() {
    let cpus = cpus(2);
    let mut noise = Noise::new(4);
    let n = 1024;
    let table = Cdt::gaussian(25.0).unwrap();
    let (rho, seed) = (noise.bytes(32), noise.bytes(32));
    // The same for every instruction set, by the twin's word.
    let [r, e1] = [b'r', b'x'].map(|tag| {
        let row = |j| words(&stream(&seed, tag, j, 2 * n)).map(|word| table.sample(word as u16)).collect();
        (0..256).map(row).collect::<Vec<Vec<i8>>>()
    });
    assert!(r.concat().iter().any(|x| x.unsigned_abs() > 75), "beyond three widths");
    let multiply = Multiply::new((1, 1), (&r, table.max_magnitude()), &e1, &[matrix(&rho, n)]);
    for cpu in &cpus {
        for (tag, expected) in [(b'r', &r), (b'x', &e1)] {
            let mut out = cpu.small(256, n).unwrap();
            let sampler = Sampler::Table(table.clone());
            cpu.sample(&sampler, 1, Rows::packed(&bytes(cpu, &seed), 32), tag, 256, &mut out);
            assert!(small_rows(cpu, &out, 256, n) == *expected, "{}, tag {tag}", label(cpu, n));
        }
        for &form in forms(&cpu.device().isa, n) {
            let mut a = cpu.matrices(1, n, form).unwrap();
            cpu.expand(1, Rows::packed(&bytes(cpu, &rho), 32), &mut a);
            multiply.check(cpu, &a);
        }
    }
}

/// Entries with the signs of the centred entries of A that they meet, or with the opposite ones.
fn aligned(entries: &[i64], magnitude: i8, sign: i8) -> Vec<i8> {
    entries.iter().map(|&a| magnitude * sign * if a < 6144 { -1 } else { 1 }).collect()
}

/// Sums that leave 32 bits unless they are reduced in between: coefficients of ±127.
#[test]
fn sums_beyond_32_bits_are_exact() {
    let mut noise = Noise::new(5);
    let n = 6144;
    let rho = noise.bytes(32);
    let columns = matrix(&rho, n);
    let beyond = |entries: &[i64]| entries.iter().map(|&a| 127 * (a - 6144).abs()).sum::<i64>() > i64::from(i32::MAX);
    // s meets row 77 of A.
    let row: Vec<i64> = columns.iter().map(|column| column[77]).collect();
    assert!(beyond(&row));
    let e = vec![127; n];
    let keys = [1, -1].map(|sign| {
        let s = aligned(&row, 127, sign);
        let t = key_product(&columns, &s, &e);
        (s, t)
    });
    // Row j of r meets column 24·j, which every row is checked in.
    let met = |j: usize| &columns[24 * j];
    assert!((0..256).all(|j| beyond(met(j))));
    let r: Vec<Vec<i8>> = (0..256).map(|j| aligned(met(j), 127, if j % 2 == 0 { 1 } else { -1 })).collect();
    let products: Vec<Vec<i64>> =
        r.iter().map(|r| (0..256).map(|k| (inner(met(k), r) - 127).rem_euclid(Q)).collect()).collect();

    for isa in Isa::available() {
        // One thread: the whole of a sum is one partial sum.
        let cpu = Cpu::new(1, isa, &[]).unwrap();
        let rho = bytes(&cpu, &rho);
        let (r, e1) = (small(&cpu, &r), small(&cpu, &vec![vec![-127; n]; 256]));
        let (mut t, c_bytes) = (cpu.bytes(n / 8 * 14).unwrap(), 256 * n / 8 * 14);
        let mut out = cpu.bytes(c_bytes).unwrap();
        for &form in forms(isa.name(), n) {
            let mut a = cpu.matrices(1, n, form).unwrap();
            for (s, expected) in &keys {
                let (s, e) = (small(&cpu, slice::from_ref(s)), small(&cpu, slice::from_ref(&e)));
                let to = RowsMut::packed(&mut t, n / 8 * 14);
                cpu.expand_multiply(1, Rows::packed(&rho, 32), &s, 127, &e, &mut a, to);
                assert!(decode(&read(&cpu, &t, n / 8 * 14)) == *expected, "{}, {form:?}", label(&cpu, n));
            }
            cpu.multiply(1, &r, 127, &a, 1, &e1, RowsMut::packed(&mut out, c_bytes));
            for (j, found) in read(&cpu, &out, c_bytes).chunks(n / 8 * 14).enumerate() {
                let found = decode(found);
                let wrong = (0..256).find(|&k| found[24 * k] != products[j][k]);
                assert_eq!(wrong, None, "{}, {form:?}, row {j}: first wrong column of 24·k", label(&cpu, n));
            }
        }
    }
}

/// The largest sums of the standard's noise at the largest n: all s = ±3 and all r = ±4, with the signs of the entries
/// that they meet. Only the best instruction set: there are 2³⁸ products.
#[test]
fn the_largest_sums_of_the_standard_are_exact() {
    let cpu = Cpu::new(2, Isa::best(), &[]).unwrap();
    let mut noise = Noise::new(11);
    let n = 32768;
    let (row_bytes, rho) = (n / 8 * 14, noise.bytes(32));
    let buffer = bytes(&cpu, &rho);
    let mut a = cpu.matrices(1, n, MatrixForm::Regenerated).unwrap();

    // s meets row 5; the first rows of all columns are enough to check t there.
    let top: Vec<Vec<i64>> = (0..n).map(|j| column(&rho, j, 8)).collect();
    let row: Vec<i64> = top.iter().map(|column| column[5]).collect();
    let (s, e) = (aligned(&row, 3, 1), vec![4; n]);
    let mut t = cpu.bytes(row_bytes).unwrap();
    let (s_small, e_small) = (small(&cpu, slice::from_ref(&s)), small(&cpu, slice::from_ref(&e)));
    let to = RowsMut::packed(&mut t, row_bytes);
    cpu.expand_multiply(1, Rows::packed(&buffer, 32), &s_small, 3, &e_small, &mut a, to);
    assert_eq!(decode(&read(&cpu, &t, 14)), key_product(&top, &s, &e[..8]));

    // Columns at both ends of blocks, and some at random. Row j of r meets one of them; two rows have one sign.
    let mut met = vec![0, 255, 256, n - 257, n - 1];
    met.extend((0..11).map(|_| noise.below(n as u64) as usize));
    let columns: Vec<_> = met.iter().map(|&j| column(&rho, j, n)).collect();
    let mut r: Vec<_> = (0..256).map(|j| aligned(&columns[j % 16], 4, if j / 16 % 2 == 0 { 1 } else { -1 })).collect();
    (r[100], r[101]) = (vec![4; n], vec![-4; n]);
    let e1: Vec<Vec<i8>> = (0..256).map(|j| vec![if j % 2 == 0 { 4 } else { -4 }; n]).collect();
    let mut out = cpu.bytes(256 * row_bytes).unwrap();
    let to = RowsMut::packed(&mut out, 256 * row_bytes);
    cpu.multiply(1, &small(&cpu, &r), 4, &a, 1, &small(&cpu, &e1), to);
    for (j, found) in read(&cpu, &out, 256 * row_bytes).chunks(row_bytes).enumerate() {
        for (column, &k) in columns.iter().zip(&met) {
            // Four coefficients in seven bytes.
            let found = decode(&found[k / 4 * 7..][..7])[k % 4];
            let expected = (inner(column, &r[j]) + i64::from(e1[j][k])).rem_euclid(Q);
            assert_eq!(found, expected, "{}, row {j}, column {k}", label(&cpu, n));
        }
    }
}
