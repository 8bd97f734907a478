//! Every instruction set against sums of products.

use proptest::prelude::*;

use super::*;

/// A message's R and a panel of A, by rows.
struct Case {
    r: Vec<Vec<i16>>,
    a: Vec<[i16; PANEL]>,
}

impl Case {
    /// Random values up to `r_max` and 6144, or those two alone with random signs.
    fn new(depth: usize, r_max: i16, extreme: bool, seed: u64) -> Self {
        let mut state = seed | 1;
        let mut next = |bound: i16| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let x = ((state >> 33) % (2 * bound as u64 + 1)) as i16 - bound;
            match (extreme, x < 0) {
                (false, _) => x,
                (true, true) => -bound,
                (true, false) => bound,
            }
        };
        let r = (0..MESSAGE_BITS).map(|_| (0..depth).map(|_| next(r_max)).collect()).collect();
        Case { r, a: (0..depth).map(|_| std::array::from_fn(|_| next(6144))).collect() }
    }

    fn expected(&self) -> Vec<[i32; PANEL]> {
        let sum =
            |r: &[i16], c: usize| r.iter().zip(&self.a).map(|(&r, a)| i64::from(r) * i64::from(a[c])).sum::<i64>();
        self.r.iter().map(|r| std::array::from_fn(|c| sum(r, c).try_into().expect("the case fits 32 bits"))).collect()
    }

    /// The panel in the form of an instruction set.
    fn panel(&self, isa: Isa) -> Vec<i16> {
        let pairs: Vec<i16> =
            self.a.chunks(2).flat_map(|pair| (0..PANEL).flat_map(|c| [pair[0][c], pair[1][c]])).collect();
        match Form::of(isa) {
            Form::Pairs { .. } => pairs,
            #[cfg(target_arch = "x86_64")]
            Form::Planes => {
                let mut planes = vec![-1; PANEL * self.a.len().next_multiple_of(TILE_DEPTH)];
                split_planes(isa, &pairs, &mut planes, false);
                planes
            }
            #[cfg(not(target_arch = "x86_64"))]
            Form::Planes => unreachable!(),
        }
    }

    fn check(&self) {
        let (depth, expected) = (self.a.len(), self.expected());
        for isa in Isa::available() {
            let (panel, lead) = (self.panel(isa), 6);
            // Coefficients before the band are not its own.
            let rows: Vec<Vec<i16>> = self.r.iter().map(|row| [&[99; 6], row.as_slice()].concat()).collect();
            let mut r = vec![0x5555; Form::of(isa).packed_len(depth)];
            pack(isa, lead, depth, |j| &rows[j], &mut r);
            let mut sums = Box::new([[77; PANEL]; SUM_ROWS]);
            multiply_panel(isa, &mut sums, false, &r, &panel, Ahead { a: &panel, r: &r });
            assert!(sums[..MESSAGE_BITS] == expected, "{}, depth {depth}", isa.name());
            for row in &mut sums[..MESSAGE_BITS] {
                row.fill(-3);
            }
            multiply_panel(isa, &mut sums, true, &r, &panel, Ahead { a: &panel, r: &r });
            let added = sums.iter().zip(&expected).all(|(sums, e)| sums.iter().zip(e).all(|(s, e)| *s == e - 3));
            assert!(added, "{}, depth {depth}, added", isa.name());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    /// Ragged depths, random and extreme values.
    #[test]
    fn all_isas_agree(pairs in 1usize..300, extreme: bool, r_max in prop_oneof![Just(4i16), Just(127)], seed: u64) {
        Case::new(2 * pairs, r_max, extreme, seed).check();
    }
}

/// The deepest sums: every product has the same sign and the largest magnitude, n = 32768.
#[test]
fn the_largest_sums_fit() {
    for sign in [1, -1] {
        let (r, a) = (vec![vec![4 * sign; 32768]; MESSAGE_BITS], vec![[6144; PANEL]; 32768]);
        let expected = i32::from(4 * sign) * 6144 * 32768;
        for isa in Isa::available() {
            let case = Case { r: Vec::new(), a: a[..1024].to_vec() };
            let panel = case.panel(isa);
            let mut packed = vec![0; Form::of(isa).packed_len(1024)];
            let mut sums = Box::new([[0; PANEL]; SUM_ROWS]);
            for first in (0..32768).step_by(1024) {
                pack(isa, first, 1024, |j| &r[j], &mut packed);
                multiply_panel(isa, &mut sums, first > 0, &packed, &panel, Ahead::default());
            }
            assert!(sums[..MESSAGE_BITS].as_flattened().iter().all(|&sum| sum == expected), "{}", isa.name());
        }
    }
}
