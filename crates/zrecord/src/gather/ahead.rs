//! Batches that are not in memory: all of a batch is asked for before its first record is waited for, so that the disk has as much to do at
//! once as it can.
//!
//! Asking takes a system call for each record, far more than reading it from memory. So one record of a batch is looked at first, and only
//! if it is not in memory, or one lately was not, the whole batch is asked for. Where the system can't tell, it counts as being in memory.

use std::sync::atomic::{AtomicU32, Ordering};

use super::locate::Locator;
use crate::error::{Error, Result};
use crate::format::{Entry, Header};
use crate::open::Open;
use crate::options::Verify;
use crate::pool;
use crate::uniform::Uniform;

/// Batches that are asked for after one in which a record was found missing: where half is in memory, one look proves little.
const DISTRUST: u32 = 16;
/// Of small batches only every so many is looked at: a look takes as long as reading some dozens of records.
const SELDOM: u32 = 8;
const SMALL_BATCH: usize = 64 << 10;
/// What is asked for at once, at most: memory that is read into long before it is needed pushes out what is needed sooner.
const ASKED_BYTES: u64 = 256 << 20;
/// Records that one thread asks for at a time.
const BLOCK: usize = 32;

/// What a handle has seen lately.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    batches: AtomicU32,
    distrust: AtomicU32,
}

impl Ahead {
    /// Ask for the records `idxs`, `bytes` in all, if they may not be in memory.
    pub(super) fn ask(
        &self,
        open: &Open,
        header: &Header,
        uniform: Option<Uniform>,
        idxs: &[u64],
        bytes: usize,
    ) -> Result<()> {
        let number = self.batches.fetch_add(1, Ordering::Relaxed);
        let distrust = self.distrust.load(Ordering::Relaxed);
        if distrust == 0 && bytes < SMALL_BATCH && !number.is_multiple_of(SELDOM) {
            return Ok(());
        }
        // Another place in each batch, so that what was asked for before is not all that is looked at.
        let place = usize::try_from(number.wrapping_mul(0x9E37_79B9) >> 8).unwrap_or_default();
        let Some(&record) = place.checked_rem(idxs.len()).and_then(|place| idxs.get(place)) else {
            return Ok(());
        };
        let asking = Asking { open, header, uniform, sums: open.verify.applies_to(header) };
        if asking.is_at_hand(record)? {
            if distrust == 0 {
                return Ok(());
            }
            self.distrust.store(distrust - 1, Ordering::Relaxed);
        } else {
            self.distrust.store(DISTRUST, Ordering::Relaxed);
        }
        asking.ask(idxs)
    }
}

struct Asking<'a> {
    open: &'a Open,
    header: &'a Header,
    uniform: Option<Uniform>,
    /// Whether sums are going to be read.
    sums: bool,
}

impl Asking<'_> {
    fn is_at_hand(&self, record: u64) -> Result<bool> {
        if self.uniform.is_none() && !self.open.loc.is_at_hand(record)? {
            return Ok(false);
        }
        let entry = self.entry(&mut self.locator(), record)?;
        if entry.stored > 0 && !self.open.chunks.is_at_hand(entry.chunk.into(), entry.offset.into())? {
            return Ok(false);
        }
        if self.sums { self.open.sum.is_at_hand(record) } else { Ok(true) }
    }

    fn locator(&self) -> Locator<'_> {
        Locator::new(self.open, self.header, Verify::Never)
    }

    fn entry(&self, locator: &mut Locator<'_>, record: u64) -> Result<Entry> {
        match self.uniform {
            Some(uniform) => Ok(uniform.entry(record)),
            None => Ok(locator.locate(record)?.entry),
        }
    }

    /// Tables first: they say where the bytes are.
    fn ask(&self, idxs: &[u64]) -> Result<()> {
        self.in_blocks(idxs, &|block| {
            for &record in block {
                if self.uniform.is_none() {
                    self.open.loc.ask(record)?;
                }
                if self.sums {
                    self.open.sum.ask(record)?;
                }
            }
            Ok(())
        })?;
        self.in_blocks(idxs, &|block| {
            let mut locator = self.locator();
            let mut asked = 0;
            let most = ASKED_BYTES * block.len() as u64 / idxs.len() as u64;
            for &record in block {
                let entry = self.entry(&mut locator, record)?;
                if entry.stored == 0 {
                    continue;
                }
                asked += u64::from(entry.stored);
                if asked > most {
                    break;
                }
                self.open.chunks.ask(entry.chunk.into(), u64::from(entry.offset)..entry.end())?;
            }
            Ok(())
        })
    }

    fn in_blocks(&self, idxs: &[u64], work: &(dyn Fn(&[u64]) -> Result<()> + Sync)) -> Result<()> {
        let blocks: Vec<&[u64]> = idxs.chunks(BLOCK).collect();
        let outcomes = pool::map(blocks.len(), &|i| blocks.get(i).map_or(Ok(()), |block| work(block)));
        outcomes.map_err(|e| Error::Internal(e.to_string()))?.into_iter().collect()
    }
}
