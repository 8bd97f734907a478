//! The hashes against NIST's published answers and against LWE-KEM's executable specification.

use lwe_mpi::hash::{
    cshake256, parallel_hash256, parallel_hash256_leaf, parallel_hash256_root, sha3_256, sha3_512, shake256,
};

/// The byte runs of NIST's samples: `run` bytes counting up from 0x00, then from 0x10, … in `len` bytes.
fn runs(run: usize, len: usize) -> Vec<u8> {
    (0..len).map(|i| (16 * (i / run) + i % run) as u8).collect()
}

fn shake256_hex(parts: &[&[u8]], len: usize) -> String {
    let mut out = vec![0; len];
    shake256(parts, &mut out);
    hex::encode(out)
}

fn cshake256_hex(data: &[u8], name: &[u8], customization: &[u8], len: usize) -> String {
    let mut out = vec![0; len];
    cshake256(data, name, customization, &mut out);
    hex::encode(out)
}

fn parallel_hash256_hex(data: &[u8], block_bytes: usize, customization: &[u8], len: usize) -> String {
    let mut out = vec![0; len];
    parallel_hash256(data, block_bytes, customization, &mut out);
    hex::encode(out)
}

/// FIPS 202: NIST's example values for messages of 0 and 1600 bits, and the message "abc".
#[test]
fn fips_202() {
    let rows: [(&[u8], &str, &str, &str); 3] = [
        (
            b"",
            "a7ffc6f8bf1ed76651c14756a061d662f580ff4de43b49fa82d80a4b80f8434a",
            "a69f73cca23a9ac5c8b567dc185a756e97c982164fe25859e0d1dcc1475c80a6\
             15b2123af1f5f94c11e3e9402c3ac558f500199d95b6d3e301758586281dcd26",
            "46b9dd2b0ba88d13233b3feb743eeb243fcd52ea62b81b82b50c27646ed5762f\
             d75dc4ddd8c0f200cb05019d67b592f6fc821c49479ab48640292eacb3b7c4be",
        ),
        (
            b"abc",
            "3a985da74fe225b2045c172d6bd390bd855f086e3e9d525b46bfe24511431532",
            "b751850b1a57168a5693cd924b6b096e08f621827444f70d884f5d0240d2712e\
             10e116e9192af3c91a7ec57647e3934057340b4cf408d5a56592f8274eec53f0",
            "483366601360a8771c6863080cc4114d8db44530f8f1e1ee4f94ea37e78b5739\
             d5a15bef186a5386c75744c0527e1faa9f8726e462a12a4feb06bd8801e751e4",
        ),
        (
            &[0xa3; 200],
            "79f38adec5c20307a98ef76e8324afbfd46cfd81b22e3973c65fa1bd9de31787",
            "e76dfad22084a8b1467fcf2ffa58361bec7628edf5f3fdc0e4805dc48caeeca8\
             1b7c13c30adf52a3659584739a2df46be589c51ca1a4a8416df6545a1ce8ba00",
            "cd8a920ed141aa0407a22d59288652e9d9f1a7ee0c1e7c1ca699424da84a904d\
             2d700caae7396ece96604440577da4f3aa22aeb8857f961c4cd8e06f0ae6610b",
        ),
    ];
    for (message, sha3_256_hex, sha3_512_hex, shake256_64) in rows {
        for cut in 0..=message.len() {
            let (head, tail) = message.split_at(cut);
            let parts = [head, &[], tail];
            assert_eq!(hex::encode(sha3_256(&parts)), sha3_256_hex);
            assert_eq!(hex::encode(sha3_512(&parts)), sha3_512_hex);
            assert_eq!(shake256_hex(&parts, 64), shake256_64);
            assert_eq!(shake256_hex(&parts, 1), shake256_64[..2]);
        }
        assert_eq!(cshake256_hex(message, b"", b"", 64), shake256_64);
    }
}

/// NIST, "cSHAKE Samples", samples 3 and 4.
#[test]
fn cshake256_samples() {
    let counting: Vec<u8> = (0..200).collect();
    assert_eq!(
        cshake256_hex(&counting[..4], b"", b"Email Signature", 64),
        "d008828e2b80ac9d2218ffee1d070c48b8e4c87bff32c9699d5b6896eee0edd1\
         64020e2be0560858d9c00c037e34a96937c561a74c412bb4c746469527281c8c"
    );
    assert_eq!(
        cshake256_hex(&counting, b"", b"Email Signature", 64),
        "07dc27b11e51fbac75bc7b3c1d983e8b4b85fb1defaf218912ac864302730917\
         27f42b17ed1df63e8ec118f04b23633c1dfb1574c8fb55cb45da8e25afb092bb"
    );
}

/// NIST, "ParallelHash Samples", samples 4, 5 and 6.
#[test]
fn parallel_hash256_samples() {
    assert_eq!(
        parallel_hash256_hex(&runs(8, 24), 8, b"", 64),
        "bc1ef124da34495e948ead207dd9842235da432d2bbc54b4c110e64c45110553\
         1b7f2a3e0ce055c02805e7c2de1fb746af97a1dd01f43b824e31b87612410429"
    );
    assert_eq!(
        parallel_hash256_hex(&runs(8, 24), 8, b"Parallel Data", 64),
        "cdf15289b54f6212b4bc270528b49526006dd9b54e2b6add1ef6900dda3963bb\
         33a72491f236969ca8afaea29c682d47a393c065b38e29fae651a2091c833110"
    );
    assert_eq!(
        parallel_hash256_hex(&runs(12, 72), 12, b"Parallel Data", 64),
        "69d0fcb764ea055dd09334bc6021cb7e4b61348dff375da262671cdec3effa8d\
         1b4568a6cce16b1cad946ddde27f6ce2b8dee4cd1b24851ebf00eb90d43813e9"
    );
}

