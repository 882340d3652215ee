//! How a store begins, and the small files that are written beside its records.

use std::path::Path;
use std::sync::Arc;

use crate::append::Writer;
use crate::checksum::crc32c;
use crate::codec::{Codec, Decoder, Dictionary};
use crate::error::{Error, Result};
use crate::format::{Entry, FLAG_SHAPES, FLAG_SUMS, Header, MAX_RECORD_LEN, Shape, SyncSlot, names};
use crate::lock;
use crate::open::{Found, Open};
use crate::options::{Io, Options};
use crate::recover::read_stored;
use crate::rows;
use crate::storage::{self, Access, Directory, RealDirectory, read_small, remove_if_there, replace, zeroed};

/// Names that an interrupted creation can leave.
const LEFTOVERS: [&str; 3] = [names::SCHEMA, names::SYNC, names::LOCK];

pub(crate) fn exists(path: &Path) -> bool {
    match path.join(names::META).metadata() {
        Ok(metadata) => metadata.is_file(),
        // What can't be looked into is not called empty: opening it says what is wrong.
        Err(e) => e.kind() == std::io::ErrorKind::PermissionDenied,
    }
}

fn real(path: &Path, options: &Options) -> Arc<dyn Directory> {
    let map = match options.io {
        Io::Mmap => true,
        Io::Pread => false,
        Io::Auto => storage::is_local(path),
    };
    // The handle stays with its store when the process changes its working directory.
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    Arc::new(RealDirectory::new(&path, map))
}

/// The directory of a new store, made if it is missing.
pub(crate) fn prepare_directory(path: &Path, options: &Options) -> Result<Arc<dyn Directory>> {
    check_settings(options)?;
    if exists(path) {
        return Err(Error::AlreadyExists { path: path.to_path_buf() });
    }
    if path.exists() && !path.is_dir() {
        return Err(not_a_directory(path));
    }
    if !path.is_dir() {
        RealDirectory::create(path).map_err(Error::io("create", path))?;
    }
    Ok(real(path, options))
}

/// The directory of a store that should be there.
pub(crate) fn existing_directory(path: &Path, options: &Options) -> Result<Arc<dyn Directory>> {
    match path.metadata() {
        Ok(metadata) if metadata.is_dir() => Ok(real(path, options)),
        Ok(_) => Err(not_a_directory(path)),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            Err(Error::NotFound { path: path.to_path_buf() })
        }
        Err(e) => Err(Error::io("open", path)(e)),
    }
}

fn not_a_directory(path: &Path) -> Error {
    Error::Io { verb: "open", path: path.to_path_buf(), source: rustix::io::Errno::NOTDIR.into() }
}

fn check_settings(options: &Options) -> Result<Option<i32>> {
    if options.chunk_limit == 0 {
        return Err(Error::InvalidArgument("chunk_limit is 0, expected at least one byte".to_owned()));
    }
    let codec = options.codec.unwrap_or(Codec::Zstd);
    codec.check_level(options.level).map_err(|e| Error::InvalidArgument(e.to_string()))
}

/// Write the files of an empty store; `meta.zr` comes last and makes it one.
pub(crate) fn create(dir: &Arc<dyn Directory>, options: &Options) -> Result<()> {
    let level = check_settings(options)?;
    let there = dir.list().map_err(Error::io("list", dir.path()))?;
    let ours = |name: &str| {
        LEFTOVERS.contains(&name)
            || [names::META, names::SCHEMA, names::SYNC].map(names::temporary).contains(&name.to_owned())
    };
    let foreign = |name: &&String| !ours(name);
    if there.iter().any(|name| name == names::META) {
        return Err(Error::AlreadyExists { path: dir.path().to_path_buf() });
    }
    if let Some(name) = there.iter().find(foreign) {
        let reason = format!("it holds {name:?}, and a new store needs an empty directory");
        return Err(Error::NotAStore { path: dir.path().to_path_buf(), reason });
    }
    let _alone = lock::write(&**dir)?;
    if dir.open(names::META, Access::Read).is_ok() {
        return Err(Error::AlreadyExists { path: dir.path().to_path_buf() });
    }
    let header = Header::empty(options.codec.unwrap_or(Codec::Zstd));
    let slot = SyncSlot { header, sequence: 1, level: level.unwrap_or(0), dict_crc: 0 };
    let mut slots = vec![0; SyncSlot::FILE_SIZE];
    if let Some(place) = slots.get_mut(SyncSlot::STRIDE..SyncSlot::STRIDE + SyncSlot::SIZE) {
        place.copy_from_slice(&slot.encode());
    }
    let write = |name: &str, bytes: &[u8]| {
        replace(&**dir, name, bytes).map_err(Error::io("write", dir.path().join(name)))
    };
    match &options.schema {
        Some(schema) => write(names::SCHEMA, schema)?,
        // One that an interrupted creation left would say what these records are not.
        None => remove_if_there(&**dir, names::SCHEMA)
            .map_err(Error::io("remove", dir.path().join(names::SCHEMA)))?,
    }
    write(names::SYNC, &slots)?;
    write(names::META, &header.encode())
}

