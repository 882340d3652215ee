//! Files named by a number and an extension: chunks, and the segments of tables.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::ops::{Range, RangeBounds};
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

use super::{Access, Directory, File, Mapped, remove_if_there};
use crate::error::{Error, Result};

fn file_name(number: u64, extension: &str) -> String {
    format!("{number}.{extension}")
}

/// The number in a file's name, if it is one of these files.
fn number_of(name: &str, extension: &str) -> Option<u64> {
    let number = name.strip_suffix(extension)?.strip_suffix('.')?.parse().ok()?;
    // Not "007.chunk": no file of ours has such a name.
    (file_name(number, extension) == name).then_some(number)
}

fn numbers(dir: &dyn Directory, extension: &str) -> Result<Vec<u64>> {
    let names = dir.list().map_err(Error::io("list", dir.path()))?;
    Ok(names.iter().filter_map(|name| number_of(name, extension)).collect())
}

/// The reading side: each file is opened when it is first needed.
#[derive(Debug)]
pub(crate) struct NumberedFiles {
    dir: Arc<dyn Directory>,
    extension: &'static str,
    files: RwLock<HashMap<u64, Arc<Mapped>>>,
}

impl NumberedFiles {
    pub(crate) fn new(dir: &Arc<dyn Directory>, extension: &'static str) -> Self {
        Self { dir: dir.clone(), extension, files: RwLock::default() }
    }

    pub(crate) fn path(&self, number: u64) -> PathBuf {
        self.dir.path().join(file_name(number, self.extension))
    }

    /// Nobody is waited for, as in [`Mapped::map`].
    pub(crate) fn get(&self, number: u64) -> Result<Arc<Mapped>> {
        let known = self.files.try_read().ok().and_then(|files| files.get(&number).cloned());
        if let Some(found) = known {
            return Ok(found);
        }
        let name = file_name(number, self.extension);
        let file = self.dir.open(&name, Access::Read).map_err(|e| self.fail(number, e))?;
        let file = Arc::new(Mapped::new(file));
        match self.files.try_write() {
            Ok(mut files) => Ok(files.entry(number).or_insert(file).clone()),
            Err(_) => Ok(file),
        }
    }

    pub(crate) fn length(&self, number: u64) -> Result<u64> {
        self.get(number)?.file().len().map_err(|e| self.fail(number, e))
    }

    /// Whether the byte at `offset` of a file is in memory, as far as can be told.
    pub(crate) fn is_at_hand(&self, number: u64, offset: u64) -> Result<bool> {
        Ok(self.get(number)?.file().is_at_hand(offset))
    }

    /// Let the system read bytes of a file that will be needed soon.
    pub(crate) fn ask(&self, number: u64, bytes: Range<u64>) -> Result<()> {
        self.get(number)?.file().ask(bytes);
        Ok(())
    }

    /// The numbers of the files that there are.
    pub(crate) fn numbers(&self) -> Result<Vec<u64>> {
        numbers(&*self.dir, self.extension)
    }

    /// What a failed read means: a store's files exist, and are as long as its header and table say.
    pub(crate) fn fail(&self, number: u64, e: io::Error) -> Error {
        let path = self.path(number);
        match e.kind() {
            io::ErrorKind::NotFound => Error::corrupt(path, "a file of the store", "none", "a file"),
            io::ErrorKind::UnexpectedEof => {
                Error::corrupt(path, "the length of a file", e, "all bytes in use")
            }
            _ => Error::io("read", path)(e),
        }
    }

    /// The files that are open. Nobody is waited for.
    pub(crate) fn opened(&self) -> Vec<Arc<Mapped>> {
        self.files.try_read().map(|files| files.values().cloned().collect()).unwrap_or_default()
    }

