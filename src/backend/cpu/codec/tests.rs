//! Every instruction set against the plain twins, and the plain twins against FIPS 203.

use proptest::{collection::vec, prelude::*};

use super::*;

#[test]
fn bits_decode_between_the_quarters() {
    for mu in 0..i32::from(Q) {
        assert_eq!(decode_bit(mu) == 1, 3072 < mu && mu < 12289 - 3072, "{mu}");
    }
}

/// All sums of n products of extremes, of encoded vectors and of plain ones.
#[test]
fn inner_products_do_not_overflow() {
    for n in [32, 512, 544, 32768] {
        for (a, b) in [(16383i16, 127i16), (16383, -127), (12288, 4), (0, -4)] {
            let expected = (i64::from(a) * i64::from(b) * n as i64).rem_euclid(12289) as i32;
            let mut encoded = vec![0; n / 4 * GROUP_BYTES];
            encode14(Isa::Portable, &vec![a.into(); n], &mut encoded);
            for isa in Isa::available() {
                assert_eq!(inner_product(isa, &vec![a; n], &vec![b; n]), expected, "{}", isa.name());
                let found = encoded_inner_product(isa, &encoded, &vec![b; n], &mut vec![0; n]);
                assert_eq!(found, expected, "{}, encoded, n = {n}", isa.name());
            }
        }
    }
}

/// Reductions around every multiple of q, through what stands before the encoding.
#[test]
fn rows_are_finished_around_every_boundary() {
    let q = i32::from(Q);
    let multiples = (-174_600..=174_600).step_by(7).flat_map(|k: i32| [k * q - 1, k * q, k * q + 1]);
    let mut values: Vec<i32> = multiples.chain([i32::MIN + q, i32::MAX - q]).collect();
    values.resize(values.len().next_multiple_of(MESSAGE_BITS * PANEL), 0);
    for values in values.chunks(MESSAGE_BITS * PANEL) {
        let mut sums = Box::new([[0; PANEL]; SUM_ROWS]);
        sums.as_flattened_mut()[..values.len()].copy_from_slice(values);
        let e1: Vec<i16> = (0..values.len()).map(|i| (i % 255) as i16 - 127).collect();
        let centre_terms: Vec<i32> = (0..MESSAGE_BITS as i32).map(|j| j * 48 % q).collect();
        let expected: Vec<i32> =
            (0..values.len()).map(|i| (values[i] + centre_terms[i / PANEL] + i32::from(e1[i])).rem_euclid(q)).collect();
        for isa in Isa::available() {
            let mut out = vec![0; MESSAGE_BITS * PANEL_BYTES];
            let rows = super::super::memory::Shared::new(&mut out);
            finish(
                isa,
                std::slice::from_ref(&*sums),
                &centre_terms,
                |j| &e1[j * PANEL..(j + 1) * PANEL],
                |j| {
                    // SAFETY: each row is written once.
                    unsafe { rows.range(j * PANEL_BYTES..(j + 1) * PANEL_BYTES) }
                },
            );
            let mut decoded = vec![0; expected.len()];
            decode14(Isa::Portable, &out, &mut decoded);
            let wrong = decoded.iter().zip(&expected).position(|(&d, &e)| i32::from(d) != e);
            assert_eq!(wrong.map(|i| (values[i], expected[i], decoded[i])), None, "{}", isa.name());
        }
    }
}

proptest! {
    /// The twin: bit after bit, as FIPS 203 writes the two algorithms.
    #[test]
    fn encoding_is_fips_203s(values in vec(0i32..16384, 1..50)) {
        let values: Vec<i32> = values.iter().flat_map(|&x| [x, 16383 - x, 0, 16383]).collect();
        let mut bits = values.iter().flat_map(|x| (0..14).map(move |k| x >> k & 1));
        let mut expected = vec![0u8; values.len() * 14 / 8];
        for byte in &mut expected {
            for k in 0..8 {
                *byte |= (bits.next().unwrap() as u8) << k;
            }
        }
        for isa in Isa::available() {
            let mut bytes = vec![0; expected.len()];
            encode14(isa, &values, &mut bytes);
            prop_assert_eq!(&bytes, &expected);
            let mut decoded = vec![0; values.len()];
            decode14(isa, &bytes, &mut decoded);
            prop_assert!(decoded.iter().zip(&values).all(|(&d, &v)| i32::from(d) == v));
        }
    }

    /// Random encoded vectors and coefficients.
    #[test]
    fn inner_products_agree(panels in 1usize..40, bytes in vec(any::<u8>(), PANEL_BYTES * 40), b in vec(-127i16..=127, PANEL * 40)) {
        let (bytes, b) = (&bytes[..panels * PANEL_BYTES], &b[..panels * PANEL]);
        let expected = encoded_inner_product(Isa::Portable, bytes, b, &mut vec![0; b.len()]);
        for isa in Isa::available() {
            prop_assert_eq!(encoded_inner_product(isa, bytes, b, &mut vec![0; b.len()]), expected, "{}", isa.name());
        }
    }
}
