//! Arithmetic modulo q = 12289 without division or branches.

use crate::params::Q;

/// The shift of the reduction: M = ⌊2⁴⁴/q⌋ fits 31 bits, so that x·M is one signed 32 × 32 → 64-bit product.
const SHIFT: u32 = 44;
const M: i64 = (1 << SHIFT) / Q as i64;

/// The centre of Z_q: matrix entries are kept as x − 6144, from −6144 to 6144.
pub(super) const CENTRE: i16 = (Q / 2) as i16;

/// x mod q, from 0 to q − 1, for every x.
///
/// Bound: x·M/2⁴⁴ is below x/q by at most |x|/2⁴⁴ < 2⁻¹³ for x ≥ 0 and above it by as much for x < 0, so that its
/// floor misses ⌊x/q⌋ by at most one either way and the remainder lies in [−q, 2q).
#[inline(always)]
pub(super) fn reduce(x: i32) -> i32 {
    let q = i32::from(Q);
    let quotient = ((i64::from(x) * M) >> SHIFT) as i32;
    let r = x.wrapping_sub(quotient.wrapping_mul(q));
    let r = r + ((r >> 31) & q);
    r - (((q - 1 - r) >> 31) & q)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reduces_around_every_kind_of_boundary() {
        let q = i32::from(Q);
        let multiples = (-174_748..=174_748).flat_map(|k: i32| [k * q - 1, k * q, k * q + 1]);
        for x in multiples.chain([i32::MIN, i32::MIN + 1, i32::MAX - 1, i32::MAX]) {
            assert_eq!(reduce(x), x.rem_euclid(q), "{x}");
        }
    }

    proptest! {
        #[test]
        fn reduces_everything(x: i32) {
            prop_assert_eq!(reduce(x), x.rem_euclid(i32::from(Q)));
        }
    }
}
