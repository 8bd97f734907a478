//! The workload in one process: results that depend on the seed and the items alone, wrong results that are found, and
//! failures as frequent as predicted.

mod common;

use std::{cell::Cell, time::Instant};

use common::device::{self, Noise, small_rows};
use lwe_mpi::{
    backend::cpu::{Cpu, isa::Isa},
    bench::{
        pass::Runner,
        plan::Plan,
        run::{self, Outcome, Place},
        verify::{Failure, Fault, Verdict},
        workload::{Exchange, Workload},
    },
    comm::Comm,
    error::Result,
    failure::failure_probability,
    hash::{sha3_256, shake256},
    ops::{DeviceInfo, MatrixForm, Ops, ProductWork, Rows, RowsMut, Sampler},
    params::{LweParams, MESSAGE_BITS},
    schemes::{Kem, Sizes, lwe::LweKem},
};
use zeroize::Zeroizing;

const SEED: [u8; 32] = [0x5e; 32];

fn workload(keys: usize, encaps_per_key: usize) -> Workload {
    Workload { keys, encaps_per_key, exchange: Exchange::Ring, warmup: 0, repeat: 1, batch: None, seed: SEED }
}

fn with_kem<T>(n: usize, threads: usize, body: impl FnOnce(&LweKem<Cpu>) -> T) -> T {
    let cpu = Cpu::new(threads, Isa::best(), &[]).unwrap();
    body(&LweKem::new(&cpu, LweParams::new(n).unwrap(), MatrixForm::Stored).unwrap())
}

fn outcome(n: usize, threads: usize, workload: &Workload) -> Outcome {
    with_kem(n, threads, |kem| run_once(kem, workload))
}

fn run_once<K: Kem>(kem: &K, workload: &Workload) -> Outcome {
    let place = Place { cores: "7".into(), peak_mac_per_s: 2e8 };
    run::run(kem, &Comm::alone(), workload, &place, None, Instant::now(), |_| {}).unwrap().unwrap()
}

/// The fingerprint by its definition, item after item.
fn plain_fingerprint(n: usize, workload: &Workload) -> String {
    with_kem(n, 1, |kem| {
        let (mut keys, mut batch) = (kem.keys(1).unwrap(), kem.batch(1).unwrap());
        let mut digests = Vec::new();
        for key in 0..workload.keys as u64 {
            let mut coins = [0; 64];
            shake256(&[&workload.seed, b"key", &key.to_le_bytes()], &mut coins);
            kem.keygen_derand(&coins, &mut keys).unwrap();
            let mut entries = Vec::new();
            for item in 0..workload.encaps_per_key as u64 {
                let mut m = [0; 32];
                shake256(&[&workload.seed, b"encaps", &key.to_le_bytes(), &item.to_le_bytes()], &mut m);
                kem.encaps_derand(&keys, &m, &mut batch).unwrap();
                entries.extend(kem.digests(&batch).unwrap());
                entries.extend_from_slice(&kem.secrets(&batch).unwrap());
            }
            digests.extend(sha3_256(&[&entries]));
        }
        hex::encode(sha3_256(&[&digests]))
    })
}

#[test]
fn the_fingerprint_depends_on_seed_and_items_alone() {
    let base = workload(3, 5);
    for n in [32, 96, 256] {
        let expected = plain_fingerprint(n, &base);
        let check = |threads: usize, changed: Workload| {
            let found = outcome(n, threads, &changed);
            assert_eq!(found.fingerprint, expected, "n = {n}, {threads} threads, {changed:?}");
            assert!(found.reproducible && found.agreement.failures.is_empty(), "{found:?}");
            assert_eq!((found.agreement.agreed, found.agreement.total), (15, 15));
        };
        for exchange in [Exchange::Ring, Exchange::None] {
            for (i, batch) in [Some(1), Some(2), Some(3), Some(5), Some(64), None].into_iter().enumerate() {
                check(1 + i % 3, Workload { batch, exchange, ..base.clone() });
            }
            for threads in [1, 2, 3] {
                check(threads, Workload { exchange, warmup: threads - 1, repeat: 2, ..base.clone() });
            }
        }
    }
    let others = [
        Workload { seed: [0x5f; 32], ..base.clone() },
        Workload { keys: 4, ..base.clone() },
        Workload { encaps_per_key: 6, ..base.clone() },
        // As many items, other ones.
        Workload { keys: 5, encaps_per_key: 3, ..base.clone() },
    ];
    let mut fingerprints: Vec<String> = others.iter().map(|other| outcome(32, 2, other).fingerprint).collect();
    fingerprints.extend([32, 64, 96].map(|n| outcome(n, 2, &base).fingerprint));
    fingerprints.sort();
    fingerprints.dedup();
    assert_eq!(fingerprints.len(), 7);
}

