//! The class `Store`.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::Arc;

use numpy::{PyArray1, PyArray2, PyArrayDescr, PyArrayDescrMethods};
use pyo3::exceptions::{PyIndexError, PyMemoryError, PyValueError};
use pyo3::prelude::*;
use zrecord::{Io, Options, Verify};

use crate::array::{Destination, Numbers, Records, Rows, Shapes, Source, indices, plain};
use crate::error::{Raise, detached};
use crate::memory::on;
use crate::packed::{Packed, ShapeRows, in_items, packed, shape_rows};

/// A store of byte records; see `loaderx.zrecord.Zrecord`.
///
/// Made by `create` and `open`. Threads may share it. Arrays are used in place, without a copy: byte sources and
/// destinations are C-contiguous arrays of any fixed-width dtype, indices and offsets are uint64, shape (n,). Another
/// layout, or an array that another call is writing, is a ValueError; another type is a TypeError. A handle that was
/// closed raises ValueError.
#[pyclass(module = "loaderx._core", frozen)]
pub(crate) struct Store {
    pub(crate) core: Arc<zrecord::Store>,
}

/// Records, and bytes: of live records, of chunk files, and of those what `compact` would give back at most.
#[derive(IntoPyObject)]
struct Stats {
    records: u64,
    live_bytes: u64,
    chunk_bytes: u64,
    reclaimable: u64,
}

/// Bytes of files that are mapped, and of those that are resident; None where the system doesn't tell.
#[derive(IntoPyObject)]
struct Mapping {
    mapped: u64,
    resident: Option<u64>,
}

#[pymethods]
impl Store {
    /// Create a store in a directory that is missing or empty.
    ///
    /// FileExistsError if a store is there, ZrecordError if something else is.
    #[staticmethod]
    #[pyo3(signature = (path, codec = "zstd", level = None, schema = None, chunk_limit = None))]
    fn create(
        py: Python<'_>,
        path: PathBuf,
        codec: &str,
        level: Option<i32>,
        schema: Option<&[u8]>,
        chunk_limit: Option<u32>,
    ) -> PyResult<Self> {
        let mut options = options(py, Some(codec), chunk_limit)?;
        if let Some(level) = level {
            options = options.level(level);
        }
        if let Some(schema) = schema {
            options = options.schema(schema.to_vec());
        }
        let core = detached(py, || zrecord::Store::create(&path, options))?;
        Ok(Self { core: Arc::new(core) })
    }

    /// Open an existing store.
    ///
    /// FileNotFoundError if there is none, ValueError if `codec` is not its codec.
    #[staticmethod]
    #[pyo3(signature = (path, codec = None, read_only = false, verify = "always", io = "auto", chunk_limit = None))]
    fn open(
        py: Python<'_>,
        path: PathBuf,
        codec: Option<&str>,
        read_only: bool,
        verify: &str,
        io: &str,
        chunk_limit: Option<u32>,
    ) -> PyResult<Self> {
        let verify = match verify {
            "always" => Verify::Always,
            "once" => Verify::Once,
            "never" => Verify::Never,
            found => return Err(unknown("verify", "\"always\", \"once\" or \"never\"", found)),
        };
        let io = match io {
            "auto" => Io::Auto,
            "mmap" => Io::Mmap,
            "pread" => Io::Pread,
            found => return Err(unknown("io", "\"auto\", \"mmap\" or \"pread\"", found)),
        };
        let options = options(py, codec, chunk_limit)?.read_only(read_only).verify(verify).io(io);
        let core = detached(py, || zrecord::Store::open(&path, options))?;
        Ok(Self { core: Arc::new(core) })
    }

    /// Whether `path` is a directory with a `meta.zr`.
    #[staticmethod]
    fn exists(py: Python<'_>, path: PathBuf) -> PyResult<bool> {
        detached(py, || Ok::<_, zrecord::Error>(zrecord::Store::exists(&path)))
    }

    /// The store's directory, as it was given.
    #[getter]
    fn path(&self) -> &OsStr {
        self.core.path().as_os_str()
    }

