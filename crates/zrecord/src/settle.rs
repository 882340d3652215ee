//! What opening does with a store that was not closed: believe the writer that is at work, or mend what a crash left.

use std::io::ErrorKind;

use crate::append::Writer;
use crate::error::{Error, Result};
use crate::format::Header;
use crate::lock;
use crate::open::{Found, Open};
use crate::options::Options;
use crate::recover::{self, Condition};
use crate::storage::File;

/// Publish a header whose every record is there: as it stands, mended through a writer if one may be had, or cut in memory.
pub(crate) fn settle(open: &Open, found: &Found, options: &Options) -> Result<()> {
    if let Condition::Settled(header) = recover::examine(open, found)? {
        open.publish(header);
        return Ok(());
    }
    let quiet = lock::quiet(&*open.dir)?;
    // Perhaps it was being mended, or its writer closed it.
    let condition = examine_again(open, &*open.meta)?;
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
            // Somebody else was quicker, and is the writer once it has mended.
            Err(Error::Locked { .. }) => {
                let _quiet = lock::quiet(&*open.dir)?;
                return believe(open, examine_again(open, &*open.meta)?);
            }
            // No writing from here: what is there is read as it is.
            Err(Error::Io { verb, source, .. })
                if verb == lock::VERB
                    || matches!(
                        source.kind(),
                        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem
                    ) => {}
            Err(e) => return Err(e),
        }
    }
    let _quiet = lock::quiet(&*open.dir)?;
    match examine_again(open, &*open.meta)? {
        Condition::Settled(header) => open.publish(header),
        Condition::Tail { header, durable } => open.publish(recover::cut_tail(open, &header, &durable)?),
        Condition::Unfinished(_) => return Err(Error::Unfinished { path: open.path() }),
    }
    Ok(())
}

/// The newest header that an open handle may believe. What it saw before was whole; what a dead writer left after that is checked,
/// as on opening, but never mended.
pub(crate) fn look_again(open: &Open, meta: &dyn File) -> Result<Header> {
    let before = open.header();
    let believed = |header: &Header| header.generation != before.generation || header.length <= before.length;
    let condition = examine_again(open, meta)?;
    match &condition {
        Condition::Tail { header, .. } if !believed(header) && !lock::writer_alive(&*open.dir) => {}
        _ => return condition.header(open),
    }
    let _quiet = lock::quiet(&*open.dir)?;
    match examine_again(open, meta)? {
        Condition::Tail { header, durable } if !believed(&header) && !lock::writer_alive(&*open.dir) => {
            let whole = if durable.length < before.length { before } else { durable };
            recover::cut_tail(open, &header, &whole)
        }
        condition => condition.header(open),
    }
}

fn examine_again(open: &Open, meta: &dyn File) -> Result<Condition> {
    recover::examine(open, &Found::read(&*open.dir, meta)?)
}

/// No crash: a writer is at work, and what its header says is there.
fn believe(open: &Open, condition: Condition) -> Result<()> {
    condition.header(open).map(|header| open.publish(header))
}
