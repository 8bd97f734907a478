//! CTR_DRBG against a second implementation that works byte by byte, its refusals, and LWE-KEM's streams against it.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

use aes::{
    Aes128Enc, Aes192Enc, Aes256Enc,
    cipher::{BlockCipherEncrypt, KeyInit},
};
use lwe_mpi::{
    drbg::{Cipher, CtrDrbg, DrbgError, Input, MAX_DF_INPUT_BYTES, MAX_REQUEST_BYTES, RESEED_INTERVAL, Stream},
    hash::{sha3_256, shake256},
};
use proptest::prelude::*;

const CIPHERS: [Cipher; 3] = [Cipher::Aes128, Cipher::Aes192, Cipher::Aes256];

/// A recognizable output buffer, to see that a refusal left it alone.
const UNTOUCHED: [u8; 50] = [0x5a; 50];

fn encrypt(key: &[u8], mut block: [u8; 16]) -> [u8; 16] {
    match key.len() {
        16 => Aes128Enc::new_from_slice(key).unwrap().encrypt_block((&mut block).into()),
        24 => Aes192Enc::new_from_slice(key).unwrap().encrypt_block((&mut block).into()),
        _ => Aes256Enc::new_from_slice(key).unwrap().encrypt_block((&mut block).into()),
    }
    block
}

/// Bytes that differ from place to place and from call to call.
fn bytes(label: u8, len: usize) -> Vec<u8> {
    (0..len).map(|i| (i as u8).wrapping_mul(37) ^ label).collect()
}

/// SP 800-90A Rev. 1, 10.2.1, without derivation function, in its own words: V is a string of bytes.
struct Reference {
    key: Vec<u8>,
    v: [u8; 16],
}

impl Reference {
    /// Key = 0 and V = 0, as before the first Update.
    fn zero(cipher: Cipher) -> Self {
        Reference { key: vec![0; cipher.key_bytes()], v: [0; 16] }
    }

    fn instantiate(cipher: Cipher, entropy_input: &[u8]) -> Self {
        let mut reference = Reference::zero(cipher);
        reference.update(entropy_input);
        reference
    }

    /// E(V+1) ‖ E(V+2) ‖ …, cut to `len` bytes.
    fn blocks(&mut self, len: usize) -> Vec<u8> {
        let mut out = Vec::new();
        while out.len() < len {
            for byte in self.v.iter_mut().rev() {
                let carry = *byte == 0xff;
                *byte = if carry { 0 } else { *byte + 1 };
                if !carry {
                    break;
                }
            }
            out.extend(encrypt(&self.key, self.v));
        }
        out.truncate(len);
        out
    }

    fn update(&mut self, provided_data: &[u8]) {
        let mut temp = self.blocks(self.key.len() + 16);
        temp.iter_mut().zip(provided_data).for_each(|(byte, provided)| *byte ^= provided);
        let v = temp.split_off(self.key.len());
        self.key = temp;
        self.v = v.try_into().unwrap();
    }

    fn generate(&mut self, len: usize, additional_input: Option<&[u8]>) -> Vec<u8> {
        if let Some(additional_input) = additional_input {
            self.update(additional_input);
        }
        let out = self.blocks(len);
        self.update(additional_input.unwrap_or(&[]));
        out
    }
}

/// The entropy input that leads to Key and V, without derivation function: the first Update XORs it to three blocks.
fn entropy_input_for(cipher: Cipher, key: &[u8], v: &[u8; 16]) -> Vec<u8> {
    let mut entropy_input = Reference::zero(cipher).blocks(cipher.seed_bytes());
    entropy_input.iter_mut().zip(key.iter().chain(v)).for_each(|(byte, wanted)| *byte ^= wanted);
    entropy_input
}

/// Without derivation function, from fixed entropy.
fn plain(cipher: Cipher) -> CtrDrbg {
    CtrDrbg::instantiate(cipher, &bytes(1, cipher.seed_bytes()), &[]).unwrap()
}

/// With derivation function, from fixed entropy.
fn with_df(cipher: Cipher) -> CtrDrbg {
    CtrDrbg::instantiate_df(cipher, &bytes(1, cipher.key_bytes()), &bytes(2, cipher.key_bytes() / 2), &[]).unwrap()
}