/// A store with records takes only the dictionary that they were written with.
pub(crate) fn check_dictionary(open: &Open, installed: bool, dictionary: &Arc<Dictionary>) -> Result<()> {
    let refuse = |why: &str| Err(Error::InvalidArgument(format!("{}: {why}", open.dir.path().display())));
    if installed {
        return refuse("records were written with another dictionary; they could not be read with this one");
    }
    let expected = Found::read(&*open.dir, &*open.meta)?.slot.map_or(0, |slot| slot.dict_crc);
    if expected != 0 {
        let is = crc32c(dictionary.bytes());
        let why =
            format!("its checksum is {is:#010x}, but records were written with the one of {expected:#010x}");
        return if is == expected { Ok(()) } else { refuse(&why) };
    }
    let mut bytes = [0; Entry::SIZE];
    open.loc.read_range(0, &mut bytes)?;
    let entry = Entry::decode(&bytes);
    let decoder = Decoder::new(open.codec, Some(dictionary.clone()))?;
    let stored = read_stored(open, &entry)?;
    // A zstd block holds 128 KiB at most and takes four bytes at least: a damaged length must not ask for more memory than that.
    let most = (stored.len() as u64 / 4 + 1) << 17;
    if u64::from(entry.logical) > MAX_RECORD_LEN.min(most) {
        return refuse("record 0 is damaged, so no dictionary can be tried on it");
    }
    let mut record = zeroed(entry.logical as usize).map_err(Error::io("read", open.dir.path()))?;
    match decoder.decode_into(&stored, &mut record) {
        Ok(()) => Ok(()),
        Err(e) => refuse(&format!("record 0 does not decode with this dictionary ({e})")),
    }
}

/// Write a shape table for all records, make it durable and valid, then replace the schema that held the shapes.
pub(crate) fn adopt_shapes(open: &Open, writer: &mut Writer, shapes: &[Shape], schema: &[u8]) -> Result<()> {
    let bytes: Vec<u8> = shapes.iter().flat_map(Shape::encode).collect();
    if !writer.header.has(FLAG_SHAPES) {
        let header = Header { flags: writer.header.flags | FLAG_SHAPES, ..writer.header };
        if writer.header.has(FLAG_SUMS) && !shapes.iter().all(Shape::is_plain) {
            // A sum covers the shape. Until all of them do they are unknown, should this be cut.
            writer.write_header(Header { flags: 0, ..header })?;
            writer.sync()?;
            rows::put_shapes_into_sums(open, writer, shapes)?;
        }
        writer.shape.cut(0)?;
        writer.shape.write(0, &bytes)?;
        writer.sync_tables()?;
        writer.sync_names()?;
        writer.write_header(header)?;
        writer.sync()?;
        open.publish(header);
    }
    // Otherwise the table was written before, and a crash left the schema as it was.
    replace(&*open.dir, names::SCHEMA, schema).map_err(writer.fail("write", names::SCHEMA))
}

fn parent_and_name(path: &Path) -> Result<(Arc<dyn Directory>, String)> {
    let name = path.file_name().and_then(|name| name.to_str());
    let name = name.ok_or_else(|| Error::InvalidArgument(format!("{} names no file", path.display())))?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok((Arc::new(RealDirectory::new(parent, false)), name.to_owned()))
}

/// Read a small file of at most 2 GiB whole.
///
/// # Errors
/// I/O; a file that is missing or too large.
pub fn read_file(path: &Path) -> Result<Vec<u8>> {
    let (dir, name) = parent_and_name(path)?;
    let bytes = read_small(&*dir, &name, 1 << 31).map_err(Error::io("read", path))?;
    bytes.ok_or_else(|| Error::io("read", path)(rustix::io::Errno::NOENT.into()))
}

/// Replace a small file durably: temporary name, sync, rename, sync of the directory.
///
/// # Errors
/// I/O; the old content is still there then.
pub fn replace_file(path: &Path, bytes: &[u8]) -> Result<()> {
    let (dir, name) = parent_and_name(path)?;
    replace(&*dir, &name, bytes).map_err(Error::io("write", path))
}