    /// Forget what is open: the files were moved or cut.
    pub(crate) fn forget(&self) {
        self.files.write().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// The writing side; its owner is the store's one writer.
#[derive(Debug)]
pub(crate) struct NumberedWriter {
    dir: Arc<dyn Directory>,
    extension: &'static str,
    /// Open files, and whether they were written to since the last sync.
    files: BTreeMap<u64, (Arc<dyn File>, bool)>,
}

impl NumberedWriter {
    pub(crate) fn new(dir: &Arc<dyn Directory>, extension: &'static str) -> Self {
        Self { dir: dir.clone(), extension, files: BTreeMap::new() }
    }

    fn fail(&self, verb: &'static str, number: u64) -> impl FnOnce(io::Error) -> Error + use<> {
        Error::io(verb, self.dir.path().join(file_name(number, self.extension)))
    }

    fn exists(&self, number: u64) -> Result<bool> {
        match self.dir.open(&file_name(number, self.extension), Access::Read) {
            Ok(_) => Ok(true),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(self.fail("open", number)(e)),
        }
    }

    /// The file, opened or made; it counts as written to.
    pub(crate) fn get(&mut self, number: u64) -> Result<Arc<dyn File>> {
        if let Some((file, dirty)) = self.files.get_mut(&number) {
            *dirty = true;
            return Ok(file.clone());
        }
        let name = file_name(number, self.extension);
        let file = self.dir.open(&name, Access::Write).map_err(self.fail("open", number))?;
        self.files.insert(number, (file.clone(), true));
        Ok(file)
    }

    pub(crate) fn write(&mut self, number: u64, bytes: &[u8], offset: u64) -> Result<()> {
        self.get(number)?.write_at(bytes, offset).map_err(self.fail("write", number))
    }

    /// Make a file at least `length` bytes long; new bytes are zero, and take no space on most file systems.
    pub(crate) fn extend(&mut self, number: u64, length: u64) -> Result<()> {
        let file = self.get(number)?;
        if file.len().map_err(self.fail("read", number))? < length {
            file.set_len(length).map_err(self.fail("resize", number))?;
        }
        Ok(())
    }

    /// Cut off what lies behind `length` bytes. A file that is shorter stays so: what is missing is for its readers to notice.
    pub(crate) fn cut(&mut self, number: u64, length: u64) -> Result<()> {
        if !self.exists(number)? {
            return Ok(());
        }
        let file = self.get(number)?;
        if file.len().map_err(self.fail("read", number))? > length {
            file.set_len(length).map_err(self.fail("resize", number))?;
        }
        Ok(())
    }

    /// The files that there are with numbers in `range`.
    fn numbers(&self, range: impl RangeBounds<u64>) -> Result<Vec<u64>> {
        Ok(numbers(&*self.dir, self.extension)?.into_iter().filter(|number| range.contains(number)).collect())
    }

    /// How many of the files before `end` there are.
    pub(crate) fn count(&self, end: u64) -> Result<u64> {
        Ok(self.numbers(..end)?.len() as u64)
    }

    /// Some of `needed` files are missing.
    pub(crate) fn incomplete(&self, found: u64, needed: u64) -> Error {
        let path = self.dir.path().join(format!("*.{}", self.extension));
        Error::corrupt(path, "the number of files", found, needed)
    }

    /// Count files as written to: somebody else wrote them and may not have synced.
    pub(crate) fn touch(&mut self, range: Range<u64>) -> Result<()> {
        self.numbers(range)?.into_iter().try_for_each(|number| self.get(number).map(drop))
    }

    /// Remove the files from `first` on; a removal that was cut short may have left gaps in their numbers.
    pub(crate) fn remove_from(&mut self, first: u64) -> Result<()> {
        self.files.retain(|&number, _| number < first);
        for number in self.numbers(first..)? {
            remove_if_there(&*self.dir, &file_name(number, self.extension))
                .map_err(self.fail("remove", number))?;
        }
        Ok(())
    }

    /// Remove the files that are there but hold nothing.
    pub(crate) fn remove_empty(&mut self) -> Result<()> {
        for number in self.numbers(..)? {
            if self.get(number)?.len().map_err(self.fail("read", number))? == 0 {
                self.files.remove(&number);
                remove_if_there(&*self.dir, &file_name(number, self.extension))
                    .map_err(self.fail("remove", number))?;
            }
        }
        Ok(())
    }

    /// Begin to make the bytes in `range` of a file durable.
    pub(crate) fn begin_sync(&self, number: u64, range: Range<u64>) {
        if let Some((file, _)) = self.files.get(&number) {
            file.begin_sync(range.start, range.end.saturating_sub(range.start));
        }
    }

    /// Begin to make everything written durable: several files are on their way to the disk together.
    pub(crate) fn begin_sync_all(&self) {
        for (file, dirty) in self.files.values() {
            if *dirty {
                // To the end, wherever that is.
                file.begin_sync(0, 0);
            }
        }
    }

    /// Make everything written durable.
    pub(crate) fn sync(&mut self) -> Result<()> {
        for (&number, (file, dirty)) in &mut self.files {
            if *dirty {
                let path = self.dir.path().join(file_name(number, self.extension));
                file.sync().map_err(Error::io("sync", path))?;
                *dirty = false;
            }
        }
        // The last one is written to again; a descriptor for each of the others would be kept for nothing.
        while self.files.len() > 1 {
            self.files.pop_first();
        }
        Ok(())
    }
}
