//! What opening does with a store that was not closed: believe the writer that is at work, or mend what a crash left.

use std::io::ErrorKind;

use crate::append::Writer;
use crate::error::{Error, Result};
use crate::lock;
use crate::open::{Found, Open};
use crate::options::Options;
use crate::recover::{self, Condition};

/// Publish a header whose every record is there: as it stands, mended through a writer if one may be had, or cut in memory.
pub(crate) fn settle(open: &Open, found: &Found, options: &Options) -> Result<()> {
    if let Condition::Settled(header) = recover::examine(open, found)? {
        open.publish(header);
        return Ok(());
    }
    let quiet = lock::quiet(&*open.dir)?;
    // Perhaps it was being mended, or its writer closed it.
    let condition = examine_again(open)?;
    if let Condition::Settled(header) = condition {
        open.publish(header);
        return Ok(());
    }
    if lock::writer_alive(&*open.dir) {
        return believe(open, condition);
    }
    drop(quiet);
    if !options.read_only {
        match Writer::acquire(open, options) {
            Ok(writer) => {
                open.publish(writer.header);
                return Ok(());
            }
            // Somebody else was quicker, and is the writer now.
            Err(Error::Locked { .. }) => return believe(open, examine_again(open)?),
            Err(Error::Io { source, .. })
                if matches!(source.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem) => {}
            Err(e) => return Err(e),
        }
    }
    let _quiet = lock::quiet(&*open.dir)?;
    match examine_again(open)? {
        Condition::Settled(header) => open.publish(header),
        Condition::Tail { header, durable } => open.publish(recover::cut_tail(open, &header, &durable)?),
        Condition::Unfinished(_) => return Err(Error::Unfinished { path: open.path() }),
    }
    Ok(())
}

fn examine_again(open: &Open) -> Result<Condition> {
    recover::examine(open, &Found::read(&*open.dir, &*open.meta)?)
}

/// No crash: a writer is at work, and what its header says is there.
fn believe(open: &Open, condition: Condition) -> Result<()> {
    match condition {
        Condition::Settled(header) | Condition::Tail { header, .. } => open.publish(header),
        Condition::Unfinished(_) => return Err(Error::Unfinished { path: open.path() }),
    }
    Ok(())
}