fn next(drbg: &mut CtrDrbg) -> Vec<u8> {
    let mut out = vec![0; 50];
    drbg.generate(&mut out, &[]).unwrap();
    out
}

fn wrong_length(input: Input, bytes: usize, min_bytes: usize, max_bytes: u64) -> DrbgError {
    DrbgError::WrongLength { input, bytes: bytes as u64, min_bytes: min_bytes as u64, max_bytes }
}

#[test]
fn counters_carry_into_every_byte() {
    for cipher in CIPHERS {
        let key = bytes(9, cipher.key_bytes());
        for carry_bytes in 1..=16 {
            // The block with the carry is the first, within a batch, at the edge of one, in a rest, and in the Update.
            for blocks_before in [0, 1, 37, 63, 64, 130, 131] {
                let mut v = [0x3c; 16];
                v[16 - carry_bytes..].fill(0xff);
                v[15] -= blocks_before;
                let entropy_input = entropy_input_for(cipher, &key, &v);
                let mut reference = Reference::instantiate(cipher, &entropy_input);
                assert_eq!((&reference.key, reference.v), (&key, v));
                let mut drbg = CtrDrbg::instantiate(cipher, &entropy_input, &[]).unwrap();
                for request in 0..2 {
                    let mut out = [0; 130 * 16 + 5];
                    drbg.generate(&mut out, &[]).unwrap();
                    let expected = reference.generate(out.len(), None);
                    assert!(out[..] == expected, "{cipher:?}, {carry_bytes}, {blocks_before}, request {request}");
                }
            }
        }
    }
}

#[test]
fn every_length_of_output_is_a_cut_of_the_same_blocks() {
    for cipher in CIPHERS {
        for len in [0, 1, 15, 16, 17, 1023, 1024, 1025, MAX_REQUEST_BYTES - 1, MAX_REQUEST_BYTES] {
            let (mut drbg, mut out) = (plain(cipher), vec![0; len]);
            let mut reference = Reference::instantiate(cipher, &bytes(1, cipher.seed_bytes()));
            drbg.generate(&mut out, &[]).unwrap();
            assert!(out == reference.generate(len, None), "{cipher:?}, {len} bytes");
            assert_eq!(next(&mut drbg), reference.generate(50, None), "{cipher:?}, after {len} bytes");
        }
    }
}

#[test]
fn empty_additional_input_is_null() {
    for cipher in CIPHERS {
        let seedlen = cipher.seed_bytes();
        for additional_input in [vec![], vec![0], vec![0; seedlen], bytes(3, 5), bytes(3, seedlen)] {
            let (mut drbg, mut out) = (plain(cipher), [0; 50]);
            let mut reference = Reference::instantiate(cipher, &bytes(1, seedlen));
            drbg.generate(&mut out, &additional_input).unwrap();
            let null = additional_input.is_empty();
            assert_eq!(out[..], reference.generate(50, (!null).then_some(&additional_input)), "{cipher:?}");
            assert_eq!(next(&mut drbg), reference.generate(50, None));
            // An Update with zeros is not the same as none.
            assert_eq!(null, out[..] == next(&mut plain(cipher)));
        }
        // With derivation function: one zero byte is an input, the empty string is not.
        let mut out = [0; 50];
        with_df(cipher).generate(&mut out, &[0]).unwrap();
        assert_ne!(out[..], next(&mut with_df(cipher)));
    }
}

#[test]
fn wrong_lengths_are_refused_at_instantiation() {
    for cipher in CIPHERS {
        let (strength, seedlen) = (cipher.security_strength_bytes(), cipher.seed_bytes());
        for len in 0..=2 * seedlen {
            let input = bytes(4, len);
            let got = CtrDrbg::instantiate(cipher, &input, &[]).err();
            let exact = wrong_length(Input::EntropyInput, len, seedlen, seedlen as u64);
            assert_eq!(got, (len != seedlen).then_some(exact));

            let got = CtrDrbg::instantiate(cipher, &bytes(1, seedlen), &input).err();
            let longer = wrong_length(Input::PersonalizationString, len, 0, seedlen as u64);
            assert_eq!(got, (len > seedlen).then_some(longer));

            let got = CtrDrbg::instantiate_df(cipher, &input, &bytes(2, strength), &[]).err();
            let shorter = wrong_length(Input::EntropyInput, len, strength, MAX_DF_INPUT_BYTES);
            assert_eq!(got, (len < strength).then_some(shorter));

            let got = CtrDrbg::instantiate_df(cipher, &bytes(1, strength), &input, &input).err();
            let shorter = wrong_length(Input::Nonce, len, strength / 2, MAX_DF_INPUT_BYTES);
            assert_eq!(got, (len < strength / 2).then_some(shorter));
        }
    }
}

