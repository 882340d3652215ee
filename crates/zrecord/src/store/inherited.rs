//! A handle that came through a fork.
//!
//! Its reader's lock is the parent's: it neither keeps the parent from moving records nor outlasts the parent's `close`. So the
//! first use in a child takes a lock that is the child's own, and looks whether records were moved before it had one.

use std::io::ErrorKind;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use super::Store;
use super::read::current_header;
use crate::error::{Error, Result};
use crate::format::names;
use crate::lock;
use crate::open::Open;
use crate::storage::{Access, File};

/// The lock that a child took.
#[derive(Debug, Default)]
pub(super) struct Inherited {
    /// The child: its own children have the descriptor too, but need a lock of their own.
    process: AtomicU32,
    meta: Mutex<Option<Arc<dyn File>>>,
}

impl Store {
    /// In a forked child: make sure that nobody moves records from here on, and that nobody did since the parent looked.
    pub(super) fn hold_in_child(&self, open: &Open) -> Result<()> {
        let (process, inherited) = (std::process::id(), &self.inherited);
        if inherited.process.load(Ordering::Acquire) == process {
            return Ok(());
        }
        let mut own = self.guard(|| inherited.meta.lock(), || inherited.meta.try_lock())?;
        let meta = match open.dir.open(names::META, Access::Read) {
            Ok(meta) => meta,
            // Nobody opens a store that was removed, so nobody moves its records.
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
            Err(e) => return Err(Error::io("open", open.dir.path().join(names::META))(e)),
        };
        lock::share(open.dir.path(), &*meta)?;
        current_header(open, &*meta)?;
        *own = Some(meta);
        inherited.process.store(process, Ordering::Release);
        Ok(())
    }

    /// Give a child's own lock back.
    pub(super) fn release_in_child(&self) {
        if self.inherited.process.load(Ordering::Acquire) == std::process::id()
            && let Ok(mut own) = self.inherited.meta.try_lock()
            && let Some(meta) = own.take()
        {
            // Without it the lock still goes with the last descriptor.
            let _ = meta.unlock();
        }
    }
}