#[test]
fn the_program_has_the_librarys_fingerprint() {
    let seed = hex::encode(SEED);
    let flags =
        format!("--n 96 --keys 3 --encaps 5 --batch 4 --threads 2 --warmup 1 --repeat 2 --json - --seed {seed}");
    let report = common::lwe_mpi(&flags).expect(0).json();
    assert_eq!(report["fingerprint"], plain_fingerprint(96, &workload(3, 5)));
    assert_eq!((&report["batch"], &report["keys_per_group"]), (&4.into(), &1.into()));
}

/// Two passes of a plan: the records' digests, and what the verdict says.
fn passes<K: Kem>(kem: &K, workload: &Workload, plan: Plan) -> ([Vec<u8>; 2], Verdict) {
    let comm = Comm::alone();
    let mut runner = Runner::new(kem, &comm, workload, plan, None).unwrap();
    let mut verdict = Verdict::new(runner.own(), workload.encaps_per_key);
    for _ in 0..2 {
        let times = runner.pass().unwrap();
        assert!(times.total.windows_s[0] >= times.keygen.busy_s + times.encaps.busy_s + times.decaps.busy_s);
        assert_eq!(times.sent_bytes, 0, "a world of one sends nothing");
        verdict.check(&comm, workload.exchange, &runner.encapsulated, &runner.decapsulated).unwrap();
    }
    ([runner.encapsulated.digests(), runner.decapsulated.digests()], verdict)
}

/// Keys that stay or are loaded again, one round or many, whole and ragged groups and batches.
#[test]
fn every_plan_gives_the_same_results() {
    let (n, keys, per_key) = (64, 5, 4);
    let expected = plain_fingerprint(n, &workload(keys, per_key));
    with_kem(n, 2, |kem| {
        let mut seen = Vec::new();
        for exchange in [Exchange::Ring, Exchange::None] {
            let workload = Workload { exchange, ..workload(keys, per_key) };
            for resident in [true, false] {
                for (keys_per_group, items_per_batch, batches_per_round) in
                    [(5, 4, 1), (1, 1, 1), (1, 1, 7), (1, 3, 2), (2, 4, 1), (2, 3, 4), (3, 1, 5), (4, 2, 100)]
                {
                    let batches = keys.div_ceil(keys_per_group) * per_key.div_ceil(items_per_batch);
                    let rounds = batches.div_ceil(batches_per_round);
                    let plan = Plan { keys_per_group, items_per_batch, batches_per_round, rounds, resident };
                    let ([encapsulated, decapsulated], verdict) = passes(kem, &workload, plan);
                    assert!(encapsulated == decapsulated && verdict.agreed() == keys * per_key, "{plan:?}");
                    assert_eq!(hex::encode(sha3_256(&[&encapsulated])), expected, "{plan:?}");
                    assert_eq!(verdict.into_fingerprint(), Some((expected.clone(), true)), "{plan:?}");
                    seen.push((rounds, resident));
                }
            }
        }
        assert!(seen.contains(&(20, false)) && seen.contains(&(1, true)));
    });
}

/// A mechanism of hashes with a defect. ek = H(coins), dk = ek, c = coins, D(c) = H(c), K = H(ek ‖ c).
struct Defective<'a> {
    workload: &'a Workload,
    defect: Defect,
    /// Key and item of the encapsulations that the defect hits.
    hit: &'a [(usize, usize)],
    /// The passes that it hits; a pass makes all keys in one call.
    from_pass: usize,
    passes: Cell<usize>,
    products: Cell<ProductWork>,
}

#[derive(Clone, Copy, Debug)]
enum Defect {
    /// Both sides hold 32 times this byte.
    Constant(u8),
    /// Both sides hold this one secret, which is not constant.
    Repeated,
    /// The decapsulating side holds another secret.
    Disagreeing,
    /// The decapsulating side saw another ciphertext, and has its secret.
    OtherCiphertext,
    /// The decapsulating side saw another ciphertext and holds the same secret.
    OtherDigest,
    /// None.
    None,
}

#[derive(Default)]
struct Items {
    c: Vec<[u8; 32]>,
    digests: Vec<u8>,
    secrets: Vec<u8>,
}