/// What [`CSHAKE256`] and [`PARALLEL_HASH256`] hash: byte i is 7i + ⌊i/256⌋ mod 256.
fn data(len: usize) -> Vec<u8> {
    (0..len).map(|i| (7 * i + i / 256) as u8).collect()
}

/// Names and customization strings of the tables: the alphabet over and over.
fn letters(len: usize) -> Vec<u8> {
    (b'a'..=b'z').cycle().take(len).collect()
}

/// An output as the tables have it: its SHA3-256 where it is longer than 32 bytes.
fn short(out: String) -> String {
    if out.len() <= 64 { out } else { hex::encode(sha3_256(&[&hex::decode(out).unwrap()])) }
}

/// Bytes of data, name, customization string and output; the output, by LWE-KEM's executable specification.
/// With 129 letters of customization string the prefix fills the sponge's block exactly.
const CSHAKE256: [(usize, usize, usize, usize, &str); 8] = [
    (0, 1, 0, 32, "e0561938b1495e905b068fd06eb55f9ea5de189ba6cd24f25ac6d4e18b9a5d70"),
    (0, 0, 1, 32, "ac7e3a06e0a41427e1060db7f10b774f76176d1ca07063676e7b22128e13d44b"),
    (135, 1, 128, 32, "9972a78542f7bc80b5f1a0d6e63ae9312d2371635de67e5151b08556ec062271"),
    (136, 0, 129, 32, "850e0a2a6050fe2a928830537070ae531ca789b643ef7a2067e72353d85815e7"),
    (137, 12, 300, 32, "bb2e4592772b6d765d1083d97e2498fbdfb1d4a7e286a29d6f41d8f7df2c70a0"),
    (1000, 0, 10000, 32, "1d6e725e33b231f571c38227e449161b3991cfa2f1cf2fc54f9a89ae3ca54c4d"),
    (1000, 3, 7, 300, "2bb7941edb9604b076d40b8513c0d928b6e4ebfb51afccff0c3b3606985e4e6b"),
    (500, 0, 0, 300, "37cb1ba9078fda7fc25ca295b9a14e6e693906bb560f1de332868452b6548315"),
];

#[test]
fn cshake256_of_the_specification() {
    for (len, name, customization, out, expected) in CSHAKE256 {
        let got = cshake256_hex(&data(len), &letters(name), &letters(customization), out);
        assert_eq!(short(got), expected, "{len}, {name}, {customization}, {out}");
    }
}

/// Bytes of data, block, customization string and output; the output, by LWE-KEM's executable specification.
const PARALLEL_HASH256: [(usize, usize, usize, usize, &str); 11] = [
    (0, 8, 0, 32, "3c58525e1eb8fe717671154570ba912973629436a91904a04176bf1a117d7cbf"),
    (0, 57344, 7, 32, "480948b1a1ba194f57c0bd789d042f9fea402789b2e06093a589678576b784c5"),
    (1, 1, 7, 32, "62a673e5cf526c7837f7fa899ccc7164ceb50a7e89f6b4d0a612eacb13683c3b"),
    (100, 33, 0, 32, "5945afdef6f707bf5c29b6cad766f3d4b8ff03a2d092e25190aed509155cb9c1"),
    (99, 33, 1, 32, "4710646c908120f1ece5f201d66c1c388bdd466ed30b8372c0298a056703dcb1"),
    (32, 33, 0, 32, "b6f70b46d3ae34ceaf6e6646cbf97c85ca38d5b8ab12af3e947570138e26dd30"),
    (256, 1, 0, 32, "7ce8c35e49d0e40da732198630a46a3e370fdfe2283cd358f6367712acc3e179"),
    (70000, 1, 7, 32, "eb326c224aec635737e3ddca919456b20d3ffff57cc8a2058debf529f432962d"),
    (200000, 65536, 300, 32, "d638ae71ae91718e2b452b3e9b80b536309f780d618aa822eb41517819d3bf00"),
    (131072, 256, 129, 32, "bcb15f1370f1b943df7ff6710b8022f7c5fef54a3e270724c60b78b2974bc720"),
    (5000, 136, 7, 300, "d87fccd01ef37f03ae387dfa07ad82c198860809c81b54e10c86629cc104a70b"),
];

#[test]
fn parallel_hash256_of_the_specification() {
    for (len, block_bytes, customization, out_bytes, expected) in PARALLEL_HASH256 {
        let (data, customization) = (data(len), letters(customization));
        let got = parallel_hash256_hex(&data, block_bytes, &customization, out_bytes);
        assert_eq!(short(got.clone()), expected, "{len}, {block_bytes}, {customization:?}, {out_bytes}");

        let leaves: Vec<u8> = data.chunks(block_bytes).flat_map(parallel_hash256_leaf).collect();
        let mut out = vec![0; out_bytes];
        parallel_hash256_root(block_bytes, leaves.as_chunks().0.iter().copied(), &customization, &mut out);
        assert_eq!(hex::encode(out), got, "from leaves");
    }
}

#[test]
#[should_panic(expected = "a block of at least one byte")]
fn a_block_of_nothing_is_refused() {
    parallel_hash256(b"data", 0, b"", &mut [0; 32]);
}
