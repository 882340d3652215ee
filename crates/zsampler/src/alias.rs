//! The alias table: a draw in proportion to weights at the cost of two random words and one look.
//!
//! A. J. Walker, "An efficient method for generating discrete random variables with general distributions" (1977), and
//! the linear construction of M. D. Vose, "A linear algorithm for generating random numbers with a given distribution"
//! (1991). Each item has a column of the same height; its own share of it lies at the bottom, and what is missing is
//! filled by one other item.
//!
//! All of it is done in integers. The masses of `n` items sum to `n * 2^64` exactly, so every column is exactly full at the
//! end: nothing is left over that rounding could give to an item of weight 0, and the order in which columns are filled
//! is the same on every machine.

use crate::rng::low;
use crate::weights::{Fault, Scale};
use crate::wide::{fraction_above, share_below};

/// The height of a column.
const HEIGHT: u128 = 1 << 64;
/// In `other` of a column that is finished, as long as there are others that aren't. Masses stay below 2^96.
const DONE: u64 = 1 << 63;

/// One item's column. A coin below `cut` is the item itself, any other is `other`.
///
/// While the table is made, a column that isn't `DONE` holds its item's mass: the low half in `cut`, the high half in `other`.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Column {
    cut: u64,
    other: u64,
}

impl Column {
    /// What a coin of 64 bits draws in the column of `item`.
    #[inline]
    pub(crate) fn pick(self, item: u64, coin: u64) -> u64 {
        // Nobody can foretell a coin, and a wrong guess would wait for its column and undo the looks that come after it: so no
        // branch, even if the compiler would make one.
        std::hint::select_unpredictable(coin < self.cut, item, self.other)
    }

    const fn open(mass: u128) -> Self {
        Self { cut: low(mass), other: low(mass >> 64) }
    }

    /// The mass of a column that isn't finished.
    fn mass(self) -> Option<u128> {
        (self.other & DONE == 0).then(|| u128::from(self.other) << 64 | u128::from(self.cut))
    }
}

/// The columns of 1 to 2^31 weights.
pub(crate) fn columns(weights: &[f64]) -> Result<Vec<Column>, Fault> {
    let scale = Scale::new(weights)?;
    let sum = weights.iter().map(|&weight| scale.integer(weight)).sum();
    // The largest weight alone is 2^95 or more, so this is 1 at most.
    let unit = fraction_above(weights.len() as u128 * HEIGHT, sum);
    let (mut before, mut below) = (0, 0);
    let mut columns: Vec<Column> = weights
        .iter()
        .map(|&weight| {
            // Rounding what has come so far rather than each mass keeps the sum: at the last item it is the whole.
            before += scale.integer(weight);
            let mass = share_below(before, unit) - below;
            below += mass;
            Column::open(mass)
        })
        .collect();
    level(&mut columns);
    Ok(columns)
}

/// Fill each column below its height from the first one at or above it.
fn level(columns: &mut [Column]) {
    let mut giver = next_giver(columns, 0);
    for scanned in 0..columns.len() {
        let mut taker = scanned;
        while let Some(missing) = fill(columns, taker, giver) {
            let left =
                columns.get(giver).and_then(|column| column.mass()).unwrap_or(0).saturating_sub(missing);
            if let Some(column) = columns.get_mut(giver) {
                *column = Column::open(left);
            }
            if left >= HEIGHT {
                break;
            }
            // It takes now: at once if the scan has passed it, or when the scan comes there.
            let emptied = giver;
            giver = next_giver(columns, giver + 1);
            if emptied > scanned {
                break;
            }
            taker = emptied;
        }
    }
    for (item, column) in (0..).zip(columns) {
        // What is still open is exactly full.
        *column = match column.mass() {
            Some(_) => Column { cut: 0, other: item },
            None => Column { other: column.other & !DONE, ..*column },
        };
    }
}

/// Finish the column at `taker` if it is open and not full; what it then takes from `giver`.
fn fill(columns: &mut [Column], taker: usize, giver: usize) -> Option<u128> {
    let column = columns.get_mut(taker)?;
    let missing = HEIGHT.checked_sub(column.mass()?).filter(|&missing| missing > 0)?;
    column.other = giver as u64 | DONE;
    Some(missing)
}

/// The first open column from `from` on that is full or more. As long as any takes there is one.
fn next_giver(columns: &[Column], from: usize) -> usize {
    let full = |column: &Column| column.mass().is_some_and(|mass| mass >= HEIGHT);
    columns.iter().skip(from).position(full).map_or(columns.len(), |found| from + found)
}

#[cfg(test)]
mod tests;