impl Defective<'_> {
    fn hits(&self, c: &[u8; 32]) -> bool {
        let coins = |&(key, item): &(usize, usize)| self.workload.encaps_coins(key..key + 1, item..item + 1, 32);
        self.passes.get() > self.from_pass && self.hit.iter().any(|item| coins(item)[..] == c[..])
    }

    fn finish(&self, eks: &[[u8; 32]], batch: &mut Items, decapsulates: bool) {
        let per_key = batch.c.len() / eks.len();
        let ProductWork { macs, busy_s } = self.products.get();
        // The first pass is ten times as slow as the others.
        let speed = if self.passes.get() == 1 { 1e7 } else { 1e8 };
        let more = 1000 * batch.c.len() as u64;
        self.products.set(ProductWork { macs: macs + more, busy_s: busy_s + more as f64 / speed });
        batch.digests.clear();
        batch.secrets.clear();
        for (i, c) in batch.c.iter().enumerate() {
            let (mut digest, mut secret) = (sha3_256(&[c]), sha3_256(&[&eks[i / per_key], c]));
            if self.hits(c) {
                match self.defect {
                    Defect::Constant(byte) => secret = [byte; 32],
                    Defect::Repeated => secret = sha3_256(&[b"one for all"]),
                    Defect::Disagreeing if decapsulates => secret[31] ^= 0x80,
                    Defect::OtherCiphertext if decapsulates => {
                        digest[0] ^= 1;
                        secret[0] ^= 1;
                    }
                    Defect::OtherDigest if decapsulates => digest[31] ^= 1,
                    _ => {}
                }
            }
            batch.digests.extend(digest);
            batch.secrets.extend(secret);
        }
    }
}

impl Kem for Defective<'_> {
    type Keys = Vec<[u8; 32]>;
    type Batch = Items;

    fn sizes(&self) -> Sizes {
        Sizes { keygen_coins: 64, encaps_coins: 32, ek: 32, dk: 32, c: 32, digest: 32, k: 32 }
    }
    fn device(&self) -> DeviceInfo {
        DeviceInfo { name: "hashes".into(), units: 1, available_bytes: 1 << 30, isa: "none".into() }
    }
    fn product_work(&self) -> ProductWork {
        self.products.get()
    }
    fn keys(&self, _: usize) -> Result<Self::Keys> {
        Ok(Vec::new())
    }
    fn keys_bytes(&self, count: usize) -> u64 {
        32 * count as u64
    }
    fn batch(&self, _: usize) -> Result<Items> {
        Ok(Items::default())
    }
    fn batch_bytes(&self, items: usize) -> u64 {
        96 * items as u64
    }
    fn keygen_derand(&self, coins: &[u8], keys: &mut Self::Keys) -> Result<()> {
        self.passes.set(self.passes.get() + 1);
        *keys = coins.chunks(64).map(|coins| sha3_256(&[coins])).collect();
        Ok(())
    }
    fn load_ek(&self, eks: &[u8], keys: &mut Self::Keys) -> Result<()> {
        *keys = eks.as_chunks().0.to_vec();
        Ok(())
    }
    fn load_dk(&self, dks: &[u8], keys: &mut Self::Keys) -> Result<()> {
        self.load_ek(dks, keys)
    }
    fn ek(&self, keys: &Self::Keys) -> Result<Vec<u8>> {
        Ok(keys.concat())
    }
    fn dk(&self, keys: &Self::Keys) -> Result<Zeroizing<Vec<u8>>> {
        Ok(Zeroizing::new(keys.concat()))
    }
    fn encaps_derand(&self, keys: &Self::Keys, coins: &[u8], batch: &mut Items) -> Result<()> {
        batch.c = coins.as_chunks().0.to_vec();
        self.finish(keys, batch, false);
        Ok(())
    }
    fn load_c(&self, cs: &[u8], batch: &mut Items) -> Result<()> {
        batch.c = cs.as_chunks().0.to_vec();
        Ok(())
    }
    fn decaps(&self, keys: &Self::Keys, batch: &mut Items) -> Result<()> {
        self.finish(keys, batch, true);
        Ok(())
    }
    fn c(&self, batch: &Items, out: &mut Vec<u8>) -> Result<()> {
        *out = batch.c.concat();
        Ok(())
    }
    fn read_digests(&self, batch: &Items, out: &mut Vec<u8>) -> Result<()> {
        out.clone_from(&batch.digests);
        Ok(())
    }
    fn read_secrets(&self, batch: &Items, out: &mut Zeroizing<Vec<u8>>) -> Result<()> {
        Vec::clone_from(out, &batch.secrets);
        Ok(())
    }
}

