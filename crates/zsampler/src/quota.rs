//! How many of the first so many records are of each component.

use crate::weights::Scale;
use crate::wide::{fraction_nearest, share_nearest};

/// The shares of the components from some step on.
#[derive(Debug)]
pub(crate) enum Quota {
    /// Halved again and again, what comes to a node is divided between its sides. Holds the left sides' fractions: those of
    /// the left half's nodes, the node's own, those of the right half's.
    Divided(Vec<u128>),
    /// So many of each batch.
    Fixed(Vec<u64>),
}

/// A component that no whole number of records belongs to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct NotWhole {
    pub(crate) component: usize,
    pub(crate) product: f64,
}

impl Quota {
    /// The shares that weights make.
    pub(crate) fn divided(scale: Scale, weights: &[f64]) -> Self {
        let integers: Vec<u128> = weights.iter().map(|&weight| scale.integer(weight)).collect();
        let mut fractions = vec![0; weights.len().saturating_sub(1)];
        divide(&integers, &mut fractions);
        Self::Divided(fractions)
    }

    /// The same counts for each batch, if weights make whole ones.
    pub(crate) fn fixed(scale: Scale, weights: &[f64], batch_size: u64) -> Result<Self, NotWhole> {
        let integers: Vec<u128> = weights.iter().map(|&weight| scale.integer(weight)).collect();
        let sum: u128 = integers.iter().sum();
        let mut counts = Vec::with_capacity(weights.len());
        let (mut most, mut worst) = (-1.0, NotWhole { component: 0, product: 0.0 });
        for (component, (&weight, integer)) in weights.iter().zip(integers).enumerate() {
            let product = batch_size as f64 * (integer as f64 / sum as f64);
            let whole = product.round();
            let off = (product - whole).abs();
            let refused = NotWhole { component, product };
            if off > product.min(LARGE) * TOLERANCE || (weight > 0.0 && whole < 1.0) {
                return Err(refused);
            }
            if off > most {
                (most, worst) = (off, refused);
            }
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a whole number from 0 to the batch size, and if rounding makes it larger the sum below tells"
            )]
            counts.push(whole as u64);
        }
        // Beyond 2^53 a float no longer tells whether a number is whole.
        let total: u128 = counts.iter().map(|&count| u128::from(count)).sum();
        if total == u128::from(batch_size) { Ok(Self::Fixed(counts)) } else { Err(worst) }
    }

    /// How many records of each component are in the first `batches` batches.
    pub(crate) fn fill(&self, batches: u128, batch_size: u64, counts: &mut [u128]) {
        match self {
            // Below 2^64 * 2^60.
            Self::Divided(fractions) => split(fractions, batches * u128::from(batch_size), counts),
            Self::Fixed(each) => {
                for (count, &each) in counts.iter_mut().zip(each) {
                    *count = batches * u128::from(each);
                }
            }
        }
    }
}

/// How far from whole a count may be that is meant to be whole, in proportion to it.
const TOLERANCE: f64 = 1e-9;
/// Larger counts may be off by no more than this one.
const LARGE: f64 = 1e6;

/// The fractions of the nodes over some components, and the sum of these.
fn divide(integers: &[u128], fractions: &mut [u128]) -> u128 {
    let half = integers.len() / 2;
    let (left, right) = integers.split_at(half);
    let Some((before, [node, after @ ..])) = fractions.split_at_mut_checked(half.saturating_sub(1)) else {
        return integers.iter().sum();
    };
    let (left, right) = (divide(left, before), divide(right, after));
    *node = if left == 0 { 0 } else { fraction_nearest(left, left + right) };
    left + right
}

/// Divide `records` among components.
///
/// Each side of a node grows with what comes to the node and by at most as much, so with each further record exactly one
/// component grows, by one. A level adds at most a half to the distance from the exact share.
fn split(fractions: &[u128], records: u128, counts: &mut [u128]) {
    let half = counts.len() / 2;
    let Some((before, [node, after @ ..])) = fractions.split_at_checked(half.saturating_sub(1)) else {
        counts.fill(records);
        return;
    };
    if records == 0 {
        counts.fill(0);
        return;
    }
    let (left, right) = counts.split_at_mut(half);
    let share = share_nearest(records, *node);
    split(before, share, left);
    split(after, records - share, right);
}

#[cfg(test)]
mod tests;
