//! Weights as integers, so that their sums are exact and the same everywhere.

/// The weights below the largest one by this many bits are 0: the largest lies in `2^95..2^96`, and 2^31 of those still
/// have a sum below 2^127.
const TOP: i32 = 95;

/// Why weights are refused. Who knows what they belong to makes an error of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Fault {
    Bad { index: u64, weight: f64 },
    Zero,
    Overflow,
}

/// What makes the weights of one list integers: `floor(weight * 2^(95 - e))`, where `2^e` is the largest power of two that
/// is not above the largest weight.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale {
    exponent: i32,
}

impl Scale {
    /// The scale of some weights, once they have been found to be weights.
    pub(crate) fn new(weights: &[f64]) -> Result<Self, Fault> {
        let (mut largest, mut sum) = (0.0_f64, 0.0);
        for (index, &weight) in (0..).zip(weights) {
            if !(weight.is_finite() && weight >= 0.0) {
                return Err(Fault::Bad { index, weight });
            }
            largest = largest.max(weight);
            sum += weight;
        }
        if largest == 0.0 {
            return Err(Fault::Zero);
        }
        if sum == f64::INFINITY {
            return Err(Fault::Overflow);
        }
        let (mantissa, exponent) = parts(largest);
        Ok(Self { exponent: exponent + mantissa.ilog2().cast_signed() })
    }

    /// A weight of the list as an integer.
    pub(crate) fn integer(self, weight: f64) -> u128 {
        let (mantissa, exponent) = parts(weight);
        let shift = exponent + TOP - self.exponent;
        // The result has 96 bits at most, since no weight is above the largest.
        match u32::try_from(shift) {
            Ok(left) => u128::from(mantissa) << left,
            Err(_) => u128::from(mantissa.checked_shr(shift.unsigned_abs()).unwrap_or(0)),
        }
    }
}

/// A finite number of at least 0 as `mantissa * 2^exponent`.
fn parts(number: f64) -> (u64, i32) {
    const FRACTION: u32 = f64::MANTISSA_DIGITS - 1;
    let bits = number.to_bits();
    let fraction = bits & ((1 << FRACTION) - 1);
    let biased = i32::try_from((bits >> FRACTION) & 0x7ff).unwrap_or(0);
    // Numbers below the least normal one have the exponent of that one, and no leading bit.
    if biased == 0 { (fraction, -1074) } else { (fraction | 1 << FRACTION, biased - 1075) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_weight_has_96_bits_whatever_it_is() {
        for largest in [1.0, 3.0, 0.1, 1e308, f64::MAX, f64::MIN_POSITIVE, 5e-324, 1e-310] {
            let integer = Scale::new(&[0.0, largest]).unwrap().integer(largest);
            assert_eq!(integer.ilog2(), 95, "{largest:?}");
        }
    }

    #[test]
    fn integers_are_in_the_proportion_of_their_weights() {
        let scale = Scale::new(&[1.0, 3.0]).unwrap();
        assert_eq!(scale.integer(1.0) * 3, scale.integer(3.0));
        assert_eq!(scale.integer(0.0), 0);
        assert_eq!(scale.integer(-0.0), 0);
        assert_eq!(scale.integer(2_f64.powi(-94)), 1);
        assert_eq!(scale.integer(2_f64.powi(-95)), 0);
        assert_eq!(scale.integer(5e-324), 0);
        let scale = Scale::new(&[f64::MIN_POSITIVE, 5e-324]).unwrap();
        assert_eq!(scale.integer(5e-324) << 52, scale.integer(f64::MIN_POSITIVE));
    }

    #[test]
    fn what_is_no_weight_is_refused() {
        for weight in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, -5e-324] {
            let fault = Scale::new(&[1.0, weight, 1.0]).unwrap_err();
            assert!(matches!(fault, Fault::Bad { index: 1, weight: w } if w.to_bits() == weight.to_bits()));
        }
        assert_eq!(Scale::new(&[0.0, -0.0]).unwrap_err(), Fault::Zero);
        assert_eq!(Scale::new(&[f64::MAX, f64::MAX]).unwrap_err(), Fault::Overflow);
    }
}