#[test]
fn wrong_secrets_are_found_where_they_are() {
    let everything: Vec<(usize, usize)> = (0..4).flat_map(|key| (0..3).map(move |item| (key, item))).collect();
    let some = [(0, 0), (2, 1), (3, 2)];
    for exchange in [Exchange::Ring, Exchange::None] {
        let workload = Workload { exchange, ..workload(4, 3) };
        for (defect, fault, hit) in [
            (Defect::None, None, &everything[..]),
            (Defect::Constant(0), Some(Fault::ConstantSecret), &some[1..2]),
            (Defect::Constant(0x5a), Some(Fault::ConstantSecret), &some[..]),
            (Defect::Constant(0), Some(Fault::ConstantSecret), &everything[..]),
            (Defect::Repeated, Some(Fault::RepeatedSecret), &some[..]),
            (Defect::Repeated, Some(Fault::RepeatedSecret), &everything[..]),
            // Once is no repetition.
            (Defect::Repeated, None, &some[..1]),
            (Defect::Disagreeing, Some(Fault::SecretDiffers), &some[..]),
            (Defect::OtherCiphertext, Some(Fault::CiphertextDiffers), &some[..]),
            (Defect::OtherDigest, Some(Fault::CiphertextDiffers), &some[..]),
        ] {
            let kem = Defective {
                workload: &workload,
                defect,
                hit,
                from_pass: 0,
                passes: Cell::new(0),
                products: Cell::default(),
            };
            let plan = Plan { keys_per_group: 4, items_per_batch: 2, batches_per_round: 1, rounds: 2, resident: true };
            let (_, verdict) = passes(&kem, &workload, plan);
            let hit = if fault.is_some() { hit } else { &[] };
            let expected: Vec<Failure> =
                hit.iter().map(|&(key, item)| Failure { rank: 0, key, item, fault: fault.unwrap() }).collect();
            assert_eq!(verdict.failures(0, 100), expected, "{exchange:?}, {defect:?}");
            assert_eq!(verdict.failures(0, 1), expected[..expected.len().min(1)]);
            assert_eq!(verdict.agreed(), 12 - expected.len(), "{exchange:?}, {defect:?}");
        }
    }
}

/// One bad pass of many, a warm-up too, spoils the run.
#[test]
fn a_late_defect_is_found() {
    let workload = Workload { warmup: 1, repeat: 2, ..workload(4, 3) };
    for from_pass in [0, 1, 2] {
        let hit = &[(1, 2)];
        let kem = Defective {
            workload: &workload,
            defect: Defect::Disagreeing,
            hit,
            from_pass,
            passes: Cell::new(0),
            products: Cell::default(),
        };
        let outcome = run_once(&kem, &workload);
        assert_eq!((outcome.agreement.agreed, outcome.agreement.total), (11, 12));
        let [failure] = &outcome.agreement.failures[..] else { panic!("{:?}", outcome.agreement) };
        assert_eq!((failure.rank, failure.encapsulating_rank, failure.key, failure.item), (0, 0, 1, 2));
        assert_eq!(failure.fault, Fault::SecretDiffers.describe());
        assert_eq!(outcome.reproducible, from_pass == 0, "the fingerprint changes after pass {from_pass}");
    }
}

/// The products' speed is that of measured passes alone, and the caller's facts are in the rows.
#[test]
fn products_are_counted_in_measured_passes() {
    for (warmup, expected) in [(1, 1e8), (0, 2e8 / 11.0)] {
        let workload = Workload { warmup, repeat: 2, ..workload(4, 3) };
        let kem = Defective {
            workload: &workload,
            defect: Defect::None,
            hit: &[],
            from_pass: 0,
            passes: Cell::new(0),
            products: Cell::default(),
        };
        let outcome = run_once(&kem, &workload);
        let speed = outcome.product_mac_per_s.unwrap();
        assert!((speed / expected - 1.0).abs() < 1e-9, "{speed}");
        let [row] = &outcome.ranks_table[..] else { panic!("{:?}", outcome.ranks_table) };
        assert_eq!((row.product_mac_per_s, row.peak_mac_per_s), (Some(speed), outcome.peak_mac_per_s));
        assert_eq!((outcome.peak_mac_per_s, row.cores.as_str()), (2e8, "7"));
    }
}