#[test]
fn refused_calls_change_neither_state_nor_output() {
    for cipher in CIPHERS {
        let (strength, seedlen) = (cipher.security_strength_bytes(), cipher.seed_bytes());
        let (seed, long) = (bytes(5, seedlen), bytes(6, seedlen + 1));
        let mut drbg = plain(cipher);
        let mut out = UNTOUCHED;
        let too_long = Err(wrong_length(Input::AdditionalInput, seedlen + 1, 0, seedlen as u64));
        assert_eq!(drbg.generate(&mut out, &long), too_long);
        assert_eq!(drbg.reseed(&seed, &long), too_long);
        assert_eq!(drbg.generate_with_prediction_resistance(&mut out, &seed, &long), too_long);
        for len in (0..=2 * seedlen).filter(|&len| len != seedlen) {
            let wrong = Err(wrong_length(Input::EntropyInput, len, seedlen, seedlen as u64));
            assert_eq!(drbg.reseed(&bytes(7, len), &[]), wrong);
            assert_eq!(drbg.generate_with_prediction_resistance(&mut out, &bytes(7, len), &[]), wrong);
        }
        assert_eq!((out, drbg.reseed_counter()), (UNTOUCHED, 1));
        assert_eq!(next(&mut drbg), next(&mut plain(cipher)));

        let mut drbg = with_df(cipher);
        for len in 0..strength {
            let short = Err(wrong_length(Input::EntropyInput, len, strength, MAX_DF_INPUT_BYTES));
            assert_eq!(drbg.reseed(&bytes(7, len), &long), short);
            assert_eq!(drbg.generate_with_prediction_resistance(&mut out, &bytes(7, len), &long), short);
        }
        assert_eq!((out, drbg.reseed_counter()), (UNTOUCHED, 1));
        assert_eq!(next(&mut drbg), next(&mut with_df(cipher)));
        // The derivation function takes what the plain generator refuses.
        assert_eq!(drbg.reseed(&bytes(7, strength), &long), Ok(()));
        assert_eq!(drbg.generate(&mut out, &long), Ok(()));
    }
}

#[test]
fn requests_above_the_limit_are_refused() {
    let too_large = Err(DrbgError::RequestTooLarge { bytes: MAX_REQUEST_BYTES + 1 });
    let mut out = vec![0x5a; MAX_REQUEST_BYTES + 1];
    for cipher in CIPHERS {
        for make in [plain, with_df] {
            let mut drbg = make(cipher);
            assert_eq!(drbg.generate(&mut out, &[]), too_large);
            let entropy_input = bytes(8, cipher.seed_bytes());
            assert_eq!(drbg.generate_with_prediction_resistance(&mut out, &entropy_input, &[]), too_large);
            assert!(out.iter().all(|&byte| byte == 0x5a));
            assert_eq!(drbg.reseed_counter(), 1);
            assert_eq!(next(&mut drbg), next(&mut make(cipher)));
            assert_eq!(drbg.reseed_counter(), 2);
        }
    }
}

#[test]
fn errors_say_what_was_wrong() {
    let short = CtrDrbg::instantiate(Cipher::Aes256, &[0; 47], &[]).unwrap_err();
    assert_eq!(short.to_string(), "entropy input: 47 bytes, need 48 to 48");
    let large = CtrDrbg::from_system().unwrap().generate(&mut vec![0; 65537], &[]).unwrap_err();
    assert_eq!(large.to_string(), "a request for 65537 bytes; at most 65536 are served at once");
    assert!(DrbgError::ReseedRequired.to_string().contains(&RESEED_INTERVAL.to_string()));
}

#[test]
fn the_system_seeds_generators_apart() {
    let [mut one, mut two] = [(); 2].map(|()| CtrDrbg::from_system().unwrap());
    assert_eq!(one.cipher(), Cipher::Aes256);
    assert_ne!(next(&mut one), next(&mut two));
}