    /// "raw", "zstd" or "zstd_dict".
    #[getter]
    fn codec(&self) -> &'static str {
        self.core.codec().name()
    }

    /// The zstd level of new records; None for "raw".
    #[getter]
    fn level(&self) -> Option<i32> {
        self.core.level()
    }

    /// Counts deletes and compactions.
    #[getter]
    fn generation(&self, py: Python<'_>) -> PyResult<u32> {
        detached(py, || self.core.generation())
    }

    /// Whether the records have checksums.
    #[getter]
    fn sums_known(&self, py: Python<'_>) -> PyResult<bool> {
        detached(py, || self.core.sums_known())
    }

    /// Whether the store keeps a shape a record.
    #[getter]
    fn has_shapes(&self, py: Python<'_>) -> PyResult<bool> {
        detached(py, || self.core.has_shapes())
    }

    /// Whether this handle has become the writer.
    #[getter]
    fn has_written(&self) -> bool {
        self.core.has_written()
    }

    /// Whether any handle, in this process or another, is the store's writer now.
    #[getter]
    fn has_writer(&self, py: Python<'_>) -> PyResult<bool> {
        detached(py, || Ok::<_, zrecord::Error>(self.core.has_writer()))
    }

    /// Whether `close` was called.
    #[getter]
    fn closed(&self) -> bool {
        self.core.is_closed()
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        let length = detached(py, || self.core.len())?;
        usize::try_from(length)
            .map_err(|_| PyMemoryError::new_err("more records than this machine can index"))
    }

    fn __repr__(&self) -> String {
        format!("Store({:?}, codec={:?})", self.core.path(), self.core.codec().name())
    }

    /// Append records packed in `src`, and return the index of the first.
    ///
    /// Record i starts at byte offsets[i], the first at 0; the last one ends at the end of `src`. ValueError for
    /// offsets that are no packing or a record above MAX_RECORD_LEN; StoreLockedError if another handle writes.
    ///
    /// `shapes` is as for `append_list`.
    #[pyo3(signature = (src, offsets, shapes = None))]
    fn append(
        &self,
        py: Python<'_>,
        src: Source<'_>,
        offsets: Numbers<'_>,
        shapes: Option<Shapes>,
    ) -> PyResult<u64> {
        let (src, offsets) = (src.as_slice()?, offsets.as_slice()?);
        let shapes = shapes.as_ref().map(Shapes::as_slice);
        detached(py, || self.core.append(&zrecord::Records::packed(src, offsets)?, shapes))
    }

    /// Append one record a row along axis 0 of a C-contiguous array, and return the index of the first.
    fn append_rows(&self, py: Python<'_>, rows: Rows<'_>) -> PyResult<u64> {
        let (src, count) = (rows.as_slice()?, rows.count);
        detached(py, || self.core.append(&zrecord::Records::rows(src, count)?, None))
    }

    /// Append one record an element (C-contiguous arrays, bytes), and return the index of the first.
    ///
    /// `shapes` is uint32, shape (n, 8): rows of the `.shape` file; None: all one-dimensional.
    #[pyo3(signature = (records, shapes = None))]
    fn append_list(&self, py: Python<'_>, records: Records<'_>, shapes: Option<Shapes>) -> PyResult<u64> {
        let slices = zrecord::Records::list(records.as_slices()?);
        detached(py, || self.core.append(&slices, shapes.as_ref().map(Shapes::as_slice)))
    }

    /// Record idxs[i] into the C-contiguous, writable `dst` at byte offsets[i].
    ///
    /// IndexError for an index out of range; ValueError for ranges that overlap or pass the end of `dst`;
    /// CorruptRecordError for a record that is not what was written.
    fn gather(
        &self,
        py: Python<'_>,
        idxs: Numbers<'_>,
        mut dst: Destination<'_>,
        offsets: Numbers<'_>,
    ) -> PyResult<()> {
        let (idxs, dst, offsets) = (idxs.as_slice()?, dst.as_mut_slice()?, offsets.as_slice()?);
        detached(py, || self.core.gather(idxs, dst, offsets))
    }

    /// Record idxs[i] into row i along axis 0 of the C-contiguous, writable `dst`.
    ///
    /// Errors as in `gather`; ValueError also for a record that is not exactly one row long.
    fn gather_rows(&self, py: Python<'_>, idxs: Numbers<'_>, mut dst: Destination<'_>) -> PyResult<()> {
        let idxs = idxs.as_slice()?;
        if dst.rows != Some(idxs.len()) {
            let found = dst.rows.map_or("no axes".to_owned(), |rows| format!("{rows} rows"));
            return Err(PyValueError::new_err(format!(
                "expected a dst with a row for each of the {} records, found {found}",
                idxs.len()
            )));
        }
        let dst = dst.as_mut_slice()?;
        detached(py, || self.core.gather_rows(idxs, dst))
    }

    /// The records one after another, uint8; their n + 1 byte offsets, int64; and rows of the `.shape` file as in `shapes`, None where the
    /// store has none. All of one moment. Errors as in `gather`.
    fn gather_packed<'py>(&self, py: Python<'py>, idxs: Numbers<'py>) -> PyResult<Packed<'py>> {
        let idxs = idxs.as_slice()?;
        packed(py, detached(py, || zloader::pack(&self.core, idxs))?)
    }

    /// As `gather_packed`, in items: an array of `dtype`, shape (items,), n + 1 offsets of items, and shape rows, None where none says anything.
    ///
    /// None if `index` must be looked at first, as for `Rows.take`, or if the records are not all of whole items.
    fn gather_items<'py>(
        &self,
        py: Python<'py>,
        index: &Bound<'py, PyAny>,
        dtype: &Bound<'py, PyArrayDescr>,
    ) -> PyResult<Option<Packed<'py>>> {
        plain(dtype)?;
        let Some(idxs) = within(py, &self.core, index)? else { return Ok(None) };
        let gathered = match detached(py, || zloader::pack(&self.core, &idxs)) {
            Err(error) if error.is_instance_of::<PyIndexError>(py) => return Ok(None),
            gathered => gathered?,
        };
        let Some(places) = in_items(gathered.offsets, dtype.itemsize()) else { return Ok(None) };
        let items = gathered.values.len().checked_div(dtype.itemsize()).unwrap_or_default();
        let shapes = gathered.shapes.filter(|shapes| !shapes.iter().all(zrecord::Shape::is_plain));
        let rows = shapes.map(|shapes| shape_rows(py, &shapes));
        Ok(Some((on(gathered.values, &[items], dtype)?, PyArray1::from_vec(py, places), rows)))
    }

    /// The bytes of each record, uint32, shape (n,). IndexError for an index out of range.
    fn lengths<'py>(&self, py: Python<'py>, idxs: Numbers<'py>) -> PyResult<Bound<'py, PyArray1<u32>>> {
        let idxs = idxs.as_slice()?;
        Ok(PyArray1::from_slice(py, &detached(py, || self.core.lengths(idxs))?))
    }

    /// The lengths of `lengths`, and the rows of `shapes` or None where the store keeps none; both of one moment. No record is read.
    fn forms<'py>(
        &self,
        py: Python<'py>,
        idxs: Numbers<'py>,
    ) -> PyResult<(Bound<'py, PyArray1<u32>>, ShapeRows<'py>)> {
        let idxs = idxs.as_slice()?;
        let (lengths, shapes) = detached(py, || self.core.forms(idxs))?;
        Ok((PyArray1::from_slice(py, &lengths), shapes.map(|shapes| shape_rows(py, &shapes))))
    }

    /// Rows of the `.shape` file, uint32, shape (n, 8); zeros where the store has none. IndexError as in `lengths`.
    fn shapes<'py>(&self, py: Python<'py>, idxs: Numbers<'py>) -> PyResult<Bound<'py, PyArray2<u32>>> {
        let idxs = idxs.as_slice()?;
        Ok(shape_rows(py, &detached(py, || self.core.shapes(idxs))?))
    }

    /// Give a store that keeps its shapes elsewhere a `.shape` table, and the schema that goes with it.
    ///
    /// `shapes` is uint32, shape (len, 8).
    fn adopt_shapes(&self, py: Python<'_>, shapes: Shapes, schema: &[u8]) -> PyResult<()> {
        detached(py, || self.core.adopt_shapes(shapes.as_slice(), schema))
    }

    /// Remove records; duplicates and any order are fine. From the highest down, the last record fills each hole.
    ///
    /// IndexError for an index out of range; StoreLockedError while another handle has the store open.
    fn delete(&self, py: Python<'_>, idxs: Numbers<'_>) -> PyResult<()> {
        let idxs = idxs.as_slice()?;
        detached(py, || self.core.delete(idxs))
    }

    /// Give back the bytes of deleted records. StoreLockedError while another handle has the store open.
    fn compact(&self, py: Python<'_>) -> PyResult<()> {
        detached(py, || self.core.compact())
    }

    /// The number of records, and in bytes: live_bytes, chunk_bytes, reclaimable.
    fn stats(&self, py: Python<'_>) -> PyResult<Stats> {
        let stats = detached(py, || self.core.stats())?;
        Ok(Stats {
            records: stats.records,
            live_bytes: stats.live_bytes,
            chunk_bytes: stats.chunk_bytes,
            reclaimable: stats.reclaimable,
        })
    }

    /// The bytes of files that the handle has mapped, and of those that are resident.
    fn mapping(&self, py: Python<'_>) -> PyResult<Mapping> {
        let mapping = detached(py, || self.core.mapping())?;
        Ok(Mapping { mapped: mapping.mapped, resident: mapping.resident })
    }

    /// Unmap the files; whoever reads next maps them again. Views keep theirs.
    fn unmap(&self, py: Python<'_>) -> PyResult<()> {
        detached(py, || self.core.unmap())
    }

    /// Become the store's writer before there is something to write; returns the length, which only this handle can change from here on.
    fn begin_write(&self, py: Python<'_>) -> PyResult<u64> {
        detached(py, || self.core.begin_write())
    }

    /// Become the writer, and keep every other handle off the store until `release` or `close`; returns the length.
    ///
    /// StoreLockedError, naming `what`, while another handle has the store open.
    #[pyo3(signature = (what = "hold"))]
    fn hold(&self, py: Python<'_>, what: &str) -> PyResult<u64> {
        detached(py, || self.core.hold(what))
    }

    /// Let others open the store again after `hold`.
    fn release(&self, py: Python<'_>) -> PyResult<()> {
        detached(py, || self.core.release())
    }

    /// See no more than the first `length` records until the next refresh; returns how many are seen.
    fn limit(&self, py: Python<'_>, length: u64) -> PyResult<u64> {
        detached(py, || self.core.limit(length))
    }

    /// Make everything appended so far safe from a power cut.
    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        detached(py, || self.core.sync())
    }

    /// See what others appended since; returns the length. StaleStoreError if records were moved.
    fn refresh(&self, py: Python<'_>) -> PyResult<u64> {
        detached(py, || self.core.refresh())
    }

    /// Whether a dictionary is installed.
    fn has_dict(&self, py: Python<'_>) -> PyResult<bool> {
        detached(py, || self.core.has_dict())
    }

    /// Install a zstd dictionary in a "zstd_dict" store, and return its size in bytes.
    fn install_dict(&self, py: Python<'_>, dict_bytes: &[u8]) -> PyResult<usize> {
        detached(py, || self.core.install_dict(dict_bytes))?;
        Ok(dict_bytes.len())
    }

    /// Sync what this handle wrote, and release files and locks. Closing twice is fine.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        detached(py, || self.core.close())
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // A pipeline reads on, and whoever is last closes.
        if Arc::strong_count(&self.core) == 1 {
            // Closing syncs, and other threads shall run meanwhile. Nobody is left to be told how it went.
            let _ = Python::try_attach(|py| detached(py, || self.core.close()));
        }
    }
}

/// The indices of an array of them, if all are within the store: then there is memory worth asking for.
pub(crate) fn within(
    py: Python<'_>,
    store: &zrecord::Store,
    index: &Bound<'_, PyAny>,
) -> PyResult<Option<Vec<u64>>> {
    let Some(idxs) = indices(index)? else { return Ok(None) };
    let length = detached(py, || store.len())?;
    Ok(idxs.iter().all(|&index| index < length).then_some(idxs))
}

/// The options that creating and opening share.
fn options(py: Python<'_>, codec: Option<&str>, chunk_limit: Option<u32>) -> PyResult<Options> {
    let mut options = Options::new();
    if let Some(name) = codec {
        options = options.codec(name.parse().map_err(|error: zrecord::CodecError| error.raise(py))?);
    }
    if let Some(bytes) = chunk_limit {
        options = options.chunk_limit(bytes);
    }
    Ok(options)
}

fn unknown(name: &str, expected: &str, found: &str) -> PyErr {
    PyValueError::new_err(format!("unknown {name} {found:?}: expected {expected}"))
}
