//! Fractions of 127 bits, and their products and quotients, which are wider than any integer there is.

use crate::rng::{high, low};

/// The fraction 1. Fractions are whole numbers of 2^-127, from 0 to this.
pub(crate) const ONE: u128 = 1 << 127;

/// `floor(number * fraction)`.
pub(crate) const fn share_below(number: u128, fraction: u128) -> u128 {
    let (high, low) = product(number, fraction);
    (high << 1) | (low >> 127)
}

/// `number * fraction`, rounded to the nearest whole number, and up from the middle.
pub(crate) const fn share_nearest(number: u128, fraction: u128) -> u128 {
    let (high, low) = product(number, fraction);
    // What lies above half of the fraction's unit carries.
    ((high << 1) | (low >> 127)).wrapping_add((low >> 126) & 1)
}

/// The fraction `part / whole`, rounded down, and what remains of `part * 2^127`. `part <= whole <= 2^127`, and `whole` is not 0.
pub(crate) const fn fraction(part: u128, whole: u128) -> (u128, u128) {
    if part >= whole {
        return (ONE, 0);
    }
    let (mut quotient, mut rest) = (0, part);
    let mut bit = 0;
    while bit < 127 {
        quotient <<= 1;
        rest <<= 1;
        if rest >= whole {
            rest -= whole;
            quotient |= 1;
        }
        bit += 1;
    }
    (quotient, rest)
}

/// The fraction `part / whole`, rounded up. The bounds are those of [`fraction`].
pub(crate) const fn fraction_above(part: u128, whole: u128) -> u128 {
    let (quotient, rest) = fraction(part, whole);
    if rest > 0 { quotient + 1 } else { quotient }
}

/// The fraction `part / whole`, rounded to the nearest, and up from the middle. The bounds are those of [`fraction`].
pub(crate) const fn fraction_nearest(part: u128, whole: u128) -> u128 {
    let (quotient, rest) = fraction(part, whole);
    if rest >= whole - rest { quotient + 1 } else { quotient }
}

/// The high and the low 128 bits of a product.
const fn product(a: u128, b: u128) -> (u128, u128) {
    let [a1, a0, b1, b0] = [high(a) as u128, low(a) as u128, high(b) as u128, low(b) as u128];
    let (lowest, one, other) = (a0 * b0, a1 * b0, a0 * b1);
    let middle = (high(lowest) as u128) + (low(one) as u128) + (low(other) as u128);
    let upper = a1 * b1 + (high(one) as u128) + (high(other) as u128) + (high(middle) as u128);
    (upper, (middle << 64) | (low(lowest) as u128))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_of_small_numbers_are_those_of_integers() {
        for a in [0, 1, 2, 3, 12_345, u64::MAX - 1, u64::MAX] {
            for b in [0, 1, 5, 1 << 63, u64::MAX] {
                assert_eq!(product(a.into(), b.into()), (0, u128::from(a) * u128::from(b)));
                // Shifted by half a word each, the product is shifted by a whole one.
                let (a, b) = (u128::from(a), u128::from(b));
                assert_eq!(product(a << 64, b << 64), (a * b, 0));
                assert_eq!(product(a << 32, b << 32), ((a * b) >> 64, (a * b) << 64));
            }
        }
        assert_eq!(product(u128::MAX, u128::MAX), (u128::MAX - 1, 1));
    }

    #[test]
    fn a_fraction_of_its_whole_is_its_part() {
        for whole in [1, 2, 3, 7, 10, (1 << 96) - 1, 1 << 100, ONE - 1, ONE] {
            for part in [0, 1, whole / 3, whole / 2, whole - 1, whole] {
                let part = part.min(whole);
                assert_eq!(share_below(whole, fraction_above(part, whole)), part, "{part} of {whole}");
                assert_eq!(share_nearest(whole, fraction_nearest(part, whole)), part, "{part} of {whole}");
            }
            assert_eq!(fraction_nearest(0, whole), 0);
            assert_eq!(fraction_nearest(whole, whole), ONE);
        }
    }

    #[test]
    fn the_middle_is_rounded_up() {
        let half = fraction_nearest(1, 2);
        assert_eq!([0, 1, 2, 3, 4].map(|n| share_nearest(n, half)), [0, 1, 1, 2, 2]);
        assert_eq!([0, 1, 2, 3, 4].map(|n| share_below(n, half)), [0, 0, 1, 1, 2]);
    }
}