/// Bits that decrypt wrongly under wide noise are as many as computed, and the noise has its table's variance.
#[test]
fn bits_fail_as_often_as_predicted() {
    let (n, sigma, keys, per_key) = (512, 6.5, 100u32, 2usize);
    let params = LweParams::new(n).unwrap().with_sigma(sigma).unwrap();
    let predicted = failure_probability(&params).log2_per_bit.unwrap().exp2();
    assert!((0.01..0.05).contains(&predicted), "{predicted}");

    let cpu = Cpu::new(2, Isa::best(), &[]).unwrap();
    let table = params.error_table();
    let (sampler, max) = (Sampler::Table(table.clone()), table.max_magnitude());
    let (row_bytes, c_bytes) = (params.row_bytes(), params.c_bytes());
    let mut noise = Noise::new(1);
    let (mut a, mut t) = (cpu.matrices(1, n, MatrixForm::Stored).unwrap(), cpu.bytes(row_bytes).unwrap());
    let (mut s, mut e) = (cpu.small(1, n).unwrap(), cpu.small(1, n).unwrap());
    let rows = per_key * MESSAGE_BITS;
    let (mut r, mut e1) = (cpu.small(rows, n).unwrap(), cpu.small(rows, n).unwrap());
    let mut e2 = cpu.small(per_key, MESSAGE_BITS).unwrap();
    let mut c = cpu.bytes(per_key * c_bytes).unwrap();
    let mut decoded = cpu.bytes(per_key * 32).unwrap();
    let mut wrong = 0;
    let mut moments = [Moments::default(); 2];
    for key in 0..keys {
        let seeds = device::bytes(&cpu, &noise.bytes(32 * (2 + per_key)));
        let seed = |from: usize| Rows { buffer: &seeds, offset: 32 * from, stride: 32, len: 32, repeat: 1 };
        cpu.sample(&sampler, 1, seed(0), b's', 1, &mut s);
        cpu.sample(&sampler, 1, seed(0), b'e', 1, &mut e);
        cpu.expand_multiply(1, seed(1), &s, max, &e, &mut a, RowsMut::packed(&mut t, row_bytes));
        cpu.sample(&sampler, per_key, seed(2), b'r', MESSAGE_BITS, &mut r);
        cpu.sample(&sampler, per_key, seed(2), b'x', MESSAGE_BITS, &mut e1);
        cpu.sample(&sampler, per_key, seed(2), b'y', 1, &mut e2);
        cpu.multiply(per_key, &r, max, &a, per_key, &e1, RowsMut::packed(&mut c, c_bytes));
        let m = noise.bytes(32 * per_key);
        let v = RowsMut::packed(&mut c, c_bytes).field(MESSAGE_BITS * row_bytes);
        let t_of_all = Rows::packed(&t, row_bytes).repeated(per_key);
        cpu.encode_message(per_key, t_of_all, &r, &e2, Rows::packed(&device::bytes(&cpu, &m), 32), v);
        cpu.decode_message(per_key, &s, per_key, Rows::packed(&c, c_bytes), RowsMut::packed(&mut decoded, 32));
        let decoded = device::read(&cpu, &decoded, 32 * per_key);
        wrong += m.iter().zip(decoded).map(|(m, decoded)| (m ^ decoded).count_ones()).sum::<u32>();
        if key < 10 {
            moments[0].add(&small_rows(&cpu, &r, rows, n).concat());
            moments[1].add(&small_rows(&cpu, &e1, rows, n).concat());
        }
    }
    let bits = f64::from(keys * per_key as u32 * MESSAGE_BITS as u32);
    assert!(bits >= 50_000.0);
    let deviation = (predicted * (1.0 - predicted) / bits).sqrt();
    let observed = f64::from(wrong) / bits;
    assert!(
        (observed - predicted).abs() < 5.0 * deviation,
        "{observed} of all bits, {predicted} ± {deviation} expected"
    );

    // Second and fourth moments of the table, whose odd ones are 0.
    let weights = table.weights();
    let moment = |power: i32| -> f64 {
        let terms = weights.iter().enumerate().map(|(k, &weight)| f64::from(weight) * (k as f64).powi(power));
        2.0 * terms.sum::<f64>() / 65536.0
    };
    let (variance, fourth) = (moment(2), moment(4));
    assert!(variance > 40.0);
    for Moments { count, sum, squares } in moments {
        let (mean, found) = (sum / count, squares / count);
        assert!(mean.abs() < 5.0 * (variance / count).sqrt(), "mean {mean}");
        let deviation = ((fourth - variance * variance) / count).sqrt();
        assert!((found - variance).abs() < 5.0 * deviation, "variance {found}, {variance} ± {deviation} expected");
    }
}

#[derive(Clone, Copy, Default)]
struct Moments {
    count: f64,
    sum: f64,
    squares: f64,
}

impl Moments {
    fn add(&mut self, values: &[i8]) {
        self.count += values.len() as f64;
        for &x in values {
            self.sum += f64::from(x);
            self.squares += f64::from(x).powi(2);
        }
    }
}