#[test]
fn debug_output_shows_no_secret() {
    let drbg = CtrDrbg::instantiate(Cipher::Aes256, &[0; 48], &[]).unwrap();
    assert_eq!(format!("{drbg:?}"), "CtrDrbg { cipher: Aes256, uses_df: false, reseed_counter: 1, .. }");
    assert_eq!(format!("{:?}", Stream::new(&[0; 32], b'A', 0)), "Stream { request_read_bytes: 0, .. }");
}

const SEED: [u8; 32] = *b"the seed of the streams of a tes";

/// The stream of SEED, "x" and 0x8004_0201 by its definition, cut to `len` bytes.
fn stream_by_definition(len: usize) -> Vec<u8> {
    let mut entropy_input = [0; 48];
    shake256(&[&SEED, b"x", &[0x01, 0x02, 0x04, 0x80]], &mut entropy_input);
    let mut drbg = CtrDrbg::instantiate(Cipher::Aes256, &entropy_input, &[]).unwrap();
    let mut out = vec![0; len.next_multiple_of(MAX_REQUEST_BYTES)];
    for request in out.chunks_mut(MAX_REQUEST_BYTES) {
        drbg.generate(request, &[]).unwrap();
    }
    out.truncate(len);
    out
}

/// The same stream, read in pieces of the given lengths, over and over.
fn stream_read_by(reads: &[usize], len: usize) -> Vec<u8> {
    let mut stream = Stream::new(&SEED, b'x', 0x8004_0201);
    let mut out = vec![0; len];
    let mut rest = &mut out[..];
    for &read in reads.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (now, later) = rest.split_at_mut(read.min(rest.len()));
        stream.read(now);
        rest = later;
    }
    out
}

#[test]
fn streams_do_not_depend_on_the_cut_of_reads() {
    let len = 3 * MAX_REQUEST_BYTES + 777;
    let expected = stream_by_definition(len);
    let patterns: [&[usize]; 10] = [
        &[len],
        &[1],
        &[16],
        &[15, 1],
        &[0, 17, 3],
        &[1024, 5],
        &[MAX_REQUEST_BYTES],
        &[MAX_REQUEST_BYTES - 1],
        &[MAX_REQUEST_BYTES + 1],
        &[7, 2 * MAX_REQUEST_BYTES, 9],
    ];
    for reads in patterns {
        assert!(stream_read_by(reads, len) == expected, "reads of {reads:?} bytes");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    #[test]
    fn streams_do_not_depend_on_random_cuts(
        reads in prop::collection::vec(prop_oneof![1..40usize, 1..2000usize, 1..150_000usize], 1..12),
        len in 1..200_000usize,
    ) {
        prop_assert!(stream_read_by(&reads, len) == stream_by_definition(len));
    }
}

/// SHA3-256 of the first 200001 bytes, computed by LWE-KEM's executable specification.
#[test]
fn streams_are_those_of_the_specification() {
    let mut out = vec![0; 200_001];
    Stream::new(&std::array::from_fn(|i| i as u8), b'A', 0x0102_0304).read(&mut out);
    let digest = hex::encode(sha3_256(&[&out]));
    assert_eq!(digest, "74866e6cf8533ed27022b3646fc5f7ccff6a7b3d753eef91e0f90e77b6ade1ab");
}

/// Counts the allocations of each thread.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call goes on to the system's allocator as it came; counting neither allocates nor unwinds, for the
// counter is constant-initialized and needs no destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get().wrapping_add(1));
        // SAFETY: the caller keeps `alloc`'s contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps `dealloc`'s contract, and `ptr` came from `System`.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn streams_allocate_nothing() {
    let before_buffer = ALLOCATIONS.get();
    let mut out = vec![0; MAX_REQUEST_BYTES + 100];
    let before = ALLOCATIONS.get();
    assert_ne!(before_buffer, before, "allocations are not counted");
    for index in 0..3 {
        let mut stream = Stream::new(&SEED, b'x', index);
        stream.read(&mut out[..5]);
        stream.read(&mut out);
    }
    assert_eq!(ALLOCATIONS.get(), before);
}
