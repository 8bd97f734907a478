//! The rounds of Keccak-f[1600] (FIPS 202, 3.2 and 3.3), once for every register width.

/// RC of each round (FIPS 202, 3.2.5).
pub(super) const ROUND_CONSTANTS: [u64; 24] = [
    0x0000_0000_0000_0001,
    0x0000_0000_0000_8082,
    0x8000_0000_0000_808a,
    0x8000_0000_8000_8000,
    0x0000_0000_0000_808b,
    0x0000_0000_8000_0001,
    0x8000_0000_8000_8081,
    0x8000_0000_0000_8009,
    0x0000_0000_0000_008a,
    0x0000_0000_0000_0088,
    0x0000_0000_8000_8009,
    0x0000_0000_8000_000a,
    0x0000_0000_8000_808b,
    0x8000_0000_0000_008b,
    0x8000_0000_0000_8089,
    0x8000_0000_0000_8003,
    0x8000_0000_0000_8002,
    0x8000_0000_0000_0080,
    0x0000_0000_0000_800a,
    0x8000_0000_8000_000a,
    0x8000_0000_8000_8081,
    0x8000_0000_0000_8080,
    0x0000_0000_8000_0001,
    0x8000_0000_8000_8008,
];

/// The 24 rounds on `$a`, an array of 25 registers, lane x + 5y at that index.
///
/// In scope must be `xor3(a, b, c)`: a ⊕ b ⊕ c; `chi(a, b, c)`: a ⊕ (¬b ∧ c); `rol::<K>(a)`: every lane rotated left by
/// K; and `xor_constant(a, rc)`. A macro and not a generic function: these need their target features. No loops over
/// registers: an array is kept in registers only where compilers see constant indices.
macro_rules! rounds {
    ($a:ident) => {
        for &constant in &ROUND_CONSTANTS {
            // θ: the parity of each column, and the same rotated by one.
            let c = [column!($a, 0), column!($a, 1), column!($a, 2), column!($a, 3), column!($a, 4)];
            let r = [rol::<1>(c[0]), rol::<1>(c[1]), rol::<1>(c[2]), rol::<1>(c[3]), rol::<1>(c[4])];
            // For each plane of the result, the lanes that π brings there, with ρ's rotations.
            let [e0, e1, e2, e3, e4] = plane!($a, c, r, 0: 0, 6: 44, 12: 43, 18: 21, 24: 14);
            let [e5, e6, e7, e8, e9] = plane!($a, c, r, 3: 28, 9: 20, 10: 3, 16: 45, 22: 61);
            let [e10, e11, e12, e13, e14] = plane!($a, c, r, 1: 1, 7: 6, 13: 25, 19: 8, 20: 18);
            let [e15, e16, e17, e18, e19] = plane!($a, c, r, 4: 27, 5: 36, 11: 10, 17: 15, 23: 56);
            let [e20, e21, e22, e23, e24] = plane!($a, c, r, 2: 62, 8: 55, 14: 39, 15: 41, 21: 2);
            let e0 = xor_constant(e0, constant);
            $a = [
                e0, e1, e2, e3, e4, e5, e6, e7, e8, e9, e10, e11, e12, e13, e14, e15, e16, e17, e18, e19, e20, e21,
                e22, e23, e24,
            ];
        }
    };
}

/// The parity of column `$x`.
macro_rules! column {
    ($a:ident, $x:literal) => {
        xor3(xor3($a[$x], $a[$x + 5], $a[$x + 10]), $a[$x + 15], $a[$x + 20])
    };
}

/// θ, ρ, π and χ for one plane of the result: lane `$l` of `$a`, rotated by `$k`, is its lane 0, 1, … 4.
macro_rules! plane {
    ($a:ident, $c:ident, $r:ident, $($l:literal: $k:literal),*) => {{
        let b = [$(rol::<$k>(xor3($a[$l], $c[($l + 4) % 5], $r[($l + 1) % 5]))),*];
        [
            chi(b[0], b[1], b[2]),
            chi(b[1], b[2], b[3]),
            chi(b[2], b[3], b[4]),
            chi(b[3], b[4], b[0]),
            chi(b[4], b[0], b[1]),
        ]
    }};
}

pub(super) use {column, plane, rounds};
